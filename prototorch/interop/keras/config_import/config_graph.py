"""The calls of a Keras model's layers, in an order in which each reads only calls before it; models inside inlined.

Reads the configs of Sequential and functional models of Keras 1, 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prototorch.errors import ModelFileError

__all__ = ["CallOutput", "ConfigGraph", "KerasLayerCall", "read_graph"]

MODEL_CLASSES = ("Sequential", "Functional", "Model")
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
    the config does not tell it."""

    number: int
    path: str
    kind: str
    module: str
    config: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

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
    """A layer of a functional model's config."""

    name: str
    kind: str
    module: str
    config: Mapping[str, Any]
    nodes: list[Any]
    declaration: Mapping[str, Any]


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
        inner = node.get("config", node)
        kind = node.get("class_name", "Sequential" if isinstance(inner, list) else None)
        if kind is None:
            kind = "Functional" if isinstance(inner, dict) and "input_layers" in inner else "Sequential"
        if isinstance(inner, list) or kind == "Sequential" or (isinstance(inner, dict) and "input_layers" not in inner):
            if not isinstance(inner, list) and not isinstance(inner.get("layers"), list):
                self.fail(
                    f"{_display(kind)} is a class of a program, not a Sequential or functional model: its file does "
                    "not tell what it computes; rebuild it from Keras' layers as a functional model and save that, or "
                    "load its weights into a text (--model TEXT)"
                )
            return self.sequential(inner, node, prefix, values_read, depth)
        return self.functional(inner, prefix, values_read, depth)

    def sequential(
        self, inner: Any, node: Mapping[str, Any], prefix: str, values_read: list[CallOutput] | None, depth: int
    ) -> list[CallOutput]:
        layers = inner if isinstance(inner, list) else inner["layers"]
        current = values_read
        for entry in layers:
            kind, config = _text(entry["class_name"]), entry.get("config") or {}
            if kind == "InputLayer":
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
        for entry in inner["layers"]:
            name = _name(entry)
            config = entry.get("config")
            entries[name] = _Entry(
                name,
                _text(entry["class_name"]),
                str(entry.get("module") or ""),
                config if isinstance(config, dict) else {},
                list(entry.get("inbound_nodes") or []),
                entry,
            )
        values: dict[tuple[str, int], list[CallOutput]] = {}
        references = list(_references(inner["input_layers"]))
        if values_read is not None and len(values_read) != len(references):
            self.fail(
                f"the model {prefix[:-1]!r} is called on {len(values_read)} values and has {len(references)} inputs"
            )
        for number, (name, _, _) in enumerate(references):
            entry = entries.get(name) or self.fail(f"the input {_display(name)} is not among its layers")
            values[name, 0] = [self.add_input(entry.config, name) if values_read is None else values_read[number]]
        outputs = []
        for name, node, index in _references(inner["output_layers"]):
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
            args, kwargs = _arguments(entry.nodes[number])
            missing = [r[:2] for r in _tensor_references([list(args), kwargs]) if r[:2] not in values]
            if missing:
                if key in visited:
                    self.fail(f"its layers read each other in a circle, at {_display(name)}")
                visited.add(key)
                stack.extend(reversed(missing))
                continue

            def resolve(reference: tuple[str, int, int], values: Any = values) -> CallOutput:
                return values[reference[:2]][reference[2]]

            args = tuple(_replace(value, resolve) for value in args)
            kwargs = {k: _replace(value, resolve) for k, value in kwargs.items()}
            if entry.kind in MODEL_CLASSES:
                values_read = list(_outputs_in([list(args), kwargs]))
                values[key] = self.model(entry.declaration, f"{prefix}{name}/", values_read, depth + 1)
            else:
                values[key] = self.add_call(entry.declaration, prefix, args, kwargs)
            stack.pop()

    # ------------------------------------------------------------------ parts

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
        number = len(self.calls)
        registered = entry.get("registered_name")
        module = str(entry.get("module") or (">" in str(registered or "") and registered) or "")
        self.calls.append(
            KerasLayerCall(
                number,
                f"{prefix}{_name(entry)}",
                _text(entry["class_name"]),
                module,
                config if isinstance(config, dict) else {},
                args,
                kwargs,
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


def _references(value: Any) -> Iterator[tuple[str, int, int]]:
    """The references [name, call, output] in a list of any form."""
    if _is_reference(value):
        yield (value[0], value[1], value[2])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)


def _is_reference(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and all(isinstance(n, int) and not isinstance(n, bool) for n in value[1:3])
        and (len(value) == 3 or isinstance(value[3], dict))
    )


def _is_tensor(value: Any) -> bool:
    return isinstance(value, dict) and value.get("class_name") == "__keras_tensor__"


def _tensor_references(value: Any) -> Iterator[tuple[str, int, int]]:
    """References in arguments that `_arguments` gave."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _Reference):
            yield item.key
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))


@dataclass(frozen=True)
class _Reference:
    key: tuple[str, int, int]


def _replace(value: Any, resolve: Callable[[tuple[str, int, int]], CallOutput]) -> Any:
    if isinstance(value, _Reference):
        return resolve(value.key)
    if isinstance(value, list | tuple):
        return [_replace(item, resolve) for item in value]
    if isinstance(value, dict):
        return {key: _replace(item, resolve) for key, item in value.items()}
    return value


def _arguments(node: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, references marked: a dict in Keras 3, a list of references before."""
    if isinstance(node, dict):
        args = node.get("args") or []
        return tuple(_mark(value) for value in args), {k: _mark(v) for k, v in (node.get("kwargs") or {}).items()}
    kwargs: dict[str, Any] = {}
    references = []
    for item in [node] if _is_reference(node) else node:
        if not _is_reference(item):
            raise ValueError(f"a call {str(item)[:60]}")
        references.append(_Reference((item[0], item[1], item[2])))
        kwargs |= item[3] if len(item) > 3 else {}
    first: Any = references[0] if len(references) == 1 else references
    return (first,), {key: _mark_old(value) for key, value in kwargs.items()}


def _mark(value: Any) -> Any:
    if _is_tensor(value):
        name, call, output = value["config"]["keras_history"]
        return _Reference((str(name), int(call), int(output)))
    if isinstance(value, list):
        return [_mark(item) for item in value]
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _mark(item) for key, item in value.items()}
    return value


def _mark_old(value: Any) -> Any:
    """References in the keyword arguments of Keras 2: [name, call, output], or lists of them."""
    if _is_reference(value):
        return _Reference((value[0], value[1], value[2]))
    if isinstance(value, list) and value and all(_is_reference(item) for item in value):
        return [_mark_old(item) for item in value]
    return value
