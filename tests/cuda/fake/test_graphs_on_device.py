"""Static graphs on a GPU: where variables, weights and optimizers' state live, what is copied, and the errors."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda import availability, backend
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.device_sources import LossCheckState
from prototorch.eager import interpreter
from prototorch.eager.interpreter import interpreter_for
from prototorch.errors import BackendError, TrainingError, UsageError
from tests.cuda.fake.fake_cuda import use_fake_cuda

GPUS = ("cuda:0", "cuda:1")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((8, 4)).astype("float32"), RNG.standard_normal((8, 2)).astype("float32")


@pytest.fixture(autouse=True)
def two_gpus():
    with use_fake_cuda():
        yield


def log_of(device):
    return interpreter_for(device).backend.device.log


def calls_since(device, start, *names):
    return [entry for entry in log_of(device)[start:] if entry[0] in names]


def training_graph(optimizer="Adam", **options):
    """A graph with a variable, layers with statistics and random numbers, a tensor as a constant, and an optimizer."""
    pt.manual_seed(0)
    x, y = pt.Input((4,), name="x"), pt.Input((2,), name="y")
    w = pt.Variable(np.linspace(-1, 1, 10, dtype="float32").reshape(5, 2), name="w")
    count = pt.Variable(0.0, name="count", trainable=False)
    hidden = pt.layers.BatchNormalization()(pt.layers.Dense(5, activation="relu", name="hidden")(x))
    hidden = pt.layers.Dropout(0.5)(hidden) * pt.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    loss = ((hidden @ w + np.float32([1, 2]) - y) ** 2).mean()
    step = getattr(pt.optimizers, optimizer)(0.001 if optimizer == "SGD" else 0.05).minimize(loss)
    return pt.Graph([x, y], [loss, *pt.gradients(loss, [w, x])], [step, count.assign_add(1.0)], **options)


def run_steps(graph, steps=5):
    pt.manual_seed(1)
    return [[np.array(v) for v in graph(X, Y)] for _ in range(steps)]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "Adadelta"])
@pytest.mark.parametrize("device", GPUS)
def test_a_graph_with_variable_layer_and_optimizer(device, optimizer):
    there, here = training_graph(optimizer), training_graph(optimizer, device=device)
    for expected, values in zip(run_steps(there), run_steps(here), strict=True):
        for a, b in zip(expected, values, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
    assert here.device == device
    assert there.device == "cpu"
    assert here.state.tensors()
    assert {str(t.device) for t in here.state.tensors()} == {device}
    assert {str(v.device) for v in here.variables} == {device}
    for a, b in zip(there.variables, here.variables, strict=True):
        assert a.name == b.name
        np.testing.assert_allclose(b.value, a.value, rtol=1e-4, atol=1e-6)
    assert len([e for e in log_of(device) if e[0] == "graph"]) >= 2  # the step was captured
    other = GPUS[1 - GPUS.index(device)]
    assert not log_of(other)


def test_what_a_step_copies():
    """Arrays of the host once, as one block where they are small; the device's own not at all; nothing else."""
    x, y = pt.Input((4,)), pt.Input((2,))
    w, big = pt.Variable(np.ones((4, 2), "float32")), pt.Input((20_000,))
    loss = ((x @ w - y) ** 2).mean() + big.mean()
    graph = pt.Graph([x, y, big], loss, [pt.optimizers.SGD(0.1, momentum=0.9).minimize(loss)], device="cuda:1")
    large = np.ones((8, 20_000), "float32")
    for _ in range(4):
        graph(X, Y, large)
    start = len(log_of("cuda:1"))
    graph(X, Y, large)
    copies = calls_since("cuda:1", start, "copy_from_host", "overwrite")
    assert [c[2] for c in copies if c[2] == large.nbytes] == [large.nbytes]
    assert len(copies) == 2  # the other one holds x, y, the learning rate and the number of the step
    downloads = calls_since("cuda:1", start, "download")
    assert [c[1] for c in downloads] == [4]  # the loss
    reports = calls_since("cuda:1", start, "copy_to_host")
    assert {c[2] for c in reports} == {LossCheckState.itemsize}  # of the guard
    assert len(calls_since("cuda:1", start, "graph")) == 1

    there = [pt.tensor(a, device="cuda:1") for a in (X, Y, large)]
    for _ in range(3):
        graph(*there)
    start = len(log_of("cuda:1"))
    value = graph(*there)
    (numbers,) = calls_since("cuda:1", start, "copy_from_host")
    assert numbers[2] < 1024 + X.nbytes + Y.nbytes  # the block of small inputs, which holds rate and step
    assert not calls_since("cuda:1", start, "download")  # the value stays there
    assert isinstance(value, pt.Tensor)
    assert value.device == "cuda:1"


