"""fit, evaluate and predict: what they may be given, and what they make of it."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.checks import DataWarning
from prototorch.errors import DataError, UsageError

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 5)).astype(np.float32)
Y = np.arange(30) % 3
SPARSE = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def model(optimizer="sgd", **more) -> pt.Model:
    made = pt.Sequential([pt.Input((5,)), pt.layers.Dense(4, "relu"), pt.layers.Dropout(0.2), pt.layers.Dense(3)])
    made.compile(optimizer, SPARSE, ["accuracy"], **more)
    return made


def two(**more) -> pt.Model:
    a, b = pt.Input((5,), name="a"), pt.Input((5,), name="b")
    x = pt.layers.Concatenate()(a, b)
    made = pt.Model([a, b], [pt.layers.Dense(3, name="kind")(x), pt.layers.Dense(1, name="score")(x)])
    made.compile("sgd", **({"loss": {"kind": SPARSE, "score": "mse"}} | more))
    return made


def weights_of(made: pt.Model) -> list[bytes]:
    return [a.tobytes() for a in made.get_weights().values()]


def fit(made, x=X, y=Y, **more):
    return made.fit(x, y, **{"verbose": 0, "epochs": 2, "batch_size": 8, **more})


def test_same_seed_same_bits():
    runs = []
    for seed in (3, 3, 4):
        made = model("adam", seed=seed)
        history = fit(made, validation_split=0.2)
        runs.append((weights_of(made), history.history))
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


def stream():
    for i in range(0, 30, 8):
        yield X[i : i + 8], Y[i : i + 8]


class Batches:
    """A sequence of batches, as Keras' PyDataset."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return X[8 * i : 8 * i + 8], Y[8 * i : 8 * i + 8]


class Iterates:
    """What only says __iter__, as other libraries' loaders."""

    def __iter__(self):
        return iter(list(stream()))


def endless():
    while True:
        yield from stream()


STREAMS = {
    "a function": (stream, {}),
    "a sequence": (Batches(), {}),
    "an iterable": (Iterates(), {}),
    "a generator": (None, {"steps_per_epoch": 4}),
}


@pytest.mark.parametrize(("source", "more"), STREAMS.values(), ids=STREAMS)
def test_batches_from_anywhere_train_as_arrays_do(source, more):
    plain, streamed = model(), model()
    wanted = fit(plain, shuffle=False).history
    found = fit(streamed, endless() if source is None else source, None, **more).history
    assert weights_of(plain) == weights_of(streamed)
    assert wanted == found


def test_streams_evaluate_and_predict():
    made = model()
    fit(made)
    assert made.evaluate(stream) == made.evaluate(X, Y, batch_size=8)
    assert (made.predict(stream) == made.predict(X, batch_size=8)).all()
    assert (made.predict(lambda: (x for x, _ in stream())) == made.predict(X, batch_size=8)).all()
    assert (made.predict(endless(), steps=2) == made.predict(X[:16], batch_size=8)).all()
    assert made.evaluate(endless(), steps=2) == made.evaluate(X[:16], Y[:16], batch_size=8)
    history = fit(made, stream, None, validation_data=stream, epochs=1)
    assert history.history["val_loss"] == [made.evaluate(X, Y, batch_size=8)["loss"]]


def test_dicts_and_weights_in_a_stream():
    plain, streamed = two(), two()
    x, y = {"a": X, "b": -X}, {"kind": Y, "score": X[:, :1]}
    w = np.linspace(0, 1, 30)

    def batches():
        for i in range(0, 30, 10):
            at = slice(i, i + 10)
            yield {k: v[at] for k, v in x.items()}, {k: v[at] for k, v in y.items()}, w[at]

    fit(plain, x, y, sample_weight=w, batch_size=10, shuffle=False)
    streamed.fit(batches, epochs=2, verbose=0)
    assert weights_of(plain) == weights_of(streamed)


def test_a_stream_through_the_models_own_preparation():
    def made():
        net = pt.Sequential(
            [pt.Input((4,)), pt.layers.Dense(3)],
            preprocess=[pt.layers.Rescaling(0.1), pt.layers.Cropping1D(1), pt.layers.Flatten()],
        )
        net.compile("sgd", SPARSE)
        return net

    raw = rng.integers(0, 99, (30, 4, 2)).astype(np.uint8)
    plain, streamed = made(), made()
    plain.fit(raw, Y, batch_size=10, verbose=0, shuffle=False)
    streamed.fit(lambda: ((raw[i : i + 10], Y[i : i + 10]) for i in (0, 10, 20)), verbose=0)
    assert weights_of(plain) == weights_of(streamed)


