"""Nontemporal stores: results that no cache can hold are written past the caches, so that the memory need not be read
first, which is a third of the traffic of an elementwise kernel with one input and one output.

A kernel is emitted twice, its output pointers with and without ``nontemporal``; which of the two runs is
chosen when
addresses are known. (The counters of the thread pool are locked instructions, which on x86 put such writes in order.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prototorch.engine.backends.cpu.native.cpu_features import has_nontemporal_stores, vector_lanes
from prototorch.engine.backends.cpu.native.kernel_api import Addresses, KernelCode
from prototorch.spec import Spec

#: bytes of a result from which on it is written with nontemporal stores
MIN_BYTES = 1 << 24
_CACHE_LINE = 64


def choose_nontemporal(
    make: Callable[[bool], KernelCode], outs: Sequence[Spec], run_length: int
) -> Callable[[Addresses, Addresses], int]:
    """A function from the addresses of inputs and outputs to the code that is to run.

    ``make(streams)`` says the code. ``outs`` are the outputs that would stream, ``run`` how many elements are written
    side by side from a whole multiple of it on: vectors must not lie across its end.
    """
    temporal = make(False)
    if not _can_stream(outs, run_length):
        return lambda i, o: temporal.address
    streaming = make(True)
    return lambda i, o: streaming.address if _is_aligned_and_disjoint(i, o) else temporal.address


def _can_stream(outs: Sequence[Spec], run_length: int) -> bool:
    aligned_runs = run_length % vector_lanes("float32") == 0
    return (
        has_nontemporal_stores()
        and aligned_runs
        and all(o.dtype in ("float32", "int32") and o.nbytes >= MIN_BYTES for o in outs)
    )


def _is_aligned_and_disjoint(inputs: Addresses, outputs: Addresses) -> bool:
    """Whether outputs begin at cache lines and none is an input, which would be in the cache anyway."""
    return all(a % _CACHE_LINE == 0 and a not in inputs for a in outputs)
