"""Whether a text is one of Caffe's nets or solvers, or a model text of ours."""

from __future__ import annotations

import re
from typing import Literal

from prototorch.text.caffe.message_types import message_type
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from prototorch.text.syntax_tree import BlockDef, Body, Document, Include, ListValue, Scalar

__all__ = ["caffe_kind", "find_caffe_kind", "is_caffe_text"]

Kind = Literal["net", "solver"]

#: Fields at the top level of a text that are fields of a Caffe net and not of a text of ours.
_NET_FIELDS = frozenset({"layer", "layers", "input_dim", "input_shape", "force_backward", "state"})
#: Fields at the top level that texts of ours have.
_NATIVE_FIELDS = frozenset({"compile", "fit", "preprocess", "augment", "output"})


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
    solver, net = message_type("SolverParameter").fields, message_type("NetParameter").fields
    only_solver = solver.keys() - net.keys() - {"type"}
    if only_solver & fields.keys() and all(_is_lower(name) for name in fields):
        return "solver"
    has_input = "input" in fields and isinstance(fields["input"].value, Scalar)
    return "net" if has_input and _NET_FIELDS & fields.keys() else None


def find_caffe_kind(text: str) -> Kind | None:
    """As `caffe_kind`, of a text, which may have mistakes. A text without a word that Caffe's have is not parsed."""
    names = _NET_FIELDS | message_type("SolverParameter").fields.keys()
    if not re.search(rf"\b(?:{'|'.join(names)})\s*[:{{<\[]", text):
        return None
    return caffe_kind(parse(text, None, Report(), is_protobuf=True))


def is_caffe_text(document: Document) -> bool:
    """Whether a document is a net or a solver of Caffe (see `caffe_kind`)."""
    return caffe_kind(document) is not None


def _is_lower(name: str) -> bool:
    return name[:1].islower()
