"""The model as an object: layers, names, summary, texts, weights, files."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ModelFileError, ShapeError, UsageError, WeightsError

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 5)).astype(np.float32)
Y = np.arange(20) % 3
SPARSE = pt.losses.SparseCategoricalCrossentropy(from_logits=True)


def model(units: int = 4) -> pt.Model:
    hidden = pt.layers.Dense(units, "relu", name="hidden")
    made = pt.Sequential([pt.Input((5,)), hidden, pt.layers.BatchNormalization(), pt.layers.Dense(3)], name="small")
    made.compile("adam", SPARSE, ["accuracy"])
    return made


def trained() -> pt.Model:
    made = model()
    made.fit(X, Y, epochs=2, batch_size=10, verbose=0)
    return made


def test_names_and_layers():
    made = model()
    assert (made.name, made.inputs, made.outputs) == ("small", ("input",), ("dense_1",))
    assert [layer.name for layer in made.layers] == ["hidden", "batch_normalization_1", "dense_1"]
    assert made.get_layer("hidden").units == made.get_layer(index=0).units == 4
    assert made.get_layer(index=-1).name == "dense_1"
    with pytest.raises(UsageError, match=r"no layer 'hiden'.*[Dd]id you mean 'hidden'"):
        made.get_layer("hiden")
    with pytest.raises(UsageError, match="there is no layer 3; the model has 3"):
        made.get_layer(index=3)
    with pytest.raises(UsageError, match="a name or an index"):
        made.get_layer()
    assert repr(made) == "<Model 'small': 3 layers, input -> dense_1>"
    assert made.optimizer == pt.optimizers.Adam()


def test_summary(capsys):
    made = model()
    made.summary()
    text = capsys.readouterr().out
    for part in ("hidden", "BatchNormalization", "[3]", "small: 55 parameters, 47 of them trained"):
        assert part in text
    assert "memory" not in text
    made.summary(batch=64, print_fn=(lines := []).append)
    assert "memory of a training step at batch size 64" in lines[0]
    assert made.count_params() == 55


def test_python_and_text_are_one(tmp_path):
    made = pt.Sequential(
        [pt.Input((1, 8, 8)), pt.layers.Conv2D(2, 3), pt.layers.Flatten(), pt.layers.Dense(3)],
        preprocess=[pt.layers.Rescaling(1 / 255)],
        augment=[pt.layers.RandomFlip("horizontal")],
    )
    optimizer = pt.optimizers.SGD(pt.schedules.CosineDecay(0.1, 50), momentum=0.9)
    made.compile(optimizer, SPARSE, ["accuracy", "mse", pt.metrics.SparseTopKCategoricalAccuracy(2)], seed=5)
    path = tmp_path / "m.proto"
    path.write_text(made.to_text(), encoding="utf-8")
    again = pt.load_model(path)
    assert again.net == made.net
    assert again.compile_block == made.compile_block
    assert again.to_text() == made.to_text()
    assert "accuracy, mse" in made.to_text()


def test_get_and_set_weights():
    a, b = trained(), model()
    b.set_weights(a.get_weights())
    assert (a.predict(X) == b.predict(X)).all()
    c = model()
    c.set_weights(list(a.get_weights().values()))
    assert (a.predict(X) == c.predict(X)).all()
    copies = a.get_weights()
    copies["hidden/kernel"][...] = 0
    assert (a.weights["hidden/kernel"] != 0).any()
    with pytest.raises(UsageError, match="has 8 weights, got 2"):
        b.set_weights([1, 2])
    with pytest.raises(WeightsError, match="hidden/kernel"):
        b.set_weights(model(6).get_weights())


def test_save_and_load(tmp_path):
    a = trained()
    path = tmp_path / "a.anything"  # told apart by content, not by name
    a.save(path)
    b = pt.load_model(path)
    assert list(b.weights) == list(a.weights)
    assert (a.predict(X) == b.predict(X)).all()
    assert a.evaluate(X, Y) == b.evaluate(X, Y)
    assert b.trainer.step == 4
    assert (b.net, b.compile_block) == (a.net, a.compile_block)
    a.fit(X, Y, batch_size=10, verbose=0)
    b.fit(X, Y, batch_size=10, verbose=0)
    assert all(a.weights[n].tobytes() == b.weights[n].tobytes() for n in a.weights)
    with pytest.raises(UsageError, match=r"parameters are already substituted \(classes\)"):
        pt.load_model(path, classes=3)


def test_an_uncompiled_model_is_saved(tmp_path):
    a = pt.Sequential([pt.Input((5,)), pt.layers.Dense(2)])
    wanted = a.predict(X)
    a.save(tmp_path / "a.h5")
    assert (pt.load_model(tmp_path / "a.h5").predict(X) == wanted).all()


def test_sizes_that_only_data_tell(tmp_path):
    a = pt.Sequential([pt.Input((2, None, None)), pt.layers.Conv2D(3, 3), pt.layers.GlobalAveragePooling2D()])
    with pytest.raises(UsageError, match=r"call build\(input="):
        a.get_weights()
    x = rng.normal(size=(4, 2, 9, 7)).astype(np.float32)
    wanted = a.predict(x)
    a.save(tmp_path / "a.h5")
    b = pt.load_model(tmp_path / "a.h5")
    assert list(b.get_weights()) == ["conv2d_1/kernel", "conv2d_1/bias"]
    assert (b.predict(x) == wanted).all()
    assert b.predict(x[:, :, :5]).shape == (4, 3)
    c = pt.Sequential([pt.Input((2, None, None)), pt.layers.Conv2D(3, 3)])
    c.build(input=(2, 8, 8))
    assert len(c.weights) == 2


def test_weights_alone(tmp_path):
    a, path = trained(), tmp_path / "w.h5"
    a.save_weights(path)
    b = model()
    report = b.load_weights(path)
    assert set(report.loaded) == set(a.weights)
    assert (report.missing, report.unexpected, report.mismatched) == ((), (), ())
    assert (a.predict(X) == b.predict(X)).all()
    assert b.trainer.step == 0
    assert not any(name.startswith("optimizer/") for name in h5py.File(path))


def test_weights_that_do_not_fit(tmp_path):
    trained().save_weights(path := tmp_path / "w.h5")
    wide = model(6)
    before = wide.get_weights()
    with pytest.raises(WeightsError, match=r"hidden/kernel: \[5, 4\] in the file, \[5, 6\] in the model"):
        wide.load_weights(path)
    assert all((wide.weights[n] == before[n]).all() for n in before)  # nothing is written by half
    report = wide.load_weights(path, skip_mismatch=True)
    assert "dense_1/bias" in report.loaded
    assert "hidden/kernel" in [name for name, _, _ in report.mismatched]
    other = pt.Sequential([pt.Input((5,)), pt.layers.Dense(4, name="hidden"), pt.layers.Dense(2, name="top")])
    with pytest.raises(WeightsError, match="by_name=True loads those that do"):
        other.load_weights(path)
    report = other.load_weights(path, by_name=True)
    assert report.loaded == ("hidden/kernel", "hidden/bias")
    assert report.missing == ("top/kernel", "top/bias")
    assert "2 missing in the file: top/kernel" in str(report)


def test_compiling_again_keeps_the_weights():
    made = trained()
    before, step = made.get_weights(), made.trainer.step
    assert step == 4
    made.compile("sgd", SPARSE, seed=9)
    assert all((made.weights[n] == before[n]).all() for n in before)
    assert made.trainer.step == 0
    assert list(made.evaluate(X, Y).keys()) == ["loss"]


def test_the_learning_rate_may_be_set(tmp_path):
    made = model()
    assert made.learning_rate == 0.001
    made.learning_rate = 0.5
    assert made.fit(X, Y, verbose=0).history["learning_rate"] == [0.5]
    made.save(tmp_path / "a.h5")
    assert pt.load_model(tmp_path / "a.h5").learning_rate == 0.5


def test_parameters_of_a_text():
    assert pt.load_model("lenet", classes=7).predict(np.zeros((1, 1, 28, 28))).shape == (1, 7)
    assert pt.load_model("models/lenet.proto").net.name == "lenet"  # a shipped model, wherever one works
    with pytest.raises(pt.errors.FileError, match=r"no such file.*[Dd]id you mean 'lenet'"):
        pt.load_model("lenett")


def test_files_that_are_none(tmp_path):
    path = tmp_path / "m.h5"
    trained().save(path)
    whole = path.read_bytes()
    at = len(whole) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(ModelFileError):
        pt.load_model(path)
    path.write_bytes(whole[:at])
    with pytest.raises(ModelFileError):
        pt.load_model(path)


def test_what_a_model_is_made_of():
    with pytest.raises(UsageError, match="not built yet"):
        pt.Sequential([pt.layers.Dense(2)]).summary()
    with pytest.raises(UsageError, match="item 1 is 'relu', not a layer"):
        pt.Sequential([pt.Input((5,)), "relu"])
    with pytest.raises(UsageError, match="expected inputs and outputs"):
        pt.Model(pt.Input((5,)))


def test_a_loss_or_metric_that_does_not_fit_is_named():
    x = np.zeros((4, 3), np.float32)
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2, name="score")])
    model.compile("sgd", "contrastive_loss")
    with pytest.raises(ShapeError, match=r"loss at 'score': ContrastiveLoss cannot take"):
        model.fit(x, np.zeros((4, 2)), verbose=0)
    model.compile("sgd", "mse", metrics=[pt.metrics.Precision(class_id=2)])
    with pytest.raises(ShapeError, match=r"metric precision: Precision: there is no class 2"):
        model.fit(x, np.zeros((4, 2)), verbose=0)


def test_a_model_without_weights_takes_its_own():
    model = pt.Sequential([pt.Input((3,)), pt.layers.ReLU()])
    model.set_weights(model.get_weights())
    with pytest.raises(WeightsError, match="extra"):
        model.set_weights({"extra": np.zeros(2)})
