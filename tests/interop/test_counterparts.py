"""Rows of counterparts: what another system has for a layer stands in one row, which is read in both directions."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import prototorch as pt
from prototorch import layers
from prototorch.engine.harness.parse_example import parse_layer
from prototorch.errors import ModelFileError
from prototorch.interop.counterparts import row as rows_of_systems
from prototorch.interop.counterparts.keras import row as rows_of_keras
from prototorch.interop.counterparts.keras.row import KerasRow, keras_row, keras_rows
from prototorch.interop.keras import vars_tree, weight_names
from prototorch.interop.keras.config_import.whole_model import import_config
from prototorch.interop.keras.model_config import functional_config
from prototorch.interop.keras.model_layers import keras_layers
from prototorch.layers.base import Layer
from prototorch.model.loading.layout.layout_table import NotExpressibleError

PACKAGE = Path(pt.__file__).parent
SHIPPED = {n: c for n, c in Layer.members().items() if c.__module__.startswith(layers.__name__)}


# ---------------------------------------------------------------------- the rows of Keras


def _model(example: Any) -> pt.Model:
    """A model of one layer, from one of its examples."""
    dtypes = [example.dtype] * len(example.inputs) if isinstance(example.dtype, str) else example.dtype
    symbols = [pt.Input(s, dtype=d, name=f"x{k}") for k, (s, d) in enumerate(zip(example.inputs, dtypes, strict=True))]
    layer = parse_layer(example.text).replace(name="layer")
    return pt.Model(symbols, layer(*symbols))


MODELS: dict[str, list[pt.Model]] = {}


def _export(layer: type[Layer]) -> list[str]:
    """What Keras' export makes of a layer's examples: a config, or the reason why there is none."""
    models = MODELS.setdefault(layer.__name__, [])
    if not models:
        models += [_model(example) for example in layer.examples]
    results = []
    for model in models:
        try:
            results.append(json.dumps(functional_config(keras_layers(model.net), "model")))
        except NotExpressibleError as error:
            results.append(str(error))
    return results


def _reading(name: str) -> Any:
    """What is read of a class of Keras alone: the net of its config, or the reason why there is none, and the class
    and the weights of an automatic name."""
    config = {"class_name": name, "config": {"name": "a", "batch_input_shape": [None, 4]}}
    key = weight_names.key_of_class(name)
    net: Any = ""
    try:
        net = import_config({"class_name": "Sequential", "config": [config]}, None, "net").net.nodes
    except ModelFileError as error:
        net = str(error)
    return net, weight_names.class_of_key(key), weight_names.own_weight_names(name, 2)


def _row_id(row: KerasRow) -> str:
    return "+".join(layer.__name__ for layer in row.layers) or row.name


@pytest.fixture
def without(monkeypatch):
    """A function that takes a row away."""
    all_rows = keras_rows()

    def clear() -> None:
        for module in (rows_of_systems, rows_of_keras, weight_names, vars_tree):
            for function in vars(module).values():
                with suppress(AttributeError):
                    function.cache_clear()

    def remove(row: KerasRow) -> None:
        rest = tuple(one for one in all_rows if one is not row)
        monkeypatch.setattr(rows_of_systems, "counterpart_rows", lambda system: rest)
        monkeypatch.setattr(rows_of_keras, "counterpart_rows", lambda system: rest)
        clear()

    yield remove
    monkeypatch.undo()
    clear()


@pytest.mark.parametrize("row", [row for row in keras_rows() if layers.Activation not in row.layers], ids=_row_id)
def test_each_row_is_used(row, without):
    """Without it another config is written, or another net read: no row stands there for nobody."""
    before = [_export(layer) for layer in row.layers] or [[_reading(row.name)]]
    without(row)
    if not row.layers:
        assert [[_reading(row.name)]] != before
    for layer, results in zip(row.layers, before, strict=False):
        assert _export(layer) != results
        assert any(f"Keras has no layer {layer.__name__}" in text for text in _export(layer))


def test_the_row_of_activation_is_used(without):
    """Its export is that of the activation inside; read, the last axis of images is the channels' here."""
    config = {"name": "a", "batch_input_shape": [None, 5, 4, 3], "activation": "softmax"}
    model = {"class_name": "Sequential", "config": [{"class_name": "Activation", "config": config}]}
    before = import_config(model, None, "net").net.nodes
    assert before[0].layer == layers.Softmax(axis=1, name="a")
    row = keras_row(layers.Activation)
    assert row is not None
    without(row)
    with pytest.raises(ModelFileError, match="no counterpart here: 'a'"):
        import_config(model, None, "net")


@pytest.mark.parametrize("row", keras_rows(), ids=_row_id)
def test_each_row_is_whole(row):
    assert all(SHIPPED[layer.__name__] is layer for layer in row.layers)
    assert row.layers or (row.name and (row.reason or row.read or row.operate))
    assert row.has_class or row.function or row.operate
    for field in row.fixed:
        assert any(field in layer.specs() for layer in row.layers), field
    for pair in row.call_fields.values():
        assert all(pair.ours in layer.specs() for layer in row.layers)
    for name in (*row.old_names.values(), *row.names_in_weight_files.values()):
        assert name in row.classes()
    for name in row.old_arguments.values():
        assert all(name in layer.specs() for layer in row.layers), name


def test_a_class_of_keras_has_one_row_and_a_class_of_ours_too():
    names = [name for row in keras_rows() for name in row.classes()]
    classes = [layer for row in keras_rows() for layer in row.layers]
    functions = [name for row in keras_rows() if row.function for name in (row.function, *row.function_aliases)]
    old = [name for row in keras_rows() for name in row.old_names]
    for one in (names, classes, functions, old):
        assert len(one) == len(set(one))


def test_the_page_tells_the_layers_that_an_older_keras_lacks():
    page = (PACKAGE.parent / "docs" / "weights.md").read_text(encoding="utf-8")
    for row in keras_rows():
        for layer in row.layers if row.since else ():
            assert re.search(rf"`{layer.__name__}`[^()]*\(since {row.since}\)", page), layer


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_each_layer_is_written_or_refused_with_its_reason(name):
    row, results = keras_row(SHIPPED[name]), _export(SHIPPED[name])
    if row is None:
        assert all(text == f"layer ({name}): Keras has no layer {name}" for text in results)
    elif row.reason:
        assert all(text == f"layer ({name}): {row.reason}" for text in results)
    else:
        assert any(text.startswith("{") for text in results)
        assert not any("Keras has no layer" in text for text in results)


def test_a_layer_of_somebodys_own_is_refused_by_its_name():
    class Serf(layers.activation.ActivationLayer):
        def call(self, ctx, x):
            return x

    x = pt.Input((3,))
    for layer in (Serf(), layers.Activation(Serf()), layers.Dense(2, activation=Serf())):
        with pytest.raises(NotExpressibleError, match=r"Keras has no layer .*Serf$"):
            keras_layers(pt.Model(x, layer(x)).net)
    x = pt.Input((3, 2))
    with pytest.raises(NotExpressibleError, match=r"activation: Keras has no function .*Serf$"):
        keras_layers(pt.Model(x, layers.LSTM(2, activation=Serf())(x)).net)
