"""Modules and Functions of a Python module that a text imports, as layers of the text.

    import: "my_layers"
    input { shape: [4] }
    Block { width: 8 }             # class Block(nn.Module): def __init__(self, width: int): ...
    Cube { }                       # class Cube(pt.Function): forward(ctx, x), backward(ctx, g)

The fields are the arguments of the module's constructor, or those arguments of a Function's forward that are numbers,
strings or lists of them.
"""

from __future__ import annotations

import inspect
import os
import traceback
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from prototorch.compiler.host_function import host_function
from prototorch.compiler.recorded_function import RecordedCall, RecordedFunction
from prototorch.compiler.trace import UnknownElementsError
from prototorch.eager.function import Function
from prototorch.eager.random_keys import RandomKeys, default_keys
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import outside_trace
from prototorch.errors import ModelError, PrototorchError, ShapeError, UsageError
from prototorch.initializers.base import Initializer
from prototorch.layers.base import Layer
from prototorch.layers.context import Context
from prototorch.nn.module import Module
from prototorch.ops.host_call import host_call
from prototorch.schema import field
from prototorch.schema.fields import MISSING, FieldDeclaration, field_type
from prototorch.schema.python_imports import ClassAdapter
from prototorch.spec import Spec

__all__ = ["FUNCTION_ADAPTER", "MODULE_ADAPTER", "FunctionLayer", "ModuleLayer"]

_recorded_call = RecordedCall()
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_VALUE_TYPES = (bool, int, float, str)


class FunctionLayer(Layer, abstract=True):
    """The layer of a `Function`: it has no weights, and its gradient is the Function's."""

    function: ClassVar[Any] = None
    parameters: ClassVar[tuple[str, ...]] = ()  # of forward, those that are fields included

    def call(self, ctx: Context, *inputs: Any) -> Any:
        if isinstance(inputs[0], Tensor):
            return self.apply(*inputs)
        try:
            call = _recorded(self, _specs(inputs), False)
        except UnknownElementsError:
            name = type(self).__name__
            with _as_mistake(self):
                function = host_function(name, self.apply, _specs(inputs))
            ctx.warn(f"{name} computes in NumPy: it is one step in the host's memory, which no kernel is fused with")
            result = host_call(*inputs, function=function)
            return _checked(self, ctx, result if isinstance(result, tuple) else (result,))
        return _checked(self, ctx, _run(call, ctx, inputs))

    @classmethod
    def _function(cls) -> Any:
        return cls.function

    def apply(self, *tensors: Tensor) -> Any:
        """Run the Function on tensors."""
        values, specs = iter(tensors), type(self).specs()
        function = self._function()
        return function.apply(*(getattr(self, n) if n in specs else next(values) for n in self.parameters))


class ModuleLayer(Layer, abstract=True):
    """The layer of a `Module`: its parameters and buffers are the layer's weights, by their names."""

    module: ClassVar[Any] = None
    parameters: ClassVar[tuple[str, ...]] = ()

    def make_module(self) -> Any:
        """A new module of the fields' values."""
        make: Any = type(self).module
        return make(**{name: getattr(self, name) for name in self.parameters})

    def call(self, ctx: Context, *inputs: Any) -> Any:
        module = _module_of(self)
        module.train(ctx.training)
        tensors = [*module.named_parameters(), *module.named_buffers()]
        weights = [
            ctx.weight(
                name.replace(".", "/"),
                tuple(t.shape),
                _ModuleInitializer.of(self, name),
                dtype=str(t.dtype),
                trainable=t.requires_grad,
            )
            for name, t in tensors
        ]
        if isinstance(inputs[0], Tensor):
            for (name, _), weight in zip(tensors, weights, strict=True):
                _set_tensor(module, name, weight)
            return module(*inputs)
        try:
            call = _recorded(self, _specs(inputs), ctx.training)
        except UnknownElementsError as error:
            raise ShapeError(str(error)) from error
        results = _run(call, ctx, (*inputs, *weights))
        for k, value in zip(call.changed, results[call.num_outputs :], strict=True):
            ctx.update(tensors[k][0].replace(".", "/"), value)
        return _checked(self, ctx, results[: call.num_outputs])


def _specs(inputs: Sequence[Any]) -> tuple[Spec, ...]:
    return tuple(Spec(tuple(x.shape), x.dtype) for x in inputs)


@lru_cache(maxsize=256)
def _module_of(layer: ModuleLayer) -> Any:
    """The module that a layer is recorded with; its own parameters are not those of the layer."""
    with outside_trace(), _as_mistake(layer):
        return layer.make_module()


@lru_cache(maxsize=256)
def _recorded(layer: Any, specs: tuple[Spec, ...], training: bool) -> RecordedFunction:
    """What a layer computes, for inputs of these specs."""
    with _as_mistake(layer):
        if isinstance(layer, FunctionLayer):
            return RecordedFunction(layer.apply, specs)
        module = _module_of(layer)
        module.train(training)
        states = [t for _, t in (*module.named_parameters(), *module.named_buffers())]
        return RecordedFunction(module, specs, states)


