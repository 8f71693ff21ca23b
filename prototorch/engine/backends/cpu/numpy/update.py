"""Optimiser updates in chunks: a chunk's weight, gradient and slots are read once, updated in the cache and written
once.

The common updates write directly over weight and slots, in the order of operations of the reference implementation, so
that the results are bit-identical; the others run the reference implementation chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prototorch.engine.backends.cpu.numpy.elementwise import has_numpy_dtypes
from prototorch.engine.backends.cpu.worker_pool import parallel_for, scratch_arrays
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.engine.backends.watching import magnitude, note_magnitude
from prototorch.ops import update
from prototorch.spec import Spec

_CHUNK_SIZE = 1 << 16  # elements: with four arrays of float32 a megabyte
_CHUNKS_PER_TASK = 4  # chunks that a thread processes at a time

#: body(w, g, slots, new w, new slots, rate, step) on vectors
UpdateBody = Callable[..., None]


class _UpdateKernel:
    """An update by chunks: ``body(vectors of inputs and outputs, rate, step)``, where the inputs are weight, gradient
    and slots."""

    def __init__(self, body: UpdateBody, size: int, watch: Sequence[int] = (), maximum: Any = None):
        self._body, self._size, self._watched_outputs, self._maximum = body, size, tuple(watch), maximum

    def with_watch(self, outputs: Sequence[int], maximum: np.ndarray) -> _UpdateKernel:
        """The kernel that also takes the largest magnitude of these outputs, while a chunk is in the cache; see
        `engine/backends/watching.py`."""
        return _UpdateKernel(self._body, self._size, outputs, maximum)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        w, g, rate, step, *slots = inputs
        arrays = [a.reshape(-1) for a in (w, g, *slots, *outputs)]
        watched_arrays = [arrays[len(arrays) - len(outputs) + i] for i in self._watched_outputs]
        rate, step = rate.astype(w.dtype), step.astype(w.dtype)

        def work(start: int, stop: int) -> list[float]:
            magnitudes: list[float] = []
            for at in range(start, stop, _CHUNK_SIZE):
                part = slice(at, min(at + _CHUNK_SIZE, stop))
                self._body([a[part] for a in arrays], rate, step)
                magnitudes += [magnitude(a[part]) for a in watched_arrays]
            return magnitudes

        def combine(magnitudes: list[float]) -> None:
            for value in magnitudes:
                note_magnitude(self._maximum, value)

        piece = _CHUNK_SIZE * (_CHUNKS_PER_TASK if self._size > 2 * _CHUNK_SIZE * _CHUNKS_PER_TASK else 1)
        parallel_for(work, self._size, piece, blas=bool(watched_arrays), combine=combine)


def _add_l2(w: Any, g: Any, l2: float, spare: Any) -> Any:
    """g + l2 * w, in the buffer ``spare``; g itself without l2."""
    if not l2:
        return g
    np.multiply(w, l2, out=spare)
    return np.add(g, spare, out=spare)


def _apply_decay(w: Any, new_w: Any, decay: float, rate: Any, spare: Any) -> Any:
    """w - w * (decay * rate), written where the new weight goes; w itself without decay."""
    if not decay:
        return w
    np.multiply(w, decay * rate, out=spare)
    return np.subtract(w, spare, out=new_w)


def _sgd(decay: float = 0.0, l2: float = 0.0) -> UpdateBody:
    def body(arrays: list[Any], rate: Any, step: Any) -> None:
        w, g, new_w = arrays
        (spare,) = scratch_arrays((w.shape, w.dtype))
        w = _apply_decay(w, new_w, decay, rate, spare)
        np.multiply(_add_l2(w, g, l2, spare), rate, out=spare)
        np.subtract(w, spare, out=new_w)

    return body


def _momentum(momentum: float, nesterov: bool = False, decay: float = 0.0, l2: float = 0.0) -> UpdateBody:
    def body(arrays: list[Any], rate: Any, step: Any) -> None:
        w, g, v, new_w, new_v = arrays
        (spare,) = scratch_arrays((w.shape, w.dtype))
        w = _apply_decay(w, new_w, decay, rate, spare)
        np.multiply(_add_l2(w, g, l2, spare), rate, out=spare)
        np.multiply(v, momentum, out=new_v)
        np.subtract(new_v, spare, out=new_v)
        if not nesterov:
            np.add(w, new_v, out=new_w)
            return
        np.add(w, momentum * new_v, out=new_w)
        np.subtract(new_w, spare, out=new_w)

    return body


def _adam(beta_1: float, beta_2: float, epsilon: float, decay: float = 0.0) -> UpdateBody:
    def body(arrays: list[Any], rate: Any, step: Any) -> None:
        w, g, m, v, new_w, new_m, new_v = arrays
        one, two = scratch_arrays((w.shape, w.dtype), (w.shape, w.dtype))
        w = _apply_decay(w, new_w, decay, rate, one)
        np.subtract(g, m, out=one)
        np.multiply(one, 1 - beta_1, out=one)
        np.add(m, one, out=new_m)
        np.multiply(g, g, out=one)
        np.subtract(one, v, out=one)
        np.multiply(one, 1 - beta_2, out=one)
        np.add(v, one, out=new_v)
        alpha = rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        np.sqrt(new_v, out=one)
        np.add(one, epsilon, out=one)
        np.multiply(new_m, alpha, out=two)
        np.divide(two, one, out=two)
        np.subtract(w, two, out=new_w)

    return body


#: name -> function from the attributes to the body
HAND_WRITTEN: dict[str, Callable[..., UpdateBody]] = {
    "sgd_update": _sgd,
    "momentum_update": _momentum,
    "adam_update": _adam,
}


def _register_hand_written(name: str, make: Callable[..., UpdateBody]) -> None:
    @kernel("numpy", name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        is_uniform = all(s == ins[0] for s in (ins[1], *ins[4:]))
        return (
            _UpdateKernel(make(**attrs), ins[0].size)
            if is_uniform and has_numpy_dtypes(*ins) and ins[0].is_float
            else None
        )


for _name, _make in HAND_WRITTEN.items():
    _register_hand_written(_name, _make)


def _register_reference(op: update.Update) -> None:
    @kernel("numpy", op.name)
    def prepare(ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: dict[str, Any]) -> KernelFn | None:
        w = ins[0]
        if not has_numpy_dtypes(*ins) or any(s.shape != w.shape for s in ins[4:]):
            return None

        def body(arrays: list[Any], rate: Any, step: Any) -> None:
            w, g, *others = arrays
            slots, targets = others[: op.slots], others[op.slots :]
            results = op.reference(np, w, g, rate, step, *slots, **attrs)
            for target, source in zip(targets, results, strict=True):
                target[...] = source

        return _UpdateKernel(body, w.size)


for _op in [v for v in vars(update).values() if isinstance(v, update.Update)]:
    if _op.name not in HAND_WRITTEN:
        _register_reference(_op)
