"""A structural fuzzer: files whose fields, members and graphs are changed at random, not their bytes.

The oracle: a file is refused with an error of prototorch whose message names the place, or it is accepted and computes
what the reference computes, where there is one. A format is a `FuzzFormat`; ``python -m tests.fuzz FORMAT`` runs its
generator, and files that failed once lie in ``corpus/FORMAT``.
"""

from __future__ import annotations

import random
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from prototorch.errors import PrototorchError

__all__ = ["CORPUS", "FuzzFormat", "NoReferenceError", "RefusalError", "Verdict", "case", "corpus", "judge", "sample"]

CORPUS = Path(__file__).with_name("corpus")
MAX_SECONDS = 30  # of the processor, for one file
MAX_MESSAGE = 4000  # characters

FAILURES = ("bare exception", "no place", "wrong acceptance", "other outputs", "slow")


class RefusalError(Exception):
    """The reference refuses the file."""


class NoReferenceError(Exception):
    """The reference cannot say: it has no kernel for the op, or reads another version."""


@dataclass(frozen=True)
class FuzzFormat:
    """A format that is fuzzed.

    ending: of its files. generate: bytes of a file, from a generator of random numbers. load: reads a file; raises
    PrototorchError. run: the outputs of what `load` gave, for inputs by `sample`. reference: the outputs that the
    format's own system computes for a file; raises `RefusalError`, `NoReferenceError`; None where there is none.
    """

    name: str
    ending: str
    generate: Callable[[random.Random], bytes]
    load: Callable[[Path], Any]
    run: Callable[[Any], Sequence[np.ndarray]]
    reference: Callable[[Path], Sequence[np.ndarray]] | None = None
    tolerance: float = 1e-3


@dataclass(frozen=True)
class Verdict:
    """kind: "refused", "equal", "accepted" (there is no reference), or one of `FAILURES`."""

    kind: str
    text: str = ""

    @property
    def is_failure(self) -> bool:
        return self.kind in FAILURES


def case(format: FuzzFormat, number: int) -> bytes:
    """The bytes of a numbered case, the same on every machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that write the file
        return format.generate(random.Random(f"{format.name}:{number}"))


def corpus(name: str) -> list[Path]:
    """The files of a format that failed once."""
    return sorted((CORPUS / name).glob("*"))


def sample(name: str, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Elements for an input, which follow from its name and shape alone."""
    rng = np.random.default_rng(crc32(f"{name}{tuple(shape)}".encode()))
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def judge(format: FuzzFormat, path: Path) -> Verdict:
    """What becomes of a file."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with _time_limit():
                model = format.load(path)
        except PrototorchError as error:
            return _judge_message(str(error), path)
        except TimeoutError:
            return Verdict("slow", f"more than {MAX_SECONDS} s")
        except Exception as error:
            return Verdict("bare exception", f"{type(error).__name__}: {error!s:.300}")
        try:
            with _time_limit():
                outputs = [np.asarray(a) for a in format.run(model)]
        except PrototorchError as error:  # of the data or the memory: the model is not run on its own file
            return Verdict("refused", f"{type(error).__name__}: {error}")
        except TimeoutError:
            return Verdict("slow", f"more than {MAX_SECONDS} s")
        except Exception as error:
            return Verdict("bare exception", f"{type(error).__name__}: {error!s:.300}")
        if format.reference is None:
            return Verdict("accepted")
        try:
            expected = [np.asarray(a) for a in format.reference(path)]
        except NoReferenceError as error:
            return Verdict("accepted", str(error))
        except RefusalError as error:
            return Verdict("wrong acceptance", str(error)[:300])
    return _compare(outputs, expected, format.tolerance)


def _judge_message(message: str, path: Path) -> Verdict:
    if path.name not in message:
        return Verdict("no place", message[:300])
    if len(message) > MAX_MESSAGE:
        return Verdict("no place", f"a message of {len(message)} characters")
    return Verdict("refused", message.replace(str(path), path.name))


def _compare(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float) -> Verdict:
    if len(outputs) != len(expected):
        return Verdict("other outputs", f"{len(outputs)} outputs, the reference has {len(expected)}")
    for index, (array, reference) in enumerate(zip(outputs, expected, strict=True)):
        if array.shape != reference.shape:
            return Verdict("other outputs", f"output {index} is {array.shape}, the reference's {reference.shape}")
        a, b = array.astype(np.float64), reference.astype(np.float64)
        scale = max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0))
        if not np.allclose(a, b, tolerance, tolerance * scale, equal_nan=True):
            return Verdict("other outputs", f"output {index} differs by {np.nanmax(np.abs(a - b)):.3g}")
    return Verdict("equal")


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
