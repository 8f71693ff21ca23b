"""The choice among cuDNN's plans: timed on a warm card with ordinary data, kept on disk, and nothing left behind."""

from __future__ import annotations

import ctypes
import json
import logging
import threading
import weakref

import numpy as np
import pytest

from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.cudnn import candidate_timer
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc
from prototorch.cuda.cudnn.trial_data import PERIOD, make_trial_arrays
from prototorch.cuda.fake_device import FakeDevice
from prototorch.engine.backends.precision import numpy_dtype
from prototorch.ops.conv import conv as conv_op
from prototorch.spec import Spec
from tests.cuda.offline.clocked_device import ClockedDevice, FakeCudnn

X = TensorDesc((2, 3, 8, 8), (192, 64, 8, 1), "float32")
W = TensorDesc((4, 3, 3, 3), (27, 9, 3, 1), "float32")
Y = TensorDesc((2, 4, 6, 6), (144, 36, 6, 1), "float32")
WINDOW = (("strides", (1, 1)), ("pads", ((0, 0), (0, 0))), ("dilation", (1, 1)))
CONV = GraphDesc("conv", (("x", X), ("w", W), ("y", Y)), ("y",), WINDOW)
SLOW, FAST = ("slow", 2.0, 1024), ("fast", 1.0, 512)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path))
    return tmp_path


def cudnn(*plans, device=None, **options):
    return FakeCudnn(device or ClockedDevice(), plans, **options)


def chosen(library, desc=CONV, **options):
    plan = library.context.get_plan(desc, **options)
    return library.plans[plan.graph.candidate][0]


def stored(cache):
    (file,) = (cache / "kernels").glob("*.json")
    return file.name, json.loads(file.read_bytes()[32:])


def test_without_autotune_the_first_that_works():
    library = cudnn(SLOW, FAST, device=ClockedDevice(autotune=False))
    assert chosen(library) == "slow"
    assert not library.executed


def test_the_fastest_is_chosen_and_found_again(cache):
    library = cudnn(("unbuildable", 0.1, None), SLOW, FAST, ("broken", None, 0))
    assert chosen(library) == "fast"
    again = cudnn(FAST, SLOW)
    assert chosen(again) == "fast", "found by its name, wherever it ranks now"
    assert not again.executed
    name, choices = stored(cache)
    assert name == "cudnn-fake-sm90-91900-1.28.0.json"
    (key,) = choices
    assert "tf32 deterministic=False workspace=1073741824" in key


@pytest.mark.parametrize("change", ["precision", "version", "capability"])
def test_a_choice_holds_for_its_precision_version_and_device(change):
    chosen(cudnn(SLOW, FAST))
    device = ClockedDevice(precision="fp32" if change == "precision" else "tf32")
    if change == "capability":
        device.capability = (10, 0)
    again = cudnn(SLOW, FAST, device=device, version=92800 if change == "version" else 91900)
    chosen(again)
    assert again.executed


def test_a_plan_that_is_gone_is_timed_anew():
    chosen(cudnn(SLOW, FAST))
    again = cudnn(SLOW)
    assert chosen(again) == "slow"
    assert again.executed


def test_a_damaged_file_is_replaced(cache):
    chosen(cudnn(SLOW, FAST))
    (file,) = (cache / "kernels").glob("*.json")
    file.write_text("no json", encoding="utf-8")
    assert chosen(cudnn(SLOW, FAST)) == "fast"


def test_choices_of_two_processes_are_both_kept(cache):
    """Each has read the file before the other wrote."""
    one, two = cudnn(SLOW, FAST), cudnn(SLOW, FAST)
    other = GraphDesc("conv", (("x", X), ("w", W), ("y", Y)), ("y",), (*WINDOW, ("relu", False)))
    assert one.context.autotuner.fastest_plans == two.context.autotuner.fastest_plans == {}
    chosen(one)
    chosen(two, other)
    assert len(stored(cache)[1]) == 2


