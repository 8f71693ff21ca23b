"""The GPU's table: its lines, and that a cell that fails is said and does not stop the others."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch", reason="the table compares with PyTorch")
pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

import torch

from benchmarks import gpu, gpu_cell, gpu_checks, isolated_process
from benchmarks.workloads import WORKLOADS
from prototorch.backends.core import KernelChoice
from prototorch.backends.cuda.backend import CudaBackend
from tests.cuda_fake.fake_cuda import use_fake_cuda


def test_a_line():
    found = {
        "seconds": {"prototorch": 0.01, "fed": 0.02, "torch eager": 0.05, "torch graph": 0.02},
        "bytes": {"prototorch": 2**20, "torch graph": 3 * 2**20},
        "remarks": ["a | b"],
    }
    line = gpu.format_row("alexnet", "train", "bf16", 256, found)
    assert line == (
        "| alexnet | train | bf16 | 256 | 25,600 | 12,800 | 12,800 (graph) | 2.00 | 1.2 yes | 1 | 3 "
        "| eager 5,120; a / b |"
    )


def test_a_cell_that_failed():
    line = gpu.format_row("lenet", "train", "bf16", 1, {"remarks": ["the process ended with 1"]})
    assert "| failed |" in line
    assert "the process ended with 1" in line


def test_the_page_has_a_column_for_each_cell():
    page = gpu.format_page([gpu.format_row("lenet", "train", "bf16", 1, {})], ["a note"], 7)
    rows = [row for row in page.splitlines() if row.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    assert page.rstrip().endswith("* a note")


def test_a_process_is_ended_with_what_it_started():
    """Also where a child of its holds the output open."""
    begun = time.perf_counter()
    code = "import subprocess, sys; print('said', flush=True); subprocess.run(['sleep', '60'])"
    ended = isolated_process.run_isolated([sys.executable, "-c", code], 2)
    assert (ended.code, ended.out) == (None, "said\n")
    left = "import subprocess, sys; subprocess.Popen(['sleep', '60']); sys.exit(3)"
    assert isolated_process.run_isolated([sys.executable, "-c", left], 60).code == 3
    assert time.perf_counter() - begun < 50


def test_a_cell_that_is_ended_keeps_what_it_told(monkeypatch):
    args = gpu._parser().parse_args([])
    args.modes = ()
    told = gpu.MARK + '{"seconds": {"prototorch": 1.0}, "bytes": {}, "remarks": []}'
    monkeypatch.setattr(gpu, "run_isolated", lambda command, limit: isolated_process.ProcessResult(None, told, ""))
    found = gpu.run_cell(args, "lenet", "train", "bf16", 1, 5)
    assert found == {"seconds": {"prototorch": 1.0}, "bytes": {}, "remarks": ["not done within 5 s"]}
    monkeypatch.setattr(
        gpu, "run_isolated", lambda command, limit: isolated_process.ProcessResult(1, "", "Trace\nno driver")
    )
    assert gpu.run_cell(args, "lenet", "train", "bf16", 1, 5)["remarks"] == ["the process ended with 1: no driver"]


def test_lines_of_an_earlier_call_stay(monkeypatch, tmp_path):
    """All that one call measures is added to the day's table; a cell that is measured again is replaced."""
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu, "describe_versions", lambda: "")
    seconds = iter((1.0, 2.0, 4.0))
    monkeypatch.setattr(gpu, "run_cell", lambda *_: {"seconds": {"prototorch": next(seconds)}})
    for net in ("lenet", "alexnet", "lenet"):
        gpu.main(["--nets", net, "--precisions", "bf16", "--batches", "8", "--what", "train"])
    (page,) = tmp_path.iterdir()
    rows = [r for r in page.read_text(encoding="utf-8").splitlines() if "| train |" in r]
    assert [r[:36] for r in rows] == ["| lenet | train | bf16 | 8 | 2 |  | ", "| alexnet | train | bf16 | 8 | 4 |  "]


def test_each_first_check_has_a_process_of_its_own(monkeypatch, tmp_path):
    """One that dies, and one that says nothing in time, do not keep the others from running; all is written down."""
    ends = {
        "calls": isolated_process.ProcessResult(-9, "one\n", "Segmentation fault"),
        "properties": isolated_process.ProcessResult(None, "", ""),
        "libraries": isolated_process.ProcessResult(0, f"a\n{gpu_checks.VERDICT}PASS\n", ""),
    }
    monkeypatch.setattr(gpu_checks, "run_isolated", lambda command, limit: ends[command[-1]])
    assert gpu_checks.first_checks(tmp_path, "versions", tuple(ends)) == 2
    (page,) = tmp_path.iterdir()
    text = page.read_text(encoding="utf-8")
    assert "**FAIL: the process ended with -9: Segmentation fault**" in text
    assert "**FAIL: the process not done within" in text
    assert "**PASS**" in text
    assert gpu_checks.first_checks(tmp_path, "versions", ("calls",), budget=-1) == 0
    assert "left out" in page.read_text(encoding="utf-8")


