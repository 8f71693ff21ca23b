"""A bidirectional LSTM that classifies texts."""

import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((200,), dtype="int32", name="tokens"),
        layers.Embedding(20000, 128, mask_zero=True),
        layers.Bidirectional(layers.LSTM(64, return_sequences=True)),
        layers.Bidirectional(layers.LSTM(64)),
        layers.Dropout(0.5),
        layers.Dense(1, activation="sigmoid"),
    ],
    name="lstm_classifier",
)
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
