"""Layers on tensors: a layer that is called eagerly runs its ops at once, and creates its weights at the first call.

The weights belong to the layer *object*: calling it again uses them again, as in PyTorch.

layer = pt.layers.Dense(4)
y = layer(pt.tensor(np.ones((2, 3))))     # makes layer/kernel and layer/bias
weights_of(layer)["kernel"]
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from math import prod
from typing import Any, NoReturn
from zlib import crc32

import numpy as np

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.interpreter import EagerInterpreter, cpu_interpreter, interpreter_for
from prototorch.eager.key_tensor import key_tensor
from prototorch.eager.random_keys import default_keys
from prototorch.eager.storage import Storage, VariableStorage
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace, outside_trace
from prototorch.engine.backends.host_memory import check_free
from prototorch.errors import DataError, ModelError, ModelWarning, ShapeError, UsageError, warn_user
from prototorch.graph.trace import record_layer
from prototorch.initializers.base import Initializer, compute_fans
from prototorch.layers.adapted_layer import refuse_unadapted
from prototorch.layers.base import Layer
from prototorch.layers.weight_source import WeightSource, weight_source
from prototorch.ops.core import use_interpreter

_training: ContextVar[bool] = ContextVar("prototorch_eager_training", default=False)


@contextmanager
def training(on: bool = True) -> Iterator[None]:
    """Inside, layers run in the training phase (dropout drops elements); outside they do not."""
    token = _training.set(on)
    try:
        yield
    finally:
        _training.reset(token)


def is_training() -> bool:
    """Whether layers run in the training phase here."""
    return _training.get()


class LayerState:
    """The eager state of a layer object: its weights by name, and the extra losses of its last call.

    preset_weights: values for weights that are not created yet, instead of the initializer's. statistics: the names of
    weights that no gradient trains, such as running means.
    """

    def __init__(self) -> None:
        self.weights: dict[str, Any] = {}
        self.losses: list[Any] = []
        self.preset_weights: dict[str, np.ndarray] = {}
        self.statistics: set[str] = set()


_states: dict[int, tuple[weakref.ref[Layer], LayerState]] = {}


def layer_state(layer: Layer) -> LayerState:
    """The eager state of this layer object (empty before its first call)."""
    entry = _states.get(id(layer))
    if entry is None or entry[0]() is not layer:
        key = id(layer)
        entry = _states[key] = (weakref.ref(layer, lambda _: _states.pop(key, None)), LayerState())
    return entry[1]


def weights_of(layer: Layer) -> dict[str, Any]:
    """The tensors of a layer that has been called, by name: ``kernel``, ``bias``, ``forward_layer/kernel``.

    Those of a layer of a model have the memory of the model's weights.
    """
    return layer_state(layer).weights


def weight_tensor(
    array: np.ndarray,
    requires_grad: bool = True,
    storage: Storage | None = None,
    interpreter: EagerInterpreter | None = None,
) -> Tensor:
    """A tensor for a weight: on the CPU (the default) of the array itself without a copy."""
    with outside_trace():  # it outlives the call
        interpreter = interpreter or cpu_interpreter()
        tensor = interpreter.wrap(interpreter.backend.asarray(array), storage)
    tensor.leaf_requires_grad = requires_grad
    return tensor


def bound_tensor(source: WeightSource, name: str, requires_grad: bool) -> Tensor:
    """The tensor of a model's weight, of the same memory; one for each weight while it is alive."""
    array = source.variables[source.prefix + name]
    tensors = source.variables.tensors
    tensor: Tensor | None = tensors.get(source.prefix + name)
    if tensor is None or tensor.array is not array or tensor.__dict__.get("model_trains") != requires_grad:
        storage = VariableStorage(source.variables, source.prefix + name)
        tensor = tensors[source.prefix + name] = weight_tensor(array, requires_grad, storage)
        tensor.__dict__["model_trains"] = requires_grad  # its own requires_grad is the user's to set
    return tensor