def test_a_check_tells_its_verdict(monkeypatch, tmp_path, capsys):
    def calls(say, folder):
        say("two\nlines")
        raise ValueError("no\ngood")

    monkeypatch.setattr(gpu_checks, "CHECKS", (calls,))
    assert gpu_checks.one_check("calls", tmp_path) == 1
    assert capsys.readouterr().out == "two lines\nVERDICT FAIL: ValueError: no good\n"


def test_every_check_says_what_it_is():
    found = [int((c.__doc__ or "0.").split(".", 1)[0]) for c in gpu_checks.CHECKS]
    assert found == list(range(1, len(found) + 1))


class Stream:
    """As much of CuPy's as the check of NCCL uses."""

    ptr = 0

    def __init__(self, non_blocking: bool = False):
        assert non_blocking

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def begin_capture(self):
        pass

    def end_capture(self):
        return SimpleNamespace(launch=lambda stream: None)


def libraries():
    """CuPy and cuDNN as far as the checks call them beside the backend."""
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None)
    nccl = SimpleNamespace(
        NcclCommunicator=lambda *_: SimpleNamespace(allReduce=lambda *_: None), get_unique_id=lambda: b"",
        NCCL_FLOAT32=7, NCCL_SUM=0,
    )  # fmt: skip

    class Array(np.ndarray):
        data = SimpleNamespace(ptr=0)

    cupy = SimpleNamespace(
        asarray=np.asarray, matmul=np.matmul, arange=lambda *a, **k: np.arange(*a, **k).view(Array), asnumpy=np.asarray,
        float32=np.float32,
        cuda=SimpleNamespace(Event=lambda: event, Stream=Stream, get_elapsed_time=lambda a, b: 1.0, nccl=nccl),
    )  # fmt: skip
    properties = SimpleNamespace(serialize=lambda: '{"deviceName": "stand-in"}')
    return {
        "cupy": cupy,
        "cupy.cuda.nccl": nccl,
        "cudnn": SimpleNamespace(create_device_properties=lambda _: properties),
    }


def once(steps, rounds, least):
    """Each step once: the fake device does nothing before it must, so that its times say nothing."""
    for step, wait in steps.values():
        step()
        wait()
    return dict.fromkeys(steps, 1e-3)


@pytest.fixture
def small(monkeypatch):
    """Sizes that the CPU does at once, and PyTorch's figures of a GPU."""
    for module in (gpu_cell, gpu_checks):
        monkeypatch.setattr(module, "find_workload", lambda name: WORKLOADS["lenet"])
    monkeypatch.setattr(gpu_checks, "CAPTURED_NETS", (("lenet", 2, 5),))
    monkeypatch.setattr(gpu_checks, "MATMUL_CASES", ((3, 4, 5, {}), (3, 4, 5, {"transpose_b": True})))
    monkeypatch.setattr(gpu_checks, "CONV_LAYERS", (("conv", (2, 3, 8, 8), (4, 3, 3, 3), 1, 1, 1),))
    monkeypatch.setattr(gpu_checks, "BATCH", 2)
    monkeypatch.setattr(gpu_cell, "time_steps", once)
    for name, value in {"synchronize": None, "mem_get_info": (1 << 30, 1 << 31), "reset_peak_memory_stats": None,
                        "memory_allocated": 0, "max_memory_allocated": 5}.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    # what runs by reference implementations here would run by kernels
    monkeypatch.setattr(CudaBackend, "choose_kernel", lambda *_: KernelChoice("cuda", ""))
    monkeypatch.setattr(CudaBackend, "scratch_bytes", lambda self, steps: 0)
    for name, module in libraries().items():
        monkeypatch.setitem(sys.modules, name, module)
    with use_fake_cuda():
        yield


@pytest.mark.filterwarnings("ignore:this step runs kernel by kernel")
@pytest.mark.parametrize("check", gpu_checks.CHECKS, ids=lambda c: c.__name__)
def test_the_checks_run(check, small, tmp_path):
    """On the fake device each does what it is to do on a GPU, but for PyTorch's part, which says why it cannot."""
    said = []
    check(said.append, tmp_path)
    assert said


def test_a_cell_is_measured(small):
    for what in ("train", "infer"):
        found = gpu_cell.measure("lenet", "bf16", 2, what, gpu_cell.MODES, 1, 0.001, False)
        assert found.seconds["prototorch"] > 0
        assert found.seconds["fed"] > 0
        assert not [r for r in found.remarks if r.startswith("prototorch")]
        assert [r for r in found.remarks if r.startswith("torch eager failed")]
