"""ViT-B/16 with its class token."""

import keras
from keras import layers, ops

dim, heads, size, patch = 768, 12, 224, 16


class TokenAndPosition(layers.Layer):
    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[2]), initializer="zeros")
        self.positions = self.add_weight(shape=(shape[1] + 1, shape[2]))

    def call(self, x):
        token = ops.broadcast_to(self.token, (ops.shape(x)[0], 1, x.shape[2]))
        return ops.concatenate([token, x], axis=1) + self.positions


def encoder(x):
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    x += layers.MultiHeadAttention(heads, dim // heads)(y, y)
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = layers.Dense(4 * dim, activation="gelu")(y)
    return x + layers.Dense(dim)(y)


inputs = keras.Input((size, size, 3), name="image")
x = layers.Conv2D(dim, patch, patch)(inputs)
x = TokenAndPosition()(layers.Reshape((-1, dim))(x))
for _ in range(12):
    x = encoder(x)
x = layers.LayerNormalization(epsilon=1e-6)(x)
logits = layers.Dense(1000)(x[:, 0])
model = keras.Model(inputs, logits, name="vit_b16")
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.AdamW(3e-3, weight_decay=0.1),
    metrics=["accuracy"],
)
