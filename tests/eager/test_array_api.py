"""The array API standard's namespace of tensors, against NumPy and against the list of array-api-strict."""

import inspect

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ShapeError, UsageError

strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed (the extra test)")
xp = pt.tensor(0).__array_namespace__()
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype("float32")
Y = np.abs(RNG.standard_normal((3, 4))).astype("float32") + 0.1
K = RNG.integers(1, 5, (3, 4))
J = RNG.integers(1, 5, (3, 4))
B = RNG.random((3, 4)) < 0.5
U = K.astype("uint8")

#: names of the standard that are not there, with the reason
ABSENT = {
    "complex64": "no complex numbers", "complex128": "no complex numbers", "conj": "no complex numbers",
    "imag": "no complex numbers", "real": "no complex numbers", "fft": "an extension", "linalg": "an extension",
}  # fmt: skip

CALLS = [
    *((name, (X,), {}) for name in ("abs", "sin", "exp", "floor", "isnan", "negative", "sign", "square", "tanh",
                                    "round", "positive", "trunc", "signbit", "ceil", "cos", "sinh", "cosh", "asinh",
                                    "atan", "expm1", "isfinite", "isinf", "tan", "matrix_transpose")),
    *((name, (Y,), {}) for name in ("log", "sqrt", "log1p", "log2", "log10", "reciprocal")),
    *((name, (np.tanh(X),), {}) for name in ("acos", "asin", "atanh")), ("acosh", (Y + 1,), {}),
    *((name, (X, Y), {}) for name in ("add", "divide", "multiply", "subtract", "maximum", "minimum", "less",
                                      "atan2", "hypot", "copysign", "logaddexp", "remainder", "floor_divide", "greater",
                                      "greater_equal", "less_equal", "not_equal", "equal", "nextafter")),
    ("pow", (Y, X), {}),
    *((name, (K, J), {}) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                                      "bitwise_right_shift", "add", "floor_divide", "remainder")),
    *((name, (B, ~B.T.reshape(3, 4)), {}) for name in ("logical_and", "logical_or", "logical_xor")),
    ("logical_not", (B,), {}), ("bitwise_invert", (K,), {}), ("clip", (X, -0.5, 0.5), {}), ("where", (B, X, Y), {}),
    *((name, (a,), k) for name in ("sum", "prod", "max", "min") for a in (X, K) for k in (
        {}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True})),
    ("sum", (U,), {}), ("sum", (X,), {"dtype": "float64"}),
    *((name, (X,), k) for name in ("mean", "std", "var") for k in ({}, {"axis": 1}, {"axis": (0,), "keepdims": True})),
    ("std", (X,), {"correction": 1.0}), *((name, (B,), k) for name in ("all", "any") for k in ({}, {"axis": 0})),
    *((name, (X,), k) for name in ("argmax", "argmin") for k in ({}, {"axis": 1}, {"axis": 0, "keepdims": True})),
    *((name, (a,), {"axis": 1}) for name in ("cumulative_sum", "cumulative_prod") for a in (X, K)),
    ("cumulative_sum", (X[0],), {"include_initial": True}), ("count_nonzero", (B,), {"axis": 1, "keepdims": True}),
    ("diff", (X,), {"axis": 0}), ("sort", (X,), {"axis": 0}), ("argsort", (X,), {}), ("nonzero", (B,), {}),
    ("concat", ([X, Y],), {"axis": 1}), ("concat", ([X, Y],), {"axis": None}), ("stack", ([X, Y],), {"axis": 1}),
    ("unstack", (X,), {"axis": 1}), ("expand_dims", (X,), {"axis": 1}), ("squeeze", (X[:, None],), {"axis": 1}),
    ("permute_dims", (X, (1, 0)), {}), ("reshape", (X, (4, 3)), {}), ("broadcast_to", (X, (2, 3, 4)), {}),
    ("broadcast_arrays", (X, X[0]), {}), ("flip", (X,), {}), ("flip", (X,), {"axis": 1}), ("roll", (X, 2), {}),
    ("roll", (X, (1, -1)), {"axis": (0, 1)}), ("repeat", (X, 2), {"axis": 1}), ("tile", (X, (2, 1)), {}),
    ("take", (X, np.array([2, 0])), {"axis": 0}), ("take_along_axis", (X, np.argsort(X, axis=1)), {"axis": 1}),
    ("moveaxis", (X, 0, 1), {}), ("tensordot", (X, Y.T), {"axes": 1}), ("matmul", (X, Y.T), {}),
    ("tril", (X,), {"k": 1}), ("triu", (X,), {"k": -1}), ("meshgrid", (X[0], X[:, 0]), {}),
    ("searchsorted", (np.sort(X[0]), X[1]), {"side": "right"}), ("astype", (X, "float64"), {}),
    ("zeros_like", (X,), {}), ("ones_like", (K,), {}), ("full_like", (X, 2.5), {}), ("asarray", (X,), {}),
    ("unique_all", (K,), {}), ("unique_counts", (K,), {}), ("unique_inverse", (K,), {}),
    ("arange", (5,), {"dtype": "int64"}), ("arange", (1, 7, 2), {"dtype": "float32"}),
    ("arange", (3, 1), {"dtype": "int64"}),
    ("linspace", (0, 1, 5), {"dtype": "float64"}), ("linspace", (0, 1, 5), {"dtype": "float64", "endpoint": False}),
    ("eye", (3,), {"dtype": "float32"}), ("eye", (3, 5), {"k": 1, "dtype": "int64"}),
    ("zeros", ((2, 3),), {"dtype": "float32"}),
    ("ones", (3,), {"dtype": "bool"}), ("full", ((2,), 7), {"dtype": "int64"}),
]  # fmt: skip


