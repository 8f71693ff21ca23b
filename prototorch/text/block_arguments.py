"""The arguments of blocks: values, types of layers, other blocks, layers in braces; what a name in a block means."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import Any

from prototorch.text.arguments import ArgumentNames, UseFields, layer_arguments
from prototorch.text.block_values import LayersValue, LayerWord
from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import NET, NO_VALUE, FileTables, Names, Scope, find_variable
from prototorch.text.expressions import Name
from prototorch.text.name_resolution import RESERVED_NAMES
from prototorch.text.operands import BareWord, ScopedString, render_value
from prototorch.text.shipped_blocks import shipped_blocks
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    Argument,
    BlockDef,
    Body,
    ExpansionFrame,
    Expression,
    Field,
    InvalidValue,
    TypedBlock,
    Value,
    Word,
)
from prototorch.text.value_binding import ValueBinder

__all__ = ["Block", "BlockArguments"]

Block = tuple[int, BlockDef]  # a block with its place in the order of definitions
_LAYER_VALUES = (LayersValue, BareWord, TypedBlock, InvalidValue)  # what may stand in the place of a layer
_LISTS_OF_LAYERS = ("preprocess", "augment")


class BlockArguments(ValueBinder, ABC):
    """Binds the arguments of blocks."""

    # ------------------------------------------------------------------ blocks as values

    def layer_value(
        self, statement: Field, names: Names, scope: Scope
    ) -> LayersValue | BareWord | TypedBlock | InvalidValue | None:
        """The argument or param that a statement names in the place of a layer or a block: layers, the name of a layer
        or a block, or one with fields; InvalidValue after a mistake, which is reported; None where it names a layer or
        a block itself."""
        name = statement.name
        value = find_variable(names, name)
        if type(value) is str and isinstance(getattr(self.params.get(name), "value", None), Word):
            value = BareWord(value)  # a caller in Python has strings only
        if value is NO_VALUE or not isinstance(value, _LAYER_VALUES) or name in RESERVED_NAMES:
            return None
        if scope.kind != NET and scope.owner[-1:] not in [(word,) for word in _LISTS_OF_LAYERS]:
            return None
        block = self.blocks.get(name)
        if isinstance(value, LayersValue) or block is None or block[0] >= scope.visible:
            return value if isinstance(value, LayersValue) or schema_at((name,)) is None else None
        if isinstance(value, InvalidValue):
            return None
        word = value.word if isinstance(value, TypedBlock) else str(value)
        if word in self.blocks or schema_at((word,)) is not None:
            line = block[1].name_span.line if block[1].name_span is not None else 0
            message = f"{name!r} may mean the block {name} of line {line} or the value {name} ({render_value(value)})"
            self.report_error(f"{message}: rename one of them.", statement.name_span, scope)
            return InvalidValue(statement.span)
        return None

    def named_block(self, statement: Field, value: BareWord | TypedBlock, scope: Scope) -> tuple[str, Block | None]:
        """What a value names: the type of a layer, or a block, which may be used here. A block that may not is
        reported, and its name is empty."""
        word = value.word if isinstance(value, TypedBlock) else str(value)
        use = replace(statement, name=word)
        if isinstance(value, LayerWord) and value.block is not None:
            if word in scope.active:
                self.report_skipped(f"The block {word!r} uses itself.", statement.name_span, scope)
                return "", None
            return word, value.block
        block = self.find_block(word)
        if block is not None and block[0] < scope.visible:
            return word, block
        if block is not None or word in self.blocks_to_come:
            self.report_early_use(use, block, scope)
            return "", None
        return word, None

    def word_span(self, statement: Field, value: BareWord | TypedBlock) -> Span | None:
        """Where the layer or block is named that stands in the place of an argument or a param."""
        if isinstance(value, LayerWord):
            return value.span
        param = self.params.get(statement.name)
        span = value.word_span if isinstance(value, TypedBlock) else None
        return span or (param.value.span if param is not None else statement.name_span)

    def visible_block(self, statement: Field, scope: Scope) -> Block | None:
        """The block that a statement uses, which may be used here; one that every text may use included."""
        name = statement.name
        block = self.blocks.get(name)
        if block is not None:
            return block if block[0] < scope.visible else None
        return None if scope.kind != NET or schema_at((name,)) is not None else self.find_block(name)

    def find_block(self, name: str) -> Block | None:
        """The block of that name; one that every text may use is defined at its first use."""
        return None if self.arguments_of(name) is None else self.blocks[name]

    def arguments_of(self, name: str) -> ArgumentNames | None:
        """The arguments of the block of that name, and those of them that are layers; None where there is none."""
        if name not in self.blocks:
            if (
                name in RESERVED_NAMES
                or name in self.blocks_to_come
                or schema_at((name,)) is not None
                or name not in shipped_blocks()
            ):
                return None
            definition = shipped_blocks()[name]
            self.layer_arguments[name] = layer_arguments(definition, self.arguments_of)
            self.blocks[name] = (-1, definition)
        return [a.name for a in self.blocks[name][1].arguments], self.layer_arguments.get(name, frozenset())

    # ------------------------------------------------------------------ arguments

    def argument_value(
        self,
        argument: Argument,
        use_fields: UseFields,
        inner: Names,
        statement: Field,
        target: Scope,
        names: Names,
        scope: Scope,
        layers_example: str | None,
        home: FileTables,
    ) -> Any:
        """The value of a block's argument: from the use, else its default. layers_example: how layers are given for
        it; None where it is none."""
        is_layer = layers_example is not None
        if argument.name in use_fields.fields:
            node = use_fields.fields[argument.name].value
            layers = self.layers_value(argument.name, node, names, scope, target.chain) if is_layer else None
            if layers is not None:
                return layers
            value = self.evaluate(node, names, scope)
            self.spend_value(value, statement.name_span, scope)
            if is_layer and (type(value) is BareWord or (type(value) is str and value.isidentifier())):
                block = self.find_block(value)
                is_visible = block is not None and block[0] < scope.visible
                return LayerWord.of(str(value), block if is_visible else None, node.span)
            if is_layer and not isinstance(value, BareWord | TypedBlock | InvalidValue):
                message = (
                    f"{statement.name}.{argument.name} must be layers, or the name of a layer or a block, "
                    f"not {render_value(value)}."
                )
                self.report_error(message, node.span, scope)
                return InvalidValue(node.span)
            return ScopedString.wrap(value, scope.prefix)
        if argument.default is not None:
            with self.inside(home):
                layers = self.layers_value(argument.name, argument.default, inner, target, target.chain)
                if is_layer and layers is not None:
                    return layers
                return self.evaluate(argument.default, inner, replace(scope, chain=target.chain))
        if "?" not in use_fields.fields and not any(key.endswith(f"{argument.name!r}?") for key in use_fields.fields):
            hint = f": {layers_example}" if is_layer else ""
            message = f"The block {statement.name} needs {argument.name!r}{hint}."
            self.report_error(message, statement.name_span, scope)
        return InvalidValue(statement.name_span)

    def layers_value(
        self, name: str, node: Value, names: Names, scope: Scope, chain: ExpansionFrame | None
    ) -> LayersValue | None:
        """The layers that an argument is: those in braces, the use of a block, or the argument of a block around; None
        for any other value."""
        if isinstance(node, Body):
            return LayersValue(name, node, names, scope, self.tables, chain)
        if isinstance(node, TypedBlock):
            block = self.find_block(node.word)
            if block is not None and block[0] < scope.visible:
                use = Field(node.word, node.body, node.span, node.word_span)
                return LayersValue(name, Body((use,), node.span), names, scope, self.tables, chain)
        root = node.root if isinstance(node, Expression) else None
        value = find_variable(names, root.name) if isinstance(root, Name) else None
        return value if isinstance(value, LayersValue) else None
