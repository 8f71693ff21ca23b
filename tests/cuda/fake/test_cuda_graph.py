"""A training step on the fake device: recorded once and replayed, fed ahead, with no waiting inside a step."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.device_sources import LossCheckState
from prototorch.cuda.executor.cuda_graph import WARM_UP_RUNS
from prototorch.cuda.executor.loss_check import REPORT_INTERVAL
from prototorch.cuda.fake_device import CaptureError
from tests.cuda.fake.fake_gpu import (
    FakeDevice,
    assert_same_weights,
    compile_net,
    executor_of,
    fake_backend,
    make_data,
    reference_cpu,
)

BATCH = 4
#: what a step may ask of the device once its graph is there
INSIDE = {
    "synchronize_event",
    "wait_event",
    "copy_from_host",
    "record_event",
    "copy_on_device",
    "graph",
    "copy_to_host",
}


def fitted(backend, x, y, **options):
    model = compile_net(backend, **{k: options.pop(k) for k in ("optimizer", "metrics") if k in options})
    history = model.fit(x, y, **{"batch_size": BATCH, "epochs": 3, "verbose": 0, **options})
    return model, history.history


@pytest.mark.parametrize(
    "optimizer",
    [
        "adam",
        pt.optimizers.SGD(pt.schedules.ExponentialDecay(0.1, 3, 0.5), momentum=0.9, clipnorm=1.0),
        pt.optimizers.RMSprop(1e-2, ema_momentum=0.9, use_ema=True),
    ],
    ids=["adam", "scheduled", "averaged"],
)
def test_the_same_bits_as_the_cpu(optimizer):
    """Over epochs with a smaller last batch, validation, dropout and running statistics."""
    x, y = make_data(43)
    a, a_history = fitted(reference_cpu(), x, y, optimizer=optimizer, validation_split=0.2)
    b, b_history = fitted(fake_backend(), x, y, optimizer=optimizer, validation_split=0.2)
    assert a_history == b_history
    assert_same_weights(a, b)
    np.testing.assert_array_equal(a.predict(x), b.predict(x))
    assert a.evaluate(x, y) == b.evaluate(x, y)


def test_recorded_after_the_first_runs_and_then_only_launched():
    device = FakeDevice()
    x, y = make_data(8 * BATCH)
    model, _ = fitted(fake_backend(device), x, y, epochs=1)
    kinds = [entry[0] for entry in device.log]
    assert kinds.count("begin_capture") == kinds.count("end_capture") == 1
    assert kinds.count("graph") == 8 - WARM_UP_RUNS
    runner = executor_of(model)
    assert len(runner.graph.work) == len(runner.launches)


def dense():
    """A net in which no sample sees another."""
    layers = pt.layers
    return pt.Sequential([
        pt.Input((1, 6, 6)), layers.Conv2D(3, 3, activation="relu", name="conv"), layers.Dropout(0.3, name="drop"),
        layers.Flatten(name="flat"), layers.Dense(3, name="logits"),
    ])  # fmt: skip


def test_the_smaller_last_batch_is_filled_up_and_launched():
    """It goes through the recorded step of the others; the numbers are those of a step of its own, but for sums of more
    terms, which round otherwise: a few units in the last place, over 12 steps."""
    x, y = make_data(8 * BATCH + 3)
    models, histories = [], []
    device = FakeDevice()
    for backend in (fake_backend(device), fake_backend(), reference_cpu()):
        backend.is_shape_specialized = not models or backend.device is None
        models.append(compile_net(backend, dense, metrics=["accuracy"]))
        options = {"batch_size": 2 * BATCH, "epochs": 3, "verbose": 0, "validation_split": 0.2, "shuffle": False}
        histories.append(models[-1].fit(x, y, **options).history)
    assert len([k for k in models[0].trainer.plan_cache._executors if k[0] == "train"]) == 1
    assert len([k for k in models[1].trainer.plan_cache._executors if k[0] == "train"]) == 2
    assert [entry[0] for entry in device.log].count("begin_capture") == 1
    assert_same_weights(models[0], models[2])
    assert histories[0] == histories[2]
    a, b = models[0].get_weights(), models[1].get_weights()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(histories[0]["loss"], histories[1]["loss"], rtol=1e-5)
    np.testing.assert_allclose(models[0].predict(x), models[1].predict(x), rtol=1e-4, atol=1e-5)


def test_captured_is_uncaptured_over_1000_steps():
    x, y = make_data(10 * BATCH)
    a, b = fake_backend(), fake_backend(FakeDevice())
    b.device.uncapturable_ops = {"conv"}
    captured, _ = fitted(a, x, y, epochs=100)
    with pytest.warns(RuntimeWarning, match="kernel by kernel"):
        uncaptured, _ = fitted(b, x, y, epochs=100)
    assert executor_of(captured).graph is not None
    assert executor_of(uncaptured).graph is None
    assert_same_weights(captured, uncaptured)


def test_nothing_is_allocated_or_waited_for_inside_a_step():
    device = FakeDevice()
    x, y = make_data(40 * BATCH)
    fitted(fake_backend(device), x, y, epochs=1)
    first = next(i for i, e in enumerate(device.log) if e[0] == "graph")
    last = max(i for i, e in enumerate(device.log) if e[0] == "graph")
    inside = device.log[first : last + 1]
    assert {e[0] for e in inside} <= INSIDE
    steps = sum(e[0] == "graph" for e in inside)
    reports = [e for e in inside if e[0] == "copy_to_host"]
    assert len(reports) <= steps // REPORT_INTERVAL + 1
    assert {e[2] for e in reports} <= {LossCheckState.itemsize}


def test_a_step_is_fed_while_the_one_before_still_runs():
    """After a call the last two steps have not been done yet: the host was not made to wait for them."""
    device = FakeDevice()
    backend = fake_backend(device)
    x, y = make_data(12 * BATCH)
    waiting = []

    class Look(pt.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            waiting.append(sum(e.startswith("('graph'") for e, _ in device.compute_stream.queue))

    fitted(backend, x, y, epochs=1, callbacks=[Look()])
    assert max(waiting) >= 2


def test_order_of_a_step():
    """The copy waits for the last step's inputs to be taken over, the step for the copy."""
    device = FakeDevice()
    x, y = make_data(8 * BATCH)
    fitted(fake_backend(device), x, y, epochs=1)
    at = [i for i, e in enumerate(device.log) if e[0] == "graph"][2]
    before = [e for e in device.log[:at] if e[0] not in ("copy_to_host",)][-7:]
    kinds = [(e[0], e[1]) if e[0] in ("wait_event", "record_event", "copy_from_host") else e[0] for e in before]
    assert kinds == ["synchronize_event", ("wait_event", "copy"), ("copy_from_host", "copy"), ("record_event", "copy"),
                     ("wait_event", "compute"), "copy_on_device", ("record_event", "compute")]  # fmt: skip
    assert before[0][1] == before[3][2] == before[4][2]  # a pinned block's own event
    assert before[1][2] == before[6][2]  # the inputs are taken over