def test_lists_and_dicts_of_inputs_and_outputs():
    a, b = two(), two()
    fit(a, [X, -X], [Y, X[:, :1]])
    history = fit(b, {"b": -X, "a": X}, {"score": X[:, :1], "kind": Y})
    assert weights_of(a) == weights_of(b)
    assert set(history.history) == {"loss", "kind_loss", "score_loss", "learning_rate"}
    assert set(a.predict([X, X])) == {"kind", "score"}


def test_loss_weights_and_metrics_of_outputs():
    metrics = {"kind": ["accuracy", pt.metrics.SparseTopKCategoricalAccuracy(2)], "score": "mae"}
    made = two(loss_weights={"kind": 0.5, "score": 2.0}, metrics=metrics)
    found = made.evaluate([X, X], [Y, X[:, :1]])
    assert found["loss"] == pytest.approx(0.5 * found["kind_loss"] + 2 * found["score_loss"], rel=1e-6)
    names = {"kind_accuracy", "kind_sparse_top_k_categorical_accuracy", "score_mae"}
    assert set(found.keys()) == {"loss", "kind_loss", "score_loss", *names}
    listed = two(loss=[SPARSE, "mse"], loss_weights=[0.5, 2.0])
    # without the metrics other ops are fused, which may round otherwise
    assert listed.evaluate([X, X], [Y, X[:, :1]])["loss"] == pytest.approx(found["loss"], rel=1e-6)
    assert listed.to_text().count("weight: ") == 2
    alone = two(loss={"score": "mse"})
    assert set(alone.evaluate([X, X], X[:, :1]).keys()) == {"loss"}


def test_validation():
    made = model()
    history = fit(made, validation_split=0.2, epochs=3, validation_freq=2).history
    assert (len(history["loss"]), len(history["val_loss"])) == (3, 1)
    history = fit(made, validation_data=(X[:9] + 1, Y[:9]), epochs=1, validation_batch_size=4).history
    assert history["val_loss"] == [made.evaluate(X[:9] + 1, Y[:9], batch_size=4)["loss"]]
    w = np.linspace(0, 1, 9)
    history = fit(made, validation_data=(X[:9] + 1, Y[:9], w), epochs=1).history
    assert history["val_loss"] == [made.evaluate(X[:9] + 1, Y[:9], sample_weight=w, batch_size=8)["loss"]]
    history = fit(made, validation_data=(X[:9] + 1, Y[:9]), validation_steps=1, epochs=1).history
    assert history["val_loss"] == [made.evaluate(X[:8] + 1, Y[:8], batch_size=8)["loss"]]
    split = model()
    assert fit(split, validation_split=0.2).history.keys() >= {"val_loss", "val_accuracy"}
    held = model()
    fit(held, X[:24], Y[:24])
    assert weights_of(split) == weights_of(held)  # the last samples are held back, as in Keras


def test_samples_in_both_sets_are_told():
    wide = rng.normal(size=(30, 9)).astype(np.float32)
    made = pt.Sequential([pt.Input((9,)), pt.layers.Dense(3)])
    made.compile("sgd", SPARSE)
    with pytest.warns(DataWarning, match="validation samples are training samples too"):
        fit(made, wide, Y, validation_data=(wide[:9], Y[:9]))


