"""A text from a text: two LSTMs, the second of which looks back by attention."""

import keras
from keras import layers

vocabulary, dim, units = 8000, 128, 256

source = keras.Input((32,), dtype="int32", name="source")
target = keras.Input((32,), dtype="int32", name="target")
x = layers.Embedding(vocabulary, dim, mask_zero=True)(source)
read, h, c = layers.LSTM(units, return_sequences=True, return_state=True)(x)
y = layers.Embedding(vocabulary, dim, mask_zero=True)(target)
y = layers.LSTM(units, return_sequences=True)(y, initial_state=[h, c])
context = layers.MultiHeadAttention(1, units)(y, read)
y = layers.Concatenate()([y, context])
y = layers.Dense(units, activation="tanh")(y)
logits = layers.Dense(vocabulary)(y)
model = keras.Model([source, target], logits, name="seq2seq")
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.Adam(1e-3, clipnorm=1.0),
    metrics=["accuracy"],
)
