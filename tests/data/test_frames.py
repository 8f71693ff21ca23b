"""Tables of pandas and polars: columns count by name, in every method that takes data, and after saving."""

import inspect
import json
import warnings

import numpy as np
import pytest

import prototorch as pt
from prototorch.data import DataWarning
from prototorch.data.table_columns import TableColumns
from prototorch.engine.storage import container
from prototorch.errors import DataError, ModelFileError


class Frame:
    """A table with the interface that pandas and polars have in common."""

    def __init__(self, columns):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.columns = list(columns)

    def __getitem__(self, name):
        return Series(self._columns[name], name)

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def to_numpy(self):
        return np.stack(list(self._columns.values()), 1)

    def __array__(self, dtype=None, copy=None):
        return self.to_numpy()

    def __iter__(self):
        return iter(self.columns)


class Series:
    def __init__(self, values, name):
        self.values, self.name = values, name

    def to_numpy(self):
        return self.values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


def pandas_frame(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns):
    return pytest.importorskip("polars").DataFrame(columns)


@pytest.fixture(params=[Frame, pandas_frame, polars_frame], ids=["fake", "pandas", "polars"])
def frame(request):
    return request.param


RNG = np.random.default_rng(0)
AREA, ROOMS, AGE = (RNG.standard_normal(64).astype(np.float32) for _ in range(3))
PRICE = 3 * AREA - 2 * ROOMS + AGE / 2
TABLE = {"area": AREA, "rooms": ROOMS, "age": AGE}
ROTATED = {"age": AGE, "area": AREA, "rooms": ROOMS}


def table_model(features=3):
    model = pt.Sequential([pt.Input((features,), name="row"), pt.layers.Dense(1, name="price")])
    model.compile(pt.optimizers.SGD(0.2), "mse")
    return model


@pytest.fixture
def trained(frame):
    model = table_model()
    model.fit(frame(TABLE), PRICE, epochs=30, verbose=0)
    return model


def batches(x, y=None):
    """A stream of three batches, of columns and a target."""
    for part in (slice(0, 20), slice(20, 40), slice(40, 64)):
        columns = {name: values[part] for name, values in x.items()}
        yield columns if y is None else (columns, y[part])


def fit_once(model, *data, **options):
    """The loss of an epoch at a learning rate of 0: that of the weights as they are."""
    rate, model.learning_rate = float(model.learning_rate), 0.0
    history = model.fit(*data, epochs=1, batch_size=64, validation_split=0, shuffle=False, verbose=0, **options)
    model.learning_rate = rate
    return history.history["val_loss" if "validation_data" in options else "loss"][-1]


def train_once(model, x):
    rate, model.learning_rate = float(model.learning_rate), 0.0
    loss = model.train_on_batch(x, PRICE)["loss"]
    model.learning_rate = rate
    return loss


#: face -> the loss of a model for a table with these columns
FACES = {
    "fit": lambda m, frame, c: fit_once(m, frame(c), PRICE),
    "fit, dict": lambda m, frame, c: fit_once(m, {"row": frame(c)}, {"price": frame({"price": PRICE})}),
    "fit, list": lambda m, frame, c: fit_once(m, [frame(c)], PRICE),
    "fit, stream": lambda m, frame, c: fit_once(m, lambda: ((frame(x), y) for x, y in batches(c, PRICE))),
    "fit, stream of dicts": lambda m, frame, c: fit_once(
        m, lambda: ({"row": frame(x), "price": y} for x, y in batches(c, PRICE))
    ),
    "fit, stream of tables": lambda m, frame, c: fit_once(
        m, lambda: (frame(x) for x in batches({"price": PRICE, **c}))
    ),
    "fit, validation": lambda m, frame, c: fit_once(m, frame(TABLE), PRICE, validation_data=(frame(c), PRICE)),
    "fit, stream and validation": lambda m, frame, c: fit_once(
        m,
        lambda: ((frame(x), y) for x, y in batches(TABLE, PRICE)),
        validation_data=lambda: ((frame(x), y) for x, y in batches(c, PRICE)),
    ),
    "evaluate": lambda m, frame, c: m.evaluate(frame(c), PRICE)[0],
    "evaluate, dict": lambda m, frame, c: m.evaluate({"row": frame(c)}, PRICE)[0],
    "evaluate, stream": lambda m, frame, c: m.evaluate((frame(x), y) for x, y in batches(c, PRICE))[0],
    "predict": lambda m, frame, c: squared_error(m.predict(frame(c))),
    "predict, dict": lambda m, frame, c: squared_error(m.predict({"row": frame(c)})),
    "predict, stream": lambda m, frame, c: squared_error(m.predict(frame(x) for x in batches(c))),
    "train_on_batch": lambda m, frame, c: train_once(m, frame(c)),
    "train_on_batch, dict": lambda m, frame, c: train_once(m, {"row": frame(c)}),
    "test_on_batch": lambda m, frame, c: m.test_on_batch(frame(c), PRICE)[0],
    "test_on_batch, dict": lambda m, frame, c: m.test_on_batch({"row": frame(c)}, PRICE)[0],
    "predict_on_batch": lambda m, frame, c: squared_error(m.predict_on_batch(frame(c))),
    "predict_on_batch, dict": lambda m, frame, c: squared_error(m.predict_on_batch({"row": frame(c)})),
    "call": lambda m, frame, c: squared_error(m(frame(c)).detach().numpy()),
    "call, dict": lambda m, frame, c: squared_error(m({"row": frame(c)}).detach().numpy()),
    "call, list": lambda m, frame, c: squared_error(m([frame(c)]).detach().numpy()),
}


