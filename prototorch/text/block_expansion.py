"""The use of a block: its arguments, the layers in its braces, what it reads, and the names of its outputs."""

from __future__ import annotations

from abc import ABC
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from prototorch.text import limits
from prototorch.text.arguments import UseFields, bind_arguments, body_arguments
from prototorch.text.bare_names import refuse_bare_names
from prototorch.text.block_arguments import Block, BlockArguments
from prototorch.text.block_values import BlockUse, LayerSettings, LayersValue
from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import LAYER, NET, FileTables, Names, Scope, new_names
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, is_string_literal, string_values
from prototorch.text.operands import is_number, render_value
from prototorch.text.output_names import (
    add_top,
    check_output_names,
    current_outputs,
    declared_inputs,
    forget_outputs,
    input_name,
    name_block_outputs,
    name_input,
    read_block_outputs,
    refuse_closed_names,
    with_output_value,
)
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    ExpansionFrame,
    Field,
    InvalidValue,
    Scalar,
    Value,
    Word,
)

__all__ = ["BlockExpander"]


class BlockExpander(BlockArguments, ABC):
    """Expands uses of blocks."""

    # ------------------------------------------------------------------ what a block reads

    def wire(self, statement: Field, names: Names, scope: Scope) -> bool:
        """``x = input``, ``input "x"`` and ``output`` in a block; False for any other statement."""
        value = statement.value
        if statement.name == "input":
            name = input_name(statement) if scope.use is not None else None
            if name is not None:
                name = self.expand_value(name, names, scope)
            elif not (isinstance(value, CallBody) and value.is_bare and (statement.outputs or scope.use is not None)):
                return False
            name_input(self, statement, name, scope)
            return True
        value = with_output_value(statement).value
        if scope.use is None or isinstance(value, Body | CallBody):
            return False
        read_block_outputs(self, self.expand_value(value, names, scope, True), statement, scope)
        return True

    def layer_inputs(self, body: Body, names: Names, scope: Scope) -> tuple[str, ...]:
        """The outputs that a layer reads, by full names; empty where they are not known."""
        bottom = next((f for f in body.fields if f.name == "bottom"), None)
        if bottom is None:
            return current_outputs(self, scope)
        value = self.expand_value(bottom.value, names, replace(scope, kind=LAYER), True)
        return tuple(string_values(self.name_resolver.resolve_strings(value, scope.prefix)))

    def reads_one_of_several(self, statement: Field, scope: Scope) -> bool:
        """Report a layer or a block that says nothing of its input where that may be one of several."""
        use = scope.use
        if use is None or len(use.declared) < 2 or scope.last or scope.bottom or scope.start:
            return False
        inputs = _input_names(use)
        message = (
            f"{statement.name} may read one of the inputs of {use.block} ({', '.join(inputs)}): "
            f"name it, {statement.name}({next(iter(inputs), 'x')})."
        )
        self.report_skipped(message, statement.name_span, scope)
        return True

    def is_output(self, statement: Field, scope: Scope) -> bool:
        """Report the name of an output in the place of a layer."""
        name = statement.name
        if schema_at((name,)) is not None or name in TOP_LEVEL_BLOCKS:
            return False
        if not self.name_resolver.is_readable(name, scope.prefix):
            return False
        hint = (
            "which has its name already"
            if statement.outputs
            else f"and no layer: a layer reads it by Dense({name}, 10)"
        )
        self.report_skipped(f"{name!r} is an output, {hint}.", statement.name_span, scope)
        return True

    def check_layer(self, statement: Field, scope: Scope) -> Field:
        """A layer before it is expanded; a mistake in it that only its place shows is reported."""
        schema = schema_at((statement.name,))
        body: Body = statement.value
        if schema is None:  # while it could be a block, names alone could be layers
            statements = refuse_bare_names(body.statements, self.report.with_chain(scope.chain), False)
            if statements is not body.statements:
                statement = replace(statement, value=replace(body, statements=statements))
        reads = schema is None or schema.reads_inputs
        if reads and all(f.name != "bottom" for f in body.fields) and self.reads_one_of_several(statement, scope):
            bottom = Field("bottom", InvalidValue(statement.name_span))
            statement = replace(statement, value=replace(body, statements=(*statement.value.statements, bottom)))
        return add_top(self, statement, scope) if statement.outputs else statement

    # ------------------------------------------------------------------ uses

    def expand_block_use(self, statement: Field, block: Block, names: Names, scope: Scope) -> list[Field]:
        """The layers of a block, with its arguments bound."""
        order, definition = block
        steps = self.minimum_steps(definition.body.statements)
        if self.steps + steps > limits.MAX_STEPS:
            message = f"This block takes at least {steps:,} steps; the limit is {limits.MAX_STEPS:,}."
            self.abort(message, statement.name_span, scope)
        frame = ExpansionFrame(statement.name, statement.name_span, scope.chain)
        self.spend_steps(len(definition.arguments), statement.name_span, scope)
        active = scope.active | {definition.name}
        target = Scope(scope.kind, scope.prefix, order, frame, owner=scope.owner, active=active)
        home = self.home_of(definition)
        layers = home.layer_arguments.get(definition.name, frozenset())
        use_fields = self.bind_use(statement, definition, layers, scope)
        self.name_use(use_fields, definition.name, target, names, scope, statement)
        inner = new_names(home.global_names)
        bodies = body_arguments(definition, layers)
        for argument in definition.arguments:
            inside = "{ ... }" if bodies == [argument.name] else f"{{ {argument.name} {{ ... }} }}"
            example = f"{definition.name} {inside}" if argument.name in layers else None
            inner[argument.name] = self.argument_value(
                argument, use_fields, inner, statement, target, names, scope, example, home
            )
        return self.expand_use(use_fields, definition, inner, target, names, scope, statement, home)

    def expand_layers_value(self, statement: Field, value: LayersValue, names: Names, scope: Scope) -> list[Field]:
        """The layers that an argument of a block is, in the place of a layer in the block."""
        definition, outer = value.definition, value.scope
        target = Scope(scope.kind, scope.prefix, outer.visible, value.chain, owner=scope.owner, active=outer.active)
        use_fields = self.bind_use(statement, definition, (), scope)
        self.name_use(use_fields, definition.name, target, names, scope, statement)
        if scope.kind == NET:
            self.name_resolver.outer[target.prefix] = outer.prefix
        inner = new_names(value.names)
        return self.expand_use(use_fields, definition, inner, target, names, scope, statement, value.home, True)

    def bind_use(self, statement: Field, definition: BlockDef, layers: Collection[str], scope: Scope) -> UseFields:
        """The fields of a use by name; mistakes are reported. layers: the arguments that are layers."""
        bodies = body_arguments(definition, layers)
        if not bodies:
            statements = statement.value.statements
            layer = next((s for s in statements if _is_layer_call(s)), None)
            fields = {a.name for a in definition.arguments}  # of one without its ':', what follows is no layer
            calls = (s.name for s in statements if isinstance(s, Field) and isinstance(s.value, CallBody))
            if layer is not None and fields.isdisjoint(calls):
                message = f"The block {definition.name} takes no layers in its braces."
                self.report_error(message, layer.name_span, scope)
                statements = tuple(s for s in statements if not _is_layer_call(s))
            statements = refuse_bare_names(statements, self.report.with_chain(scope.chain), False, layers)
            statement = replace(statement, value=replace(statement.value, statements=statements))
        use_fields = bind_arguments(statement, definition, bodies)
        for message, span in use_fields.errors:
            self.report_error(message, span, scope)
        return use_fields

    def name_use(
        self, use_fields: UseFields, name: str, target: Scope, names: Names, scope: Scope, statement: Field
    ) -> None:
        """Set the prefix of the names in a use of a block."""
        label = self.name_block_use(use_fields.fields.get("name"), name, names, scope)
        if len(label) > limits.MAX_NAME_LENGTH:
            message = f"The name {label[:40]!r}... has {len(label)} characters; the limit is {limits.MAX_NAME_LENGTH}."
            self.abort(message, statement.name_span, scope)
        target.prefix = label + "/" if scope.kind == NET else scope.prefix

    def expand_use(
        self,
        use_fields: UseFields,
        definition: BlockDef,
        inner: Names,
        target: Scope,
        names: Names,
        scope: Scope,
        statement: Field,
        home: FileTables,
        may_be_identity: bool = False,
    ) -> list[Field]:
        """The fields of the statements of a block; its inputs and outputs are connected with those of ``scope``."""
        fields_given = {n: f for n, f in use_fields.fields.items() if all(n != a.name for a in definition.arguments)}
        words = self.words_of_outputs(statement, fields_given.get("top"), names, scope)
        target.settings = self.settings_of_use(definition.name, fields_given, target, names, scope)
        bottom = fields_given.get("bottom")
        entry: Value | None = None
        if bottom is not None:
            entry = refuse_closed_names(self, self.expand_value(bottom.value, names, scope), scope)
            entry = self.name_resolver.resolve_strings(entry, scope.prefix)
        elif scope.bottom:
            entry = scope.bottom.pop()
        inputs = current_outputs(self, scope) if entry is None else tuple(string_values(entry))
        declared = declared_inputs(definition)
        target.use = BlockUse(definition.name, inputs, declared)
        target.start = inputs if len(inputs) == 1 else ()
        target.bottom = [entry] if entry is not None and len(declared) < 2 else []
        is_ambiguous = entry is None and self.reads_one_of_several(statement, scope)
        if is_ambiguous or not self.check_inputs(target.use, entry, bottom, statement, scope):
            forget_outputs(self, words, scope)
            return []
        with self.inside(home):
            fields = self.expand_statements(definition.body.statements, inner, target)
        is_unread = entry is not None and bool(target.bottom) and target.bottom[0] is entry
        outputs = [name for name, _ in target.use.outputs] or target.last[:1]
        if may_be_identity and not outputs and inputs:
            outputs = list(inputs[:1])
        elif bottom is not None and is_unread and not outputs:
            self.report_error("This block has no layer that could read its bottom.", bottom.span, scope)
        if scope.kind == NET:
            self.connect(target, scope, outputs, entry is None and not target.last and not target.use.outputs)
        elif target.bottom:
            scope.bottom = target.bottom
        if words:
            name_block_outputs(self, words, fields, outputs, definition.name, scope)
        return fields

    def connect(self, target: Scope, scope: Scope, outputs: list[str], is_identity: bool) -> None:
        """Let the layer behind a use read its first output."""
        if not outputs:
            scope.bottom = target.bottom
            return
        first = outputs[0]
        self.name_resolver.aliases[target.prefix[:-1]] = first
        if is_identity:
            return
        is_last = target.last[:1] == [first] and not target.bottom
        scope.bottom = [] if is_last else [Scalar(first)]
        scope.last[:] = [first]

    def check_inputs(
        self, use: BlockUse, entry: Value | None, bottom: Field | None, statement: Field, scope: Scope
    ) -> bool:
        """Whether a use gives a block the inputs that it declares; where it does not, that is reported."""
        if not use.declared or isinstance(entry, InvalidValue):
            return not (use.declared and isinstance(entry, InvalidValue))
        count, expected = len(use.inputs), len(use.declared)
        if count == expected:
            return True
        names = ", ".join(_input_names(use))
        reads = f"The block {use.block} reads {expected} input{'s' if expected > 1 else ''} ({names})"
        example = f"{use.block}({', '.join('abcdefgh'[:expected])})"
        if not count and expected == 1 and len(self.inputs) > 1:
            message = f"{reads}, which may be one of several: name it, {use.block}({self.inputs[0]})."
        elif not count:
            message = f"{reads}, and nothing says which output {'they are' if expected > 1 else 'it is'}: {example}."
        else:
            message = f"{reads}, and {count} {'are' if count > 1 else 'is'} given: {example}."
        self.report_skipped(message, bottom.span if bottom is not None else statement.name_span, scope)
        return False

    def words_of_outputs(self, statement: Field, top: Field | None, names: Names, scope: Scope) -> list[Word]:
        """The names that a use gives the block's outputs, by ``=``, ``->`` or ``top``."""
        words = list(statement.outputs)
        if top is None:
            return words  # they are checked with the statement
        if words:
            at = f" (first at line {words[0].span.line})" if words[0].span is not None else ""
            self.report_skipped(f"{statement.name}.top is given twice{at}.", top.name_span, scope)
            return words
        value = self.expand_value(top.value, names, scope)
        strings = string_values(value)
        if not strings and not isinstance(value, InvalidValue):
            message = f'{statement.name}.top is a name in quotes, or a list of them: top: "x".'
            self.report_error(message, top.value.span, scope)
        return list(check_output_names(self, [Word(text, top.value.span) for text in strings], scope))

    def settings_of_use(
        self, block: str, fields_given: dict[str, Field], target: Scope, names: Names, scope: Scope
    ) -> LayerSettings | None:
        """What a use says of all layers in it, and what uses around it say."""
        values: dict[str, Any] = {}
        for name, check, expected in _SETTINGS:
            if name in fields_given:
                value = self.evaluate(fields_given[name].value, names, scope)
                if not isinstance(value, InvalidValue) and not check(value):
                    message = f"{block}.{name} must be {expected}, not {render_value(value)}."
                    self.report_error(message, fields_given[name].value.span, scope)
                elif not isinstance(value, InvalidValue):
                    values[name] = value
        outer = scope.settings
        if not values or scope.kind != NET:
            return outer
        if outer is None:
            outer = LayerSettings()
        return LayerSettings(
            trainable=outer.trainable and values.get("trainable", True),
            lr_mult=outer.lr_mult * values.get("lr_mult", 1.0),
            decay_mult=outer.decay_mult * values.get("decay_mult", 1.0),
            weights=str(values["weights"]) if "weights" in values else outer.weights,
            base=target.prefix if "weights" in values else outer.base,
        )

    def name_block_use(self, name_field: Field | None, block: str, names: Names, scope: Scope) -> str:
        if scope.kind != NET:
            return ""
        if name_field is None:
            return self.name_resolver.block_use_name(block, scope.prefix)
        value = self.expand_value(name_field.value, names, scope)
        if is_string_literal(value) and value.value:
            full = scope.prefix + str(value.value)
            if full in self.name_resolver.aliases or full in self.name_resolver.defined:
                self.report_error(f"The name {full!r} is used twice.", name_field.value.span, scope)
            return full
        if not isinstance(value, InvalidValue):
            self.report_error("The name of a block's use must be a string in quotes.", name_field.value.span, scope)
        return self.name_resolver.block_use_name(block, scope.prefix)


def _is_layer_call(statement: Any) -> bool:
    """Whether a statement is a layer, and in no spelling a field."""
    is_call = isinstance(statement, Field) and isinstance(statement.value, CallBody)
    return is_call and (bool(statement.outputs) or schema_at((statement.name,)) is not None)


def _input_names(use: BlockUse) -> list[str]:
    """The names of the inputs that a block declares."""
    return [text for s in use.declared for text in string_values(input_name(s))]


def _is_factor(value: Any) -> bool:
    return is_number(value) and 0 <= value < float("inf")


_SETTINGS: tuple[tuple[str, Any, str], ...] = (
    ("trainable", lambda value: isinstance(value, bool), "true or false"),
    ("lr_mult", _is_factor, "a number of at least 0"),
    ("decay_mult", _is_factor, "a number of at least 0"),
    ("weights", lambda value: isinstance(value, str) and bool(value), "a name in quotes"),
)
