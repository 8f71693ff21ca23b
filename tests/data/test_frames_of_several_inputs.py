"""A table for each of several inputs or outputs: its columns count by name, in every method that takes data."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.data import DataWarning
from prototorch.errors import DataError
from tests.data.test_frames import AGE, AREA, ROOMS, Frame, csv_text, pandas_frame, polars_frame

SIZE = {"area": AREA, "rooms": ROOMS}
TIME = {"age": AGE, "built": -2 * AGE}
PRICES = {"low": AREA - ROOMS, "high": AREA + ROOMS + AGE}
RENTS = {"cold": 2 * AREA, "warm": 3 * AREA - AGE / 2}


@pytest.fixture(params=[Frame, pandas_frame, polars_frame, dict], ids=["fake", "pandas", "polars", "dict"])
def frame(request):
    return request.param


def several_model():
    inputs = [pt.Input((2,), name="size"), pt.Input((2,), name="time")]
    both = pt.layers.Concatenate()(inputs)
    model = pt.Model(inputs, [pt.layers.Dense(2, name="prices")(both), pt.layers.Dense(2, name="rents")(both)])
    model.compile(pt.optimizers.SGD(0.05), ["mse", "mse"])
    return model


def exchanged(columns):
    return dict(reversed(columns.items()))


def in_dicts(frame, of):
    x = {"time": frame(of(TIME)), "size": frame(of(SIZE))}
    return x, {"rents": frame(of(RENTS)), "prices": frame(of(PRICES))}


def in_lists(frame, of):
    return [frame(of(SIZE)), frame(of(TIME))], [frame(of(PRICES)), frame(of(RENTS))]


def arrays(columns):
    return np.stack(list(columns.values()), 1)


X, Y = {"size": arrays(SIZE), "time": arrays(TIME)}, {"prices": arrays(PRICES), "rents": arrays(RENTS)}


def fit_once(model, x, y, **options):
    rate, model.learning_rate = float(model.learning_rate), 0.0
    history = model.fit(x, y, epochs=1, batch_size=64, validation_split=0, verbose=0, **options).history
    model.learning_rate = rate
    return history["val_loss" if "validation_data" in options else "loss"][-1]


def train_once(model, x, y):
    rate, model.learning_rate = float(model.learning_rate), 0.0
    loss = model.train_on_batch(x, y)["loss"]
    model.learning_rate = rate
    return loss


def squared_error(outputs):
    outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
    arrays_of = [o.detach().numpy() if hasattr(o, "detach") else o for o in outputs]
    return sum(np.mean((o - y) ** 2) for o, y in zip(arrays_of, Y.values(), strict=True))


#: face -> the loss of a model for inputs and targets
FACES = {
    "fit": fit_once,
    "fit, stream": lambda m, x, y: fit_once(m, lambda: iter([(x, y)]), None),
    "fit, validation": lambda m, x, y: fit_once(m, X, Y, validation_data=(x, y)),
    "evaluate": lambda m, x, y: m.evaluate(x, y, verbose=0)["loss"],
    "evaluate, stream": lambda m, x, y: m.evaluate(iter([(x, y)]), verbose=0)["loss"],
    "predict": lambda m, x, y: squared_error(m.predict(x, verbose=0)),
    "train_on_batch": train_once,
    "test_on_batch": lambda m, x, y: m.test_on_batch(x, y)["loss"],
    "predict_on_batch": lambda m, x, y: squared_error(m.predict_on_batch(x)),
    "call": lambda m, x, y: squared_error(m(x)),
}


@pytest.mark.parametrize("given", [in_dicts, in_lists])
@pytest.mark.parametrize("face", FACES)
def test_exchanged_columns_at_a_face(face, given, frame):
    model = several_model()
    model.fit(*given(frame, dict), epochs=60, batch_size=16, verbose=0)
    assert squared_error(model.predict(X, verbose=0)) < 1e-4
    for of in (dict, exchanged):
        assert FACES[face](model, *given(frame, of)) < 1e-4
    x, y = given(frame, lambda columns: {f"{name}_": values for name, values in columns.items()})
    with pytest.raises(DataError, match="has no column 'area'"):
        FACES[face](model, x, y)


def test_tables_in_the_places_of_one_another_are_refused(frame):
    model = several_model()
    model.fit(*in_lists(frame, dict), verbose=0)
    x, y = in_lists(frame, dict)
    with pytest.raises(
        DataError, match=r"'size': has no column 'area' \(nor 'rooms'\), which the model was trained on"
    ):
        model.predict(x[::-1], verbose=0)
    with pytest.raises(
        DataError, match=r"'prices': has no column 'low' \(nor 'high'\), which the model was trained on"
    ):
        model.evaluate(X, y[::-1], verbose=0)


@pytest.mark.parametrize("step", ["fit", "train_on_batch"])
def test_the_names_are_saved(step, frame, tmp_path):
    model = several_model()
    for _ in range(400 if step == "train_on_batch" else 1):
        x, y = in_dicts(frame, dict)
        model.train_on_batch(x, y) if step == "train_on_batch" else model.fit(x, y, epochs=60, batch_size=16, verbose=0)
    model.save(tmp_path / "m.h5")
    again = pt.load_model(tmp_path / "m.h5")
    again.compile("sgd", ["mse", "mse"])
    assert again.table_columns.inputs == {"size": ("area", "rooms"), "time": ("age", "built")}
    assert again.table_columns.outputs == {"prices": ("low", "high"), "rents": ("cold", "warm")}
    assert again.evaluate(*in_dicts(frame, exchanged), verbose=0)["loss"] < 1e-3
    with pytest.raises(DataError, match="has no column 'area'"):
        again.predict({"size": frame({"rooms": ROOMS, "width": AREA}), "time": frame(TIME)}, verbose=0)


def test_one_table_of_all_inputs_and_targets(tmp_path):
    model = several_model()
    model.fit(*in_dicts(Frame, dict), epochs=60, batch_size=16, verbose=0)
    table = exchanged({**RENTS, **SIZE, **PRICES, **TIME})
    assert model.evaluate(Frame(table), verbose=0)["loss"] < 1e-4
    assert model.evaluate(Frame(table), Frame(table), verbose=0)["loss"] < 1e-4
    assert squared_error(model.predict(Frame({**TIME, **SIZE}), verbose=0)) < 1e-4
    with pytest.warns(DataWarning, match="'id' is not read"):
        model.predict(Frame({"id": AGE, **TIME, **SIZE}), verbose=0)
    (tmp_path / "all.csv").write_text(csv_text(table))
    assert model.evaluate(tmp_path / "all.csv", verbose=0)["loss"] < 1e-4
    assert squared_error(model.predict(tmp_path / "all.csv", verbose=0)) < 1e-4
    (tmp_path / "less.csv").write_text(csv_text({name: v for name, v in table.items() if name != "rooms"}))
    for call in (model.evaluate, model.predict):
        with pytest.raises(DataError, match="has no column 'rooms', which the model was trained on"):
            call(tmp_path / "less.csv", verbose=0)


def test_a_csv_file_for_inputs_and_outputs_of_its_names(tmp_path):
    inputs = [pt.Input((1,), name="area"), pt.Input((1,), name="rooms")]
    total = pt.layers.Concatenate()(inputs)
    model = pt.Model(inputs, [pt.layers.Dense(1, name="low")(total), pt.layers.Dense(3, name="kind")(total)])
    model.compile("sgd", ["mse", pt.losses.SparseCategoricalCrossentropy(from_logits=True)])
    kind = np.array(["flat", "house", "shed"])[np.arange(64) % 3]
    table = {"kind": kind, "low": AREA - ROOMS, "rooms": ROOMS, "area": AREA}
    rows = zip(*table.values(), strict=True)
    text = "\n".join([",".join(table), *(",".join(str(v) for v in row) for row in rows)]) + "\n"
    (tmp_path / "t.csv").write_text(text)
    x = {"area": AREA[:, None], "rooms": ROOMS[:, None]}
    expected = model.evaluate(x, {"low": AREA - ROOMS, "kind": np.arange(64) % 3}, verbose=0)["loss"]
    assert model.evaluate(tmp_path / "t.csv", verbose=0)["loss"] == pytest.approx(expected, rel=1e-5)
    model.fit(tmp_path / "t.csv", verbose=0)
    assert model.predict(tmp_path / "t.csv", verbose=0)["low"].shape == (64, 1)


def test_one_table_for_one_input_of_two(frame):
    """The other input is an array."""
    model = several_model()
    model.fit({"size": frame(SIZE), "time": X["time"]}, {"prices": frame(PRICES), "rents": Y["rents"]}, verbose=0)
    assert model.table_columns.inputs == {"size": ("area", "rooms")}
    expected = model.predict(X, verbose=0)
    outputs = model.predict({"size": frame(exchanged(SIZE)), "time": X["time"]}, verbose=0)
    np.testing.assert_array_equal(outputs["rents"], expected["rents"])


def test_a_dict_of_columns_for_one_input():
    model = pt.Sequential([pt.Input((2,), name="row"), pt.layers.Dense(1, name="price")])
    model.compile("sgd", "mse")
    model.fit(SIZE, PRICES["low"], verbose=0)
    assert model.table_columns.features == ("area", "rooms")
    expected = model.predict(arrays(SIZE), verbose=0)
    for x in (exchanged(SIZE), {"row": exchanged(SIZE)}):
        np.testing.assert_array_equal(model.predict(x, verbose=0), expected)
    with pytest.raises(DataError, match="arrays are given for 'rwo'"):
        model.predict({"rwo": arrays(SIZE)}, verbose=0)
