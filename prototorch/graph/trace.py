"""Tracing: the layers of a net are recorded, one after the other, into a graph of ops."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn, Protocol
from zlib import crc32

from prototorch import ops
from prototorch.constraints import Constraint
from prototorch.errors import ModelError, ModelWarning, ShapeError, did_you_mean, warn_user
from prototorch.graph.ir import Graph, Value
from prototorch.graph.mixed_precision import Autocast, to_float32
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.weight_spec import SharedWeight, WeightSpec, default_values, merge_weights, stated_options
from prototorch.initializers.base import Initializer, compute_fans
from prototorch.layers.base import Layer
from prototorch.layers.channels import MapLayer
from prototorch.layers.context import Context
from prototorch.layers.mask_shapes import is_mask_shape
from prototorch.layers.reshape import Permute
from prototorch.layers.weight_share import WeightShare
from prototorch.layers.weight_source import weight_source
from prototorch.ops.core import use_interpreter
from prototorch.regularizers import Regularizer
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report, format_chain
from prototorch.text.gc_pause import pause_gc

RANDOM_KEY = "random_key"
MAX_NET_SIZE = 250_000  # ops and weights of a net


@dataclass
class Trace:
    """A traced net: values by name, the weights it reads, what its running statistics become, extra losses.

    ``float_dtype`` is the element type of weights for which a layer names none; ``low`` a narrower one that values
    between the inputs and the outputs may be stored in (see graph/mixed_precision.py).
    """

    graph: Graph
    training: bool
    float_dtype: str = "float32"
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, WeightSpec] = field(default_factory=dict)
    updates: dict[str, Value] = field(default_factory=dict)
    losses: list[Value] = field(default_factory=list)
    loss_layers: list[str] = field(default_factory=list)  # the names of the layers that the losses are of
    masks: dict[Value, Value] = field(default_factory=dict)
    matrices: dict[str, str] = field(default_factory=dict)  # by weights key, the matrix that may be shared transposed
    inner_layers: dict[str, Layer] = field(default_factory=dict)  # those with weights, by their weights' prefix
    weight_keys: dict[str, str] = field(default_factory=dict)  # of a weight's layer; it is shared by layers of this key
    weight_folders: dict[str, str] = field(default_factory=dict)  # a weight by each of the folders it is in, in a file
    shared_weights: dict[str, SharedWeight] = field(default_factory=dict)  # by the name that the weight would have
    used_weights: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # by weights key and layer
    compute_dtype: str | None = None
    frozen_layers: Collection[str] = ()  # their normalization is in inference mode
    key_name: str = RANDOM_KEY  # the name of the input with the random key

    def regularization_losses(self) -> list[Value]:
        """The regularization losses, one for each trained weight with a regularizer, as in Keras."""
        regularized = [w for w in self.weights.values() if w.regularizer is not None and w.trainable]
        return [w.regularizer.penalty(self.graph.states[w.name]) for w in regularized if w.regularizer is not None]

    def key(self) -> Value:
        """The step's random key."""
        value = self.graph.inputs.get(self.key_name)
        return value if value is not None else self.graph.input(self.key_name, Spec((2,), "uint64"))


_SLASHES = re.compile("/").finditer


