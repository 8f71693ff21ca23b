"""The calls of a Keras model's layers, in an order in which each reads only calls before it; models inside inlined.

Reads the configs of Sequential and functional models of Keras 1, 2 and 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from prototorch.errors import ModelFileError
from prototorch.interop.keras.config_import.config_check import check_class, check_input, check_model, check_model_call
from prototorch.interop.keras.config_import.config_fields import NotImportableError
from prototorch.interop.keras.config_import.config_references import (
    CallReference,
    call_arguments,
    references_in,
    replace_references,
    tensor_references,
)
from prototorch.interop.keras.config_json import MODEL_CLASSES

__all__ = ["CallOutput", "ConfigGraph", "KerasLayerCall", "read_graph"]

_BUILT_MODEL_CLASSES = ("Functional", "Model")  # have a call of their own, on their inputs, before all others
MAX_CALLS = 100_000
MAX_MODEL_DEPTH = 30  # models inside each other


@dataclass(frozen=True)
class CallOutput:
    """An output of a call. call: its number; inputs of the whole model have negative ones."""

    call: int
    index: int = 0


@dataclass(frozen=True)
class KerasLayerCall:
    """A layer as it is called once. path: the layer's name behind those of the models that it is in; calls of one path
    share their weights. args, kwargs: `CallOutput`s, lists of them, and other values. module: the class's, "" where
    the config does not tell it. build_config: what the layer was built for, as Keras 3 tells it."""

    number: int
    path: str
    kind: str
    module: str
    config: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    build_config: Any = None

    def inputs(self) -> list[CallOutput]:
        """All outputs that the call reads, in their order."""
        return list(_outputs_in([list(self.args), *self.kwargs.values()]))


@dataclass(frozen=True)
class ConfigGraph:
    """inputs: name, shape without the batch (None: an open size) and dtype of each."""

    name: str
    inputs: tuple[tuple[str, tuple[int | None, ...], str], ...]
    calls: tuple[KerasLayerCall, ...]
    outputs: tuple[CallOutput, ...]


def _outputs_in(value: Any) -> Iterator[CallOutput]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, CallOutput):
            yield item
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))


def read_graph(config: Mapping[str, Any], where: str) -> ConfigGraph:
    """The calls of a model. Raises ModelFileError, beginning with `where`, for a config that is not a model's."""
    reader = _Reader(where)
    try:
        outputs = reader.model(config, "", None, 0)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ModelFileError(f"{where}: its config is not that of a model of Keras: {error!r:.100}") from None
    if not reader.calls:
        raise ModelFileError(f"{where}: the config has no layers")
    inner = config.get("config")
    name = inner.get("name") if isinstance(inner, dict) else None
    return ConfigGraph(
        str(name or config.get("name") or "model"), tuple(reader.inputs), tuple(reader.calls), tuple(outputs)
    )


@dataclass
class _Entry:
    """A layer of a functional model's config. first_call: what references of other layers call its first call."""

    name: str
    kind: str
    module: str
    config: Mapping[str, Any]
    nodes: list[Any]
    declaration: Mapping[str, Any]
    first_call: int = 0


