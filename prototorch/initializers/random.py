"""Random initializers, by the names and definitions of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for
from prototorch.errors import ShapeError
from prototorch.initializers.base import Initializer
from prototorch.schema import field

# The standard deviation of a normal distribution cut at two standard deviations: the draws are divided by it.
_TRUNCATED_STDDEV = 0.87962566103423978
_STREAM_SIZE = 1 << 20  # elements of one random stream: a larger weight uses several, in several threads
_BLOCK_SIZE = 1 << 16  # elements checked together: they stay in the caches
FillFn = Callable[[np.random.Generator, np.ndarray], None]


class _RandomInitializer(Initializer, abstract=True):
    seed: int | None = field(default=None, doc="Seed; by default from the model's seed and the weight's name.")

    def values(self, shape, rng, fans):
        rng = rng if self.seed is None else np.random.default_rng(self.seed)
        return self.draw(shape, rng, fans).astype(np.float32, copy=False)

    def draw(self, shape, rng, fans):
        raise TypeError(f"{type(self).__name__} does not define draw")


def _fill_in_streams(rng: np.random.Generator, shape: tuple[int, ...], fill: FillFn) -> np.ndarray:
    """An array that ``fill(rng, slice)`` fills slice by slice: the first from ``rng``, each other one from a stream
    that is jumped ahead, so that the result does not depend on which thread fills it."""
    array = np.empty(shape, np.float32)
    values = array.reshape(-1)
    starts = range(0, values.size, _STREAM_SIZE)
    generator = rng.bit_generator
    streams = [rng, *(np.random.Generator(generator.jumped(i)) for i in range(1, len(starts)))]  # type: ignore[attr-defined]

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            fill(streams[i], values[starts[i] : starts[i] + _STREAM_SIZE])

    parallel_for(work, len(starts), 1)
    return array


def _fill_truncated_normal(rng: np.random.Generator, values: np.ndarray) -> None:
    rng.standard_normal(dtype=np.float32, out=values)
    starts = range(0, values.size, _BLOCK_SIZE)
    far = [start + np.flatnonzero(np.abs(values[start : start + _BLOCK_SIZE]) > 2) for start in starts]
    again = np.concatenate(far) if far else np.zeros(0, np.intp)
    while again.size:
        samples = rng.standard_normal(again.size, dtype=np.float32)
        values[again] = samples
        again = again[np.abs(samples) > 2]


def _draw_normal(
    rng: np.random.Generator, shape: tuple[int, ...], scale: float, shift: float = 0.0, truncated: bool = False
) -> np.ndarray:
    """Standard normal values times ``scale`` plus ``shift``."""

    def fill(rng: np.random.Generator, values: np.ndarray) -> None:
        if truncated:
            _fill_truncated_normal(rng, values)
        else:
            rng.standard_normal(dtype=np.float32, out=values)
        values *= np.float32(scale)
        if shift:
            values += np.float32(shift)

    return _fill_in_streams(rng, shape, fill)


def _draw_uniform(
    rng: np.random.Generator, shape: tuple[int, ...], size: float, low: float, scale: float = 1.0
) -> np.ndarray:
    """Uniform values in [low, low + size), times ``scale``."""

    def fill(rng: np.random.Generator, values: np.ndarray) -> None:
        rng.random(dtype=np.float32, out=values)
        values *= np.float32(size)
        values += np.float32(low)
        if scale != 1:
            values *= np.float32(scale)

    return _fill_in_streams(rng, shape, fill)


class RandomUniform(_RandomInitializer):
    """Uniform distribution between ``minval`` and ``maxval``."""

    aliases = ("uniform",)
    minval: float = -0.05
    maxval: float = 0.05

    def draw(self, shape, rng, fans):
        return _draw_uniform(rng, shape, self.maxval - self.minval, self.minval)


class RandomNormal(_RandomInitializer):
    """Normal distribution with a mean and a standard deviation."""

    aliases = ("normal",)
    mean: float = 0.0
    stddev: float = field(default=0.05, min=0)

    def draw(self, shape, rng, fans):
        return _draw_normal(rng, shape, self.stddev, self.mean)


class SparseNormal(_RandomInitializer):
    """As RandomNormal, but an element is 0 with probability 1 - ``density`` (sparse initialization: Martens, 2010;
    Caffe's gaussian filler with sparse)."""

    mean: float = 0.0
    stddev: float = field(default=0.05, min=0)
    density: float = field(default=0.1, min=0, max=1, doc="Probability that an element is kept.")

    def draw(self, shape, rng, fans):
        values = _draw_normal(rng, shape, self.stddev, self.mean)
        return values * (_draw_uniform(rng, shape, 1.0, 0.0) < self.density)


class PositiveUnitBall(_RandomInitializer):
    """Uniform between 0 and 1, divided by the sum over each index of ``axis``: the weights of each unit are not
    negative and add up to 1 (Caffe's positive_unitball filler)."""

    axis: int = field(default=0, doc="The axis that numbers the units: 0 of a convolution's kernel, 1 of Dense's.")

    def check_shape(self, shape):
        if not -len(shape) <= self.axis < len(shape):
            raise ShapeError(f"PositiveUnitBall needs a weight with an axis {self.axis}, got shape {list(shape)}")

    def draw(self, shape, rng, fans):
        self.check_shape(shape)
        values = _draw_uniform(rng, shape, 1.0, 0.0)
        others = tuple(i for i in range(len(shape)) if i != self.axis % len(shape))
        return values / values.sum(axis=others, keepdims=True, dtype=np.float64)


class TruncatedNormal(_RandomInitializer):
    """Normal distribution, drawn again where a value is more than two standard deviations from the mean."""

    mean: float = 0.0
    stddev: float = field(default=0.05, min=0)

    def draw(self, shape, rng, fans):
        return _draw_normal(rng, shape, self.stddev, self.mean, truncated=True)


class VarianceScaling(_RandomInitializer):
    """The variance is ``scale`` divided by the number of connections (Keras)."""

    scale: float = field(default=1.0, above=0)
    mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in"
    distribution: Literal["truncated_normal", "untruncated_normal", "uniform"] = "truncated_normal"

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, self.scale, self.mode, self.distribution)


