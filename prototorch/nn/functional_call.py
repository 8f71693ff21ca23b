"""Calls of a module with other parameters and buffers than its own, as PyTorch's ``functional_call``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prototorch.eager.layer_call import weights_of
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, did_you_mean
from prototorch.nn.layer_child import LayerChild
from prototorch.nn.module import Module

__all__ = ["functional_call"]

#: the place of a tensor in a module: the register that holds it, and its key there
Entry = tuple[dict[str, Any], str]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The result of ``module(*args, **kwargs)`` with the given tensors in the place of its parameters and buffers.

    parameter_and_buffer_dicts: {name: tensor} with the names of `named_parameters` and `named_buffers`, or a sequence
    of such dicts; tensors that are not named are the module's own. A buffer that the call replaces, is replaced in the
    dict. args: the positional arguments, a tuple, or one that is no tuple. kwargs: those by name. tie_weights: a tensor
    given for one of several names of one parameter stands for all of them. strict: every tensor must be given.

    Raises UsageError for a name that the module does not have, for a name in several dicts, for different tensors of
    tied names, for what is no tensor, and, with ``strict``, for a name that is not given.
    """
    if not isinstance(module, Module):
        raise UsageError(f"functional_call: expected a module, got {type(module).__name__}")
    dicts = _as_dicts(parameter_and_buffer_dicts)
    entries = dict(_entries(module))
    overrides = {name: (place_of, value) for place_of in dicts for name, value in place_of.items()}
    _check_names(module, overrides, entries, strict)
    values = {name: value for name, (_, value) in overrides.items()}
    if tie_weights:
        values = _tie(values, entries)
    inputs = () if args is None else args if isinstance(args, tuple) else (args,)
    own = {name: entries[name][0][entries[name][1]] for name in values}
    try:
        for name, value in values.items():
            register, key = entries[name]
            register[key] = value
        return module(*inputs, **(kwargs or {}))
    finally:
        for name, value in own.items():
            register, key = entries[name]
            previous, register[key] = register.get(key), value
            if name in overrides and previous is not overrides[name][1]:
                overrides[name][0][name] = previous


def _as_dicts(tensors: Any) -> list[dict[str, Any]]:
    dicts: list[Any] = (
        [tensors] if isinstance(tensors, dict) else list(tensors) if isinstance(tensors, Sequence) else [tensors]
    )
    if not all(isinstance(d, dict) for d in dicts):
        raise UsageError(
            f"functional_call: expected a dict {{name: tensor}} or a sequence of dicts, got {type(tensors).__name__}"
        )
    seen: set[str] = set()
    for d in dicts:
        for name, value in d.items():
            if name in seen:
                raise UsageError(f"functional_call: {name!r} is in several of the dicts: give it once")
            seen.add(name)
            if not isinstance(value, Tensor):
                raise UsageError(f"functional_call: expected a tensor for {name!r}, got {type(value).__name__}")
    return dicts


def _entries(module: Module) -> Iterator[tuple[str, Entry]]:
    """The entries of all parameters and buffers, under each of their names."""
    for prefix, part in module.named_modules(remove_duplicate=False):
        dot = f"{prefix}." if prefix else ""
        if isinstance(part, LayerChild):
            weights = weights_of(part.layer)
            yield from ((dot + name.replace("/", "."), (weights, name)) for name in weights)
            continue
        if hasattr(part, "weight_places"):  # a model
            yield from ((dot + name, place) for name, place in part.weight_places().items())
            continue
        for register in (part._parameters, part._buffers):
            yield from ((dot + name, (register, name)) for name, value in register.items() if value is not None)


def _check_names(module: Module, names: Mapping[str, Any], entries: Mapping[str, Entry], strict: bool) -> None:
    for name in names:
        if name not in entries:
            raise UsageError(
                f"functional_call: {type(module).__name__} has no parameter or buffer {name!r}."
                f"{did_you_mean(str(name), list(entries))}"
            )
    tied = {id(entries[name][0][entries[name][1]]) for name in names}
    missing = [name for name, (register, key) in entries.items() if id(register[key]) not in tied]
    if strict and missing:
        raise UsageError(
            f"functional_call: strict=True wants all parameters and buffers; {', '.join(missing)} are not given"
        )


def _tie(values: dict[str, Any], entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The values of all names, with those of the other names of the same tensors."""
    names: dict[int, list[str]] = {}
    for name, (register, key) in entries.items():
        names.setdefault(id(register[key]), []).append(name)
    tied = dict(values)
    for group in names.values():
        member_names = [name for name in group if name in values]
        if len({id(values[name]) for name in member_names}) > 1:
            raise UsageError(
                f"functional_call: {' and '.join(member_names)} are one tensor in the module, and different ones are "
                "given; give one, or tie_weights=False"
            )
        tied.update((name, values[member_names[0]]) for name in group if member_names)
    return tied
