"""Params and arguments: checks against their declarations, and binding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text.call_schema import schema_at
from prototorch.text.expressions import Name
from prototorch.text.name_resolution import BODIES_OF_LAYERS, TOP_LEVEL_BLOCKS
from prototorch.text.operands import render_value
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    CallWord,
    Expression,
    Field,
    If,
    InvalidValue,
    Repeat,
    TypedBlock,
)

#: fields that every use of a block has, unless the block has an argument of the name
USE_FIELDS = ("name", "bottom", "top", "trainable", "lr_mult", "decay_mult", "weights")


def check_param(name: str, old: Any, new: Any) -> str | None:
    """The error message for a caller's value of a param whose default is ``old``; None if it fits."""
    if old is None or new is None or isinstance(old, InvalidValue) or _type_name(old) == _type_name(new):
        return None
    if isinstance(old, float) and _type_name(new) == "an integer":
        return None
    return f"The param {name!r} is {_type_name(old)} ({render_value(old)}), and was given {render_value(new)}."


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number"
    return "a string" if isinstance(value, str) else "a list" if isinstance(value, list) else "a block"


def check_arguments(block: BlockDef) -> list[tuple[str, Span | None]]:
    """Errors in the argument list of a block."""
    errors: list[tuple[str, Span | None]] = []
    names: set[str] = set()
    for argument in block.arguments:
        if argument.name in ("name", "bottom"):
            message = f"An argument cannot be called {argument.name!r}: every use of a block has it."
            errors.append((message, argument.span))
        if argument.name in names:
            errors.append((f"The argument {argument.name!r} is given twice.", argument.span))
        names.add(argument.name)
    return errors


@dataclass(slots=True)
class UseFields:
    """The fields of a use of a block by name, layers in its braces as the argument that they are, and what is wrong.

    An unknown field is stored under its hint, so that the argument it meant is not reported as missing.
    """

    fields: dict[str, Field]
    errors: list[tuple[str, Span | None]]


def bind_arguments(use: Field, block: BlockDef, bodies: Sequence[str]) -> UseFields:
    """What a use of a block gives it. bodies: the arguments that layers in its braces may be."""
    names = {a.name: a for a in block.arguments}
    all_names = {*names, *USE_FIELDS}
    use_fields = UseFields({}, [])
    layers: list[Any] = []
    for f in use.value.statements:
        if is_layer(f, names):
            layers.append(f)
        elif not f.name:
            use_fields.fields["?"] = f  # a statement with a syntax error: its field is unknown
        elif f.name in use_fields.fields:
            use_fields.errors.append((f"{block.name}.{f.name} is given twice.", f.name_span))
        elif f.name in all_names:
            if layers and bodies:
                message = f"Fields stand before layers: move {f.name!r} to the begin of the braces of {block.name}."
                use_fields.errors.append((message, f.name_span))
            use_fields.fields[f.name] = f
        else:
            hint = did_you_mean(f.name, names) or (f" It has {', '.join(names)}." if names else " It has none.")
            use_fields.errors.append((f"The block {block.name} has no argument {f.name!r}.{hint}", f.name_span))
            use_fields.fields[hint] = f
    if layers:
        _bind_layers(use_fields, tuple(layers), use, block, bodies)
    return use_fields


def add_fields(use: Field, block: TypedBlock) -> Field:
    """The use of a layer or a block with the fields of an argument, ``norm: GroupNormalization(8)``, that it does not
    give itself."""
    names = {f.name for f in use.value.fields}
    statements = (*(f for f in block.body.fields if f.name not in names), *use.value.statements)
    return replace(use, value=replace(use.value, statements=statements))


def is_layer(f: Any, names: Collection[str]) -> bool:
    """Whether a statement in the braces of a use is no field: a layer, another block's use, a repeat of them. names: of
    the block's arguments."""
    if not isinstance(f, Field) or f.outputs or isinstance(f.value, CallBody):
        return True
    return isinstance(f.value, Body) and f.name not in names


