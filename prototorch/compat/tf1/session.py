"""Placeholders, variables and sessions of TensorFlow 1, over `prototorch.Graph` and `prototorch.Variable`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from prototorch.compat.tf1.functions import constant, placeholders_of, refuse_options
from prototorch.eager.dtype import as_dtype
from prototorch.eager.random_keys import default_keys
from prototorch.engine.backends.device_scope import default_device
from prototorch.errors import UsageError
from prototorch.graph.net import InputNode
from prototorch.graph.symbolic import SymbolicTensor
from prototorch.graph.symbolic_functions import GroupCall, MinimizeCall
from prototorch.initializers.base import Initializer, compute_fans
from prototorch.static.evaluation import step_counts
from prototorch.static.graph import StaticGraph
from prototorch.static.variable import GraphVariable, group

__all__ = [
    "InitialValue",
    "Session",
    "Variable",
    "add_step",
    "global_variables",
    "global_variables_initializer",
    "group",
    "placeholder",
    "reset_default_graph",
    "trainable_variables",
    "variables_initializer",
]

#: the variables and the optimizers' steps of TensorFlow's default graph, while anything else refers to them
_variables: WeakValueDictionary[int, SessionVariable] = WeakValueDictionary()
_steps: WeakSet[MinimizeCall] = WeakSet()
#: what computes a variable's initial value, and the session that has initialized it; beside the variables, for a
#: compiled run looks at what it can reach from them
_draws: WeakKeyDictionary[SessionVariable, Callable[[], np.ndarray]] = WeakKeyDictionary()
_sessions: WeakKeyDictionary[SessionVariable, Session] = WeakKeyDictionary()


class FeedSymbol(SymbolicTensor):
    """A value that ``feed_dict`` gives. shape: with the batch dimension; None: of any size, or of any rank."""

    def __init__(self, dtype: Any, shape: Sequence[int | None] | None, name: str | None):
        sizes = None if shape is None else tuple(None if n is None else int(n) for n in shape)
        super().__init__(None, 0, InputNode(name or "", (sizes or ())[1:], str(as_dtype(dtype))))
        self.input_device = default_device()
        self.fed_shape, self.name = sizes, name or f"Placeholder_{self.number}"

    def __repr__(self) -> str:
        return f"<placeholder {self.name!r} of shape {'unknown' if self.fed_shape is None else list(self.fed_shape)}>"


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> FeedSymbol:
    """A value that each run is given. shape: all sizes; None is an unknown size, and an unknown shape."""
    return FeedSymbol(dtype, [shape] if isinstance(shape, int) else shape, name)


class SessionVariable(GraphVariable):
    """An array in the graph, which has its value from the run of an initializer on.

    initial_value: numbers, an array, or a symbol that depends on no placeholder (``tf.random_normal((3, 4)) * 0.1``).
    """

    def __init__(
        self, initial_value: Any, trainable: bool = True, name: str | None = None, dtype: Any = None, **options: Any
    ):
        refuse_options(f"Variable {name or ''!r}", options)
        value = initial_value
        if not isinstance(value, InitialValue):
            value = value() if callable(value) else value
            value = StaticGraph([], value if isinstance(value, SymbolicTensor) else constant(value, dtype))
        super().__init__(np.zeros_like(value()), trainable=trainable, name=name, dtype=dtype)
        _draws[self] = value
        _variables[self.number] = self

    @property
    def initializer(self) -> InitializerOp:
        """What gives the variable its initial value when it is run."""
        return InitializerOp([self])

    def initialized_value(self) -> SessionVariable:
        """The variable itself: initializers run in the order in which variables were made."""
        return self

    def assign(self, value: Any) -> SymbolicTensor:
        """The assignment, which takes place in a run that fetches it, or a group with it."""
        return super().assign(value if isinstance(value, SymbolicTensor) else constant(value, self.tensor.dtype))


Variable = SessionVariable  # TensorFlow's name


class InitialValue:
    """The first value of a layer's weight: an initializer with the weight's shape."""

    def __init__(self, rule: Initializer, shape: tuple[int, ...]):
        self.rule, self.shape = rule, shape

    def __call__(self) -> np.ndarray:
        return self.rule.values(self.shape, default_keys.next_generator(), compute_fans(self.shape))


class InitializerOp:
    """Gives variables their initial values when it is run; of None, all variables that there are then."""

    def __init__(self, variables: Sequence[SessionVariable] | None):
        self.variables = variables

    def run_in(self, session: Session) -> None:
        """Draw or compute the values, for a session; optimizers begin anew."""
        variables = global_variables() if self.variables is None else self.variables
        for variable in variables:
            variable.value = _draws[variable]()
            _sessions[variable] = session
        for call in list(_steps) if self.variables is None else ():
            call.slots.clear()
            step_counts.pop(call, None)


def global_variables_initializer() -> InitializerOp:
    """Gives all variables of the graph their initial values, and optimizers their initial state."""
    return InitializerOp(None)


def variables_initializer(var_list: Sequence[SessionVariable], name: str | None = None) -> InitializerOp:
    """Gives these variables their initial values."""
    return InitializerOp(list(var_list))


def global_variables() -> list[SessionVariable]:
    """All variables, in the order in which they were made."""
    return [_variables[k] for k in sorted(_variables)]


def trainable_variables() -> list[SessionVariable]:
    """The variables that `minimize` changes by default."""
    return [v for v in global_variables() if v.trainable]


def add_step(step: SymbolicTensor) -> SymbolicTensor:
    """An optimizer's step as one whose state `global_variables_initializer` begins anew."""
    assert isinstance(step.call, MinimizeCall)
    _steps.add(step.call)
    return step


