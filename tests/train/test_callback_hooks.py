"""Hooks of callbacks are called as Keras 3.15.1 calls them: which, in what order, with which arguments."""

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError, UsageError
from prototorch.model.load import model_from_text
from prototorch.train.callback_list import CallbackList

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3)).astype(np.float32)
Y = RNG.normal(size=(8, 1)).astype(np.float32)
HOOKS = sorted(n for n in dir(keras.callbacks.Callback) if n.startswith("on_"))


def ours():
    net = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1)])
    net.compile("sgd", "mse", metrics=["mae"])
    return net


def theirs():
    net = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    net.compile("sgd", "mse", metrics=["mae"])
    return net


def recorder(base, names):
    """A callback class that records each call: the hook, the epoch or batch, and the names in the logs."""

    def hook(name):
        if "epoch" in name or "batch" in name:
            return lambda self, index, logs: self.calls.append((name, index, *log_names(logs)))
        return lambda self, logs: self.calls.append((name, *log_names(logs)))

    def log_names(logs):
        assert isinstance(logs, dict)
        return sorted(n for n in logs if n not in ("learning_rate", "batch_loss"))

    def keep(name):
        return lambda self, value: (getattr(base, name)(self, value), self.calls.append((name,)))[1]

    members = {name: hook(name) for name in names}
    return type("Recorder", (base,), {**members, "set_model": keep("set_model"), "calls": None})


def recorded(make, callback_class, base, names):
    net, callback = make(), callback_class(base, names)()
    callback.calls = []
    net.fit(X, Y, batch_size=4, epochs=2, validation_data=(X, Y), callbacks=[callback], verbose=0)
    callback.calls.append("evaluate")
    net.evaluate(X, Y, batch_size=4, callbacks=[callback], verbose=0)
    callback.calls.append("predict")
    net.predict(X, batch_size=4, callbacks=[callback], verbose=0)
    return callback.calls


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras on torch
@pytest.mark.parametrize("names", [HOOKS, ["on_batch_begin", "on_batch_end", "on_train_end"]], ids=["all", "batch"])
def test_the_hooks_are_those_of_keras(names):
    got = recorded(ours, recorder, pt.Callback, names)
    assert got == recorded(theirs, recorder, keras.callbacks.Callback, names)
    assert len(got) > 10


def test_the_logs_at_the_end_are_those_of_the_last_epoch():
    seen = []
    end = pt.callbacks.LambdaCallback(on_train_end=lambda logs: seen.append(logs))
    history = ours().fit(X, Y, epochs=2, verbose=0, callbacks=[end])
    assert seen[0]["loss"] == history.history["loss"][-1]


def test_model_and_params_are_there():
    class Facts(pt.Callback):
        def set_params(self, params):
            super().set_params(params)
            self.seen = dict(params)

        def on_train_begin(self, logs):
            assert self.model is net
            assert self.params["epochs"] == 3

        def on_epoch_end(self, epoch, logs):
            self.model.stop_training = True

    facts, net = Facts(), ours()
    assert len(net.fit(X, Y, epochs=3, batch_size=4, verbose=0, callbacks=[facts]).epoch) == 1
    assert facts.seen["steps"] == 2


def test_a_hook_that_nobody_defines_costs_nothing():
    calls = CallbackList([pt.callbacks.TerminateOnNaN(), pt.callbacks.EarlyStopping()], None)
    assert calls.hooks("on_train_batch_end") == []
    assert len(calls.hooks("on_epoch_end")) == 2


def test_a_hook_that_does_not_take_its_arguments_is_found_before_the_first_step():
    class Short(pt.Callback):
        def on_epoch_end(self, epoch):
            """It lacks the logs."""

    with pytest.raises(UsageError, match=r"Short\.on_epoch_end is called with \(epoch, logs\), but does not take them"):
        ours().fit(X, Y, callbacks=[Short()], verbose=0)


def test_lambda_callback_by_position_and_its_mistakes():
    seen = []
    one = pt.callbacks.LambdaCallback(lambda epoch, logs: seen.append(epoch), None, on_batch_end=None)
    ours().fit(X, Y, epochs=2, verbose=0, callbacks=[one])
    assert seen == [0, 1]
    with pytest.raises(UsageError, match=r"no hook 'on_epoch_ends'\. Did you mean 'on_epoch_end'"):
        pt.callbacks.LambdaCallback(on_epoch_ends=print)
    with pytest.raises(UsageError, match="on_epoch_end must be a function, not 3"):
        pt.callbacks.LambdaCallback(on_epoch_end=3)


def test_verbose_callbacks_say_what_they_do(capsys, tmp_path):
    stop = pt.callbacks.EarlyStopping(monitor="loss", mode="max", verbose=1)
    plateau = pt.callbacks.ReduceLROnPlateau(monitor="loss", mode="max", patience=1, verbose=1)
    rate = pt.callbacks.LearningRateScheduler(lambda epoch: 0.01, verbose=1)
    save = pt.callbacks.ModelCheckpoint(str(tmp_path / "m.h5"), verbose=1)
    ours().fit(X, Y, epochs=2, verbose=0, callbacks=[plateau, rate, save, stop])
    text = capsys.readouterr().err
    for part in (
        "EarlyStopping: stops after epoch 2",
        "ReduceLROnPlateau: after epoch 2 the learning rate is 0.001",
        "LearningRateScheduler: epoch 1: the learning rate is 0.01",
        "ModelCheckpoint: epoch 1: saves ",
    ):
        assert part in text


NOT_IN_A_TEXT = {
    'LearningRateScheduler { schedule: "x" }': "is a Python function, which a text cannot hold; a schedule is written",
    "LearningRateScheduler { schedule: 9223372036854775807 }": "is a Python function, which a text cannot hold",
    "History { }": "History is what fit returns",
    "LambdaCallback { }": "LambdaCallback consists of Python functions, which a text cannot hold",
    'CSVLogger { filename: "a" separator: "train" }': "separator must be one character",
}


@pytest.mark.parametrize("text", NOT_IN_A_TEXT)
def test_what_a_text_cannot_declare_is_reported_with_its_place(text):
    head = 'input { name: "x" shape: [3] }\nDense { units: 1 }\ncompile { loss: mse }\n'
    with pytest.raises(TextError) as caught:
        model_from_text(f"{head}fit {{ callbacks: [{text}] }}")
    assert NOT_IN_A_TEXT[text] in str(caught.value)
    assert ":4:" in str(caught.value)
