"""Names of outputs: ``x = Layer(...)`` and ``Layer(...) -> (x, y)``, which stand for ``top``; in a block ``x = input``,
``input "x"`` and ``output``; and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text.expansion_state import NET, ExpansionState, Scope
from prototorch.text.name_resolution import is_string_literal, string_values
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    CallWord,
    Field,
    If,
    InvalidValue,
    ListValue,
    Repeat,
    Scalar,
    Value,
    Word,
)

__all__ = [
    "NO_OUTPUT",
    "add_top",
    "check_output_name",
    "check_output_names",
    "current_outputs",
    "declared_inputs",
    "forget_outputs",
    "input_name",
    "name_block_outputs",
    "name_input",
    "output_spans",
    "read_block_outputs",
    "refuse_closed_names",
    "with_output_value",
]

NO_NAME = "_"  # stands for the name of an output that nothing reads
NO_OUTPUT = "Only outputs of the net's layers and blocks are named by '='."


def output_spans(statements: Sequence[Any]) -> dict[str, list[Span]]:
    """Where the statements, and those in them, give outputs names by ``=``, ``->`` or ``input``."""
    spans: dict[str, list[Span]] = {}
    waiting = list(statements)
    while waiting:
        s = waiting.pop()
        if isinstance(s, Field):
            name = input_name(s)
            for word in s.outputs:
                if word.span is not None:
                    spans.setdefault(word.text, []).append(word.span)
            if isinstance(name, Scalar) and name.span is not None:
                spans.setdefault(str(name.value), []).append(name.span)
            body = s.value.body if isinstance(s.value, CallBody) else s.value
            if isinstance(body, Body):
                waiting.extend(body.statements)
        elif isinstance(s, Repeat | BlockDef):
            waiting.extend(s.body.statements)
        elif isinstance(s, If):
            for body in [b for _, b in s.arms] + ([s.else_body] if s.else_body is not None else []):
                waiting.extend(body.statements)
    return spans


def check_output_name(state: ExpansionState, output: Word, scope: Scope) -> Word | None:
    """The name that a statement gives its output; None where it is taken, which is reported."""
    resolver, full = state.name_resolver, scope.prefix + output.text
    if not resolver.is_taken(full):
        return output
    full = resolver.turn_names.get(full, full)
    first = resolver.defined.get(full) or resolver.alias_spans.get(full)
    full = scope.prefix + output.text
    at = f" (first at line {first.line})" if first is not None else ""
    state.report_skipped(f"The output name {full!r} is used twice{at}.", output.span, scope)
    return None


def check_output_names(state: ExpansionState, outputs: Sequence[Word], scope: Scope) -> tuple[Word, ...]:
    """The names that a statement gives its outputs, `NO_NAME` in the place of those that are taken, which are
    reported."""
    words: list[Word] = []
    for word in outputs:
        is_new = word.text == NO_NAME
        if any(word.text == other.text for other in words) and not is_new:
            state.report_skipped(f"The output name {word.text!r} is used twice.", word.span, scope)
        else:
            is_new = is_new or check_output_name(state, word, scope) is not None
        words.append(word if is_new else Word(NO_NAME, word.span))
    return tuple(words)


def add_top(state: ExpansionState, statement: Field, scope: Scope) -> Field:
    """``x = Layer { ... }`` as ``Layer { ...  top: "x" }``."""
    body: Body = statement.value
    first = statement.outputs[0]
    if all(word.text == NO_NAME for word in statement.outputs):
        return statement
    second = next((f for f in body.fields if f.name == "top"), None)
    if second is not None:
        at = f" (first at line {first.span.line})" if first.span is not None else ""
        state.report_skipped(f"{statement.name}.top is given twice{at}.", second.name_span, scope)
        return statement
    unused = state.name_resolver.automatic_name
    texts = (
        unused("unused", scope.prefix)[len(scope.prefix) :] if w.text == NO_NAME else w.text for w in statement.outputs
    )
    names = tuple(Scalar(text, word.span) for text, word in zip(texts, statement.outputs, strict=True))
    top = Field("top", names[0] if len(names) == 1 else ListValue(names, first.span), first.span, first.span)
    return replace(statement, value=replace(body, statements=(*body.statements, top)))


def name_block_outputs(
    state: ExpansionState, words: Sequence[Word], fields: list[Field], outputs: Sequence[str], block: str, scope: Scope
) -> None:
    """Give the outputs of a block's use their names; ``fields`` are its layers, of which some are replaced."""
    if scope.kind != NET:
        state.report_skipped(NO_OUTPUT, words[0].span, scope)
        return
    if not outputs:
        state.report_skipped("This block has no layer whose output could have a name.", words[0].span, scope)
        return
    if len(words) > len(outputs):
        names = ", ".join(name.rpartition("/")[2] for name in outputs)
        has = f"The block {block} has {len(outputs)} output{'s' if len(outputs) > 1 else ''} ({names})"
        state.report_skipped(f"{has}, and {len(words)} are named.", words[len(outputs)].span, scope)
    resolver = state.name_resolver
    for number, (word, name) in enumerate(zip(words, outputs, strict=False)):
        if word.text == NO_NAME:
            continue
        new = resolver.name_output(scope.prefix + word.text)
        if name in outputs[:number] or not resolver.rename_output(fields, name, new, word.span):
            resolver.aliases[new] = name
        elif number == 0:
            scope.last[:] = [new]
    forget_outputs(state, words[len(outputs) :], scope)