def reset_default_graph() -> None:
    """Forget all variables, so that initializers give them no values any more."""
    _variables.clear()
    _steps.clear()


# ---------------------------------------------------------------------- sessions
class Session:
    """Runs graphs, and has the values of the variables that it has initialized."""

    def __init__(self, target: str = "", graph: None = None, config: None = None):
        if target or graph is not None or config is not None:
            raise UsageError("Session: there is one graph, on this machine; give no target, graph or config")
        self._graphs: dict[tuple[int, ...], tuple[StaticGraph, list[int]]] = {}
        self._is_open = True

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what the session keeps; the variables lose their values."""
        self._is_open = False
        self._graphs.clear()

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """The values of symbols: of one, or in the lists, tuples and dicts in which they are; None for an initializer,
        a group and an optimizer's step. All read the variables as they were before the run.

        Raises UsageError for a placeholder without a value, a variable that this session has not initialized, and what
        is nothing to fetch; ShapeError for an array of another shape than its placeholder's.
        """
        if not self._is_open:
            raise UsageError("Session.run: the session is closed")
        flat: list[Any] = []
        structure = _collect(fetches, flat)
        for op in flat:
            if isinstance(op, InitializerOp):
                self._graphs.clear()
                op.run_in(self)
        feeds = {} if feed_dict is None else dict(feed_dict)
        for key in feeds:
            if not isinstance(key, FeedSymbol):
                raise UsageError(f"Session.run: the keys of feed_dict are placeholders, got {key!r:.60}")
        symbols = [f for f in flat if isinstance(f, SymbolicTensor)]
        values = iter(self._values(symbols, feeds) if symbols else ())
        return _rebuild(structure, iter([next(values) if isinstance(f, SymbolicTensor) else None for f in flat]))

    def _values(self, symbols: list[SymbolicTensor], feeds: dict[Any, Any]) -> list[Any]:
        key = tuple(s.number for s in symbols)
        if key not in self._graphs:
            outputs = [s for s in symbols if not _is_update(s)]
            graph = StaticGraph(placeholders_of(symbols), outputs, [s for s in symbols if _is_update(s)])
            self._graphs[key] = graph, [k for k, s in enumerate(symbols) if not _is_update(s)]
        graph, places = self._graphs[key]
        for variable in graph.variables:
            if isinstance(variable, SessionVariable) and _sessions.get(variable) is not self:
                raise UsageError(
                    f"Session.run: the variable {variable.name!r} has no value in this session: run "
                    "tf.global_variables_initializer() first"
                )
        missing = [p.name for p in graph.inputs if p not in feeds]
        if missing:
            raise UsageError(f"Session.run: the placeholder {missing[0]!r} has no value: feed_dict={{x: array}}")
        results: list[Any] = [None] * len(symbols)
        for place, value in zip(places, graph(*(feeds[p] for p in graph.inputs)), strict=True):
            results[place] = value if value is None or value.shape else value[()]
        return results


def _is_update(symbol: SymbolicTensor) -> bool:
    """Whether a run of the symbol gives None: a step of an optimizer, or a group."""
    return isinstance(symbol.call, GroupCall | MinimizeCall)


def _collect(fetches: Any, flat: list[Any]) -> Any:
    if isinstance(fetches, SymbolicTensor | InitializerOp):
        flat.append(fetches)
        return None
    if isinstance(fetches, Mapping):
        return {name: _collect(f, flat) for name, f in fetches.items()}
    if isinstance(fetches, list | tuple):
        structures = [_collect(f, flat) for f in fetches]
        return structures if isinstance(fetches, list) else tuple(structures)
    raise UsageError(f"Session.run: expected symbols, or lists, tuples and dicts of them, got {fetches!r:.60}")


def _rebuild(structure: Any, values: Iterator[Any]) -> Any:
    if isinstance(structure, dict):
        return {name: _rebuild(one, values) for name, one in structure.items()}
    if isinstance(structure, list | tuple):
        return type(structure)([_rebuild(one, values) for one in structure])
    return next(values)
