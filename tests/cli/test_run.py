"""`prototorch run`: what it reports is what is in the file that it saved; it never replaces a run without a word."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from prototorch.cli import main
from prototorch.cli.json_output import format_json
from prototorch.train.builtin_callbacks import CSVLogger
from prototorch.train.progress import format_logs
from tests.cli.test_commands import here, shell  # noqa: F401

TEXT = """
name: "tiny"
input { name: "x"  shape: [3] }
Dense { units: 4  activation: tanh }
Dense { units: 1 }
compile { loss: mse  optimizer: SGD { learning_rate: 0.2 }  metrics: [mae] }
fit {
  data { source: "t.csv"  label: "y" }
  validation_split: 0.25  epochs: EPOCHS  batch_size: 8
  callbacks: [CALLBACKS]
}
"""


@pytest.fixture
def text(here):  # noqa: F811
    """Write the model and its table; gives a function that changes the text."""
    x = np.random.default_rng(0).normal(size=(40, 3)).round(3)
    rows = [f"{a},{b},{c},{round(float(a * b - c + 3 * (a > 1)), 3)}" for a, b, c in x]
    Path("t.csv").write_text("a,b,c,y\n" + "\n".join(rows) + "\n")

    def write(callbacks: str = "", epochs: int = 2, **changes: str) -> None:
        changed = TEXT.replace("CALLBACKS", callbacks).replace("EPOCHS", str(epochs))
        for old, new in changes.items():
            changed = changed.replace(old, new)
        Path("t.proto").write_text(changed)

    write()
    return write


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def log_epochs(folder: str = "runs/tiny") -> list[int]:
    return [json.loads(line)["epoch"] for line in Path(folder, "log.jsonl").read_text().splitlines()]


STOP = 'EarlyStopping { monitor: "val_mae"  patience: 3  min_delta: 0.01 }'
SAVE = 'ModelCheckpoint { filepath: "best.h5"  monitor: "val_mae"  save_best_only: true }'


def test_the_report_is_of_the_file_that_was_saved(text, shell):  # noqa: F811
    text(f"{STOP}, {SAVE}", epochs=40)
    code, out, _ = shell("run", "t.proto", "--quiet")
    assert code == 0
    history, result = read("runs/tiny/history.json"), read("runs/tiny/result.json")
    best = result["weights_epoch"]
    assert best == log_epochs()[-1] - 3 < 37  # it stopped three epochs after the best one
    stored = json.loads(shell("evaluate", "runs/tiny/model.h5", "--json")[1])
    assert result["evaluation"] == stored
    assert stored["loss"] == pytest.approx(history["val_loss"][best - 1], rel=1e-6)
    assert stored["loss"] != pytest.approx(history["val_loss"][-1], rel=1e-4)
    assert f"stopped after epoch {best + 3} of 40: val_mae has not improved for 3 epochs" in out
    assert f"in epoch {best}, whose weights were restored" in out
    assert "ModelCheckpoint: best val_mae " in out
    assert f"trained on 30 training samples, epoch {best}: loss " in out
    assert f"evaluated model.h5 on 10 validation samples: {format_logs(stored)}" in out
    assert (result["epochs"], result["epochs_planned"]) == (best + 3, 40)
    assert result["samples"] == {"training": 30, "validation": 10}
    assert result["training"]["loss"] == history["loss"][best - 1]

    shutil.rmtree("runs")
    printed = json.loads(shell("run", "t.proto", "--quiet", "--json")[1])
    assert printed["evaluation"] == result["evaluation"]
    assert printed["val_loss"] == stored["loss"]
    assert printed["stop_reason"] == result["stop_reason"] == "val_mae has not improved for 3 epochs"


def test_without_validation_data_the_training_data_are_evaluated_and_named(text, shell):  # noqa: F811
    Path("t.proto").write_text(Path("t.proto").read_text().replace("validation_split: 0.25", ""))
    code, out, _ = shell("run", "t.proto", "--quiet")
    assert code == 0
    assert "evaluated model.h5 on 40 training samples: loss " in out
    assert format_logs(json.loads(shell("evaluate", "runs/tiny/model.h5", "--json")[1])) in out


def test_a_run_that_has_ended_is_kept(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet")[0] == 0
    before = {path.name: path.read_bytes() for path in Path("runs/tiny").iterdir()}
    for number in (2, 3):
        code, out, err = shell("run", "t.proto", "--quiet")
        assert code == 0
        assert f"note: runs/tiny holds a run that has ended; this run goes to runs/tiny-{number}" in err
        assert f"saved runs/tiny-{number}/model.h5" in out
    assert {path.name: path.read_bytes() for path in Path("runs/tiny").iterdir()} == before
    code, _, err = shell("run", "t.proto", "--quiet", "--run-dir", "runs/tiny")
    assert code == 2
    assert "runs/tiny holds a run that has ended: give another --run-dir, or --overwrite to replace it" in err
    text(tanh="relu")
    code, _, err = shell("run", "t.proto", "--quiet", "--run-dir", "runs/tiny")
    assert code == 2
    assert "a run that has ended, of another net" in err
    assert {path.name: path.read_bytes() for path in Path("runs/tiny").iterdir()} == before
    assert shell("run", "t.proto", "--quiet", "--run-dir", "runs/tiny", "--overwrite", "--epochs", "1")[0] == 0
    assert log_epochs() == [1]
    assert shell("run", "t.proto", "--resume", "--overwrite")[0] == 2


def test_an_unfinished_run_of_another_text_is_kept(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet")[0] == 0
    Path("runs/tiny/model.h5").unlink()  # as if it had been killed
    snapshots = sorted(Path("runs/tiny").glob("snapshot*"))
    text(tanh="relu")
    code, _, err = shell("run", "t.proto", "--quiet")
    assert code == 0
    assert "runs/tiny holds a run that has not ended, of another net; this run goes to runs/tiny-2" in err
    assert sorted(Path("runs/tiny").glob("snapshot*")) == snapshots
    text()
    code, _, err = shell("run", "t.proto", "--resume", "--epochs", "3")
    assert code == 0
    assert "goes on in runs/tiny with epoch 2 of 3, after step 4" in err
    assert log_epochs() == [1, 2, 3]
    assert shell("run", "t.proto", "--quiet", "--run-dir", "new")[0] == 0
    Path("new/model.h5").unlink()
    code, _, err = shell("run", "t.proto", "--run-dir", "new")
    assert code == 0
    assert "note: the training in new had not come to its end; what it left is in new/before now" in err


def test_resume_takes_the_last_run_of_this_model(text, shell):  # noqa: F811
    for _ in range(2):
        assert shell("run", "t.proto", "--quiet")[0] == 0
    code, out, err = shell("run", "t.proto", "--resume", "--epochs", "3")
    assert code == 0
    assert "goes on in runs/tiny-2 with epoch 2 of 3" in err
    assert "saved runs/tiny-2/model.h5" in out


def test_a_damaged_newest_snapshot_is_reported(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet", "--epochs", "3")[0] == 0
    whole = read("runs/tiny/history.json")
    *_, older, newest = sorted(Path("runs/tiny").glob("snapshot*.h5"))
    data = bytearray(newest.read_bytes())
    data[-100] ^= 1
    newest.write_bytes(data)
    code, _, err = shell("run", "t.proto", "--resume", "--epochs", "3")
    assert code == 0
    line = next(line for line in err.splitlines() if newest.name in line)
    assert line.startswith("warning: ")
    assert line.endswith(f"; goes on from the older {older.name}")
    assert log_epochs() == [1, 2, 3]
    assert read("runs/tiny/history.json") == whole


def test_a_table_that_has_changed_is_refused(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet", "--epochs", "1")[0] == 0
    table = Path("t.csv").read_text()
    Path("t.csv").write_text(table.replace("0.1", "0.9", 1))
    code, _, err = shell("run", "t.proto", "--resume", "--epochs", "2")
    assert code == 4
    assert (
        "t.csv: the training cannot be resumed exactly: its samples have changed since the snapshot: it had 30" in err
    )
    Path("t.csv").write_text(table)
    os.utime("t.csv", (0, 0))  # the time does not matter
    assert shell("run", "t.proto", "--resume", "--epochs", "2")[0] == 0


def test_a_callback_that_raises_loses_no_epoch(text, shell, monkeypatch):  # noqa: F811
    text('CSVLogger { filename: "rows.csv" }', epochs=3)
    real = CSVLogger.on_epoch_end

    def raising(self, epoch, logs=None):
        if epoch == 1:
            raise OSError(28, "No space left on device")
        real(self, epoch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(CSVLogger, "on_epoch_end", raising)
        assert shell("run", "t.proto", "--quiet")[0] == 5
    assert Path("runs/tiny/snapshot_step000008.h5").exists()
    code, _, err = shell("run", "t.proto", "--resume")
    assert code == 0
    assert "goes on in runs/tiny with epoch 2 of 3, after step 4" in err
    assert "epoch 2/3  resumed after step 4  loss " in err
    assert log_epochs() == [1, 2, 3]
    assert [row[0] for row in Path("runs/tiny/rows.csv").read_text().splitlines()] == ["e", "0", "1", "2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("runs", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_again_and_again_logs_each_epoch_once(text, runs):
    text('CSVLogger { filename: "rows.csv" }, CSVLogger { filename: "more.csv"  append: true }', epochs=10)
    dice, kills = random.Random(runs), 0

    def start(*options: str) -> int:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with open(os.devnull, "w") as null:
                    os.dup2(null.fileno(), 1)
                    os.dup2(null.fileno(), 2)
                main(["run", "t.proto", "--quiet", *options])
            except SystemExit as end:
                status = int(end.code or 0)
            finally:
                os._exit(status)
        return pid

    assert os.waitpid(start("--run-dir", "whole"), 0)[1] == 0
    expected = read("whole/history.json")
    for number in range(runs):
        folder = f"run{number}"
        for attempt in range(100):
            resumable = any(Path(folder).glob("snapshot*.h5"))
            pid = start("--run-dir", folder, *(["--resume"] if resumable else []))
            if attempt < 8:
                time.sleep(dice.uniform(0.03, 0.25))
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            kills += status == signal.SIGKILL
            if status != signal.SIGKILL:
                break
        assert status == 0
        assert log_epochs(folder) == list(range(1, 11))
        for name in ("rows.csv", "more.csv"):
            assert Path(folder, name).read_text() == Path("whole", name).read_text()
        assert read(f"{folder}/history.json") == expected
    assert kills > 0


def test_numbers_that_are_not_finite_are_null():
    assert json.loads(format_json({"loss": float("nan"), "list": [np.float32(2), float("inf")]})) == {
        "loss": None,
        "list": [2.0, None],
    }


@pytest.mark.parametrize(
    "callback",
    [
        'CSVLogger { filename: "log.jsonl" }',
        'ModelCheckpoint { filepath: "./model.h5" }',
        'ModelCheckpoint { filepath: "MODEL.H5" }',
        'ModelCheckpoint { filepath: "snapshot_step{epoch:06d}.h5" }',
        'ModelCheckpoint { filepath: "before/x.h5" }',
    ],
)
def test_names_of_the_run_folder_itself_are_refused(text, shell, callback):  # noqa: F811
    text(callback)
    code, _, err = shell("run", "t.proto", "--quiet")
    assert code == 2
    assert "is the name of a file of the run folder itself: give another name" in err
    assert not list(Path("runs/tiny").glob("*.h5"))


@pytest.mark.parametrize("command", [("run", "t.proto", "--quiet"), ("check", "t.proto")])
def test_two_callbacks_that_write_one_file_are_refused(text, shell, command):  # noqa: F811
    text('CSVLogger { filename: "a.csv" }, CSVLogger { filename: "./A.csv" }')
    code, _, err = shell(*command)
    assert code == (3 if command[0] == "check" else 2)
    assert "CSVLogger.filename './A.csv' is the file that CSVLogger.filename 'a.csv' writes too" in err


def test_a_numbered_run_folder_that_leads_elsewhere_is_refused(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet", "--epochs", "1")[0] == 0
    Path("elsewhere").mkdir()
    Path("runs/tiny-2").symlink_to(Path("elsewhere").absolute())
    code, _, err = shell("run", "t.proto", "--quiet", "--epochs", "1")
    assert code == 2
    assert "runs/tiny-2, which is not a folder below runs" in err
    assert not list(Path("elsewhere").iterdir())


def test_fewer_epochs_than_were_trained_train_nothing(text, shell):  # noqa: F811
    assert shell("run", "t.proto", "--quiet", "--epochs", "3")[0] == 0
    code, _, err = shell("run", "t.proto", "--resume", "--epochs", "1")
    assert code == 0
    assert "runs/tiny has 3 complete epochs, and 1 are wanted: nothing is trained" in err
    assert log_epochs() == [1, 2, 3]
