"""What an op is, and how a call of one reaches whoever interprets it.

An op knows its name, its type rule (specs in, specs out), a plain body over any array module, and its derivatives said
in ops. It knows nothing of text, weights, state, devices or memory. Calling an op hands it to the interpreter of its
inputs: the recorder puts it into a graph, the eager tape runs it at once, and two small interpreters here evaluate it
on bare specs (`infer_spec_by_decomposition`) or bare arrays (`run_on_arrays`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import numpy as np

from prototorch.errors import ShapeError
from prototorch.ops.operators import OPS, OperatorMixin
from prototorch.spec import FLOAT_DTYPES, Spec


class Interpreter(Protocol):
    """Decides when an op runs."""

    def apply(self, op: Op, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Run or record the op; a value, or a tuple of values for an op with several outputs."""

    def constant(self, array: Any) -> Any:
        """A value that holds this array."""

    def collect(self, work: Callable[[], Any]) -> tuple[Any, list[Application]]:
        """Do the work, which calls ops; give back its result and the entries it made."""


class Application(Protocol):
    """One op as it was applied."""

    @property
    def op(self) -> Op:
        """What was applied."""

    @property
    def inputs(self) -> Sequence[Any]:
        """To what."""

    @property
    def attrs(self) -> dict[str, Any]:
        """With which attributes."""

    @property
    def outputs(self) -> Sequence[Any]:
        """With what result."""


_current: ContextVar[Any] = ContextVar("prototorch_interpreter", default=None)


@contextmanager
def use_interpreter(interpreter: Any):
    """Ops without inputs that are called inside go to this interpreter."""
    token = _current.set(interpreter)
    try:
        yield interpreter
    finally:
        _current.reset(token)


def set_default_interpreter(interpreter: Any) -> None:
    """The interpreter of ops that no value leads to another one (the eager one, when the engine is loaded)."""
    global _default
    _default = interpreter


_default: Any = None


def find_interpreter(inputs: Sequence[Any]) -> Any:
    """Who interprets an op on these inputs."""
    for value in inputs:
        found = getattr(value, "interpreter", None)
        if found is not None:
            return found
    return _current.get() or _default or ArrayInterpreter(np)


def as_value(value: Any, interpreter: Any, like: str | None) -> Any:
    """A number or array as a value; a bare number takes the element type of the values around it."""
    if getattr(value, "interpreter", None) is not None:
        return value
    if isinstance(value, bool) or (isinstance(value, int | float) and like is None):
        return interpreter.constant(np.asarray(value, dtype="bool" if isinstance(value, bool) else "float32"))
    if isinstance(value, int | float):
        dtype = like if like is not None and (isinstance(value, int) or like in FLOAT_DTYPES) else "float32"
        if dtype == "bool":
            dtype = "float32"
        return interpreter.constant(np.asarray(value, dtype=dtype))
    return interpreter.constant(value)


def resolve_dtype(xp: Any, name: str) -> Any:
    """The element type of this name in an array module; bfloat16 is none of NumPy's own (ml_dtypes enters it there)."""
    return getattr(xp, name, None) or np.dtype(name)


