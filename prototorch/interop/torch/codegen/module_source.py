"""A net as a Python file: a class of PyTorch that a person can read, and its state_dict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from prototorch.graph.net import Net
from prototorch.interop.counterparts.torch.row import ModuleCall
from prototorch.interop.torch.codegen.blocks import (
    BlockClass,
    ClassTable,
    SourceBlock,
    find_blocks,
    is_default,
    named_arguments,
)
from prototorch.interop.torch.codegen.expressions import literal
from prototorch.interop.torch.codegen.identifiers import unique_name, variable_name
from prototorch.interop.torch.codegen.modules import net_items
from prototorch.interop.torch.codegen.statements import Definition, NetItems, SourceItem

__all__ = ["torch_source"]

_WIDTH = 120
_VALUE = re.compile("\x01(\\d+)\x01")
_MODULE = re.compile("\x02([^\x02]*)\x02")


def torch_source(
    net: Net,
    weights: Mapping[str, np.ndarray],
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    include_preprocess: bool = False,
    state_file: str = "net.pt",
    header: Sequence[str] = (),
) -> tuple[str, dict[str, np.ndarray]]:
    """The text of a Python file with the class ``Net``, and the arrays of its state_dict.

    Layers keep their names: ``stage1/conv`` is ``stage1.conv``. Parts whose names begin alike become classes, those of
    one form one class. The file needs PyTorch alone.

    Args:
        weights: all weights by name. shapes: of inputs whose sizes the text leaves open.
        include_preprocess: whether the layers of ``preprocess`` are a part of ``forward``.
        state_file: the name of the state_dict's file, for the usage line. header: lines for the comment at the top.

    Raises UsageError that names every layer which PyTorch cannot express.
    """
    items = net_items(net, weights, shapes or {}, include_preprocess)
    writer = _FileWriter(items, [n.name for n in net.inputs])
    return writer.text(net.name, state_file, [*header, *items.notes]), items.state


class _FileWriter:
    def __init__(self, net: NetItems, inputs: list[str]):
        self.net, self.inputs = net, inputs
        self.root = find_blocks(net)
        self.table = ClassTable(net, self.root, lambda block: "\n".join(self._forward(block, with_comments=False)))

    def text(self, name: str, state_file: str, header: Sequence[str]) -> str:
        parts = [self._module_text(name, state_file, header)]
        parts += [self._class(c) for c in self.table.classes]
        parts.append(self._net_class())
        return "".join(f"{wrap_line(line)}\n" for line in "\n\n\n".join(parts).split("\n"))

    def _module_text(self, name: str, state_file: str, header: Sequence[str]) -> str:
        comment_lines = [f"{ascii(name)[1:-1]}: written by prototorch.", *(ascii(line)[1:-1] for line in header), "",
                "    net = Net()", f"    net.load_state_dict(torch.load({state_file!a}, weights_only=True))",
                "    net.eval()"]  # fmt: skip
        comment = "\n".join(f"# {line}".rstrip() for line in comment_lines)
        return f"{comment}\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn"

    # ---- classes

    def _class(self, block_class: BlockClass) -> str:
        parameters = list(dict.fromkeys(block_class.parameters.values()))
        block = block_class.example
        lines = [f"class {block_class.name}(nn.Module):", f"    def __init__({', '.join(['self', *parameters])}):",
                 "        super().__init__()"]  # fmt: skip
        lines += self._definitions(block, block_class.parameters)
        lines += ["", *self._forward(block, with_comments=not parameters)]
        return "\n".join(lines)

    def _net_class(self) -> str:
        lines = ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += self._definitions(self.root, {})
        comments = [f"    # {variable_name(n)}: {c}" for n, c in zip(self.inputs, self.net.input_comments, strict=True)]
        return "\n".join([*lines, "", *comments, *self._forward(self.root, with_comments=True)])

    def _definitions(self, block: SourceBlock, parameters: Mapping[int, str]) -> list[str]:
        lines: list[str] = []
        containers: set[tuple[str, ...]] = set()
        place, depth = 0, len(block.path)
        inner = {b.path for b in block.steps if isinstance(b, SourceBlock)}
        for module in self.table.modules(block):
            for n in range(depth + 1, len(module.path)):
                container = module.path[:n]
                if container not in containers and container not in self.net.definitions:
                    containers.add(container)
                    lines += _assign(container, depth, "nn.Module()")
            values = [parameters.get(place + i) or literal(v) for i, (_, v) in enumerate(module.values)]
            if module.path in inner:
                text = f"{module.kind}({', '.join(values)})"
                lines += _assign(module.path, depth, text)
            else:
                definition = self.net.definitions[module.path]
                stated = [parameters.get(place + i) for i in range(len(values))]
                lines += _definition(definition, depth, values, stated)
            place += len(values)
        return lines or ["        pass"]

    # ---- forward

    def _forward(self, block: SourceBlock, with_comments: bool) -> list[str]:
        namer = _Namer(self.net)
        last_use = _last_uses(block)
        if block is self.root:
            arguments = [namer.fixed(n, name) for n, name in zip(block.reads, self.inputs, strict=True)]
        else:
            arguments = [namer.name(n) for n in block.reads]
        lines = [f"    def forward({', '.join(['self', *arguments])}):"]
        for index, step in enumerate(block.steps):
            reads = [namer.names[n] for n in step.reads]
            if isinstance(step, SourceBlock):
                namer.release(last_use, index)
                outputs = ", ".join(namer.name(n) for n in step.writes)
                statement_lines = [f"{outputs} = {_access(step.path, len(block.path))}({', '.join(reads)})"]
                comment = ""
            else:
                statement_lines = self._step_lines(step, namer, last_use, index, len(block.path))
                comment = step.comment
            if with_comments and comment and len(statement_lines[-1]) + len(comment) + 12 <= _WIDTH:
                statement_lines[-1] = f"{statement_lines[-1]}  # {comment}"
            lines += [f"        {line}" for line in statement_lines]
        lines.append(f"        return {', '.join(namer.names[n] for n in block.writes)}")
        return lines

    def _step_lines(
        self, step: SourceItem, namer: _Namer, last_use: Mapping[int, int], index: int, depth: int
    ) -> list[str]:
        """The lines of a step. Names of its inputs are free again in its last line alone, where they are read last."""
        lines = []
        for number, line in enumerate(step.lines):
            is_last = number == len(step.lines) - 1
            target, sign, value = line.partition(" = ")
            if not sign or not _VALUE.search(target) or "for step" in line:
                target, value = "", line
            value = _VALUE.sub(lambda m: namer.name(int(m[1])), value)
            value = _MODULE.sub(lambda m: _access(tuple(m[1].split("/")), depth), value)
            if is_last:
                namer.release(last_use, index)
            target = _VALUE.sub(lambda m: namer.name(int(m[1])), target)
            lines.append(f"{target}{sign}{value}" if target else value)
        return lines


class _Namer:
    """Names of the values in a function: x, y, z for those that are free, else what the value would like."""

    def __init__(self, net: NetItems):
        self.hints = net.hints
        self.names: dict[int, str] = {}
        self._in_use: dict[str, int] = {}
        self._fixed_names: set[str] = {"step"}

    def fixed(self, number: int, name: str) -> str:
        """A name that is asked for."""
        variable = unique_name(variable_name(name), self._fixed_names)
        self._fixed_names.add(variable)
        self.names[number] = variable
        return variable

    def name(self, number: int) -> str:
        """The name of a value, chosen when it is first asked for."""
        if number not in self.names:
            free = next((n for n in "xyz" if n not in self._in_use and n not in self._fixed_names), None)
            if free is None or self.hints[number] in ("h", "c", "outputs"):
                return self.fixed(number, self.hints[number].rpartition("/")[2])
            self._in_use[free] = number
            self.names[number] = free
        return self.names[number]

    def release(self, last_use: Mapping[int, int], index: int) -> None:
        """Free the names of the values that no later step reads."""
        for name, number in list(self._in_use.items()):
            if last_use.get(number, -1) <= index:
                del self._in_use[name]


def wrap_line(line: str) -> str:
    """A line of code as several of at most 120 characters, broken behind commas inside brackets."""
    if len(line) <= _WIDTH or line.lstrip().startswith("#"):
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines: list[str] = []
    depth, start, last_break = 0, 0, -1
    for index, character in enumerate(line):
        depth += (character in "([{") - (character in ")]}")
        width = index - start + (len(indent) if lines else 0)
        if width >= _WIDTH and last_break > start:
            lines.append((indent if lines else "") + line[start : last_break + 1])
            start, last_break = last_break + 2, -1
        if character == "," and depth > 0 and line[index + 1 : index + 2] == " ":
            last_break = index
    return "\n".join([*lines, (indent if lines else "") + line[start:]])


def _last_uses(block: SourceBlock) -> dict[int, int]:
    """The index of the last step that reads each value; the end for those that are returned."""
    last = {n: i for i, step in enumerate(block.steps) for n in step.reads}
    return last | {n: len(block.steps) for n in block.writes}


def _access(path: tuple[str, ...], depth: int) -> str:
    """How a module below a block's own path is written there."""
    text = "self"
    for part in path[depth:]:
        text += f".{part}" if part.isidentifier() else f".get_submodule({part!a})"
    return text


