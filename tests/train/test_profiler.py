"""Where the time went: purposes, nesting, what the history, the logs and the lines say of it."""

import contextlib
import csv
import io

import numpy as np
from rich.console import Console

import prototorch as pt
from prototorch.data import Dataset
from prototorch.spec import Spec
from prototorch.train import profiler as clock_module
from prototorch.train.profiler import (
    DATA,
    EPOCH_PURPOSES,
    STEPS,
    Profiler,
    data_wait_share,
    epoch_seconds,
    format_table,
)
from prototorch.train.progress import progress_callbacks


class Hours:
    """A clock that goes when it is told to."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(clock_module, "time", self)

    def perf_counter(self):
        return self.now

    def go(self, seconds):
        self.now += seconds


def test_purposes_nest_and_the_time_of_an_inner_one_counts_once(monkeypatch):
    hours = Hours(monkeypatch)
    clock = Profiler()
    hours.go(1)
    with clock("steps"):
        hours.go(2)
        with clock("prepare"):
            hours.go(4)
        hours.go(8)
    before = clock.totals()
    with contextlib.suppress(ZeroDivisionError), clock("data"):
        hours.go(16)
        raise ZeroDivisionError
    with clock("steps"):
        hours.go(32)
    assert before == {"steps": 10, "prepare": 4, "total": 15}
    assert clock.totals() == {"steps": 42, "prepare": 4, "data": 16, "total": 63}
    found = epoch_seconds(before, clock.totals())
    assert set(found) == {*EPOCH_PURPOSES, "total"}
    assert {name: seconds for name, seconds in found.items() if seconds} == {"steps": 32, "data": 16, "total": 48}


def test_waiting_is_a_share_of_the_training_alone():
    assert data_wait_share({DATA: 1.0, STEPS: 3.0, "validation": 9.0, "total": 20.0}) == 0.25
    assert data_wait_share({"total": 3.0}) == 0.0


def test_a_table_adds_up():
    lines = format_table({DATA: 1.0, STEPS: 3.0, "total": 5.0}).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["waiting for data", "training steps", "the rest", "all"]
    assert lines[-2].endswith("1.000 s   20.0%")


class Slow(Dataset):
    """Numbers that take a second a batch, read when they are asked for."""

    cheap = True
    name, inputs, targets = "slow", ("x",), ("y",)
    columns = {"x": Spec((3,)), "y": Spec((), "int64")}

    def __init__(self, hours):
        self.hours = hours

    def __len__(self):
        return 8

    def read(self, indices):
        self.hours.go(1)
        return {"x": np.ones((len(indices), 3), np.float32), "y": np.asarray(indices) % 2}

    def origin(self, index):
        return f"number {index}"


def model():
    made = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    made.compile(loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


class Working(pt.Callback):
    """Makes each step take three seconds."""

    def __init__(self, hours):
        self.hours = hours

    def on_train_begin(self, logs=None):
        runner = self.model.trainer.run_step

        def run(*args):
            self.hours.go(3)
            return runner(*args)

        self.model.trainer.run_step = run


def test_history_and_line_tell_of_waiting(monkeypatch):
    hours, out = Hours(monkeypatch), io.StringIO()
    told = progress_callbacks(2, Console(file=out, width=200))
    history = model().fit(Slow(hours), batch_size=2, epochs=2, verbose=0, callbacks=[Working(hours), *told])
    assert history.waiting == [0.25, 0.25]
    for one in history.timing:
        assert (one["data"], one["steps"], one["callbacks"], one["total"]) == (4, 12, 0, 16)
    assert out.getvalue().count("data: waited 25% of the time") == 2
    assert not {"waiting", "seconds"} & set(history.history)
    assert "timing" not in history.state()


def test_csv_logger_with_timing(tmp_path):
    path = tmp_path / "log.csv"
    x, y = np.ones((8, 3), np.float32), np.arange(8) % 2
    logger = pt.callbacks.CSVLogger(str(path), timing=True)
    model().fit(x, y, epochs=2, verbose=0, callbacks=[logger], validation_split=0.25, validation_freq=2)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert list(rows[0]) == ["epoch", "loss", "learning_rate", "seconds", "waiting", "val_loss"]
    assert all(float(row["seconds"]) > 0 and 0 <= float(row["waiting"]) <= 1 for row in rows)