def narrowable(method: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a method for type checkers: each class below names the inputs and attributes that its own op takes.

    An op is only ever called with what it takes, so such an override is right, though narrower than the root's.
    """
    return method


class Op:
    """The root of all ops. An instance is called like a function: inputs positional, attributes keyword and hashable.

    A subclass says `rule` and `plain`, or says `expand` alone: its meaning in other ops, from which the rule, the body
    and the derivative follow. Such a *composite* may still give its own `plain` or `derivatives` where that is faster.
    """

    name: ClassVar[str] = ""
    #: output -> input: the output may be written over that input, element by element.
    inplace: ClassVar[dict[int, int]] = {}
    #: each element of the outputs depends on the same element of the inputs, which broadcast; nothing else is read.
    elementwise: ClassVar[bool] = False
    #: the output is input 0 seen through another shape: no copy where the backend can make a view.
    is_view: ClassVar[bool] = False
    #: where no kernel takes it, a plan says it in other ops (`expand`), which have kernels of their own.
    decompose_without_kernel: ClassVar[bool] = False
    #: one per input, each ``f(g, y, *inputs, **attrs)``; None where there is no derivative.
    derivatives: ClassVar[Sequence[Callable[..., Any] | None] | None] = None

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self) -> None:
        OPS[self.name] = self

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        interpreter = find_interpreter(inputs)
        types = [v.dtype for v in inputs if getattr(v, "interpreter", None) is not None]
        like = next((t for t in types if t in FLOAT_DTYPES), types[0] if types else None)
        return interpreter.apply(self, tuple(as_value(v, interpreter, like) for v in inputs), attrs)

    @narrowable
    def infer_spec(self, *specs: Spec, **attrs: Any) -> Spec | tuple[Spec, ...]:
        """Specs in, specs out. Raises ShapeError with the numbers that do not fit."""
        return infer_spec_by_decomposition(self, specs, attrs)

    @narrowable
    def reference(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        """The op on arrays of the module ``xp``; always right, never clever."""
        return _run_decomposition(self, xp, arrays, attrs)

    @narrowable
    def decompose(self, *inputs: Any, **attrs: Any) -> Any:
        """The op said in other ops, or None for an op that is not a composite."""
        return None

    @property
    def is_composite(self) -> bool:
        """Whether the op is said in other ops."""
        return type(self).decompose is not Op.decompose

    def inplace_map(self, attrs: Mapping[str, Any]) -> Mapping[int, int]:
        """`inplace` for these attributes."""
        return self.inplace

    def shape_error(self, message: str) -> ShapeError:
        """A ShapeError that begins with the op's name."""
        return ShapeError(f"{self.name}: {message}")

    def vjp(self, grads: Sequence[Any], outputs: Sequence[Any], inputs: Sequence[Any], needs: Sequence[bool],
                 attrs: dict[str, Any]) -> Sequence[Any]:  # fmt: skip
        """Gradients of the inputs that need one, from the gradients of the outputs (None where there is none)."""
        single = len(outputs) == 1
        g = grads[0] if single else tuple(grads)
        y = outputs[0] if single else tuple(outputs)
        if self.derivatives is None:
            return self._vjp_by_decomposition(grads, outputs, inputs, needs, attrs)
        result: list[Any] = []
        for i, need in enumerate(needs):
            rule = self.derivatives[i] if i < len(self.derivatives) else None
            result.append(rule(g, y, *inputs, **attrs) if need and rule is not None else None)
        return result

    def _vjp_by_decomposition(self, grads, outputs, inputs, needs, attrs):
        if not self.is_composite:
            return [None] * len(inputs)
        wanted = [v for v, need in zip(inputs, needs, strict=True) if need]
        found = iter(gradients(lambda *_: self.decompose(*inputs, **attrs), *wanted, seeds=grads))
        return [next(found) if need else None for need in needs]

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def backward_pass(entries: Sequence[Application], seeds: Sequence[tuple[Any, Any]], wanted: Sequence[Any],
              within: Callable[[Any], AbstractContextManager[Any]] = nullcontext) -> list[Any]:  # fmt: skip
    """The one reverse sweep: gradients of the seeded outputs with respect to the wanted values.

    ``entries`` in the order in which they were applied; ``seeds`` are pairs (output, gradient of it). The gradients are
    made by calling ops, so that they land where their inputs live: in the graph, or on the tape. A wanted value that
    does not take part gets None. What an entry's gradient records is recorded inside ``within(entry)``.
    """
    live = {id(v) for v in wanted}
    for entry in entries:
        if any(id(v) in live for v in entry.inputs):
            live.update(id(o) for o in entry.outputs if _is_float(o))
    grads: dict[int, Any] = {}
    for value, g in seeds:
        _accumulate_grad(grads, value, g)
    with use_interpreter(find_interpreter([value for value, _ in seeds])):
        _reverse_sweep(entries, grads, live, within)
    return [grads.get(id(v)) for v in wanted]


def _reverse_sweep(entries: Sequence[Application], grads: dict[int, Any], live: set[int],
           within: Callable[[Any], AbstractContextManager[Any]]) -> None:  # fmt: skip
    for entry in reversed(entries):
        incoming = [grads.get(id(o)) for o in entry.outputs]
        if all(g is None for g in incoming):
            continue
        needs = [id(v) in live and _is_float(v) for v in entry.inputs]
        if not any(needs):
            continue
        with within(entry):
            found = entry.op.vjp(incoming, entry.outputs, entry.inputs, needs, entry.attrs)
            for value, g in zip(entry.inputs, found, strict=True):
                if g is not None:
                    _accumulate_grad(grads, value, g)


def _is_float(value: Any) -> bool:
    return value.dtype in FLOAT_DTYPES


def _accumulate_grad(grads: dict[int, Any], value: Any, g: Any) -> None:
    if tuple(g.shape) != tuple(value.shape):
        raise AssertionError(f"a gradient of shape {g.shape} for a value of shape {value.shape}")
    old = grads.get(id(value))
    grads[id(value)] = g if old is None else old + g


class _InterpretedValue(OperatorMixin):
    """A value of the two interpreters below: a spec, or an array with its spec."""

    __slots__ = ("array", "interpreter", "spec")

    def __init__(self, interpreter: Any, spec: Spec, array: Any = None):
        self.interpreter, self.spec, self.array = interpreter, spec, array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> str:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)


