"""The checks of every layer, from its own examples. Each check is a function of a case and a backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from prototorch.eager.functions.gradients import grad
from prototorch.eager.layer_call import layer_state, run_layer
from prototorch.eager.layer_call import weight_tensor as parameter
from prototorch.eager.tensor import Tensor
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.case import BATCH, Case
from prototorch.engine.harness.layer_graph import (
    NAME,
    CompiledLayer,
    StrictBackend,
    TracedLayer,
    differentiate,
    named_outputs,
    trace_layer,
)
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.engine.storage.container import read, write
from prototorch.graph.ir import Graph
from prototorch.graph.symbolic import Input
from prototorch.graph.trace import RANDOM_KEY
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields

Check = Callable[[Case, Backend], None]
CHECKS: dict[str, Check] = {}

# A result in float32 is compared relative to the largest number there: sums of a few hundred products, added in another
# order, differ by some 1e-6 of it. In float64 the same is 1e-14; two decades are left for longer sums.
FLOAT32_TOLERANCE, FLOAT64_TOLERANCE = 1e-5, 1e-12


def check(function: Check) -> Check:
    """Register a check under its name."""
    CHECKS[function.__name__] = function
    return function


# A gradient may be the small rest of a sum of numbers around 1 that cancel (that of a bias before a softmax is 0
# exactly): its rounding follows the terms, not the rest, so that it is compared as if it were at least this large.
MIN_GRADIENT_SCALE = 1e-2


def assert_close(got: Any, expected: Any, tolerance: float, what: str, least: float = 1e-3) -> None:
    """Assert that two arrays agree, relative to the largest number of the expected one (at least ``least``)."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape} instead of {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: type {got.dtype} instead of {expected.dtype}"
    if got.dtype.kind != "f":
        assert np.array_equal(got, expected), f"{what}: {got} instead of {expected}"
        return
    scale = max(float(np.abs(expected).max(initial=0.0)), least)
    far = np.abs(got - expected).max(initial=0.0)
    assert np.array_equal(np.isfinite(got), np.isfinite(expected)), f"{what}: not finite where it should be, or reverse"
    assert not far > tolerance * scale, f"{what}: differs by {far:.3g} where the largest number is {scale:.3g}"


def trace_case(case: Case, training: bool, dtype: str, batch: int = BATCH) -> TracedLayer:
    """The case recorded into a new graph."""
    return trace_layer(Graph(), case.instance, case.specs(dtype, batch), training, dtype, case.mask())


@check
def shapes(case: Case, backend: Backend) -> None:
    """Both phases run; the outputs are as many as declared, of the shapes and dtypes of the graph, finite; no kernel
    leaves an element out or depends on what an earlier run left behind."""
    weights = case.weights("float32")
    for training in case.phases:
        one = trace_case(case, training, "float32")
        assert len(one.outputs) == case.instance.output_count(), "the number of outputs is not output_count()"
        program = CompiledLayer(one, named_outputs(one), StrictBackend(backend), weights)
        first = program(case.inputs("float32"), case.mask())
        for value, array in zip(one.outputs, first.values(), strict=True):
            assert array.shape == value.shape
            assert str(array.dtype) == value.dtype
            if case.extra("batch_axis", True):
                assert value.shape[0] == BATCH, f"the batch dimension is lost: {value.shape}"
            assert array.dtype.kind != "f" or np.isfinite(array).all(), "not finite, or an element was not written"
        again = program(case.inputs("float32"), case.mask())
        assert all(np.array_equal(first[n], again[n]) for n in first), "a second run differs"
        updated = CompiledLayer(one, named_outputs(one), StrictBackend(backend), weights, update=True)
        updated(case.inputs("float32"), case.mask())
        for name, array in updated.states.items():
            after = backend.to_numpy(array)
            assert after.dtype.kind != "f" or np.isfinite(after).all(), f"{name} is not finite after a step"
            if name not in one.trace.updates:
                assert np.array_equal(after, weights[name]), f"{name} changed, though it is not updated"


@check
def symbolic(case: Case, backend: Backend) -> None:
    """The layer called on symbols gives as many as it has outputs."""
    symbols = [Input(s, dtype=d) for s, d in zip(case.example.inputs, case.dtypes, strict=True)]
    symbols_of_outputs = case.instance(*symbols)
    assert (len(symbols_of_outputs) if isinstance(symbols_of_outputs, tuple) else 1) == case.instance.output_count()


