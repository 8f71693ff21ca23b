"""How much a model depends on each column of its data: by the loss with that column shuffled (Breiman, 2001)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from prototorch.data.binding import BoundDataset
from prototorch.data.loader import Loader
from prototorch.data.pipeline.batches import Batches
from prototorch.errors import UsageError
from prototorch.model.model import Model
from prototorch.train.argument_checks import check_integer

__all__ = ["ColumnImportance", "permutation_importance"]

MAX_COLUMNS = 10_000


@dataclass(frozen=True)
class ColumnImportance:
    """The effect of shuffling a column.

    Attributes:
        name: of the column; input: of the net that it is part of.
        changes: what the loss and each metric become with the column shuffled, less what they are: float64 [repeats]
            by name.
    """

    name: str
    input: str
    changes: Mapping[str, np.ndarray]

    def mean(self, name: str = "loss") -> float:
        """The mean change of the loss or of a metric."""
        return float(self.changes[name].mean())

    def deviation(self, name: str = "loss") -> float:
        """The standard deviation of the change over the repeats."""
        return float(self.changes[name].std())


def permutation_importance(
    model: Model,
    x: Any = None,
    y: Any = None,
    *,
    repeats: int = 5,
    rows: int = 5000,
    seed: int = 0,
    batch_size: int | None = None,
) -> list[ColumnImportance]:
    """The columns that a model reads, the one on which its loss depends most first.

    The values of a column are exchanged among the samples, all elements that it becomes together (the classes of a
    category, the parts of a date); the rest of the data stays. Of columns that say the same thing each may look
    unimportant. An input of arrays has the column ``x[0]`` for each element, one of images or sequences is one column.

    Args:
        x, y: data as for `Model.evaluate`; without them the validation data of the fit block.
        repeats: how often each column is shuffled. rows: at most so many samples are used, drawn by the seed.
        seed: of the order of the shuffled values.

    Raises as `Model.evaluate`, and UsageError for a net with more than 10,000 columns.
    """
    repeats, rows = check_integer("repeats", repeats, 1), check_integer("rows", rows, 2)
    rng = np.random.Generator(np.random.Philox(check_integer("seed", seed, 0)))
    batches = model.evaluation_batches(x, y, batch_size)
    if batches.is_stream:
        raise UsageError("permutation_importance needs arrays, a table or a data set, not a stream of batches")
    dataset, count = batches.dataset, len(batches.dataset)
    chosen_rows = np.sort(rng.choice(count, rows, replace=False)) if count > rows else np.arange(count)
    arrays = {name: np.array(array) for name, array in dataset.read_unbound(chosen_rows).items()}
    columns = list(_columns(model, dataset))
    if len(columns) > MAX_COLUMNS:
        raise UsageError(f"permutation_importance: the net reads {len(columns):,} columns, at most {MAX_COLUMNS:,}")
    before = _results(model, batches, arrays)
    importances = []
    for name, input_, part in columns:
        column, results = dataset.input_columns[input_], []
        for _ in range(repeats):
            shuffled = arrays[column].copy()
            shuffled[:, part] = shuffled[rng.permutation(len(chosen_rows))][:, part]
            results.append(_results(model, batches, {**arrays, column: shuffled}))
        changes = {key: np.array([float(one[key]) - float(before[key]) for one in results]) for key in before}
        importances.append(ColumnImportance(name, input_, changes))
    return sorted(importances, key=lambda one: -one.mean())


def _columns(model: Model, dataset: BoundDataset) -> Iterator[tuple[str, str, slice]]:
    """The columns: name, input, and the elements of the input's samples that they become."""
    table = model.table_columns
    for node in model.net.inputs:
        shape = dataset.columns[dataset.input_columns[node.name]].shape
        encodings = [] if table.encoding is None else table.encoding.of_input(node.name)
        if encodings and len(shape) == 1:
            begin = 0
            for one in encodings:
                yield one.name, node.name, slice(begin, begin + one.width)
                begin += one.width
        elif len(shape) == 1 and prod(shape) > 1:
            names = table.inputs.get(node.name) or (table.features if len(model.net.inputs) == 1 else ())
            has_names = len(names) == shape[0]
            for number in range(shape[0]):
                name = names[number] if has_names else f"{node.name}[{number}]"
                yield name, node.name, slice(number, number + 1)
        else:
            yield encodings[0].name if len(encodings) == 1 else node.name, node.name, slice(None)


def _results(model: Model, batches: Batches, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Loss and metrics that are numbers."""
    dataset = batches.dataset.rebind_arrays(dict(arrays))
    loader = Loader(dataset, batches.full_batch(), shuffle=False)
    results = model.trainer.evaluate(model, replace(batches, dataset=dataset, batches=loader))
    return {name: value for name, value in results.items() if np.ndim(value) == 0}
