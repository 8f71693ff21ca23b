"""EfficientNet-B0."""

import keras
from keras import layers


def conv_bn(x, filters, kernel=1, strides=1, activation="swish"):
    x = layers.Conv2D(filters, kernel, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x)


def mbconv(x, filters, kernel, strides, expand):
    inputs, channels = x, x.shape[-1]
    if expand > 1:
        x = conv_bn(x, channels * expand)
    x = layers.DepthwiseConv2D(kernel, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("swish")(x)
    s = layers.GlobalAveragePooling2D(keepdims=True)(x)
    s = layers.Conv2D(max(1, channels // 4), 1, activation="swish")(s)
    s = layers.Conv2D(channels * expand, 1, activation="sigmoid")(s)
    x = layers.Multiply()([x, s])
    x = conv_bn(x, filters, activation="linear")
    if strides == 1 and channels == filters:
        x = layers.Dropout(0.2, noise_shape=(None, 1, 1, 1))(x)
        x = layers.Add()([x, inputs])
    return x


inputs = keras.Input((224, 224, 3), name="image")
x = conv_bn(inputs, 32, 3, 2)
for expand, filters, repeats, strides, kernel in [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
]:
    for i in range(repeats):
        x = mbconv(x, filters, kernel, strides if i == 0 else 1, expand)
x = conv_bn(x, 1280)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(1000, activation="softmax")(x)
model = keras.Model(inputs, outputs, name="efficientnet_b0")
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
