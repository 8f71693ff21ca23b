"""A step that would not fit in memory is refused before anything is run, with the numbers and a batch that would."""

import re

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends import host_memory
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.host_memory import free_bytes
from prototorch.errors import ResourceError, UsageError
from prototorch.train.memory_estimate import SCRATCH, bytes_by_layer, bytes_by_purpose, format_bytes
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN

MIB = 1 << 20
X, Y = np.random.default_rng(0).normal(size=(512, 64)).astype(np.float32), np.zeros(512, np.int64)
Y[1::2] = 1


def net(units=256):
    x = pt.Input((64,))
    y = pt.layers.Dense(units, activation="relu", name="wide")(x)
    model = pt.Model(x, pt.layers.Dense(2, name="out")(y), name="two")
    model.compile("adam", pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.fixture
def limit(monkeypatch):
    """Sets what is free, in bytes."""

    def to(count):
        monkeypatch.setattr(Backend, "free_bytes", lambda self: count)

    return to


def total(model, batch, phase=TRAIN):
    """Bytes for a step of a model whose weights are there, and nothing else."""
    program = model.trainer.plan_cache
    plan = program.plan(phase, model.input_specs(batch), create=False)
    found = bytes_by_purpose(plan, scratch=program.backend.scratch_bytes(plan.signatures()) or 0)
    return (
        found["both, sharing memory"]
        + found.get("kept between runs", 0)
        + found["inputs"]
        + found[SCRATCH]
        + (found["optimizer"] + 64 if phase == TRAIN else 64)
    )


def test_fit_is_refused_with_the_numbers_and_a_batch_that_fits(limit):
    model, hooks = net(), []
    model.build()
    limit(total(model, 64))  # a batch of 64 just fits
    seen = pt.callbacks.LambdaCallback(on_train_begin=lambda logs=None: hooks.append("begin"))
    with pytest.raises(ResourceError) as caught:
        model.fit(X, Y, batch_size=512, callbacks=[seen], verbose=0)
    text = str(caught.value)
    assert re.match(
        r"a training step of 'two' at batch size 512 needs [\d.]+ [KM]iB of memory \(activations and ", text
    )
    assert f"{format_bytes(total(model, 64))} are free" in text
    assert re.search(
        r"The largest layers: wide \(activations [\d.]+ [KM]iB, weights and optimiser 195.0 KiB\), out", text
    )
    assert text.endswith("A batch of 64 would fit")
    assert hooks == []
    assert not [name for name in model.variables if name.startswith(("optimizer:", "metric:"))]
    model.fit(X, Y, batch_size=64, verbose=0)


@pytest.mark.slow
def test_the_batch_that_is_named_does_fit_and_its_double_does_not(limit):
    least = total(net(), 1)  # kernels for few samples may work in more memory than those for some
    for free in (max(least, total(net(), n)) for n in (1, 7, 100, 300)):
        model = net()
        model.build()
        limit(free)
        with pytest.raises(ResourceError) as caught:
            model.fit(X, Y, batch_size=512, verbose=0)
        batch = int(re.search(r"A batch of (\d+) would fit", str(caught.value))[1])
        assert total(model, batch) <= free < total(model, 2 * batch)
        model.fit(X[:batch], Y[:batch], batch_size=batch, verbose=0)


def test_where_no_batch_fits(limit):
    model = net()
    model.build()
    limit(1000)
    with pytest.raises(ResourceError, match=r"1000 B are free\..*Not even a batch of 1 would fit"):
        model.fit(X, Y, verbose=0)


def test_weights_that_do_not_fit_are_not_made(limit):
    model = net(1 << 20)
    limit(100 * MIB)
    with pytest.raises(
        ResourceError,
        match=r"the weights of 'two' need 268.0 MiB of memory, 100.0 MiB are free. "
        r"The largest: wide/kernel \[64, 1048576\] \(256.0 MiB\)",
    ):
        model.fit(X, Y, verbose=0)
    assert not model.variables


@pytest.mark.parametrize("phase", [TEST, PREDICT])
def test_evaluation_and_prediction_are_refused_too(limit, phase):
    model = net()
    model.build()
    limit(total(model, 16, phase))
    with pytest.raises(ResourceError, match=r"(evaluation step|prediction) of 'two' at batch size 256 .* batch of 16 "):
        (model.predict(X, batch_size=256) if phase == PREDICT else model.evaluate(X, Y, batch_size=256))
    model.predict(X, batch_size=16)


def test_nothing_is_refused_where_nothing_tells(limit):
    limit(None)
    net().fit(X, Y, verbose=0)


def test_an_arena_that_is_there_is_not_counted_twice(limit):
    model = net()
    model.fit(X, Y, batch_size=256, verbose=0)
    kept = model.trainer.plan_cache.plan(TEST, model.input_specs(256)).persistent_bytes  # arranged weights
    limit(256 * 66 * 4 + kept + 4096)  # inputs and targets, no arena
    model.evaluate(X, Y, batch_size=256)


def test_weights_of_layers_with_slashes_in_their_names_are_theirs():
    x = pt.Input((4,))
    y = pt.layers.Dense(3, name="a")(x)
    model = pt.Model(x, pt.layers.Dense(5, name="a/b")(y))
    model.compile("sgd", "mse")
    program = model.trainer.plan_cache
    found = bytes_by_layer(model.net, program.plan(TRAIN, model.input_specs(2)))
    assert found["a"][1] == 4 * (4 * 3 + 3)
    assert found["a/b"][1] == 4 * (3 * 5 + 5)


# ---------------------------------------------------------------- what is free


def machine(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return free_bytes(tmp_path)


MEMINFO = {"proc/meminfo": "MemTotal:       4000 kB\nMemAvailable:   3000 kB\n"}


def test_what_the_kernel_says(tmp_path, monkeypatch):
    monkeypatch.delenv(host_memory.ENV_VAR, raising=False)
    assert machine(tmp_path, MEMINFO) == 3000 << 10


def test_a_container_has_its_own_limit(tmp_path, monkeypatch):
    monkeypatch.delenv(host_memory.ENV_VAR, raising=False)
    group = {
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/memory.max": "1000000\n",
        "sys/fs/cgroup/a/memory.current": "600000\n",
        "sys/fs/cgroup/a/memory.stat": "anon 500000\ninactive_file 50000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.current": "600000\n",
    }
    assert machine(tmp_path, {**MEMINFO, **group}) == 450_000


def test_an_older_container_too(tmp_path, monkeypatch):
    monkeypatch.delenv(host_memory.ENV_VAR, raising=False)
    group = {
        "proc/self/cgroup": "5:cpu:/x\n4:memory:/x\n",
        "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1000000",
        "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1200000",
        "sys/fs/cgroup/memory/x/memory.stat": "total_inactive_file 100000",
    }
    assert machine(tmp_path, {**MEMINFO, **group}) == 0


def test_a_limit_on_the_address_space(tmp_path, monkeypatch):
    monkeypatch.delenv(host_memory.ENV_VAR, raising=False)
    files = {
        "proc/self/limits": "Max address space         2000000              unlimited            bytes\n",
        "proc/self/statm": "0 0 0",
    }
    assert machine(tmp_path, {**MEMINFO, **files}) == 2_000_000


@pytest.mark.parametrize(("said", "found"), [("12", 12), ("3 KiB", 3072), ("1.5g", 3 << 29), ("unlimited", None)])
def test_a_variable_takes_the_place_of_all(tmp_path, monkeypatch, said, found):
    monkeypatch.setenv(host_memory.ENV_VAR, said)
    assert machine(tmp_path, MEMINFO) == found


def test_a_variable_that_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(host_memory.ENV_VAR, "much")
    with pytest.raises(UsageError, match="PROTOTORCH_MEMORY is 'much'; it must be a size such as 12GiB"):
        machine(tmp_path, MEMINFO)


def test_this_machine_has_memory(monkeypatch):
    monkeypatch.delenv(host_memory.ENV_VAR, raising=False)
    found = free_bytes()
    assert found is None or found > 0


def test_sizes_as_words():
    assert [format_bytes(n) for n in (12, 3482, 5 * MIB, 3 << 29, 1 << 41)] == [
        "12 B", "3.4 KiB", "5.0 MiB", "1.5 GiB", "2.0 TiB"
    ]  # fmt: skip
