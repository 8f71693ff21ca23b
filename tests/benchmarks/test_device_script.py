"""The script for the first half hour on a GPU: order, time limits, continuing, the archive's size, the summary."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from benchmarks import gpu_cell
from benchmarks.device import __main__ as command
from benchmarks.device import archive, rows, runner, state, wheels
from benchmarks.device.part_list import FIRST, STEPS
from benchmarks.device.runner import FIRST_SECONDS, PART_SECONDS, PartRunner
from benchmarks.device.step import Step
from benchmarks.isolated_process import ROOT, run_isolated

VERSIONS = {"python": "3.12.3", "torch": "2.11.0"}


def python_step(name, code, part=1, **options):
    return Step(name, part, f"the step {name}", options.pop("limit", 30), ("-c", code), **{"least": 0.0, **options})


@pytest.fixture
def make(tmp_path):
    """Makes a runner: make(steps, sources="a"); all of them share one folder."""

    def runner_for(*steps, sources="a", keep_passed=False):
        kept = state.RunState(tmp_path / "build", "NVIDIA H100", VERSIONS, sources, keep_passed)
        return PartRunner(kept, steps, tmp_path / "out", lambda line: None)

    return runner_for


def statuses(one):
    return {s.name: (found.status if (found := one.state.read(s.name)) else None) for s in one.steps}


def test_steps_run_in_their_order_and_a_failure_stops_no_other(make, tmp_path):
    note = f"open({str(tmp_path / 'order')!r}, 'a').write"
    one = make(
        python_step("a", f"{note}('a')"),
        python_step("b", f"{note}('b'); print('why'); raise SystemExit(3)"),
        python_step("other", f"{note}('x')", part=2),
        python_step("c", f"{note}('c')"),
    )
    assert one.run(1) == 1
    assert (tmp_path / "order").read_text() == "abc"
    assert statuses(one) == {"a": "passed", "b": "failed", "c": "passed", "other": None}
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "| 1 | b | **failed**, exit code 3 |" in summary
    assert "| 2 | other | not run |" in summary
    assert "    why" in summary
    assert "NVIDIA H100" in summary
    assert "torch 2.11.0" in summary


def test_what_has_ended_is_not_run_again_but_on_request(make, tmp_path):
    step = python_step("a", f"open({str(tmp_path / 'runs')!r}, 'a').write('a')")
    failing = python_step("b", f"open({str(tmp_path / 'runs')!r}, 'a').write('b'); raise SystemExit(1)")
    for again in ((), (), ("b",)):
        make(step, failing).run(1, again)
    assert (tmp_path / "runs").read_text() == "abb"
    make(step, failing, sources="other").run(1)
    assert (tmp_path / "runs").read_text() == "abbab", "other sources: all is run"


def test_after_a_change_only_what_failed_is_run(make, tmp_path):
    good, mended = tmp_path / "good", tmp_path / "mended"
    steps = (
        python_step("a", f"open({str(good)!r}, 'a').write('a')"),
        python_step("b", f"import os, sys; sys.exit(not os.path.exists({str(mended)!r}))"),
    )
    assert make(*steps).run(1) == 1
    mended.touch()
    assert make(*steps, sources="other", keep_passed=True).run(1) == 0
    assert good.read_text() == "a"


def test_a_step_is_ended_at_its_limit_with_what_it_started(make, tmp_path):
    code = (
        "import subprocess, time; p = subprocess.Popen(['sleep', '60']); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid)); print('so far', flush=True); time.sleep(60)"
    )
    one = make(python_step("long", code, limit=5), python_step("next", "pass"))
    begin = time.monotonic()
    assert one.run(1) == 1
    assert time.monotonic() - begin < 50
    assert statuses(one) == {"long": "timed out", "next": "passed"}
    assert "so far" in (one.state.step_folder("long") / "output.txt").read_text()
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}/exe").exists()


def test_no_step_begins_when_the_part_has_no_time_for_it(make):
    one = make(python_step("a", "pass", least=100.0), python_step("b", "pass"))
    assert one.run(1, seconds=30) == 1
    assert statuses(one) == {"a": None, "b": "passed"}


def test_nothing_follows_a_required_step_that_failed(make):
    one = make(python_step("a", "raise SystemExit(1)", required=True), python_step("b", "pass"))
    assert one.run(1) == 2
    assert statuses(one) == {"a": "failed", "b": None}


def test_a_killed_run_continues_at_the_step_it_was_in(make, tmp_path):
    """What was killed is run once more; what was killed twice is not, as it may be the reason."""
    steps = (python_step("a", "pass"), python_step("b", f"open({str(tmp_path / 'runs')!r}, 'a').write('b')"))
    for attempts, runs in ((1, "b"), (2, "")):
        one = make(*steps)
        one.state.write("a", state.StepState("passed"))
        one.state.write("b", state.StepState("running", attempts=attempts))
        (tmp_path / "runs").write_text("")
        one.run(1)
        assert (tmp_path / "runs").read_text() == runs


def test_a_step_that_resumes_is_run_after_its_limit_too(make, tmp_path):
    step = python_step("tests", f"open({str(tmp_path / 'runs')!r}, 'a').write('t')", resumes=True)
    one = make(step)
    one.state.write("tests", state.StepState("timed out"))
    (one.state.step_folder("tests") / "results.jsonl").write_text("{}")
    one.run(1)
    assert (tmp_path / "runs").read_text() == "t"
    assert (one.state.step_folder("tests") / "results.jsonl").exists(), "its earlier results are kept"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_ended_script_loses_nothing_and_leaves_nothing_running(how, tmp_path):
    code = f"""
