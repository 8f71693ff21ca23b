"""The GPU's table: its lines, and that a cell that fails is said and does not stop the others."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

pytest.importorskip("torch", reason="the table compares with PyTorch")
pytest.importorskip("ml_dtypes", reason="bfloat16 on the CPU comes with ml_dtypes")

from benchmarks import gpu, gpu_cell, gpu_checks, gpu_table, isolated_process
from benchmarks.gpu_stand_in import use_stand_in


def test_a_line():
    found = {
        "seconds": {"prototorch": 0.01, "fed": 0.02, "torch eager": 0.05, "torch graph": 0.02},
        "bytes": {"prototorch": 2**20, "torch graph": 3 * 2**20},
        "remarks": ["a | b"],
    }
    line = gpu_table.format_row("alexnet", "train", "bf16", 256, found)
    assert line == (
        "| alexnet | train | bf16 | 256 | 25,600 |  | 12,800 |  | 12,800 (graph) | 2.00 | 1.2x best yes, 20,000/s yes "
        "| 1 | 3 | eager 5,120; a / b |"
    )


def test_goals_are_judged_beside_the_peer_that_they_name():
    seconds = {"prototorch": 2e-4, "prototorch autotune": 1e-4, "torch eager": 4e-4, "torch graph": 1e-4}
    assert gpu_table.describe_goals("lenet", "train", "bf16", 256, seconds) == "5x eager **no**, 1x graph yes"
    assert gpu_table.describe_goals("resnet50", "train", "bf16", 256, seconds) == "1.5x best **no**, 5,000/s yes"
    assert gpu_table.describe_goals("resnet50", "infer", "bf16", 256, seconds) == ""


def test_measurements_of_a_cell_are_merged():
    first = {"seconds": {"prototorch": 1.0}, "bytes": {"prototorch": 1}, "remarks": ["a"]}
    second = {"seconds": {"torch compile": 2.0}, "remarks": ["a", "b"]}
    assert gpu_table.merge_results([first, second]) == {
        "seconds": {"prototorch": 1.0, "torch compile": 2.0}, "bytes": {"prototorch": 1}, "remarks": ["a", "b"],
    }  # fmt: skip


def test_a_cell_that_failed():
    line = gpu_table.format_row("lenet", "train", "bf16", 1, {"remarks": ["the process ended with 1"]})
    assert "| failed |" in line
    assert "the process ended with 1" in line


def test_the_page_has_a_column_for_each_cell():
    page = gpu.format_page([gpu_table.format_row("lenet", "train", "bf16", 1, {})], ["a note"], 7)
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
    args.contenders = ()
    told = gpu.MARK + '{"seconds": {"prototorch": 1.0}, "bytes": {}, "remarks": []}'
    monkeypatch.setattr(gpu, "run_isolated", lambda command, limit: isolated_process.ProcessResult(None, told, ""))
    found = gpu.run_cell(args, "lenet", "train", "bf16", 1, 5)
    assert found == {"seconds": {"prototorch": 1.0}, "bytes": {}, "remarks": ["not done within 5 s"]}
    monkeypatch.setattr(
        gpu, "run_isolated", lambda command, limit: isolated_process.ProcessResult(1, "", "Trace\nno driver")
    )
    assert gpu.run_cell(args, "lenet", "train", "bf16", 1, 5)["remarks"] == ["the process ended with 1: no driver"]


def test_a_cell_in_its_process(monkeypatch):
    """The command that a cell runs by takes what it is given."""
    monkeypatch.setenv("PROTOTORCH_STAND_IN", "1")
    args = gpu._parser().parse_args(["--rounds", "1", "--min-seconds", "0.01"])
    args.contenders = [gpu_cell.OURS]
    found = gpu.run_cell(args, "lenet", "train", "bf16", 2, 300)
    assert set(found["seconds"]) == {"prototorch", "fed"}, found


def test_lines_of_an_earlier_call_stay(monkeypatch, tmp_path):
    """All that one call measures is added to the day's table; a cell that is measured again is replaced."""
    monkeypatch.setattr(gpu, "describe_versions", lambda: "")
    seconds = iter((1.0, 2.0, 4.0))
    monkeypatch.setattr(gpu, "run_cell", lambda *_: {"seconds": {"prototorch": next(seconds)}})
    for net in ("lenet", "alexnet", "lenet"):
        gpu.main(["--nets", net, "--precisions", "bf16", "--batches", "8", "--what", "train",
                  "--folder", str(tmp_path)])  # fmt: skip
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
    assert all((check.__doc__ or "").strip() for check in gpu_checks.CHECKS)
    assert len({check.__name__ for check in gpu_checks.CHECKS}) == len(gpu_checks.CHECKS)


