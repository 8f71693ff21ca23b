"""``kernel: transpose("tok/embeddings")`` in a layer: a weight of a layer above is its own. It stands for
``share { weight: "kernel"  source: "tok/embeddings"  transpose: true }``."""

from __future__ import annotations

from dataclasses import replace

from prototorch.text.call_schema import schema_at
from prototorch.text.expansion_state import ExpansionState, Scope
from prototorch.text.name_resolution import is_string_literal
from prototorch.text.operands import ScopedString
from prototorch.text.syntax_tree import Body, Field, InvalidValue, Scalar, TypedBlock

__all__ = ["WEIGHT_WORDS", "expand_weight_references"]

#: the words that may stand before the name of a weight, and the field of ``share`` that each sets
WEIGHT_WORDS: dict[str, str | None] = {"weight": None, "transpose": "transpose"}


def expand_weight_references(state: ExpansionState, layer: str, body: Body, scope: Scope) -> Body:
    """The body of a layer with ``share`` in the place of its weights that are those of layers above."""
    if not any(isinstance(f.value, TypedBlock) and f.value.word in WEIGHT_WORDS for f in body.fields):
        return body
    schema = schema_at((layer,))
    seen: dict[str, Field] = {}
    fields = []
    for f in body.fields:
        value = f.value
        is_declared = schema is not None and (schema.has_field(f.name) or not schema.has_field("share"))
        if is_declared or not isinstance(value, TypedBlock) or value.word not in WEIGHT_WORDS:
            fields.append(f)
            continue
        if f.name in seen:
            first = seen[f.name].name_span
            at = f" (first at line {first.line})" if first is not None else ""
            state.report_error(f"{layer}.{f.name} is given twice{at}.", f.name_span, scope)
            continue
        seen[f.name] = f
        share = _share(state, f, value, scope)
        if share is not None:
            fields.append(share)
    return replace(body, statements=tuple(fields))


def _share(state: ExpansionState, f: Field, value: TypedBlock, scope: Scope) -> Field | None:
    """The field ``share`` of one weight; None after a mistake, which is reported."""
    example = f'{f.name}: {value.word}("tok/embeddings")'
    source = None
    extra = []
    for g in value.body.fields:
        if g.name == "source":
            source = g.value
        elif g.name == "reshape":
            extra.append(g)
        elif g.name:
            message = f"{value.word} names a weight of a layer above and has no field {g.name!r}: {example}."
            state.report_error(message, g.name_span, scope)
            return None
    if isinstance(source, InvalidValue) or any(not g.name for g in value.body.fields):
        return None  # it is reported
    if source is None or not is_string_literal(source):
        what = "names no weight" if source is None else "names a weight by a string in quotes"
        span = source.span if source is not None and source.span is not None else value.word_span
        state.report_error(f"{value.word} {what}: {example}.", span, scope)
        return None
    owner, slash, weight = source.value.rpartition("/")
    if not slash or not owner or not weight:
        message = f"{str(source.value)!r} names no weight: write the layer's name, '/' and the weight, as in {example}."
        state.report_error(message, source.span, scope)
        return None
    prefix = source.value.prefix if isinstance(source.value, ScopedString) else scope.prefix
    full = state.name_resolver.resolve_weight_owner(owner, prefix)
    body = [
        Field("weight", Scalar(f.name, f.name_span), f.name_span, f.name_span),
        Field("source", Scalar(f"{full}/{weight}", source.span), source.span, source.span),
        *extra,
    ]
    option = WEIGHT_WORDS[value.word]
    if option is not None:
        body.append(Field(option, Scalar(True, value.word_span), value.word_span, value.word_span))
    return Field("share", Body(tuple(body), value.span), f.span, f.name_span, f.trivia, f.chain)
