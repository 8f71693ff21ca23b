"""What every layer is checked for, from its own examples. Each check is a function of a case and a backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from prototorch.backends.core import Backend
from prototorch.backends.cpu import cpu
from prototorch.engine.eager_layer import run_layer, state_of
from prototorch.engine.tensor import Tensor, grad, parameter
from prototorch.graph.record import Graph
from prototorch.graph.symbol import Input
from prototorch.graph.trace import KEY
from prototorch.storage.container import read, write
from prototorch.testing.build import NAME, Program, Said, Strict, differentiate, outputs_of, say
from prototorch.testing.case import BATCH, Case
from prototorch.testing.reading import layer_of
from prototorch.text.tree import Body, Field
from prototorch.text.writer import write_fields

Check = Callable[[Case, Backend], None]
CHECKS: dict[str, Check] = {}

# A result in float32 is compared relative to the largest number there: sums of a few hundred products, added in another
# order, differ by some 1e-6 of it. In float64 the same is 1e-14; two decades are left for longer sums.
SINGLE, DOUBLE = 1e-5, 1e-12


def check(function: Check) -> Check:
    """Enter a check under its name."""
    CHECKS[function.__name__] = function
    return function


# A gradient may be the small rest of a sum of numbers around 1 that cancel (that of a bias before a softmax is 0
# exactly): its rounding follows the terms, not the rest, so that it is compared as if it were at least this large.
RESIDUE = 1e-2


def close(got: Any, wanted: Any, tolerance: float, what: str, least: float = 1e-3) -> None:
    """Assert that two arrays agree, relative to the largest number of the wanted one (at least ``least``)."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape} instead of {wanted.shape}"
    assert got.dtype == wanted.dtype, f"{what}: type {got.dtype} instead of {wanted.dtype}"
    if got.dtype.kind != "f":
        assert np.array_equal(got, wanted), f"{what}: {got} instead of {wanted}"
        return
    scale = max(float(np.abs(wanted).max(initial=0.0)), least)
    far = np.abs(got - wanted).max(initial=0.0)
    assert np.array_equal(np.isfinite(got), np.isfinite(wanted)), f"{what}: not finite where it should be, or reverse"
    assert not far > tolerance * scale, f"{what}: differs by {far:.3g} where the largest number is {scale:.3g}"


def said(case: Case, training: bool, dtype: str, batch: int = BATCH) -> Said:
    """The case said into a new graph."""
    return say(Graph(), case.made, case.specs(dtype, batch), training, dtype, case.mask())


@check
def shapes(case: Case, backend: Backend) -> None:
    """Both phases run; the outputs are as many as declared, of the shapes and types the graph says, finite; no kernel
    leaves an element out or depends on what an earlier run left behind."""
    weights = case.weights("float32")
    for training in case.phases:
        one = said(case, training, "float32")
        assert len(one.outputs) == case.made.output_count(), "output_count() says another number of outputs"
        program = Program(one, outputs_of(one), Strict(backend), weights)
        first = program(case.inputs("float32"), case.mask())
        for value, array in zip(one.outputs, first.values(), strict=True):
            assert array.shape == value.shape
            assert str(array.dtype) == value.dtype
            assert value.shape[0] == BATCH, f"the batch dimension is lost: {value.shape}"
            assert array.dtype.kind != "f" or np.isfinite(array).all(), "not finite, or an element was not written"
        again = program(case.inputs("float32"), case.mask())
        assert all(np.array_equal(first[n], again[n]) for n in first), "a second run differs"
        updated = Program(one, outputs_of(one), Strict(backend), weights, update=True)
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
    made = case.made(*symbols)
    assert (len(made) if isinstance(made, tuple) else 1) == case.made.output_count()


