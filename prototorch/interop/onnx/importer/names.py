"""Names of layers, from the names that a file has for its nodes and weights."""

from __future__ import annotations

import re

from prototorch.layers.base import Layer
from prototorch.schema.names import find_name_error, to_name
from prototorch.text.case_conversion import snake_case

__all__ = ["LayerNames", "layer_name"]

# the last part of the names of weights
_WEIGHT_WORDS = frozenset({
    "weight", "bias", "kernel", "gamma", "beta", "running_mean", "running_var", "moving_mean", "moving_variance",
    "mean",
    "var", "variance", "scale", "alpha", "embeddings", "depthwise_kernel", "recurrent_kernel", "w", "r", "b", "W", "R",
    "B",
})  # fmt: skip
_LONGEST = 150


def layer_name(node_name: str, op: str, weight_names: list[str]) -> str:
    """The name of a node's layer in the file: what its weights have in front, else the node's own; "" for none that
    carries a meaning."""
    for name in weight_names:
        stem, _, last = name.replace("/", ".").rpartition(".")
        if stem and last in _WEIGHT_WORDS and not stem.startswith("onnx::"):
            return _clean(stem)
    name = _clean(node_name.replace("::", "/"))
    name = name.removesuffix("/" + op)
    return "" if _is_generated(node_name, name, op) else name


def _is_generated(node_name: str, name: str, op: str) -> bool:
    """Whether an exporter has made the name up: Conv_0, /Conv, node_conv2d_3, 12."""
    if not name or name == op or node_name.startswith(("node_", "onnx::", "n0_")):
        return True
    return bool(re.fullmatch(rf"/?{re.escape(op)}[_0-9]*|[0-9_]+|n[0-9]+", node_name))


def _clean(text: str) -> str:
    """The text as a name with ``/`` between its parts."""
    parts = [part for part in to_name(text[:1000]).replace(".", "/").replace(":", "_").split("/") if part]
    # torch's exporter repeats the way to a module: /layer1/layer1.0/conv1
    distinct_parts = [part for i, part in enumerate(parts) if i + 1 == len(parts) or part != parts[i + 1]]
    name = "/".join(distinct_parts[-8:])[-_LONGEST:].strip("/")
    return name if name and find_name_error(name) is None else ""


class LayerNames:
    """Names in a net: each once."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, preferred: str, layer: type[Layer] | None = None) -> str:
        """The name that is preferred, with a number where it is used; the layer's type and a number for ""."""
        stem = preferred or snake_case(layer.__name__ if layer is not None else "input")
        name = preferred
        while not name or name in self.used:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{self._counts[stem]}"
        self.used.add(name)
        return name
