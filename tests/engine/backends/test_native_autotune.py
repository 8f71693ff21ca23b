"""Kernels chosen by timing. What is measured here is faked: no test depends on time."""

import numpy as np
import pytest

import prototorch as pt
from prototorch import layers as L
from prototorch.engine.backends.cpu import cpu, native
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from prototorch.train.step_inputs import PREDICT, TRAIN

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")
if native.unavailable_reason() is None:
    from prototorch.engine.backends import user_cache
    from prototorch.engine.backends.cpu.native import autotune, kernel_cache

X = np.random.default_rng(0).standard_normal((4, 16, 12, 12), dtype=np.float32)
Y = np.arange(4) % 3
CONV = {"strides": (1, 1), "pads": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
LAST = Spec((4, 16, 12, 12), "float32", "channels_last")
STEP = OPS["conv"], (LAST, Spec((16, 16, 3, 3))), (LAST,), CONV


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    monkeypatch.setenv("PROTOTORCH_CPU", "native")
    autotune.clear_memory()
    yield
    autotune.clear_memory()


@pytest.fixture
def winner(monkeypatch):
    """Lets the candidate win whose name contains a word, or the n-th; counts how often it was measured."""
    calls = []

    def to(word):
        def measured(candidates, ins, outs):
            calls.append(list(candidates))
            return next((name for name in candidates if word in name), next(iter(candidates)))

        monkeypatch.setattr(autotune, "_measure", measured)
        return calls

    return to


def net(**more):
    model = pt.Sequential([
        pt.Input((16, 12, 12)), L.Conv2D(32, 3, padding="same", activation="relu"), L.Conv2D(16, 5), L.Flatten(),
        L.Dense(3),
    ])  # fmt: skip
    model.compile("sgd", pt.losses.SparseCategoricalCrossentropy(from_logits=True), **more)
    model.build()
    return model


def files():
    return sorted(user_cache.usable_folder().path.glob("*.fastest"))


def test_nothing_is_measured_unasked(winner):
    calls = winner("")
    net().predict(X)
    assert not calls
    assert not files()


@pytest.mark.parametrize("word", ["winograd", "native", "smaller", "measured"])
def test_the_fastest_is_taken_whichever_it_is_and_computes_the_same(winner, word):
    calls = winner(word)
    model, other = net(autotune=True), net()
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-3, atol=1e-4)  # Winograd rounds more
    for one in (model, other):
        one.fit(X, Y, batch_size=4, epochs=2, verbose=0)
    for name, array in other.get_weights().items():
        np.testing.assert_allclose(model.weights[name], array, rtol=1e-3, atol=1e-4, err_msg=name)
    assert calls
    chosen = {s.level for phase in (TRAIN, PREDICT) for s in choices(model, phase)}
    assert word in chosen or not any(word in name for names in calls for name in names)


def choices(model, phase):
    program = model.trainer.plan_cache
    return [
        program.backend.choose_kernel(*said)
        for said in program.plan(phase, model.input_specs(4), create=False).signatures()
    ]


def test_a_choice_is_kept_on_disk_and_measured_once(winner):
    calls = winner("native")
    backend = cpu("native", autotune=True)
    assert backend.choose_kernel(*STEP).level == "native"
    backend.prepare(*STEP)
    assert len(calls) == 1
    assert len(files()) == 1
    autotune.clear_memory()  # as another process
    winner("winograd")
    assert backend.choose_kernel(*STEP).level == "native"
    assert len(calls) == 1


def test_the_process_that_is_first_decides(winner, monkeypatch):
    winner("native")
    backend = cpu("native", autotune=True)

    def beside(candidates, ins, outs):  # another process ends while this one measures
        winner("native")
        autotune._store_choice(*waiting)
        return next(name for name in candidates if "winograd" in name)

    backend.choose_kernel(*STEP)
    (path,) = files()
    waiting = bytes.fromhex(path.stem), path.read_bytes()[32:].decode()
    path.unlink()
    autotune.clear_memory()
    monkeypatch.setattr(autotune, "_measure", beside)
    assert backend.choose_kernel(*STEP).level == "native"


@pytest.mark.parametrize("content", [b"", b"winograd/winograd/0\n", b"\xff\xfe", b"nobody\n0000"])
def test_a_file_that_is_not_whole_is_none(winner, content):
    calls = winner("native")
    backend = cpu("native", autotune=True)
    backend.choose_kernel(*STEP)
    (path,) = files()
    whole = path.read_bytes()
    path.write_bytes(content)
    autotune.clear_memory()
    assert backend.choose_kernel(*STEP).level == "native"
    assert len(calls) == 2
    assert path.read_bytes() == whole


def test_other_threads_are_another_choice(winner):
    calls = winner("native")
    backend = cpu("native", autotune=True)
    for threads in (1, 2):
        backend.threads = threads
        backend.choose_kernel(*STEP)
    assert len(calls) == 2


def test_where_nothing_is_kept_the_process_remembers(winner, monkeypatch):
    monkeypatch.setenv("PROTOTORCH_CACHE", "")
    calls = winner("native")
    backend = cpu("native", autotune=True)
    backend.choose_kernel(*STEP), backend.choose_kernel(*STEP)
    assert len(calls) == 1


def test_without_the_memory_to_try_it_is_the_first(monkeypatch):
    def fail(*args):
        raise MemoryError

    monkeypatch.setattr(autotune, "_measure", fail)
    assert cpu("native", autotune=True).choose_kernel(*STEP) == cpu("native").choose_kernel(*STEP)
    assert not files()


def test_fp32_leaves_out_what_rounds_more(winner):
    calls = winner("measured")
    cpu("native", strict=True, autotune=True).choose_kernel(*STEP)
    assert not any("winograd" in name for names in calls for name in names)


def test_a_measurement_runs_each_candidate_and_names_one():
    backend = cpu("native", autotune=True)
    assert backend.choose_kernel(*STEP).level in ("winograd", "native", "smaller", "measured")
    held = files()
    assert len(held) == 1
    assert kernel_cache.clear() >= 0
    assert not files()


def test_the_first_is_left_for_a_clearly_faster_one_alone(monkeypatch):
    spent = {"a": 1.0, "b": 0.98, "c": 0.5}
    monkeypatch.setattr(autotune, "_seconds_per_run", lambda run, times: run())

    def among(names):
        return autotune._measure({n: lambda i, o, n=n: lambda: spent[n] for n in names}, (), ())

    assert among("ab") == "a"
    assert among("abc") == "c"
