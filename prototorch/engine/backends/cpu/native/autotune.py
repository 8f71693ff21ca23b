"""Autotuning: which of several kernels runs a step, by timing them; choices are cached on disk.

A choice is stored beside the compiled code, in a file under a digest of the step, the candidates, the number of
threads, the target and all sources. The first process that measures decides: later ones read its choice, so that a step
is run by the same kernel, with the same bits, from then on.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.native.cache_key import package_digest
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST
from prototorch.engine.backends.cpu.native.kernel_cache import CHOICE_SUFFIX
from prototorch.engine.backends.user_cache import usable_folder
from prototorch.spec import Spec

ROUNDS = 5  # runs of each candidate; the shortest counts
MIN_SECONDS = 2e-4  # of a run; short kernels are repeated
MIN_RATIO = (
    0.97  # the cost model's choice, the first candidate, is replaced by one that takes less than this share of its time
)

_choices: dict[bytes, str] = {}
_lock = threading.Lock()


def choose_fastest(
    step: object,
    candidates: Mapping[str, Callable[[Sequence[Any], Sequence[Any]], Callable[[], None]]],
    ins: Sequence[Spec],
    outs: Sequence[Spec],
    prepare: Callable[[], None],
) -> str:
    """The name of the fastest candidate for a step.

    Args:
        step: identifies the step and the number of threads by its repr.
        candidates: by name, functions from input and output arrays to a call that runs the kernel; the first is the
            cost model's choice.
        ins, outs: the specs of the arrays.
        prepare: called before the candidates are timed, to compile them.

    Where there is not enough memory to try them, the first is returned.
    """
    key = hashlib.sha256(f"{step!r}{list(candidates)!r}".encode() + package_digest()).digest()
    with _lock:
        choice = _choices.get(key) or _load_choice(key)
        if choice is None or choice not in candidates:
            prepare()
            try:
                choice = _store_choice(key, _measure(candidates, ins, outs))
            except MemoryError:
                return next(iter(candidates))
        _choices[key] = choice
        return choice


def clear_memory() -> None:
    """Forget the choices read in this process."""
    _choices.clear()


def _measure(
    candidates: Mapping[str, Callable[..., Callable[[], None]]], ins: Sequence[Spec], outs: Sequence[Spec]
) -> str:
    inputs, outputs = [_synthetic_array(s) for s in ins], [_synthetic_array(s) for s in outs]
    runs = {name: bind(inputs, outputs) for name, bind in candidates.items()}
    times = {
        name: _seconds_per_run(run, 1) for name, run in runs.items() for _ in range(2)
    }  # the first run touches the memory
    repeats = {name: max(1, int(MIN_SECONDS / max(spent, 1e-7))) for name, spent in times.items()}
    for _ in range(ROUNDS):  # interleaved, so that other load affects all of them
        for name, run in runs.items():
            times[name] = min(times[name], _seconds_per_run(run, repeats[name]))
    first, fastest = next(iter(times)), min(times, key=times.__getitem__)
    return fastest if times[fastest] < MIN_RATIO * times[first] else first


def _seconds_per_run(run: Callable[[], None], times: int) -> float:
    """The mean seconds of a run."""
    begin = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - begin) / times


def _synthetic_array(spec: Spec) -> np.ndarray:
    """An array of ordinary values: kernels may be slow with others (subnormal, NaN)."""
    shape = spec.shape
    if spec.layout == CHANNELS_LAST:
        shape = (shape[0], *shape[2:], shape[1])
    if spec.is_float:
        array = np.resize(np.random.default_rng(0).standard_normal(4096).astype(spec.dtype), shape)
    else:
        array = np.zeros(shape, spec.dtype)
    return array if spec.layout is None else np.moveaxis(array, -1, 1)


def _load_choice(key: bytes) -> str | None:
    folder = usable_folder()
    content = None if folder is None else folder.read(key.hex() + CHOICE_SUFFIX)
    return None if content is None else content.decode()


def _store_choice(key: bytes, name: str) -> str:
    """Store a choice unless another process was first; return the stored choice."""
    folder = usable_folder()
    if folder is None:
        return name
    if not folder.write(key.hex() + CHOICE_SUFFIX, name.encode(), replace=False) and _load_choice(key) is None:
        folder.write(key.hex() + CHOICE_SUFFIX, name.encode())  # the one that is there is damaged
    return _load_choice(key) or name