def squared_error(outputs):
    return np.mean((outputs[:, 0] - PRICE) ** 2)


def test_every_method_that_takes_data_is_a_face():
    methods = {
        name
        for name, method in inspect.getmembers(pt.Model, inspect.isfunction)
        if not name.startswith("_")
        and name != "evaluation_batches"
        and next(iter([*inspect.signature(method).parameters][1:]), "") == "x"
    }
    assert methods - {"evaluation_batches"} | {"call"} == {face.split(",")[0] for face in FACES}


@pytest.mark.parametrize("face", FACES)
def test_exchanged_columns_at_a_face(face, trained, frame):
    loss = FACES[face]
    assert loss(trained, frame, TABLE) < 1e-4
    assert loss(trained, frame, ROTATED) < 1e-4
    with pytest.raises(DataError, match=r"has no column 'rooms' \(nor 'age'\), .*; it has .*'area', 'room', 'years'"):
        loss(trained, frame, {"area": AREA, "room": ROOMS, "years": AGE})
    with pytest.raises(DataError, match="has no column 'rooms', which the model was trained on; it has"):
        loss(trained, frame, {"area": AREA, "age": AGE})


#: face -> trains a model on a table, for the first time
TRAININGS = {
    "fit": lambda m, x: m.fit(x, PRICE, batch_size=64, epochs=40, verbose=0),
    "fit, dict": lambda m, x: m.fit({"row": x}, PRICE, batch_size=64, epochs=40, verbose=0),
    "fit, stream": lambda m, x: m.fit(lambda: iter([(x, PRICE)]), epochs=40, verbose=0),
    "train_on_batch": lambda m, x: [m.train_on_batch(x, PRICE) for _ in range(40)],
    "train_on_batch, dict": lambda m, x: [m.train_on_batch({"row": x}, PRICE) for _ in range(40)],
}


@pytest.mark.parametrize("face", TRAININGS)
def test_a_training_records_the_names(face, frame, tmp_path):
    model = table_model()
    TRAININGS[face](model, frame(TABLE))
    assert model.table_columns.features == ("area", "rooms", "age")
    model.save(tmp_path / "m.h5")
    for one in (model, pt.load_model(tmp_path / "m.h5")):
        assert squared_error(one.predict(frame(ROTATED))) < 1e-4
        assert squared_error(one.predict(np.stack([AREA, ROOMS, AGE], 1))) < 1e-4


def test_a_step_that_is_refused_records_no_names(frame):
    model = table_model()
    with pytest.raises(DataError):
        model.train_on_batch(frame({"area": AREA, "rooms": ROOMS}), PRICE)
    assert model.table_columns == TableColumns()


def test_the_first_batch_of_a_stream_names_the_columns_of_all(frame):
    model = table_model()
    rotated = [ROTATED if number else TABLE for number in range(3)]
    for _ in range(30):
        model.fit(lambda: iter([(frame(c), PRICE) for c in rotated]), verbose=0)
    assert squared_error(model.predict(np.stack([AREA, ROOMS, AGE], 1))) < 1e-4
    with pytest.raises(DataError, match="batch 1: has no column 'rooms'"):
        table_model().fit(lambda: iter([(frame(c), PRICE) for c in (TABLE, {"area": AREA, "age": AGE})]), verbose=0)


