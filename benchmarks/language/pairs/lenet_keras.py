"""LeNet."""

import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((28, 28, 1), name="image"),
        layers.Rescaling(1 / 255),
        layers.Conv2D(20, 5, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(50, 5, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(500, activation="relu"),
        layers.Dense(10, name="logits"),
    ],
    name="lenet",
)
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.Adam(1e-3),
    metrics=["accuracy"],
)
