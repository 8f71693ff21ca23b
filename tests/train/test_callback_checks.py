"""Callbacks are checked against the names that a fit will log before its first step."""

from __future__ import annotations

import pytest

import prototorch as pt
from prototorch import callbacks as C
from prototorch.errors import ModelWarning, UsageError
from tests.train.test_callbacks import X, Y, model

TEXT = """
name: "tiny"
input { name: "x"  shape: [4] }
Dense { units: 2 }
compile { loss: mse  metrics: [mae] }
fit { data { source: "t.csv" }  validation_split: 0.25  epochs: 2  batch_size: 4  callbacks: CALLBACK }
"""


def refused(*callbacks: C.Callback, **options: object) -> str:
    """The message with which a fit refuses callbacks; asserts that no step was made."""
    made = model()
    with pytest.raises(UsageError) as caught:
        made.fit(X, Y, epochs=2, batch_size=8, verbose=0, callbacks=list(callbacks), **options)
    assert made.trainer.step == 0
    return str(caught.value)


def arguments_of(kind: str) -> dict[str, object]:
    return {"filepath": "a.h5", "save_best_only": True} if kind == "ModelCheckpoint" else {}


KINDS = ("EarlyStopping", "ReduceLROnPlateau", "ModelCheckpoint")


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_will_not_exist_is_found_before_the_first_step(kind):
    make = getattr(C, kind)
    assert refused(make(monitor="val_los", **arguments_of(kind)), validation_split=0.25) == (
        f"{kind} monitors 'val_los', but this fit logs loss, accuracy, val_loss, val_accuracy, learning_rate. "
        "Did you mean 'val_loss'?"
    )
    message = refused(make(**arguments_of(kind)))
    assert message.startswith(f"{kind} monitors 'val_loss', but this fit logs loss, accuracy, learning_rate.")
    assert "give validation_data or validation_split" in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_direction_that_nobody_declares_is_found_before_the_first_step(kind):
    message = refused(getattr(C, kind)(monitor="learning_rate", **arguments_of(kind)))
    assert "cannot tell whether a smaller or a larger 'learning_rate' is better" in message


def test_epochs_that_are_never_validated_count_as_no_validation():
    with pytest.warns(ModelWarning, match="validation_freq=3 is more than the 2 epochs of this fit"):
        message = refused(C.EarlyStopping(), validation_data=(X, Y + 0), validation_freq=3)
    assert "There are no validation data" in message


def test_the_names_in_a_checkpoint_path_are_found_before_the_first_step():
    assert "names 'val_los'" in refused(C.ModelCheckpoint("{epoch}-{val_los:.2f}.h5"), validation_split=0.25)
    assert "names 'batch'" in refused(C.ModelCheckpoint("{epoch}-{batch}.h5"))
    message = refused(
        C.ModelCheckpoint("a.h5", save_best_only=True, save_freq=2), validation_data=(X, Y), validation_split=None
    )
    assert "Validation results are known after an epoch only" in message
    assert refused(C.ModelCheckpoint("a.h5", save_best_only=True, monitor="val_loss", save_freq=2))


def test_a_callback_before_it_may_add_the_log(tmp_path):
    class AddsLogs(C.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["score"] = float(epoch)

    stop = C.EarlyStopping(monitor="score", mode="max", patience=5)
    save = C.ModelCheckpoint(str(tmp_path / "{score:.0f}.h5"), save_weights_only=True)
    made = model()
    made.fit(X, Y, epochs=2, batch_size=8, verbose=0, callbacks=[AddsLogs(), stop, save])
    assert (stop.best, stop.best_epoch) == (1.0, 1)
    assert (tmp_path / "1.h5").exists()
    assert "monitors 'score'" in refused(stop, AddsLogs())


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        ('EarlyStopping { monitor: "val_los" }', "Did you mean 'val_loss'?"),
        ('ReduceLROnPlateau { monitor: "accuracy" }', "this fit logs loss, mae, val_loss, val_mae, learning_rate"),
        ('ModelCheckpoint { filepath: "{epoch}-{val_acc}.h5" }', "names 'val_acc'"),
        ('CSVLogger { filename: "logs" }', "is a folder"),
    ],
)
def test_a_text_is_refused_before_the_first_step(tmp_path, monkeypatch, callback, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/tiny/logs").mkdir(parents=True)
    rows = "".join(f"{i},{i * i % 7},{i % 3},{i % 5},{i / 2},{i % 4}\n" for i in range(40))
    (tmp_path / "t.csv").write_text("a,b,c,d,y,z\n" + rows)
    (tmp_path / "t.proto").write_text(
        TEXT.replace("CALLBACK", callback).replace('"t.csv" }', '"t.csv"  label: ["y", "z"] }')
    )
    made = pt.load_model("t.proto")
    with pytest.raises(UsageError) as caught:
        made.fit(verbose=0)
    assert expected in str(caught.value)
    assert made.trainer.step == 0
