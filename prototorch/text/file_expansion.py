"""Definitions of blocks and of other files: all of an included file, or the names that are picked from it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

from prototorch.errors import did_you_mean
from prototorch.text import limits
from prototorch.text.arguments import check_arguments, layer_arguments
from prototorch.text.block_expansion import BlockExpander
from prototorch.text.block_inputs import unread_inputs
from prototorch.text.expansion_state import FileTables, Scope
from prototorch.text.includes import IncludeError, describe_file
from prototorch.text.name_resolution import RESERVED_NAMES
from prototorch.text.reader import decode_utf8, parse
from prototorch.text.source import Span
from prototorch.text.syntax_tree import Assert, BlockDef, Document, Field, Include, Let, Param, Word

__all__ = ["FileExpander", "picked_names"]


def picked_names(statements: Sequence[Any]) -> frozenset[str]:
    """The names that the includes among the statements pick."""
    return frozenset(name.text for s in statements if isinstance(s, Include) for name in s.names or ())


class FileExpander(BlockExpander, ABC):
    """Defines blocks, those of other files included."""

    def define_block(self, statement: BlockDef, scope: Scope) -> None:
        if not scope.top:
            self.report_skipped("A block is defined at the top level of a file.", statement.name_span, scope)
            return
        if statement.name in self.blocks and self.blocks[statement.name][0] >= 0:
            first = self.blocks[statement.name][1].span
            message = f"The block {statement.name!r} is defined twice (first at {first})."
            self.report_skipped(message, statement.name_span, scope)
            return
        if statement.name in RESERVED_NAMES:
            message = f"A block cannot be called {statement.name!r}: the language uses that name."
            self.report_skipped(message, statement.name_span, scope)
            return
        for message, span in check_arguments(statement):
            self.report_skipped(message, span, scope)
        for word in unread_inputs(statement):
            message = f"Nothing in the block {statement.name} reads its input {word.text!r}."
            self.report_error(message, word.span, scope)
        self.minimum_steps(statement.body.statements)
        self.layer_arguments[statement.name] = layer_arguments(statement, self.arguments_of)
        self.blocks[statement.name] = (self.block_count, statement)
        self.block_count += 1
        self.homes[id(statement)] = self.tables
        self.blocks_to_come.pop(statement.name, None)

    def expand_include(self, statement: Include, scope: Scope) -> None:
        """Define the params and blocks of another file, or those that are picked from it."""
        if not scope.top:
            self.report_skipped("An include must be at the top level of a file.", statement.span, scope)
            return
        if self.report.has_within(statement.span):  # its path has no quotes
            self.complete = False
            return
        try:
            base = self.open_files[-1][:-1] if self.open_files else ()
            parts = self.files.locate(statement.path, base)
            if parts in self.open_files:
                circle = " -> ".join(map(describe_file, [*self.open_files, parts]))
                raise IncludeError(f"These files include each other in a circle: {circle}.")
            if statement.names is not None and parts in self.private_files:
                self.pick(statement, self.private_files[parts], scope)
                return
            if statement.names is None and parts in self.tables.files:
                return
            if len(self.open_files) >= limits.MAX_INCLUDE_DEPTH:
                raise IncludeError(f"More than {limits.MAX_INCLUDE_DEPTH} files include each other in a row.")
            data = self.files.read(parts)
        except IncludeError as refused:
            self.report_skipped(str(refused), statement.span, scope)
            return
        text = decode_utf8(data, self.files.name(parts), self.report)
        included = None if text is None else parse(text, self.files.name(parts), self.report)
        if included is None or not included.complete:
            self.complete = False
        if included is None:
            return
        if statement.names is None:
            self.tables.files.add(parts)
            self.define_all(included, parts, scope)
            return
        tables = FileTables(self.settable if self.tables is self.main_tables else frozenset())
        tables.files.add(parts)
        tables.blocks_to_come = {s.name: s for s in included.statements if isinstance(s, BlockDef)}
        with self.inside(tables):
            self.define_all(included, parts, scope)
        self.private_files[parts] = tables
        self.pick(statement, tables, scope)

    def define_all(self, included: Document, parts: tuple[str, ...], scope: Scope) -> None:
        """Define what a file holds, in the tables of now."""
        self.open_files.append(parts)
        for s in included.statements:
            self.spend_steps(1, s.span, scope)
            if isinstance(s, Param | Let):
                self.bind_value(s, self.global_names, scope)
            elif isinstance(s, Assert):
                self.check_assert(s, self.global_names, scope)
            elif isinstance(s, BlockDef):
                self.define_block(s, scope)
            elif isinstance(s, Include):
                self.expand_include(s, scope)
            elif not isinstance(s, Field) or s.name:
                self.report_skipped("An included file holds only param, let, assert, block and include.", s.span, scope)
                break
        self.open_files.pop()

    def pick(self, statement: Include, source: FileTables, scope: Scope) -> None:
        """Take the names of an include from the tables of its file."""
        for name in statement.names or ():
            if name.text in source.blocks:
                block = source.blocks[name.text]
                first = self.blocks.get(name.text)
                if first is not None and first[0] >= 0 and first[1] is not block[1]:
                    self.report_twice("block", name, first[1].span, scope)
                    continue
                self.blocks[name.text] = block
                self.layer_arguments[name.text] = source.layer_arguments[name.text]
                self.blocks_to_come.pop(name.text, None)
            elif name.text in source.global_names:
                definition = source.params.get(name.text) or source.lets[name.text]
                first_value = self.params.get(name.text) or self.lets.get(name.text)
                if first_value is not None and first_value is not definition:
                    self.report_twice("value", name, first_value.span, scope)
                    continue
                target: dict[str, Any] = self.params if isinstance(definition, Param) else self.lets
                target[name.text] = definition
                self.global_names[name.text] = source.global_names[name.text]
            else:
                self.report_unknown_pick(name, statement.path, source, scope)

    def report_twice(self, kind: str, name: Word, first: Span | None, scope: Scope) -> None:
        self.report_skipped(f"The {kind} {name.text!r} is defined twice (first at {first}).", name.span, scope)

    def report_unknown_pick(self, name: Word, path: str, source: FileTables, scope: Scope) -> None:
        names = [*(n for n, block in source.blocks.items() if block[0] >= 0), *source.global_names]
        hint = did_you_mean(name.text, names) or (f" It has {', '.join(names[:12])}." if names else " It has none.")
        self.report_skipped(f"{path} has no block or param {name.text!r}.{hint}", name.span, scope)
