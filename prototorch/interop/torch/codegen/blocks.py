"""Classes of a Python file: the parts of a net with one beginning of their names, those of one form as one class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prototorch.interop.counterparts.torch.row import ModuleCall
from prototorch.interop.torch.codegen.identifiers import class_name, unique_name
from prototorch.interop.torch.codegen.statements import Definition, NetItems, SourceItem

__all__ = ["BlockCall", "BlockClass", "SourceBlock", "find_blocks"]

_MODULE = re.compile("\x02([^\x02]*)\x02")
#: arguments that modules have by name, with their defaults: classes that differ in them alone are one
_DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True}
_HAS_DEFAULTS = re.compile(r"Conv(Transpose)?\dd")


@dataclass
class SourceBlock:
    """A part of the net that becomes an object of a class: its steps and the blocks in it, in their order."""

    path: tuple[str, ...]
    steps: list[SourceItem | SourceBlock]
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    @property
    def height(self) -> int:
        """The number of levels of blocks in it."""
        return 1 + max((s.height for s in self.steps if isinstance(s, SourceBlock)), default=0)

    def blocks(self) -> list[SourceBlock]:
        """The blocks in it, of all levels."""
        inner = [s for s in self.steps if isinstance(s, SourceBlock)]
        return inner + [b for s in inner for b in s.blocks()]


@dataclass
class BlockCall:
    """An object of a class of the file, with its arguments."""

    name: str
    arguments: list[tuple[str, Any]]


@dataclass
class BlockClass:
    """A class: an example of its blocks, and the name of each argument by its place among all values of the modules."""

    name: str
    example: SourceBlock
    parameters: dict[int, str]


def find_blocks(net: NetItems) -> SourceBlock:
    """The whole net as a block, with the blocks that its names tell."""
    root = _group(net, (), list(net.items), [])
    root.reads, root.writes = net.inputs, net.outputs
    return root


def _group(net: NetItems, path: tuple[str, ...], items: list[SourceItem], outside: list[SourceItem]) -> SourceBlock:
    steps: list[SourceItem | SourceBlock] = []
    runs: list[list[SourceItem]] = []
    depth = len(path)
    for item in items:
        if runs and _child(item, depth) is not None and _child(runs[-1][-1], depth) == _child(item, depth):
            runs[-1].append(item)
        else:
            runs.append([item])
    for run in runs:
        child = _child(run[0], depth)
        others = [i for r in runs if r is not run for i in r] + outside
        if child is not None and len(run) > 1 and _is_closed(net, (*path, child), run, others):
            block = _group(net, (*path, child), run, others)
            block.reads, block.writes = _borders(net, run, others)
            steps.append(block)
        else:
            steps += run
    return SourceBlock(path, steps)


def _child(item: SourceItem, depth: int) -> str | None:
    """The part of an item's name below a group, None for one that lies in the group itself."""
    return item.path[depth] if len(item.path) > depth + 1 else None


def _is_closed(net: NetItems, path: tuple[str, ...], run: Sequence[SourceItem], others: Sequence[SourceItem]) -> bool:
    """Whether these steps alone use the modules below a path, and no others."""
    mine = modules_of(run)
    inside = {p for p in net.definitions if p[: len(path)] == path}
    if not mine or not mine <= inside or not inside.isdisjoint(modules_of(others)):
        return False
    return bool(_borders(net, run, others)[1])


def modules_of(items: Sequence[SourceItem]) -> set[tuple[str, ...]]:
    """The paths of the modules that these steps use."""
    return {tuple(m.split("/")) for i in items for line in i.lines for m in _MODULE.findall(line)}


def _borders(net: NetItems, run: Sequence[SourceItem], others: Sequence[SourceItem]) -> tuple[list[int], list[int]]:
    """The values that these steps read from others, and those of theirs that others read."""
    writes = [n for i in run for n in i.writes]
    reads = dict.fromkeys(n for i in run for n in i.reads if n not in writes)
    values_read_later = {n for i in others for n in i.reads} | set(net.outputs)
    return list(reads), [n for n in dict.fromkeys(writes) if n in values_read_later]


