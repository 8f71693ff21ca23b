"""Functions and modules of an imported Python module, as layers of a model text."""

import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import ModelWarning, TextError
from prototorch.model.diagnose import check_model, describe_plan
from prototorch.schema.python_imports import allow_python

CODE = '''
import numpy as np
import prototorch as pt
from prototorch import ops


class Cube{n}(pt.Function):
    """x**3, whose gradient is taken to be {factor} * x**2."""

    @staticmethod
    def forward(ctx, x, scale: float = 1.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * {factor} * x * x * ctx.scale, None


class HostCube{n}(pt.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.numpy()
        return pt.tensor(ctx.x**3)

    @staticmethod
    def backward(ctx, g):
        return pt.tensor(g.numpy() * {factor} * ctx.x**2)


class Block{n}(pt.Module):
    """A matrix, a detached branch and a running mean."""

    def __init__(self, width: int, gain: float = 1.0, sizes: tuple[int, ...] = (1, 2)):
        super().__init__()
        self.weight = pt.nn.Parameter(pt.tensor(np.full((4, width), 0.5, np.float32)))
        self.register_buffer("mean", pt.tensor(np.zeros(width, np.float32)))
        self.gain = gain

    def forward(self, x):
        y = x @ self.weight * self.gain
        if self.training:
            with pt.no_grad():
                self.mean.copy_(self.mean * 0.9 + y.mean(0) * 0.1)
        return y + y.detach() + Cube{n}.apply(x).sum() * 0
'''
_numbers = count()


@pytest.fixture
def net(tmp_path: Path):
    """A function that makes a model of a text, with the number of its classes for {n}."""
    n = next(_numbers)
    (tmp_path / f"parts_{n}.py").write_text(CODE.replace("{n}", str(n)).replace("{factor}", "7.0"))

    def make(layers: str) -> pt.Model:
        path = tmp_path / "net.proto"
        path.write_text(f'import: "parts_{n}"\ninput {{ shape: [4] }}\n{layers.replace("{n}", str(n))}\n')
        return pt.load_model(path, allow_python=True)

    make.n, make.path = n, tmp_path / "net.proto"
    return make


def trained(model: pt.Model, x: np.ndarray, y: np.ndarray, steps: int = 1) -> pt.Model:
    model.compile(optimizer=pt.optimizers.SGD(learning_rate=0.01), loss="mse")
    for _ in range(steps):
        model.train_on_batch(x, y)
    return model


def gradient_of_dense(model: pt.Model, x: np.ndarray) -> np.ndarray:
    """The gradient of the sum of squares with respect to the first layer's kernel, from one step."""
    name = "first/kernel"
    before = model.weights[name].copy()
    trained(model, x, np.zeros((len(x), 4), np.float32))
    return (before - model.weights[name]) / 0.01


@pytest.mark.parametrize("kind", ["Cube", "HostCube"])
@pytest.mark.filterwarnings("ignore:.*computes in NumPy")
def test_a_function_runs_in_the_plan_with_its_own_gradient(net, kind: str) -> None:
    model = net(f'Dense {{ name: "first"  units: 4 }}\n{kind}{{n}} {{ }}')
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    kernel = model.weights["first/kernel"] = np.eye(4, dtype=np.float32) * 0.5
    h = x @ kernel
    np.testing.assert_allclose(model.predict(x, verbose=0), h**3, rtol=1e-5)
    want = x.T @ (2 * h**3 / h.size * 7 * h**2)
    np.testing.assert_allclose(gradient_of_dense(model, x), want, rtol=2e-2, atol=1e-4)


def test_a_function_of_numpy_is_one_step_with_a_note(net) -> None:
    model = net("HostCube{n} { }\nDense { units: 2 }")
    with pytest.warns(ModelWarning, match="computes in NumPy: it is one step in the host's memory"):
        steps = describe_plan(model, "predict", 4).as_dict()["steps"]
    assert sum("host_call" in str(step) for step in steps) == 1