class LayerContext:
    """The `Context` of one layer in a trace."""

    def __init__(self, trace: Trace, name: str, weights_key: str, layer: Layer, root: Layer):
        self.trace, self.name, self.weights_key, self.layer, self.root = trace, name, weights_key, layer, root
        self.training = trace.training
        self.node_name, self.root_key = name, weights_key
        self.warnings: list[str] = []
        self.used_weights: set[str] = set()
        self._sites = 0

    @cached_property
    def _defaults(self) -> frozenset[int]:
        return default_values(self.layer)

    @property
    def trainable(self) -> bool:
        """See `Context.trainable`."""
        is_frozen = self.node_name in self.trace.frozen_layers
        return self.layer.trainable and self.root.trainable and not is_frozen

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
    ) -> Value:
        """See `Context.weight`."""
        full = f"{self.weights_key}/{name}"
        spec = Spec(tuple(shape), dtype or self.trace.float_dtype)
        self.used_weights.add(full)
        for share in self.root.share:
            if f"{self.root_key}/{share.weight}" == full:
                return self._shared_weight(full, spec, share)
        if self.layer is not self.root:
            self.trace.inner_layers.setdefault(f"{self.weights_key}/", self.layer)
        initializer = Initializer.lookup(initializer)() if isinstance(initializer, str) else initializer
        options = {"initializer": initializer, "regularizer": regularizer, "constraint": constraint,
                   "lr_mult": self._factor("lr_mult"), "decay_mult": self._factor("decay_mult")}  # fmt: skip
        on = trainable and self.layer.trainable and self.root.trainable
        weight = WeightSpec(
            full,
            spec,
            fans=fans or compute_fans(spec.shape),
            trainable=on,
            layer=self.node_name,
            stated=stated_options(self._defaults, options),
            **options,
        )
        other = self._transposed_weight(weight, name)
        if other is not None:
            return other
        existing = self.trace.weights.get(full)
        self._check_name(full, existing)
        weight_with_defaults = weight if existing is None else merge_weights(existing, weight)
        if existing is None or weight_with_defaults.stated != existing.stated:
            check_weight(
                full,
                spec,
                weight_with_defaults.initializer,
                weight_with_defaults.regularizer,
                weight_with_defaults.constraint,
            )
        self.trace.weights[full] = weight_with_defaults
        moved = self.trace.updates.get(full)  # an earlier use in this step: the statistics go on from there
        return self.trace.graph.state(full, spec) if moved is None else moved

    def _shared_weight(self, name: str, spec: Spec, share: WeightShare) -> Value:
        """The weight of another layer in the place of one of this name. Raises ShapeError where it does not fit."""
        source = self.trace.weights.get(share.source)
        if source is None or source.spec.dtype != spec.dtype:
            hint = did_you_mean(share.source, self.trace.weights)
            raise ShapeError(f"share: no layer before it has a weight {share.source!r} of the type {spec.dtype}.{hint}")
        self.trace.shared_weights[name] = SharedWeight(share.source, spec.shape)
        state = self.trace.graph.state(share.source, source.spec)
        result: Value = share.shared_value(self.trace.updates.get(share.source, state), spec.shape)
        return result

    def _check_name(self, name: str, existing: WeightSpec | None) -> None:
        """Raise ShapeError for a weight that has the name of a weight of another layer that it is not shared with, or a
        name that cannot be in one file with it: one would be a folder in which the other is."""
        weights, folders = self.trace.weights, self.trace.weight_folders
        if existing is not None:
            if self.trace.weight_keys.get(name, self.root_key) != self.root_key:
                raise ShapeError(
                    f"its weight {name!r} has the name of a weight of the layer {existing.layer!r}; "
                    "rename one of the layers"
                )
            return
        above = [m.string[: m.start()] for m in _SLASHES(name)]
        other = next((folder for folder in above if folder in weights), folders.get(name))
        if other is not None:
            raise ShapeError(
                f"its weight {name!r} and the weight {other!r} of the layer {weights[other].layer!r} cannot be in one "
                "file: one name is a folder of the other; rename one of the layers"
            )
        self.trace.weight_keys[name] = self.root_key
        folders.update(dict.fromkeys(above, name))

    def _factor(self, name: str) -> float:
        """A factor on the updates: that of the layer in the net, times that of the layer inside it."""
        factor = float(getattr(self.root, name))
        return factor if self.layer is self.root else factor * float(getattr(self.layer, name))

    def _transposed_weight(self, weight: WeightSpec, name: str) -> Value | None:
        """The matrix of a layer of another type that has the same ``weights`` name, transposed; None where there is
        none. Raises ShapeError where its shape does not fit."""
        matrix = self.layer.transposable_weight
        if name != matrix or weight.name in self.trace.weights or self.layer is not self.root:
            return None
        other = self.trace.matrices.setdefault(self.weights_key, matrix)
        existing = self.trace.weights.get(f"{self.weights_key}/{other}") if other != matrix else None
        if existing is None:
            return None
        shape = existing.spec.shape
        if shape[::-1] != weight.spec.shape:
            raise ShapeError(
                f"its {name} {list(weight.spec.shape)} is shared with the {other} {list(shape)} of the layer "
                f"{existing.layer!r} as the transpose of it, and would need the shape {list(shape[::-1])}"
            )
        for option in ("regularizer", "constraint"):
            if option in weight.stated:
                raise ShapeError(f"state the {option} at the layer {existing.layer!r}, whose {other} it shares")
        transposed = replace(weight, name=existing.name, spec=existing.spec)
        self.trace.weights[existing.name] = merge_weights(existing, transposed)
        self.used_weights.add(existing.name)
        return ops.transpose(self.trace.graph.state(existing.name, existing.spec), order=(1, 0))

    def update(self, name: str, value: Value, always: bool = False) -> None:
        """See `Context.update`."""
        if self.training or always:
            full = f"{self.weights_key}/{name}"
            shared = self.trace.shared_weights.get(full)
            if shared is not None and tuple(value.shape) != self.trace.weights[shared.source].spec.shape:
                raise ShapeError(f"share: {name!r} changes as the layer runs: it must have the shape of its source")
            self.trace.updates[full if shared is None else shared.source] = value

    def key(self) -> Value:
        """See `Context.key`."""
        return self.trace.key()

    def site(self) -> int:
        """See `Context.site`."""
        self._sites += 1
        return crc32(f"{self.name}/{self._sites}".encode())

    def mask(self, value: Value) -> Value | None:
        """See `Context.mask`."""
        return self.trace.masks.get(value)

    def set_mask(self, value: Value, mask: Value | None) -> None:
        """See `Context.set_mask`."""
        if mask is not None:
            self.trace.masks[value] = mask

    def sublayer(self, name: str, layer: Layer, *inputs: Value) -> Any:
        """See `Context.sublayer`."""
        if layer.weights is not None and weight_source(layer) is None:
            raise ShapeError(
                f"weights: {layer.weights!r} has no effect on a {type(layer).__name__} inside a "
                f"{type(self.layer).__name__}: write it at the {type(self.layer).__name__}"
            )
        inner = LayerContext(self.trace, f"{self.name}/{name}", f"{self.weights_key}/{name}", layer, self.root)
        inner.root_key = self.root_key
        inner.node_name, inner.warnings, inner.used_weights = self.node_name, self.warnings, self.used_weights
        return record_layer(inner, layer, inputs)

    def add_loss(self, value: Value) -> None:
        """See `Context.add_loss`."""
        self.trace.losses.append(to_float32(value))
        self.trace.loss_layers.append(self.node_name)

    def warn(self, message: str) -> None:
        """See `Context.warn`."""
        self.warnings.append(message)

    def fail(self, message: str) -> NoReturn:
        """See `Context.fail`."""
        raise ShapeError(message)


