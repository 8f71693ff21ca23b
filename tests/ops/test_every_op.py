"""Every op of the package, from the table of cases: value, type rule, layout of the input, first and second derivative.

A case's oracle shares no code with the op: loops over elements, Python's arithmetic, or PyTorch in float64.
"""

import importlib
from pathlib import Path

import numpy as np
import pytest

from prototorch import ops
from prototorch.ops.core import ArrayInterpreter, Op, gradients, use_interpreter
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.ops.op_case import CASES, Case, the_op

for _path in sorted(Path(__file__).parent.glob("cases_*.py")):
    importlib.import_module(f"tests.ops.{_path.stem}")

STEP = 1e-6  # of a central difference in float64: its error is about 1e-10 for functions of size 1
RTOL, ATOL = 1e-5, 2e-7  # of derivatives: what that leaves, with room for sums over all elements

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_every_op_has_a_case():
    named = {name for name, op in OPS.items() if isinstance(op, Op)}
    assert named == {c.op for c in CASES}


def outputs_of(case: Case, arrays):
    with np.errstate(all="ignore"):
        return case.reference(arrays)


def wanted(case: Case, arrays):
    made = case.oracle(*arrays, **case.attrs)
    return made if isinstance(made, tuple) else (made,)


@every_case
def test_value(case):
    arrays = case.arrays("float64")
    for got, want in zip(outputs_of(case, arrays), wanted(case, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=case.tolerance, atol=case.tolerance)


@every_case
def test_value_in_float32(case):
    arrays = case.arrays("float32")
    exact = wanted(case, tuple(a.astype("float64") if a.dtype == "float32" else a for a in arrays))
    for got, want in zip(outputs_of(case, arrays), exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=case.tolerance32, atol=case.tolerance32)


@every_case
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rule_says_what_the_body_gives(case, dtype):
    arrays = case.arrays(dtype)
    said = the_op(case.op).infer_spec(*(Spec(a.shape, str(a.dtype)) for a in arrays), **case.attrs)
    said = said if isinstance(said, tuple) else (said,)
    assert said == tuple(Spec(np.shape(a), str(a.dtype)) for a in outputs_of(case, arrays))


@every_case
def test_inputs_are_not_written_and_may_be_strided(case):
    arrays = case.arrays("float64")
    kept = [a.copy() for a in arrays]
    first = [np.array(a) for a in outputs_of(case, arrays)]
    for a, b in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(a, b)
    strided = [np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a for a in arrays]
    for got, want in zip(outputs_of(case, strided), first, strict=True):
        # other memory, other order of sums inside a matrix product
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


class Scalar:
    """The sum of a case's outputs with random shares, and its gradients, as functions of the floating-point inputs."""

    def __init__(self, case: Case):
        self.case = case
        self.arrays = case.arrays("float64")
        self.varied = [i for i, a in enumerate(self.arrays) if a.dtype.kind == "f" and i not in case.constant]
        rng = np.random.default_rng(7)
        self.shares = [rng.standard_normal(np.shape(y)) for y in outputs_of(case, self.arrays)]

    def direction(self, seed):
        rng = np.random.default_rng(seed)
        return [rng.standard_normal(self.arrays[i].shape) for i in self.varied]

    def run(self, moved, work):
        """Work on values whose varied ones are moved."""
        interpreter = ArrayInterpreter(np)
        given = list(map(interpreter.value, self.arrays))
        for i, step in zip(self.varied, moved, strict=True):
            given[i] = interpreter.value(np.asarray(self.arrays[i] + step))
        with use_interpreter(interpreter), np.errstate(all="ignore"):
            return work(given, [given[i] for i in self.varied])

    def said(self, given):
        made = self.case.call(*given)
        parts = [
            ops.sum(y * share)
            for y, share in zip(made if isinstance(made, tuple) else (made,), self.shares, strict=True)
            if y.dtype == "float64"
        ]
        return sum(parts[1:], parts[0])

    def value(self, moved):
        return float(self.run(moved, lambda given, varied: self.said(given).array))

    def first(self, moved):
        """Gradients of the varied inputs, None where there is none."""

        def work(given, varied):
            one = varied[0].interpreter.value(np.ones(()))
            return [
                None if g is None else g.array for g in gradients(lambda *_: self.said(given), *varied, seeds=[one])
            ]

        return self.run(moved, work)

    def second(self, direction):
        """Gradients of the first ones' product with a direction."""

        def work(given, varied):
            one = varied[0].interpreter.value(np.ones(()))

            def slope(*_):
                found = gradients(lambda *_: self.said(given), *varied, seeds=[one])
                parts = [ops.sum(g * d) for g, d in zip(found, direction, strict=True) if g is not None]
                return sum(parts[1:], parts[0])

            return [None if g is None else g.array for g in gradients(slope, *varied, seeds=[one])]

        return self.run([0.0 * d for d in direction], work)


def dot(gradients_, direction):
    return sum(float(np.sum(g * d)) for g, d in zip(gradients_, direction, strict=True) if g is not None)


def differentiable(case: Case) -> bool:
    floats = {i for i, a in enumerate(case.inputs) if np.asarray(a).dtype.kind == "f"}
    return case.gradient and bool(floats - set(case.constant))


@pytest.mark.parametrize("case", [c for c in CASES if differentiable(c)], ids=str)
def test_gradient_along_a_direction(case):
    scalar = Scalar(case)
    v = scalar.direction(1)
    slope = (scalar.value([STEP * d for d in v]) - scalar.value([-STEP * d for d in v])) / (2 * STEP)
    found = scalar.first([0.0 * d for d in v])
    assert {i for i, g in zip(scalar.varied, found, strict=True) if g is None} == set(case.zero)
    for g, i in zip(found, scalar.varied, strict=True):
        assert g is None or g.shape == scalar.arrays[i].shape
    assert dot(found, v) == pytest.approx(slope, rel=RTOL, abs=ATOL)


@pytest.mark.parametrize("case", [c for c in CASES if c.second and differentiable(c) and c.zero != (0,)], ids=str)
def test_second_gradient_along_two_directions(case):
    scalar = Scalar(case)
    v, w = scalar.direction(1), scalar.direction(2)
    ahead, behind = (dot(scalar.first([s * STEP * d for d in w]), v) for s in (1, -1))
    assert dot(scalar.second(v), w) == pytest.approx((ahead - behind) / (2 * STEP), rel=RTOL, abs=10 * ATOL)
