"""device.sh where something is wrong around it: results that cannot be published, kills, steps and tests run again."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.device import __main__ as command
from benchmarks.device import archive, processors, runner, state, wheels
from benchmarks.device.part_list import STEPS
from benchmarks.device.results_file import forget_failed, give_up, read_records
from benchmarks.device.step import Step
from benchmarks.isolated_process import run_isolated


def python_step(name, code, **options):
    return Step(name, 1, f"the step {name}", options.pop("limit", 30), ("-c", code), **{"least": 0.0, **options})


@pytest.fixture
def make(tmp_path):
    """Makes a runner: make(steps); all of them share one folder, and `make.lines` is what they have printed."""

    def runner_for(*steps):
        kept = state.RunState(tmp_path / "build", "NVIDIA H100", {}, "a")
        return runner.PartRunner(kept, steps, tmp_path / "out", lines.append)

    lines = runner_for.lines = []
    return runner_for


def status(one, name):
    found = one.state.read(name)
    return found.status if found else None


@pytest.mark.parametrize("name", ["summary.tmp", "results.tar.tmp"])
def test_what_cannot_be_published_ends_no_step(make, tmp_path, monkeypatch, name):
    monkeypatch.setattr(runner, "PUBLISH_SECONDS", 0.1)
    one = make(python_step("a", "import time; time.sleep(3)"), python_step("b", "pass"))
    blocked = tmp_path / "out" / name  # a folder of its name: an OSError, as on a full disk
    blocked.mkdir()
    assert one.run(1) == 0
    assert (status(one, "a"), status(one, "b")) == ("passed", "passed")
    problems = [line for line in make.lines if "could not be written" in line]
    assert len(problems) == 1, "once, not at each time"
    assert str(one.state.folder) in problems[0]
    assert not one.is_published
    blocked.rmdir()
    one.publish()
    assert one.is_published
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"summary.md", "results.tar.gz"}


def test_a_folder_of_results_that_vanished_is_made_anew(make, tmp_path):
    one = make(python_step("a", f"import shutil; shutil.rmtree({str(tmp_path / 'out')!r})"))
    assert one.run(1) == 0
    assert one.is_published


def test_a_file_that_a_step_removes_is_not_in_the_archive(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    for name in ("a", "gone"):
        (tmp_path / "results" / name).write_text(name)
    read = archive.Path.read_bytes

    def vanish(path):
        if path.name == "gone":
            path.unlink()
        return read(path)

    monkeypatch.setattr(archive.Path, "read_bytes", vanish)
    assert archive.write_archive(tmp_path / "results", tmp_path / "results.tar.gz") > 0


def test_out_that_is_a_file_is_a_wrong_argument(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "BUILD", tmp_path / "build")
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        command.main(["1", "--out", str(tmp_path / "file"), "--wheels", str(tmp_path / "none")])
    assert ended.value.code == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_results_that_cannot_be_shown_end_no_part(make):
    def describe(folder):
        raise KeyError("outcome")

    one = make(python_step("a", "print('printed')", describe=describe))
    assert one.run(1) == 0
    assert any("cannot be shown: KeyError" in line for line in make.lines)
    assert any("printed" in line for line in make.lines)


@pytest.mark.parametrize("again", ["a", "failed", "all"])
def test_a_step_that_is_not_begun_again_keeps_its_results(make, again):
    one = make(python_step("a", "print('figures'); raise SystemExit(1)"))
    one.run(1)
    one = make(python_step("a", "pass", least=20.0))
    one.run(1, [again], seconds=10)
    assert status(one, "a") == "failed"
    assert "figures" in (one.state.step_folder("a") / "output.txt").read_text()
    make(python_step("a", "pass")).run(1, [again])
    assert status(one, "a") == "passed"


def test_failed_stands_for_all_that_have_not_passed(make, tmp_path):
    note = f"open({str(tmp_path / 'runs')!r}, 'a').write"
    steps = [python_step(n, f"{note}({n!r}); raise SystemExit({n in 'bc'})") for n in "abc"]
    for again in ((), (), ("failed",), ("all",)):
        make(*steps).run(1, again)
    assert (tmp_path / "runs").read_text() == "abcbcabc"
    assert "b: failed before; --again b runs it again" in make.lines
    assert "--again failed" in (tmp_path / "out" / "summary.md").read_text()


def test_a_required_step_that_failed_is_tried_in_each_start(make, tmp_path):
    step = python_step(
        "a", f"import os; raise SystemExit(not os.path.exists({str(tmp_path / 'there')!r}))", required=True
    )
    assert make(step).run(1) == 1
    (tmp_path / "there").touch()
    assert make(step).run(1) == 0


def test_what_was_killed_twice_is_named_with_what_runs_it(make, tmp_path):
    one = make(python_step("a", "pass"), python_step("b", "pass"))
    one.state.write("a", state.StepState("running", attempts=2))
    one.run(1)
    assert "a: interrupted 2 times (it may be what interrupts); --again a runs it" in make.lines
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "**interrupted 2 times**" in summary
    assert "running" not in summary
    make(python_step("a", "pass")).run(1, ["a"])
    assert status(one, "a") == "passed"


def test_a_wheel_with_another_name_is_left_out_with_the_reason(tmp_path):
    for name in ("lark.whl", "y-1-cp310-cp310-a.whl"):
        (tmp_path / name).touch()
    text = "\n".join(wheels.install_wheels(tmp_path, tmp_path / "site"))
    assert "lark.whl: its name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl" in text
    assert "y-1-cp310-cp310-a.whl: it is for cp310" in text


HUNG = """
import time
import pytest

