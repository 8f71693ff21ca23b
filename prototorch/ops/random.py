"""Random numbers as pure functions of a key: counter-based, Philox4x64-10 (Salmon et al., 2011).

``key`` is a value uint64[2]: a seed and a step. ``site`` is an integer that identifies one use in a net. The raw words
are NumPy's: key (seed, site), counter (0, 0, step, 0); every backend generates the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prototorch.ops.core import Op, resolve_dtype
from prototorch.ops.elementwise import cos, log, sqrt
from prototorch.ops.facts import BATCHED, INDEPENDENT, Attrs, Dependences, PrecisionClass, Specs
from prototorch.ops.operators import op_function
from prototorch.spec import Spec

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_MASK = (1 << 64) - 1


def _multiply_high(xp: Any, a: Any, b: int) -> Any:
    """The upper 64 bits of a product, in 64-bit arithmetic only."""
    u = lambda v: xp.asarray(v, dtype=xp.uint64)  # noqa: E731 - a constant of the right type, used on every line
    low = u(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> u(32), u(b & 0xFFFFFFFF), u(b >> 32)
    mid = a1 * b0 + ((a0 * b0) >> u(32))
    other = a0 * b1 + (mid & low)
    return a1 * b1 + (mid >> u(32)) + (other >> u(32))


def philox_words(xp: Any, key: Any, site: int, count: int) -> Any:
    """``count`` words of 64 bits, in integer arithmetic over any array module."""
    u = lambda v: xp.asarray(v & _MASK, dtype=xp.uint64)  # noqa: E731 - as above
    blocks = -(-count // 4)
    c0 = xp.astype(xp.arange(blocks), xp.uint64) + u(1)  # NumPy increments the counter first
    zero = xp.zeros(blocks, dtype=xp.uint64)
    c1, c2, c3 = zero, zero + key[1:2], zero
    k0, k1 = key[0:1], site
    for _ in range(10):
        h0, l0 = _multiply_high(xp, c0, _MULTIPLIERS[0]), c0 * u(_MULTIPLIERS[0])
        h1, l1 = _multiply_high(xp, c2, _MULTIPLIERS[1]), c2 * u(_MULTIPLIERS[1])
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ u(k1), l0
        k0, k1 = k0 + u(_WEYL[0]), k1 + _WEYL[1]
    return xp.reshape(xp.stack([c0, c1, c2, c3], axis=1), (-1,))[:count]


def random_words(xp: Any, key: Any, site: int, count: int) -> Any:
    """``count`` random words of 64 bits."""
    if xp is np:
        wide = [
            np.array(v, np.uint64) for v in ([key[0], site], [0, 0, key[1], 0])
        ]  # lists would be converted through float64
        return np.random.Philox(key=wide[0], counter=wide[1]).random_raw(count)
    return philox_words(xp, key, site, count)


class RandomBits(Op):
    """Random uint32 of a shape: the low, then the high half of each raw word."""

    derivatives = (None,)
    is_random = True

    def infer_spec(self, key: Spec, site: int, shape: tuple[int, ...]) -> Spec:
        if key != Spec((2,), "uint64"):
            raise self.shape_error(f"expected a key uint64[2], got {key}")
        return Spec(shape, "uint32")

    def reference(self, xp: Any, key: Any, site: int, shape: tuple[int, ...]) -> Any:
        count = math.prod(shape)
        raw = random_words(xp, key, site, -(-count // 2))
        if xp is np:
            return raw.astype("<u8", copy=False).view("<u4")[:count].reshape(shape)
        low = xp.astype(raw & xp.asarray(0xFFFFFFFF, dtype=xp.uint64), xp.uint32)
        high = xp.astype(raw >> xp.asarray(32, dtype=xp.uint64), xp.uint32)
        return xp.reshape(xp.reshape(xp.stack([low, high], axis=1), (-1,))[:count], shape)


class RandomUniform(Op):
    """Uniform in [low, high) with 24 random bits (float32) of a shape."""

    derivatives = (None,)
    is_random = True
    precision = PrecisionClass.FLOAT32

    def infer_spec(
        self, key: Spec, site: int, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: str = "float32"
    ) -> Spec:
        random_bits.infer_spec(key, site=site, shape=shape)
        return Spec(shape, dtype)

    def reference(
        self,
        xp: Any,
        key: Any,
        site: int,
        shape: tuple[int, ...],
        low: float = 0.0,
        high: float = 1.0,
        dtype: str = "float32",
    ) -> Any:
        bits = random_bits.reference(xp, key, site=site, shape=shape) >> xp.asarray(8, dtype=xp.uint32)
        unit = xp.astype(bits, resolve_dtype(xp, dtype)) * 2.0**-24
        if (low, high) == (0.0, 1.0):
            return unit
        below = np.nextafter(np.asarray(high, dtype), np.asarray(low, dtype)).item()  # rounding could reach high
        return xp.minimum(unit * (high - low) + low, xp.full((), below, dtype=unit.dtype))


class Dropout(Op):
    """``dropout(x, key, rate=, site=, noise_shape=None)``: elements become 0 with probability ``rate``, the others are
    divided by 1 - rate (Srivastava et al., 2014). One draw for each element of ``noise_shape``, which broadcasts to x.

    The derivative generates the same mask again, so that none is stored. The rate is exact to 2^-16.
    """

    inplace = {0: 0}
    derivatives = (lambda g, y, x, key, **a: dropout(g, key, **a), None)
    whole_inputs = (1,)

    def infer_spec(
        self, x: Spec, key: Spec, rate: float, site: int, noise_shape: tuple[int, ...] | None = None
    ) -> Spec:
        random_bits.infer_spec(key, site=site, shape=x.shape)
        if not x.is_float:
            raise self.shape_error(f"expected floating-point elements, got {x.dtype}")
        if not 0 <= rate < 1:
            raise self.shape_error(f"the rate must be at least 0 and below 1, got {rate}")
        if noise_shape is not None and (
            len(noise_shape) != x.ndim or any(n not in (1, m) for n, m in zip(noise_shape, x.shape, strict=True))
        ):
            raise self.shape_error(f"a noise shape {list(noise_shape)} does not broadcast to {list(x.shape)}")
        return Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any, key: Any, rate: float, site: int, noise_shape: Any = None) -> Any:
        keep = dropout_mask(xp, key, rate, site, x.shape if noise_shape is None else noise_shape)
        return x * (xp.astype(keep, x.dtype) * (1 / (1 - rate)))

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool:
        noise = attrs.get("noise_shape")
        full_batch = noise is None or noise[0] in (1, ins[0].shape[0])
        return dependences[0] is BATCHED and dependences[1] is INDEPENDENT and full_batch


def dropout_mask(xp: Any, key: Any, rate: float, site: int, shape: tuple[int, ...]) -> Any:
    """True with probability 1 - rate: 16 bits of a raw word for each element, the lowest first."""
    count = math.prod(shape)
    raw = random_words(xp, key, site, -(-count // 4))
    if xp is np:
        parts = raw.astype("<u8", copy=False).view("<u2")[:count].reshape(shape)
        return parts >= np.uint32(round(rate * 65536))
    shifts = xp.asarray([0, 16, 32, 48], dtype=xp.uint64)
    each = (xp.reshape(raw, (-1, 1)) >> shifts) & xp.asarray(0xFFFF, dtype=xp.uint64)
    parts = xp.reshape(xp.reshape(each, (-1,))[:count], shape)
    return parts >= xp.asarray(round(rate * 65536), dtype=xp.uint64)


random_bits, random_uniform, dropout = RandomBits(), RandomUniform(), Dropout()


@op_function
def random_normal(
    key: Any, site: int, shape: tuple[int, ...], mean: float = 0.0, stddev: float = 1.0, dtype: str = "float32"
) -> Any:
    """Normally distributed elements of a shape, by the Box-Muller transform of two uniform ones."""
    pair = random_uniform(key, site=site, shape=(2, *shape), dtype=dtype)
    u, v = pair[0], pair[1]
    radius = sqrt(log(1.0 - u) * -2.0)  # 1 - u lies in (0, 1], so the logarithm is finite
    return radius * cos(v * (2 * math.pi)) * stddev + mean