def as_tensors(value):
    if isinstance(value, np.ndarray):
        return pt.tensor(value)
    return [as_tensors(v) for v in value] if isinstance(value, list) else value


def flat(value):
    return [v for part in value for v in flat(part)] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize("call", range(len(CALLS)), ids=lambda k: f"{CALLS[k][0]}-{k}")
def test_a_function_gives_what_numpy_gives(call):
    name, args, options = CALLS[call]
    want = flat(getattr(np, name)(*args, **options))
    got = flat(getattr(xp, name)(*map(as_tensors, args), **options))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert isinstance(a, pt.Tensor)
        assert a.shape == np.shape(b)
        assert a.dtype == str(np.asarray(b).dtype)
        np.testing.assert_allclose(a.numpy(), b, rtol=2e-6, atol=2e-6)


def standard_names():
    strict.set_array_api_strict_flags(api_version="2024.12")
    own = {
        "Device",
        "ArrayAPIStrictFlags",
        "get_array_api_strict_flags",
        "set_array_api_strict_flags",
        "reset_array_api_strict_flags",
    }
    return sorted(n for n in strict.__all__ if n not in own and not n.startswith("__"))


def test_every_name_of_the_standard_is_there_or_absent_for_a_reason():
    assert [n for n in standard_names() if n not in vars(xp)] == sorted(ABSENT)


@pytest.mark.parametrize("name", [n for n in standard_names() if n not in ABSENT])
def test_arguments_are_the_standards(name):
    theirs, ours = getattr(strict, name), getattr(xp, name)
    if not callable(theirs) or isinstance(theirs, type) or not inspect.isfunction(theirs):
        return
    wanted = [p.name for p in inspect.signature(theirs).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert [w for w in wanted if w not in inspect.signature(ours).parameters] == []


def test_the_namespace_of_a_tensor():
    x = pt.tensor(X)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12").sum(x, axis=0).shape == (4,)
    with pytest.raises(UsageError, match=r"versions 2021\.12"):
        x.__array_namespace__(api_version="2019.01")
    with pytest.raises(AttributeError, match="Did you mean 'concat'"):
        _ = xp.concatt
    assert xp.isdtype(x.dtype, ("real floating", "bool"))
    assert not xp.isdtype(xp.int32, "real floating")
    assert xp.result_type(xp.int32, x, 1) == "float32"
    assert xp.can_cast(xp.int32, xp.float64)
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == "int64"
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16", "uint32", "uint64"}
    assert x.to_device("cpu").tolist() == x.tolist()


def test_functions_are_differentiated():
    x = pt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    xp.sum(xp.concat([x, x * x], axis=0), axis=None).backward()
    assert x.grad.tolist() == [[3, 5], [7, 9]]


def test_wrong_arguments():
    with pytest.raises(ShapeError, match="axis 1 of"):
        xp.squeeze(pt.tensor(X), axis=1)
    with pytest.raises(UsageError, match="axis must be given"):
        xp.take(pt.tensor(X), pt.tensor([0]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_finfo(dtype):
    got, want = pt.finfo(dtype), np.finfo(dtype)
    assert (got.bits, got.eps, got.max, got.min, got.tiny) == (want.bits, want.eps, want.max, want.min, want.tiny)


def test_type_information_of_other_types():
    assert pt.finfo(pt.bfloat16).eps == 0.0078125
    assert (pt.iinfo("int8").min, pt.iinfo("uint16").max) == (-128, 65535)
    with pytest.raises(UsageError, match="expected a floating-point type"):
        pt.finfo("int32")
    with pytest.raises(UsageError, match="expected an integer type"):
        pt.iinfo("float32")
