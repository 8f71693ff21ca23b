"""Expansion: parameters, expressions, repeat, if, block and include become plain fields, each with its expansion chain.

The size of a repeat is computed before it is expanded. The result is again a valid text, in which every layer has a
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text import limits
from prototorch.text.arguments import add_fields
from prototorch.text.block_values import LayersValue
from prototorch.text.call_expansion import CallInScope
from prototorch.text.diagnostics import Report
from prototorch.text.expansion_state import LAYER, NET, ExpansionAborted, Names, Scope, new_names
from prototorch.text.file_expansion import picked_names
from prototorch.text.gc_pause import pause_gc
from prototorch.text.includes import IncludeFiles
from prototorch.text.labels import bind_label
from prototorch.text.loop_targets import bind_target
from prototorch.text.name_resolution import TOP_LEVEL_BLOCKS, string_values
from prototorch.text.nested_net import NET_WORD
from prototorch.text.net_uses import NetExpander, key_of_main_file
from prototorch.text.operands import BareWord, EvaluationError, from_caller, render_value
from prototorch.text.output_names import (
    NO_OUTPUT,
    check_output_names,
    forget_outputs,
    output_spans,
    refuse_closed_names,
    with_output_value,
)
from prototorch.text.syntax_tree import (
    Assert,
    BlockDef,
    Body,
    CallBody,
    Document,
    ExpansionFrame,
    Field,
    If,
    InvalidValue,
    Let,
    ListValue,
    Param,
    Repeat,
    TypedBlock,
    Value,
)
from prototorch.text.weight_references import expand_weight_references


def expand(
    document: Document,
    params: Mapping[str, Any] | None = None,
    report: Report | None = None,
    root: str | None = None,
) -> Document:
    """The document with params, expressions, repeat, if, block and include expanded.

    params: values for the ``param``s of the top level, by name: Python numbers, strings, lists.
    report: receives the errors; without one they are raised as TextError.
    root: the folder below which files may be included (None: nothing can be).
    """
    diagnostics = Report() if report is None else report
    caller_params = {name: from_caller(value) for name, value in (params or {}).items()}
    files = IncludeFiles(root, len(document.source.text) if document.source else 0)
    expander = _Expander(diagnostics, caller_params, files)
    expander.nets.open_files = key_of_main_file(document, root)
    with pause_gc():
        expanded = expander.run(document)
    if report is None:
        diagnostics.raise_if_any()
    return expanded


class _Expander(NetExpander):
    """Expands statements in their scopes. Methods that return None or an `InvalidValue` have reported an error."""

    # ------------------------------------------------------------------ documents

    def expand_document(self, document: Document) -> list[Field]:
        self.complete = document.complete
        self.tables.blocks_to_come = {s.name: s for s in document.statements if isinstance(s, BlockDef)}
        self.output_spans = output_spans(document.statements)
        self.settable = picked_names(document.statements)
        scope = Scope(top=True)
        try:
            fields = self.expand_statements(document.statements, self.global_names, scope)
        except ExpansionAborted:
            return []
        if scope.bottom and scope.last and not any(f.name == "output" for f in fields):
            # the last block's output is that of none of its last layer
            fields.append(Field("output", self.name_resolver.resolve_strings(scope.bottom[0], "")))
        for name in self.caller_params if self.checks_params else ():
            if name in self.lets:
                self.report.add(f"{name!r} is computed by 'let' and cannot be set.", self.lets[name].name_span)
            elif name not in self.params:
                hint = did_you_mean(name, self.params)
                if not hint:
                    hint = f" It has {', '.join(self.params)}." if self.params else " It has none."
                self.report.add(f"The text has no param {name!r}.{hint}")
        return self.with_nested_nets(fields)

    def expand_statements(self, statements: tuple[Any, ...], names: Names, scope: Scope) -> list[Field]:
        """The fields that statements expand to, in order. Aborts the expansion where they nest too deep."""
        self.depth += 1
        if self.depth > limits.MAX_NESTING:
            span = statements[0].span if statements else None
            self.abort(f"This expands to more than {limits.MAX_NESTING} levels inside each other.", span, scope)
        fields: list[Field] = []
        for statement in statements:
            self.spend_steps(1, statement.span, scope)
            if isinstance(statement, Field):
                self.expand_field(statement, names, scope, fields)
            elif isinstance(statement, Repeat):
                self.expand_repeat(statement, names, scope, fields)
            elif isinstance(statement, If):
                fields.extend(self.expand_if(statement, names, scope))
            elif isinstance(statement, Param | Let):
                self.bind_value(statement, names, scope)
            elif isinstance(statement, Assert):
                self.check_assert(statement, names, scope)
            elif isinstance(statement, BlockDef):
                self.define_block(statement, scope)
            else:
                self.expand_include(statement, scope)
        self.depth -= 1
        return fields

    # ------------------------------------------------------------------ statements

    def expand_field(self, statement: Field, names: Names, scope: Scope, fields: list[Field]) -> None:
        if scope.kind == NET and statement.name in ("input", "output"):
            if self.wire(statement, names, scope):
                return
            statement = with_output_value(statement)
        if statement.label is not None:
            statement = bind_label(self, statement, scope)
        if isinstance(statement.value, Body | CallBody):
            rest = self.expand_braces(statement, names, scope, fields)
            if rest is None:
                return
            statement = rest
        value = statement.value
        if statement.outputs:
            self.report_skipped(NO_OUTPUT, statement.outputs[0].span, scope)
            statement = replace(statement, outputs=())
        scoped = scope.kind == LAYER and statement.name in ("top", "bottom")
        inside = scope
        if any(isinstance(item, TypedBlock | Body) for item in (value.items if type(value) is ListValue else (value,))):
            inside = replace(scope, owner=(*scope.owner, statement.name))
        new_value = self.expand_value(value, names, inside, scoped)
        if scoped and statement.name == "bottom":
            new_value = refuse_closed_names(self, new_value, scope)
        new = self.replace_value(statement, new_value, scope)
        fields.append(self.note_top_level(new, scope) if scope.kind == NET else new)

    def expand_braces(self, statement: Field, names: Names, scope: Scope, fields: list[Field]) -> Field | None:
        """The layers of a block's use, a layer, a branch; any other field with braces, or a call, is returned."""
        value = self.layer_value(statement, names, scope)
        if isinstance(value, InvalidValue):
            self.complete = False
            forget_outputs(self, statement.outputs, scope)
            return None
        block = self.visible_block(statement, scope) if value is None else None
        if isinstance(value, BareWord | TypedBlock):
            word, block = self.named_block(statement, value, scope)
            if not word:
                return None
            statement = replace(statement, name=word, name_span=self.word_span(statement, value))
        if isinstance(statement.value, CallBody):
            definition = value.definition if isinstance(value, LayersValue) else block[1] if block else None
            statement = CallInScope(self, names, scope).bind_statement(statement, definition)
        if statement.outputs:
            statement = replace(statement, outputs=check_output_names(self, statement.outputs, scope))
        if isinstance(value, TypedBlock):
            statement = add_fields(statement, value)
        if isinstance(value, LayersValue):
            fields.extend(self.expand_layers_value(statement, value, names, scope))
        elif block is not None:
            fields.extend(self.expand_block_use(statement, block, names, scope))
        elif statement.name in self.blocks or (statement.name in self.blocks_to_come and scope.kind == NET):
            self.report_early_use(statement, self.blocks.get(statement.name), scope)
        elif scope.kind == NET and statement.name == NET_WORD:
            fields.extend(self.expand_net_use(statement, names, scope))
        elif scope.kind == NET and self.is_output(statement, scope):
            forget_outputs(self, statement.outputs, scope)
        elif scope.kind == NET and statement.name not in TOP_LEVEL_BLOCKS:
            fields.append(self.expand_layer(self.check_layer(statement, scope), names, scope))
        elif scope.kind == LAYER and statement.name == "branch":
            fields.append(self.replace_value(statement, self.expand_branch(statement, names, scope), scope))
        else:
            return statement
        return None

    def expand_branch(self, statement: Field, names: Names, scope: Scope) -> Body:
        """The layers of a branch, which are a part of the net."""
        inner = replace(scope, kind=NET, bottom=[], last=[], owner=())
        body = self.expand_body(statement.value, names, inner)
        if inner.bottom and inner.last:
            message = (
                "A branch gives what its last layer gives, and here is another output: write y = ... above, and read y."
            )
            self.report_skipped(message, statement.name_span, scope)
        return body

    @staticmethod
    def replace_value(statement: Field, value: Value, scope: Scope) -> Field:
        if value is statement.value and scope.chain is None:
            return statement
        return Field(statement.name, value, statement.span, statement.name_span, statement.trivia, scope.chain)

    def note_top_level(self, expanded: Field, scope: Scope) -> Field:
        """Record the names of inputs; an output may name the use of a block."""
        if expanded.name in ("input", "Input") and isinstance(expanded.value, Body):
            names = [n for f in expanded.value.fields if f.name == "name" for n in string_values(f.value)] or ["input"]
            self.inputs.extend(names)
            if not scope.prefix:
                self.name_resolver.defined.update(dict.fromkeys(names, expanded.name_span))
        if expanded.name == "output" and not scope.prefix:
            refuse_closed_names(self, expanded.value, scope)
            return replace(expanded, value=self.name_resolver.resolve_strings(expanded.value, ""))
        return expanded

    def expand_layer(self, statement: Field, names: Names, scope: Scope) -> Field:
        """A layer of the net, with its full name and its resolved inputs."""
        self.layers += 1
        if self.layers > limits.MAX_LAYERS:
            self.abort(f"The net has more than {limits.MAX_LAYERS:,} layers.", statement.name_span, scope)
        body: Body = statement.value
        name_field = next((s for s in body.statements if isinstance(s, Field) and s.name == "name"), None)
        automatic = self.name_resolver.automatic_name(statement.name, scope.prefix) if name_field is None else ""
        inside = replace(scope, kind=LAYER, top=False, bottom=[], last=[], owner=(statement.name,))
        if any(not isinstance(s, Field) or s.name == "branch" for s in body.statements):
            inside.start = self.layer_inputs(body, names, scope)[:1]
        expanded = expand_weight_references(self, statement.name, self.expand_body(body, names, inside), inside)
        fields, output = self.name_resolver.resolve_layer(
            expanded.fields, automatic, statement, scope.prefix, scope.bottom
        )
        if output is not None:
            scope.last[:] = [output]
        if scope.settings is not None:
            full = next((n for f in fields if f.name == "name" for n in string_values(f.value)), "")
            fields = scope.settings.apply(fields, full, statement.name_span)
            if scope.settings.weights is not None:
                keys = [key for f in fields if f.name == "weights" for key in string_values(f.value)]
                self.name_resolver.weight_keys.update(dict.fromkeys([full], *keys))
        new_body = Body(fields, body.span)
        return Field(statement.name, new_body, statement.span, statement.name_span, statement.trivia, scope.chain)

    def expand_if(self, statement: If, names: Names, scope: Scope) -> list[Field]:
        for condition, body in statement.arms:
            self.spend_steps(1, statement.span, scope)
            holds = self.evaluate_condition(condition, names, scope)
            if holds is None:
                self.complete = False
                return []
            if holds:
                return self.expand_statements(body.statements, names, scope)
        return self.expand_statements(statement.else_body.statements, names, scope) if statement.else_body else []

    def expand_repeat(self, statement: Repeat, names: Names, scope: Scope, fields: list[Field]) -> None:
        """Expand the body once per value, after checking the number of steps."""
        values = self.repeat_values(statement, names, scope)
        if not values:
            return
        each = self.minimum_steps(statement.body.statements)
        if self.steps + len(values) * each > limits.MAX_STEPS:
            message = f"This repeat takes at least {len(values) * each:,} steps; the limit is {limits.MAX_STEPS:,}."
            self.abort(message, statement.span, scope)
        inside = replace(scope, chain=ExpansionFrame("repeat", statement.span, scope.chain), top=False)
        start, has_turns = len(fields), scope.kind == NET and len(values) > 1
        if has_turns:
            self.name_resolver.open_repeat(statement, scope.prefix)
        for value in values:
            if has_turns:
                self.name_resolver.open_turn()
            self.spend_steps(1, statement.span, scope)
            inner = new_names(names)
            if statement.target is not None:
                try:
                    inner.update(bind_target(statement.target, value, statement.count.span))
                except EvaluationError as error:
                    self.report_skipped(error.message, error.span, scope)
                    break
            fields.extend(self.expand_statements(statement.body.statements, inner, inside))
        if has_turns:
            self.name_resolver.close_repeat(fields, start, scope.last)

    def repeat_values(self, statement: Repeat, names: Names, scope: Scope) -> list[Any] | range:
        """The values that a repeat iterates over; empty after an error, which is reported."""
        count = self.evaluate(statement.count, names, scope)
        at = statement.count.span
        if isinstance(count, InvalidValue):
            self.complete = False
            return []
        if statement.target is None:
            if isinstance(count, list):
                self.report_skipped("A repeat over a list needs a name: repeat i in ...", at, scope)
            elif not isinstance(count, int) or isinstance(count, bool) or count < 0:
                self.report_skipped(
                    f"A repeat count must be an integer of at least 0, not {render_value(count)}.", at, scope
                )
            elif count > limits.MAX_STEPS:
                self.abort(f"A repeat of {count} times is above the limit of {limits.MAX_STEPS:,} steps.", at, scope)
            else:
                return range(count)
            return []
        if not isinstance(count, list):
            hint = f" Write $range({count})." if isinstance(count, int) else ""
            self.report_skipped(
                f"'repeat {statement.target} in' iterates over a list, not {render_value(count)}.{hint}", at, scope
            )
            return []
        return count
