"""A training that was interrupted goes on bit for bit as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TrainingError, UsageError
from prototorch.optimizers import Optimizer

X = np.random.default_rng(0).integers(0, 256, (20, 1, 6, 6)).astype(np.uint8)
Y = np.random.default_rng(1).integers(0, 3, 20)

TEXT = """
input { name: "x"  shape: [1, 6, 6] }
preprocess { Rescaling { scale: $(1 / 255) } }
augment { RandomFlip { }  RandomTranslation { height_factor: 0.2  width_factor: 0.2 } }
Conv2D { filters: 3  kernel_size: 3 }
BatchNormalization { }
ReLU { }
Dropout { rate: 0.3 }
Flatten { }
Dense { units: 3 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  metrics: [accuracy]  seed: 11 }
"""


def fresh(folder: Path, optimizer="adam") -> pt.Model:
    path = folder / "net.proto"
    path.write_text(TEXT, encoding="utf-8")
    model = pt.load_model(path)
    block = model.compile_block
    model.compile(optimizer, block.loss, ["accuracy"], seed=11)
    return model


class Stop(pt.Callback):
    """Ctrl-C after a step of an epoch."""

    display = True  # no part of what a training remembers

    def __init__(self, epoch: int, batch: int | None = None, where: str = "train"):
        self.epoch, self.batch, self.where, self.now = epoch, batch, where, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.where == "train" and (self.now, batch) == (self.epoch, self.batch):
            os.kill(os.getpid(), signal.SIGINT)

    def on_test_batch_end(self, batch, logs=None):
        if self.where == "test" and self.now == self.epoch:
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch_end(self, epoch, logs=None):
        if self.where == "end" and epoch == self.epoch:
            os.kill(os.getpid(), signal.SIGINT)


def fit(model, epochs=4, callbacks=(), **more):
    more = {"validation_data": (X[:7], Y[:7]), **more}
    return model.fit(X, Y, epochs=epochs, batch_size=6, callbacks=callbacks, verbose=0, **more)


def same(a: pt.Model, b: pt.Model) -> None:
    """Every bit of both: weights, slots, totals, history, learning rate, counters."""
    assert list(a.variables) == list(b.variables) or set(a.variables) == set(b.variables)
    for name, array in a.variables.items():
        assert array.tobytes() == b.variables[name].tobytes(), name
    assert a.history.history == b.history.history
    assert a.history.epoch == b.history.epoch
    assert a.learning_rate == b.learning_rate
    assert (a.trainer.step, a.trainer.dataset_epochs) == (b.trainer.step, b.trainer.dataset_epochs)


OPTIMIZERS = {
    **{name: made() for name, made in Optimizer.members().items()},
    "momentum, decay and clipping": pt.optimizers.SGD(
        0.05, momentum=0.9, nesterov=True, weight_decay=1e-3, clipnorm=1.0
    ),
    "averages": pt.optimizers.Adam(use_ema=True, ema_overwrite_frequency=3),
    "a schedule": pt.optimizers.Adam(pt.schedules.Warmup(pt.schedules.CosineDecay(0.01, 7), 5)),
}


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_optimizer_in_the_middle_of_an_epoch(optimizer, tmp_path):
    whole = fresh(tmp_path, optimizer)
    fit(whole, 3)
    part = fresh(tmp_path, optimizer)
    history = fit(part, 3, [Stop(1, 1)])
    assert part.trainer.interrupt_signal == signal.SIGINT
    assert history.epoch == [0]  # the epoch that is not finished has no row yet
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    fit(again, 3)
    same(whole, again)


PLACES = {
    "first step": Stop(0, 0),
    "last step": Stop(1, 3),
    "in the validation": Stop(1, where="test"),
    "at the end of an epoch": Stop(1, where="end"),
    "at the end of all": Stop(3, where="end"),
}


def watchers(folder: Path) -> list[pt.Callback]:
    c = pt.callbacks
    return [
        c.ModelCheckpoint(str(folder / "best.h5"), monitor="val_loss", save_best_only=True, save_weights_only=True),
        c.EarlyStopping(monitor="val_loss", patience=9),
        c.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_delta=0.5, cooldown=1),
        c.CSVLogger(str(folder / "log.csv")),
    ]


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
@pytest.mark.parametrize("stop", PLACES.values(), ids=PLACES)
def test_callbacks_go_on_too(stop, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    whole = fresh(tmp_path)
    fit(whole, 4, watchers(tmp_path / "a"))
    part = fresh(tmp_path)
    fit(part, 4, [*watchers(tmp_path / "b"), stop])
    assert part.trainer.interrupt_signal == signal.SIGINT
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    fit(again, 4, watchers(tmp_path / "b"), resume=True)
    same(whole, again)
    ends = [[c.state() for c in m.trainer.callbacks] for m in (whole, again)]
    for a, b in zip(*ends, strict=True):
        weights = a.pop("best_weights", {}), b.pop("best_weights", {})
        assert a == b
        assert all((weights[0][k] == weights[1][k]).all() for k in weights[0])
    assert (tmp_path / "a" / "log.csv").read_text() == (tmp_path / "b" / "log.csv").read_text()


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
@pytest.mark.parametrize("every", ["epoch", 3])
def test_a_checkpoint_of_a_training_that_was_killed(every, tmp_path):
    """What ModelCheckpoint leaves is as good as an interruption, whatever place it has among the callbacks."""

    def callbacks(path):
        c = pt.callbacks
        return [c.ModelCheckpoint(path, save_freq=every), c.ReduceLROnPlateau(factor=0.5, patience=1, min_delta=9.0)]

    whole = fresh(tmp_path)
    fit(whole, 4, callbacks(str(tmp_path / "{epoch}.h5")))
    again = pt.load_model(tmp_path / "2.h5")
    fit(again, 4, callbacks(str(tmp_path / "again-{epoch}.h5")))
    same(whole, again)


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_interrupted_twice(tmp_path):
    whole = fresh(tmp_path)
    fit(whole, 4)
    model = fresh(tmp_path)
    for stop in (Stop(1, 2), Stop(2, 0)):
        fit(model, 4, [stop])
        model.save(tmp_path / "m.h5")
        model = pt.load_model(tmp_path / "m.h5")
    fit(model, 4)
    same(whole, model)


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_in_the_same_process(tmp_path):
    whole = fresh(tmp_path)
    fit(whole, 4)
    part = fresh(tmp_path)
    fit(part, 4, [Stop(2, 1)])
    fit(part, 4, resume=True)
    same(whole, part)


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_an_ended_training_goes_on_to_more_epochs_where_asked_to(tmp_path):
    whole = fresh(tmp_path)
    fit(whole, 4)
    part = fresh(tmp_path)
    fit(part, 2)
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    fit(again, 4, resume=True)
    same(whole, again)


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_two_fits_of_one_epoch_are_one_of_two(tmp_path):
    whole, parts = fresh(tmp_path), fresh(tmp_path)
    fit(whole, 2)
    fit(parts, 1)
    parts.save(tmp_path / "m.h5")
    parts = pt.load_model(tmp_path / "m.h5")
    assert fit(parts, 1).epoch == [0]  # a new training, as in Keras
    for name, array in whole.variables.items():
        assert array.tobytes() == parts.variables[name].tobytes(), name


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_steps_per_epoch_go_on_in_the_data(tmp_path):
    whole, part = fresh(tmp_path), fresh(tmp_path)
    fit(whole, 3, steps_per_epoch=3)
    assert whole.trainer.step == 9
    fit(part, 3, [Stop(1, 1)], steps_per_epoch=3)
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    fit(again, 3, steps_per_epoch=3)
    same(whole, again)


def batches():
    for i in range(0, 20, 6):
        yield X[i : i + 6], Y[i : i + 6]


def test_a_function_that_makes_batches(tmp_path):
    whole, part = fresh(tmp_path), fresh(tmp_path)
    whole.fit(batches, epochs=3, verbose=0)
    part.fit(batches, epochs=3, verbose=0, callbacks=[Stop(1, 1)])
    part.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    again.fit(batches, epochs=3, verbose=0)
    same(whole, again)


def test_early_stopping_stays_stopped(tmp_path):
    def callbacks():
        c = pt.callbacks
        return [
            c.EarlyStopping(monitor="loss", min_delta=100.0, patience=2),
            c.ModelCheckpoint(str(tmp_path / "{epoch}.h5"), monitor="loss"),
        ]

    whole = fresh(tmp_path)
    whole.fit(X, Y, epochs=9, batch_size=6, callbacks=callbacks(), verbose=0)
    assert whole.history.epoch == [0, 1, 2]
    for saved in (2, 3):
        again = pt.load_model(tmp_path / f"{saved}.h5")
        again.fit(X, Y, epochs=9, batch_size=6, callbacks=callbacks(), verbose=0, resume=True)
        same(whole, again)


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from tests.train.test_resume import X, Y, fit
import warnings, prototorch as pt
warnings.simplefilter("ignore")
model = pt.load_model({path!r})
fit(model, 3)
model.save({path!r})
"""


