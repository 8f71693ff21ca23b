"""A model trained, evaluated and used on one level of the CPU, and how far two such runs may lie apart.

How far is not known beforehand: rounding grows by what a net does with it (a sum of which little is left, a sign that
an optimiser takes), and a maximum or a kink may fall to the other side. So it is measured: the plain level runs again
from weights and inputs that differ in their last bits. What it differs by then, times a few, is what another level may
differ by.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from prototorch.engine.backends.cpu.native.backend import NativeBackend
from prototorch.errors import TrainingError
from prototorch.graph.passes import batch_tiling, ghost_norm
from prototorch.losses import Loss
from prototorch.model.load import model_from_text
from prototorch.runtime.variables import METRIC_PREFIX
from prototorch.spec import Spec
from tests.nets.random_nets import RandomModel

Arrays = dict[str, np.ndarray]

#: by what inputs and weights differ: some roundings of float32, and of Winograd's convolutions
JITTER, WINOGRAD = 2.0**-21, 2.0**-16
#: the runs that differ by it, the factor on what they differ by, and what every array may differ by, of its length
RUNS, FACTOR, LEAST = 3, 8.0, 3e-6
#: beyond that a net multiplies rounding by so much that nothing is learned from it
WILD = 0.02


@dataclass(frozen=True)
class Data:
    """Samples for a model: inputs, targets, and weights or None."""

    x: Arrays
    y: Arrays
    weight: np.ndarray | None


def data_of(made: RandomModel, draw: int = 0) -> Data:
    """Random data, another set for each draw."""
    rng = np.random.default_rng([made.seed, draw])
    x: Arrays = {}
    for node in made.net.inputs:
        shape = (made.samples, *node.shape)
        if node.dtype != "float32":
            x[node.name] = rng.integers(0, made.counts[node.name], shape).astype(node.dtype)
            continue
        x[node.name] = rng.standard_normal(shape).astype(np.float32)
        if len(node.shape) == 2 and rng.random() < 0.4:  # steps that a layer may leave out
            steps = rng.integers(1, node.shape[0] + 1, made.samples)
            x[node.name] *= (np.arange(node.shape[0])[None] < steps[:, None])[..., None]
    specs = {i.name: Spec((made.samples, *i.shape), i.dtype) for i in made.net.inputs}
    outputs = model_from_text(made.text).trainer.plan_cache.output_specs(specs)
    y = {one.output: target(one.type, outputs[one.output], rng) for one in made.compiled.loss}
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], made.samples).astype(np.float32) if rng.random() < 0.25 else None
    return Data(x, y, weight if weight is None or weight.any() else None)


def target(loss: Loss, output: Spec, rng: np.random.Generator) -> np.ndarray:
    """A target that a loss takes for an output."""
    spec = loss.target_spec(output)
    if loss.target_kind == "classes":
        return rng.integers(0, output.shape[loss.class_axis], spec.shape)
    if loss.target_kind == "one_hot":
        axis = loss.class_axis
        found = np.eye(spec.shape[axis], dtype=np.float32)[rng.integers(0, spec.shape[axis], spec.shape[:-1])]
        return np.moveaxis(found, -1, axis) if axis in (-1, len(spec.shape) - 1) else _along(rng, spec, axis)
    if loss.target_kind == "binary":
        return rng.integers(0, 2, spec.shape).astype(np.float32)
    return (np.abs(rng.standard_normal(spec.shape)) + 0.1).astype(np.float32)


def _along(rng: np.random.Generator, spec: Spec, axis: int) -> np.ndarray:
    drawn = rng.random(spec.shape)
    return (drawn == drawn.max(axis=axis, keepdims=True)).astype(np.float32)


def run(made: RandomModel, data: Data, level: str, *, threads: int = 1, jitter: int = 0, **compiled: Any) -> Arrays:
    """A fit, an evaluation and a prediction: the losses, metrics, outputs, weights and slots by name.

    The last batch of each is a smaller one. jitter: the number of a run that differs in the last bits; 0 for none.
    compiled: fields of the compile block that are others. Raises what the model raises.
    """
    with patch.dict(os.environ, {"PROTOTORCH_CPU": level}), as_if_large(made.seed % 2 == 1):
        model = model_from_text(made.text)
        model.set_compile(model.compile_block.replace(threads=threads, **compiled))
        model.build()
        if jitter:
            rng = np.random.default_rng([made.seed, jitter, 1])
            data = replace(data, x={n: _shaken(a, rng, made) for n, a in data.x.items()})
            model.set_weights({n: _shaken(a, rng, made, 0.1) for n, a in model.get_weights().items()})
        y = data.y if len(data.y) > 1 else next(iter(data.y.values()))
        x = data.x if len(data.x) > 1 else next(iter(data.x.values()))
        history = model.fit(
            x, y, batch_size=made.batch, epochs=made.epochs, sample_weight=data.weight, verbose=0
        ).history
        found = {f"history {n}": np.array(v, np.float64) for n, v in history.items()}
        results = model.evaluate(x, y, batch_size=made.batch, sample_weight=data.weight)
        found |= {f"evaluate {n}": np.array(v, np.float64) for n, v in results.items()}
        outputs = model.predict(x, batch_size=made.batch)
        outputs = outputs if isinstance(outputs, dict) else {model.outputs[0]: outputs}
        found |= {f"output {n}": a for n, a in outputs.items()}
        variables = model.trainer.plan_cache.variables
        found |= {f"variable {n}": np.array(a) for n, a in variables.items() if not n.startswith(METRIC_PREFIX)}
    return found


@contextmanager
def as_if_large(wanted: bool) -> Iterator[None]:
    """Small nets go through passes that are meant for large ones: slices of a batch, norms without the gradient."""
    with ExitStack() as stack:
        if wanted:
            stack.enter_context(patch.object(NativeBackend, "cache_bytes", 1 << 13))
            stack.enter_context(patch.object(batch_tiling, "_STEP_OVERHEAD", 100))
            stack.enter_context(patch.object(ghost_norm, "MIN_PRODUCT_SIZE", 64))
        yield


def _shaken(array: np.ndarray, rng: np.random.Generator, made: RandomModel, around: float = 0.0) -> np.ndarray:
    """An array with other last bits; also where it is 0, if it stands for numbers around some size."""
    if array.dtype.kind != "f":
        return array
    size = JITTER if made.compiled.precision == "fp32" else WINOGRAD
    noise = size * rng.standard_normal(array.shape)
    return (array + noise * np.maximum(np.abs(array), around)).astype(array.dtype)


class Yard:
    """The run of one level, and how far from it another level's may be."""

    def __init__(self, made: RandomModel, data: Data, level: str = "plain"):
        self.plain = run(made, data, level)
        shaken = [run(made, data, level, jitter=n + 1) for n in range(RUNS)]
        self.spread = {n: max(_far(other[n], a) for other in shaken) for n, a in self.plain.items()}

    @property
    def wild(self) -> bool:
        """Whether rounding decides this net's outputs."""
        outputs = [n for n in self.plain if n.startswith("output")]
        return any(self.spread[n] > WILD * (1e-3 + float(np.linalg.norm(self.plain[n]))) for n in outputs)

    def mistakes(self, other: Arrays) -> dict[str, str]:
        """What differs by more than it may, with by how many times."""
        if other.keys() != self.plain.keys():
            return dict.fromkeys(other.keys() ^ self.plain.keys(), "is there in one only")
        found = {}
        for name, wanted in self.plain.items():
            if other[name].shape != wanted.shape or other[name].dtype != wanted.dtype:
                found[name] = f"{other[name].dtype}{other[name].shape} instead of {wanted.dtype}{wanted.shape}"
                continue
            far = _far(other[name], wanted)
            size = float(np.linalg.norm(np.nan_to_num(wanted.astype(np.float64))))
            most = FACTOR * self.spread[name] + LEAST * size + 1e-8 * np.sqrt(max(wanted.size, 1))
            if not far <= most:
                found[name] = f"off by {far / most:.3g} times what it may ({far / (size + 1e-30):.3g} of its length)"
        return found