def test_the_last_smaller_batch_is_never_recorded():
    x, y = make_data(6 * BATCH + 1)
    model, _ = fitted(fake_backend(), x, y, epochs=5)
    assert executor_of(model, batch=BATCH).graph is not None
    assert executor_of(model, batch=1).graph is None


def test_plans_share_one_arena():
    device = FakeDevice()
    x, y = make_data(6 * BATCH + 1)
    model, _ = fitted(fake_backend(device), x, y, validation_split=0.2)
    runners = model.trainer.plan_cache.executors()
    assert len(runners) > 1
    largest = max(r.plan.arena_bytes for r in runners)
    assert all(r._arena is runners[0]._arena for r in runners)
    assert device.log.count(("alloc", largest)) == 1


def test_what_cannot_be_recorded_is_told_once_and_runs_all_the_same():
    x, y = make_data()
    device = FakeDevice()
    device.uncapturable_ops = {"dropout"}
    with pytest.warns(RuntimeWarning) as told:
        refused, _ = fitted(fake_backend(device), x, y)
    assert len(told) == 1
    assert "dropout in drop: CaptureError: dropout cannot be captured" in str(told[0].message)
    assert ("abandon_capture",) in device.log
    assert_same_weights(refused, fitted(reference_cpu(), x, y)[0])


def test_a_kernel_may_say_that_it_cannot_be_recorded():
    backend = fake_backend()
    plain = backend.reference

    def marked(op, attrs):
        run = plain(op, attrs)
        if op.name == "relu":
            run.not_capturable_reason = "it asks the host"
        return run

    backend.reference = marked
    x, y = make_data()
    with pytest.warns(RuntimeWarning, match="relu in conv: it asks the host"):
        model, _ = fitted(backend, x, y)
    assert ("begin_capture",) not in backend.device.log
    assert_same_weights(model, fitted(reference_cpu(), x, y)[0])


def test_the_stand_in_refuses_what_cuda_does():
    device = FakeDevice()
    array = device.upload(np.ones(100, np.float32))
    device.begin_capture()
    for forbidden in (
        lambda: device.download(array),
        lambda: device.alloc(8),
        lambda: device.copy_from_host(array, np.ones(100, np.float32), device.compute_stream),
        lambda: device.synchronize_event(device.create_event()),
    ):
        with pytest.raises(CaptureError):
            forbidden()


def test_the_stand_in_is_lazy():
    """What it computes is not there before somebody waits for it."""
    device = FakeDevice()
    array = device.upload(np.zeros(3, np.float32))
    device.enqueue("add", lambda: np.add(array, 1, out=array))
    assert array.tolist() == [0, 0, 0]
    assert device.download(array).tolist() == [1, 1, 1]


def test_times_of_the_pieces():
    x, y = make_data()
    model, _ = fitted(fake_backend(), x, y)
    runner = executor_of(model)
    inputs = {n: np.zeros(v.shape, v.dtype) for n, v in runner.plan.inputs.items()}
    found = runner.time_launches(inputs)
    assert found[0][0].op == "prefetch"
    assert [call for call, _ in found[1:]] == runner.launches
    assert all(ms > 0 for _, ms in found)


def test_a_backend_has_a_product_of_its_own():
    """Neither NumPy's nor that of another backend of the device becomes a kernel's."""
    device = FakeDevice()
    with_kernels, without = CudaBackend(device), CudaBackend(device, kernels=False)
    assert with_kernels.xp.matmul == with_kernels.kernel_matmul
    assert without.xp.matmul is device.xp.matmul is np.matmul
