"""Models and tables that tests of tables by type share."""

import warnings

import numpy as np

import prototorch as pt
from prototorch.data.pipeline.samples import open_paths
from prototorch.errors import DataWarning
from prototorch.model.load import model_from_text

FLAT = """
name: "flat"
input {{ name: "row"  shape: [none] }}
Dense {{ name: "out"  units: {units} }}
compile {{ loss: {loss}  optimizer: sgd {{ learning_rate: 0.05 }}  metrics: [{metrics}] }}
"""


def write(path, rows):
    path.write_text("\n".join(";".join(map(str, row)) for row in rows) + "\n")
    return path


def flat_model(units=1, loss="mse", metrics="mae"):
    return model_from_text(FLAT.format(units=units, loss=loss, metrics=metrics))


def column(name, **fields):
    return pt.data.Column(name=name, **fields)


def fit(model, source, **fields):
    arguments = {n: fields.pop(n) for n in ("epochs", "validation_split", "batch_size") if n in fields}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model.fit(pt.Data(source=str(source), **fields), verbose=0, **arguments)
    return model


def encoded(model, path, name="row"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        (columns,) = open_paths([str(path)], model.signature().without_targets, 32).groups
    return columns.dataset.read(np.arange(len(columns.dataset)))[name]