@check
def plan_is_tape(case: Case, backend: Backend) -> None:
    """The plan and the eager tape give the same outputs and gradients; also for inputs that are not contiguous."""
    weights = case.weights("float32")
    for training in case.phases:
        one = trace_case(case, training, "float32")
        seeds = {n: np.zeros(v.shape, v.dtype) for n, v in one.variables.items()}
        floats = [i for i, v in enumerate(one.outputs) if v.spec.is_float]
        wants_grad = case.extra("gradient", True) and bool(one.variables) and bool(floats)
        if wants_grad:
            differentiate(one, seeds, case.seed)
        plan_results = CompiledLayer(
            one, named_outputs(one) | {f"d{n}": g for n, g in one.grads.items()}, backend, weights
        )(case.inputs("float32"), case.mask())
        for strided in (False, True):
            tensors = [
                parameter(_make_strided(x) if strided else x, x.dtype.kind == "f") for x in case.inputs("float32")
            ]
            outs = _run_eager(case, tensors, weights, training)
            for i, out in enumerate(outs):
                assert_close(
                    out.numpy(),
                    plan_results[f"y{i}"],
                    FLOAT32_TOLERANCE * case.tolerance,
                    f"output {i}, training={training}",
                )
            if wants_grad and not strided:
                _assert_same_gradients(case, one, tensors, outs, plan_results)


def _run_eager(case: Case, tensors: list[Tensor], weights: dict[str, np.ndarray], training: bool) -> tuple[Tensor, ...]:
    state = layer_state(case.instance)
    trainable = {n for n, w in case.declared_weights("float32").items() if w.trainable}
    state.weights = {n[len(NAME) + 1 :]: parameter(np.array(a), n in trainable) for n, a in weights.items()}
    mask = case.mask()
    if mask is not None:
        tensors[0].mask = parameter(mask, False)
    key = parameter(np.array([1, 2], np.uint64), False)
    outputs = run_layer(case.instance, tensors, training=training, key=key, name=NAME)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _assert_same_gradients(
    case: Case, one: TracedLayer, tensors: list[Tensor], outs: tuple[Tensor, ...], plan_results: Any
) -> None:
    rng = np.random.default_rng(case.seed)
    parts = [(out * rng.standard_normal(out.shape).astype(out.dtype)).sum() for out in outs if out.spec.is_float]
    parts += [loss * 0.7 for loss in layer_state(case.instance).losses]
    loss = sum(parts[1:], parts[0])
    if not loss.requires_grad:
        assert not one.grads
        return
    leaves = {f"x{i}": t for i, t in enumerate(tensors)}
    leaves.update({f"{NAME}/{n}": t for n, t in layer_state(case.instance).weights.items()})
    for name, gradient in zip(
        one.grads, grad(loss, [leaves[n] for n in one.grads], materialize_grads=True), strict=True
    ):
        assert_close(
            gradient.numpy(),
            plan_results[f"d{name}"],
            10 * FLOAT32_TOLERANCE * case.tolerance,
            f"gradient by {name}",
            MIN_GRADIENT_SCALE,
        )


def _make_strided(array: np.ndarray) -> np.ndarray:
    """The same elements, every second one of a wider array whose axes lie in reverse order in memory."""
    wide = np.zeros(tuple(2 * n for n in array.shape[::-1]), array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)].T
    view[...] = array
    return view


@check
def gradients(case: Case, backend: Backend) -> None:
    """In float64, the first and second derivative along a random direction agree with central differences."""
    if not case.extra("gradient", True):
        return
    for training in case.phases:
        for attempt in range(3):  # a direction that meets a kink proves nothing; three in a row are an error
            complaint = _compare_derivatives(case, backend, training, attempt)
            if complaint is None:
                break
        assert complaint is None, f"training={training}: {complaint}"


def _compare_derivatives(case: Case, backend: Backend, training: bool, attempt: int) -> str | None:
    rng = np.random.default_rng([case.seed, attempt])
    one = trace_case(case, training, "float64")
    if not one.variables or not (one.trace.losses or any(v.spec.is_float for v in one.outputs)):
        return None
    # Two directions of unit size: along v the differences are taken, u turns the gradient into a number for the second.
    u, v = ({n: _unit_direction(rng, x.shape) for n, x in one.variables.items()} for _ in range(2))
    differentiate(one, u, case.seed)
    assert one.loss is not None
    expected = {"loss": one.loss} | (
        {"slope": one.directional_derivative} if one.directional_derivative is not None else {}
    )
    expected |= {f"d{n}": g for n, g in one.grads.items()} | {f"dd{n}": g for n, g in one.second_grads.items()}
    program = CompiledLayer(one, expected, backend, case.weights("float64"))
    start = {
        f"x{i}": x + 0.1 * attempt * rng.standard_normal(x.shape) if x.dtype.kind == "f" else x
        for i, x in enumerate(case.inputs("float64"))
    } | case.weights("float64")

    def at(step: float) -> dict[str, np.ndarray]:
        moved = {n: a + step * v[n] if n in v else a for n, a in start.items()}
        for n in program.states:
            program.states[n][...] = moved[n]
        return program([moved[f"x{i}"] for i in range(len(one.inputs))], case.mask())

    # Central differences, eps = 1e-6: off by eps^2 f'''/6, some 1e-12, and by rounding, 1e-16 |f| / eps = 1e-10 |f|.
    eps = 1e-6
    here, ahead, behind = at(0.0), at(eps), at(-eps)
    for value, prefix in (("loss", "d"), ("slope", "dd"))[
        : 2 if case.extra("second", True) and one.directional_derivative is not None else 1
    ]:
        exact = sum(float((here[prefix + n] * v[n]).sum()) for n in v if prefix + n in here)
        numeric = float(ahead[value] - behind[value]) / (2 * eps)
        size = max(abs(float(here[value])), abs(exact), 1.0)
        if not abs(exact - numeric) <= 1e-7 * size * case.tolerance:
            order = "first" if prefix == "d" else "second"
            return f"the {order} derivative is {exact:.12g}, by differences {numeric:.12g}"
    return None


