"""Inception-v3."""

import keras
from keras import layers


def conv(x, filters, kernel, strides=1, padding="same"):
    x = layers.Conv2D(filters, kernel, strides, padding=padding, use_bias=False)(x)
    x = layers.BatchNormalization(scale=False)(x)
    return layers.ReLU()(x)


def pool(x):
    return layers.AveragePooling2D(3, 1, padding="same")(x)


def block_a(x, pooled):
    b1 = conv(x, 64, 1)
    b2 = conv(conv(x, 48, 1), 64, 5)
    b3 = conv(conv(conv(x, 64, 1), 96, 3), 96, 3)
    return layers.Concatenate()([b1, b2, b3, conv(pool(x), pooled, 1)])


def block_b(x):
    b1 = conv(x, 384, 3, 2, "valid")
    b2 = conv(conv(conv(x, 64, 1), 96, 3), 96, 3, 2, "valid")
    return layers.Concatenate()([b1, b2, layers.MaxPooling2D(3, 2)(x)])


def block_c(x, width):
    b1 = conv(x, 192, 1)
    b2 = conv(conv(conv(x, width, 1), width, (1, 7)), 192, (7, 1))
    b3 = conv(conv(conv(x, width, 1), width, (7, 1)), width, (1, 7))
    b3 = conv(conv(b3, width, (7, 1)), 192, (1, 7))
    return layers.Concatenate()([b1, b2, b3, conv(pool(x), 192, 1)])


def block_d(x):
    b1 = conv(conv(x, 192, 1), 320, 3, 2, "valid")
    b2 = conv(conv(conv(x, 192, 1), 192, (1, 7)), 192, (7, 1))
    b2 = conv(b2, 192, 3, 2, "valid")
    return layers.Concatenate()([b1, b2, layers.MaxPooling2D(3, 2)(x)])


def split(x):
    return layers.Concatenate()([conv(x, 384, (1, 3)), conv(x, 384, (3, 1))])


def block_e(x):
    b1 = conv(x, 320, 1)
    b2 = split(conv(x, 384, 1))
    b3 = split(conv(conv(x, 448, 1), 384, 3))
    return layers.Concatenate()([b1, b2, b3, conv(pool(x), 192, 1)])


inputs = keras.Input((299, 299, 3), name="image")
x = conv(inputs, 32, 3, 2, "valid")
x = conv(x, 32, 3, padding="valid")
x = conv(x, 64, 3)
x = layers.MaxPooling2D(3, 2)(x)
x = conv(x, 80, 1, padding="valid")
x = conv(x, 192, 3, padding="valid")
x = layers.MaxPooling2D(3, 2)(x)
for pooled in [32, 64, 64]:
    x = block_a(x, pooled)
x = block_b(x)
for width in [128, 160, 160, 192]:
    x = block_c(x, width)
x = block_d(x)
x = block_e(block_e(x))
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(1000, activation="softmax")(x)
model = keras.Model(inputs, outputs, name="inception_v3")
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