def _bind_layers(
    use_fields: UseFields, layers: tuple[Any, ...], use: Field, block: BlockDef, bodies: Sequence[str]
) -> None:
    """The layers in the braces of a use as the argument that they are."""
    first = layers[0]
    place = first.name_span if isinstance(first, Field) else first.span
    if len(bodies) == 1:
        if bodies[0] in use_fields.fields:
            use_fields.errors.append(
                (f"{block.name}.{bodies[0]} is given twice: layers in its braces are it, too.", place)
            )
        else:
            use_fields.fields[bodies[0]] = Field(bodies[0], Body(layers, use.value.span), use.value.span, use.name_span)
    elif bodies:
        example = f"{block.name} {{ {bodies[0]} {{ ... }} }}"
        message = f"The block {block.name} takes several bodies ({', '.join(bodies)}): write {example}."
        use_fields.errors.append((message, place))
        use_fields.fields.update(dict.fromkeys((f"{body!r}?" for body in bodies), use))
    for layer in layers if not bodies else ():
        if isinstance(layer, Field):
            names = [a.name for a in block.arguments]
            hint = did_you_mean(layer.name, names) or (f" It has {', '.join(names)}." if names else " It has none.")
            use_fields.errors.append((f"The block {block.name} has no argument {layer.name!r}.{hint}", layer.name_span))
            use_fields.fields[hint] = layer
        else:
            message = f"A use of a block holds its arguments only: {block.name} {{ name: value }}."
            use_fields.errors.append((message, layer.span))


#: the names of all arguments of a block, and of those that are layers
ArgumentNames = tuple[Sequence[str], Collection[str]]


def layer_arguments(block: BlockDef, arguments_of: Callable[[str], ArgumentNames | None]) -> frozenset[str]:
    """The arguments of a block that it uses as layers, or gives to another block that does.

    arguments_of: the arguments of a block by its name; None where there is none of the name.
    """
    names = {a.name for a in block.arguments}
    layers: set[str] = set()
    waiting: list[tuple[Any, bool]] = [(block.body, True)]  # with whether layers stand there
    while waiting and len(layers) < len(names):
        node, layers_stand = waiting.pop()
        if isinstance(node, Body):
            waiting.extend((s, layers_stand) for s in node.statements)
        elif isinstance(node, Repeat):
            waiting.append((node.body, layers_stand))
        elif isinstance(node, If):
            waiting.extend((body, layers_stand) for _, body in node.arms)
            waiting.append((node.else_body, layers_stand))
        elif isinstance(node, Field) and isinstance(node.value, Body | CallBody):
            is_known = node.name in TOP_LEVEL_BLOCKS or schema_at((node.name,)) is not None
            if layers_stand and not is_known:
                layers |= names & {node.name, *_given_as_layers(node, arguments_of(node.name))}
            inside = node.name in BODIES_OF_LAYERS or (layers_stand and not is_known)
            waiting.append((node.value.body if isinstance(node.value, CallBody) else node.value, inside))
    return frozenset(layers)


def _given_as_layers(use: Field, block: ArgumentNames | None) -> set[str]:
    """The variables that a use of a block gives to arguments which the block uses as layers."""
    if block is None:
        return set()
    order, layers = block
    values: dict[str, Any] = {}
    if isinstance(use.value, CallBody):
        positional = [a.value for a in use.value.arguments if a.name is None]
        values = dict(zip(order, positional, strict=False))
        values.update({a.name: a.value for a in use.value.arguments if a.name is not None})
    elif isinstance(use.value, Body):
        values = {f.name: f.value for f in use.value.fields}
    return {name for name in (_variable_name(values[field]) for field in layers if field in values) if name}


def _variable_name(value: Any) -> str:
    if isinstance(value, CallWord):
        return value.text
    return value.root.name if isinstance(value, Expression) and isinstance(value.root, Name) else ""


def body_arguments(block: BlockDef, layers: Collection[str]) -> list[str]:
    """The arguments that the layers in the braces of a use may be: those that are used as layers, and are no type by
    default."""
    return [a.name for a in block.arguments if a.name in layers and isinstance(a.default, Body | None)]