def test_without_steps_nothing_comes_back_but_results():
    x = pt.Input((4,))
    graph = pt.Graph(x, (x * pt.Variable(2.0)).sum(), device="cuda:0")
    fed = pt.tensor(X, device="cuda:0")
    for _ in range(3):
        start = len(log_of("cuda:0"))
        value = graph(fed)
        assert not calls_since("cuda:0", start, "download", "overwrite")
    np.testing.assert_allclose(value.numpy(), (X * 2).sum(), rtol=1e-5)
    assert isinstance(graph(fed, as_tensors=False), np.ndarray)
    assert graph(X, as_tensors=True).device == "cuda:0"


@pytest.mark.parametrize("kinds", ["NN", "TT", "GN", "NG", "GT", "GG"])
@pytest.mark.parametrize("is_placed", [True, False])
def test_arrays_tensors_and_mixes(kinds, is_placed):
    """N: NumPy, T: a tensor of the CPU, G: a tensor of the GPU, which places a graph that has no place yet."""
    make = {"N": lambda a: a, "T": pt.tensor, "G": lambda a: pt.tensor(a, device="cuda:1")}
    x, y, w = pt.Input((4,)), pt.Input((4,)), pt.Variable(np.float32(2), name="w")
    graph = pt.Graph([x, y], [x * y * w, x, w], device="cuda:1" if is_placed else None)
    a, b = X, X + 1
    for _ in range(2):
        values = graph(*(make[k](v) for k, v in zip(kinds, (a, b), strict=True)))
        np.testing.assert_allclose(np.array(values[0]), a * b * 2, rtol=1e-6)
        np.testing.assert_array_equal(np.array(values[1]), a)
        assert graph.device == w.device == ("cuda:1" if is_placed or "G" in kinds else "cpu")
        assert all(isinstance(v, pt.Tensor if "G" in kinds else np.ndarray) for v in values)
    w.value = 5
    assert float(values[2]) == 2  # results are no views of the graph's memory


def test_a_graph_without_arrays_runs_where_it_is_fed():
    graph = pt.Graph(x := pt.Input((4,)), [x.exp()])
    for device in ("cuda:1", "cpu", "cuda:0", "cpu"):
        start = {gpu: len(log_of(gpu)) for gpu in GPUS}
        (value,) = graph(X if device == "cpu" else pt.tensor(X, device=device))
        np.testing.assert_allclose(np.array(value), np.exp(X), rtol=1e-6)
        assert [gpu for gpu in GPUS if calls_since(gpu, start[gpu], "run", "graph")] == [device][: device != "cpu"]


def test_a_scope_is_tensorflows_second_form():
    """``with tf.device(...)`` around placeholders and ops."""
    with pt.device("cuda:1"):
        x, y, z = (pt.Input((4,)) for _ in range(3))
        a = x * y
        b = a + z
        c = b.sum()
        grads = pt.gradients(c, [x, y, z])
        w = pt.Variable(1.0)
    graph = pt.Graph([x, y, z], [c * w, *grads])
    assert graph.device == w.device == "cuda:1"
    values = RNG.standard_normal((3, 3, 4)).astype("float32")
    value, gx, gy, gz = graph(*values)
    np.testing.assert_allclose(value, (values[0] * values[1] + values[2]).sum(), rtol=1e-5)
    np.testing.assert_array_equal(gx, values[1])
    np.testing.assert_array_equal(gy, values[0])
    np.testing.assert_array_equal(gz, np.ones((3, 4)))
    assert pt.Graph([x], pt.layers.Dense(2)(x)).device == "cuda:1"
    with pt.device("cuda:0"):
        assert pt.Graph(u := pt.Input((2,)), u).device == "cuda:0"
    assert pt.Graph(u := pt.Input((2,), device="cuda:1"), u).device == "cuda:1"