pytestmark = pytest.mark.gpu


def test_first():
    time.sleep(1000)


def test_second():
    pass
"""


@pytest.mark.slow
def test_a_test_that_hangs_ends_its_worker_and_is_not_begun_for_ever(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(HUNG)
    monkeypatch.setenv("PROTOTORCH_STAND_IN", "")
    call = "from benchmarks.device import run_tests; import sys; run_tests.HUNG_SECONDS = 2; "
    call += "sys.exit(run_tests.main(sys.argv[1:]))"
    words = [sys.executable, "-c", call, str(tmp_path), "-n", "1", str(tmp_path / "test_some.py")]
    for outcome in ("crashed", "crashed each time"):
        done = run_isolated(words, 100)
        outcomes = {
            r["test"].rpartition("::")[2]: r["outcome"]
            for r in read_records(tmp_path / "results.jsonl")
            if "outcome" in r
        }
        assert outcomes == {"test_first": outcome, "test_second": "passed"}, done.out + done.err
        assert done.code == 1
        begun, *_ = [r for r in read_records(tmp_path / "results.jsonl") if r.get("started", "").endswith("test_first")]
        with (tmp_path / "results.jsonl").open("a") as file:  # as a second attempt would
            file.write(json.dumps({**begun, "attempt": 2}) + "\n" if outcome == "crashed" else "")
    assert "test_first" in (tmp_path / "hung.txt").read_text(), "where it was"


def test_what_was_begun_before_comes_last(tmp_path):
    (tmp_path / "test_some.py").write_text(HUNG.replace("time.sleep(1000)", "pass"))
    name = "test_some.py::test_first"
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p",
             "benchmarks.device.pytest_results", "--rootdir", str(tmp_path), "-c", "/dev/null", "--skip-finished",
             str(tmp_path / "earlier"), str(tmp_path / "test_some.py")]  # fmt: skip
    (tmp_path / "earlier").write_text(json.dumps({"started": name}) + "\n")
    lines = run_isolated(words, 60).out.splitlines()
    assert [line.rpartition("::")[2] for line in lines if "::" in line] == ["test_second", "test_first"]


def write_records(path, *records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records))


def test_a_test_without_an_end_gets_an_outcome(tmp_path):
    path = tmp_path / "results.jsonl"
    write_records(
        path,
        {"started": "a"},
        {"started": "b"},
        {"started": "a"},
        {"started": "c"},
        {"started": "c"},
        {"test": "c", "outcome": "passed"},
    )
    give_up(path)
    give_up(path)
    ends = [r for r in read_records(path) if r.get("outcome") == "not ended"]
    assert [r["test"] for r in ends] == ["a"]
    assert "begun 2 times" in ends[0]["reason"]


def test_only_what_passed_is_kept_of_tests(tmp_path):
    path = tmp_path / "results.jsonl"
    kept = [{"collected": ["a", "b", "c"]}, {"started": "a"}, {"test": "a", "outcome": "passed"}]
    write_records(path, *kept, {"started": "b"}, {"test": "b", "outcome": "failed"}, {"started": "c"})
    forget_failed(path)
    assert list(read_records(path)) == kept


@pytest.mark.parametrize(("files", "expected"), [
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1550000 100000\n"}, 16),
    ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "400000 100000",
      "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 4),
    ({"proc/self/cgroup": "3:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 2),
    ({"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
    ({}, None),
])  # fmt: skip
def test_a_containers_share_of_the_processors(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processors.cpu_quota(tmp_path) == expected


@pytest.mark.parametrize(("shown", "quota", "free", "expected"), [
    (208, None, None, 16), (208, 6, 80_000, 6), (208, None, 9_000, 4), (208, None, 100, 1), (2, 16, 80_000, 2),
])  # fmt: skip
def test_the_number_of_processes(monkeypatch, shown, quota, free, expected):
    monkeypatch.setattr(processors.os, "sched_getaffinity", lambda pid: set(range(shown)))
    monkeypatch.setattr(processors, "cpu_quota", lambda: quota)
    monkeypatch.setattr(processors, "free_gpu_mib", lambda: free)
    assert processors.worker_count() == expected


def test_each_process_of_tests_has_one_thread(monkeypatch):
    for step in (s for s in STEPS if s.part == 2):
        assert runner.step_environment(step)["PROTOTORCH_THREADS"] == "1"
        assert runner.step_environment(step)["OPENBLAS_NUM_THREADS"] == "1"