def test_columns_of_a_stream_that_are_not_read_are_one_note(trained, frame):
    wide = {"id": AGE, **ROTATED}
    with pytest.warns(DataWarning, match="'id' is not read") as notes:
        loss = trained.evaluate((frame(x), y) for x, y in batches(wide, PRICE))[0]
    assert len(notes) == 1
    assert loss < 1e-4


def test_a_table_of_a_stream_gives_several_inputs(frame):
    inputs = [pt.Input((1,), name="area"), pt.Input((1,), name="rooms")]
    model = pt.Model(inputs, pt.layers.Dense(1, name="price")(pt.layers.Concatenate()(inputs)))
    model.compile("sgd", "mse")
    expected = model.predict({"area": AREA[:, None], "rooms": ROOMS[:, None]})
    np.testing.assert_allclose(model.predict(frame(x) for x in batches(ROTATED)), expected, rtol=1e-6)
    np.testing.assert_allclose(model(frame(ROTATED)).detach().numpy(), expected, rtol=1e-6)
    with pytest.raises(DataError, match="has no column 'area', which is an input of the model; it has 'rooms'"):
        model(frame({"rooms": ROOMS}))


def csv_text(columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(f"{v:.6g}" for v in row) for row in rows)]) + "\n"


def test_exchanged_columns_are_read_by_name(trained, frame):
    expected = trained.predict(np.stack([AREA, ROOMS, AGE], 1))
    np.testing.assert_array_equal(trained.predict(frame(ROTATED)), expected)
    np.testing.assert_array_equal(trained.predict_on_batch(frame(ROTATED)), expected)
    loss = trained.evaluate(frame(ROTATED), PRICE, return_dict=True)["loss"]
    assert loss == pytest.approx(trained.evaluate(frame(TABLE), PRICE, return_dict=True)["loss"])
    assert loss < 1e-4
    assert trained.test_on_batch(frame(ROTATED), PRICE)["loss"] == pytest.approx(loss, abs=1e-6)


def test_the_names_are_saved(trained, frame, tmp_path):
    trained.save(tmp_path / "m.h5")
    trained.save_weights(tmp_path / "w.h5")
    for file in ("m.h5", "w.h5"):
        again = pt.load_model(tmp_path / file)
        assert again.table_columns.features == ("area", "rooms", "age")
        np.testing.assert_allclose(again.predict(frame(ROTATED)), trained.predict(frame(TABLE)), rtol=1e-6)
        with pytest.raises(DataError, match="has no column 'rooms'"):
            again.predict(frame({"area": AREA, "age": AGE}))


def test_missing_columns_are_refused_with_their_names(trained, frame):
    table = frame({"area": AREA, "room": ROOMS, "years": AGE})
    words = (
        r"has no column 'rooms' \(nor 'age'\), which the model was trained on; it has 'area', 'room', 'years'\. "
        r"Did you mean 'room'\? Values alone, frame\.to_numpy\(\), are read by position"
    )
    for call in (
        lambda: trained.predict(table),
        lambda: trained.evaluate(table, PRICE),
        lambda: trained.fit(table, PRICE, verbose=0),
    ):
        with pytest.raises(DataError, match=words):
            call()
    trained.predict(np.asarray(table))


def test_unknown_columns_are_left_out_with_one_note(trained, frame):
    table = frame({"id": np.arange(64), **ROTATED, "city": ["Oslo"] * 64})
    with pytest.warns(DataWarning, match=r"'id', 'city' are not read: .* trained on 'area', 'rooms', 'age'") as notes:
        outputs = trained.predict(table)
    assert len(notes) == 1
    np.testing.assert_array_equal(outputs, trained.predict(frame(TABLE)))


