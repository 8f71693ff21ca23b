"""The nets of the table in PyTorch. Parts are made in the order of the model texts, so that weights fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _ExportedLRN(torch.autograd.Function):
    """Response normalisation that is one node of an exported model, as in the models that Caffe's users exported."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
        return F.local_response_norm(x, size, alpha, beta, k)

    @staticmethod
    def symbolic(g: Any, x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        return g.op("LRN", x, size_i=size, alpha_f=alpha, beta_f=beta, bias_f=k)


class LRN(nn.Module):
    """Local response normalisation with the settings of every net here."""

    exporting = False

    def forward(self, x: Tensor) -> Tensor:
        if self.exporting:
            return _ExportedLRN.apply(x, 5, 1e-4, 0.75, 1.0)
        return F.local_response_norm(x, 5, 1e-4, 0.75, 1.0)


class Branches(nn.Module):
    """Parts side by side over one input, joined; `add` them, else put their channels one after the other."""

    def __init__(self, *parts: nn.Module, add: bool = False):
        super().__init__()
        self.parts, self.add = nn.ModuleList(parts), add

    def forward(self, x: Tensor) -> Tensor:
        results = [part(x) for part in self.parts]
        return results[0] + results[1] if self.add else torch.cat(results, 1)


def _conv(
    n: int, out: int, kernel: int = 1, stride: int = 1, pad: int | None = None, groups: int = 1, bias: bool = True
) -> nn.Conv2d:
    pad = kernel // 2 if pad is None else pad
    return nn.Conv2d(n, out, kernel, stride, pad, groups=groups, bias=bias)


def _conv_relu(*args: Any, **more: Any) -> list[nn.Module]:
    return [_conv(*args, **more), nn.ReLU(inplace=True)]


def _conv_bn(
    n: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Callable[..., nn.Module] | None = nn.ReLU
) -> list[nn.Module]:
    parts = [_conv(n, out, kernel, stride, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return parts if act is None else [*parts, act(inplace=True)]


def _head(n: int, classes: int, rate: float = 0.0) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(rate), nn.Linear(n, classes)]


def _dense(sizes: Sequence[int], rate: float) -> list[nn.Module]:
    """Dense layers with ReLU and dropout between them."""
    parts: list[nn.Module] = []
    for n, out in pairwise(sizes[:-1]):
        parts += [nn.Linear(n, out), nn.ReLU(inplace=True), nn.Dropout(rate)]
    return [*parts, nn.Linear(sizes[-2], sizes[-1])]


def two_layer() -> nn.Module:
    """64 - 1000 - 100 - 10."""
    return nn.Sequential(*_dense([64, 1000, 100, 10], 0.0))


def mlp() -> nn.Module:
    """784 - 512 - 512 - 10 with dropout."""
    return nn.Sequential(nn.Flatten(), *_dense([784, 512, 512, 10], 0.2))


def lenet() -> nn.Module:
    """LeNet in the form of Caffe's tutorial."""
    return nn.Sequential(
        *_conv_relu(1, 20, 5, pad=0),
        nn.MaxPool2d(2),
        *_conv_relu(20, 50, 5, pad=0),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *_dense([800, 500, 10], 0.0),
    )


def alexnet(lrn: bool = True) -> nn.Module:
    """AlexNet in the form of BVLC's reference."""

    def norm() -> list[nn.Module]:
        return [LRN()] if lrn else []

    return nn.Sequential(
        *_conv_relu(3, 96, 11, 4, pad=0),
        *norm(),
        nn.MaxPool2d(3, 2),
        *_conv_relu(96, 256, 5, groups=2),
        *norm(),
        nn.MaxPool2d(3, 2),
        *_conv_relu(256, 384, 3),
        *_conv_relu(384, 384, 3, groups=2),
        *_conv_relu(384, 256, 3, groups=2),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        *_dense([9216, 4096, 4096, 1000], 0.5),
    )


def alexnet_no_lrn() -> nn.Module:
    """AlexNet without its response normalisation."""
    return alexnet(lrn=False)


def vgg16() -> nn.Module:
    """VGG16."""
    parts: list[nn.Module] = []
    n = 3
    for width, depth in zip((64, 128, 256, 512, 512), (2, 2, 3, 3, 3), strict=True):
        for _ in range(depth):
            parts += _conv_relu(n, width, 3)
            n = width
        parts.append(nn.MaxPool2d(2))
    return nn.Sequential(*parts, nn.Flatten(), *_dense([25088, 4096, 4096, 1000], 0.5))


def _resnet(depths: Sequence[int], bottleneck: bool) -> nn.Module:
    parts = [*_conv_bn(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    n = 64
    for stage, depth in enumerate(depths):
        for place in range(depth):
            width, stride = 64 * 2**stage, 2 if stage and not place else 1
            out = 4 * width if bottleneck else width
            if bottleneck:
                main = [*_conv_bn(n, width), *_conv_bn(width, width, 3, stride), *_conv_bn(width, out, act=None)]
            else:
                main = [*_conv_bn(n, width, 3, stride), *_conv_bn(width, width, 3, act=None)]
            other = _conv_bn(n, out, 1, stride, act=None) if n != out else [nn.Identity()]
            parts += [Branches(nn.Sequential(*main), nn.Sequential(*other), add=True), nn.ReLU(inplace=True)]
            n = out
    return nn.Sequential(*parts, *_head(n, 1000))


def resnet18() -> nn.Module:
    """ResNet-18."""
    return _resnet((2, 2, 2, 2), False)


def resnet50() -> nn.Module:
    """ResNet-50, strides in the 3x3 convolutions."""
    return _resnet((3, 4, 6, 3), True)


def resnet101() -> nn.Module:
    """ResNet-101, strides in the 3x3 convolutions."""
    return _resnet((3, 4, 23, 3), True)


def mobilenet_v2() -> nn.Module:
    """MobileNetV2."""

    def inverted_residual(n: int, out: int, stride: int, wide: int) -> nn.Module:
        expanded_channels = _conv_bn(n, wide, act=nn.ReLU6) if wide != n else []
        deep = _conv_bn(wide, wide, 3, stride, groups=wide, act=nn.ReLU6)
        return nn.Sequential(*expanded_channels, *deep, *_conv_bn(wide, out, act=None))

    parts = [*_conv_bn(3, 32, 3, 2, act=nn.ReLU6), inverted_residual(32, 16, 1, 32)]
    n = 16
    for out, depth, stride in ((24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)):
        for place in range(depth):
            part = inverted_residual(n, out, 1 if place else stride, 6 * n)
            parts.append(Branches(nn.Identity(), part, add=True) if place else part)
            n = out
    return nn.Sequential(*parts, *_conv_bn(n, 1280, act=nn.ReLU6), *_head(1280, 1000, 0.2))


class GoogLeNet(nn.Module):
    """GoogLeNet with its two auxiliary outputs, which are computed in inference too, as the model text says."""

    #: 1x1, 3x3 (reduced, full), 5x5 (reduced, full), after the pool
    MIXED = (
        (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128), (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        stem = [
            *_conv_relu(3, 64, 7, 2), _pool(), LRN(), *_conv_relu(64, 64), *_conv_relu(64, 192, 3), LRN(), _pool(),
        ]  # fmt: skip
        results, n = [], 192
        for a, b, c, d, e, f in self.MIXED:
            pool = nn.MaxPool2d(3, 1, 1)
            branches = (
                _conv_relu(n, a),
                [*_conv_relu(n, b), *_conv_relu(b, c, 3)],
                [*_conv_relu(n, d), *_conv_relu(d, e, 5)],
                [pool, *_conv_relu(n, f)],
            )
            results.append(Branches(*(nn.Sequential(*parts) for parts in branches)))
            n = a + c + e + f
        self.to_4a = nn.Sequential(*stem, *results[:2], _pool(), results[2])
        self.to_4d = nn.Sequential(*results[3:6])
        self.rest = nn.Sequential(results[6], _pool(), *results[7:], *_head(n, 1000, 0.4))
        self.first, self.second = self._auxiliary(512), self._auxiliary(528)

    @staticmethod
    def _auxiliary(n: int) -> nn.Module:
        return nn.Sequential(nn.AvgPool2d(5, 3), *_conv_relu(n, 128), nn.Flatten(), *_dense([2048, 1024, 1000], 0.7))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = self.to_4a(x)
        d = self.to_4d(a)
        return self.rest(d), self.first(a), self.second(d)


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


class LastOfLSTM(nn.Module):
    """An LSTM and a dense layer over its last output. Of its two biases, which are added, one stays 0."""

    def __init__(self, n: int = 128, units: int = 256, classes: int = 10):
        super().__init__()
        self.lstm, self.logits = nn.LSTM(n, units, batch_first=True), nn.Linear(units, classes)
        second: Any = self.lstm.bias_hh_l0
        nn.init.zeros_(second).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.lstm(x)[0][:, -1])


class Attention(nn.Module):
    """Self-attention with several heads: one product for queries, keys and values, the kernel that torch chooses."""

    def __init__(self, n: int, heads: int):
        super().__init__()
        self.heads, self.into, self.out = heads, nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, n = x.shape
        parts = self.into(x).view(batch, steps, 3, self.heads, n // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(y.transpose(1, 2).reshape(batch, steps, n))


class Encoder(nn.Module):
    """A transformer encoder, normalised before each part, that classifies the mean of its outputs."""

    def __init__(self, vocabulary: int = 20_000, length: int = 128, n: int = 256, depth: int = 4, classes: int = 2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, n)
        self.places = nn.Parameter(torch.empty(length, n).uniform_(-0.1, 0.1))
        same = nn.Identity
        parts: list[nn.Module] = []
        for _ in range(depth):
            attend = [nn.LayerNorm(n, 1e-3), Attention(n, 4), nn.Dropout(0.1)]
            think = [nn.LayerNorm(n, 1e-3), nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n), nn.Dropout(0.1)]
            parts += [Branches(same(), nn.Sequential(*p), add=True) for p in (attend, think)]
        self.body = nn.Sequential(*parts, nn.LayerNorm(n, 1e-3))
        self.logits = nn.Linear(n, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.body(self.tokens(x) + self.places).mean(1))


NETS: dict[str, Callable[[], nn.Module]] = {
    "two_layer": two_layer, "mlp": mlp, "lenet": lenet, "alexnet": alexnet, "alexnet_no_lrn": alexnet_no_lrn,
    "vgg16": vgg16, "googlenet": GoogLeNet, "resnet18": resnet18, "resnet50": resnet50, "resnet101": resnet101,
    "mobilenet_v2": mobilenet_v2, "lstm": LastOfLSTM, "transformer": Encoder,
}  # fmt: skip
