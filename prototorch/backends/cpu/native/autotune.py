"""Which of several kernels does a step: the one that was measured to be the fastest, remembered on disk.

A choice is kept beside the compiled code, in a file of its own under a digest of the step, the candidates, the number
of threads, and all that code is kept by (processor, sources, llvmlite). The first process that measures decides: who
comes later takes what is there, so that the same step is done by the same kernel, with the same bits, from then on.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from prototorch.backends.cpu.native import kernel_cache
from prototorch.backends.cpu.native.cache_key import package_digest
from prototorch.backends.cpu.native.kernel_api import CHANNELS_LAST
from prototorch.spec import Spec

ROUNDS = 5  # turns of each candidate; its figure is the shortest
MIN_SECONDS = 2e-4  # seconds that a turn takes at least
MIN_RATIO = 0.97  # the first candidate, which the cost model chooses, is left for one that takes less than this part
SUFFIX = ".choice"

_choices: dict[bytes, str] = {}
_lock = threading.Lock()


def choose_fastest(step: object, candidates: Mapping[str, Callable[[Sequence[Any], Sequence[Any]], Callable[[], None]]],
         ins: Sequence[Spec], outs: Sequence[Spec], prepare: Callable[[], None]) -> str:  # fmt: skip
    """The name of the fastest of the candidates for a step, the first of which is the one to be bettered.

    ``step`` says by its repr what is done, and with how many threads; a candidate gives for arrays what runs it;
    ``ready`` is called before they are asked. Where there is not the memory to try them it is the first.
    """
    key = hashlib.sha256(f"{step!r}{list(candidates)!r}".encode() + package_digest()).digest()
    with _lock:
        found = _choices.get(key) or _load_choice(key)
        if found is None or found not in candidates:
            prepare()
            try:
                found = _store_choice(key, _measure(candidates, ins, outs))
            except MemoryError:
                return next(iter(candidates))
        _choices[key] = found
        return found


def clear_memory() -> None:
    """Forget what was read in this process."""
    _choices.clear()


def _measure(candidates: Mapping[str, Callable[..., Callable[[], None]]], ins: Sequence[Spec],
              outs: Sequence[Spec]) -> str:  # fmt: skip
    inputs, outputs = [_synthetic_array(s) for s in ins], [_synthetic_array(s) for s in outs]
    runs = {name: bind(inputs, outputs) for name, bind in candidates.items()}
    times = {
        name: _seconds_per_run(run, 1) for name, run in runs.items() for _ in range(2)
    }  # the first one touches memory
    repeats = {name: max(1, int(MIN_SECONDS / max(spent, 1e-7))) for name, spent in times.items()}
    for _ in range(ROUNDS):  # turn by turn, so that what else the machine does meets all of them
        for name, run in runs.items():
            times[name] = min(times[name], _seconds_per_run(run, repeats[name]))
    first, fastest = next(iter(times)), min(times, key=times.__getitem__)
    return fastest if times[fastest] < MIN_RATIO * times[first] else first


def _seconds_per_run(run: Callable[[], None], times: int) -> float:
    """The seconds of a run."""
    begin = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - begin) / times


def _synthetic_array(spec: Spec) -> np.ndarray:
    """Some numbers: ordinary ones, for kernels may be slow with others."""
    shape = spec.shape
    if spec.layout == CHANNELS_LAST:
        shape = (shape[0], *shape[2:], shape[1])
    if spec.is_float:
        made = np.resize(np.random.default_rng(0).standard_normal(4096).astype(spec.dtype), shape)
    else:
        made = np.zeros(shape, spec.dtype)
    return made if spec.layout is None else np.moveaxis(made, -1, 1)


def _load_choice(key: bytes) -> str | None:
    where = kernel_cache.usable_folder()
    if where is None:
        return None
    try:
        held = (where / f"{key.hex()}{SUFFIX}").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    name, _, check = held.partition("\n")
    return name if check == _checksum(key, name) else None


def _checksum(key: bytes, name: str) -> str:
    return hashlib.sha256(key + name.encode()).hexdigest()


def _store_choice(key: bytes, name: str) -> str:
    """Keep a choice, if no other process was faster; the choice that is kept."""
    where = kernel_cache.usable_folder()
    if where is None:
        return name
    path = where / f"{key.hex()}{SUFFIX}"
    try:
        handle, spare = tempfile.mkstemp(dir=where, prefix=kernel_cache.TEMP_PREFIX)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{name}\n{_checksum(key, name)}")
            if _load_choice(key) is None and path.exists():
                path.unlink()  # it is not whole
            with suppress(FileExistsError):
                os.link(spare, path)
        finally:
            os.unlink(spare)
    except OSError:
        return name
    return _load_choice(key) or name
