"""`Sequential`: a model of layers in a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from typing import Any

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.symbolic import Input, SymbolicTensor
from prototorch.layers.base import Layer
from prototorch.model.model import Model
from prototorch.schema.neutral_arguments import explain_arguments, neutral

__all__ = ["SequentialModel"]


def _after_build(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `Model` that first takes the shape of the input from its data, where it is not known."""

    @wraps(method)
    def call(self: SequentialModel, *args: Any, **options: Any) -> Any:
        data = args[0] if args else options.get("x")
        if data is not None:
            self._build_for(data)
        return method(self, *args, **options)

    return call


class SequentialModel(Model):
    """A model of layers in a row (Keras): ``Sequential([pt.Input((4,)), pt.layers.Dense(2)])``, or layer by layer by
    `add`.

    A model of one input and one output may stand in the place of a layer, with its weights. The shape of the input is
    that of an `Input` in front, of a model in front, the first layer's ``input_shape`` (``input_dim``), or that of the
    first data. preprocess, augment: see `Model`. Raises UsageError for what is no layer.
    """

    @explain_arguments({"trainable": neutral(True, hint="set model.trainable = False afterwards")})
    def __init__(
        self,
        layers: Sequence[Any] = (),
        name: str = "sequential",
        *,
        preprocess: Sequence[Layer] = (),
        augment: Sequence[Layer] = (),
    ):
        if not isinstance(layers, list | tuple):
            raise UsageError(
                f"Sequential: expected a list, [pt.Input(shape), layer, ...], not {layers!r:.80}: put it in brackets, "
                "with the Input first"
            )
        self._input: SymbolicTensor | None = None
        self._rows: list[Layer | Model] = []
        self._options: dict[str, Any] = {"name": name, "preprocess": preprocess, "augment": augment}
        self._compile_options: dict[str, Any] | None = None
        for index, item in enumerate(layers):
            self._append(item, f"item {index}")
        self._rebuild()

    def add(self, layer: Any) -> None:
        """Put a layer at the end, or an `Input` at the beginning. A model that is compiled is to be compiled again."""
        self._append(layer, "add")
        self._rebuild()

    def pop(self) -> Layer | Model:
        """Take the last layer away, and give it. Raises UsageError where there is none."""
        if not self._rows:
            raise UsageError("pop: the model has no layers")
        layer = self._rows.pop()
        self._rebuild()
        return layer

    def _append(self, item: Any, what: str) -> None:
        if isinstance(item, SymbolicTensor):
            if self._input is not None or self._rows:
                raise UsageError(f"Sequential: {what} is an Input, which must be the first item, and the only one")
            self._input = item
            return
        if isinstance(item, Model):
            self._append_model(item, what)
            return
        if not isinstance(item, Layer):
            is_module = any(base.__name__ == "Module" for base in type(item).__mro__)
            hint = "; modules go into pt.nn.Sequential, here are the layers of pt.layers" if is_module else ""
            raise UsageError(f"Sequential: {what} is {item!r:.80}, not a layer{hint}")
        if self._input is None and not self._rows and item.stated_input_shape is not None:
            self._input = Input(item.stated_input_shape)
        self._rows.append(item)

    def _append_model(self, model: Model, what: str) -> None:
        """Put a model at the end, whose layers become layers of this one with their weights."""
        counts = len(model.inputs), len(model.outputs)
        if counts != (1, 1):
            raise UsageError(
                f"Sequential: {what} is the model {model.name!r} of {counts[0]} inputs and {counts[1]} outputs, and "
                "each item has one of both: call it with symbols, model(a, b), and make a pt.Model of them"
            )
        if self._input is None and not self._rows:
            (node,) = model.net.inputs
            self._input = Input(node.shape, node.name, node.dtype)
        self._rows.append(model)

    def adopt_net(self) -> None:
        """Take the layers, and the input, of the net that the model has been given."""
        (node,) = self.net.inputs
        self._input = Input(node.shape, node.name, node.dtype)
        self._rows = [row.layer for row in self.net.nodes]
        self._options = {"name": self.net.name, "preprocess": self.net.preprocess, "augment": self.net.augment}

    def __reduce__(self) -> Any:
        self._check_built("pickled")
        return super().__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return super().__deepcopy__(memo) if self.built else self._copy_layers(memo)

    def __copy__(self) -> Model:
        self._check_built("copied by copy.copy, which shares its weights")
        return super().__copy__()

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise UsageError(
                f"the model {self._options['name']!r} is not built and cannot be {what}: put pt.Input(shape) first, or "
                "fit it"
            )

    def _copy_layers(self, memo: dict[int, Any]) -> SequentialModel:
        """A copy of a model that has no net yet."""
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        vars(copy).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        return copy

    @property
    def built(self) -> bool:
        """Whether the shape of the input is known, so that the net and its weights are there."""
        return "net" in self.__dict__

    def _rebuild(self) -> None:
        """Make the net of the layers, where the input is known; weights of layers that have some stay."""
        if self._input is None or not self._rows:
            self.__dict__.pop("net", None)
            return
        value: Any = self._input
        for layer in self._rows:
            value = layer(value)
        super().__init__(self._input, value, **self._options)
        if self._compile_options is not None:
            super().compile(**self._compile_options)

    def _build_for(self, x: Any) -> None:
        """Take the shape of the input from data."""
        if self.built or not self._rows:
            return
        array = next(iter(x.values())) if isinstance(x, Mapping) and x else x
        shape = getattr(array, "shape", None)
        if shape is None and isinstance(array, list | tuple):
            shape = np.asarray(array).shape
        if not shape or len(shape) < 1:
            raise UsageError(
                f"the shape of the input is not known, and {type(x).__name__} does not tell it: add "
                "pt.Input(shape) as the first item"
            )
        kind = str(getattr(array, "dtype", "float32"))
        self._input = Input(
            tuple(int(n) for n in shape[1:]),
            dtype="int64" if kind.startswith(("int", "uint")) and type(self._rows[0]).__name__ == "Embedding" else None,
        )
        self._rebuild()

    def __getattr__(self, name: str) -> Any:
        if not self.built and not name.startswith("__"):
            raise UsageError(
                "the model is not built yet: add() layers, and pt.Input(shape) as the first item (or input_shape= of "
                "the first layer, or call fit with data, whose shape it takes)"
            )
        return super().__getattr__(name)

    def compile(self, optimizer: Any = "adam", loss: Any = None, metrics: Any = None, **options: Any) -> None:
        """See `Model.compile`; before the shape of the input is known it is carried out when that is."""
        self._compile_options = {"optimizer": optimizer, "loss": loss, "metrics": metrics, **options}
        if self.built:
            super().compile(**self._compile_options)

    fit, evaluate, predict = _after_build(Model.fit), _after_build(Model.evaluate), _after_build(Model.predict)
    train_on_batch, test_on_batch = _after_build(Model.train_on_batch), _after_build(Model.test_on_batch)

    def __call__(self, *inputs: Any, training: bool = False) -> Any:
        if inputs and not isinstance(inputs[0], SymbolicTensor):
            self._build_for(inputs[0])
        return super().__call__(*inputs, training=training)

    def __repr__(self) -> str:
        if self.built:
            return super().__repr__()
        return f"<Sequential {self._options['name']!r}, not built: {', '.join(map(repr, self._rows)) or 'no layers'}>"
