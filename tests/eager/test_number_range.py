"""Numbers beside tensors whose element type cannot take them, beside PyTorch: eager, compiled, symbolic."""

import numpy as np
import pytest

import prototorch as pt

torch = pytest.importorskip("torch")

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
NUMBERS = (True, False, 0, 1, -1, 2, 7, 127, 128, -128, -129, 255, 256, 300, -300, 40000, 65536, 2**31, -(2**31) - 1,
           2**62, 0.0, 0.5, 1.7, -1.5, 300.5, 1e10, -1e10, float("inf"), float("-inf"), float("nan"))  # fmt: skip


def _set(x, key, value):
    y = x.clone()
    y[key] = value
    return y


#: name -> the function of (module, tensor, number)
FUNCTIONS = {
    "x + s": lambda m, x, s: x + s,
    "x - s": lambda m, x, s: x - s,
    "s - x": lambda m, x, s: s - x,
    "x * s": lambda m, x, s: x * s,
    "x / s": lambda m, x, s: x / s,
    "s / x": lambda m, x, s: s / x,
    "x // s": lambda m, x, s: x // s,
    "x % s": lambda m, x, s: x % s,
    "x ** s": lambda m, x, s: x**s,
    "fmod": lambda m, x, s: m.fmod(x, s),
    "div trunc": lambda m, x, s: m.div(x, s, rounding_mode="trunc"),
    "div floor": lambda m, x, s: m.div(x, s, rounding_mode="floor"),
    "x == s": lambda m, x, s: x == s,
    "x < s": lambda m, x, s: x < s,
    "x >= s": lambda m, x, s: x >= s,
    "x & s": lambda m, x, s: x & s,
    "x ^ s": lambda m, x, s: x ^ s,
    "x << s": lambda m, x, s: x << s,
    "x >> s": lambda m, x, s: x >> s,
    "clamp min": lambda m, x, s: m.clamp(x, min=s),
    "clamp max": lambda m, x, s: m.clamp(x, max=s),
    "clamp_max": lambda m, x, s: x.clamp_max(s),
    "where": lambda m, x, s: m.where(x > 1, x, s),
    "where s": lambda m, x, s: m.where(x > 1, s, x),
    "add_": lambda m, x, s: x.clone().add_(s),
    "div_": lambda m, x, s: x.clone().div_(s),
    "clamp_": lambda m, x, s: x.clone().clamp_(max=s),
    "fill_": lambda m, x, s: x.clone().fill_(s),
    "x[0] = s": lambda m, x, s: _set(x, 0, s),
    "x[mask] = s": lambda m, x, s: _set(x, x > 1, s),
    "add alpha": lambda m, x, s: m.add(x, x, alpha=s),
    "xlogy": lambda m, x, s: m.xlogy(x, s),
    "scatter": lambda m, x, s: x.scatter(0, m.tensor([0]), s),
    "full": lambda m, x, s: m.full((2,), s, dtype=x.dtype),
    "full_like": lambda m, x, s: m.full_like(x, s),
    "new_full": lambda m, x, s: x.new_full((2,), s),
    "tensor": lambda m, x, s: m.tensor([s], dtype=x.dtype),
    "masked_fill": lambda m, x, s: x.masked_fill(x > 1, s),
    "index_fill": lambda m, x, s: x.index_fill(0, m.tensor([0]), s),
}


def _elements(dtype):
    numbers = [0, 1, 2, 3, 5, 7, 100, 127]
    if dtype == "bool":
        return [0, 1, 1, 0]
    if dtype == "uint8":
        return [*numbers, 200, 255]
    numbers += [-1, -2, -7, -100, -128]
    return numbers if dtype == "int8" else [*numbers, 300, -1000]


def _run(function, *arguments):
    """What a call gives: "refused", or dtype and elements."""
    try:
        y = function(*arguments)
    except (RuntimeError, TypeError, ValueError, ArithmeticError, NotImplementedError):
        return "refused"
    dtype = str(y.dtype).rpartition(".")[2]
    return dtype, (y.double() if dtype in ("float16", "bfloat16") else y).numpy()


