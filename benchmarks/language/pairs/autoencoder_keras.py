"""A convolutional autoencoder."""

import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((28, 28, 1), name="image"),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(32, name="code"),
        layers.Dense(7 * 7 * 32, activation="relu"),
        layers.Reshape((7, 7, 32)),
        layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
    ],
    name="autoencoder",
)
model.compile(loss="binary_crossentropy", optimizer="adam")
