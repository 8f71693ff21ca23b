"""The nets of the table in Keras, channels last. Layers are made in the order of the model texts (`Maker.made`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers, ops


class LRN(layers.Layer):
    """Local response normalisation across channels (the last axis), which Keras does not have."""

    def call(self, x: Any) -> Any:
        square = ops.pad(ops.square(x), [(0, 0)] * (len(x.shape) - 1) + [(2, 2)])
        n = x.shape[-1]
        total = sum(square[..., i : i + n] for i in range(5))
        return x / (1.0 + (1e-4 / 5) * total) ** 0.75


class AddPlaces(layers.Layer):
    """Adds a learnt vector to each step."""

    def build(self, shape: Any) -> None:
        self.places = self.add_weight(shape=shape[1:], name="places")

    def call(self, x: Any) -> Any:
        return x + self.places


class Maker:
    """Makes layers and keeps those with weights in the order they are made. ``drop``: whether dropout draws."""

    def __init__(self, drop: bool):
        self.drop, self.weighted_layers = drop, []  # type: ignore[var-annotated]

    def __call__(self, layer: Any) -> Any:
        self.weighted_layers.append(layer)
        return layer

    def dropout(self, x: Any, rate: float) -> Any:
        """Dropout, where it is to draw."""
        return layers.Dropout(rate)(x) if self.drop else x

    def conv(
        self,
        x: Any,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        bias: bool = True,
        act: str | None = "relu",
    ) -> Any:
        """A convolution, padded alike on all sides."""
        pad = kernel // 2 if pad is None else pad
        same = stride == 1 and 2 * pad == kernel - 1
        x = layers.ZeroPadding2D(pad)(x) if pad and not same else x
        return self(
            layers.Conv2D(
                out, kernel, stride, padding="same" if same else "valid", groups=groups, use_bias=bias, activation=act
            )
        )(x)

    def norm(self, x: Any, act: str | None) -> Any:
        """Batch normalisation, and an activation."""
        x = self(layers.BatchNormalization(momentum=0.9, epsilon=1e-5))(x)
        return layers.Activation(act)(x) if act else x

    def conv_bn(self, x: Any, out: int, kernel: int = 1, stride: int = 1, act: str | None = "relu") -> Any:
        """A convolution without bias, batch normalisation, and an activation."""
        return self.norm(self.conv(x, out, kernel, stride, bias=False, act=None), act)

    def dense(self, x: Any, sizes: Sequence[int], rate: float) -> Any:
        """Dense layers with ReLU and dropout between them."""
        for units in sizes[:-1]:
            x = self.dropout(self(layers.Dense(units, activation="relu"))(x), rate)
        return self(layers.Dense(sizes[-1]))(x)

    def flat(self, x: Any) -> Any:
        """All features of a sample, channel by channel."""
        return layers.Flatten()(layers.Permute((3, 1, 2))(x))

    def add_head(self, x: Any, rate: float = 0.0) -> Any:
        """The mean of each channel, and the classes."""
        return self.dense(self.dropout(layers.GlobalAveragePooling2D()(x), rate), [1000], 0.0)


def _two_layer(m: Maker, x: Any) -> Any:
    return m.dense(x, [1000, 100, 10], 0.0)


def _mlp(m: Maker, x: Any) -> Any:
    return m.dense(m.flat(x), [512, 512, 10], 0.2)


def _lenet(m: Maker, x: Any) -> Any:
    for filters in (20, 50):
        x = layers.MaxPooling2D(2)(m.conv(x, filters, 5, pad=0))
    return m.dense(m.flat(x), [500, 10], 0.0)


def _alexnet(m: Maker, x: Any, lrn: bool = True) -> Any:
    x = m.conv(x, 96, 11, 4, pad=0)
    x = layers.MaxPooling2D(3, 2)(LRN()(x) if lrn else x)
    x = m.conv(x, 256, 5, groups=2)
    x = layers.MaxPooling2D(3, 2)(LRN()(x) if lrn else x)
    x = m.conv(m.conv(m.conv(x, 384, 3), 384, 3, groups=2), 256, 3, groups=2)
    return m.dense(m.flat(layers.MaxPooling2D(3, 2)(x)), [4096, 4096, 1000], 0.5)


def _alexnet_no_lrn(m: Maker, x: Any) -> Any:
    return _alexnet(m, x, lrn=False)


def _vgg16(m: Maker, x: Any) -> Any:
    for width, depth in zip((64, 128, 256, 512, 512), (2, 2, 3, 3, 3), strict=True):
        for _ in range(depth):
            x = m.conv(x, width, 3)
        x = layers.MaxPooling2D(2)(x)
    return m.dense(m.flat(x), [4096, 4096, 1000], 0.5)


def _resnet(m: Maker, x: Any, depths: Sequence[int], bottleneck: bool) -> Any:
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(m.conv_bn(x, 64, 7, 2)))  # after ReLU 0 is the least
    for stage, depth in enumerate(depths):
        for place in range(depth):
            width, stride = 64 * 2**stage, 2 if stage and not place else 1
            out = 4 * width if bottleneck else width
            if bottleneck:
                y = m.conv_bn(m.conv_bn(m.conv_bn(x, width), width, 3, stride), out, act=None)
            else:
                y = m.conv_bn(m.conv_bn(x, width, 3, stride), width, 3, act=None)
            if x.shape[-1] != out:
                x = m.conv_bn(x, out, 1, stride, act=None)
            x = layers.ReLU()(layers.Add()([y, x]))
    return m.add_head(x)


def _resnet18(m: Maker, x: Any) -> Any:
    return _resnet(m, x, (2, 2, 2, 2), False)


def _resnet50(m: Maker, x: Any) -> Any:
    return _resnet(m, x, (3, 4, 6, 3), True)


def _mobilenet_v2(m: Maker, x: Any) -> Any:
    def inverted_residual(x: Any, out: int, stride: int, times: int) -> Any:
        y = m.conv_bn(x, times * x.shape[-1], act="relu6") if times > 1 else x
        y = layers.ZeroPadding2D(1)(y) if stride > 1 else y
        padding = "valid" if stride > 1 else "same"
        y = m.norm(m(layers.DepthwiseConv2D(3, stride, padding=padding, use_bias=False))(y), "relu6")
        return m.conv_bn(y, out, act=None)

    x = inverted_residual(m.conv_bn(x, 32, 3, 2, act="relu6"), 16, 1, 1)
    for out, depth, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for place in range(depth):
            y = inverted_residual(x, out, 1 if place else stride, 6)
            x = layers.Add()([x, y]) if place else y
    return m.add_head(m.conv_bn(x, 1280, act="relu6"), 0.2)


#: 1x1, 3x3 (reduced, full), 5x5 (reduced, full), after the pool
_MIXED = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128), (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip


def _googlenet(m: Maker, x: Any) -> Any:
    def pool(x: Any) -> Any:
        return layers.MaxPooling2D(3, 2, padding="same")(x)  # even sizes: one more row and column at the end

    def auxiliary(x: Any) -> Any:
        return m.dense(m.flat(m.conv(layers.AveragePooling2D(5, 3)(x), 128)), [1024, 1000], 0.7)

    x = LRN()(pool(m.conv(x, 64, 7, 2)))
    x = pool(LRN()(m.conv(m.conv(x, 64), 192, 3)))
    has_residual = []
    for place, (a, b, c, d, e, f) in enumerate(_MIXED):
        parts = [m.conv(x, a), m.conv(m.conv(x, b), c, 3), m.conv(m.conv(x, d), e, 5)]
        parts.append(m.conv(layers.MaxPooling2D(3, 1, padding="same")(x), f))
        x = layers.Concatenate()(parts)
        if place in (2, 5):
            has_residual.append(x)
        if place in (1, 6):
            x = pool(x)
    return [m.add_head(x, 0.4), auxiliary(has_residual[0]), auxiliary(has_residual[1])]


def _lstm(m: Maker, x: Any) -> Any:
    return m.dense(m(layers.LSTM(256))(x), [10], 0.0)


def _transformer(m: Maker, x: Any) -> Any:
    x = m(layers.Embedding(20_000, 256))(x)
    x = m(AddPlaces())(x)
    for _ in range(4):
        y = m(layers.LayerNormalization(epsilon=1e-3))(x)
        y = m(layers.MultiHeadAttention(4, 64))(y, y)
        x = layers.Add()([x, m.dropout(y, 0.1)])
        y = m(layers.LayerNormalization(epsilon=1e-3))(x)
        y = m(layers.Dense(1024, activation="gelu"))(y)
        y = m(layers.Dense(256))(y)
        x = layers.Add()([x, m.dropout(y, 0.1)])
    x = m(layers.LayerNormalization(epsilon=1e-3))(x)
    return m.dense(layers.GlobalAveragePooling1D()(x), [2], 0.0)


NETS: dict[str, Callable[[Maker, Any], Any]] = {
    "two_layer": _two_layer, "mlp": _mlp, "lenet": _lenet, "alexnet": _alexnet, "alexnet_no_lrn": _alexnet_no_lrn,
    "vgg16": _vgg16, "googlenet": _googlenet, "resnet18": _resnet18, "resnet50": _resnet50,
    "mobilenet_v2": _mobilenet_v2, "lstm": _lstm, "transformer": _transformer,
}  # fmt: skip


def make(name: str, shape: Sequence[int], dtype: str, drop: bool) -> tuple[keras.Model, list[Any]]:
    """The net of a row (its shape channels first), and its layers with weights in the order of the model text."""
    maker = Maker(drop)
    shape = (*shape[1:], shape[0]) if len(shape) == 3 else tuple(shape)
    x = keras.Input(shape, dtype=dtype)
    return keras.Model(x, NETS[name](maker, x)), maker.weighted_layers