def _unit_direction(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    direction = rng.standard_normal(shape)
    return direction / max(float(np.linalg.norm(direction)), 1e-12)


@check
def batched_is_unbatched(case: Case, backend: Backend) -> None:
    """In inference, a sample's result does not depend on the samples beside it."""
    if False not in case.phases or not case.extra("batched", True):
        return
    weights, inputs, mask = case.weights("float64"), case.inputs("float64"), case.mask()
    many, single = trace_case(case, False, "float64"), trace_case(case, False, "float64", batch=1)
    together = CompiledLayer(many, named_outputs(many), backend, weights)(inputs, mask)
    alone = CompiledLayer(single, named_outputs(single), backend, weights)
    for b in range(BATCH):
        outputs = alone([x[b : b + 1] for x in inputs], None if mask is None else mask[b : b + 1])
        for name, array in outputs.items():
            assert_close(array, together[name][b : b + 1], FLOAT64_TOLERANCE * case.tolerance, f"sample {b} of {name}")


@check
def levels_agree(case: Case, backend: Backend) -> None:
    """The backend's kernels and the reference implementations give the same outputs and gradients."""
    weights = case.weights("float32")
    for training in case.phases:
        one = trace_case(case, training, "float32")
        expected = named_outputs(one)
        if case.extra("gradient", True) and one.variables and any(v.spec.is_float for v in one.outputs):
            differentiate(one, {n: np.ones(v.shape, v.dtype) for n, v in one.variables.items()}, case.seed)
            expected |= {f"d{n}": g for n, g in one.grads.items()}
        fast = CompiledLayer(one, expected, StrictBackend(backend), weights)(case.inputs("float32"), case.mask())
        slow = CompiledLayer(one, expected, StrictBackend(cpu("plain")), weights)(case.inputs("float32"), case.mask())
        for name, array in fast.items():
            least = MIN_GRADIENT_SCALE if name.startswith("d") and name[1:] in one.variables else 1e-3
            assert_close(
                array, slow[name], 10 * FLOAT32_TOLERANCE * case.tolerance, f"{name}, training={training}", least
            )


@check
def randomness(case: Case, backend: Backend) -> None:
    """The same key gives the same result; where the layer draws, another key another one."""
    for training in case.phases:
        one = trace_case(case, training, "float32")
        if RANDOM_KEY not in one.trace.graph.inputs:
            continue
        program = CompiledLayer(one, named_outputs(one), StrictBackend(backend), case.weights("float32"))
        inputs, mask = case.inputs("float32"), case.mask()
        a, b, c = (program(inputs, mask, key) for key in ((7, 1), (7, 1), (7, 2)))
        assert all(np.array_equal(a[n], b[n]) for n in a), "the same key gave two results"
        others = [program(inputs, mask, (7, step)) for step in range(3, 9)] + [c]
        assert any(not np.array_equal(a[n], o[n]) for n in a for o in others), "another key gave the same result"


@check
def text_round_trip(case: Case, backend: Backend) -> None:
    """Written as text and read again the layer is equal, and is written the same way again."""
    text = format_fields([Field(type(case.instance).__name__, Body(tuple(case.instance.to_fields())))])
    again = parse_layer(text)
    assert again == case.instance, text
    assert format_fields([Field(type(again).__name__, Body(tuple(again.to_fields())))]) == text


@check
def file_round_trip(case: Case, backend: Backend) -> None:
    """The weights come back from a file bit for bit."""
    weights = case.weights("float32")
    if not weights:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "weights.h5"
        write(path, weights)
        again = read(path).arrays
    assert set(again) == set(weights)
    assert all(again[n].dtype == a.dtype and np.array_equal(again[n], a) for n, a in weights.items())
