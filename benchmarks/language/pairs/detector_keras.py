"""A detector with two heads, in the manner of SSD: classes and boxes at three scales."""

import keras
from keras import layers

classes, anchors = 20, 6


def conv_bn(x, filters, strides=1):
    x = layers.Conv2D(filters, 3, strides, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x)


def head(x, size):
    x = layers.Conv2D(anchors * size, 3, padding="same")(x)
    return layers.Reshape((-1, size))(x)


inputs = x = keras.Input((256, 256, 3), name="image")
for filters in [32, 64, 128]:
    x = conv_bn(conv_bn(x, filters), filters, 2)
scores, boxes = [], []
for filters in [256, 256, 256]:
    x = conv_bn(x, filters, 2)
    scores.append(head(x, classes + 1))
    boxes.append(head(x, 4))
scores = layers.Concatenate(axis=1, name="scores")(scores)
boxes = layers.Concatenate(axis=1, name="boxes")(boxes)
model = keras.Model(inputs, [scores, boxes], name="detector")
model.compile(
    loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.losses.Huber()],
    loss_weights=[1.0, 0.5],
    optimizer=keras.optimizers.SGD(1e-3, momentum=0.9),
)
