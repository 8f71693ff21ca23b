"""The nodes of a graph, one after the other: functions are inlined, constants computed, the rest become layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.errors import ModelError, ModelFileError, UsageError
from prototorch.interop.onnx.importer import find_importer
from prototorch.interop.onnx.importer.batch_place import fixed_batch_hint
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.constants import evaluate_constants, is_evaluated
from prototorch.interop.onnx.importer.node import OnnxNode, read_attributes
from prototorch.interop.onnx.importer.node_check import check_node
from prototorch.interop.onnx.importer.op_functions import op_function_body
from prototorch.interop.onnx.importer.operands import BatchSize, Dim, KnownArray, Operand
from prototorch.interop.onnx.importer.registry import NoLayerError
from prototorch.interop.onnx.model_file import DEFAULT_DOMAINS, OnnxFile

__all__ = ["NodeRunner"]

MAX_FUNCTION_DEPTH = 20
MAX_INLINED_NODES = 250_000
MAX_PROBLEMS = 20  # that an error lists with their reasons
_CONTROL = {"If", "Loop", "Scan", "SequenceMap"}


class NodeRunner:
    """Runs the importers over a graph. values: the operands known so far, by ONNX' names."""

    def __init__(self, file: OnnxFile, builder: NetBuilder, values: dict[str, Operand]):
        self.file, self.builder, self.values = file, builder, values
        self.problems: dict[tuple[str, str], list[str]] = {}  # nodes by (op, reason)
        self.unknown: set[str] = set()  # outputs of nodes that have no layer
        self.functions = self._read_functions()
        self.inlined = 0
        self.element_types = {name: array.dtype for name, array in file.arrays.items()} | builder.element_types

    def run(self) -> Mapping[str, Operand]:
        """The operands of the graph's outputs. Raises ModelFileError with all ops that have no layer."""
        graph = self.file.graph
        nodes = self._sort_nodes(graph.node, [v.name for v in graph.output])
        for node in nodes:
            for name in node.input:
                self.builder.reads[name] = self.builder.reads.get(name, 0) + 1
        for value in graph.output:
            self.builder.reads[value.name] = self.builder.reads.get(value.name, 0) + 1
        for node in nodes:
            self._run_proto(node, {}, None, self.file.opsets, 0)
        if self.problems:
            raise ModelFileError(self._problem_text())
        missing = [v.name for v in graph.output if v.name not in self.values]
        if missing:
            raise ModelFileError(f"{self.file.path}: nothing computes the output {missing[0][:80]!r}")
        return self.values

    # ---------------------------------------------------------------- order

    def _sort_nodes(self, nodes: Sequence[Any], outputs: Iterable[str]) -> list[Any]:
        """The nodes that the outputs depend on, each after those it reads."""
        producers: dict[str, int] = {}
        for number, node in enumerate(nodes):
            for name in node.output:
                if name and (name in producers or name in self.values):
                    raise ModelFileError(f"{self.file.path}: the value {name[:80]!r} is computed twice")
                if name:
                    producers[name] = number
        state: dict[int, bool] = {}  # False: begun, True: done
        order: list[Any] = []
        for output in outputs:
            if output not in producers:
                continue
            stack = [(producers[output], iter(nodes[producers[output]].input))]
            state.setdefault(producers[output], False)
            while stack:
                number, names = stack[-1]
                if state[number]:
                    stack.pop()
                    continue
                for name in names:
                    source = producers.get(name)
                    if source is None:
                        self._check_defined(name, nodes[number])
                    elif source not in state:
                        state[source] = False
                        stack.append((source, iter(nodes[source].input)))
                        break
                    elif not state[source]:
                        raise ModelFileError(f"{self.file.path}: the graph has a circle through {name[:80]!r}")
                else:
                    state[number] = True
                    order.append(nodes[number])
                    stack.pop()
        return order

    def _check_defined(self, name: str, node: Any) -> None:
        if name and name not in self.values:
            raise ModelFileError(
                f"{self.file.path}: the node {(node.name or node.op_type)[:80]!r} reads {name[:80]!r}, "
                "which nothing computes"
            )

    # ---------------------------------------------------------------- functions

    def _read_functions(self) -> dict[tuple[str, str], Any]:
        functions: dict[tuple[str, str], Any] = {}
        for function in self.file.model.functions:
            key = (function.domain, function.name)
            if key in functions:
                raise ModelFileError(f"{self.file.path}: two functions are named {function.name[:80]!r}")
            functions[key] = function
        return functions

    def _inline(self, function: Any, node: OnnxNode, depth: int, prefix: str) -> None:
        """Run the nodes of a function in place of its call."""
        if depth > MAX_FUNCTION_DEPTH:
            raise ModelFileError(
                f"{self.file.path}: functions call each other more than {MAX_FUNCTION_DEPTH} levels deep"
            )
        names = {"": ""}
        for formal, actual in zip(function.input, (*node.inputs, *[""] * len(function.input)), strict=False):
            names[formal] = actual
        for formal, actual in zip(function.output, node.outputs, strict=False):
            names[formal] = actual or f"{prefix}{formal}"
        call_attributes = read_attributes(function.attribute_proto, self.file.tensors) | dict(node.attributes)
        opsets = {("" if o.domain in DEFAULT_DOMAINS else o.domain): o.version for o in function.opset_import}
        for inner in function.node:
            for name in inner.output:
                names.setdefault(name, f"{prefix}{name}")
        for inner in function.node:
            for name in inner.input:
                if name not in names:
                    raise ModelFileError(
                        f"{self.file.path}: the function {function.name[:80]!r} reads {name[:80]!r}, which "
                        "nothing computes"
                    )
                self.builder.reads[names[name]] = self.builder.reads.get(names[name], 0) + 1
        for inner in function.node:
            self._run_proto(inner, names, call_attributes, opsets or self.file.opsets, depth + 1, node.name)

    # ---------------------------------------------------------------- one node

    def _run_proto(
        self,
        proto: Any,
        names: Mapping[str, str],
        call_attributes: Mapping[str, Any] | None,
        opsets: Mapping[str, int],
        depth: int,
        caller: str = "",
    ) -> None:
        self.inlined += 1
        if self.inlined > MAX_INLINED_NODES:
            raise ModelFileError(
                f"{self.file.path}: more than {MAX_INLINED_NODES:,} nodes, those of functions included"
            )
        domain = "" if proto.domain in DEFAULT_DOMAINS else proto.domain
        inputs = tuple(names.get(n, n) for n in proto.input)
        outputs = tuple(names.get(n, n) for n in proto.output)
        node = OnnxNode(
            proto.op_type,
            domain,
            proto.name or caller,
            inputs,
            outputs,
            read_attributes(proto.attribute, self.file.tensors, call_attributes),
            opsets.get(domain, 0),
            proto,
        )
        function = self.functions.get((proto.domain, proto.op_type))
        if function is not None:
            self._inline(function, node, depth, f"{proto.name or proto.op_type}#{self.inlined}/")
            return
        if any(n in self.unknown for n in inputs):
            self._note_unknown(node)
            return
        missing = next((n for n in inputs if n and n not in self.values), None)
        if missing is not None:
            raise ModelFileError(
                f"{self.file.path}: the node {(node.name or node.op)[:80]!r} reads {missing[:80]!r}, which "
                "nothing computes"
            )
        node = replace(node, args=[self.values[n] if n else None for n in inputs])
        try:
            if not node.domain and node.op in _CONTROL:
                raise NoLayerError("control flow is not read; export the model with the branch or loop resolved")
            # the standard's bodies of ops are made for the types that the net computes in, not for those of the file
            check_node(node, self.element_types if depth == 0 else {})
            results = self._results(node, opsets, depth)
        except (NoLayerError, ModelError, UsageError) as error:
            self._note(node, str(error))
            return
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self._note(node, f"its attributes and inputs do not fit together ({type(error).__name__}: {error!s:.200})")
            return
        if results is None:
            return
        for name, result in zip(outputs, results, strict=False):
            if name:
                self.values[name] = result
        for name in outputs[len(results) :]:
            if name and self.builder.reads.get(name, 0):
                self._note(node, f"its output {len(results)} has no counterpart")

    def _results(self, node: OnnxNode, opsets: Mapping[str, int], depth: int) -> Sequence[Operand] | None:
        """The operands that a node gives; None where a function in its place has given them."""
        if node.domain:
            raise NoLayerError(
                f"the domain {node.domain} is not read"
                if node.domain != "ai.onnx.ml"
                else "ai.onnx.ml holds classical models, which are no nets"
            )
        is_constant = all(a is None or isinstance(a, KnownArray) for a in node.args)
        if is_constant and node.op in ("Expand", "ConstantOfShape") and (shape := _batch_shape(node)) is not None:
            self.builder.start(node)
            return [self.builder.batch_constant(_repeated_array(node), shape)]
        if is_constant:
            constants = evaluate_constants(node)
            if constants is not None:
                return constants
        function = find_importer(node.op)
        if function is not None and not is_constant:
            self.builder.start(node)
            result = function(self.builder, node)
            if result is not None:
                return result if isinstance(result, list | tuple) else [result]
        body = op_function_body(node, opsets.get("", 0))
        if body is None:
            raise NoLayerError(
                "it reads constants alone, and is not computed here"
                if is_constant and function
                else "no layer does this"
            )
        self._inline(body, replace(node, op="", domain=""), depth, f"{node.op}#{self.inlined}/")
        return None

    def _note(self, node: OnnxNode, reason: str) -> None:
        op = f"{node.domain}:{node.op}" if node.domain else node.op
        self.problems.setdefault((op, reason), []).append(node.name or (node.outputs[0] if node.outputs else ""))
        self.unknown.update(n for n in node.outputs if n)

    def _note_unknown(self, node: OnnxNode) -> None:
        """A node whose inputs are not known because of an earlier one: only whether its op is known can be said."""
        self.unknown.update(n for n in node.outputs if n)
        if node.domain or (
            find_importer(node.op) is None
            and not is_evaluated(node.op)
            and (node.op in _CONTROL or op_function_body(node, node.version) is None)
        ):
            self._note(node, "no layer does this")

    def _problem_text(self) -> str:
        descriptions = []
        for (op, reason), nodes in list(self.problems.items())[:MAX_PROBLEMS]:
            where = ", ".join(repr(n[:60]) for n in nodes[:3]) + (
                f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
            )
            descriptions.append(f"{op} ({where}): {reason}")
        more = len(self.problems) - MAX_PROBLEMS
        rest = f"; and {more} more" if more > 0 else ""
        about_batch = any("batch" in reason or "sample" in reason for _, reason in self.problems)
        hint = fixed_batch_hint(self.builder.fixed_batch) if about_batch else ""
        ops = sorted({op for op, _ in self.problems})
        names = ", ".join(ops[:40])
        return f"{self.file.path}: these ops cannot become layers: {names}. {'; '.join(descriptions)}{rest}{hint}"


def _batch_shape(node: OnnxNode) -> list[Dim] | None:
    """The shape that a node repeats a constant to, if the batch is a part of it."""
    shape = node.args[1 if node.op == "Expand" else 0]
    sizes = shape.integers() if isinstance(shape, KnownArray) and shape.array.dtype == object else []
    return sizes if any(isinstance(n, BatchSize) for n in sizes) else None


def _repeated_array(node: OnnxNode) -> np.ndarray:
    if node.op == "Expand":
        return node.weight(0).array
    return np.asarray(node.get("value", np.zeros(1, np.float32))).reshape(())
