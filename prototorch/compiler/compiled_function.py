"""`prototorch.compile`: a function of tensors as plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import update_wrapper
from os import PathLike
from typing import Any

from prototorch.compiler.compiled_call import CompiledCall
from prototorch.compiler.gradient import trace_gradient
from prototorch.compiler.guards import Guards
from prototorch.compiler.impure_reads import refuse_impure_reads
from prototorch.compiler.plan_run import backend_of
from prototorch.compiler.saved_function import save_function
from prototorch.compiler.signature import CallSignature, map_tensors
from prototorch.compiler.trace import TraceInterpreter
from prototorch.compiler.trace_result import collect_results
from prototorch.eager.dtype import get_default_dtype
from prototorch.eager.grad_mode import recording
from prototorch.eager.interpreter import EagerInterpreter, interpreter_for
from prototorch.eager.layer_call import is_training
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.engine.backends.device_scope import default_device
from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.nn.module import Module
from prototorch.spec import Spec

__all__ = ["CompiledFunction", "compile"]

MAX_PLANS = 64  # of one function; the oldest goes when another one is made
WARN_AT = 8  # plans
MAX_UNSTABLE = 3  # traces in a row that change what they read


class CompiledFunction:
    """A function that is traced once for each kind of call, and then runs as a plan.

    host: the interpreter of the plans, to whose device tensors of the CPU are copied at each call; None: that of the
    tensors.
    """

    def __init__(self, function: Callable[..., Any], host: EagerInterpreter | None = None):
        self.function, self._host = function, host
        self._calls: dict[Hashable, list[CompiledCall]] = {}
        self._unstable: dict[Hashable, int] = {}
        self._last_specs: tuple[Spec, ...] = ()
        update_wrapper(self, function if hasattr(function, "__name__") else type(function), updated=())

    @property
    def num_plans(self) -> int:
        """The number of plans."""
        return sum(map(len, self._calls.values()))

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the function on tensors, as a plan."""
        if active_trace.get() is not None:
            return self.function(*args, **options)  # a part of the function that is traced
        signature = CallSignature(args, options)
        is_plain = not options and len(signature.tensors) == len(args) and all(isinstance(a, Tensor) for a in args)
        self._last_specs = tuple([a.spec for a in args]) if is_plain else ()
        place = default_device() if self._host is None else self._host.device
        key = (signature.key, recording.get(), is_training(), get_default_dtype(), place)
        reason = ""
        for call in self._calls.get(key, ()):
            reason = call.stale_reason()
            if not reason:
                return call.run(signature.tensors)
        return self._trace(key, signature.tensors, args, options, reason)

    def _trace(self, key: Hashable, tensors: list[Tensor], args: Any, options: Any, reason: str) -> Any:
        guards = Guards(self.function, (*args, *options.values()))
        host = self._host or _host_of(tensors, guards.tensors.values())
        trace = TraceInterpreter(host)
        trace.large_arrays = guards.large_arrays
        leaves = {**guards.tensors, **{id(t): t for t in tensors}}
        trace.initial_grads.update({k: t.grad for k, t in leaves.items() if t.requires_grad and t.is_leaf})
        traced: dict[int, Tensor] = {}
        arguments = []
        for k, t in enumerate(tensors):
            own = traced[id(t)] = trace.argument(k, t)
            arguments.append(own)
        grads = [traced.get(id(t.grad)) if t.is_leaf and t.grad is not None else None for t in tensors]
        for own, grad in zip(arguments, grads, strict=True):
            own.grad = grad
        token = active_trace.set(trace)
        try:
            inner = map_tensors((args, options), lambda t: traced[id(t)])
            with refuse_impure_reads(guards.generators):
                value = self.function(*inner[0], **inner[1])
            del inner
            gradient = trace_gradient(trace, arguments, value)
            result = collect_results(trace, arguments, grads, value, gradient)
        finally:
            active_trace.reset(token)
            trace.restore_grads()
        call = CompiledCall(trace, result, len(tensors), guards, backend_of(host), self._name())
        unstable = guards.failure() or (
            f"a tensor {list(result.escaped[0].traced.shape)} that the function makes is kept outside of it"
            if result.escaped
            else ""
        )
        if unstable:
            count = self._unstable[key] = self._unstable.get(key, 0) + 1
            if count > MAX_UNSTABLE:
                raise UsageError(
                    f"{self._name()} changes something outside at each call, which a plan does not: {unstable}. Return "
                    "it instead, or keep it as a tensor that is changed in place"
                )
        else:
            self._add(key, call, reason)
        return call.run(tensors)

    def _add(self, key: Hashable, call: CompiledCall, reason: str) -> None:
        self._unstable.pop(key, None)
        calls = self._calls.setdefault(key, [])
        calls.insert(0, call)
        if self.num_plans == WARN_AT:
            warn_user(
                f"{self._name()} has been traced {WARN_AT} times, each with a plan of its own"
                f"{f' (last: {reason})' if reason else ''}: numbers that differ from call to call are passed as "
                "tensors, and sizes kept to few",
                ModelWarning,
            )
        if self.num_plans > MAX_PLANS:
            oldest = next(iter(self._calls))
            self._calls[oldest].pop()
            if not self._calls[oldest]:
                del self._calls[oldest]

    def save(self, path: str | PathLike[str], *example_args: Tensor) -> None:
        """Write the function to one HDF5 file: its graph, and the tensors that it reads, such as a module's weights.

        `load_compiled` runs it again without the code that made it, without gradients. example_args: tensors of the
        shapes and element types that it takes (default: those of the last call). It is traced as it is now: save a
        module for inference after ``eval()``. Where the graph does not depend on the size of the first axis, the file
        serves every size of it.

        Raises UsageError for what a file cannot hold: functions of NumPy, steps of optimizers, other arguments than
        tensors.
        """
        is_plain = all(isinstance(t, Tensor) for t in example_args)
        specs = [t.spec for t in example_args] if example_args and is_plain else list(self._last_specs)
        if not specs or not is_plain:
            raise UsageError(f"save: {self._name()} is saved for tensors: save(path, x, ...), with examples of them")
        save_function(self.function, specs, path, self._name())

    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        method = instance.__dict__.get(f"compiled {self._name()}")
        if method is None:
            method = instance.__dict__[f"compiled {self._name()}"] = CompiledFunction(self.function.__get__(instance))
        return method

    def __repr__(self) -> str:
        return f"<compiled function {self._name()}, {self.num_plans} plans>"