def check_weight(
    name: str, spec: Spec, initializer: Initializer, regularizer: Regularizer | None, constraint: Constraint | None
) -> None:
    """Raise ShapeError, with the weight's name, where one of these does not take a weight of this spec."""
    try:
        initializer.check_shape(spec.shape)
        if regularizer is None and constraint is None:
            return
        graph = Graph()
        with use_interpreter(graph):
            if regularizer is not None:
                regularizer.penalty(graph.state(name, spec))
            if constraint is not None:
                constraint.project(graph.state(name, spec))
    except ModelError as exc:
        raise ShapeError(f"the weight {name!r}: {exc}") from exc


@contextmanager
def error_scope(graph: Graph, scope: str) -> Iterator[None]:
    """A scope of a graph; an error in it is raised with the scope's name."""
    with graph.scope(scope):
        try:
            yield
        except ModelError as exc:
            raise ShapeError(f"{scope}: {exc}") from exc


class InputPreprocessing(Protocol):
    """Computes an input of the net from a column of the data, in the graph of the net."""

    name: str

    def record(self, trace: Trace, value: Value) -> Value:
        """The preprocessed input."""


def record_layer(ctx: Context, layer: Layer, inputs: tuple[Value, ...]) -> Any:
    """Record the ops of a layer, and give its outputs their masks by the layer's `mask_policy`."""
    wrong = layer.input_count_error(len(inputs))
    if wrong is not None:
        raise ShapeError(wrong)
    result = layer.record(ctx, *inputs)
    pass_masks_on(ctx, layer, inputs, result if isinstance(result, tuple) else (result,))
    return result


