"""Nets written in Python: ``n = NetSpec(); n.conv1 = L.Convolution(n.data, kernel_size=3); n.to_proto()``.

`layers` (``L``) makes a function for each type of layer, `params` (``P``) holds the values of enums.
Source: pycaffe's ``net_spec``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from prototorch.caffe.proto.message_classes import message_class
from prototorch.caffe.text.message_types import message_names, message_type
from prototorch.errors import UsageError, did_you_mean

__all__ = ["Function", "NetSpec", "Top", "layers", "params", "to_proto"]


class Top:
    """One output of a layer: ``fn`` is the layer, ``n`` the position among its tops."""

    def __init__(self, fn: Function, n: int):
        self.fn, self.n = fn, n

    def to_proto(self) -> Any:
        """A NetParameter of the layers that this top depends on, with names of their own."""
        return to_proto(self)


class Function:
    """A layer with its inputs and parameters.

    ntop: the number of its tops. in_place: whether its tops are its bottoms. Other parameters are fields of the layer,
    or of the message of its type: ``Convolution(x, num_output=3, param=[dict(lr_mult=1)])``.
    Raises TypeError for an input that is no `Top`.
    """

    def __init__(self, type_name: str, inputs: tuple[Top, ...], params: dict[str, Any]):
        for index, value in enumerate(inputs):
            if not isinstance(value, Top):
                raise TypeError(f"{type_name}: input {index} must be the top of a layer, not {type(value).__name__}")
        self.type_name, self.inputs, self.params = type_name, tuple(inputs), params
        self.ntop: int = params.pop("ntop", 1)
        self.in_place: bool = params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))


class _Writer:
    """The layers that tops depend on, each after those that it reads; names that are not given are type and number."""

    def __init__(self, names: dict[Top | Function, str]):
        self.names = names
        self.numbers: Counter[str] = Counter()
        self.layers: OrderedDict[Function, Any] = OrderedDict()

    def add(self, fn: Function) -> None:
        pending = [fn]
        while pending:
            current = pending[-1]
            missing = [top.fn for top in current.inputs if top.fn not in self.layers]
            if current in self.layers or not missing:
                pending.pop()
                if current not in self.layers:
                    self.layers[current] = self.write(current)
            else:
                pending.append(missing[0])

    def write(self, fn: Function) -> Any:
        layer = message_class("LayerParameter")()
        layer.type = fn.type_name
        layer.bottom.extend([self.layers[top.fn].top[top.n] for top in fn.inputs])
        layer.top.extend(list(layer.bottom) if fn.in_place else [self.name(top, fn) for top in fn.tops])
        layer.name = self.name(fn.tops[0] if fn.tops else fn, fn)
        for name, value in fn.params.items():
            _assign_layer_field(layer, fn.type_name, name, value)
        return layer

    def name(self, owner: Top | Function, fn: Function) -> str:
        if owner not in self.names:
            self.numbers[fn.type_name] += 1
            self.names[owner] = f"{fn.type_name}{self.numbers[fn.type_name]}"
        return self.names[owner]

    def net(self) -> Any:
        net = message_class("NetParameter")()
        net.layer.extend(self.layers.values())
        return net


def to_proto(*tops: Top) -> Any:
    """A NetParameter of the layers that these tops depend on, with names of their own."""
    writer = _Writer({})
    for top in tops:
        writer.add(top.fn)
    return writer.net()


class NetSpec:
    """A net whose tops are its attributes or items; their names are those of the tops and layers."""

    tops: OrderedDict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "tops", OrderedDict())

    def __setattr__(self, name: str, value: Any) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Any:
        if name not in self.tops:
            raise AttributeError(f"the net has no top {name!r}.{did_you_mean(name, self.tops)}")
        return self.tops[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.tops[name] = value

    def __getitem__(self, name: str) -> Any:
        return self.tops[name]

    def to_proto(self) -> Any:
        """A NetParameter of all layers that the tops depend on. Raises UsageError for fields that do not exist."""
        writer = _Writer({top: name for name, top in self.tops.items()})
        for value in self.tops.values():
            writer.add(value if isinstance(value, Function) else value.fn)
        return writer.net()


class _Layers:
    """A function for each type of layer: it returns the layer's top, a tuple of several, or the layer without one."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def make_layer(*inputs: Any, **params: Any) -> Any:
            fn = Function(name, inputs, params)
            return fn.tops[0] if fn.ntop == 1 else fn.tops if fn.tops else fn

        return make_layer


class _Params:
    """The enums of the messages: ``P.Pooling.MAX``."""

    def __getattr__(self, name: str) -> Any:
        if f"{name}Parameter" not in message_names():
            message_types = [n.removesuffix("Parameter") for n in message_names() if n.endswith("Parameter")]
            raise AttributeError(f"Caffe has no message {name}Parameter.{did_you_mean(name, message_types)}")
        return message_class(f"{name}Parameter")


layers, params = _Layers(), _Params()


def _assign_layer_field(layer: Any, type_name: str, name: str, value: Any) -> None:
    """Set a field of the layer's own message where it has such a field, else of the layer."""
    own = _own_field(type_name)
    if not name.endswith("param") and own is not None and name in message_type(own[1]).fields:
        _assign(getattr(layer, own[0]), name, value, type_name)
    else:
        _assign(layer, name, value, type_name, [] if own is None else list(message_type(own[1]).fields))


def _own_field(type_name: str) -> tuple[str, str] | None:
    """The field of LayerParameter that belongs to a type of layer, and its message."""
    for field in message_type("LayerParameter").fields.values():
        if field.type == f"{type_name}Parameter" and field.name.endswith("_param"):
            return field.name, field.type
    return None


def _assign(message: Any, name: str, value: Any, type_name: str, more: list[str] | None = None) -> None:
    """Assign a Python value: lists to repeated fields (a single value is a list of one), dictionaries to messages."""
    fields = message.message.type.fields
    if name not in fields:
        hint = did_you_mean(name, [*fields, *(more or ())])
        raise UsageError(f"a {type_name} layer has no field {name!r} (in {message.type_name}).{hint}")
    target: Any = getattr(message, name)
    if fields[name].is_repeated:
        items = list(value) if isinstance(value, list | tuple) else [value]
        for item in items:
            if isinstance(item, Mapping):
                added = target.add()
                for key, inner in item.items():
                    _assign(added, key, inner, type_name)
            else:
                target.append(item)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _assign(target, key, inner, type_name)
    elif fields[name].is_message:
        target.CopyFrom(value)
    else:
        setattr(message, name, value)