def test_weights_of_samples_and_classes():
    weights = {0: 1.0, 1: 0.0, 2: 3.0}
    by_class, by_sample, absent = model(), model(), model()
    fit(by_class, class_weight=weights)
    fit(by_sample, sample_weight=np.array([weights[k] for k in Y]))
    fit(absent, class_weight={1: 0.0, 2: 3.0})  # a class that is not named has 1
    assert weights_of(by_class) == weights_of(by_sample) == weights_of(absent)
    found = model().evaluate(X, Y, sample_weight=np.zeros(30) + 0.5)
    assert found["loss"] == pytest.approx(model().evaluate(X, Y)["loss"] / 2, rel=1e-6)
    assert found["accuracy"] == model().evaluate(X, Y)["accuracy"]  # metrics do not know the weights
    one_hot = model()
    one_hot.compile("sgd", pt.losses.CategoricalCrossentropy(from_logits=True))
    fit(one_hot, y=np.eye(3)[Y], class_weight=weights)
    for a, b in zip(one_hot.get_weights().values(), by_class.get_weights().values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # two losses, one meaning: float32 rounding


def test_steps_per_epoch():
    made = model()
    assert len(fit(made, epochs=3, steps_per_epoch=2).epoch) == 3
    assert made.trainer.step == 6
    assert fit(made, epochs=1, steps_per_epoch=11).epoch == [0]  # more than there are: round again
    assert made.trainer.step == 17


def test_shuffle_and_epochs():
    seen = []

    class Look(pt.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((self.model.trainer.epoch, batch))

    assert fit(model(), epochs=5, initial_epoch=3, callbacks=[Look()]).epoch == [3, 4]
    assert seen == [(e, b) for e in (3, 4) for b in range(4)]
    a, b, c = model(), model(), model()
    fit(a, shuffle=False)
    fit(b, shuffle=False)
    fit(c)
    assert weights_of(a) == weights_of(b) != weights_of(c)


def test_one_batch_at_a_time():
    made, other = model(), model()
    before = made.test_on_batch(X, Y)
    assert before == made.evaluate(X, Y, batch_size=30)
    first = made.train_on_batch(X, Y)
    assert set(first.keys()) == {"loss", "accuracy"}
    history = fit(other, batch_size=30, epochs=1, shuffle=False)
    assert weights_of(made) == weights_of(other)
    assert history.history["loss"] == [first["loss"]]
    assert (made.predict_on_batch(X) == made.predict(X, batch_size=30)).all()
    made.train_on_batch(X, Y, sample_weight=np.ones(30), class_weight={0: 2.0})
    assert made.trainer.step == 2


def test_training_by_batches_is_saved_with_its_step(tmp_path):
    a = model("adam")
    for _ in range(3):
        a.train_on_batch(X, Y)
    a.save(tmp_path / "a.h5")
    b = pt.load_model(tmp_path / "a.h5")
    assert b.trainer.step == 3
    assert a.train_on_batch(X, Y) == b.train_on_batch(X, Y)
    assert weights_of(a) == weights_of(b)


def test_predict():
    made = model()
    assert made.predict(X).shape == (30, 3)
    assert made.predict(X.astype(np.float64)[:1]).dtype == np.float32
    assert made.predict(X.tolist(), batch_size=7).shape == (30, 3)
    assert made.predict(X, steps=2, batch_size=4).shape == (8, 3)
    np.testing.assert_allclose(
        made.predict(X, batch_size=7), made.predict(X), rtol=1e-5, atol=1e-6
    )  # other BLAS blocks
    bare = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2)])
    assert bare.predict(X).shape == (30, 2)  # nothing is compiled