@check
def plan_is_tape(case: Case, backend: Backend) -> None:
    """The plan and the eager tape give the same outputs and gradients; also for inputs that are not contiguous."""
    weights = case.weights("float32")
    for training in case.phases:
        one = said(case, training, "float32")
        seeds = {n: np.zeros(v.shape, v.dtype) for n, v in one.variables.items()}
        floats = [i for i, v in enumerate(one.outputs) if v.spec.is_float]
        wants_grad = case.extra("gradient", True) and bool(one.variables) and bool(floats)
        if wants_grad:
            differentiate(one, seeds, case.seed)
        planned = Program(one, outputs_of(one) | {f"d{n}": g for n, g in one.grads.items()}, backend, weights)(
            case.inputs("float32"), case.mask()
        )
        for strided in (False, True):
            tensors = [parameter(_strided(x) if strided else x, x.dtype.kind == "f") for x in case.inputs("float32")]
            outs = _eager(case, tensors, weights, training)
            for i, out in enumerate(outs):
                close(out.numpy(), planned[f"y{i}"], SINGLE * case.tolerance, f"output {i}, training={training}")
            if wants_grad and not strided:
                _same_gradients(case, one, tensors, outs, planned)


def _eager(case: Case, tensors: list[Tensor], weights: dict[str, np.ndarray], training: bool) -> tuple[Tensor, ...]:
    state = state_of(case.made)
    trained = {n for n, w in case.declared("float32").items() if w.trainable}
    state.weights = {n[len(NAME) + 1 :]: parameter(np.array(a), n in trained) for n, a in weights.items()}
    mask = case.mask()
    if mask is not None:
        tensors[0].mask = parameter(mask, False)
    key = parameter(np.array([1, 2], np.uint64), False)
    made = run_layer(parameter, case.made, tensors, on=training, key=key, name=NAME)
    return made if isinstance(made, tuple) else (made,)


def _same_gradients(case: Case, one: Said, tensors: list[Tensor], outs: tuple[Tensor, ...], planned: Any) -> None:
    rng = np.random.default_rng(case.seed)
    parts = [(out * rng.standard_normal(out.shape).astype(out.dtype)).sum() for out in outs if out.spec.is_float]
    parts += [loss * 0.7 for loss in state_of(case.made).losses]
    loss = sum(parts[1:], parts[0])
    if not loss.requires_grad:
        assert not one.grads
        return
    known = {f"x{i}": t for i, t in enumerate(tensors)}
    known.update({f"{NAME}/{n}": t for n, t in state_of(case.made).weights.items()})
    for name, found in zip(one.grads, grad(loss, [known[n] for n in one.grads]), strict=True):
        close(found.numpy(), planned[f"d{name}"], 10 * SINGLE * case.tolerance, f"gradient by {name}", RESIDUE)


def _strided(array: np.ndarray) -> np.ndarray:
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
        for attempt in range(3):  # a direction that meets a kink says nothing; three in a row mean a mistake
            complaint = _derivatives(case, backend, training, attempt)
            if complaint is None:
                break
        assert complaint is None, f"training={training}: {complaint}"


def _derivatives(case: Case, backend: Backend, training: bool, attempt: int) -> str | None:
    rng = np.random.default_rng([case.seed, attempt])
    one = said(case, training, "float64")
    if not one.variables or not (one.trace.losses or any(v.spec.is_float for v in one.outputs)):
        return None
    # Two directions of unit size: along v the differences are taken, u turns the gradient into a number for the second.
    u, v = ({n: _unit(rng, x.shape) for n, x in one.variables.items()} for _ in range(2))
    differentiate(one, u, case.seed)
    assert one.loss is not None
    wanted = {"loss": one.loss} | ({"slope": one.slope} if one.slope is not None else {})
    wanted |= {f"d{n}": g for n, g in one.grads.items()} | {f"dd{n}": g for n, g in one.seconds.items()}
    program = Program(one, wanted, backend, case.weights("float64"))
    start = {f"x{i}": x + 0.1 * attempt * rng.standard_normal(x.shape) if x.dtype.kind == "f" else x
             for i, x in enumerate(case.inputs("float64"))} | case.weights("float64")  # fmt: skip

    def at(step: float) -> dict[str, np.ndarray]:
        moved = {n: a + step * v[n] if n in v else a for n, a in start.items()}
        for n in program.states:
            program.states[n][...] = moved[n]
        return program([moved[f"x{i}"] for i in range(len(one.inputs))], case.mask())

    # Central differences, eps = 1e-6: off by eps^2 f'''/6, some 1e-12, and by rounding, 1e-16 |f| / eps = 1e-10 |f|.
    eps = 1e-6
    here, ahead, behind = at(0.0), at(eps), at(-eps)
    for value, prefix in (("loss", "d"), ("slope", "dd"))[
        : 2 if case.extra("second", True) and one.slope is not None else 1
    ]:
        exact = sum(float((here[prefix + n] * v[n]).sum()) for n in v if prefix + n in here)
        numeric = float(ahead[value] - behind[value]) / (2 * eps)
        size = max(abs(float(here[value])), abs(exact), 1.0)
        if not abs(exact - numeric) <= 1e-7 * size * case.tolerance:
            order = "first" if prefix == "d" else "second"
            return f"the {order} derivative is {exact:.12g}, by differences {numeric:.12g}"
    return None


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    direction = rng.standard_normal(shape)
    return direction / max(float(np.linalg.norm(direction)), 1e-12)