class _Reader:
    def __init__(self, where: str):
        self.where = where
        self.inputs: list[tuple[str, tuple[int | None, ...], str]] = []
        self.calls: list[KerasLayerCall] = []

    def fail(self, message: str) -> Any:
        raise ModelFileError(f"{self.where}: {message}")

    # ------------------------------------------------------------------ models

    def model(
        self, node: Mapping[str, Any], prefix: str, values_read: list[CallOutput] | None, depth: int
    ) -> list[CallOutput]:
        """Add the calls of a model that reads `values_read` (None: it is the whole model); its outputs."""
        if depth > MAX_MODEL_DEPTH:
            self.fail(f"its config has models more than {MAX_MODEL_DEPTH} deep inside each other")
        if "config" in node and "class_name" not in node:
            self.fail("its config is not that of a model of Keras: it has no class_name")
        inner = node.get("config", node)
        kind = node.get("class_name", "Sequential" if isinstance(inner, list) else None)
        self.check(node, lambda: check_class(node))
        if kind is None:
            kind = "Functional" if isinstance(inner, dict) and "input_layers" in inner else "Sequential"
        if isinstance(inner, list) or kind == "Sequential" or (isinstance(inner, dict) and "input_layers" not in inner):
            if not isinstance(inner, list) and not isinstance(inner.get("layers"), list):
                self.fail(
                    f"{_display(kind)} is a class of a program, not a Sequential or functional model: its file does "
                    "not tell what it computes; rebuild it from Keras' layers as a functional model and save that, or "
                    "load its weights into a text (--model TEXT)"
                )
            self.check(node, lambda: check_model("Sequential", inner))
            return self.sequential(inner, node, prefix, values_read, depth)
        self.check(node, lambda: check_model("Functional", inner))
        return self.functional(inner, prefix, values_read, depth)

    def sequential(
        self, inner: Any, node: Mapping[str, Any], prefix: str, values_read: list[CallOutput] | None, depth: int
    ) -> list[CallOutput]:
        layers = inner if isinstance(inner, list) else inner["layers"]
        current = values_read
        if not layers:
            self.fail("the config lists no layers")
        self.check_names([entry.get("name") or (entry.get("config") or {}).get("name") for entry in layers])
        for number, entry in enumerate(layers):
            kind, config = _text(entry["class_name"]), entry.get("config") or {}
            if kind == "InputLayer":
                if number:
                    self.fail(f"the input {_display(_name(entry))} of a Sequential stands behind other layers")
                self.check_input(entry)
                if current is None:
                    current = [self.add_input(config, str(config.get("name") or "input"))]
                continue
            if current is None:
                shape = _batch_shape(config) or _first_shape(entry) or _built_shape(inner, node)
                if shape is None and kind not in MODEL_CLASSES:
                    self.fail(
                        "the model was saved before it was built: its config tells no shape of its input; call it once "
                        "on data (or add keras.Input(shape)) and save it again"
                    )
                if shape is not None:
                    current = [self.add_input({**config, "batch_shape": shape}, "input")]
            if kind in MODEL_CLASSES:
                current = self.model(entry, f"{prefix}{_name(entry)}/", current, depth + 1)
                continue
            assert current is not None
            argument = current[0] if len(current) == 1 else list(current)
            current = self.add_call(entry, prefix, (argument,), {})
        return current or self.fail("the config lists no layers")

    def functional(
        self, inner: Mapping[str, Any], prefix: str, values_read: list[CallOutput] | None, depth: int
    ) -> list[CallOutput]:
        entries = {}
        self.check_names([entry["name"] for entry in inner["layers"]])
        for entry in inner["layers"]:
            name = entry["name"]
            if not isinstance(name, str) or not isinstance(entry["inbound_nodes"], list):
                self.fail(f"the layer {_display(name)} needs a text as its name and a list of inbound_nodes")
            config = entry.get("config") if isinstance(entry.get("config"), dict) else {}
            if config.get("name", name) != name:
                self.fail(f"the layer {_display(name)} is called {_display(config['name'])} in its config")
            kind, module = _text(entry["class_name"]), str(entry.get("module") or "")
            entries[name] = _Entry(name, kind, module, config, entry["inbound_nodes"], entry)
        is_old = not any(isinstance(node, dict) for entry in entries.values() for node in entry.nodes)
        if is_old:
            _number_calls_of_models(entries, inner["output_layers"])
        values: dict[tuple[str, int], list[CallOutput]] = {}
        references = list(references_in(inner["input_layers"]))
        if values_read is not None and len(values_read) != len(references):
            self.fail(
                f"the model {prefix[:-1]!r} is called on {len(values_read)} values and has {len(references)} inputs"
            )
        for number, (name, *output) in enumerate(references):
            if output != [0, 0]:
                self.fail(f"the input {_display(name)} has no output {output}")
            entry = entries.get(name) or self.fail(f"the input {_display(name)} is not among its layers")
            if entry.kind != "InputLayer":
                self.fail(f"the input {_display(name)} is a layer {entry.kind[:60]}")
            self.check_input(entry.declaration)
            values[name, 0] = [self.add_input(entry.config, name) if values_read is None else values_read[number]]
        outputs = []
        for name, node, index in references_in(inner["output_layers"]):
            if name in entries:
                node -= entries[name].first_call if is_old else int(entries[name].kind in _BUILT_MODEL_CLASSES)
            self.evaluate((name, node), entries, values, prefix, depth)
            outputs.append(values[name, node][index])
        return outputs

    def evaluate(
        self,
        target: tuple[str, int],
        entries: Mapping[str, _Entry],
        values: dict[tuple[str, int], list[CallOutput]],
        prefix: str,
        depth: int,
    ) -> None:
        """Add the calls that a call depends on, and itself, in the order of a search from there."""
        stack = [target]
        visited: set[tuple[str, int]] = set()
        while stack:
            key = stack[-1]
            if key in values:
                stack.pop()
                continue
            name, number = key
            entry = entries.get(name) or self.fail(f"a layer reads {_display(name)}, which is not among its layers")
            if not 0 <= number < len(entry.nodes):
                if not entry.nodes and entry.kind in ("InputLayer", *MODEL_CLASSES):
                    self.fail(f"the layer {_display(name)} is read and is no input of the model")
                self.fail(f"call {number} of the layer {_display(name)} is read; it has {len(entry.nodes)}")
            args, kwargs = call_arguments(entry.nodes[number])
            args, kwargs = replace_references([list(args), kwargs], lambda key: _first_call_0(key, entries))
            missing = [r[:2] for r in tensor_references([list(args), kwargs]) if r[:2] not in values]
            if missing:
                if key in visited:
                    self.fail(f"its layers read each other in a circle, at {_display(name)}")
                visited.add(key)
                stack.extend(reversed(missing))
                continue

            def resolve(reference: tuple[str, int, int], values: Any = values) -> CallOutput:
                return values[reference[:2]][reference[2]]

            args = tuple(replace_references(value, resolve) for value in args)
            kwargs = {k: replace_references(value, resolve) for k, value in kwargs.items()}
            if entry.kind in MODEL_CLASSES:
                self.check(entry.declaration, partial(check_model_call, kwargs))
                values_read = list(_outputs_in([list(args), kwargs]))
                values[key] = self.model(entry.declaration, f"{prefix}{name}/", values_read, depth + 1)
            else:
                values[key] = self.add_call(entry.declaration, prefix, args, kwargs)
            stack.pop()

    # ------------------------------------------------------------------ parts

    def check_input(self, entry: Mapping[str, Any]) -> None:
        self.check(entry, lambda: check_input(entry["config"]))
        self.check(entry, lambda: check_class(entry))

    def check_names(self, names: list[Any]) -> None:
        name, count = Counter(str(name) for name in names if name).most_common(1)[0] if any(names) else ("", 1)
        if count > 1:
            self.fail(f"{count} layers of one model are called {_display(name)}")

    def check(self, entry: Mapping[str, Any], check: Callable[[], None]) -> None:
        """Make a check of the config of a layer or a model."""
        try:
            check()
        except NotImportableError as reason:
            self.fail(f"{_display(_name(entry))} {reason}")

    def add_input(self, config: Mapping[str, Any], name: str) -> CallOutput:
        shape = _batch_shape(config)
        if shape is None:
            self.fail(f"the input {_display(name)} has no shape")
        sizes = tuple((shape or [])[1:])
        if not all(n is None or (isinstance(n, int) and not isinstance(n, bool) and 0 < n < 2**31) for n in sizes):
            self.fail(f"the input {_display(name)} has the shape {str(shape)[:60]}")
        dtype = config.get("dtype") or config.get("input_dtype") or "float32"
        if isinstance(dtype, dict):
            dtype = (dtype.get("config") or {}).get("name", "float32")
        self.inputs.append((name, sizes, str(dtype)))
        return CallOutput(-len(self.inputs))

    def add_call(
        self, entry: Mapping[str, Any], prefix: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[CallOutput]:
        if len(self.calls) >= MAX_CALLS:
            self.fail(f"more than {MAX_CALLS:,} layers")
        config = entry.get("config")
        if not isinstance(config, dict):
            raise ModelFileError(
                f"{self.where}: the layer {_display(_name(entry))} has the config {str(config)[:60]}, no object"
            )
        self.check(entry, lambda: check_class(entry, takes_other_modules=True))
        number = len(self.calls)
        registered = entry.get("registered_name")
        module = str(entry.get("module") or (">" in str(registered or "") and registered) or "")
        self.calls.append(
            KerasLayerCall(
                number,
                f"{prefix}{_name(entry)}",
                _text(entry["class_name"]),
                module,
                config,
                args,
                kwargs,
                entry.get("build_config"),
            )
        )
        return _Outputs(number)


class _Outputs(list[CallOutput]):
    """The outputs of a call, as many as are asked for."""

    def __init__(self, call: int):
        super().__init__([CallOutput(call)])
        self.call = call

    def __getitem__(self, index: Any) -> Any:
        return CallOutput(self.call, index) if isinstance(index, int) and index >= 0 else super().__getitem__(index)


def _number_calls_of_models(entries: Mapping[str, _Entry], outputs: Any) -> None:
    """Keras 1 and 2 leave out the call that a model as a layer has of its own, and count it: its others begin with 1.

    Of a Sequential that depends on how it was made; no call is listed that nothing reads, so the lowest number tells.
    """
    numbers: dict[str, list[int]] = {}
    arguments = [call_arguments(node) for entry in entries.values() for node in entry.nodes]
    references = [*tensor_references([[list(args), kwargs] for args, kwargs in arguments]), *references_in(outputs)]
    for name, number, _ in references:
        numbers.setdefault(name, []).append(number)
    for name, entry in entries.items():
        if entry.kind in MODEL_CLASSES and name in numbers:
            entry.first_call = min(numbers[name])


def _first_call_0(key: tuple[str, int, int], entries: Mapping[str, _Entry]) -> Any:
    name, number, output = key
    return CallReference((name, number - entries[name].first_call if name in entries else number, output))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a class_name that is no text")
    return value


def _display(name: Any) -> str:
    return repr(name)[:80]


def _name(entry: Mapping[str, Any]) -> str:
    config = entry.get("config")
    name = entry.get("name") or (config.get("name") if isinstance(config, dict) else None)
    return str(name or entry["class_name"])


def _batch_shape(config: Mapping[str, Any]) -> list[Any] | None:
    shape = config.get("batch_shape") or config.get("batch_input_shape")
    if shape is None and isinstance(config.get("input_dim"), int) and "output_dim" not in config:
        return [None, config["input_dim"]]
    if shape is None and isinstance(config.get("input_length"), int):
        return [None, config["input_length"]]
    return shape if isinstance(shape, list) and shape else None


def _first_shape(entry: Mapping[str, Any]) -> list[Any] | None:
    """The input's shape that a model or a wrapper in front tells."""
    config = entry.get("config")
    layer = config.get("layer") if isinstance(config, dict) else None
    if isinstance(layer, dict) and isinstance(layer.get("config"), dict):
        return _batch_shape(layer["config"])
    return None


def _built_shape(inner: Any, node: Mapping[str, Any]) -> list[Any] | None:
    shape = inner.get("build_input_shape") if isinstance(inner, dict) else None
    build = node.get("build_config")
    if shape is None and isinstance(build, dict):
        shape = build.get("input_shape")
    return shape if isinstance(shape, list) and shape else None
