"""U-Net, for two classes of pixels."""

import keras
from keras import layers


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


inputs = x = keras.Input((256, 256, 3), name="image")
skips = []
for filters in [64, 128, 256, 512]:
    x = double_conv(x, filters)
    skips.append(x)
    x = layers.MaxPooling2D(2)(x)
x = double_conv(x, 1024)
for filters, skip in zip([512, 256, 128, 64], reversed(skips)):  # noqa: B905
    x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
    x = layers.Concatenate()([x, skip])
    x = double_conv(x, filters)
outputs = layers.Conv2D(1, 1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs, name="unet")
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