def refuse_closed_names(state: ExpansionState, value: Value, scope: Scope) -> Value:
    """The names of outputs that are read; `InvalidValue` where one is local to turns of a repeat above, which is
    reported."""
    if not state.name_resolver.closed_names:
        return value
    for item in value.items if isinstance(value, ListValue) else (value,):
        if isinstance(item, Scalar) and isinstance(item.value, str):
            message = state.name_resolver.explain_closed_name(item.value, scope.prefix)
            if message:
                state.report_skipped(message, item.span, scope)
                return InvalidValue(item.span)
    return value


# ---------------------------------------------------------------------- what a block reads and gives


def current_outputs(state: ExpansionState, scope: Scope) -> tuple[str, ...]:
    """The outputs that the next layer reads, by full names; empty where they are not known."""
    if scope.bottom:
        names = tuple(string_values(scope.bottom[0]))
    elif scope.last:
        names = (scope.last[0],)
    elif scope.start or scope.use is not None:
        names = scope.start
    else:
        names = tuple(state.inputs) if len(state.inputs) == 1 else ()
    return tuple(state.name_resolver.resolve(name, "") for name in names)


def input_name(statement: Any) -> Value | None:
    """The name that ``input "x"`` gives, in any spelling; None for other statements, inputs of the net included."""
    if not isinstance(statement, Field) or statement.name != "input" or statement.outputs:
        return None
    value = statement.value
    if statement.label is not None:
        return None if value.statements else statement.label
    if isinstance(value, CallBody):
        names = [a.value for a in value.arguments if a.name in (None, "name")]
        is_alone = len(names) == len(value.arguments) and (value.body is None or not value.body.statements)
    elif isinstance(value, Body):
        names = [f.value for f in value.statements if isinstance(f, Field) and f.name == "name"]
        is_alone = len(names) == len(value.statements)
    else:
        return None
    return names[0] if len(names) == 1 and is_alone else None


def declared_inputs(block: BlockDef) -> tuple[Field, ...]:
    """The ``input "x"`` statements of a block."""
    return tuple(s for s in block.body.statements if input_name(s) is not None)


