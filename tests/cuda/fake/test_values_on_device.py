"""Values outside of their bounds on a device: counted by the step that reads them, which then writes no state; the host
raises the error at the next call, or where it waits for the device."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import nn
from prototorch.eager import interpreter
from prototorch.errors import IndexRangeError, PrototorchError, ShapeError, UsageError
from prototorch.model.load import model_from_text
from prototorch.ops.operators import OPS
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.test_guards import FUNCTIONS, ROWS, VALUE_FUNCTIONS, X, op_inputs


@pytest.fixture(autouse=True)
def gpu():
    with use_fake_cuda():
        yield interpreter.interpreter_for("cuda")


def counting(work):
    """A compiled function that changes a state beside its work; the state."""
    counter = pt.zeros(3, device="cuda")

    @pt.compile
    def function(*arguments):
        counter.add_(1)
        return work(*arguments)

    return function, counter


def on_device(*tensors):
    return [t.to("cuda") for t in tensors]


@pytest.mark.parametrize(("name", "position", "end"), ROWS)
def test_ops_with_bounds(name, position, end):
    specs, attrs, bounds = op_inputs(name)
    arrays = [np.ones(s.shape, s.dtype) for s in specs]
    function, counter = counting(lambda *tensors: OPS[name](*tensors, **attrs))
    function(*on_device(*map(pt.tensor, arrays)))
    inside, outside = end
    arrays[position].reshape(-1)[-1] = outside
    result = function(*on_device(*map(pt.tensor, arrays)))  # the host does not know yet
    error = IndexRangeError if bounds[position].are_indices else UsageError
    with pytest.raises(error, match="integers by 0" if outside == 0 else rf"{outside}\b"):
        result.cpu()
    assert counter.cpu().tolist() == [1, 1, 1]
    arrays[position].reshape(-1)[-1] = inside
    function(*on_device(*map(pt.tensor, arrays)))
    assert counter.cpu().tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", VALUE_FUNCTIONS)
def test_functions_of_values(name):
    work, valid, refused = VALUE_FUNCTIONS[name]
    function, counter = counting(work)
    function(*on_device(*valid))
    for arguments in refused:
        with pytest.raises((UsageError, ShapeError)):
            function(*on_device(*arguments)).cpu()
        assert counter.cpu().tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_indices(name):
    work, index, _ = FUNCTIONS[name]
    function, counter = counting(work)
    with pytest.raises(IndexRangeError):
        function(*on_device(pt.tensor(X), pt.tensor(np.array(index)))).cpu()
    assert counter.cpu().tolist() == [0, 0, 0]


def lookup():
    table = pt.tensor(X, device="cuda")
    return counting(lambda i: table[i].sum())


def index(*numbers):
    return pt.tensor(numbers, device="cuda")


#: where the host waits for the device
WAITS = {
    "item": lambda function, result: result.item(),
    "float": lambda function, result: float(result),
    "numpy": lambda function, result: result.cpu().numpy(),
    "synchronize": lambda function, result: pt.cuda.synchronize(),
    "another tensor": lambda function, result: pt.ones(2, device="cuda").tolist(),
    "state_dict": lambda function, result: nn.Linear(2, 2, device="cuda").state_dict()["weight"].tolist(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_where_the_host_waits_it_raises(wait):
    function, counter = lookup()
    result = function(index(0, 7))
    with pytest.raises(IndexRangeError, match=r"\b7\b"):
        WAITS[wait](function, result)
    assert counter.tolist() == [0, 0, 0]
    assert function(index(0, 1)).item() == X.sum()  # it is raised once


def test_the_next_call_raises_what_the_device_has_told(gpu):
    function, counter = lookup()
    function(index(0, 7))
    gpu.backend.device._run_all(gpu.backend.device.compute_stream)  # as a GPU does by itself
    with pytest.raises(IndexRangeError, match=r"\b7\b"):
        function(index(0, 1))
    assert counter.tolist() == [0, 0, 0]


def test_calls_before_the_host_knows_change_nothing(gpu):
    """Captured as well: the third call and later ones are one launch."""
    function, counter = lookup()
    for _ in range(4):
        function(index(0, 1))
    function(index(0, 7))
    function(index(1, 1))
    function(index(1, -9))
    function(index(0, 1))
    words = r"\b7\b.*This was read by an earlier call; it and the 3 calls after it have changed nothing"
    with pytest.raises(IndexRangeError, match=words):
        pt.cuda.synchronize()
    assert counter.tolist() == [4, 4, 4]
    function(index(0, 1))
    assert counter.tolist() == [5, 5, 5]
    assert "graph" in [entry[0] for entry in gpu.backend.device.log]


def test_a_call_waits_for_nothing(gpu):
    function, _ = lookup()
    given = [index(0, 1) for _ in range(8)]
    for one in given[:4]:
        function(one)
    start = len(gpu.backend.device.log)
    for one in given[4:]:
        function(one)
    calls = {entry[0] for entry in gpu.backend.device.log[start:]}
    assert calls.isdisjoint({"download", "overwrite", "copy_to_host"}), calls


def test_a_training_step():
    """Forward, backward, the optimizer's step and running statistics."""
    net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.BatchNorm1d(8), nn.Linear(8, 3)).to("cuda")
    optimizer = pt.optim.Adam(net.parameters(), lr=0.1)

    @pt.compile
    def step(i, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(i), y)
        loss.backward()
        optimizer.step()
        return loss

    good = index(0, 1, 2, 0).reshape(2, 2), index(0, 2)
    for _ in range(4):
        step(*good)

    def state():
        return {name: t.cpu().numpy() for name, t in net.state_dict().items()}

    before = state()
    for bad in ((good[0] + 3, good[1]), (good[0], good[1] + 1)):
        loss = step(*bad)
        with pytest.raises(IndexRangeError):
            loss.item()
        after = state()
        assert all(np.array_equal(before[name], after[name]) for name in before)
    step(*good)
    assert any(not np.array_equal(before[name], value) for name, value in state().items())


