"""GPT-2 small, its head tied to the embedding of the tokens."""

import keras
from keras import layers

vocabulary, length, dim, heads = 50257, 1024, 768, 12


class PositionEmbedding(layers.Layer):
    def build(self, shape):
        self.positions = self.add_weight(shape=shape[1:])

    def call(self, x):
        return x + self.positions


def block(x):
    y = layers.LayerNormalization(epsilon=1e-5)(x)
    x += layers.MultiHeadAttention(heads, dim // heads)(y, y, use_causal_mask=True)
    y = layers.LayerNormalization(epsilon=1e-5)(x)
    y = layers.Dense(4 * dim, activation="gelu")(y)
    return x + layers.Dense(dim)(y)


tokens = keras.Input((length,), dtype="int32", name="tokens")
embedding = layers.ReversibleEmbedding(vocabulary, dim)
x = PositionEmbedding()(embedding(tokens))
for _ in range(12):
    x = block(x)
x = layers.LayerNormalization(epsilon=1e-5)(x)
logits = embedding(x, reverse=True)
model = keras.Model(tokens, logits, name="gpt2_small")
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.AdamW(3e-4, weight_decay=0.1),
    metrics=["accuracy"],
)