import sys, time
from pathlib import Path
from benchmarks.device import runner, state
from benchmarks.device.step import Step
steps = (Step("a", 1, "first", 30, ("-c", "print('done')"), least=0),
         Step("b", 1, "second", 60, ("-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"), least=0))
kept = state.RunState(Path({str(tmp_path)!r}), "GPU", {{}}, "a")
runner.PartRunner(kept, steps, Path({str(tmp_path / "out")!r})).run(1)
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (folder,) = wait_for(lambda: list(tmp_path.glob("results/*/steps/b")))
    child = wait_for(lambda: (folder / "output.txt").exists() and (folder / "output.txt").read_text().strip())
    process.send_signal(how)
    process.communicate(timeout=60)
    wait_for(lambda: not Path(f"/proc/{child}/exe").exists())
    assert json.loads((folder.parent / "a" / "state.json").read_text())["status"] == "passed"
    status = json.loads((folder / "state.json").read_text())["status"]
    assert status == ("interrupted" if how == signal.SIGTERM else "running")
    with tarfile.open(tmp_path / "out" / "results.tar.gz") as kept:
        assert any(name.endswith("steps/a/output.txt") for name in kept.getnames())


def wait_for(found, seconds=60):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def test_results_of_another_machine_are_others(tmp_path):
    folders = {
        state.RunState(tmp_path, name, versions, "a").folder
        for name in ("NVIDIA H100", "NVIDIA H200")
        for versions in (VERSIONS, {"python": "3.13.0"})
    }
    assert len(folders) == 4


