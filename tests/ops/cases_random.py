"""Cases of the random ops, against Philox4x64-10 written out in Python's whole numbers."""

import math

import numpy as np

from tests.ops.op_case import case, normal

WORD = 2**64


def philox(counter, key):
    """One block: four words (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; 2011)."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        one, two = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = (two >> 64) ^ b ^ k, two % WORD, (one >> 64) ^ d ^ m, one % WORD
        k, m = (k + 0x9E3779B97F4A7C15) % WORD, (m + 0xBB67AE8584CAA73B) % WORD
    return a, b, c, d


def words(key, site, count):
    seed, step = map(int, key)
    blocks = (philox((i + 1, 0, step, 0), (seed, site)) for i in range(-(-count // 4)))
    return [w for block in blocks for w in block][:count]


def parts(key, site, shape, bits):
    """Each word in pieces of some bits, the lowest first."""
    each = 64 // bits
    count = math.prod(shape)
    made = [(w >> (bits * i)) % 2**bits for w in words(key, site, -(-count // each)) for i in range(each)]
    return np.array(made[:count], "uint64").reshape(shape)


def bits(key, site, shape):
    return parts(key, site, shape, 32).astype("uint32")


def uniform(key, site, shape, low=0.0, high=1.0, dtype="float32"):
    return ((parts(key, site, shape, 32) >> 8) / 2**24 * (high - low) + low).astype(dtype)


def dropped(x, key, rate, site, noise_shape=None):
    kept = parts(key, site, noise_shape or x.shape, 16) >= round(rate * 65536)
    return x * kept / (1 - rate)


KEYS = [np.array(k, "uint64") for k in ([1, 2], [0, 0], [2**64 - 1, 2**63 + 1], [7, 2**40], [2**63 + 5, 3])]
for key, shape in zip(KEYS, [(3, 5), (), (1,), (0, 3), (17,)], strict=True):
    case("random_bits", key, attrs={"site": 3, "shape": shape}, oracle=bits)
    case("random_uniform", key, attrs={"site": 2**33, "shape": shape}, oracle=uniform)
    attrs = {"site": 0, "shape": shape, "low": -2.0, "high": 5.0, "dtype": "float64"}
    case("random_uniform", key, attrs=attrs, oracle=uniform)
for shape, rate, noise in [
    ((3, 5), 0.5, None),
    ((), 0.25, None),
    ((0, 3), 0.1, None),
    ((2, 3, 4), 0.5, (2, 3, 1)),
    ((7,), 0.0, None),
    ((40,), 0.999999, None),
]:
    attrs = {"rate": rate, "site": 5, "noise_shape": noise}
    case("dropout", normal(*shape), KEYS[0], attrs=attrs, oracle=dropped)