def _assign(path: tuple[str, ...], depth: int, text: str) -> list[str]:
    last, before = path[-1], _access(path[:-1], depth)
    if last.isidentifier():
        return [f"        {before}.{last} = {text}"]
    return [f"        {before}.add_module({last!a}, {text})"]


def _call_text(call: ModuleCall, values: Sequence[str], stated: Sequence[str | None]) -> str:
    parts: list[str] = []
    for (name, value), text, parameter in zip(named_arguments(call), values, stated, strict=True):
        position = len(parts)
        if position < len(call.arguments) and not any("=" in p for p in parts):
            parts.append(text)
        elif parameter is not None or not is_default(call, name, value):
            parts.append(f"{name}={text}")
    return f"nn.{call.kind}({', '.join(parts)})"


def _definition(definition: Definition, depth: int, values: Sequence[str], stated: Sequence[str | None]) -> list[str]:
    path = definition.path
    text = "nn.Module()" if definition.call is None else _call_text(definition.call, values, stated)
    lines = _assign(path, depth, text)
    for name, call in definition.children.items():
        plain = [literal(v) for _, v in named_arguments(call)]
        lines += _assign((*path, *name.split(".")), depth, _call_text(call, plain, [None] * len(plain)))
    here = _access(path, depth)
    for name, (shape, trainable) in definition.parameters.items():
        if trainable:
            lines.append(f"        {here}.{name} = nn.Parameter(torch.empty({literal(tuple(shape))}))")
        else:
            lines.append(f'        {here}.register_buffer("{name}", torch.empty({literal(tuple(shape))}))')
    for name, buffer in definition.buffers.items():
        if isinstance(buffer, tuple):
            lines.append(f'        {here}.register_buffer("{name}", torch.empty({literal(buffer)}))')
        else:
            dtype = f"torch.{buffer.dtype}"
            elements = f"torch.tensor({literal(buffer.tolist())}, dtype={dtype})"
            lines.append(f'        {here}.register_buffer("{name}", {elements}, persistent=False)')
    return lines