def test_to_moves_everything_and_training_goes_on():
    there, moving = training_graph(), training_graph()
    expected = [v[0] for v in run_steps(there, 9)]
    pt.manual_seed(1)
    losses = []
    for device in ("cuda:0", "cuda:1", "cpu"):
        assert moving.to(device) is moving
        losses += [np.array(moving(X, Y)[0]) for _ in range(3)]
        assert {str(t.device) for t in moving.state.tensors()} == {device}
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_values_are_read_and_set_where_they_live():
    graph = training_graph(device="cuda:0")
    names = graph.variables.names()  # before the first call
    assert names[:4] == ["w", "count", "hidden/kernel", "hidden/bias"]
    graph.variables["hidden/kernel"] = np.ones((4, 5))
    graph.variables["w"].value = np.full((5, 2), 0.5)
    twin = training_graph()
    twin.variables["hidden/kernel"] = np.ones((4, 5))
    twin.variables["w"] = np.full((5, 2), 0.5)
    assert graph.variables["hidden/kernel"].device == "cuda:0"
    for a, b in zip(run_steps(twin), run_steps(graph), strict=True):
        np.testing.assert_allclose(b[0], a[0], rtol=1e-4)
    with pytest.raises(UsageError, match=r"no variable 'hidden/kernal'.* Did you mean 'hidden/kernel'"):
        _ = graph.variables["hidden/kernal"]
    with pytest.raises(UsageError, match=r"shape \[2, 2\]"):
        graph.variables["w"] = np.ones((2, 2))


def test_constants_are_copied_and_follow_their_tensor():
    scale, x = pt.tensor([1.0, 2.0, 3.0, 4.0]), pt.Input((4,))
    graph = pt.Graph(x, x * scale, device="cuda:1")
    np.testing.assert_allclose(graph(X), X * [1, 2, 3, 4], rtol=1e-6)
    scale += 1
    np.testing.assert_allclose(graph(X), X * [2, 3, 4, 5], rtol=1e-6)
    on_gpu = pt.tensor([1.0, 2.0, 3.0, 4.0], device="cuda:0")
    assert pt.Graph(x, x * on_gpu)(X).shape == (8, 4)
    with pytest.raises(UsageError, match=r"the graph is on cuda:1, and an argument of mul on cuda:0"):
        pt.Graph(x, x * on_gpu, device="cuda:1")(X)


def placed(device, name):
    return pt.Variable(1.0, name=name, device=device)


def in_scope(device, make):
    with pt.device(device):
        return make()


CONFLICTS = [
    (lambda x: pt.Graph(x, x + placed("cuda:0", "a") + placed("cuda:1", "b"))(X),
     r"the variable 'a' is on cuda:0, and the variable 'b' on cuda:1"),
    (lambda x: pt.Graph(x, x + placed("cpu", "a") + placed("cuda:1", "b"))(X),
     r"the variable 'a' is on cpu, and the variable 'b' on cuda:1"),
    (lambda x: pt.Graph(x, x + placed("cuda:0", "a"), device="cuda:1")(X),
     r"the graph is on cuda:1, and the variable 'a' on cuda:0"),
    (lambda x: pt.Graph(x, x + placed("cuda:0", "a"))(pt.tensor(X, device="cuda:1")),
     r"the variable 'a' is on cuda:0, and the value fed to the input 'x' on cuda:1"),
    (lambda x: pt.Graph(x, x + placed("cpu", "a"))(pt.tensor(X, device="cuda:1")),
     r"the variable 'a' is on cpu, and the value fed to the input 'x' on cuda:1"),
    (lambda x: pt.Graph([x, y := pt.Input((4,), device="cuda:0")], x + y, device="cuda:1"),
     r"the graph is on cuda:1, and the input 1 on cuda:0"),
    (lambda x: pt.Graph(x, in_scope("cuda:0", lambda: x + 1) * in_scope("cuda:1", lambda: x.exp())),
     r"add is on cuda:0, and exp on cuda:1"),
    (lambda x: pt.Graph(x, in_scope("cuda:0", lambda: pt.layers.Dense(2, name="d")(x)), device="cpu"),
     r"the graph is on cpu, and the layer 'd' on cuda:0"),
    (lambda x: pt.Graph([x, y := pt.Input((4,), name="y")], x + y)(pt.tensor(X, device="cuda:1"),
                                                                  pt.tensor(X, device="cuda:0")),
     r"the value fed to the input 'x' is on cuda:1, and the value fed to the input 'y' on cuda:0"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "message"), CONFLICTS, ids=[m[:50] for _, m in CONFLICTS])
def test_two_devices_are_named_with_what_is_there(run, message):
    with pytest.raises(UsageError, match=f"a graph runs on one device: {message}"):
        run(pt.Input((4,), name="x"))


def test_a_graph_that_has_run_stays_where_it_is():
    graph = training_graph()
    graph(X, Y)
    with pytest.raises(UsageError, match=r"'w' is on cpu, and the value fed to the input 'x' on cuda:1"):
        graph(pt.tensor(X, device="cuda:1"), Y)
    assert graph.to("cuda:1")(pt.tensor(X, device="cuda:1"), Y)[0].device == "cuda:1"