class EagerContext:
    """The `Context` of one eager call of a layer."""

    def __init__(
        self,
        state: LayerState,
        root: Layer,
        layer: Layer,
        name: str,
        prefix: str,
        on: bool,
        key: list[Any],
        dtype: str,
        interpreter: EagerInterpreter,
    ):
        self.state, self.root, self.layer, self.name, self.prefix = state, root, layer, name, prefix
        self.interpreter = interpreter  # of the weights that are created
        self.training, self._key, self._dtype, self._sites = on, key, dtype, 0

    @property
    def trainable(self) -> bool:
        """See `Context.trainable`."""
        return self.layer.trainable and self.root.trainable

    def weight(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: Any,
        *,
        regularizer: Any = None,
        constraint: Any = None,
        trainable: bool = True,
        dtype: str | None = None,
        fans: tuple[int, int] | None = None,
    ) -> Any:
        """See `Context.weight`."""
        full = self.prefix + name
        if any(share.weight == full for share in self.root.share):
            raise UsageError(f"share: the weight {full!r} is that of another layer of a net; a layer alone has none")
        source, key = self._source(name)
        is_trained = trainable and self.trainable
        if not trainable:
            self.state.statistics.add(full)
        weight = self.state.weights.get(full)
        if source is not None and source.prefix + key in source.variables:
            is_float = source.variables.borrow(source.prefix + key).dtype.kind == "f"
            if weight is None or "model_trains" in weight.__dict__:  # else a tensor that stands in for the model's
                weight = self.state.weights[full] = bound_tensor(source, key, is_trained and is_float)
        if weight is None:
            values = self.state.preset_weights.pop(full, None)
            if values is None:
                initializer = Initializer.lookup(initializer)() if isinstance(initializer, str) else initializer
                with outside_trace():
                    rng = default_keys.next_generator()
                check_free(4 * prod(shape), f"the weight {full!r} {list(shape)}")
                values = initializer.values(tuple(shape), rng, fans or compute_fans(tuple(shape)))
            array = np.array(values, dtype=dtype or self._dtype)
            requires_grad = is_trained and array.dtype.kind == "f"
            if source is None:
                weight = weight_tensor(array, requires_grad, interpreter=self.interpreter)
            else:
                source.variables.create(source.prefix + key, array)
                weight = bound_tensor(source, key, requires_grad)
            self.state.weights[full] = weight
        if tuple(weight.shape) != tuple(shape):
            raise ShapeError(f"its weight {full!r} has shape {list(weight.shape)}, but would need {list(shape)} here")
        return weight

    def _source(self, name: str) -> tuple[WeightSource | None, str]:
        """The model that has a weight of this layer, and the weight's name behind the source's prefix."""
        own = weight_source(self.layer)
        return (own, name) if own is not None else (weight_source(self.root), self.prefix + name)

    def update(self, name: str, value: Any, always: bool = False) -> None:
        """See `Context.update`; the weight changes at once."""
        if self.training or always:
            with no_grad():
                assign(self.state.weights[self.prefix + name], value, "a running statistic")

    def key(self) -> Any:
        """See `Context.key`: a new one for each call of a layer."""
        if not self._key:
            self._key.append(key_tensor(interpreter=self.interpreter))
        return self._key[0]

    def site(self) -> int:
        """See `Context.site`."""
        self._sites += 1
        return crc32(f"{self.name}/{self._sites}".encode())

    def mask(self, value: Any) -> Any | None:
        """See `Context.mask`."""
        return value.mask

    def set_mask(self, value: Any, mask: Any) -> None:
        """See `Context.set_mask`."""
        value.mask = mask if mask is not None else value.mask

    def sublayer(self, name: str, layer: Layer, *inputs: Any) -> Any:
        """See `Context.sublayer`."""
        inner = EagerContext(
            self.state,
            self.root,
            layer,
            f"{self.name}/{name}",
            f"{self.prefix}{name}/",
            self.training,
            self._key,
            self._dtype,
            self.interpreter,
        )
        return record_layer(inner, layer, inputs)

    def add_loss(self, value: Any) -> None:
        """See `Context.add_loss`."""
        self.state.losses.append(value)

    def warn(self, message: str) -> None:
        """See `Context.warn`."""
        warn_user(f"layer {self.name!r} ({type(self.root).__name__}): {message}", ModelWarning)

    def fail(self, message: str) -> NoReturn:
        """See `Context.fail`."""
        raise ShapeError(message)