def _differs(theirs, ours, name, dtype, number):
    if isinstance(theirs, str) or isinstance(ours, str):
        if isinstance(theirs, str) and not isinstance(ours, str) and dtype == "bool":
            return False  # functions that PyTorch does not have for bool
        if ours == "refused" and name in ("masked_fill", "index_fill") and isinstance(number, float):
            return False  # the fraction of a number would be lost
        return isinstance(theirs, str) != isinstance(ours, str)
    if name == "x ** s" and abs(number) > 2**31:
        return False  # float32 cannot tell odd powers of that size from even ones
    if theirs[0] != ours[0] or theirs[1].shape != ours[1].shape:
        return True
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6}.get(theirs[0], 1e-12)
    return not np.allclose(theirs[1].astype(float), ours[1].astype(float), rtol=tolerance, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_as_in_pytorch(name, dtype):
    function, wrong = FUNCTIONS[name], []
    theirs = torch.tensor(_elements(dtype), dtype=getattr(torch, dtype))
    ours = pt.tensor(_elements(dtype), dtype=dtype)
    for number in NUMBERS:
        expected, result = _run(function, torch, theirs, number), _run(function, pt, ours, number)
        if _differs(expected, result, name, dtype, number):
            wrong.append((number, expected, result))
    assert not wrong


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("tensor", "full", "full_like", "new_full")])
def test_compiled_as_eager(name):
    function = FUNCTIONS[name]
    for dtype, number in (("uint8", 256), ("uint8", -1), ("int16", 40000), ("int32", 2**31), ("float16", 70000)):
        x = pt.tensor(_elements(dtype), dtype=dtype)
        compiled = pt.compile(lambda x, number=number: function(pt, x, number))
        eager, result = _run(function, pt, x, number), _run(compiled, x)
        assert not _differs(eager, result, name, dtype, number), (dtype, number, eager, result)


def _by_graph(function, elements, dtype, number):
    x = pt.Input((len(elements),), dtype=dtype)
    y = pt.Graph([x], function(pt, x, number))(np.array([elements], dtype))
    return pt.from_numpy(np.ascontiguousarray(y))


@pytest.mark.parametrize("name", ["x + s", "x / s", "s / x", "where", "clamp max", "x ** s"])
def test_symbols_as_eager(name):
    function = FUNCTIONS[name]
    for dtype, number in (("uint8", 256), ("uint8", -1), ("int8", 300), ("float32", 3)):
        elements = _elements(dtype)
        eager = _run(function, pt, pt.tensor([elements], dtype=dtype), number)
        result = _run(_by_graph, function, elements, dtype, number)
        assert not _differs(eager, result, name, dtype, number), (dtype, number, eager, result)


@pytest.mark.parametrize("name", ["x / s", "s / x", "x * s", "x + s", "xlogy", "masked_fill", "x[mask] = s"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64"])
def test_tensors_without_dimensions(name, dtype):
    theirs, ours = torch.tensor(_elements(dtype), dtype=getattr(torch, dtype)), pt.tensor(_elements(dtype), dtype=dtype)
    for number in (256, -1, 300, -300, 70000, 7):
        expected = _run(FUNCTIONS[name], torch, theirs, torch.tensor(number))
        result = _run(FUNCTIONS[name], pt, ours, pt.tensor(number))
        assert not _differs(expected, result, name, dtype, number), (number, expected, result)


def test_examples_of_the_mistake():
    x = pt.tensor([3], dtype=pt.uint8)
    assert (x / 256).item() == pytest.approx(3 / 256)
    assert (x / -1).item() == -3
    assert (256 / x).item() == pytest.approx(256 / 3)
    for work in (lambda: x.clamp(max=300), lambda: pt.where(x > 5, x, 300), lambda: pt.tensor([300], dtype=pt.uint8)):
        with pytest.raises(RuntimeError, match="300 is outside the range of uint8 elements, which is 0 to 255"):
            work()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_remainders_of_the_smallest_integer(dtype):
    low = int(np.iinfo(dtype).min)
    theirs = torch.tensor([low, low + 1, -7, 7, 0, -low - 1], dtype=getattr(torch, dtype))
    ours = pt.tensor(theirs.numpy())
    for divisor in (low, 7, -7):
        for compiled in (False, True):
            work = lambda x, divisor=divisor: pt.fmod(x, divisor)  # noqa: E731
            result = (pt.compile(work) if compiled else work)(ours)
            np.testing.assert_array_equal(result.numpy(), torch.fmod(theirs, divisor).numpy())


@pytest.mark.parametrize("bounds", [(0, 300), (-1, 5)])
def test_random_integers_outside_the_type(bounds):
    with pytest.raises(RuntimeError, match="outside the range of uint8"):
        pt.randint(*bounds, (3,), dtype=pt.uint8)
    with pytest.raises(RuntimeError, match="outside the range of uint8"):
        pt.zeros(3, dtype=pt.uint8).random_(*bounds)
