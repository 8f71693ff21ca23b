"""Tracing a Python function that is written in ops: its ops are recorded once, and applied to any values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from prototorch.errors import PrototorchError, ShapeError, UsageError
from prototorch.graph.ir import Graph, Value
from prototorch.ops.core import use_interpreter
from prototorch.spec import Spec

__all__ = ["TracedFunction", "trace_function"]


def _unknown_elements(what: str, instead: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **options: Any) -> NoReturn:
        raise UsageError(
            f"{what} needs the elements of an array, which are not known yet when a function is traced; {instead}"
        )

    return method


class TracedValue(Value):
    """An array inside a function that is traced. What would need its elements is an error, not a wrong result."""

    __slots__ = ()
    __hash__ = Value.__hash__
    __bool__ = _unknown_elements("if, and, or, not, max() or min()", "use ops.where, ops.maximum or ops.minimum")
    __eq__ = _unknown_elements("==", "use ops.equal(a, b)")
    __ne__ = _unknown_elements("!=", "use ops.not_equal(a, b)")
    __iter__ = _unknown_elements("a loop over an array", "use ops over its axes")
    __float__ = _unknown_elements("float()", "use ops on the array itself")
    __int__ = _unknown_elements("int()", "use ops.cast(x, dtype='int32')")
    __array__ = _unknown_elements("a function of NumPy", "use the function of prototorch.ops of that name")


class _FunctionGraph(Graph):
    """The recording of one function."""

    value_class = TracedValue


class TracedFunction:
    """The ops of a function of arrays, and the spec of its result.

    Calling it applies the ops to values, on whose interpreter they run.
    """

    def __init__(self, graph: Graph, arguments: Sequence[Value], result: Value):
        self._nodes, self._arguments, self._result = graph.nodes, tuple(arguments), result
        self.spec = result.spec

    def __call__(self, *args: Any) -> Any:
        values: dict[int, Any] = {id(a): value for a, value in zip(self._arguments, args, strict=True)}
        for node in self._nodes:
            inputs = [v.array if v.kind == "constant" else values[id(v)] for v in node.inputs]
            outputs = node.op(*inputs, **node.attrs)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            values.update((id(v), output) for v, output in zip(node.outputs, outputs, strict=True))
        return values[id(self._result)]


def trace_function(function: Callable[..., Any], name: str, specs: Sequence[Spec]) -> TracedFunction:
    """Record the ops of a function of arrays of these specs; ``name`` is what messages call it.

    Raises UsageError where it is not written in ops, fails, or gives no array that depends on its arguments, and
    ShapeError where its ops do not take the shapes.
    """
    graph = _FunctionGraph()
    arguments = [graph.input(f"argument {i + 1}", spec) for i, spec in enumerate(specs)]
    shapes = ", ".join(str(spec) for spec in specs)
    try:
        with use_interpreter(graph):
            result = function(*arguments)
    except ShapeError as error:
        raise ShapeError(f"{name}, called with arrays {shapes}: {error}") from error
    except PrototorchError as error:
        raise UsageError(f"{name} cannot be traced: {error}") from error
    except Exception as error:
        raise UsageError(
            f"{name} cannot be traced: {type(error).__name__}: {error}. It is called once with arrays {shapes} whose "
            "elements are not known yet, and must be written in prototorch.ops (import prototorch.ops as ops)"
        ) from error
    if not isinstance(result, TracedValue) or result.interpreter is not graph:
        raise UsageError(
            f"{name} must return an array that prototorch.ops has computed from its arguments, not "
            f"{_describe_result(result)}"
        )
    if result.kind == "constant" or not _depends_on(result, set(map(id, arguments))):
        raise UsageError(f"the result of {name} does not depend on its arguments")
    return TracedFunction(graph, arguments, result)


def _describe_result(result: Any) -> str:
    return "None (is a return missing?)" if result is None else f"{type(result).__name__} {str(result)[:60]}"


def _depends_on(value: Value, arguments: set[int]) -> bool:
    """Whether a value is computed from one of the arguments."""
    todo, seen = [value], set[int]()
    while todo:
        current = todo.pop()
        if id(current) in arguments:
            return True
        if current.producer is not None and id(current) not in seen:
            seen.add(id(current))
            todo.extend(current.producer.inputs)
    return False