TEXT = """
input { name: "i"  shape: [2]  dtype: int32 }
Add { bottom: ["i", "i"] }
Embedding { input_dim: 5  output_dim: 4 }
Flatten { }
BatchNormalization { }
Dense { units: 3 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: "adam"  device: cuda }
"""


@pytest.mark.parametrize("face", ["fit", "train_on_batch", "evaluate", "predict"])
def test_an_index_that_a_model_computes(face):
    model = model_from_text(TEXT)
    good, labels = np.arange(64, dtype=np.int32).reshape(32, 2) % 3, np.arange(32) % 3
    bad = good.copy()
    bad[9] = 3
    options = {"batch_size": 4, "verbose": 0}
    calls = {
        "fit": lambda x: model.fit(x, labels, epochs=1, shuffle=False, validation_split=0, **options),
        "train_on_batch": lambda x: model.train_on_batch(x, labels),
        "evaluate": lambda x: model.evaluate(x, labels, **options),
        "predict": lambda x: model.predict(x, **options),
    }
    if face == "fit":
        model.fit(good[:8], labels[:8], epochs=1, shuffle=False, validation_split=0, **options)
    else:
        calls[face](good)
    before = model.get_weights()
    if face == "fit":
        twin = model_from_text(TEXT)
        for _ in range(2):
            twin.fit(good[:8], labels[:8], epochs=1, shuffle=False, validation_split=0, **options)
        before = twin.get_weights()  # the two steps before the bad one
    with pytest.raises(PrototorchError, match=r"\b6\b"):
        calls[face](bad)
    after = model.get_weights()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    calls[face](good)


def test_a_snapshot_is_refused(tmp_path):
    model = model_from_text(TEXT)
    model.train_on_batch(np.zeros((4, 2), np.int32), np.arange(4) % 3)
    executor = next(iter(model.trainer.plan_cache.executors()))
    inputs = {name: np.zeros(spec.shape, spec.dtype) for name, spec in executor.plan.inputs.items()}
    inputs["i"] = inputs["i"] + np.int32(3)
    executor(inputs)
    with pytest.raises(IndexRangeError, match=r"\b6\b"):
        model.save(tmp_path / "m.h5")
    assert not (tmp_path / "m.h5").exists()
    model.save(tmp_path / "m.h5")
