"""``Net("lenet", output: "dense_1")`` in a text: the layers of another net, expanded as the body of a block is."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prototorch.base.index import load_extensions
from prototorch.text import limits
from prototorch.text.diagnostics import Report
from prototorch.text.expansion_state import LAYER, ExpansionAborted, FileTables, Names, Scope
from prototorch.text.file_expansion import FileExpander
from prototorch.text.includes import IncludeFiles
from prototorch.text.nested_net import FileKey, NestedNet, NestedNetReader, NetExpansion, NetRequest
from prototorch.text.output_names import forget_outputs
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    Document,
    ExpansionFrame,
    Field,
    InvalidValue,
    ListValue,
    Scalar,
    Word,
)

__all__ = ["NetExpander", "key_of_main_file"]


def key_of_main_file(document: Document, root: str | None) -> tuple[FileKey, ...]:
    """The file of a document, as the first of the open ones; empty where it is none."""
    path = document.source.path if document.source is not None else None
    if root is None or path is None or not os.path.isfile(path):
        return ()
    return ((os.path.realpath(root), os.path.basename(path)),)


class NetExpander(FileExpander, ABC):
    """Expands uses of nets."""

    @abstractmethod
    def expand_document(self, document: Document) -> list[Field]:
        """The fields of a whole text."""

    def run(self, document: Document) -> Document:
        """A text, expanded."""
        self.document = document
        fields = self.expand_document(document)
        complete = document.complete and self.complete
        return Document(tuple(fields), document.source, (), tuple(self.blocks), complete, tuple(self.nets.uses))

    def _expand_inside(
        self, document: Document, params: Mapping[str, Any], files: IncludeFiles, file: FileKey, report: Report
    ) -> NetExpansion:
        """Another text, expanded within the limits of this expansion."""
        inner = type(self)(report, dict(params), files)
        inner.steps, inner.layers, inner.depth = self.steps, self.layers, self.depth
        inner.nets.cache, inner.nets.open_files = self.nets.cache, (*self.nets.open_files, file)
        inner.open_files, inner.checks_params = [file[1:]], False
        expanded = inner.run(document)
        self.steps = inner.steps
        if inner.steps > limits.MAX_STEPS or inner.layers > limits.MAX_LAYERS:
            raise ExpansionAborted
        return NetExpansion(expanded, inner.params)

    def expand_net_use(self, statement: Field, names: Names, scope: Scope) -> list[Field]:
        """The layers of a net in the net; an empty list after a mistake, which is reported."""
        inside = replace(scope, kind=LAYER, top=False, bottom=[], last=[], owner=(statement.name,))
        fields = self.expand_body(statement.value, names, inside).fields
        frame = ExpansionFrame(statement.name, statement.name_span, scope.chain)
        nested = None
        if not any(isinstance(f.value, InvalidValue) for f in fields):
            reader: NestedNetReader = load_extensions(NestedNetReader)[0]
            nested = reader.read(self._request(fields, statement, frame, scope))
        if nested is not None and self._is_taken(nested.label):
            self.report_error(f"The name {nested.label!r} is used twice.", statement.name_span, scope)
            nested = None
        entries = () if nested is None else self.layer_inputs(Body(_field_list(nested.bottom)), names, scope)
        if nested is None or not self._check_inputs(nested, entries, statement, scope):
            self.complete = False
            forget_outputs(self, statement.outputs, scope)
            return []
        self.nets.labels.add(nested.label)
        reads_first = nested.first_input is not None and entries[nested.first_input] in self.inputs[:1]
        self.nets.uses.append(replace(nested, reads_first_input=reads_first))
        return self._expand_as_block(nested, statement, names, scope)

    def _request(self, fields: tuple[Field, ...], statement: Field, frame: ExpansionFrame, scope: Scope) -> NetRequest:
        return NetRequest(
            fields,
            statement.name_span,
            self._main_span(frame),
            self.report.with_chain(scope.chain),
            frame,
            self.document,
            self.files,
            self._folder_of(statement.name_span),
            self.nets.open_files,
            lambda name, default: self._label(name, default, scope),
            self._expand_inside,
            self.nets.cache,
        )

    def _expand_as_block(self, nested: NestedNet, statement: Field, names: Names, scope: Scope) -> list[Field]:
        """The layers of a net, as those of a block that declares its inputs and outputs."""
        at = statement.name_span
        inputs = [
            Field("input", Body((Field("name", Scalar(name, at), at, at),), at), at, at) for name in nested.inputs
        ]
        output = Field("output", ListValue(tuple(Scalar(name, at) for name in nested.outputs), at), at, at)
        body = Body((*inputs, *nested.layers, output), statement.span)
        definition = BlockDef(nested.title, (), body, statement.span, at)
        self.nets.definitions.append(definition)
        name = Field("name", Scalar(nested.label.removeprefix(scope.prefix), at), at, at)
        use = (name, *_field_list(nested.bottom), *_field_list(nested.top), *nested.settings)
        self.homes[id(definition)] = FileTables(frozenset())  # its layers are layers, whatever blocks this text has
        return self.expand_block_use(replace(statement, value=Body(use, statement.span)), (0, definition), names, scope)

    def _check_inputs(self, nested: NestedNet, entries: tuple[str, ...], statement: Field, scope: Scope) -> bool:
        """Whether a use gives a net its inputs; where it does not, that is reported."""
        count, expected = len(entries), len(nested.inputs)
        if count == expected:
            return True
        names = ", ".join(nested.inputs)
        example = f'{statement.name}({", ".join("abcdefgh"[:expected])}, "...")'
        reads = f"{nested.title} reads {expected} input{'s' * (expected != 1)} ({names})"
        which = "nothing says which output" if not count else f"{count} {'are' if count > 1 else 'is'} given"
        span = nested.bottom.span if nested.bottom is not None else statement.name_span
        self.report_error(f"{reads}, and {which}: {example}.", span, scope)
        return False

    # ------------------------------------------------------------------ places and names

    def _label(self, name: str | None, default: str, scope: Scope) -> str:
        """The full name of a use: the one that it has, or that of its source, with a number where it is taken."""
        if name is not None:
            return scope.prefix + name
        number = 1
        while True:
            full = scope.prefix + (default if number == 1 else f"{default}_{number}")
            if not self._is_taken(full):
                return full
            number += 1

    def _is_taken(self, full: str) -> bool:
        """Whether a layer, an output, or a use of a block or a net has that name."""
        resolver = self.name_resolver
        return full in resolver.defined or full in resolver.aliases or full in self.nets.labels

    def _main_span(self, frame: ExpansionFrame) -> Span | None:
        """The place in the main file that a use was expanded from."""
        main = self.document.source
        spans = [f.span for f in frame if f.span is not None and f.span.source is main]
        return spans[-1] if spans else frame.span

    def _folder_of(self, span: Span | None) -> tuple[str, ...]:
        """The folder of the file that has a place, as parts below the root."""
        if span is None or span.path is None or self.files.root is None:
            return ()
        relative = os.path.relpath(os.path.dirname(span.path) or ".", self.files.root)
        parts = tuple(relative.split(os.sep))
        return () if parts == (".",) or parts[0] == ".." else parts

    def with_nested_nets(self, fields: list[Field]) -> list[Field]:
        """The fields of the whole text with what its nets bring along: blocks ``weights``, and a ``preprocess`` where
        the text has none."""
        added = [f for nested in self.nets.uses for f in nested.weights]
        if any(f.name == "preprocess" for f in fields):
            added = [_keeping_preprocess(f) for f in added]
        else:
            blocks = [n.preprocess for n in self.nets.uses if n.preprocess is not None and n.reads_first_input]
            added += blocks[:1]
        return [*fields, *added]


def _keeping_preprocess(weights: Field) -> Field:
    """A ``weights`` block whose set does not replace the preprocessing of the text."""
    if any(f.name == "preprocess" for f in weights.value.fields):
        return weights
    stated = Field("preprocess", Word("text", weights.span), weights.span, weights.span)
    return replace(weights, value=Body((*weights.value.fields, stated), weights.span))


def _field_list(f: Field | None) -> tuple[Field, ...]:
    return () if f is None else (f,)
