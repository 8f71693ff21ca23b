"""One sweep over all gradients: their norm, and whether they are finite; the kernel, and the plans that contain it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.fake_device import FakeDevice
from prototorch.cuda.kernels import multi_tensor_sum
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.precision import ExecutionSettings, numpy_dtype, resolve_precision
from prototorch.spec import Spec
from prototorch.train.summary import step_specs
from tests.cuda.fake.fake_gpu import compile_net, executor_of, make_data, use_backend
from tests.cuda.offline.shim_device import COMPILER

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
SHAPES = [(5,), (3, 7, 2), (multi_tensor_sum.CHUNK + 5,), (1,), (2 * multi_tensor_sum.CHUNK,)]


def program(term, dtypes):
    """As the pass makes it."""
    lines, sums = [], []
    for i, dtype in enumerate(dtypes):
        ref = ("in", i)
        if dtype != "float32":
            lines.append(("cast", (ref,), (("dtype", "float32"),)))
            ref = ("node", len(lines) - 1, 0)
        lines.append((term, (ref, ("const", 0.0, "float32")) if term == "multiply" else (ref,), ()))
        lines.append(("sum", (("node", len(lines) - 1, 0),), ()))
        sums.append(("node", len(lines) - 1, 0))
    result = sums[0]
    for one in sums[1:]:
        lines.append(("add", (result, one), ()))
        result = ("node", len(lines) - 1, 0)
    return {"program": tuple(lines), "outputs": (result,)}


def run(device, term, arrays):
    specs = tuple(Spec(a.shape, a.dtype.name) for a in arrays)
    with use_device(device):
        kernel = multi_tensor_sum.multi_tensor_sum(specs, (Spec(()),), program(term, [s.dtype for s in specs]))
    out = np.full((), 7, np.float32)
    device.launched.clear()
    kernel(arrays, (out,))
    assert device.launched == ["multi_tensor_sum", "add_partial_sums"], "however many arrays there are"
    return float(out)


def make_arrays(dtypes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(numpy_dtype(d)) for s, d in zip(SHAPES, dtypes, strict=True)]


@needs_compiler
@pytest.mark.parametrize("dtypes", [["float32"] * 5, ["float16", "float32", "bfloat16", "float32", "float16"]])
def test_the_sum_of_squares(device, dtypes):
    arrays = make_arrays(dtypes)
    expected = sum(np.square(a.astype(np.float64)).sum() for a in arrays)
    assert run(device, "square", arrays) == pytest.approx(expected, rel=1e-5)


@needs_compiler
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_not_finite(device, value):
    arrays = make_arrays(["float16", "float32", "float32", "float32", "float16"])
    assert run(device, "multiply", arrays) == 0
    for array, index in ((0, 4), (2, multi_tensor_sum.CHUNK + 4), (4, 0)):
        broken = [a.copy() for a in arrays]
        broken[array][index] = value
        assert np.isnan(run(device, "multiply", broken)), (array, index)


@pytest.mark.parametrize("change", ["one", "order", "axis", "constant", "double", "empty", "two results"])
def test_other_groups_are_left_to_other_kernels(device, change):
    dtypes = ["float32"] * 3
    attrs, specs, outs = program("multiply", dtypes), [Spec((4, 2))] * 3, (Spec(()),)
    lines = list(attrs["program"])
    if change == "one":
        attrs, specs = program("multiply", ["float32"]), specs[:1]
    elif change == "order":
        lines[0] = ("multiply", (("in", 1), ("const", 0.0, "float32")), ())
    elif change == "axis":
        lines[1] = ("sum", lines[1][1], (("axis", 0),))
    elif change == "constant":
        lines[0] = ("multiply", (("in", 0), ("const", 1.0, "float32")), ())
    elif change == "double":
        specs[1] = Spec((4, 2), "float64")
    elif change == "empty":
        specs[1] = Spec((0, 2))
    else:
        outs = (Spec(()), Spec(()))
    if change != "one":
        attrs["program"] = tuple(lines)
    with use_device(device):
        assert multi_tensor_sum.multi_tensor_sum(tuple(specs), outs, attrs) is None


def launches(precision, layers, **optimizer):
    """The pieces of a training step, by phase and op, of a net with so many dense layers."""

    def make():
        dense = [pt.layers.Dense(6, activation="relu") for _ in range(layers)]
        return pt.Sequential([pt.Input((6,)), *dense, pt.layers.Dense(3)])

    backend = CudaBackend(FakeDevice(ExecutionSettings(resolve_precision(precision, gpu=True))))
    with use_backend(backend):
        model = compile_net(backend, make, optimizer=pt.optimizers.Adam(**optimizer))
    plans = model.trainer.plan_cache
    executor = plans.executor("train", step_specs(model.net, 4))
    return Counter((record.phase, record.op) for record in executor.launches)


@pytest.mark.parametrize(("precision", "options"), [("fp16", {}), ("bf16", {"global_clipnorm": 1.0}),
                                                    ("tf32", {"global_clipnorm": 1.0})])  # fmt: skip
def test_more_weights_take_no_more_launches_to_be_summed_and_updated(precision, options):
    """With fp16 as with a norm of all gradients. Each layer adds what its forward and backward pass take alone."""
    plain = "bf16" if precision == "fp16" else precision
    few, many = (launches(precision, n, **options) for n in (2, 12))
    more = sum((many - few).values()) - sum((few - many).values())
    more_without = sum((launches(plain, 12) - launches(plain, 2)).values())
    assert more <= more_without, f"{many - few}"
    assert sum(n for (phase, _), n in many.items() if phase == "update") <= 14


@needs_compiler
@pytest.mark.parametrize(("precision", "options"), [("fp16", {}), ("fp16", {"global_clipnorm": 0.01}),
                                                    ("tf32", {"global_clipnorm": 0.01})])  # fmt: skip
def test_a_training_with_it_is_that_of_the_reference_implementations(device, precision, options):
    x, y = make_data(16)
    settings = ExecutionSettings(resolve_precision(precision, gpu=True))
    lazy, alone = FakeDevice(settings), FakeDevice(settings)
    lazy.emulator = device
    models = [
        compile_net(CudaBackend(alone, kernels=False), optimizer=pt.optimizers.SGD(0.01, **options)),
        compile_net(CudaBackend(lazy), optimizer=pt.optimizers.SGD(0.01, **options)),
    ]
    for model in models:
        model.fit(x, y, batch_size=4, epochs=1, verbose=0)
    assert executor_of(models[1]).graph is not None
    assert "multi_tensor_sum" in device.launched
    a, b = (m.get_weights() for m in models)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=5e-3, atol=5e-4, err_msg=name)
