"""What a resumed training tells its callbacks and its reader, and what it refuses to go on with."""

from __future__ import annotations

import io
import os
import re
import signal

import numpy as np
import pytest
from rich.console import Console

import prototorch as pt
from prototorch.errors import DataError
from prototorch.train.progress import progress_callbacks
from tests.train.test_resume import Stop, X, Y, fresh, same

pytestmark = pytest.mark.filterwarnings("ignore:.*validation samples are training samples")


class Recorder(pt.Callback):
    """The hooks for epochs, in order; no part of the state."""

    display = True

    def __init__(self):
        self.calls = []

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("begin", epoch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("end", epoch))


def fit(model, epochs=3, callbacks=(), **more):
    return model.fit(X, Y, epochs=epochs, batch_size=6, verbose=0, callbacks=callbacks, **more)


def interrupted(folder, *callbacks, epoch=1, batch=1, **more):
    """A model that was interrupted in the middle of an epoch, loaded from its file."""
    part = fresh(folder)
    fit(part, 3, [*callbacks, Stop(epoch, batch)], **more)
    part.save(folder / "m.h5")
    return pt.load_model(folder / "m.h5")


def test_callbacks_are_told_of_the_epoch_that_goes_on(tmp_path):
    again, recorder = interrupted(tmp_path), Recorder()
    fit(again, 3, [recorder])
    assert recorder.calls[:4] == [("begin", 1), ("batch", 2), ("batch", 3), ("end", 1)]
    assert recorder.calls[4] == ("begin", 2)


def test_what_a_callback_does_at_the_begin_of_an_epoch_is_not_done_twice(tmp_path):
    def callbacks():
        return [pt.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)]

    whole = fresh(tmp_path)
    fit(whole, 3, callbacks())
    again = interrupted(tmp_path, *callbacks())
    fit(again, 3, callbacks())
    same(whole, again)


def test_lines_and_rates_count_what_ran_here(tmp_path, monkeypatch):
    again = interrupted(tmp_path)
    text = io.StringIO()
    now = [0.0]
    monkeypatch.setattr("prototorch.train.progress.time.perf_counter", lambda: now[0])

    class Clock(pt.Callback):
        display = True

        def on_train_batch_begin(self, batch, logs=None):
            now[0] += 1.0

    fit(again, 3, [Clock(), *progress_callbacks(2, Console(file=text, width=200))])
    first, second = text.getvalue().splitlines()
    assert re.match(r"epoch 2/3  resumed after step 2  2\.0s  4/s  loss ", first), first  # 8 of the 20 samples
    assert re.match(r"epoch 3/3  4\.0s  5/s  loss ", second), second


def test_a_callback_that_raises_at_the_end_of_an_epoch_loses_nothing(tmp_path):
    class Own(pt.Callback):
        def __init__(self, bad_epoch=None):
            self.bad_epoch = bad_epoch

        def on_epoch_end(self, epoch, logs=None):
            if epoch == self.bad_epoch:
                raise KeyError("mine")

    def callbacks(own):
        c = pt.callbacks
        return [c.ReduceLROnPlateau(monitor="loss", patience=1, min_delta=9.0, factor=0.5), own,
                c.CSVLogger(str(tmp_path / "log.csv")), c.ModelCheckpoint(str(tmp_path / "{epoch}.h5"))]  # fmt: skip

    whole = fresh(tmp_path)
    fit(whole, 3, callbacks(Own()))
    rows = (tmp_path / "log.csv").read_text()
    for path in tmp_path.glob("*.h5"):
        path.unlink()
    broken = fresh(tmp_path)
    with pytest.raises(KeyError, match="mine"):
        fit(broken, 3, callbacks(Own(bad_epoch=1)))
    again = pt.load_model(tmp_path / "1.h5")
    assert (again.trainer.resume_state["epoch"], again.trainer.step) == (1, 4)
    assert not (tmp_path / "2.h5").exists()  # a checkpoint comes after the callback that raised
    broken.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    assert (again.trainer.resume_state["epoch"], again.trainer.step) == (1, 8)
    recorder = Recorder()
    fit(again, 3, [*callbacks(Own()), recorder])
    assert recorder.calls[:2] == [("begin", 1), ("end", 1)]
    same(whole, again)
    assert (tmp_path / "log.csv").read_text() == rows


def test_data_that_have_changed_are_refused(tmp_path):
    again = interrupted(tmp_path, validation_data=(X[:7], Y[:7]))
    changed = X.copy()
    changed[3, 0, 2, 2] ^= 1
    with pytest.raises(DataError, match=r"its samples have changed since the snapshot: it had 20 samples with the SHA"):
        again.fit(changed, Y, epochs=3, batch_size=6, verbose=0, validation_data=(X[:7], Y[:7]))
    again = pt.load_model(tmp_path / "m.h5")
    with pytest.raises(DataError, match="its validation samples have changed"):
        fit(again, 3, validation_data=(X[:8], Y[:8]))
    again = pt.load_model(tmp_path / "m.h5")
    assert fit(again, 3, validation_data=(X[:7], Y[:7])).epoch == [0, 1, 2]


def test_a_snapshot_from_before_samples_were_drawn_by_the_seed_is_refused(tmp_path):
    from prototorch.data.dataset import ArrayDataset
    from prototorch.data.loader import Loader

    whole = ArrayDataset({"x": np.arange(10.0), "y": np.arange(10)}, ["x"], ["y"])
    for part, refuses in ((whole.split(0.2, seed=3)[0], True), (whole.split(0.2)[0], False)):
        loader = Loader(part, 2)
        state = loader.state()
        del state["data"]
        if refuses:
            with pytest.raises(DataError, match="older version, which drew other samples for validation_split"):
                loader.restore(state)
        else:
            loader.restore(state)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_sighup_asks_for_a_snapshot_and_the_training_goes_on(tmp_path):
    class Snapshots(pt.Callback):
        display = True
        steps = []

        def on_train_batch_end(self, batch, logs=None):
            if self.model.trainer.step == 6:
                os.kill(os.getpid(), signal.SIGHUP)

        def on_snapshot_request(self):
            self.steps.append(self.model.trainer.step)
            self.model.save(tmp_path / "now.h5")

    before = signal.getsignal(signal.SIGHUP)
    whole, part = fresh(tmp_path), fresh(tmp_path)
    fit(whole, 3)
    assert fit(part, 3, [Snapshots()]).epoch == [0, 1, 2]
    assert Snapshots.steps == [6]
    assert signal.getsignal(signal.SIGHUP) == before
    again = pt.load_model(tmp_path / "now.h5")
    fit(again, 3)
    same(whole, part)
    same(whole, again)


def test_the_history_says_whose_weights_the_model_has(tmp_path):
    stop = pt.callbacks.EarlyStopping(monitor="loss", patience=2, mode="max")
    part = fresh(tmp_path)
    history = fit(part, 9, [stop])
    assert history.weights_epoch == stop.best_epoch < history.epoch[-1] < 8
    assert history.stop_reason == "loss has not improved for 2 epochs"
    part = fresh(tmp_path)
    history = fit(part, 2)
    assert (history.weights_epoch, history.stop_reason) == (1, None)
    history = fit(part, 2, [Stop(1, 1)])
    assert (history.weights_epoch, history.stop_reason) == (None, "it was interrupted by SIGINT")
