"""Random numbers and dropout, chunk by chunk. A chunk's words come from its own range of the counter, so that
threads share nothing and the bits are those of one sequential draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

_CHUNK_SIZE = 1 << 16  # elements; a multiple of 16, which one increment of the counter yields


def random_words_from(key: Any, site: int, first: int, count: int) -> Any:
    """``count`` words of 64 bits after the first ``first``, which is a multiple of 4."""
    start = np.array([first // 4, 0, key[1], 0], np.uint64)
    raw = np.random.Philox(key=np.array([key[0], site], np.uint64), counter=start).random_raw(count)
    return raw.astype("<u8", copy=False)


@kernel("numpy", "dropout")
def dropout(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
    """x * scale * keep, with 16 random bits for each element."""
    x = ins[0]
    noise = attrs.get("noise_shape")
    if x.dtype not in ("float32", "float64") or (noise is not None and tuple(noise) != x.shape):
        return None
    rate, site = attrs["rate"], attrs["site"]
    threshold, scale = np.uint16(min(round(rate * 65536), 65535)), 1 / (1 - rate)
    drops_all = round(rate * 65536) > 65535

    def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        values, key, out = inputs[0].reshape(-1), inputs[1], outputs[0].reshape(-1)

        def work(start: int, stop: int) -> None:
            words = random_words_from(key, site, start // 4, -(-(stop - start) // 4))
            (keep,) = scratch_arrays(((stop - start,), "bool"))
            np.greater_equal(words.view("<u2")[: stop - start], threshold, out=keep)
            if drops_all:
                keep.fill(False)
            part = out[start:stop]
            np.multiply(values[start:stop], scale, out=part)
            np.multiply(part, keep, out=part)

        parallel_for(work, x.size, _CHUNK_SIZE)

    return run