def _far(a: np.ndarray, b: np.ndarray) -> float:
    """The distance of two arrays; infinite where one is finite and the other is not."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), finite):
        return np.inf
    return float(np.linalg.norm(a[finite] - b[finite]))


def same_bits(a: Arrays, b: Arrays) -> list[str]:
    """The names of what has other bits in two runs."""
    return [n for n in a.keys() | b.keys() if n not in a or n not in b or a[n].tobytes() != b[n].tobytes()]


def checked(made: RandomModel, draws: int = 3) -> str:
    """Check one model on all levels; gives a word on how it went, raises AssertionError with what is wrong.

    A value that differs more than it may is looked at again with other data: a kink that fell to the other side is
    gone then, a mistake is not.
    """
    told: list[dict[str, str]] = []
    for draw in range(draws):
        data = data_of(made, draw)
        try:
            with np.errstate(all="ignore"):
                yard = Yard(made, data)
        except TrainingError:
            return "not finite"
        native = run(made, data, "native")
        if not draw:
            threads = 1 if made.compiled.autotune else 2  # choices are made for a number of threads, and kept
            differ = same_bits(native, run(made, data, "native", threads=threads))
            assert not differ, f"other bits, on {threads} threads: {differ}"
            if made.seed % 3 == 0:  # of the training alone; a prediction may take other kernels
                differ = same_bits(native, run(made, data, "native", memory=_other_memory(made)))
                differ = [n for n in differ if n.startswith(("history", "variable"))]
                assert not differ, f"other bits, with the other memory: {differ}"
        found = yard.mistakes(native)
        if made.seed % 4 == 0:
            found |= {f"numpy {n}": w for n, w in yard.mistakes(run(made, data, "numpy")).items()}
        if not found:
            return "wild" if yard.wild else "kink" if draw else "ok"
        told.append(found)
    often = set(told[0]).intersection(*told[1:]) or set(told[0])
    raise AssertionError("\n".join(f"{n}: {'; '.join(t[n] for t in told if n in t)}" for n in sorted(often)))


def _other_memory(made: RandomModel) -> str:
    return "low" if made.compiled.memory == "normal" else "normal"