@contextmanager
def _as_mistake(layer: Layer) -> Iterator[None]:
    """What the code of a user raises is a mistake of the layer, with the line."""
    try:
        yield
    except (ModelError, UnknownElementsError):
        raise
    except PrototorchError as error:
        raise ShapeError(str(error)) from error
    except Exception as error:
        where = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
        line = f" ({where[-1].filename}, line {where[-1].lineno})" if where else ""
        raise ShapeError(f"{type(error).__name__}: {error}{line}") from error


def _run(call: RecordedFunction, ctx: Context, inputs: Sequence[Any]) -> tuple[Any, ...]:
    if call.needs_key:
        inputs = (*inputs, ctx.key() + np.array([ctx.site(), 0], np.uint64))
    results: tuple[Any, ...] = _recorded_call(*inputs, call=call)
    return results


def _checked(layer: Layer, ctx: Context, results: tuple[Any, ...]) -> Any:
    if len(results) != layer.output_count():
        ctx.fail(
            f"it returns {len(results)} tensors, and the layer has {layer.output_count()}: state it in the class, "
            f"outputs = {len(results)}"
        )
    return results if len(results) > 1 else results[0]


# ---------------------------------------------------------------------- initial values


class _ModuleInitializer(Initializer, abstract=True):
    """The initial value that a module's constructor gives to one of its tensors."""

    @classmethod
    def of(cls, layer: ModuleLayer, name: str) -> _ModuleInitializer:
        """The initializer of one tensor."""
        initializer = cls.__new__(cls)
        initializer.__dict__.update(layer=layer, tensor_name=name)
        return initializer

    def field_values(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def values(self, shape: tuple[int, ...], rng: np.random.Generator, fans: tuple[int, int]) -> np.ndarray:
        layer, name = self.__dict__["layer"], self.__dict__["tensor_name"]
        with outside_trace(), default_keys.replaced_by(RandomKeys(int(rng.integers(2**62)))):
            module = layer.make_module()
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return np.array(tensors[name].numpy())


def _set_tensor(module: Any, name: str, tensor: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        module = module._modules[part]
    (module._parameters if last in module._parameters else module._buffers)[last] = tensor


# ---------------------------------------------------------------------- classes as layers


def _fields(
    cls: type, function: Any, skip: int, *, all_fields: bool
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The annotations and declarations of the parameters that are fields, and the names of all parameters."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    annotations: dict[str, Any] = {}
    declared: dict[str, Any] = {}
    names: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[skip:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = MISSING if parameter.default is parameter.empty else parameter.default
        hint = hints.get(parameter.name, type(default) if isinstance(default, _VALUE_TYPES) else None)
        where = f"{cls.__name__}: the argument {parameter.name!r} of {function.__name__}"
        if hint is None or not _is_field(hint):
            if all_fields and default is MISSING:
                raise UsageError(
                    f"{where} cannot be a field of a model text: annotate it as int, float, bool, str, a list of them "
                    "or an optional one, or give it a default"
                )
            if not all_fields:
                names.append(parameter.name)
            continue
        if parameter.name in Layer.specs():
            raise UsageError(f"{where} has the name of a field that every layer has; rename it")
        names.append(parameter.name)
        annotations[parameter.name] = hint
        declared[parameter.name] = field(default=default, doc=f"An argument of {cls.__name__}.")
    return annotations, declared, names


def _is_field(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Tensor):
        return False
    try:
        field_type(hint, FieldDeclaration(), "")
    except (UsageError, TypeError):
        return False
    return hint not in (Any, object)


def _make_layer(cls: type, base: type, attributes: dict[str, Any], annotations: dict[str, Any]) -> type[Layer]:
    namespace = {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__annotations__": annotations,
        "__doc__": inspect.getdoc(cls) if cls.__doc__ else f"The {base.__name__[:-5].lower()} {cls.__name__}.",
        "outputs": getattr(cls, "outputs", 1) if isinstance(getattr(cls, "outputs", 1), int) else 1, **attributes,
    }  # fmt: skip
    return type(cls.__name__, (base,), namespace)


def _module_layer(cls: Any) -> type[Layer]:
    annotations, declared, names = _fields(cls, cls.__init__, 1, all_fields=True)
    return _make_layer(
        cls,
        ModuleLayer,
        {"module": cls, "parameters": tuple(names), "inputs": _input_range(cls.forward), **declared},
        annotations,
    )


def _function_layer(cls: Any) -> type[Layer]:
    has_setup = cls.setup_context is not Function.setup_context
    forward = cls.forward
    annotations, declared, names = _fields(cls, forward, 0 if has_setup else 1, all_fields=False)
    count = len(names) - len(annotations)
    return _make_layer(
        cls, FunctionLayer, {"function": cls, "parameters": tuple(names), "inputs": count, **declared}, annotations
    )


def _input_range(forward: Any) -> Any:
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    most = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    return least if least == most else (least, most)


MODULE_ADAPTER = ClassAdapter(Module, _module_layer)
FUNCTION_ADAPTER = ClassAdapter(Function, _function_layer)