@pytest.mark.filterwarnings("ignore:.*validation samples are training samples")
def test_in_a_new_process(tmp_path):
    whole = fresh(tmp_path)
    fit(whole, 3)
    part = fresh(tmp_path)
    fit(part, 3, [Stop(1, 2)])
    path = str(tmp_path / "m.h5")
    part.save(path)
    code = SCRIPT.format(paths=[str(Path(__file__).parents[2])], path=path)
    subprocess.run([sys.executable, "-c", code], check=True)
    again = pt.load_model(path)
    assert set(again.variables) == set(whole.variables)
    for name, array in whole.variables.items():
        assert array.tobytes() == again.variables[name].tobytes(), name
    assert again.trainer.step == whole.trainer.step
    restored = again.trainer.resume_state["callbacks"][0]["state"]
    assert restored == whole.history.state()


def test_what_does_not_fit_is_refused(tmp_path):
    part = fresh(tmp_path)
    part.fit(X, Y, epochs=3, batch_size=6, verbose=0, callbacks=[Stop(1, 1)])
    part.save(tmp_path / "m.h5")

    def load():
        return pt.load_model(tmp_path / "m.h5")

    with pytest.raises(TrainingError, match=r"callbacks History, now History, TerminateOnNaN; .*resume=False"):
        load().fit(X, Y, epochs=3, batch_size=6, verbose=0, callbacks=[pt.callbacks.TerminateOnNaN()])
    with pytest.raises(pt.errors.DataError, match="batch_size was 6 and is now 5"):
        load().fit(X, Y, epochs=3, batch_size=5, verbose=0)
    with pytest.raises(TrainingError, match="from a Loader, now from a Stream"):
        load().fit(batches, epochs=3, verbose=0)
    with pytest.raises(UsageError, match="no training that could go on"):
        fresh(tmp_path).fit(X, Y, verbose=0, resume=True)
    model = load()
    assert model.fit(X, Y, epochs=1, batch_size=5, verbose=0, resume=False).epoch == [0]


def test_callback_states_that_cannot_be_kept(tmp_path):
    class Odd(pt.Callback):
        def state(self):
            return {"thing": object()}

    model = fresh(tmp_path)
    model.fit(X, Y, batch_size=6, verbose=0, callbacks=[Odd()])
    with pytest.raises(UsageError, match="a callback's state must consist of numbers"):
        model.save(tmp_path / "m.h5")
