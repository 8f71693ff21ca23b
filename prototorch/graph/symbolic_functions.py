"""Functions of symbolic tensors: recorded by name, and computed when a graph runs (see `prototorch.static`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from prototorch.engine.backends.device_scope import default_device

__all__ = [
    "SYMBOLIC_FUNCTIONS",
    "AssignCall",
    "Call",
    "GradientsCall",
    "GroupCall",
    "MinimizeCall",
    "SymbolicCall",
    "VariableCall",
    "argument_symbols",
    "argument_values",
    "creation_order",
    "is_symbolic",
]

#: the functions that symbols may be given to, by name: those of PyTorch's face (`prototorch.eager.registry`)
SYMBOLIC_FUNCTIONS: dict[str, Callable[..., Any]] = {}

#: numbers symbols and calls in the order in which they are made
creation_order = count()


class Call:
    """What gives symbolic tensors: a layer, a function, an assignment, ... as it was called once."""

    inputs: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.number = next(creation_order)
        #: the name of the device on which a static graph is to compute it; None: wherever the graph runs
        self.device = default_device()

    @property
    def title(self) -> str:
        """What it is, for messages."""
        return type(self).__name__


class SymbolicCall(Call):
    """A function as it was called once, by its name, with symbols and other values among its arguments."""

    def __init__(self, name: str, args: Sequence[Any], options: Mapping[str, Any]):
        super().__init__()
        self.name, self.args, self.options = name, tuple(args), dict(options)
        self.inputs = tuple(argument_symbols([self.args, self.options]))

    @property
    def title(self) -> str:
        return self.name


class VariableCall(Call):
    """The value of a variable (`prototorch.static`) at the beginning of a run."""

    def __init__(self, variable: Any):
        super().__init__()
        self.variable = variable

    @property
    def title(self) -> str:
        return repr(self.variable)


class AssignCall(Call):
    """A variable's new value, which it takes at the end of a run."""

    def __init__(self, variable: Any, value: Any):
        super().__init__()
        self.variable, self.inputs = variable, (value,)

    @property
    def title(self) -> str:
        return f"assignment to {self.variable!r}"


class GroupCall(Call):
    """Several assignments as one."""

    def __init__(self, members: Sequence[Any]):
        super().__init__()
        self.inputs = tuple(members)

    @property
    def title(self) -> str:
        return "group of assignments"


class GradientsCall(Call):
    """The gradients of the sum of some symbols (``outputs``) with respect to others (``targets``)."""

    def __init__(self, outputs: Sequence[Any], targets: Sequence[Any]):
        super().__init__()
        self.outputs, self.targets = tuple(outputs), tuple(targets)
        self.inputs = (*self.outputs, *self.targets)

    @property
    def title(self) -> str:
        return "gradient"


class MinimizeCall(Call):
    """One step of an optimizer that lowers a loss, over some variables or (None) all trainable ones.

    slots: the optimizer's state by the variable's or weight's name.
    """

    def __init__(self, optimizer: Any, loss: Any, variables: Sequence[Any] | None):
        super().__init__()
        self.optimizer, self.inputs = optimizer, (loss,)
        self.variables = None if variables is None else tuple(variables)
        self.slots: dict[str, dict[str, Any]] = {}

    @property
    def title(self) -> str:
        return f"step of {type(self.optimizer).__name__}"


def argument_symbols(value: Any) -> Iterator[Any]:
    """The symbols in arguments, also in lists, tuples, dicts and slices."""
    return argument_values(value, is_symbolic)


def argument_values(value: Any, matches: Callable[[Any], bool]) -> Iterator[Any]:
    """The values of one kind in arguments, also in lists, tuples, dicts and slices."""
    if matches(value):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from argument_values(one, matches)
    elif isinstance(value, dict):
        yield from argument_values(list(value.values()), matches)
    elif isinstance(value, slice):
        yield from argument_values([value.start, value.stop, value.step], matches)


def is_symbolic(value: Any) -> bool:
    """Whether a value is a symbolic tensor."""
    return getattr(value, "is_symbolic", False) is True