ERRORS = {
    "no loss": (
        lambda: fit(pt.Sequential([pt.Input((5,)), pt.layers.Dense(2)])),
        UsageError,
        "no loss yet: call model.compile",
    ),
    "no data": (lambda: model().fit(verbose=0), UsageError, "no data: give x and y"),
    "no targets": (
        lambda: fit(model(), y=None),
        DataError,
        r"the model's outputs are dense_2; the data's targets are none",
    ),
    "unequal lengths": (lambda: fit(model(), y=Y[:9]), DataError, "do not have the same number of rows"),
    "wrong shape": (
        lambda: fit(model(), X[:, :4]),
        DataError,
        r"input 'input' has shape \[5\].*shape \[4\] \(float32\)",
    ),
    "wrong shape in predict": (lambda: model().predict(X[:, :4]), DataError, r"has shape \[5\]"),
    "labels from 1": (lambda: fit(model(), y=Y + 1), DataError, "count from 0"),
    "labels out of range": (lambda: fit(model(), y=Y * 9), DataError, r"is 9; .* has 3 classes, 0 to 2"),
    "labels out of range in a stream": (
        lambda: model().fit(lambda: iter([(X, Y * 9)]), verbose=0),
        DataError,
        r"is 9; .*has 3 classes",
    ),
    "one-hot for classes": (lambda: fit(model(), y=np.eye(3)[Y]), DataError, "it looks like one-hot targets"),
    "not a number": (lambda: fit(model(), X * np.nan), DataError, "must be finite"),
    "texts": (lambda: fit(model(), [["a"] * 5] * 30), DataError, "holds text, not numbers"),
    "empty": (lambda: fit(model(), X[:0], Y[:0]), DataError, "empty"),
    "empty predict": (lambda: model().predict(X[:0]), DataError, "empty"),
    "empty stream": (lambda: model().fit(lambda: iter([]), verbose=0), DataError, "gives no batches"),
    "used generator": (lambda: model().fit(stream(), epochs=2, verbose=0), DataError, "pass a function instead"),
    "stream too short": (
        lambda: model().fit(stream(), steps_per_epoch=9, verbose=0),
        DataError,
        "ends after 4 batches, expected 9",
    ),
    "split of a stream": (
        lambda: model().fit(stream, validation_split=0.5, verbose=0),
        UsageError,
        "give validation_data",
    ),
    "targets beside a stream": (lambda: model().fit(stream, Y, verbose=0), UsageError, "y is given together with data"),
    "odd validation data": (lambda: fit(model(), validation_data=(X, Y, Y, Y)), UsageError, "not a tuple of 4"),
    "unknown output in loss": (
        lambda: two(loss={"knid": "mse"}),
        UsageError,
        r"no output 'knid'; it has kind, score.*[Dd]id you mean 'kind'",
    ),
    "unknown output in metrics": (lambda: two(metrics={"knid": "mse"}), UsageError, "no output 'knid'"),
    "metric without a loss": (
        lambda: two(loss={"kind": SPARSE}, metrics={"score": "mse"}),
        UsageError,
        "has no loss, and so no",
    ),
    "unknown output in loss_weights": (lambda: two(loss_weights={"knid": 1.0}), UsageError, "names 'knid'"),
    "one loss for two outputs": (lambda: two(loss="mse"), UsageError, r"has 2 outputs \(kind, score\)"),
    "unknown loss": (lambda: model().compile("sgd", "mze"), UsageError, "mze"),
    "unknown optimizer": (lambda: model().compile("adma", "mse"), UsageError, "[Dd]id you mean"),
    "one array for two inputs": (lambda: fit(two(), X, [Y, Y]), DataError, r"1 array for 2 inputs \('a', 'b'\)"),
    "unknown input": (lambda: fit(two(), {"a": X, "c": X}, [Y, Y]), DataError, r"the model's inputs are 'a', 'b'"),
    "class_weight for two outputs": (lambda: fit(two(), [X, X], [Y, Y], class_weight={0: 1}), UsageError, "one loss"),
    "class_weight without numbers": (lambda: fit(model(), class_weight={0: "a"}), UsageError, "class_weight"),
    "sample_weight shape": (lambda: fit(model(), sample_weight=X), DataError, "one number per sample"),
    "negative weight": (lambda: fit(model(), sample_weight=np.zeros(30) - 1), DataError, "must not be negative"),
    "epochs": (lambda: fit(model(), epochs=0), UsageError, r"fit\.epochs|Fit\.epochs"),
    "batch size": (lambda: fit(model(), batch_size=-1), UsageError, "batch_size"),
    "a source that is none": (lambda: model().fit("no-such-thing", verbose=0), DataError, "no-such-thing"),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("act", "kind", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_say_what_is_wrong(act, kind, message):
    with pytest.raises(kind, match=message):
        act()


def test_oddities_are_told():
    with pytest.warns(DataWarning, match="all samples have the dense_2 0"):
        fit(model(), y=Y * 0)


def test_evaluate_verbose(capsys):
    model().evaluate(X, Y, verbose=1)
    assert "loss" in capsys.readouterr().err


def test_data_block_and_names(tmp_path):
    np.savez(tmp_path / "d.npz", x=X, y=Y)
    a, b, c = model(), model(), model()
    fit(a)
    fit(b, str(tmp_path / "d.npz"), None)
    fit(c, pt.Data(source=str(tmp_path / "d.npz")), None)
    assert weights_of(a) == weights_of(b) == weights_of(c)
