"""Interpreters: they decide when and how an op runs.

Calling an op passes it to the interpreter of its inputs. There are four: the graph recorder (`prototorch.graph.ir`)
and the eager tape (`prototorch.eager.tensor`) keep what they are passed; the two in this module evaluate ops on specs
alone (`infer_spec_by_decomposition`, `decomposition`) and on arrays (`run_on_arrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import numpy as np

from prototorch.ops.lazy_array import LazyArray
from prototorch.ops.operators import OperatorMixin, SpecProperties
from prototorch.spec import FLOAT_DTYPES, Spec

__all__ = [
    "Application",
    "ArrayInterpreter",
    "Interpreter",
    "OpProtocol",
    "SpecInterpreter",
    "as_value",
    "decomposition",
    "find_interpreter",
    "infer_spec_by_decomposition",
    "resolve_dtype",
    "run_on_arrays",
    "set_default_interpreter",
    "use_interpreter",
]


class OpProtocol(Protocol):
    """The part of `prototorch.ops.core.Op` that interpreters and differentiation use."""

    name: ClassVar[str]

    def infer_spec(self, *specs: Spec, **attrs: Any) -> Any:
        """See `Op.infer_spec`."""

    def reference(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        """See `Op.reference`."""

    def decompose(self, *inputs: Any, **attrs: Any) -> Any:
        """See `Op.decompose`."""

    def vjp(
        self,
        grads: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        needs: Sequence[bool],
        attrs: dict[str, Any],
    ) -> Sequence[Any]:
        """See `Op.vjp`."""
        ...

    def flops(self, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> int:
        """See `Op.flops`."""
        ...


class Interpreter(Protocol):
    """Decides when and how an op runs."""

    def apply(self, op: OpProtocol, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Run or record the op. Returns a value, or a tuple of values for an op with several outputs."""

    def constant(self, array: Any) -> Any:
        """The array as a value of this interpreter."""

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[Application]]:
        """Call ``work``, which calls ops. Returns its result and the applications of ops, in order."""


class Application(Protocol):
    """One application of an op to values."""

    @property
    def op(self) -> OpProtocol:
        """The op that was applied."""

    @property
    def inputs(self) -> Sequence[Any]:
        """The values that it was applied to, in order."""

    @property
    def attrs(self) -> dict[str, Any]:
        """Its attributes by name."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Its results, a tuple of one value where the op has one."""


_current: ContextVar[Any] = ContextVar("prototorch_interpreter", default=None)
_default: Any = None


@contextmanager
def use_interpreter(interpreter: Any) -> Iterator[Any]:
    """A context in which ops without inputs are passed to this interpreter."""
    token = _current.set(interpreter)
    try:
        yield interpreter
    finally:
        _current.reset(token)


def set_default_interpreter(interpreter: Any) -> None:
    """Set the interpreter of ops whose inputs have none (the eager one, once it is imported)."""
    global _default
    _default = interpreter


def find_interpreter(inputs: Sequence[Any]) -> Any:
    """The interpreter of an op on these inputs: that of the first value, else the one in use, else the default."""
    for value in inputs:
        interpreter = getattr(value, "interpreter", None)
        if interpreter is not None:
            return interpreter
    return _current.get() or _default or ArrayInterpreter(np)


def as_value(value: Any, interpreter: Any, like: str | None) -> Any:
    """A scalar or array as a value; a Python scalar takes the dtype ``like`` of the other inputs."""
    if getattr(value, "interpreter", None) is not None:
        return value
    make = getattr(interpreter, "scalar", interpreter.constant)
    if isinstance(value, bool) or (isinstance(value, int | float) and like is None):
        return make(np.asarray(value, dtype="bool" if isinstance(value, bool) else "float32"))
    if isinstance(value, int | float):
        dtype = like if like is not None and (isinstance(value, int) or like in FLOAT_DTYPES) else "float32"
        if dtype == "bool":
            dtype = "float32"
        return make(np.asarray(value, dtype=dtype))
    return interpreter.constant(value)


def resolve_dtype(xp: Any, name: str) -> Any:
    """The dtype of this name in an array module. NumPy has no bfloat16 of its own (ml_dtypes registers it)."""
    return getattr(xp, name, None) or np.dtype(name)


