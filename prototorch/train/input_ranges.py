"""Whether the values that a net gets are in the range that it expects: looked at once, before the first step."""

from __future__ import annotations

from collections.abc import Mapping

from prototorch.data.binding import BoundDataset
from prototorch.data.checks import DataWarning
from prototorch.data.value_ranges import ValueRange, find_range_difference, measure_column
from prototorch.errors import warn_user
from prototorch.graph.net import Net
from prototorch.layers.base import Layer

__all__ = ["InputRanges", "measure_inputs", "scale_notes"]

LARGE_VALUE = 100.0  # larger inputs of a layer with weights make training slow or diverge
SMALL_WIDTH = 0.04  # inputs that lie closer together are scaled down twice


class InputRanges:
    """The ranges of the values that a net was trained on, by input, and the comparison of other data with them.

    training_ranges: empty before the first `fit`. warned_inputs: the inputs that a warning was issued of since then.
    """

    def __init__(self, net: Net, training_ranges: Mapping[str, ValueRange] | None = None):
        self.net, self.training_ranges, self.warned_inputs = net, dict(training_ranges or {}), set[str]()

    def begin_training(self, dataset: BoundDataset) -> None:
        """Warn of training data that do not fit the net's own scaling, or an earlier training; they count from now."""
        ranges = measure_inputs(self.net, dataset)
        self.warned_inputs.clear()
        for note in scale_notes(self.net, ranges):
            warn_user(f"{dataset.name}: {note}", DataWarning)
        self._compare(dataset, ranges)
        self.warned_inputs.clear()
        self.training_ranges = ranges

    @property
    def needs_check(self) -> bool:
        """Whether there are inputs with known ranges that no warning was issued of yet."""
        return bool(self.training_ranges) and not self.training_ranges.keys() <= self.warned_inputs

    def check(self, dataset: BoundDataset) -> None:
        """Warn, once for each input, of data in another range than the training data."""
        if self.needs_check:
            self._compare(dataset, measure_inputs(self.net, dataset))

    def _compare(self, dataset: BoundDataset, ranges: Mapping[str, ValueRange]) -> None:
        for name in self.training_ranges.keys() & ranges.keys() - self.warned_inputs:
            difference = find_range_difference(self.training_ranges[name], ranges[name])
            if difference is not None:
                self.warned_inputs.add(name)
                note = f"the values of the input {name!r} are {difference}: are both scaled in the same way?"
                warn_user(f"{dataset.name}: {note}", DataWarning)


def measure_inputs(net: Net, dataset: BoundDataset) -> dict[str, ValueRange]:
    """The ranges of the columns that feed the inputs of a net, before `preprocess`; without table indices."""
    indices = net.index_inputs()
    ranges = {}
    for name, column in dataset.input_columns.items():
        input_range = measure_column(dataset, column) if name not in indices else None
        if input_range is not None and input_range.dtype != "bool":
            ranges[name] = input_range
    return ranges


def scale_notes(net: Net, ranges: Mapping[str, ValueRange]) -> list[str]:
    """Inputs that are scaled twice, and inputs that are large where the first layer with weights reads them."""
    notes = []
    for name, input_range in ranges.items():
        low, high = input_range.bounds
        layers, is_normalized = _leading_layers(net, name)
        at_low, at_high, both = (_bounds_after(layers, *ends) for ends in ((low, low), (high, high), (low, high)))
        width = max(abs(at_high[0] - at_low[0]), abs(at_high[1] - at_low[1]))
        scaling = [layer for layer in layers if not layer.keeps_bounds]
        if scaling and 0 < width < SMALL_WIDTH and width < (high - low) / 10:
            notes.append(
                f"the values of the input {name!r} are {input_range}; the model's own {_describe(net, scaling[0])} "
                f"makes them {both[0]:.4g} to {both[1]:.4g}: are they scaled already, x / 255 for example? Give the "
                "values as they were before, or leave out that layer"
            )
        elif not is_normalized and max(map(abs, both)) > LARGE_VALUE:
            where = f" after {_describe(net, scaling[-1])}" if scaling else ""
            scale = "$(1 / 255)" if 200 < max(map(abs, both)) < 256 else "..."
            notes.append(
                f"the values of the input {name!r} lie between {both[0]:.4g} and {both[1]:.4g}{where}, where the first "
                f"layer with weights reads them; nets learn well from values of about -1 to 1: preprocess {{ Rescaling "
                f"{{ scale: {scale} }} }} (or Normalization) scales them in training, evaluation and prediction alike"
            )
    return notes


def _leading_layers(net: Net, name: str) -> tuple[list[Layer], bool]:
    """The layers without weights that an input goes through first, and whether the next one normalizes its input."""
    layers = list(net.preprocess) if net.inputs and name == net.inputs[0].name else []
    if any(layer.normalizes for layer in layers):
        return [], True
    value = name
    while True:
        readers = [node for node in net.nodes if value in node.bottoms]
        if any(node.layer.normalizes for node in readers):
            return layers, True
        if len(readers) != 1 or len(readers[0].bottoms) != 1 or len(readers[0].tops) != 1:
            return layers, False
        layer = readers[0].layer
        if getattr(layer, "activation", None) is not None or layer.output_bounds(0.0, 1.0) is None:
            return layers, False
        layers.append(layer)
        value = readers[0].tops[0]


def _bounds_after(layers: list[Layer], low: float, high: float) -> tuple[float, float]:
    """Bounds of values from ``low`` to ``high`` after some layers; a layer of unknown bounds leaves them."""
    for layer in layers:
        low, high = layer.output_bounds(low, high) or (low, high)
    return low, high


def _describe(net: Net, layer: Layer) -> str:
    """``Rescaling in preprocess``, or ``Rescaling layer 'scale'``."""
    kind = type(layer).__name__
    if any(layer is other for other in net.preprocess):
        return f"{kind} in preprocess"
    return next((f"layer {node.name!r} ({kind})" for node in net.nodes if node.layer is layer), kind)
