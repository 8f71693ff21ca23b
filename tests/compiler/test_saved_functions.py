"""Compiled functions in files, which run without the code that made them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn, optim
from prototorch.engine.storage import container
from prototorch.errors import ModelFileError, ShapeError, UsageError
from tests.compiler.comparing import normal, same


def network() -> nn.Module:
    pt.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4)
    ).eval()


def test_a_module_runs_again_for_every_batch_size(tmp_path: Path) -> None:
    net = network()
    compiled = pt.compile(net)
    x = normal(5, 1, 8, 8)
    want = compiled(x)
    compiled.save(tmp_path / "net.h5")
    loaded = pt.load_compiled(tmp_path / "net.h5")
    same(loaded(x), want)
    for size in (1, 2, 9):
        y = normal(size, 1, 8, 8)
        same(loaded(y), net(y))
    with pytest.raises(ShapeError, match=r"expected float32\[2, 1, 8, 8\] \(the first axis may have any size\)"):
        loaded(normal(2, 1, 9, 8))
    with pytest.raises(UsageError, match="takes 1 tensors, got 2"):
        loaded(x, x)


def test_it_runs_in_a_process_without_the_code(tmp_path: Path) -> None:
    compiled = pt.compile(lambda x: {"a": pt.exp(x).sum(), "b": [x * 2, None, 3]})
    compiled.save(tmp_path / "f.h5", normal(4, 2))
    code = (
        "import prototorch as pt; f = pt.load_compiled('f.h5'); r = f(pt.ones(6, 2)); "
        "print(round(r['a'].item(), 3), r['b'][0].tolist()[0], r['b'][1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(pt.__file__).parents[1])},
    )
    assert done.stdout == "32.619 [2.0, 2.0] [None, 3]\n"


def test_states_are_kept_and_changed(tmp_path: Path) -> None:
    total = pt.tensor([1.0, 2.0])

    @pt.compile
    def running(x: pt.Tensor) -> pt.Tensor:
        with pt.no_grad():
            total.add_(x)
        return total * 1

    running.save(tmp_path / "f.h5", normal(2))
    assert total.tolist() == [1.0, 2.0]
    loaded = pt.load_compiled(tmp_path / "f.h5")
    one = pt.ones(2)
    assert [loaded(one).tolist() for _ in range(2)] == [[2.0, 3.0], [3.0, 4.0]]


def test_random_numbers_are_drawn_at_each_call(tmp_path: Path) -> None:
    pt.compile(lambda x: x + pt.rand(3)).save(tmp_path / "f.h5", pt.zeros(3))
    loaded = pt.load_compiled(tmp_path / "f.h5")
    assert loaded(pt.zeros(3)).tolist() != loaded(pt.zeros(3)).tolist()


def test_a_graph_for_one_size_refuses_others(tmp_path: Path) -> None:
    weight = normal(4, 3)
    pt.compile(lambda x: x * weight).save(tmp_path / "f.h5", normal(4, 3))
    loaded = pt.load_compiled(tmp_path / "f.h5")
    x = normal(4, 3)
    same(loaded(x), x * weight)
    with pytest.raises(ShapeError, match="for other shapes save it with arguments of those"):
        loaded(normal(5, 3))


def test_what_a_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    net = nn.Linear(2, 2)
    method = optim.Adam(net.parameters())

    @pt.compile
    def step(x: pt.Tensor) -> pt.Tensor:
        with pt.enable_grad():
            loss = net(x).sum()
            loss.backward()
        method.step()
        return loss

    with pytest.raises(UsageError, match="a step of an optimizer, which no file can hold"):
        step.save(tmp_path / "f.h5", normal(3, 2))
    with pytest.raises(UsageError, match="is saved for tensors"):
        pt.compile(lambda x: x).save(tmp_path / "f.h5")
    with pytest.raises(UsageError, match="returns tensors, numbers"):
        pt.compile(lambda x: object()).save(tmp_path / "f.h5", normal(1))
    with pytest.raises(UsageError, match="HDF5"):
        pt.compile(lambda x: x).save(tmp_path / "f.pt", normal(1))
    assert not list(tmp_path.iterdir())


def test_changed_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    pt.compile(network()).save(tmp_path / "f.h5", normal(3, 1, 8, 8))
    contents = container.read(tmp_path / "f.h5")
    rng = np.random.default_rng(0)
    original = str(contents.meta["function"])
    refused = 0
    for _ in range(150):
        content = json.loads(original)
        mutate(content, rng)
        meta = {**contents.meta, "function": json.dumps(content)}
        container.write(tmp_path / "g.h5", contents.arrays, meta)
        try:
            pt.load_compiled(tmp_path / "g.h5")
        except ModelFileError:
            refused += 1
    assert refused > 60


def mutate(node, rng) -> None:
    """Change one value somewhere in a nest."""
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[rng.integers(len(keys))]
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.1:
            choices = [-1, 2**62, "host_call", None, [], {}, 1.5, True, "../x", [[[[]]]], {"batch": [2**40, 1]}, 10**6]
            node[key] = choices[rng.integers(len(choices))]
            return
        node = node[key]


@pytest.mark.parametrize("op", ["host_call", "no_such_op", "fused", "getitem", "eval", "__class__"])
def test_ops_that_a_file_must_not_name(tmp_path: Path, op: str) -> None:
    pt.compile(lambda x: pt.exp(x)).save(tmp_path / "f.h5", normal(3))
    contents = container.read(tmp_path / "f.h5")
    content = json.loads(str(contents.meta["function"]))
    content["graph"]["nodes"][0].update(op=op, attrs={"function": "os.system"})
    container.write(tmp_path / "f.h5", contents.arrays, {**contents.meta, "function": json.dumps(content)})
    with pytest.raises(ModelFileError):
        pt.load_compiled(tmp_path / "f.h5")
    with pytest.raises(ModelFileError, match="load_compiled"):
        pt.load_model(tmp_path / "f.h5")