def test_arguments_of_forward_are_fields(net) -> None:
    model = net("Cube{n} { scale: 2.5 }")
    x = np.ones((1, 4), np.float32)
    np.testing.assert_allclose(model.predict(x, verbose=0), x * 2.5)
    with pytest.raises(TextError, match=r"has no field 'scal'. Did you mean 'scale'"):
        net("Cube{n} { scal: 2 }")


def test_a_module_trains_inside_the_plan(net, tmp_path: Path) -> None:
    model = net('Block{n} { name: "block"  width: 3  gain: 2.0 }')
    assert set(model.weights) == {"block/weight", "block/mean"}
    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    w = np.full((4, 3), 0.5, np.float32)
    y = x @ w * 2
    np.testing.assert_allclose(model.predict(x, verbose=0), 2 * y, rtol=1e-5)
    trained(model, x, np.zeros((8, 3), np.float32))
    gradient = x.T @ (2 * (2 * y) / y.size) * 2  # the detached half has none
    np.testing.assert_allclose(model.weights["block/weight"], w - 0.01 * gradient, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.weights["block/mean"], 0.1 * y.mean(0), rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "net.h5")
    with pytest.raises(TextError, match="allow_python"):
        pt.load_model(tmp_path / "net.h5")
    again = pt.load_model(tmp_path / "net.h5", allow_python=True)
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    assert f'Block{net.n} {{ name: "block"  width: 3  gain: 2.0 }}' in model.to_text().replace("gain: 2 ", "gain: 2.0 ")


def test_their_manual_pages(net) -> None:
    net("Cube{n} { }")
    result = CliRunner().invoke(group, ["layers", f"Block{net.n}", "--file", str(net.path), "--allow-python"])
    assert "A matrix, a detached branch and a running mean." in result.output
    assert "width" in result.output
    assert "gain" in result.output


@pytest.mark.parametrize(
    ("code", "text", "message"),
    [
        ("class A{n}(pt.Module):\n    def __init__(self, part): super().__init__()", "A{n} { }", "annotate it as int"),
        ("class A{n}(pt.Module):\n    def __init__(self, name: str): super().__init__()", "A{n} { }", "rename it"),
        ("class A{n}(pt.Module):\n    def forward(self, x): return x / undefined", "A{n} { }", "NameError.*line 3"),
        ("class A{n}(pt.Module):\n    def forward(self, x): return x if x.sum() > 0 else -x", "A{n} { }", "where"),
        ("class A{n}(pt.Module):\n    def forward(self, x): return x, x", "A{n} { }", "outputs = 2"),
        ("class A{n}(pt.Module):\n    def forward(self, x): return 3", "A{n} { }", "must return a tensor"),
        ("class A{n}(pt.Function):\n    @staticmethod\n    def forward(ctx, x): return x.numpy()[9]", "A{n} { }",
         "example"),
    ],
)  # fmt: skip
def test_mistakes_are_those_of_the_text(tmp_path: Path, code: str, text: str, message: str) -> None:
    n = next(_numbers)
    (tmp_path / f"wrong_{n}.py").write_text("import prototorch as pt\n" + code.replace("{n}", str(n)) + "\n")
    path = tmp_path / "net.proto"
    path.write_text(f'import: "wrong_{n}"\ninput {{ shape: [4] }}\n{text.replace("{n}", str(n))}\n')
    with allow_python(), pytest.raises(TextError, match=message):
        check_model(str(path))
    sys.modules.pop(f"wrong_{n}", None)


def test_random_numbers_of_a_module_are_others_in_each_step(net, tmp_path: Path) -> None:
    n = next(_numbers)
    (tmp_path / f"noisy_{n}.py").write_text(
        "import prototorch as pt\n"
        f"class Noisy{n}(pt.Module):\n"
        "    def forward(self, x):\n"
        "        return x * 0 + pt.rand(*x.shape) + pt.rand(*x.shape) * 10\n"
    )
    path = tmp_path / "noisy.proto"
    path.write_text(f'import: "noisy_{n}"\ninput {{ shape: [4] }}\nNoisy{n} {{ }}\n')
    model = pt.load_model(path, allow_python=True)
    y = model.predict(np.random.default_rng(0).normal(size=(50, 4)).astype("f"), verbose=0)
    assert (y % 1).std() > 0
    assert y.std() > 1
