"""Results that no cache can hold are written past the caches: the memory they go to need not be read first, which is a
third of the traffic of a sweep with one input and one output.

A kernel is emitted twice, its output pointers with and without ``streams``; which of the two runs is chosen when
addresses are known. (The counters of the thread team are locked instructions, which on x86 put such writes in order.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prototorch.backends.cpu.native.call import Addresses, Code
from prototorch.backends.cpu.native.machine import lanes_of, streams
from prototorch.spec import Spec

#: bytes of a result from which on it is written past the caches
LARGE = 1 << 24
_ALIGNED = 64


def streamed(make: Callable[[bool], Code], outs: Sequence[Spec], run: int) -> Callable[[Addresses, Addresses], int]:
    """A function from the addresses of inputs and outputs to the code that is to run.

    ``make(streams)`` says the code. ``outs`` are the outputs that would stream, ``run`` how many elements are written
    side by side from a whole multiple of it on: vectors must not lie across its end.
    """
    plain = make(False)
    if not _may(outs, run):
        return lambda i, o: plain.address
    past = make(True)
    return lambda i, o: past.address if _apart(i, o) else plain.address


def _may(outs: Sequence[Spec], run: int) -> bool:
    whole = run % lanes_of("float32") == 0
    return streams() and whole and all(o.dtype in ("float32", "int32") and o.nbytes >= LARGE for o in outs)


def _apart(inputs: Addresses, outputs: Addresses) -> bool:
    """Whether outputs begin at cache lines and none is an input, which would be in the cache anyway."""
    return all(a % _ALIGNED == 0 and a not in inputs for a in outputs)
