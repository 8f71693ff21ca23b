"""Every argument of Keras 3.15.1 is taken or refused in words: of methods and of constructors. The tables are made by
`inspect` from the installed Keras."""

import inspect

import keras
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ShapeError, UsageError
from prototorch.schema.block import Block
from prototorch.schema.neutral_arguments import neutral_arguments, positional_names

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X[:, :1]
FAMILIES = [
    (keras.layers, pt.layers.Layer),
    (keras.losses, pt.losses.Loss),
    (keras.metrics, pt.metrics.Metric),
    (keras.optimizers, pt.optimizers.Optimizer),
    (keras.optimizers.schedules, pt.optimizers.schedules.Schedule),
    (keras.callbacks, pt.callbacks.Callback),
    (keras.initializers, pt.initializers.Initializer),
    (keras.regularizers, pt.regularizers.Regularizer),
    (keras.constraints, pt.constraints.Constraint),
]
VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def pairs():
    """Classes of both by the same name, with Keras' parameters."""
    for module, root in FAMILIES:
        for name, ours in root.members().items():
            theirs = getattr(module, name, None)
            if inspect.isclass(theirs) and ours.__module__.startswith("prototorch."):
                parameters = list(inspect.signature(theirs.__init__).parameters.values())[1:]
                yield ours, [p for p in parameters if p.kind not in VARIADIC]


PAIRS = [pytest.param(*pair, id=f"{pair[0].family_registry.name}-{pair[0].__name__}") for pair in pairs()]


@pytest.mark.parametrize(("ours", "parameters"), PAIRS)
def test_every_argument_of_a_constructor_is_known(ours, parameters):
    """It is a field, or has a hint and a default of Keras that changes nothing."""
    known = set(ours.specs()) | set(neutral_arguments(ours)) | set(inspect.signature(ours).parameters)
    for parameter in parameters:
        assert parameter.name in known, parameter.name
        table = {} if parameter.name in ours.specs() else neutral_arguments(ours)
        if parameter.name in table and parameter.default is not parameter.empty:
            assert table[parameter.name].accepts(parameter.default), parameter.name


@pytest.mark.parametrize(("ours", "parameters"), PAIRS)
def test_arguments_by_position_mean_what_they_mean_in_keras(ours, parameters):
    if ours.__init__ is not Block.__init__:
        return
    theirs = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    mine = positional_names(ours)
    assert [a for a, b in zip(mine, theirs, strict=False) if a != b] == []
    required = [p.name for p in parameters if p.default is p.empty]
    assert set(required) <= set(mine)


def test_a_refused_argument_says_what_to_do():
    assert pt.layers.Conv2D(4, 3, data_format="channels_last").data_format == "channels_last"
    assert pt.layers.Conv2D(4, 3, dtype="float32") == pt.layers.Conv2D(4, 3)
    with pytest.raises(UsageError, match=r"at most 4 arguments by position \(filters, kernel_size, strides, padding\)"):
        pt.layers.Conv2D(4, 3, 1, "same", "channels_last")
    with pytest.raises(UsageError, match="LSTM: stateful=True is not possible here: states are outputs"):
        pt.layers.LSTM(4, stateful=True)
    with pytest.raises(UsageError, match="reduction='sum' is not possible here: a loss is the mean over the samples"):
        pt.losses.Huber(reduction="sum")
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    net = model(units=2, loss=loss, metrics=[pt.metrics.MeanIoU(5)])
    with pytest.raises(ShapeError, match=r"MeanIoU: expected an output with num_classes=5 .* with 2"):
        net.evaluate(X, np.zeros(8, int))
    assert pt.callbacks.EarlyStopping("loss", 0.1, 3).patience == 3
    assert pt.optimizers.SGD(0.1, 0.9, True, None, 1.0).clipnorm == 1.0


# ---------------------------------------------------------------- methods


def model(units=1, **compiled):
    net = pt.Sequential([pt.Input((3,)), pt.layers.Dense(units, name="out")])
    net.compile("sgd", **{"loss": "mse", **compiled})
    return net


METHODS = {
    "compile": {"optimizer": "sgd", "loss": "mse"},
    "fit": {"x": X, "y": Y, "verbose": 0},
    "evaluate": {"x": X, "y": Y},
    "predict": {"x": X},
    "train_on_batch": {"x": X, "y": Y},
    "test_on_batch": {"x": X, "y": Y},
    "predict_on_batch": {"x": X},
    "summary": {"print_fn": lambda line: None},
    "save_weights": {},
    "save": {},
}
CALLS = [
    (method, p.name, p.default)
    for method in METHODS
    for p in list(inspect.signature(getattr(keras.Model, method)).parameters.values())[1:]
    if p.kind not in VARIADIC and p.name not in ("filepath", "x", "y")
]


