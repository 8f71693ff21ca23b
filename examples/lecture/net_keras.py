"""Keras: the two-layer net as Sequential, compile and fit.

The lecture's listing after its import lines are changed. Adapted: Keras 1's words output_dim, lr and nb_epoch are those
of Keras 3, units, learning_rate and epochs.
"""

import numpy as np
from by_hand import check, train  # added

from prototorch import Sequential
from prototorch.layers import Activation, Dense
from prototorch.optimizers import SGD

np.random.seed(0)  # added

N, D, H = 64, 1000, 100

model = Sequential()
model.add(Dense(input_dim=D, units=H))
model.add(Activation("relu"))
model.add(Dense(input_dim=H, units=D))

optimizer = SGD(learning_rate=1e0)
model.compile(loss="mean_squared_error", optimizer=optimizer)

x = np.random.randn(N, D)
y = np.random.randn(N, D)
start = model.get_weights()  # added
history = model.fit(x, y, epochs=50, batch_size=N, verbose=0)

expected, weights = train(x, y, start.values(), steps=50, learning_rate=1e0, loss="mean")  # added
check("the losses of 50 epochs", history.history["loss"], expected)  # added
for (name, value), by_hand in zip(model.get_weights().items(), weights):  # added
    check(f"{name} after them", value, by_hand)  # added
