"""The two-layer net in Keras' form: Sequential, compile, fit."""

import numpy as np
from by_hand import D_IN, D_OUT, H, N, check, net_data, train

import prototorch as pt

x, y, _, _ = net_data()

model = pt.Sequential()
model.add(pt.layers.Dense(units=H, input_dim=D_IN, use_bias=False))
model.add(pt.layers.Activation("relu"))
model.add(pt.layers.Dense(units=D_OUT, use_bias=False))

optimizer = pt.optimizers.SGD(learning_rate=1e-1)
model.compile(loss="mean_squared_error", optimizer=optimizer)
w1, w2 = (np.array(w) for w in model.get_weights().values())
expected, _, _ = train(x, y, w1, w2, steps=50, learning_rate=1e-1, mean=True)

history = model.fit(x, y, epochs=50, batch_size=N, verbose=0)

check("the losses of 50 epochs", history.history["loss"], expected)