def name_input(state: ExpansionState, statement: Field, name: Value | None, scope: Scope) -> None:
    """``input "x"`` (``name``) and ``x = input`` in a block: another name of an output that it reads."""
    use = scope.use
    if use is None:
        message = "'input' is what a block reads. The inputs of the net have their own names: input(\"image\", [4])."
        state.report_skipped(message, statement.name_span, scope)
        forget_outputs(state, statement.outputs, scope)
        return
    if name is not None:
        at = next((number for number, s in enumerate(use.declared) if s is statement), None)
        if at is None:
            message = f"An input of a block stands in its braces, in no 'repeat', 'if' or 'branch' of {use.block}."
            state.report_skipped(message, statement.name_span, scope)
        elif not is_string_literal(name):
            state.report_skipped('The name of an input is a string: input "x".', name.span, scope)
        else:
            _name_read_output(state, Word(str(name.value), name.span), use.inputs[at], scope)
        return
    if len(statement.outputs) != 1:
        message = f'Write x = input, or input "x" for each input of {use.block}.'
        state.report_skipped(message, statement.name_span, scope)
        return
    word = statement.outputs[0]
    if len(use.inputs) == 1:
        _name_read_output(state, word, use.inputs[0], scope)
        return
    if not use.inputs and len(state.inputs) > 1:
        message = f"{use.block} may read one of several inputs: name it, {use.block}({state.inputs[0]})."
    elif not use.inputs:
        message = f"Nothing says what {use.block} reads here: give it an output, {use.block}(x)."
    else:
        declared = "  ".join(f'input "{name}"' for name in "abcdefgh"[: len(use.inputs)])
        message = f"The block {use.block} reads {len(use.inputs)} outputs here: name each of them, {declared}."
    state.report_skipped(message, statement.name_span, scope)
    forget_outputs(state, statement.outputs, scope)


def _name_read_output(state: ExpansionState, word: Word, name: str, scope: Scope) -> None:
    if check_output_name(state, word, scope) is not None:
        full = state.name_resolver.name_output(scope.prefix + word.text)
        state.name_resolver.aliases[full] = name
        state.name_resolver.alias_spans[full] = word.span


def forget_outputs(state: ExpansionState, words: Sequence[Word], scope: Scope) -> None:
    """The names of outputs that do not exist, after a mistake that is reported: who reads them is not to blame."""
    for word in words:
        if word.text != NO_NAME:
            state.name_resolver.defined[state.name_resolver.name_output(scope.prefix + word.text)] = word.span


def with_output_value(statement: Field) -> Field:
    """``output(x, y)`` as ``output: ["x", "y"]``."""
    call = statement.value
    if statement.name != "output" or not isinstance(call, CallBody) or call.body is not None:
        return statement
    if not call.arguments or any(a.name is not None for a in call.arguments):
        return statement
    items = tuple(Scalar(a.value.text, a.span) if isinstance(a.value, CallWord) else a.value for a in call.arguments)
    return replace(statement, value=items[0] if len(items) == 1 else ListValue(items, call.span))


def read_block_outputs(state: ExpansionState, value: Value, statement: Field, scope: Scope) -> None:
    """``output: ["x", "y"]`` in a block: what its use gives, in this order."""
    use = scope.use
    if use is None or isinstance(value, InvalidValue):
        return
    if use.outputs:
        state.report_skipped("'output' is given twice.", statement.name_span, scope)
        return
    items = value.items if isinstance(value, ListValue) else (value,)
    for item in items:
        name = item.text if isinstance(item, Word) else item.value if is_string_literal(item) else None
        if name is None:
            state.report_skipped('The outputs of a block are names in quotes: output: ["x", "y"].', item.span, scope)
            continue
        resolver = state.name_resolver
        full = resolver.resolve_strings(Scalar(name, item.span), scope.prefix).value
        if full not in resolver.defined:
            outputs = (n for n in (*resolver.defined, *resolver.aliases) if n.startswith(scope.prefix))
            hint = did_you_mean(str(name), [n.removeprefix(scope.prefix) for n in outputs])
            below = state.output_spans.get(str(name))
            if not hint and below:
                hint = f" It is defined below (line {below[0].line})."
            message = resolver.explain_closed_name(str(name), scope.prefix)
            message = message or f"There is no output named {str(name)!r} before it in {use.block}.{hint}"
            state.report_skipped(message, item.span, scope)
            continue
        use.outputs.append((full, item.span))