@pytest.fixture
def small(monkeypatch):
    """Sizes that the CPU does at once, on a fake device."""
    if "torch" in sys.modules:  # its table of operators forbids to set cuDNN's flags in this process
        flags = sys.modules["torch"].backends.flags_frozen.__globals__
        monkeypatch.setitem(flags, "__allow_nonbracketed_mutation_flag", True)
    with use_stand_in(always=True):
        yield


@pytest.mark.filterwarnings("ignore:this step runs kernel by kernel")
@pytest.mark.parametrize("check", gpu_checks.CHECKS, ids=lambda c: c.__name__)
def test_the_checks_run(check, small, tmp_path):
    """On the fake device each does what it is to do on a GPU."""
    reports = []
    check(reports.append, tmp_path)
    assert reports


def test_bits_are_compared_where_kernels_repeat_them(small, monkeypatch):
    """A captured step is found wrong where its kernels repeat their bits, and only noted where they do not."""
    runs = iter(())

    def train_steps(name, precision, deterministic, batch, steps, is_captured):
        return 0.0, {"w": np.float32([1.0, 1.0 + next(runs)])}

    monkeypatch.setattr(gpu_checks, "train_steps", train_steps)
    monkeypatch.setattr(gpu_checks, "CAPTURED_NETS", (("lenet", "bf16", False, 2, 5),))
    for changes, reason in (((0, 1e-3, 0), "captured steps repeat their bits"), ((0, 0.5, 0.1), "off by")):
        runs = iter(changes)
        with pytest.raises(AssertionError, match=reason):
            gpu_checks.captured(lambda text: None, None)
    runs, reports = iter((0, 1e-3, 2e-3)), []
    gpu_checks.captured(reports.append, None)
    assert "not comparable bit for bit" in reports[-1]
    monkeypatch.setattr(gpu_checks, "CAPTURED_NETS", (("lenet", "fp32", True, 2, 5),))
    runs = iter((0, 1e-3))
    with pytest.raises(AssertionError, match="other weights than kernel by kernel: w"):
        gpu_checks.captured(lambda text: None, None)


def test_checks_need_no_torch():
    """Where PyTorch is not installed only what compares with it is left out."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from benchmarks import gpu_checks, gpu_cell, gpu_attention, gpu_stand_in, gpu\n"
        "with gpu_stand_in.use_stand_in(always=True): gpu_checks.libraries(print, None)"
    )
    done = isolated_process.run_isolated([sys.executable, "-c", code], 120)
    assert (done.code, done.out.splitlines()[0]) == (0, "PyTorch is not installed"), done.err


def test_a_cell_is_measured(small):
    reports = []
    for number, what in enumerate(("train", "infer"), 1):
        found = gpu_cell.measure("lenet", "bf16", 2, what, gpu_cell.CONTENDERS[:4], 1, 0.001, report=reports.append)
        assert set(found.seconds) == {"fed", *gpu_cell.CONTENDERS[:4]}, found.remarks
        assert not [r for r in found.remarks if "failed" in r or "TOO FAR" in r]
        assert len(reports) == 4 * number, "what has been found is reported after each contender"