class CompiledModule(CompiledFunction):
    """A module whose calls run as plans; all else is the module's own."""

    def __getattr__(self, name: str) -> Any:
        if name == "function":
            raise AttributeError(name)
        return getattr(self.function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "__wrapped__" in self.__dict__ and name != "_last_specs":  # it is complete
            setattr(self.function, name, value)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.function, name)


def _host_of(arguments: Iterable[Tensor], read_tensors: Iterable[Tensor]) -> EagerInterpreter:
    """The interpreter of the arguments, or, where there are none, of the tensors that the function reads; scalars
    decide where nothing else does."""
    arguments, read_tensors = list(arguments), list(read_tensors)
    for tensors in ([t for t in arguments if t.spec.shape], [t for t in read_tensors if t.spec.shape], arguments):
        hosts = {id(t.interpreter): t.interpreter for t in tensors}
        if len(hosts) > 1:
            devices = " and ".join(sorted({str(t.device) for t in tensors}))
            raise UsageError(f"a compiled function takes tensors of one device, and gets some on {devices}")
        if hosts:
            return next(iter(hosts.values()))
    return next((t.interpreter for t in read_tensors), interpreter_for())


def compile(
    model: Any = None,
    *,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Trace a function of tensors once for each kind of call, and run it as a plan (PyTorch's torch.compile).

    model: a function or a module; without it, a decorator. What the function computes on tensors becomes one graph:
    calls of modules, `backward`, the steps of optimizers, changes in place. A call of another kind is traced anew:
    another shape, dtype or requires_grad of an argument, another value of an argument that is no tensor, another phase
    (train, eval, no_grad), and another value of what the function reads by its closure, global names and modules.
    Gradients flow through it.

    fullgraph: the whole function is always one graph; False changes nothing. disable: give the function as it is.
    dynamic: taken, with a ModelWarning; each shape has a plan. backend, mode, options: of PyTorch's compilers; only
    their defaults are possible.

    Raises UsageError where Python's control flow depends on the elements of a tensor, with the line; where the function
    reads random numbers that are not the package's own, the clock or the environment, with the line; where it changes
    things outside that are no tensors; and for options that there are none of. A call raises IndexRangeError for an
    index or a label outside of its bounds, and writes nothing.
    """
    if options:
        raise UsageError(f"compile: options={options!r:.40} are those of another compiler; leave them out")
    if dynamic:
        warn_user(
            "compile: dynamic=True changes nothing: each shape of the arguments is traced, and has a plan", ModelWarning
        )
    if backend not in (None, "inductor") or mode not in (None, "default"):
        raise UsageError(
            f"compile: backend={backend!r:.40}, mode={mode!r:.40}: there is one compiler, that of the models' plans; "
            "leave them out"
        )
    return _compiled(model, disable)


def _compiled(model: Any, disable: bool) -> Any:
    if model is None:
        return lambda function: _compiled(function, disable)
    if not callable(model):
        raise UsageError(f"compile takes a function or a module, not {type(model).__name__}")
    if disable or isinstance(model, CompiledFunction):
        return model
    return CompiledModule(model) if isinstance(model, Module) else CompiledFunction(model)