class _InterpretedValue(SpecProperties, OperatorMixin):
    """A value of the two interpreters below: a spec, with an array or without."""

    __slots__ = ("array", "interpreter", "spec")

    def __init__(self, interpreter: Any, spec: Spec, array: Any = None):
        self.interpreter, self.spec, self.array = interpreter, spec, array


class _RecordedApplication:
    __slots__ = ("attrs", "inputs", "op", "outputs")

    def __init__(self, op: OpProtocol, inputs: Sequence[Any], attrs: dict[str, Any], outputs: Sequence[Any]):
        self.op, self.inputs, self.attrs, self.outputs = op, inputs, attrs, outputs


class _Recorder:
    """The part that both interpreters share: `collect`."""

    def __init__(self) -> None:
        self._recordings: list[list[Any]] = []

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[Application]]:
        """See `Interpreter.collect`."""
        self._recordings.append([])
        try:
            return work(), self._recordings[-1]
        finally:
            self._recordings.pop()

    def record(
        self,
        op: OpProtocol,
        inputs: Sequence[Any],
        attrs: dict[str, Any],
        result: Any,
        as_output: Callable[[Any], _InterpretedValue],
    ) -> Any:
        """The result of an op, one or a tuple, as values; recorded where `collect` asks for it."""
        outputs = tuple(map(as_output, result if isinstance(result, tuple) else (result,)))
        for recording in self._recordings:
            recording.append(_RecordedApplication(op, inputs, attrs, outputs))
        return outputs if isinstance(result, tuple) else outputs[0]


class SpecInterpreter(_Recorder):
    """Evaluates ops on specs alone."""

    def value(self, spec: Spec) -> _InterpretedValue:
        return _InterpretedValue(self, spec)

    def apply(self, op: OpProtocol, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        return self.record(op, inputs, attrs, op.infer_spec(*(v.spec for v in inputs), **attrs), self.value)

    def constant(self, array: Any) -> _InterpretedValue:
        array = array if isinstance(array, LazyArray) else np.asarray(array)
        return self.value(Spec(tuple(array.shape), str(array.dtype)))


class ArrayInterpreter(_Recorder):
    """Evaluates ops immediately on arrays of one module, by their reference implementations."""

    def __init__(self, xp: Any):
        super().__init__()
        self.xp = xp

    def value(self, array: Any) -> _InterpretedValue:
        """The array as a value."""
        return _InterpretedValue(self, Spec(tuple(array.shape), str(array.dtype).rsplit(".", 1)[-1]), array)

    def apply(self, op: OpProtocol, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """See `Interpreter.apply`."""
        return self.record(op, inputs, attrs, op.reference(self.xp, *(v.array for v in inputs), **attrs), self.value)

    def constant(self, array: Any) -> _InterpretedValue:
        """See `Interpreter.constant`."""
        return self.value(self.xp.asarray(np.asarray(array) if isinstance(array, LazyArray) else array))


def infer_spec_by_decomposition(
    op: OpProtocol, specs: Sequence[Spec], attrs: Mapping[str, Any]
) -> Spec | tuple[Spec, ...]:
    """The output specs of a composite op, from its decomposition."""
    interpreter = SpecInterpreter()
    with use_interpreter(interpreter):
        result = op.decompose(*map(interpreter.value, specs), **attrs)
    return tuple(v.spec for v in result) if isinstance(result, tuple) else result.spec


def decomposition(op: OpProtocol, specs: Sequence[Spec], attrs: Mapping[str, Any]) -> list[Application]:
    """The applications that a composite op decomposes into; their inputs and outputs are values with a ``spec``."""
    interpreter = SpecInterpreter()
    with use_interpreter(interpreter):
        _, applications = interpreter.collect(lambda: op.decompose(*map(interpreter.value, specs), **attrs))
    return applications


def run_on_arrays(function: Callable[..., Any], *arrays: Any, xp: Any = np) -> Any:
    """The result of a function of ops for arrays of the module ``xp``: an array, or a tuple of arrays."""
    interpreter = ArrayInterpreter(xp)
    with use_interpreter(interpreter):
        result = function(*map(interpreter.value, arrays))
    return tuple(v.array for v in result) if isinstance(result, tuple) else result.array