def pass_masks_on(ctx: Context, layer: Layer, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> None:
    """Give the outputs of a layer that is recorded the masks of its inputs, by its `mask_policy`."""
    if layer.mask_policy == "use" or all(ctx.mask(x) is None for x in inputs):
        return
    mask = ctx.mask(inputs[0]) if layer.mask_policy == "keep" else None
    for out in outputs:
        if mask is not None and ctx.mask(out) is None and is_mask_shape(mask.shape, out.shape):
            ctx.set_mask(out, mask)
    if all(ctx.mask(out) is None for out in outputs):
        name = type(layer).__name__
        ctx.warn(f"its input has a mask, which {name} does not pass on: from here on the masked steps count, too")


@pause_gc()
def trace(
    net: Net,
    inputs: Mapping[str, Spec],
    training: bool,
    graph: Graph | None = None,
    report: Report | None = None,
    compute_dtype: str | None = None,
    preparation: InputPreprocessing | None = None,
    frozen_layers: Collection[str] = (),
    float_dtype: str = "float32",
) -> Trace:
    """Trace a net for inputs of known specs (batch dimension included). compute_dtype, frozen_layers, float_dtype: see
    `Trace`. With a preparation the input it is for is raw data, which is preprocessed in the graph.

    A mistake in a layer raises ShapeError, or, with a report, is noted there; what depends on it is then left out.
    """
    result = Trace(
        graph if graph is not None else Graph(),
        training,
        compute_dtype=compute_dtype,
        frozen_layers=frozen_layers,
        float_dtype=float_dtype,
    )
    for node in net.inputs:
        value = result.graph.input(node.name, inputs[node.name])
        if preparation is not None and node.name == preparation.name:
            value = preparation.record(result, value)
        result.values[node.name] = value
    producers = {top: layer_node.layer for layer_node in net.nodes for top in layer_node.tops}
    for layer_node in net.nodes:
        if any(b not in result.values for b in layer_node.bottoms):
            continue  # follows from a mistake that is already noted
        try:
            _check_permuted_sequence(layer_node, producers)
            trace_node(result, layer_node)
        except ModelError as exc:
            if report is None:
                raise ShapeError(explain_error(result, layer_node, exc, with_place=True)) from exc
            report.add(explain_error(result, layer_node, exc), layer_node.span, layer_node.chain)
        if result.graph.num_nodes + len(result.weights) > MAX_NET_SIZE:
            error = ModelError(f"the net has more than {MAX_NET_SIZE:,} ops and weights, counted up to here")
            raise ModelError(explain_error(result, layer_node, error, with_place=True))
    if compute_dtype is not None:
        _outputs_to_float32(net, result)
    return result


def _check_permuted_sequence(node: LayerNode, producers: Mapping[str, Layer]) -> None:
    """Raise ShapeError for a layer over sequences behind a Permute that has moved the channels to the front for it, as
    texts of format 1 needed it."""
    layer, before = node.layer, producers.get(node.bottoms[0]) if node.bottoms else None
    if not isinstance(layer, MapLayer) or getattr(layer, "rank", 0) != 1 or layer.data_format is not None:
        return
    if isinstance(before, Permute) and list(before.dims) == [2, 1]:
        name = type(layer).__name__
        raise ShapeError(
            "it reads [steps, channels] unless data_format says otherwise, and the Permute { dims: [2, 1] } before it "
            f"gives [channels, steps], as {name} read it in earlier versions. Leave the Permute out: {name} {{ ... }} "
            f"reads a sequence as it is; or keep it, and write {name} {{ ...  data_format: channels_first }}, which "
            "means what it meant (data_format: channels_last where the Permute is part of the net)"
        )


def _outputs_to_float32(net: Net, result: Trace) -> None:
    """Outputs of a net are float32, whatever dtype its values are stored in."""
    for name in net.outputs:
        value = result.values.get(name)
        if value is not None:
            wide = result.values[name] = to_float32(value)
            if value in result.masks:
                result.masks[wide] = result.masks[value]


def trace_node(result: Trace, node: LayerNode, record: Callable[..., Any] = record_layer) -> None:
    """Record one layer whose inputs are recorded; `trace` does it for a whole net. Raises ShapeError.

    record: ``record(ctx, layer, inputs)`` records the layer's ops and gives its outputs."""
    ctx = LayerContext(result, node.name, node.weights_key, node.layer, node.layer)
    interpreter: AbstractContextManager[Any] = use_interpreter(result.graph)
    narrowing = Autocast(result.compute_dtype) if result.compute_dtype is not None else None
    with interpreter, result.graph.scope(node.name), result.graph.autocast(narrowing):
        outputs_of_layer = record(ctx, node.layer, tuple(result.values[b] for b in node.bottoms))
    _check_sharing(result, node, ctx.used_weights)
    if isinstance(node.layer, MapLayer) and any(result.values[b].kind == "input" for b in node.bottoms[:1]):
        ctx.warnings += node.layer.describe_unusual_input(result.values[node.bottoms[0]].shape[1:])
    for message in dict.fromkeys(ctx.warnings):
        warn_user(explain_error(result, node, message, with_place=True), ModelWarning)
    outputs = outputs_of_layer if isinstance(outputs_of_layer, tuple) else (outputs_of_layer,)
    if len(outputs) != len(node.tops):
        raise ShapeError(f"it gives {len(outputs)} outputs, but {len(node.tops)} are named")
    result.values.update(zip(node.tops, outputs, strict=True))


def _check_sharing(result: Trace, node: LayerNode, used: set[str]) -> None:
    """Raise ShapeError for a layer that shares no weight with those of the same ``weights`` name."""
    for share in node.layer.share:
        if f"{node.weights_key}/{share.weight}" not in used:
            names = ", ".join(sorted(name.removeprefix(f"{node.weights_key}/") for name in used)) or "none"
            raise ShapeError(f"share: it has no weight {share.weight!r}; its weights are {names}")
    if not used:
        return
    others = result.used_weights.setdefault(node.weights_key, {})
    if others and not any(used & w for w in others.values()):
        name, weights = next(iter(others.items()))
        prefix = f"{node.weights_key}/"
        raise ShapeError(
            f"weights: {node.weights_key!r} shares nothing with the layer {name!r}: there are "
            f"{_format_weights(result, weights, prefix)}, here {_format_weights(result, used, prefix)}; layers share "
            "the weights whose names and shapes are the same, and the kernel of Dense the embeddings of Embedding"
        )
    others[node.name] = used


def _format_weights(result: Trace, names: set[str], prefix: str) -> str:
    specs = {n: w.spec for n, w in result.weights.items() if n in names}
    return ", ".join(f"{n.removeprefix(prefix)} {list(s.shape)}" for n, s in specs.items())


def explain_error(result: Trace, node: LayerNode, exc: Exception | str, with_place: bool = False) -> str:
    """The message of a layer's error or warning, with the layer's name and the shapes it reads."""
    reads = ", ".join(f"{b} {format_shape(result.values[b].shape)}" for b in node.bottoms)
    text = f"layer {node.name!r} ({type(node.layer).__name__}): {exc}" + (f"; it reads {reads}" if reads else "")
    if with_place and node.span is not None:
        text = f"{node.span}: {text}" + (f" ({format_chain(node.chain)})" if node.chain is not None else "")
    return text


def format_shape(shape: tuple[int, ...]) -> str:
    """A shape without its batch dimension, as it is written in a model text."""
    return str(list(shape[1:]))
