"""A Wasserstein GAN by clipping, with Keras' train_step on PyTorch."""

import keras
import torch
from keras import layers, ops


class Clip(keras.constraints.Constraint):
    def __call__(self, w):
        return ops.clip(w, -0.01, 0.01)


class WGAN(keras.Model):
    def __init__(self, critic, generator):
        super().__init__()
        self.critic, self.generator = critic, generator
        self.seed = keras.random.SeedGenerator(0)

    def compile(self, critic_optimizer, generator_optimizer):
        super().compile()
        self.critic_optimizer, self.generator_optimizer = critic_optimizer, generator_optimizer

    def call(self, point):
        return self.generator(keras.random.normal((ops.shape(point)[0], 4), seed=self.seed))

    def update(self, net, optimizer, loss):
        self.zero_grad()
        loss.backward()
        weights = net.trainable_weights
        with torch.no_grad():
            optimizer.apply([w.value.grad for w in weights], weights)

    def train_step(self, points):
        for point in ops.split(points, 5):
            loss = ops.mean(self.critic(self(point))) - ops.mean(self.critic(point))
            self.update(self.critic, self.critic_optimizer, loss)
        fool = -ops.mean(self.critic(self(point)))
        self.update(self.generator, self.generator_optimizer, fool)
        return {"critic_loss": loss, "generator_loss": fool}


def net(inputs, outputs, constraint=None):
    x = point = keras.Input((inputs,))
    for _ in range(2):
        x = layers.Dense(64, activation="relu", kernel_constraint=constraint)(x)
    return keras.Model(point, layers.Dense(outputs, kernel_constraint=constraint)(x))


model = WGAN(net(2, 1, Clip()), net(4, 2))
model.build((None, 2))
model.compile(keras.optimizers.RMSprop(5e-5), keras.optimizers.RMSprop(5e-5))