def variance_scaling(shape, rng, fans, scale: float, mode: str, distribution: str) -> np.ndarray:
    """Random values of variance scale / n, where n is the fan in, the fan out or their mean, by ``mode``."""
    n = {"fan_in": fans[0], "fan_out": fans[1], "fan_avg": (fans[0] + fans[1]) / 2}[mode]
    variance = scale / max(1.0, n)
    if distribution == "uniform":
        limit = (3 * variance) ** 0.5
        return _draw_uniform(rng, shape, 2.0, -1.0, limit)
    if distribution == "untruncated_normal":
        return _draw_normal(rng, shape, variance**0.5)
    return _draw_normal(rng, shape, variance**0.5 / _TRUNCATED_STDDEV, truncated=True)


class GlorotUniform(_RandomInitializer):
    """Glorot and Bengio, 2010: uniform, variance 2 / (fan in + fan out). Caffe's "xavier" (AVERAGE)."""

    foreign_names = dict.fromkeys(("xavier_initializer", "glorot_uniform_initializer"), "GlorotUniform")
    aliases = ("xavier_uniform",)

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 1.0, "fan_avg", "uniform")


class GlorotNormal(_RandomInitializer):
    """Glorot and Bengio, 2010: truncated normal, variance 2 / (fan in + fan out)."""

    foreign_names = {"glorot_normal_initializer": "GlorotNormal"}
    aliases = ("xavier_normal",)

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 1.0, "fan_avg", "truncated_normal")


class HeUniform(_RandomInitializer):
    """He et al., 2015: uniform, variance 2 / fan in."""

    aliases = ("kaiming_uniform",)

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 2.0, "fan_in", "uniform")


class HeNormal(_RandomInitializer):
    """He et al., 2015: truncated normal, variance 2 / fan in."""

    aliases = ("kaiming_normal",)

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 2.0, "fan_in", "truncated_normal")


class LecunUniform(_RandomInitializer):
    """LeCun et al., 1998: uniform, variance 1 / fan in."""

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 1.0, "fan_in", "uniform")


class LecunNormal(_RandomInitializer):
    """LeCun et al., 1998: truncated normal, variance 1 / fan in."""

    def draw(self, shape, rng, fans):
        return variance_scaling(shape, rng, fans, 1.0, "fan_in", "truncated_normal")


class Orthogonal(_RandomInitializer):
    """Saxe et al., 2014: an orthogonal matrix of all but the last dimension by the last, times ``gain``."""

    aliases = ("OrthogonalInitializer",)
    gain: float = 1.0

    def check_shape(self, shape):
        if len(shape) < 2:
            raise ShapeError(f"Orthogonal needs a weight of at least two dimensions, got shape {list(shape)}")

    def draw(self, shape, rng, fans):
        self.check_shape(shape)
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        return self.gain * (q.T if rows < columns else q).reshape(shape)