class _Recorder:
    def __init__(self) -> None:
        self.open_recordings: list[list[Any]] = []

    def collect(self, work):
        self.open_recordings.append([])
        try:
            return work(), self.open_recordings[-1]
        finally:
            self.open_recordings.pop()

    def record(self, op, inputs, attrs, outputs, several):
        for entries in self.open_recordings:
            entries.append(_RecordedApplication(op, inputs, attrs, outputs))
        return outputs if several else outputs[0]


class _RecordedApplication:
    __slots__ = ("attrs", "inputs", "op", "outputs")

    def __init__(self, op, inputs, attrs, outputs):
        self.op, self.inputs, self.attrs, self.outputs = op, inputs, attrs, outputs


class _SpecInterpreter(_Recorder):
    """Evaluates ops on specs alone."""

    def apply(self, op: Op, inputs, attrs):
        out = op.infer_spec(*(v.spec for v in inputs), **attrs)
        several = isinstance(out, tuple)
        return self.record(
            op, inputs, attrs, tuple(_InterpretedValue(self, s) for s in (out if several else (out,))), several
        )

    def constant(self, array):
        array = np.asarray(array)
        return _InterpretedValue(self, Spec(tuple(array.shape), str(array.dtype)))


class ArrayInterpreter(_Recorder):
    """Evaluates ops at once on arrays of one module, by their plain bodies; `value` makes a value of an array."""

    def __init__(self, xp: Any):
        super().__init__()
        self.xp = xp

    def value(self, array: Any) -> _InterpretedValue:
        return _InterpretedValue(self, Spec(tuple(array.shape), str(array.dtype).rsplit(".", 1)[-1]), array)

    def apply(self, op: Op, inputs, attrs):
        out = op.reference(self.xp, *(v.array for v in inputs), **attrs)
        several = isinstance(out, tuple)
        return self.record(op, inputs, attrs, tuple(self.value(a) for a in (out if several else (out,))), several)

    def constant(self, array):
        return self.value(self.xp.asarray(array))


def infer_spec_by_decomposition(op: Op, specs: Sequence[Spec], attrs: dict[str, Any]) -> Spec | tuple[Spec, ...]:
    """A composite's type rule, from its expansion."""
    interpreter = _SpecInterpreter()
    with use_interpreter(interpreter):
        out = op.decompose(*(_InterpretedValue(interpreter, s) for s in specs), **attrs)
    return tuple(v.spec for v in out) if isinstance(out, tuple) else out.spec


def decomposition(op: Op, specs: Sequence[Spec], attrs: Mapping[str, Any]) -> list[Application]:
    """What a composite is said in: the inputs and outputs of each entry are bare values with a ``spec``."""
    interpreter = _SpecInterpreter()
    with use_interpreter(interpreter):
        _, entries = interpreter.collect(
            lambda: op.decompose(*(_InterpretedValue(interpreter, s) for s in specs), **attrs)
        )
    return entries


def _run_decomposition(op: Op, xp: Any, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    return run_on_arrays(lambda *inputs: op.decompose(*inputs, **attrs), *arrays, xp=xp)


def run_on_arrays(work: Callable[..., Any], *arrays: Any, xp: Any = np) -> Any:
    """What a function said in ops gives for arrays of the module ``xp``: an array, or a tuple of arrays."""
    interpreter = ArrayInterpreter(xp)
    with use_interpreter(interpreter):
        out = work(*(interpreter.value(a) for a in arrays))
    return tuple(v.array for v in out) if isinstance(out, tuple) else out.array


def gradients(work: Callable[..., Any], *inputs: Any, seeds: Sequence[Any]) -> list[Any]:
    """Gradients of the inputs of a function said in ops (None where there is none), from those of its outputs.

    ``inputs`` and ``seeds`` are values; a seed is None for an output without a gradient. The result can be
    differentiated again, for it is made by ops on the same interpreter.
    """
    with use_interpreter(find_interpreter(inputs)) as interpreter:
        made, entries = interpreter.collect(lambda: work(*inputs))
        made = made if isinstance(made, tuple) else (made,)
        return backward_pass(entries, [(v, g) for v, g in zip(made, seeds, strict=True) if g is not None], inputs)
