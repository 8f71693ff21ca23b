"""A Keras model's config: read as data with limits, and its layers listed. No class that it names is looked up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prototorch.errors import ModelFileError

__all__ = ["MODEL_CLASSES", "ConfigLayer", "data_format_of", "flatten_order_of", "iter_config_layers", "parse_config"]

MAX_CONFIG_BYTES = 16 << 20
MAX_CONFIG_DEPTH = 200
MAX_LAYERS = 100_000
MODEL_CLASSES = ("Sequential", "Functional", "Model")


@dataclass(frozen=True)
class ConfigLayer:
    """A layer of a config. path: its name behind those of the models that it is in (``vgg16/block1_conv1``). is_model:
    whether it is a model, whose layers follow. parent: the path of the model that it is in, "" for the outermost."""

    path: str
    kind: str
    config: Mapping[str, Any]
    is_model: bool = False
    parent: str = ""


def parse_config(text: str | bytes, where: str) -> dict[str, Any]:
    """The JSON object of a config. Raises ModelFileError, beginning with ``where``, for another text."""
    if len(text) > MAX_CONFIG_BYTES:
        raise ModelFileError(f"{where}: a config of {len(text):,} bytes; at most {MAX_CONFIG_BYTES:,} are read")
    try:
        config = json.loads(text, parse_constant=_parse_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)[:100]
        raise ModelFileError(f"{where}: not a JSON text: {reason}") from None
    if not isinstance(config, dict):
        raise ModelFileError(f"{where}: expected a JSON object, got a {type(config).__name__}")
    _check_depth(config, where)
    return config


def _parse_constant(name: str) -> float:
    return {"Infinity": float("inf"), "-Infinity": float("-inf")}.get(name, float("nan"))


def _check_depth(config: Any, where: str) -> None:
    level = [config]
    for _ in range(MAX_CONFIG_DEPTH):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise ModelFileError(f"{where}: a config nested deeper than {MAX_CONFIG_DEPTH} levels")


def iter_config_layers(config: Mapping[str, Any], where: str) -> Iterator[ConfigLayer]:
    """The layers of a model in the config's order; those of a model inside it follow it.

    Raises ModelFileError for a config that is not a model's, or lists more than 100,000 layers.
    """
    stack: list[tuple[str, Any]] = [("", config)]
    count = -1
    while stack:
        prefix, node = stack.pop()
        if not isinstance(node, dict) or not isinstance(node.get("class_name"), str):
            raise ModelFileError(f"{where}: an entry of its layers has no class_name")
        kind, inner = node["class_name"], node.get("config")
        name = node.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
        path = f"{prefix}{name}"
        count += 1
        if count > MAX_LAYERS:
            raise ModelFileError(f"{where}: more than {MAX_LAYERS:,} layers")
        layers = inner if isinstance(inner, list) else inner.get("layers") if isinstance(inner, dict) else None
        if kind in MODEL_CLASSES or (isinstance(layers, list) and node is config):
            if not isinstance(layers, list):
                raise ModelFileError(f"{where}: the config of a {kind} without a list of layers")
            if node is not config:
                yield ConfigLayer(path, kind, inner if isinstance(inner, dict) else {}, True, prefix[:-1])
            below = "" if node is config else f"{path}/"
            stack += [(below, layer) for layer in reversed(layers)]
        else:
            yield ConfigLayer(path, kind, inner if isinstance(inner, dict) else {}, False, prefix[:-1])


def data_format_of(layers: list[ConfigLayer]) -> str:
    """The order of axes that a model's images have: "channels_last" or "channels_first"."""
    formats = [
        value
        for layer in layers
        for value in (layer.config.get("data_format"), layer.config.get("dim_ordering"))
        if isinstance(value, str)
    ]
    first = sum(value in ("channels_first", "th") for value in formats)
    return "channels_first" if first and 2 * first >= len(formats) else "channels_last"


def flatten_order_of(layers: list[ConfigLayer], data_format: str) -> str:
    """The order in which a model's Flatten layers give an image's elements: "channels_last", which Flatten brings about
    for either order of the axes, or "channels_first" where it leaves such images as they are."""
    formats = {layer.config.get("data_format") for layer in layers if layer.kind == "Flatten"}
    return "channels_last" if data_format == "channels_last" or "channels_first" in formats else "channels_first"