class ClassTable:
    """The classes of a file. `call` finds or makes that of a block; blocks inside it must have theirs already."""

    def __init__(self, net: NetItems, root: SourceBlock, body: Any):
        self.net, self.body = net, body  # body: (block) -> text of its forward function
        self.calls: dict[tuple[str, ...], BlockCall] = {}
        self.classes: list[BlockClass] = []
        blocks = sorted(root.blocks(), key=lambda b: b.height)
        heights = sorted({b.height for b in blocks})
        self._names = {"Net"}
        for height in heights:
            forms: dict[Any, list[SourceBlock]] = {}
            for block in (b for b in blocks if b.height == height):
                forms.setdefault(self._form(block), []).append(block)
            for same in forms.values():
                self._add(same)

    def _form(self, block: SourceBlock) -> Any:
        names = tuple((m.path[len(block.path) :], m.kind, tuple(n for n, _ in m.values)) for m in self.modules(block))
        rest = tuple(m.fixed for m in self.modules(block))
        return names, rest, self.body(block)

    def modules(self, block: SourceBlock) -> list[_Module]:
        """The modules of a block in the order of their definitions; those of blocks inside are their objects."""
        inner = {b.path for b in block.steps if isinstance(b, SourceBlock)}
        modules_by_path: dict[tuple[str, ...], _Module] = {}
        for path, definition in self.net.definitions.items():
            if path[: len(block.path)] != block.path:
                continue
            owner = next((path[:n] for n in range(len(path), 0, -1) if path[:n] in inner), None)
            if owner is not None:
                call = self.calls[owner]
                modules_by_path.setdefault(owner, _Module(owner, call.name, list(call.arguments), ()))
            else:
                modules_by_path[path] = _describe_module(definition)
        return list(modules_by_path.values())

    def _add(self, blocks: list[SourceBlock]) -> None:
        columns = list(zip(*([v for m in self.modules(b) for _, v in m.values] for b in blocks), strict=True))
        names = [n for m in self.modules(blocks[0]) for n, _ in m.values]
        parameters: dict[int, str] = {}
        argument_names: dict[tuple[Any, ...], str] = {}
        for place, column in enumerate(columns):
            if all(v == column[0] and type(v) is type(column[0]) for v in column):
                continue
            key = tuple((type(v), v) for v in column)
            if key not in argument_names:
                argument_names[key] = unique_name(names[place], set(argument_names.values()))
            parameters[place] = argument_names[key]
        last = blocks[0].path[-1]
        parent = blocks[0].path[-2] if len(blocks[0].path) > 1 else ""
        preferred = f"{class_name(parent)}Block" if last.strip("_").isdigit() else class_name(last)
        name = next(
            n for n in (f"{preferred}{i or ''}" for i in (0, *range(2, len(self._names) + 3))) if n not in self._names
        )
        self._names.add(name)
        self.classes.append(BlockClass(name, blocks[0], parameters))
        for index, block in enumerate(blocks):
            self.calls[block.path] = BlockCall(name, [(n, key[index][1]) for key, n in argument_names.items()])


@dataclass
class _Module:
    """A module: its kind, and the values of its arguments by name. fixed: what no argument stands for."""

    path: tuple[str, ...]
    kind: str
    values: list[tuple[str, Any]]
    fixed: Any


def _describe_module(definition: Definition) -> _Module:
    kind = definition.call.kind if definition.call is not None else "Module"
    values = named_arguments(definition.call) if definition.call is not None else []
    fixed = (
        repr(definition.children),
        repr(definition.parameters),
        repr([(n, getattr(b, "tolist", lambda b=b: b)()) for n, b in definition.buffers.items()]),
    )
    return _Module(definition.path, kind, values, fixed)


def named_arguments(call: ModuleCall) -> list[tuple[str, Any]]:
    """The arguments of a module by name; of a convolution with the defaults of those that are not given."""
    arguments = list(call.arguments.items())
    if _HAS_DEFAULTS.fullmatch(call.kind):
        rest = [(n, v) for n, v in call.options.items() if n not in _DEFAULTS]
        return [*arguments, *((n, call.options.get(n, d)) for n, d in _DEFAULTS.items()), *rest]
    return arguments + list(call.options.items())


def is_default(call: ModuleCall, name: str, value: Any) -> bool:
    """Whether an argument need not be written."""
    return name not in call.options and name in _DEFAULTS and value == _DEFAULTS[name]
