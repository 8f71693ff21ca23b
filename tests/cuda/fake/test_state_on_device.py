"""Weights on a device and on the host: who is newer, files that both write alike, losses not finite, memory."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.device_sources import LossCheckState, ValueCheckState
from prototorch.cuda.executor.loss_check import MAX_REPORT_LAG
from prototorch.errors import ResourceError, TrainingError
from tests.cuda.fake.fake_gpu import (
    FakeDevice,
    assert_same_weights,
    compile_net,
    executor_of,
    fake_backend,
    make_data,
    reference_cpu,
    use_backend,
)

pytestmark = pytest.mark.filterwarnings("ignore:data. the values of the input:prototorch.data.checks.DataWarning")
BATCH = 4


def fit(model, x, y, **options):
    return model.fit(x, y, **{"batch_size": BATCH, "epochs": 2, "verbose": 0, **options})


# ---------------------------------------------------------------- weights


def test_weights_that_are_set_between_steps_count():
    x, y = make_data(8 * BATCH)
    models = [compile_net(backend) for backend in (reference_cpu(), fake_backend())]
    for model in models:
        fit(model, x, y)
        model.set_weights({name: array * 0.5 for name, array in model.get_weights().items()})
        fit(model, x, y)
    assert_same_weights(*models)


def test_an_array_of_the_model_may_be_written_into():
    x, y = make_data(8 * BATCH)
    models = [compile_net(backend) for backend in (reference_cpu(), fake_backend())]
    for model in models:
        fit(model, x, y)
        model.weights["conv/kernel"][...] = 0.25
        fit(model, x, y)
    assert_same_weights(*models)


def test_arrays_that_are_held_are_current_after_a_fit():
    x, y = make_data(8 * BATCH)
    model = compile_net(fake_backend())
    model.build()
    held = dict(model.weights)
    fit(model, x, y)
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(held[name], array)


def test_steps_on_single_batches():
    x, y = make_data(8 * BATCH)
    models = [compile_net(backend) for backend in (reference_cpu(), fake_backend())]
    logs = [[model.train_on_batch(x[i : i + 8], y[i : i + 8]) for i in range(0, 32, 8)] for model in models]
    assert logs[0] == logs[1]
    assert_same_weights(*models)


def test_a_model_moves_from_the_device_to_the_cpu_and_back():
    x, y = make_data(8 * BATCH)
    moved, stayed = compile_net(fake_backend()), compile_net(reference_cpu())
    fit(moved, x, y)
    fit(stayed, x, y)
    for model, backend in ((moved, reference_cpu()), (stayed, fake_backend())):
        with use_backend(backend):
            model.set_compile(model.compile_block)
        fit(model, x, y)
    assert_same_weights(moved, stayed)


def test_a_callback_reads_the_loss_of_each_step_as_it_was():
    x, y = make_data(8 * BATCH)
    seen = {}

    class Look(pt.Callback):
        def __init__(self, key):
            self.key = key
            seen[key] = []

        def on_train_batch_end(self, batch, logs=None):
            seen[self.key].append(dict(logs))

    for key, backend in (("cpu", reference_cpu()), ("gpu", fake_backend())):
        fit(compile_net(backend), x, y, callbacks=[Look(key)])
    assert seen["cpu"] == seen["gpu"]


def test_logs_nobody_reads_are_not_waited_for():
    device = FakeDevice()
    x, y = make_data(20 * BATCH)

    class Silent(pt.Callback):
        def on_train_batch_end(self, batch, logs=None):
            pass

    fit(compile_net(fake_backend(device)), x, y, epochs=1, callbacks=[Silent()])
    graphs = [i for i, e in enumerate(device.log) if e[0] == "graph"]
    assert not any(e[0] == "download" for e in device.log[graphs[0] : graphs[-1]])


# ---------------------------------------------------------------- files


def test_trained_there_continued_here_and_back(tmp_path):
    """The file of a training on the device goes on, on the CPU, as if it had been there all along; and the reverse."""
    x, y = make_data(43)
    whole = compile_net(reference_cpu())
    fit(whole, x, y, epochs=4)
    for first, second in ((fake_backend(), reference_cpu()), (reference_cpu(), fake_backend())):
        begun = compile_net(first)
        begun.fit(x, y, batch_size=BATCH, epochs=2, verbose=0)
        path = tmp_path / f"{first.name[:4]}.h5"
        begun.save(path)
        with use_backend(second):
            again = pt.load_model(path)
            fit(again, x, y, epochs=4, initial_epoch=2, resume=False)
        assert_same_weights(whole, again)


def test_the_files_are_the_same(tmp_path):
    x, y = make_data(8 * BATCH)
    found = []
    for number, backend in enumerate((reference_cpu(), fake_backend())):
        model = compile_net(backend)
        fit(model, x, y)
        path = tmp_path / f"{number}.h5"
        model.save(path)
        found.append(pt.load_model(path))
    a, b = (dict(m.variables.items()) for m in found)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# ---------------------------------------------------------------- a loss that is not finite


def broken(at: int, count: int = 24):
    x, y = make_data(count * BATCH)
    x[at * BATCH + 1, 0, 2, 2] = 3e38  # its square is not finite
    return x, y


@pytest.mark.parametrize("at", [0, 1, 5, 13, 23])
def test_a_loss_that_is_not_finite_changes_no_weight(at):
    """The device finds it, no update counts from that step on, and the host says of which step and sample it was."""
    x, y = broken(at)
    told = []
    models = [compile_net(backend) for backend in (reference_cpu(), fake_backend())]
    for model in models:
        with pytest.raises(TrainingError) as failed:
            fit(model, x, y, shuffle=False)
        told.append(str(failed.value))
    assert told[0] == told[1]
    assert f"step {at + 1} of epoch 1" in told[1]
    weights = [{n: a for n, a in m.get_weights().items() if "moving" not in n} for m in models]
    for name in weights[0]:
        np.testing.assert_array_equal(weights[0][name], weights[1][name], err_msg=name)
    assert models[0].trainer.step == models[1].trainer.step


def test_it_is_told_within_a_few_steps():
    x, y = broken(1, 60)
    begun = []

    class Count(pt.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            begun.append(batch)

    with pytest.raises(TrainingError):
        fit(compile_net(fake_backend()), x, y, shuffle=False, callbacks=[Count()])
    assert len(begun) <= 2 + MAX_REPORT_LAG


def test_training_may_go_on_with_other_data():
    x, y = broken(2)
    model = compile_net(fake_backend())
    with pytest.raises(TrainingError):
        fit(model, x, y, shuffle=False)
    good_x, good_y = make_data(8 * BATCH)
    before = model.get_weights()
    fit(model, good_x, good_y)
    assert any(not np.array_equal(a, before[n]) for n, a in model.get_weights().items())


def test_the_check_of_the_loss():
    device = FakeDevice()
    block = device.upload(np.array([(1, 1, 0, 0.0, 0)], LossCheckState).view("uint8"))
    loss, apply = device.upload(np.float32(1.0)), device.upload(np.array(False))

    def read():
        return tuple(device.download(block).view(LossCheckState)[0].tolist())[:4]

    device.check_step(block, loss, None, None, None, None)
    assert read() == (1, 1, 1, 0.0)
    device.check_step(block, loss, apply, None, None, None)
    assert read() == (1, 0, 2, 0.0)  # good, but its updates do not count
    device.overwrite(loss, np.float32(np.inf))
    device.check_step(block, loss, None, None, None, None)
    assert read() == (0, 0, 2, np.inf)
    device.overwrite(loss, np.float32(2.0))
    device.check_step(block, loss, None, None, None, None)
    assert read() == (0, 0, 2, np.inf)  # what comes after does not count either


# ---------------------------------------------------------------- memory


def test_the_figure_of_the_plan_is_what_is_used():
    device = FakeDevice()
    backend = fake_backend(device)
    x, y = make_data(BATCH)
    model = compile_net(backend)
    fit(model, x, y, epochs=1)
    program = model.trainer.plan_cache
    runner = executor_of(model)
    plan = runner.plan
    read = [b for step in plan.steps for b in step.inputs]
    constants = {id(b.constant): b.spec.nbytes for b in read if b.memory == "constant"}
    states = sum(spec.nbytes for spec in plan.states.values())
    inputs = sum(-(-spec.nbytes // 64) * 64 for spec in plan.inputs.values())
    wanted = plan.arena_bytes + states + 2 * inputs + sum(constants.values()) + LossCheckState.itemsize
    wanted += ValueCheckState.itemsize + sum(b.spec.nbytes for _, b in plan.value_guard.checks)
    assert program.backend is backend
    assert device.used == wanted


def test_a_step_that_would_not_fit_is_refused_before_it_is_run():
    x, y = make_data(64)
    device = FakeDevice(memory=60_000)
    model = compile_net(fake_backend(device))
    with pytest.raises(ResourceError, match=r"at batch size 64 needs .* A batch of \d+ would fit") as refused:
        fit(model, x, y, batch_size=64)
    assert not any(e[0] == "run" for e in device.log)
    size = int(str(refused.value).split("A batch of ")[1].split()[0])
    fit(compile_net(fake_backend(FakeDevice(memory=60_000))), x, y, batch_size=size)


def test_memory_that_is_not_there_after_all():
    """Another process may take what the device said is free."""
    x, y = make_data(64)
    device = FakeDevice()
    model = compile_net(fake_backend(device))
    alloc = device.alloc

    def failing(nbytes):
        if nbytes > 10_000:
            device.memory = device.used + 20_000
            raise ResourceError("the GPU has no room")
        return alloc(nbytes)

    device.alloc = failing
    with pytest.raises(ResourceError, match=r"at batch size 64 needs .* are free. The largest layers: .* would fit"):
        fit(model, x, y, batch_size=64)


def test_memory_that_runs_out_inside_a_step_names_the_layer():
    backend = fake_backend()
    enqueue = backend.device.enqueue

    def failing(name, work):
        if name == "conv":
            raise MemoryError("Out of memory allocating 1,024 bytes")
        enqueue(name, work)

    backend.device.enqueue = failing
    x, y = make_data()
    message = r"conv in conv: Out of memory allocating 1,024 bytes; .* A batch of 2 needs about half"
    with pytest.raises(ResourceError, match=message):
        fit(compile_net(backend), x, y)


@pytest.mark.filterwarnings("ignore:data. all targets of:prototorch.data.checks.DataWarning")
def test_models_that_share_layers_train_each_other_on_the_device():
    """Each has its own arrays on the device: what one has changed is there before the other's next step."""
    x, y = make_data(8 * BATCH)
    found = []
    for backends in (
        (reference_cpu(), reference_cpu()),
        (fake_backend(), fake_backend()),
        (fake_backend(), reference_cpu()),
    ):
        first = compile_net(backends[0])
        fit(first, x, y)
        symbol = pt.Input(tuple(x.shape[1:]))
        second = pt.Model(symbol, pt.layers.Dense(2, name="other")(first(symbol)))
        with use_backend(backends[1]):
            second.compile(pt.optimizers.SGD(0.1), "mse")
        target = np.ones((len(x), 2), np.float32)
        predictions = []
        for _ in range(2):
            fit(second, x, target)
            predictions.append(first.predict(x))
            fit(first, x, y)
            predictions.append(second.predict(x))
        weights = second.get_weights()
        assert all(np.array_equal(weights[n], a) for n, a in first.get_weights().items())
        del first
        found.append([*predictions, second.predict(x), *weights.values()])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