def test_two_graphs_share_a_variable():
    x, w = pt.Input((4,), name="x"), pt.Variable(np.float32(1), name="w")
    loss = (x * w).sum()
    train = pt.Graph(x, loss, [pt.optimizers.SGD(0.1).minimize(loss)], device="cuda:0")
    test = pt.Graph(x, loss)
    train(X)
    assert test.device == "cuda:0"
    np.testing.assert_allclose(test(X), X.sum() * w.value, rtol=1e-4)
    train.to("cuda:1")
    assert test.device == w.device == "cuda:1"
    np.testing.assert_allclose(test(X), X.sum() * w.value, rtol=1e-4)


def test_files_keep_the_device_or_get_another(tmp_path):
    graph = training_graph(device="cuda:1")
    run_steps(graph, 3)
    graph.save(tmp_path / "g.h5")
    expected = [v[0] for v in run_steps(graph, 3)]
    for device in (None, "cuda:0", "cpu"):
        other = pt.Graph.load(tmp_path / "g.h5", device=device)
        assert other.device == (device or "cuda:1")
        np.testing.assert_allclose([v[0] for v in run_steps(other, 3)], expected, rtol=1e-4)
        assert {str(t.device) for t in other.state.tensors()} == {device or "cuda:1"}
    with pt.device("cuda:0"):
        assert pt.Graph.load(tmp_path / "g.h5").device == "cuda:1"
    training_graph().save(tmp_path / "free.h5")  # it has run nowhere
    assert pt.Graph.load(tmp_path / "free.h5").device == "cpu"
    assert pt.Graph.load(tmp_path / "free.h5")(pt.tensor(X, device="cuda:0"), Y)[0].device == "cuda:0"


def test_a_file_of_a_gpu_on_a_machine_without_one(tmp_path, monkeypatch):
    graph = training_graph(device="cuda:1")
    run_steps(graph, 1)
    graph.save(tmp_path / "g.h5")
    monkeypatch.setattr(availability, "unavailable_reason", lambda: "this machine has no NVIDIA driver")
    monkeypatch.setattr(backend, "get_backend", CudaBackend)  # the real one, as without the stand-in
    interpreter._gpu_interpreter.cache_clear()
    with pytest.raises(BackendError, match=r"g\.h5 is to run on cuda:1: .*no NVIDIA.*device='cpu'\) opens it here"):
        pt.Graph.load(tmp_path / "g.h5")
    assert np.isfinite(pt.Graph.load(tmp_path / "g.h5", device="cpu")(X, Y)[0])
    x = pt.Input((2,), name="x", device="cuda:0")  # writing it down needs no GPU
    with pytest.raises(BackendError, match=r"the input 'x' is to be on cuda:0: .*no NVIDIA driver"):
        pt.Graph(x, x + 1)


def test_a_step_that_is_not_finite_is_undone():
    x, w = pt.Input((2,)), pt.Variable(np.ones((2, 1), "float32"), name="w")
    loss = pt.sqrt(x @ w).sum()
    graph = pt.Graph(x, loss, [pt.optimizers.SGD(0.1, momentum=0.9).minimize(loss)], device="cuda:1")
    graph(np.ones((1, 2), "float32"))
    before = w.value
    with pytest.raises(TrainingError, match=r"the loss is nan, .*nothing has been changed"):
        graph(np.full((1, 2), -1, "float32"))
    np.testing.assert_array_equal(w.value, before)
    assert graph(np.ones((1, 2), "float32")) > 0


def test_layers_of_a_model_are_on_the_cpu():
    model = pt.Sequential([pt.Input((4,)), pt.layers.Dense(2, name="out")])
    x = pt.Input((4,))
    with pytest.raises(UsageError, match=r"the weights of the layer 'out' are those of a model, in the memory of the"):
        pt.Graph(x, model(x), device="cuda:0")(X)
    with pytest.raises(UsageError, match=r"is on the device 'cuda:0', as inputs of a pt\.Graph are"):
        pt.Model(u := pt.Input((4,), device="cuda:0"), pt.layers.Dense(2)(u))


def test_wrong_names():
    x = pt.Input((2,))
    for make in (
        lambda: pt.Graph(x, x, device="gpu"),
        lambda: pt.Input((2,), device="gpu"),
        lambda: pt.Variable(1.0, device="gpu"),
        lambda: pt.Graph(x, x).to("gpu"),
        lambda: pt.device("gpu"),
    ):
        with pytest.raises(UsageError, match=r"there is no device 'gpu'.*Did you mean 'cuda'"):
            make()
