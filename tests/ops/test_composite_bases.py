"""Ops that define their decomposition alone, below each base class of ops: on arrays, in plans, in generated code."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import ops
from prototorch.cuda.kernels.scalar_tracer import ScalarTracer, TracedScalar, trace_op
from prototorch.engine.backends.cpu import cpu, native
from prototorch.engine.harness import temporary_definitions
from prototorch.ops.core import Op
from prototorch.ops.elementwise import BinaryOp, ComparisonOp, UnaryOp
from prototorch.ops.linear_algebra import MatrixOp
from prototorch.ops.reduce import Reduction
from prototorch.spec import Spec


class Serf(UnaryOp):
    def decompose(self, x):
        return x * ops.tanh(ops.log1p(ops.exp(x)))


class Scaled(UnaryOp):
    def decompose(self, x, factor):
        return x * factor


class GatedProduct(BinaryOp):
    def decompose(self, a, b, power=1):
        return ops.tanh(a) * b**power


class ExceedsTwice(ComparisonOp):
    def decompose(self, a, b):
        return a > b * 2


class RootMeanSquare(Reduction):
    def decompose(self, x, axis=None, keepdims=False):
        return ops.sqrt(ops.mean(ops.square(x), axis=axis, keepdims=keepdims))


class Gram(MatrixOp):
    def decompose(self, x, scale):
        return ops.matmul(x, x, transpose_a=True) * scale


X, Y = (np.random.default_rng(seed).standard_normal((3, 3)).astype("float32") for seed in (0, 1))
CASES = [
    (Serf, (X,), {}, X * np.tanh(np.log1p(np.exp(X)))),
    (Scaled, (X,), {"factor": 2.0}, X * 2),
    (GatedProduct, (X, Y), {}, np.tanh(X) * Y),
    (GatedProduct, (X, Y), {"power": 2}, np.tanh(X) * Y**2),
    (ExceedsTwice, (X, Y), {}, X > Y * 2),
    (RootMeanSquare, (X,), {"axis": 1}, np.sqrt((X**2).mean(1))),
    (RootMeanSquare, (X,), {"axis": (0, 1), "keepdims": True}, np.sqrt((X**2).mean((0, 1), keepdims=True))),
    (Gram, (X,), {"scale": 0.5}, X.T @ X * 0.5),
]
#: class, number of inputs, dtype of the output
ELEMENTWISE = [(Serf, 1, "float32"), (GatedProduct, 2, "float32"), (ExceedsTwice, 2, "bool")]
IDS = [f"{case[0].__name__}-{i}" for i, case in enumerate(CASES)]


@pytest.fixture(autouse=True)
def _definitions():
    """The ops of this file leave the registry after each test."""
    with temporary_definitions():
        yield


@pytest.mark.parametrize(("base", "arrays", "attrs", "expected"), CASES, ids=IDS)
def test_a_decomposition_is_enough(base, arrays, attrs, expected):
    op = base()
    assert op.infer_spec(*(Spec(a.shape, "float32") for a in arrays), **attrs) == Spec(
        expected.shape, str(expected.dtype)
    )
    np.testing.assert_allclose(op.reference(np, *arrays, **attrs), expected, rtol=1e-6)
    inputs = [pt.tensor(a) for a in arrays]
    np.testing.assert_allclose(op(*inputs, **attrs).numpy(), expected, rtol=1e-6)
    run = pt.compile(lambda *values: op(*values, **attrs))
    np.testing.assert_allclose(run(*inputs).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("base", "count", "attrs"), [(Serf, 1, {}), (Scaled, 1, {"factor": 2.0}), (GatedProduct, 2, {})]
)
def test_the_derivative_is_that_of_the_decomposition(base, count, attrs):
    op, gradients = base(), []
    for function in (op, op.decompose):
        inputs = [pt.tensor(a.copy(), requires_grad=True) for a in (X, Y)[:count]]
        ops.sum(function(*inputs, **attrs)).backward()
        gradients.append([x.grad.numpy() for x in inputs])
    np.testing.assert_allclose(*gradients, rtol=1e-6)


@pytest.mark.parametrize(("base", "count", "dtype"), ELEMENTWISE)
def test_a_cuda_kernel_computes_the_decomposition(base, count, dtype):
    tracer = ScalarTracer()
    inputs = [TracedScalar(tracer, f"x{i}", "float32") for i in range(count)]
    (result,) = trace_op(base(), tracer, inputs, {})
    assert result.dtype == dtype
    assert tracer.lines[-1].split()[1] == result.name


@pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")
@pytest.mark.parametrize(("base", "count", "dtype"), ELEMENTWISE)
def test_a_native_kernel_computes_the_decomposition(base, count, dtype):
    shape = (64, 1024)
    level = cpu("native").kernel_level(base(), (Spec(shape),) * count, (Spec(shape, dtype),), {})
    assert level == "native"


@pytest.mark.parametrize("base", [Op, UnaryOp, BinaryOp, ComparisonOp, Reduction, MatrixOp])
def test_an_op_without_an_implementation_is_an_error_that_says_what_to_define(base):
    op = type("Unimplemented", (base,), {})
    instance = object.__new__(op)
    with pytest.raises(NotImplementedError, match="Unimplemented of ops must define reference, array_function or dec"):
        instance.reference(np, X)


def test_an_op_without_a_spec_is_an_error_that_says_what_to_define():
    instance = object.__new__(type("Unspecified", (Op,), {}))
    with pytest.raises(NotImplementedError, match="Unspecified of ops must define infer_spec or decompose"):
        instance.infer_spec(Spec((1,)))
