"""Profiles and the sanitizer's log: kernels find their launch, gaps and rates are counted, errors are told apart."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from benchmarks.device import sanitize
from benchmarks.device.kernel_trace import (
    Replay,
    TracedKernel,
    label_kernels,
    median_replay,
    read_events,
    read_kernels,
    split_replays,
    transfer_labels,
)
from benchmarks.device.part_list import SAMPLES
from benchmarks.device.profile_tables import PredictedLaunch, profile_lines

SAMPLE = SAMPLES / "profile"


def kernel(name, start, duration, correlation=1, label=""):
    return TracedKernel(name, start, duration, correlation, label)


def test_kernels_have_the_launch_that_started_them():
    labelled = label_kernels(read_events(SAMPLE / "launches.json"))
    assert [(k.name[:10], k.label) for k in labelled] == [
        ("pad_input", "0 forward conv stage1/conv1"), ("void cutla", "0 forward conv stage1/conv1"),
        ("stats_last", "1 forward batch_norm stage1/norm1"), ("normalise", "1 forward batch_norm stage1/norm1"),
        ("void cutla", "2 forward conv stage1/conv2"), ("updates", "3 update momentum_update all weights"),
    ]  # fmt: skip


def test_without_the_calls_of_cuda_the_time_tells():
    events = [e for e in read_events(SAMPLE / "launches.json") if not e["cat"].startswith("cuda_")]
    assert [k.label for k in label_kernels(events)] == [
        k.label for k in label_kernels(read_events(SAMPLE / "launches.json"))
    ]


def test_each_replay_of_a_graph_is_one_launch():
    kernels = read_kernels(read_events(SAMPLE / "replays.json"))
    replays = split_replays(kernels, 5)
    assert [len(r.kernels) for r in replays] == [6] * 5
    same_id = [TracedKernel(k.name, k.start, k.duration, 0) for k in kernels]
    assert [len(r.kernels) for r in split_replays(same_id, 5)] == [6] * 5
    assert split_replays([], 5) == []
    chosen = median_replay(replays)
    assert sorted(r.span for r in replays)[2] == chosen.span


def test_the_second_kernel_of_a_name_has_the_second_label():
    labelled = [kernel("gemm", 0, 1, label="a"), kernel("pad", 1, 1, label="b"), kernel("gemm", 2, 1, label="b")]
    replay = Replay([kernel("gemm", 0, 1), kernel("pad", 2, 1), kernel("gemm", 3, 1), kernel("other", 9, 1)])
    assert [k.label for k in transfer_labels(replay, labelled).kernels] == ["a", "b", "b", ""]


def test_kernels_side_by_side_leave_no_gap():
    replay = Replay([kernel("a", 0, 10), kernel("b", 2, 3), kernel("c", 12, 5)])
    assert replay.gaps() == [2]
    assert (replay.span, replay.busy) == (17, 15)


def test_the_tables():
    rows = json.loads((SAMPLE / "predictions.json").read_text())
    predictions = {label: PredictedLaunch(*row) for label, row in rows.items()}
    labelled = label_kernels(read_events(SAMPLE / "launches.json"))
    replay = median_replay(split_replays(read_kernels(read_events(SAMPLE / "replays.json")), 5))
    lines = list(profile_lines("ResNet", transfer_labels(replay, labelled), predictions))
    assert lines[0].startswith("ResNet: 179 us for 6 kernels of which 149 us are busy; gaps 30 us")
    assert "1 longer than 20 us (25 us)" in lines[0]
    gemm = next(line for line in lines if "cutlass" in line).split(" | ")
    assert gemm[1:5] == ["forward conv: stage1/conv1, stage1/conv2", "2", "99.0", "66.3%"]
    # 100 MB and 32 GFLOP of both convolutions in the 102.6 us of all their kernels
    assert gemm[5:] == ["75.0", "975", "312 |"]
    far = lines[lines.index(next(line for line in lines if line.startswith("| furthest"))) + 2 :]
    assert [line.split(" | ")[0] for line in far] == ["| forward conv stage1/conv1"], "the others are not above it"
    assert far[0].split(" | ")[3] == "2.4"


def test_kernels_of_no_known_launch_are_named():
    (first, second, *_) = profile_lines("t", Replay([kernel("strange", 0, 10)]), {})
    assert first.startswith("t: 10 us for 1 kernels")
    assert second == "of no known launch: 1 kernels, 10 us: strange"


def test_a_log_of_the_sanitizer():
    counts, summaries = sanitize.read_findings((SAMPLES / "memcheck.log").read_text())
    assert counts == Counter({"Invalid __global__ write of size 4 bytes in max_pool": 2})
    assert summaries == ["ERROR SUMMARY: 3 errors"]


@pytest.mark.parametrize(("log", "kind"), [
    ("========= Uninitialized __global__ memory read of size 4 bytes\n=========     at 0x2f0 in softmax(float*)\n",
     "Uninitialized __global__ memory read of size 4 bytes in softmax"),
    ("========= Error: Race reported between Write access at sum+0x1f0\n=========     and Read access at sum+0x200 [4]",
     "Error: Race reported between Write access at sum+0x..."),
    ("========= Invalid __shared__ read of size 2 bytes\n=========     at void add<float>(int)+0x90\n",
     "Invalid __shared__ read of size 2 bytes in add"),
])  # fmt: skip
def test_each_tool_has_its_words(log, kind):
    assert list(sanitize.read_findings(log)[0]) == [kind]


def test_a_log_without_findings():
    counts, summaries = sanitize.read_findings("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")
    assert not counts
    assert summaries == ["ERROR SUMMARY: 0 errors"]


def test_the_sanitizer_is_asked_for_a_spread(tmp_path, capsys, monkeypatch):
    words = sanitize.sanitizer_command("memcheck", 100, tmp_path)
    assert words[words.index("--tool") + 1] == "memcheck"
    assert words[-2:] == ["--spread", "100"]
    monkeypatch.setattr(sanitize.shutil, "which", lambda name: None)
    assert sanitize.main(["memcheck", "100", str(tmp_path)]) == 3
    assert "is not installed" in capsys.readouterr().out


def test_launches_find_their_prediction(monkeypatch):
    """By op, layer and phase, in their order; the executor's own launches by their op."""
    gpu_profile = pytest.importorskip(
        "benchmarks.gpu_profile", reason="predictions need ml_dtypes", exc_type=ImportError
    )

    def part(op, layer, phase, seconds, kernel="cudnn"):
        step = SimpleNamespace(op=op, layer=layer, phase=phase, kernel=kernel)
        return SimpleNamespace(step=step, sober_seconds=seconds, nbytes=8.0, launches=[SimpleNamespace(flops=2)])

    parts = [
        part("conv", "a", "forward", 1.0),
        part("conv", "a", "forward", 2.0),
        part("conv", "b", "forward", 3.0),
        part("updates", "updates", "update", 4.0, "device"),
        part("new states", "new states", "update", 5.0, "device"),
    ]
    monkeypatch.setattr(gpu_profile, "predict", lambda *row: SimpleNamespace(steps=parts))
    records = [SimpleNamespace(op=op, scope=scope, phase=phase) for op, scope, phase in (
        ("conv", "b", "forward"), ("conv", "a", "forward"), ("conv", "a", "forward"), ("pool", "c", "forward"),
        ("updates", "all weights", "update"), ("copy", "new states", "update"),
    )]  # fmt: skip
    found = gpu_profile.predict_launches(records, "resnet50", "bf16", 256, "H100")
    assert [p.seconds for p in found.values()] == [3.0, 1.0, 2.0, 0.0, 4.0, 5.0]
    assert next(iter(found)) == "0 forward conv b"