def test_sources_are_known_by_their_content(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.proto").write_text("one")
    first = state.hash_sources(tmp_path)
    (tmp_path / "models" / "a.proto").write_text("two")
    assert state.hash_sources(tmp_path) != first


def test_the_archive_stays_below_its_size(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "short").write_bytes(b"short")
    (folder / "long").write_bytes(b"first" + os.urandom(3 << 20) + b"last")
    size = archive.write_archive(folder, tmp_path / "results.tar.gz", max_bytes=300 << 10)
    assert size < 300 << 10
    with tarfile.open(tmp_path / "results.tar.gz") as found:
        contents = {m.name: found.extractfile(m).read() for m in found.getmembers()}
    assert contents["results/short"] == b"short"
    cut = contents["results/long"]
    assert cut.startswith(b"first")
    assert cut.endswith(b"last")
    assert b"bytes left out" in cut
    assert {p.name for p in tmp_path.iterdir()} == {"results", "results.tar.gz"}


def test_wheels_for_another_python_are_left_out(tmp_path):
    for name in ("lark-1.3.1-py3-none-any.whl", "x-1-cp312-cp312-manylinux_2_28_x86_64.whl", "y-1-cp310-cp310-a.whl"):
        (tmp_path / name).touch()
    (tmp_path / "lark.whl").touch()
    assert [w.name[:3] for w in wheels.fitting_wheels(tmp_path, (3, 12))] == ["lar", "x-1"]
    assert list(wheels.install_wheels(tmp_path / "none", tmp_path / "site")) == []


def test_the_plan_keeps_its_minutes():
    assert {step.part for step in STEPS} <= PART_SECONDS.keys()
    assert sum(PART_SECONDS.values()) <= 27 * 60
    assert max(PART_SECONDS.values()) <= 9.5 * 60
    assert len({step.name for step in STEPS}) == len(STEPS)
    for step in STEPS:
        assert step.least <= step.limit <= PART_SECONDS[step.part]
        assert re.fullmatch("[A-Za-z0-9_-]+", step.name), "a folder of this name must be able to travel"


def test_a_step_cut_by_the_end_of_the_time_is_open_again(make, tmp_path):
    """It has not timed out: its own limit was longer, or the part's."""
    slow = python_step("slow", f"import os, time; time.sleep(0 if os.path.exists({str(tmp_path / 'fast')!r}) else 60)")
    own = python_step("own", "import time; time.sleep(60)", limit=0.5)
    one = make(own, slow)
    assert one.run(1, seconds=3) == 2
    assert statuses(one) == {"own": "timed out", "slow": "cut, open again"}
    assert "**cut, open again**" in (tmp_path / "out" / "summary.md").read_text()
    (tmp_path / "fast").touch()
    assert one.run(1) == 1
    assert statuses(one) == {"own": "timed out", "slow": "passed"}


def test_the_first_minutes_are_steps_of_all_parts_in_another_order(make, tmp_path):
    note = f"open({str(tmp_path / 'order')!r}, 'a').write"
    steps = [python_step(name, f"{note}('{name}')", part=part) for name, part in (("a", 1), ("b", 2), ("c", 3))]
    slow = python_step("d", "import time; time.sleep(60)", part=4)
    one = make(*steps, slow)
    assert one.run_first({"a": 5, "c": 5, "d": 0.5, "b": 5}) == 1
    assert (tmp_path / "order").read_text() == "acb"
    assert statuses(one) == {"a": "passed", "b": "passed", "c": "passed", "d": "cut, open again"}
    assert one.run(3) == 0
    assert (tmp_path / "order").read_text() == "acb", "what has passed counts for its part"


def test_the_first_minutes_hold_what_tells_most():
    names, steps = list(FIRST), {step.name: step for step in STEPS}
    assert names[0] == "environment"
    assert names[-1] == "tests-layers", "it takes what is left"
    assert FIRST_SECONDS <= 9.5 * 60
    assert sum(FIRST[name] for name in names[:-1]) <= FIRST_SECONDS - steps["tests-layers"].least
    assert all(steps[name].least <= limit <= steps[name].limit for name, limit in FIRST.items())
    assert {f"row-{net}-bf16" for net in ("resnet50", "transformer", "alexnet")} < set(names)
    assert sum(name.startswith("profile-") for name in names) == 2
    assert steps["tests-spread"].command[-2:] == ("--spread", "150")


def test_each_file_of_tests_belongs_to_a_step():
    folder = ROOT / "tests" / "cuda" / "gpu"
    words = {word for step in STEPS if step.part == 2 for word in step.command}
    assert {f"tests/cuda/gpu/{path.name}" for path in folder.glob("test_*.py")} <= words


def test_the_command(capsys):
    assert command.main(["first", "--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == list(FIRST)
    assert command.main(["all", "--list"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(STEPS)
    with pytest.raises(SystemExit):
        command.main(["1", "--again", "no-such-step"])
    assert "there is no step no-such-step" in capsys.readouterr().err


def test_the_entry_is_one_short_command():
    script = ROOT / "benchmarks" / "device.sh"
    assert os.access(script, os.X_OK)
    environment = {**os.environ, "PYTHON": sys.executable}
    done = run_isolated([str(script), "1", "--list"], 60, environment)
    assert (done.code, len(done.out.splitlines())) == (0, sum(s.part == 1 for s in STEPS)), done.err
    assert runner.MAX_ATTEMPTS == 2


def write_cell(folder, **seconds):
    found = {"seconds": {k.replace("_", " "): v for k, v in seconds.items()}, "bytes": {}, "remarks": ["a remark"]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "output.txt").write_text(f"CELL {json.dumps(found)}\nCELL {{'not whole")


def test_steps_of_one_cell_are_one_line_of_the_table(make, tmp_path):
    one = make(*rows.ROWS)
    write_cell(one.state.step_folder("row-resnet50-bf16"), prototorch=0.05, torch_graph=0.1)
    write_cell(one.state.step_folder("row-resnet50-bf16-compile"), torch_compile=0.08)
    write_cell(one.state.step_folder("row-lenet-tf32"), torch_eager=0.08)
    predictions = {("resnet50", "train", "bf16", 256): 0.04}
    head, _, resnet, lenet = rows.table_lines(rows.ROWS, one.state.step_folder, predictions)
    row = dict(zip(head.split(" | "), resnet.split(" | "), strict=True))
    assert (row["img/s"], row["predicted"], row["best of torch"], row["ratio"]) == (
        "5,120",
        "6,400",
        "3,200 (compile)",
        "1.60",
    )
    assert "| failed |" in lenet
    assert rows.describe_row(one.state.step_folder("row-lenet-tf32")) == ["torch eager 3,200/s", "a remark"]
    one.publish()
    for step in rows.ROWS:
        one.state.write(step.name, state.StepState("passed"))
    one.publish()
    assert resnet.split(" | ")[0] in (tmp_path / "out" / "summary.md").read_text()


def test_the_most_telling_rows_come_first():
    names = [step.name for step in rows.ROWS]
    assert names[:2] == ["row-resnet50-bf16", "row-transformer-bf16"]
    assert len(names) == 4 * 2 * 2 + 1
    pass_of_all = [s for s in rows.ROWS if s.name in {f"row-{n}-{p}" for n in rows.NETS for p in ("bf16", "tf32")}]
    assert list(rows.ROWS[:8]) == pass_of_all
    assert sum(s.limit for s in pass_of_all) <= PART_SECONDS[3] - 10, "it fits whatever each takes"
    for step in pass_of_all:
        assert {"prototorch", "prototorch autotune", "torch graph"} <= set(json.loads(step.command[-1])["contenders"])
    assert all(name.endswith("-compile") for name in names[9:])
    for step in rows.ROWS:
        assert set(json.loads(step.command[-1])["contenders"]) <= {*gpu_cell.CONTENDERS, gpu_cell.CANDIDATES}


def test_predictions_are_read_from_the_newest_page(tmp_path):
    (tmp_path / "gpu-predicted-2026-11-21.md").write_text("")
    (tmp_path / "gpu-predicted-2026-11-22.md").write_text(
        "## H100\n\n| net | what | precision | batch | best ms | sober ms |\n| --- | --- | --- | --- | --- | --- |\n"
        "| lenet | train | bf16 | 256 | 1.0 | 2,000.5 |\n\n| kernel | sober ms |\n| --- | --- |\n| conv | 3 |\n\n"
        "## H200\n\n| net | what | precision | batch | best ms | sober ms |\n| --- | --- | --- | --- | --- | --- |\n"
        "| lenet | train | bf16 | 256 | 1.0 | 1.5 |\n"
    )
    assert rows.read_predictions(tmp_path, "NVIDIA A100") == {}
    assert rows.read_predictions(tmp_path, "NVIDIA H100 80GB HBM3") == {("lenet", "train", "bf16", 256): 2.0005}
    kept = rows.read_predictions(ROOT / "benchmarks" / "results", "NVIDIA H100 80GB HBM3")
    assert {(net, "train", precision, 256) for net in rows.NETS for precision in ("bf16", "tf32")} <= kept.keys()