def test_a_folder_that_cannot_be_written_to(monkeypatch, tmp_path):
    """The choice is made all the same."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("PROTOTORCH_CACHE", str(tmp_path / "file"))
    assert chosen(cudnn(SLOW, FAST)) == "fast"


def test_a_cold_card_is_warmed_up_before_it_is_timed():
    """The first candidate is not at a disadvantage for being timed while the clock rises."""
    device = ClockedDevice(cold_ms=25.0)
    assert chosen(cudnn(("first", 1.0, 0), ("second", 1.0, 0), device=device)) == "first"
    assert device.now > candidate_timer.WARM_UP_MS


def test_warming_up_is_bounded():
    """Also where two medians never agree."""
    times = iter(range(1, 10**6))
    library = cudnn(("restless", lambda: next(times) * 0.5, 0), ("other", 10.0**6, 0))
    chosen(library)
    assert len(library.executed) < 100 + candidate_timer.MAX_ROUNDS * candidate_timer.MAX_REPEATS


def test_a_card_stays_warm_between_graphs():
    library = cudnn(SLOW, FAST)
    chosen(library)
    before = library.device.now
    chosen(library, GraphDesc("conv", (("x", X), ("w", W), ("y", Y)), ("y",), (*WINDOW, ("relu", False))))
    assert library.device.now - before < candidate_timer.WARM_UP_MS


def test_cudnns_first_choice_is_kept_unless_another_is_clearly_faster():
    assert chosen(cudnn(("first", 1.0, 0), ("second", 0.98, 0))) == "first"


def test_a_disturbed_measurement_is_repeated_and_does_not_decide():
    """Another process slows down every third run of the faster plan by far."""
    runs = iter(range(10**6))
    library = cudnn(("first", 1.0, 0), ("second", lambda: 30.0 if next(runs) % 3 == 2 else 0.5, 0))
    assert chosen(library) == "second"


def test_short_kernels_are_timed_in_a_graph_of_several_runs():
    device = ClockedDevice()
    chosen(cudnn(("first", 0.01, 0), ("second", 0.006, 0), device=device))
    captured = [entry[1] for entry in device.log if entry[0] == "end_capture"]
    assert captured == [candidate_timer.MAX_REPEATS, candidate_timer.MAX_REPEATS]


def test_plans_that_cannot_be_captured_are_timed_all_the_same():
    device = ClockedDevice()
    device.uncapturable_ops = {"conv"}
    assert chosen(cudnn(SLOW, FAST, device=device)) == "fast"


def test_the_memory_of_a_measurement_is_given_back():
    """Neither the tensors nor the workspace of the largest candidate stay; the chosen plan's workspace alone counts."""
    freed = []

    class Device(ClockedDevice):
        def alloc(self, nbytes):
            array = super().alloc(nbytes)
            freed.append(nbytes)
            weakref.finalize(array.base, freed.remove, nbytes)
            return array

    library = cudnn(("greedy", 2.0, 1 << 20), ("fast", 1.0, 512), device=Device())
    plan = library.context.get_plan(CONV)
    assert plan.workspace == 512
    assert freed == []
    assert library.device._workspace_bytes == 0, "a measurement reserves nothing for later kernels"
    assert library.graphs[-1].built == {1}, "the other candidates are not kept loaded"


def test_one_that_needs_too_much_memory_is_not_measured(caplog):
    with caplog.at_level(logging.WARNING):
        assert chosen(cudnn(SLOW, FAST, device=ClockedDevice(memory=1000))) == "slow"
    assert "not enough memory" in caplog.text


def test_where_nothing_can_be_timed_cudnn_decides(caplog):
    with caplog.at_level(logging.WARNING):
        assert chosen(cudnn(("broken", None, 0))) == "broken"
    assert "none of its 1 plans can be executed" in caplog.text


