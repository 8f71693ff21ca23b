"""References to the outputs of calls in the config of a functional model: [layer, call, output] before Keras 3, and in
its lists of inputs and outputs; tensors with such a history in the arguments of calls in Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prototorch.interop.keras.config_import.config_check import is_dtype

__all__ = ["CallReference", "call_arguments", "references_in", "replace_references", "tensor_references"]


def references_in(value: Any) -> Iterator[tuple[str, int, int]]:
    """The references [name, call, output] in a list of any form."""
    if _is_reference(value):
        yield (value[0], value[1], value[2])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references_in(item)


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


def tensor_references(value: Any) -> Iterator[tuple[str, int, int]]:
    """The keys of the references in arguments that `call_arguments` gave."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, CallReference):
            yield item.key
        elif isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))


@dataclass(frozen=True)
class CallReference:
    """key: the name of the layer, the number of its call, that of the output."""

    key: tuple[str, int, int]


def replace_references(value: Any, resolve: Callable[[tuple[str, int, int]], Any]) -> Any:
    """Arguments that `call_arguments` gave, with what ``resolve`` gives for the key of each reference."""
    if isinstance(value, CallReference):
        return resolve(value.key)
    if isinstance(value, list | tuple):
        return [replace_references(item, resolve) for item in value]
    if isinstance(value, dict):
        return {key: replace_references(item, resolve) for key, item in value.items()}
    return value


def call_arguments(node: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, references marked: a dict in Keras 3, a list of references before."""
    if isinstance(node, dict):
        args = node["args"]
        return tuple(_mark(value) for value in args), {k: _mark(v) for k, v in node["kwargs"].items()}
    kwargs: dict[str, Any] = {}
    references = []
    for item in [node] if _is_reference(node) else node:
        if not _is_reference(item):
            raise ValueError(f"a call {str(item)[:60]}")
        references.append(CallReference((item[0], item[1], item[2])))
        kwargs |= item[3] if len(item) > 3 else {}
    first: Any = references[0] if len(references) == 1 else references
    return (first,), {key: _mark_old(value) for key, value in kwargs.items()}


def _mark(value: Any) -> Any:
    if _is_tensor(value):
        tensor = value["config"]
        sizes = tensor["shape"]
        is_shape = isinstance(sizes, list) and all(n is None or (type(n) is int and n >= 0) for n in sizes)
        if not is_shape or not is_dtype(tensor["dtype"]):
            raise ValueError(f"a tensor {str(tensor)[:60]}")
        name, call, output = tensor["keras_history"]
        return CallReference((str(name), int(call), int(output)))
    if isinstance(value, list):
        return [_mark(item) for item in value]
    if isinstance(value, dict) and "class_name" not in value:
        return {key: _mark(item) for key, item in value.items()}
    return value


def _mark_old(value: Any) -> Any:
    """References in the keyword arguments of Keras 2: [name, call, output], or lists of them."""
    if _is_reference(value):
        return CallReference((value[0], value[1], value[2]))
    if isinstance(value, list) and value and all(_is_reference(item) for item in value):
        return [_mark_old(item) for item in value]
    return value