def test_a_model_of_a_csv_file_takes_a_frame_by_its_names(frame, tmp_path):
    (tmp_path / "houses.csv").write_text(csv_text({"price": PRICE, **TABLE}))
    model = table_model()
    model.fit(pt.Data(source=str(tmp_path / "houses.csv"), label="price"), epochs=30, verbose=0)
    model.save(tmp_path / "m.h5")
    for one in (model, pt.load_model(tmp_path / "m.h5", allow_read=[tmp_path])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loss = one.evaluate(frame({**ROTATED, "price": PRICE}), return_dict=True)["loss"]
            np.testing.assert_allclose(one.predict(frame({**ROTATED, "price": PRICE}))[:, 0], PRICE, atol=0.05)
        assert loss < 1e-4
        with pytest.raises(DataError, match="has no column 'age', which the model was trained on"):
            one.predict(frame({"area": AREA, "rooms": ROOMS}))


def test_another_csv_file_is_read_by_the_names_as_well(tmp_path):
    (tmp_path / "a.csv").write_text(csv_text({**TABLE, "price": PRICE}))
    (tmp_path / "b.csv").write_text(csv_text({"price": PRICE, **ROTATED}))
    (tmp_path / "c.csv").write_text(csv_text({"price": PRICE, "area": AREA, "age": AGE, "room": ROOMS}))
    model = table_model()
    model.fit(tmp_path / "a.csv", epochs=30, verbose=0)
    assert model.evaluate(tmp_path / "b.csv", return_dict=True)["loss"] < 1e-4
    with pytest.raises(DataError, match="has no column 'rooms'"):
        model.evaluate(tmp_path / "c.csv")


def test_files_of_before_have_the_names_in_their_fit_block(frame, tmp_path):
    (tmp_path / "houses.csv").write_text(csv_text({"price": PRICE, **TABLE}))
    model = table_model()
    model.fit(pt.Data(source=str(tmp_path / "houses.csv"), label="price"), verbose=0)
    model.table_columns = TableColumns()
    model.save(tmp_path / "m.h5")
    assert "table_columns" not in container.read(tmp_path / "m.h5").meta
    again = pt.load_model(tmp_path / "m.h5", allow_read=[tmp_path])
    np.testing.assert_allclose(again.predict(frame(ROTATED)), model.predict(frame(TABLE)), rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"format": 5, "features": ["a"], "labels": []}, "have the format 5, this version reads 1 to 4"),
        ({"format": 2, "features": ["a"], "labels": []}, "inputs and outputs must be mappings of names"),
        ({"features": ["a"], "labels": []}, "must have format, features and labels"),
        ({"format": 1, "features": "ab", "labels": []}, "must be lists of names"),
        ({"format": 1, "features": ["a", "a"], "labels": []}, "lists of different names"),
    ],
)
def test_damaged_names_in_a_file_are_refused(value, words, tmp_path):
    model = table_model()
    model.save(tmp_path / "m.h5")
    contents = container.read(tmp_path / "m.h5")
    container.write(tmp_path / "bad.h5", contents.arrays, {**contents.meta, "table_columns": json.dumps(value)})
    with pytest.raises(ModelFileError, match=f"names of columns cannot be read: .*{words}"):
        pt.load_model(tmp_path / "bad.h5")


def test_targets_are_columns_of_their_names(frame):
    inputs = [pt.Input((1,), name="area"), pt.Input((1,), name="rooms")]
    sum_of = pt.layers.Add(name="sum")(inputs)
    model = pt.Model(inputs, [pt.layers.Dense(1, name="price")(sum_of), pt.layers.Dense(1, name="age")(sum_of)])
    model.compile("sgd", ["mse", "mse"])
    table = frame({"age": AGE, "price": PRICE, "rooms": ROOMS, "area": AREA})
    arrays = {"area": AREA[:, None], "rooms": ROOMS[:, None]}
    targets = {"price": PRICE, "age": AGE}
    expected = model.evaluate(arrays, targets, return_dict=True)
    assert model.evaluate(table, return_dict=True) == expected
    y = frame({"age": AGE, "price": PRICE})
    assert model.evaluate(arrays, y, return_dict=True) == expected
    with pytest.raises(DataError, match="has no column 'area', which is an input of the model; it has 'rooms'"):
        model.predict(frame({"rooms": ROOMS}))


def test_columns_without_names_and_columns_of_text(frame):
    table = Frame(TABLE)
    table.columns = [0, 1, 2]
    model = table_model()
    model.fit(table, PRICE, verbose=0)
    assert model.table_columns == TableColumns()
    names = [f"house {row}" for row in range(64)]  # texts that repeat are categories: test_table_frames.py
    with pytest.raises(DataError, match="column 'name': holds 64 different texts in 64 rows"):
        table_model(2).fit(frame({"area": AREA, "name": names}), PRICE, verbose=0)