def test_data_are_finite_and_seeded_and_of_the_tensors_dtype():
    seen = []

    def look(addresses):
        x, w = (
            np.ctypeslib.as_array((ctypes.c_float * t.size).from_address(addresses[uid])) for uid, t in ((1, X), (2, W))
        )
        seen.append((x.copy(), w.copy()))

    for _ in range(2):
        library = cudnn(SLOW, FAST, seen=look)
        library.context.autotuner.__dict__["fastest_plans"] = {}
        chosen(library)
    (x, w), (again, _) = seen[0], seen[-1]
    assert np.isfinite(x).all()
    assert 0.8 < x.std() < 1.2
    assert not np.array_equal(x[: w.size], w)
    np.testing.assert_array_equal(x, again)


def test_large_tensors_repeat_a_pattern_of_prime_length():
    device = FakeDevice()
    desc = GraphDesc("conv", (("x", TensorDesc((3_000_000,), (1,), "bfloat16")),), ())
    (array,) = make_trial_arrays(device, desc).values()
    values = device.download(array).view(numpy_dtype("bfloat16")).astype(np.float32)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values[:PERIOD], values[PERIOD : 2 * PERIOD])
    np.testing.assert_array_equal(values[2 * PERIOD :], values[: 3_000_000 - 2 * PERIOD])


def test_the_statistics_of_attention_fit_its_scores():
    """exp(score - statistic) sums to about 1 over a row, so that no gradient overflows."""
    heads = TensorDesc((1, 2, 64, 32), (4096, 2048, 32, 1), "float32")
    stats, mask = TensorDesc((1, 2, 64, 1), (128, 64, 1, 1), "float32"), TensorDesc((4,), (1,), "bool")
    lengths = TensorDesc((1,), (1,), "int32")
    tensors = (("q", heads), ("k", heads), ("stats", stats), ("mask", mask), ("lengths", lengths))
    desc = GraphDesc("sdpa_backward", tensors, (), (("scale", 32**-0.5),))
    device = FakeDevice()
    arrays = {name: device.download(array) for name, array in make_trial_arrays(device, desc).items()}
    q, k = (arrays[name].view("float32").reshape(heads.dims) for name in "qk")
    scores = q @ k.swapaxes(-1, -2) * 32**-0.5
    rows = np.exp(scores - arrays["stats"].view("float32").reshape(stats.dims)).sum(-1)
    assert 0.3 < rows.mean() < 3
    assert arrays["mask"].all()
    assert not arrays["lengths"].any()


def conv_specs():
    return (Spec((2, 3, 8, 8)), Spec((4, 3, 3, 3))), (Spec((2, 4, 6, 6)),), dict(WINDOW)


def test_nothing_is_measured_while_only_asked():
    """A summary asks for kernels and their memory; a step that is prepared measures."""
    library = cudnn(SLOW, FAST)
    backend = CudaBackend(library.device)
    ins, outs, attrs = conv_specs()
    assert backend.choose_kernel(conv_op, ins, outs, attrs) == ("cuda", "cudnn")
    assert backend.has_kernel(conv_op, ins, outs, attrs)
    assert backend.scratch_bytes([(conv_op, ins, outs, attrs)]) == 1024
    assert not library.executed
    assert not [entry for entry in library.device.log if entry[0] == "alloc"]
    backend.prepare(conv_op, ins, outs, attrs)
    assert library.executed
    assert backend.scratch_bytes([(conv_op, ins, outs, attrs)]) == 512, "of the plan that was chosen"


def test_the_choice_of_an_earlier_process_is_used_while_only_asked():
    chosen(cudnn(SLOW, FAST))
    again = cudnn(SLOW, FAST)
    assert chosen(again, may_measure=False) == "fast"
    assert not again.executed


def test_the_file_is_whole_while_several_write():
    libraries = [cudnn(SLOW, FAST) for _ in range(4)]
    threads = [
        threading.Thread(target=lib.context.autotuner._save, args=(f"{k}/{i}", "name"))
        for k, lib in enumerate(libraries)
        for i in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cudnn(SLOW).context.autotuner.fastest_plans
