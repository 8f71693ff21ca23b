"""The state of an expansion: what has been defined so far, the limits on work and size, and error reports."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from prototorch.text import limits
from prototorch.text.block_values import BlockUse, LayerSettings
from prototorch.text.call_schema import Path
from prototorch.text.diagnostics import Report
from prototorch.text.includes import IncludeFiles
from prototorch.text.name_resolution import NameResolver
from prototorch.text.nested_net import NetUses
from prototorch.text.source import Span
from prototorch.text.syntax_tree import (
    BlockDef,
    Body,
    CallBody,
    Document,
    ExpansionFrame,
    Field,
    Let,
    Param,
    Repeat,
    Scalar,
    Value,
)

__all__ = [
    "LAYER",
    "NET",
    "NO_VALUE",
    "PLAIN",
    "ExpansionAborted",
    "ExpansionState",
    "Names",
    "Scope",
    "find_variable",
    "new_names",
]

Names: TypeAlias = MutableMapping[str, Any]
NO_VALUE = object()
NET, LAYER, PLAIN = "net", "layer", "plain"  # the kind of a body: part of the net, fields of a layer, other fields


def new_names(outer: Names) -> Names:
    """An inner scope of names, empty so far. Its scopes are one list: a name is found without recursion."""
    return outer.new_child() if isinstance(outer, ChainMap) else ChainMap({}, outer)


def find_variable(names: Names, word: str) -> Any:
    """The value of a name, its innermost; `NO_VALUE` where there is none."""
    for scope in names.maps if isinstance(names, ChainMap) else (names,):
        if word in scope:
            return scope[word]
    return NO_VALUE


class ExpansionAborted(Exception):
    """A limit was exceeded; the report has the error."""


@dataclass(slots=True)
class Scope:
    """The scope that statements are expanded in: the kind of body, the prefix of names, the visible blocks."""

    kind: str = NET
    prefix: str = ""
    visible: int = 2**31  # the number of blocks that may be used here
    chain: ExpansionFrame | None = None
    top: bool = False
    bottom: list[Value] = field(default_factory=list)  # the input of the next layer without a bottom
    last: list[str] = field(default_factory=list)  # the output of the last layer
    owner: Path = ()  # the blocks around, as `schema_at` takes them
    use: BlockUse | None = None  # the use of a block that these statements are a part of
    start: tuple[str, ...] = ()  # the output that the first layer here reads, where it is known
    settings: LayerSettings | None = None  # what the uses of blocks around say of their layers
    active: frozenset[str] = frozenset()  # the blocks that are being expanded around these statements


class FileTables:
    """What a file has defined: the text's own, with that of files that it includes, or a file's that names are picked
    from. settable: the params that the caller may set; None for all."""

    def __init__(self, settable: frozenset[str] | None = None):
        self.settable = settable
        self.global_names: Names = {}
        self.params: dict[str, Param] = {}
        self.lets: dict[str, Let] = {}
        self.blocks: dict[str, tuple[int, BlockDef]] = {}
        self.blocks_to_come: dict[str, BlockDef] = {}
        self.layer_arguments: dict[str, frozenset[str]] = {}  # the arguments of a block that it uses as layers
        self.files: set[tuple[str, ...]] = set()  # those that are included whole


class ExpansionState:
    """What an expansion has defined and counted so far. The tables are those of the file whose statements are being
    expanded; their contents are attributes here."""

    def __init__(self, report: Report, caller_params: dict[str, Any], files: IncludeFiles):
        self.report = report
        self.caller_params = caller_params
        self.files = files
        self.main_tables = self.tables = FileTables()
        self.homes: dict[int, FileTables] = {}  # by the id of a block's definition, the tables of its file
        self.private_files: dict[tuple[str, ...], FileTables] = {}  # those that names are picked from
        self.settable: frozenset[str] = frozenset()  # the params of such files that the caller may set
        self.block_count = 0
        self.inputs: list[str] = []  # of the net
        self.output_spans: dict[str, list[Span]] = {}  # where `=` gives an output each name
        self.name_resolver = NameResolver()
        self.steps = 0
        self.layers = 0
        self.depth = 0
        self.complete = True
        self.step_counts: dict[int, int] = {}
        self.document = Document(())  # as it is before
        self.nets = NetUses()
        self.checks_params = True  # whether the caller's params are those of this text
        self.open_files: list[tuple[str, ...]] = []

    @property
    def global_names(self) -> Names:
        return self.tables.global_names

    @property
    def params(self) -> dict[str, Param]:
        return self.tables.params

    @property
    def lets(self) -> dict[str, Let]:
        return self.tables.lets

    @property
    def blocks(self) -> dict[str, tuple[int, BlockDef]]:
        return self.tables.blocks

    @property
    def blocks_to_come(self) -> dict[str, BlockDef]:
        return self.tables.blocks_to_come

    @property
    def layer_arguments(self) -> dict[str, frozenset[str]]:
        return self.tables.layer_arguments

    def home_of(self, definition: BlockDef) -> FileTables:
        """The tables of the file of a block; those of now for a block that every text may use."""
        return self.homes.get(id(definition), self.tables)

    @contextmanager
    def inside(self, tables: FileTables) -> Iterator[None]:
        """Expand statements of the file of these tables."""
        outer, self.tables = self.tables, tables
        try:
            yield
        finally:
            self.tables = outer

    def report_error(self, message: str, span: Span | None, scope: Scope) -> None:
        self.report.add(message, span, scope.chain)

    def report_skipped(self, message: str, span: Span | None, scope: Scope) -> None:
        """Report why a statement is left out."""
        self.complete = False
        self.report_error(message, span, scope)

    def report_early_use(self, statement: Field, block: tuple[int, BlockDef] | None, scope: Scope) -> None:
        """Report a block that is used inside itself, or before its definition."""
        if block is not None and block[0] == scope.visible:
            message = f"The block {statement.name!r} uses itself."
        else:
            definition = block[1] if block is not None else self.blocks_to_come[statement.name]
            where = definition.name_span.line if definition.name_span else 0
            message = (
                f"The block {statement.name!r} is defined only at line {where}; move its definition before its use."
            )
        self.report_skipped(message, statement.name_span, scope)

    def abort(self, message: str, span: Span | None, scope: Scope) -> None:
        self.report_skipped(message, span, scope)
        raise ExpansionAborted

    def spend_steps(self, steps: int, span: Span | None, scope: Scope) -> None:
        """Count steps of work; abort above the limit."""
        self.steps += steps
        if self.steps > limits.MAX_STEPS:
            self.abort(f"This expands in more than {limits.MAX_STEPS:,} steps.", span, scope)

    def minimum_steps(self, statements: tuple[Any, ...]) -> int:
        """A lower bound of the steps of statements: blocks and repeats of a literal count are multiplied out."""
        count = self.step_counts.get(id(statements))
        if count is not None:
            return count
        total = 0
        for s in statements:
            total += 1
            if isinstance(s, Repeat) and isinstance(s.count, Scalar) and isinstance(s.count.value, int):
                total += max(0, s.count.value) * (1 + self.minimum_steps(s.body.statements))
            elif isinstance(s, Field) and s.name in self.blocks and isinstance(s.value, Body | CallBody):
                total += self.step_counts.get(id(self.blocks[s.name][1].body.statements), 0)
            elif isinstance(s, Field) and isinstance(s.value, Body):
                total += self.minimum_steps(s.value.statements)
            elif isinstance(s, Field) and isinstance(s.value, CallBody):
                total += len(s.value.arguments)
                total += self.minimum_steps(s.value.body.statements) if s.value.body is not None else 0
        self.step_counts[id(statements)] = min(total, 10**30)
        return self.step_counts[id(statements)]
