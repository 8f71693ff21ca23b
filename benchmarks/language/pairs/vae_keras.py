"""A variational autoencoder."""

import keras
from keras import layers, ops


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed = keras.random.SeedGenerator(0)

    def call(self, inputs):
        mean, log_var = inputs
        self.add_loss(-0.5 * ops.mean(ops.sum(1 + log_var - mean**2 - ops.exp(log_var), axis=1)))
        noise = keras.random.normal(ops.shape(mean), seed=self.seed)
        return mean + ops.exp(log_var / 2) * noise


def reconstruction(image, pixels):
    image = ops.reshape(image, (-1, 784))
    return 784 * keras.losses.binary_crossentropy(image, pixels, from_logits=True)


inputs = keras.Input((28, 28, 1), name="image")
x = layers.Flatten()(inputs)
x = layers.Dense(256, activation="relu")(x)
mean = layers.Dense(8)(x)
log_var = layers.Dense(8)(x)
x = Sampling()([mean, log_var])
x = layers.Dense(256, activation="relu")(x)
outputs = layers.Dense(784)(x)
model = keras.Model(inputs, outputs, name="vae")
model.compile(loss=reconstruction, optimizer="adam")
