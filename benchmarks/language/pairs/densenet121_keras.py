"""DenseNet-121."""

import keras
from keras import layers


def norm_relu(x):
    x = layers.BatchNormalization(epsilon=1e-5)(x)
    return layers.ReLU()(x)


def dense_layer(x):
    y = layers.Conv2D(128, 1, use_bias=False)(norm_relu(x))
    y = layers.Conv2D(32, 3, padding="same", use_bias=False)(norm_relu(y))
    return layers.Concatenate()([x, y])


inputs = keras.Input((224, 224, 3), name="image")
x = layers.Conv2D(64, 7, 2, padding="same", use_bias=False)(inputs)
x = norm_relu(x)
x = layers.MaxPooling2D(3, 2, padding="same")(x)
for i, count in enumerate([6, 12, 24, 16]):
    if i > 0:
        x = layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(norm_relu(x))
        x = layers.AveragePooling2D(2)(x)
    for _ in range(count):
        x = dense_layer(x)
x = norm_relu(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(1000, activation="softmax")(x)
model = keras.Model(inputs, outputs, name="densenet121")
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