@pytest.mark.parametrize(("method", "name", "default"), CALLS)
def test_every_argument_of_a_method_is_taken_with_the_default_of_keras(method, name, default, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    given = {**METHODS[method], **({} if default is inspect.Parameter.empty else {name: default})}
    if method.startswith("save"):
        given["filepath"] = tmp_path / "m.h5"
    if name == "verbose":
        given["verbose"] = 0 if method == "fit" else default
    getattr(model(), method)(**given)


@pytest.mark.parametrize("method", METHODS)
def test_arguments_of_methods_are_in_the_order_of_keras(method):
    if method in ("compile", "summary"):
        return  # loss_weights, and Keras' columns of text: by name alone
    theirs = [p.name for p in inspect.signature(getattr(keras.Model, method)).parameters.values()][1:]
    mine = inspect.signature(getattr(pt.Model, method)).parameters.values()
    mine = [p.name for p in list(mine)[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert mine == ["path" if n == "filepath" else n for n in theirs][: len(mine)]


WRONG = {
    "compile": [
        ({"run_eagerly": True}, "run_eagerly=True is not possible here: a step is always planned"),
        ({"steps_per_execution": 8}, "steps_per_execution=8 is not possible here: leave it out"),
        ({"metric": ["mae"]}, r"Model\.compile has no argument 'metric'\. Did you mean 'metrics'"),
        ({"lr": 0.1}, r"Model\.compile has no argument 'lr'"),
    ],
    "fit": [
        ({"workers": 4}, "workers=4 is not possible here: the loader chooses its threads"),
        ({"batchsize": 4}, "no argument 'batchsize'. Did you mean 'batch_size'"),
        ({"verbose": "loud"}, "verbose must be"),
    ],
    "evaluate": [({"verbose": 3}, "verbose must be 'auto', 0"), ({"batch": 3}, "no argument 'batch'")],
    "predict": [({"verbose": "yes"}, "verbose must be 'auto', 0"), ({"workers": 2}, "the loader chooses")],
    "train_on_batch": [({"reset_metrics": True}, "train_on_batch has no argument 'reset_metrics'")],
    "summary": [({"show_trainable": True}, "the last line has the number of trained parameters")],
}


@pytest.mark.parametrize("method", WRONG)
def test_other_arguments_of_a_method_are_refused_in_words(method):
    for given, message in WRONG[method]:
        with pytest.raises(UsageError, match=message):
            getattr(model(), method)(**{**METHODS[method], **given})


def test_too_many_arguments_by_position():
    with pytest.raises(UsageError, match=r"Model\.predict_on_batch: too many positional arguments"):
        model().predict_on_batch(X, 3)
    with pytest.raises(UsageError, match=r"Model\.predict: missing a required argument: 'x'"):
        model().predict()


def test_fit_by_position_and_old_names():
    assert len(model().fit(X, Y, 4, 2, 0).epoch) == 2
    assert len(model().fit(X, Y, nb_epoch=3, verbose=0).epoch) == 3


def test_members_of_a_keras_model_are_there_or_have_a_hint():
    net = model()
    for name, hint in (
        ("to_json", "to_text"),
        ("train_step", "train_on_batch"),
        ("sav", "'save'"),
    ):
        with pytest.raises(AttributeError, match=rf"SequentialModel has no attribute '{name}'.*{hint}"):
            getattr(net, name)
    assert not hasattr(net, "to_json")


def test_arguments_of_an_input():
    assert pt.Input(shape=(3,), batch_size=None, dtype=None, sparse=None, name="x") is not None
    with pytest.raises(UsageError, match="batch_size=32 is not possible here: a net takes batches of any size"):
        pt.Input((3,), batch_size=32)
    for name in [p for p in inspect.signature(keras.Input).parameters if p != "shape"]:
        pt.Input((3,), **{name: inspect.signature(keras.Input).parameters[name].default})


def test_verbose_prints_to_standard_error(capsys):
    measured = model(metrics=["mae"])
    measured.evaluate(X, Y)
    assert capsys.readouterr().err == ""
    measured.evaluate(X, Y, verbose=1)
    measured.predict(X, verbose=1)
    text = capsys.readouterr().err
    assert "mae" in text
    assert "8 samples predicted in " in text


def test_every_short_name_of_a_loss_or_metric_is_known():
    from keras.src.losses import ALL_OBJECTS_DICT as LOSSES
    from keras.src.metrics import ALL_OBJECTS_DICT as METRICS

    for objects, root in ((LOSSES, pt.losses.Loss), (METRICS, pt.metrics.Metric)):
        short = [name for name, value in objects.items() if name != getattr(value, "__name__", "")]
        names = root.family_registry.names()
        ours = {name for name in short if any(c.__name__ in names for c in (objects[name],) if inspect.isclass(c))}
        assert {n for n in ours if n not in names} == set()
    assert {"bce", "mse", "mae", "mape", "msle", "kld", "BCE", "MSE", "KLD"} <= set(
        pt.losses.Loss.family_registry.names()
    )