def adopt_eager_weights(layer: Layer, source: WeightSource) -> None:
    """Make the weights that a layer has from eager calls those of a model."""
    for name, weight in layer_state(layer).weights.items():
        full = source.prefix + name
        source.variables.create(full, np.array(weight.numpy()))
        weight.rebind(source.variables[full], VariableStorage(source.variables, full))
        weight.__dict__["model_trains"] = weight.requires_grad
        source.variables.tensors[full] = weight


def _check_indices(value: Any, count: int, layer: str) -> None:
    """Raises DataError for indices of a layer's table that are not integers from 0 to ``count`` - 1, where they
    are in the host's memory, as `fit` and `predict` do."""
    if not value.interpreter.has_memory or value.device.type != "cpu" or active_trace.get() is not None:
        return
    indices = value.numpy()
    invalid = (indices < 0) | (indices >= count)
    if value.spec.is_float:
        invalid |= indices != np.floor(indices)
    if invalid.any():
        at = tuple(int(i) for i in np.argwhere(invalid)[0])
        raise DataError(f"the layer {layer!r} expects integers from 0 to {count - 1}; at {list(at)} is {indices[at]}")


def _interpreter_of(inputs: Sequence[Any]) -> EagerInterpreter:
    """The interpreter of the device on which the inputs of a layer are, also while they are traced."""
    return interpreter_for(inputs[0].device if inputs else None)


def run_layer(
    layer: Layer, inputs: Sequence[Any], *, training: bool | None = None, key: Any = None, name: str | None = None
) -> Any:
    """Call a layer on tensors; gives a tensor, or a tuple of them.

    training: the phase (None: that of `training`). key: the random key, a tensor uint64 [2] (None: a new one). name:
    the random ops' sites derive from it. Raises ShapeError with the layer and the shapes it reads.
    """
    if layer.weights is not None and weight_source(layer) is None:
        raise UsageError(
            f"{type(layer).__name__} {{ weights: {layer.weights!r} }} shares weights by name, as layers of a model do; "
            "on tensors, call one layer object several times"
        )
    count = layer.index_count()
    if count is not None:
        for value in inputs:
            _check_indices(value, count, name or layer.name or type(layer).__name__)
    state = layer_state(layer)
    state.losses = []
    dtype = next((t.dtype for t in inputs if t.spec.is_float), "float32")
    ctx = EagerContext(
        state,
        layer,
        layer,
        name or layer.name or type(layer).__name__,
        "",
        _training.get() if training is None else training,
        [] if key is None else [key],
        dtype,
        _interpreter_of(inputs),
    )
    # tensors that a layer makes itself, such as the first state of a recurrent one, are on the device of its inputs
    scope = nullcontext() if ctx.interpreter is cpu_interpreter() else use_interpreter(ctx.interpreter)
    try:
        with scope:
            return record_layer(ctx, layer, tuple(inputs))
    except ModelError as exc:
        reads = ", ".join(str(list(t.shape[1:])) for t in inputs)
        raise ShapeError(f"layer {ctx.name!r} ({type(layer).__name__}): {exc}; it reads {reads}") from exc


def apply_layer(layer: Layer, inputs: tuple[Any, ...]) -> Any:
    """A layer called on tensors runs at once. Raises UsageError for tensors and other values at the same time."""
    refuse_unadapted((layer,))
    if not all(isinstance(i, Tensor) for i in inputs):
        raise UsageError(f"{type(layer).__name__} is called on tensors and other values at the same time")
    return run_layer(layer, inputs)
