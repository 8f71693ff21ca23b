"""A net inside a net: what an expansion gives to the reader of one, what it gets, and what it keeps of all of them.

The layers of a net are known above this package, so that its reader is found by the index: see `NestedNetReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prototorch.base.index import Extension
from prototorch.text.diagnostics import Report
from prototorch.text.includes import IncludeFiles
from prototorch.text.source import Span
from prototorch.text.syntax_tree import BlockDef, Document, ExpansionFrame, Field

__all__ = ["NET_WORD", "FileKey", "NestedNet", "NestedNetReader", "NetExpansion", "NetRequest", "NetUses"]

NET_WORD = "Net"  # the layer that is another net

#: A file: its root folder, and the parts of its path below that.
FileKey = tuple[str, ...]


@dataclass(frozen=True)
class NestedNet:
    """A net that is used in another one.

    title: its name, for messages. label: the prefix of its layers' names, without the last "/". inputs: of its own
    text, in order; first_input: the index of that for which its ``preprocess`` is, None where it is left out. layers:
    the layers as plain fields, with names below the label. outputs: names below the label, the first one first. bottom,
    top, settings: these fields of the use, the last being what it says of all layers. preprocess: its own, as a field
    and as layers. weights: ``weights`` blocks that load into it, with full prefixes. unused: the names of what its text
    has and is left out. reads_first_input: whether it reads the first input of the net that it is in.
    """

    title: str
    label: str
    inputs: tuple[str, ...]
    first_input: int | None
    layers: tuple[Field, ...]
    outputs: tuple[str, ...]
    bottom: Field | None
    top: Field | None
    settings: tuple[Field, ...]
    preprocess: Field | None
    preprocess_layers: tuple[Any, ...]
    weights: tuple[Field, ...]
    unused: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    reads_first_input: bool = False


@dataclass(frozen=True)
class NetExpansion:
    """A text in a text, expanded. params: its params by name."""

    document: Document
    params: Mapping[str, Any]


@dataclass(frozen=True)
class NetRequest:
    """The use of a net, as its reader gets it.

    fields: in its braces or parentheses, without expressions. main_span: the place in the main file of which the use is
    a part. document: the text around, not expanded. base: the folder of the file that has the use, below the root of
    ``files``. open_files: the texts that are being expanded, the main file first. choose_label: ``(name, default)`` ->
    the full name of the use. expand: ``(document, params, files, file, report)``. cache: nets that were read before in
    this expansion.
    """

    fields: tuple[Field, ...]
    span: Span | None
    main_span: Span | None
    report: Report
    frame: ExpansionFrame
    document: Document
    files: IncludeFiles
    base: tuple[str, ...]
    open_files: tuple[FileKey, ...]
    choose_label: Callable[[str | None, str], str]
    expand: Callable[[Document, Mapping[str, Any], IncludeFiles, FileKey, Report], NetExpansion]
    cache: dict[Any, Any]


@dataclass(frozen=True)
class NestedNetReader(Extension):
    """read: the net of a use; None after a mistake, which is in the request's report."""

    read: Callable[[NetRequest], NestedNet | None]


@dataclass
class NetUses:
    """The nets in a net, as far as an expansion has come. definitions: their layers as blocks, which must live as long
    as the expansion does: it counts steps by the identity of bodies."""

    open_files: tuple[FileKey, ...] = ()
    uses: list[NestedNet] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    definitions: list[BlockDef] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)