@check
def batched_is_unbatched(case: Case, backend: Backend) -> None:
    """In inference, a sample's result does not depend on the samples beside it."""
    if False not in case.phases or not case.extra("batched", True):
        return
    weights, inputs, mask = case.weights("float64"), case.inputs("float64"), case.mask()
    many, single = said(case, False, "float64"), said(case, False, "float64", batch=1)
    together = Program(many, outputs_of(many), backend, weights)(inputs, mask)
    alone = Program(single, outputs_of(single), backend, weights)
    for b in range(BATCH):
        made = alone([x[b : b + 1] for x in inputs], None if mask is None else mask[b : b + 1])
        for name, array in made.items():
            close(array, together[name][b : b + 1], DOUBLE * case.tolerance, f"sample {b} of {name}")


@check
def levels_agree(case: Case, backend: Backend) -> None:
    """The backend's kernels and the plain bodies give the same outputs and gradients."""
    weights = case.weights("float32")
    for training in case.phases:
        one = said(case, training, "float32")
        wanted = outputs_of(one)
        if case.extra("gradient", True) and one.variables and any(v.spec.is_float for v in one.outputs):
            differentiate(one, {n: np.ones(v.shape, v.dtype) for n, v in one.variables.items()}, case.seed)
            wanted |= {f"d{n}": g for n, g in one.grads.items()}
        fast = Program(one, wanted, Strict(backend), weights)(case.inputs("float32"), case.mask())
        slow = Program(one, wanted, Strict(cpu("plain")), weights)(case.inputs("float32"), case.mask())
        for name, array in fast.items():
            least = RESIDUE if name.startswith("d") and name[1:] in one.variables else 1e-3
            close(array, slow[name], 10 * SINGLE * case.tolerance, f"{name}, training={training}", least)


@check
def randomness(case: Case, backend: Backend) -> None:
    """The same key gives the same result; where the layer draws, another key another one."""
    for training in case.phases:
        one = said(case, training, "float32")
        if KEY not in one.trace.graph.inputs:
            continue
        program = Program(one, outputs_of(one), Strict(backend), case.weights("float32"))
        inputs, mask = case.inputs("float32"), case.mask()
        a, b, c = (program(inputs, mask, key) for key in ((7, 1), (7, 1), (7, 2)))
        assert all(np.array_equal(a[n], b[n]) for n in a), "the same key gave two results"
        others = [program(inputs, mask, (7, step)) for step in range(3, 9)] + [c]
        assert any(not np.array_equal(a[n], o[n]) for n in a for o in others), "another key gave the same result"


@check
def text_round_trip(case: Case, backend: Backend) -> None:
    """Written as text and read again the layer is equal, and is written the same way again."""
    text = write_fields([Field(type(case.made).__name__, Body(tuple(case.made.to_fields())))])
    again = layer_of(text)
    assert again == case.made, text
    assert write_fields([Field(type(again).__name__, Body(tuple(again.to_fields())))]) == text


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
