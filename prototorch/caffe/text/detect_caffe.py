"""Whether a text is one of Caffe's nets or solvers, or a model text of ours."""

from __future__ import annotations

import re
from typing import Literal

from prototorch.caffe.text.message_types import message_type
from prototorch.text.syntax_tree import BlockDef, Body, Document, Include, ListValue, Scalar

__all__ = ["caffe_kind", "find_caffe_kind", "is_caffe_text"]

Kind = Literal["net", "solver"]

#: Fields at the top level of a text that are fields of a Caffe net and not of a text of ours.
_NET_FIELDS = frozenset({"layer", "layers", "input_dim", "input_shape", "force_backward", "state"})
#: Fields that a solver has and a net has not.
_SOLVER_FIELDS = frozenset(
    message_type("SolverParameter").fields.keys() - message_type("NetParameter").fields.keys() - {"type"}
)
#: Those of them that take a value: a name before a brace is not one of them.
_SOLVER_SCALARS = frozenset(n for n in _SOLVER_FIELDS if not message_type("SolverParameter").fields[n].is_message)
#: Fields at the top level that texts of ours have.
_NATIVE_FIELDS = frozenset({"compile", "fit", "preprocess", "augment", "output"})
#: Words before a name (or a file) that begin a statement of ours.
_NATIVE_WORDS = frozenset({"block", "include"})
_TOKEN = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{}<>()\[\]:]|[\w.$+-]+""")
_OPENERS, _CLOSERS, _QUOTES = frozenset("{<[("), frozenset("}>])"), frozenset("\"'")


def caffe_kind(document: Document) -> Kind | None:
    """Which text of Caffe a document is, by the fields at its top level; None for one of ours.

    A net has ``layer { }`` or ``layers { }`` blocks, or ``input`` as a string with its shape; a solver a field that
    only a SolverParameter has. A text that defines a block of such a name, or includes another text, is ours.
    """
    if any(isinstance(s, Include) or (isinstance(s, BlockDef) and s.name in _NET_FIELDS) for s in document.statements):
        return None
    fields = {field.name: field for field in document.fields}
    if _NATIVE_FIELDS & fields.keys():
        return None
    if any(isinstance(fields[name].value, Body | ListValue) for name in ("layer", "layers") if name in fields):
        return "net"
    if _SOLVER_FIELDS & fields.keys() and all(name[:1].islower() for name in fields):
        return "solver"
    has_input = "input" in fields and isinstance(fields["input"].value, Scalar)
    return "net" if has_input and _NET_FIELDS & fields.keys() else None


def find_caffe_kind(text: str) -> Kind | None:
    """As `caffe_kind`, of a text that has not been parsed and may have mistakes: by the names at its top level.

    It ends at the first ``layer { }``: a text of ours defines its blocks before it uses them.
    """
    fields: set[str] = set()
    depth, before = 0, ""  # before: the last name or value at the top level
    is_value = False
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token[0] == "#":
            continue
        if token in _OPENERS:
            if depth == 0 and before in ("layer", "layers") and token != "(":
                return None if _NATIVE_FIELDS & fields else "net"
            if depth == 0 and not is_value and before not in _SOLVER_SCALARS:
                fields.add(before)
            depth += 1
        elif token in _CLOSERS:
            depth = max(depth - 1, 0)
        elif depth == 0 and token == ":":
            fields.add(before)
        elif depth == 0:
            if before in _NATIVE_WORDS and not is_value:
                return None
            before = "" if is_value else token
        is_value = token == ":"
    fields = {name for name in fields if name and name[0] not in _QUOTES}
    if _NATIVE_FIELDS & fields or not all(name[:1].islower() for name in fields):
        return None
    if _SOLVER_FIELDS & fields:
        return "solver"
    return "net" if "input" in fields and _NET_FIELDS & fields else None


def is_caffe_text(document: Document) -> bool:
    """Whether a document is a net or a solver of Caffe (see `caffe_kind`)."""
    return caffe_kind(document) is not None
