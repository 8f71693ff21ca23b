"""The root of all layers.

A layer declares its fields by annotations; its `call` is written in ops. It knows neither arrays nor gradients nor its
own output shape: those follow from the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, ClassVar, Literal, Self

from prototorch.errors import UsageError
from prototorch.layers.context import Context, DecodingContext
from prototorch.layers.foreign_names import FIELD_HINTS, LAYER_HINTS
from prototorch.layers.keras_arguments import LAYER_ARGUMENTS
from prototorch.layers.layer_output import layer_symbols
from prototorch.layers.weight_share import WeightReference, WeightShare
from prototorch.layers.weight_source import set_weight_source, weight_source
from prototorch.schema import Block, Identifier, field
from prototorch.schema.overrides import CONFIG_METHODS, check_call, refuse_overrides

MaskPolicy = Literal["keep", "use", "end"]


_CALL_HINT = "define `call(self, ctx, x)` in ops; ctx has the weights and the phase (docs/extending.md)"
_WEIGHTS_HINT = 'in `call`, ctx.weight("kernel", shape, initializer) makes a weight and gives it (docs/extending.md)'


class Layer(Block, family="layer"):
    """A layer. Subclasses declare fields and define `call`."""

    foreign_names = LAYER_HINTS
    foreign_fields = FIELD_HINTS
    neutral_arguments = LAYER_ARGUMENTS
    keyword_only: ClassVar[tuple[str, ...]] = ("name", "trainable", "weights", "lr_mult", "decay_mult", "share")
    #: the number of inputs: an integer, or a pair (minimum, maximum), maximum None for any number
    inputs: ClassVar[int | tuple[int, int | None]] = 1
    #: the number of outputs; `call` returns a tuple if there is more than one
    outputs: ClassVar[int] = 1
    #: what becomes of its inputs' masks. "keep": the first input's is the mask of its outputs, too. "use": `call` reads
    #: the masks and sets those of its outputs. "end": it takes no masks; where it meets one, a warning says so.
    mask_policy: ClassVar[MaskPolicy] = "end"
    #: whether outside training each element of the output is one of the input, a mean of some, or a border
    keeps_bounds: ClassVar[bool] = False
    #: whether outside training an element of the output follows from the one at the same place of the input alone, all
    #: elements being treated alike but for weights: the axes, and the features, may then be in any order
    keeps_positions: ClassVar[bool] = False
    #: whether outside training a step of the output [batch, steps, ...] follows from the same step of the inputs alone,
    #: all steps being treated alike, as with ``keeps_positions``; else `decode_steps` is its own
    independent_steps: ClassVar[bool] = False
    #: whether the features of the input end here: an element of the output follows from all of them (Dense, recurrent
    #: layers, attention), or the output's axes have another meaning (Embedding, Permute)
    consumes_features: ClassVar[bool] = False
    #: whether it is over images, [batch, channels, rows, columns], and has no `rank`
    over_images: ClassVar[bool] = False
    #: of a layer that names or implies an axis of features, channels or classes, and does not follow ``data_format``:
    #: which axis it is, and why; "" for one that follows (`channels.ChannelAxisLayer`) or treats all elements alike
    channel_axis_note: ClassVar[str] = ""
    #: whether inputs of any scale are brought to a common one
    normalizes: ClassVar[bool] = False
    #: whether each element of an output is one of an input, in training as well, so that zeros stay zeros
    moves_elements: ClassVar[bool] = False
    #: the axis of the output along which its field ``use_bias`` adds one number each; None: it has no such bias
    bias_axis: ClassVar[int | None] = None
    #: the word for it in names of blocks of generated texts ("bn"); "": its own name
    block_word: ClassVar[str] = ""
    #: whether it is written behind the layer that it belongs to, and so rarely begins a block (activations, pooling)
    follows_layer: ClassVar[bool] = False
    #: the function of symbolic tensors that the layer is, by its name in `prototorch` ("add"): ``x + y`` of symbols in
    #: a model is an Add. A string written there, for the index reads it.
    symbolic_function: ClassVar[str] = ""
    #: a matrix of its own that it may share, transposed, with a layer of another type under one ``weights`` name
    transposable_weight: ClassVar[str | None] = None
    #: fields that the layers of this name in other systems do not have; at their defaults it is the same layer there
    own_fields: ClassVar[frozenset[str]] = frozenset()
    #: model texts of the layer with input shapes: documentation and tests at once
    examples: ClassVar[list[Any]] = []
    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(("build", "add_weight", "reset_parameters"), _WEIGHTS_HINT),
        **dict.fromkeys(("forward", "__call__", "symbolic_call", "stateless_call"), _CALL_HINT),
        **dict.fromkeys(
            ("compute_output_shape", "compute_output_spec"), "the output's shape follows from the ops of `call`"
        ),
        "compute_mask": "the class attribute mask_policy says what becomes of masks, `call` reads and sets them by ctx",
        "add_loss": "in `call`, ctx.add_loss(value) adds to the loss of training",
    }
    undeclared_values = {"transpose": WeightReference, "weight": WeightReference}
    setattr_hints = {
        "trainable": "model.set_trainable(False, 'layer') says it of a layer in a model, or use .replace(...)"
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises UsageError for methods as in Keras or PyTorch, which nothing would call; see `Block`."""
        if "family" not in kwargs:
            refuse_overrides(cls, cls.methods_without_effect)
            check_call(cls, cls.input_range()[0], _CALL_HINT)
        super().__init_subclass__(**kwargs)

    name: str | None = field(default=None, type=Identifier(), doc="The layer's name; default: its type and a number.")
    trainable: bool = field(default=True, doc="Whether its weights are trained.")
    weights: str | None = field(
        default=None, type=Identifier(), doc="A name under which the weights are shared with other layers."
    )
    lr_mult: float = field(default=1.0, min=0, doc="A factor on the learning rate of its weights.")
    decay_mult: float = field(default=1.0, min=0, doc="A factor on the weight decay of its weights.")
    share: tuple[WeightShare, ...] = field(default=(), doc="Weights that are weights of layers before it, one by one.")

    @property
    def stated_input_shape(self) -> tuple[int, ...] | None:
        """What ``input_shape=`` or ``input_dim=`` gave, for the first layer of a `Sequential`."""
        return self.__dict__.get("_stated_input_shape")

    @classmethod
    def take_other_arguments(cls, options: dict[str, Any]) -> dict[str, Any]:
        """See `Block.take_other_arguments`: Keras' old arguments ``input_shape`` and ``input_dim``."""
        shape = options.pop("input_shape", None) if "input_shape" not in cls.specs() else None
        if "input_dim" in options and "input_dim" not in cls.specs():
            shape = (options.pop("input_dim"),)
        if shape is None:
            return {}
        is_shape = isinstance(shape, list | tuple) and all(isinstance(n, int) and n > 0 for n in shape)
        if not is_shape:
            raise UsageError(f"{cls.__name__}: input_shape must be a list of positive integers, not {shape!r:.60}")
        return {"_stated_input_shape": tuple(shape)}

    @property
    def output(self) -> Any:
        """What the layer of a model gives, as a symbolic tensor (several: a list); for ``pt.Model(model.input, ...)``.

        Raises UsageError for a layer that is not from ``model.get_layer`` or ``model.layers``."""
        outputs = layer_symbols(self)[1]
        return outputs[0] if len(outputs) == 1 else list(outputs)

    @property
    def input(self) -> Any:
        """What the layer of a model reads, as a symbolic tensor (several: a list); as `output`."""
        inputs = layer_symbols(self)[0]
        return inputs[0] if len(inputs) == 1 else list(inputs)

    def call(self, ctx: Context, *inputs: Any) -> Any:
        """The outputs, computed with ops. Inputs have the batch dimension first; maps of channels have those second."""
        raise TypeError(f"{type(self).__name__} does not define call")

    def record(self, ctx: Context, *inputs: Any) -> Any:
        """As `call`, on inputs as they lie in the net; `MapLayer` transposes them for `call`."""
        return self.call(ctx, *inputs)

    def decode_steps(self, ctx: DecodingContext, *inputs: Any) -> Any:
        """The outputs at the next steps of sequences: as `record` would give them for whole sequences.

        Raises ShapeError where they need more than the inputs at these steps, and the layer keeps nothing of others.
        """
        self.check_independent_steps(ctx, self.keeps_positions or self.independent_steps, *inputs)
        return self.record(ctx, *inputs)

    def check_independent_steps(self, ctx: DecodingContext, holds: bool, *inputs: Any) -> None:
        """Raise ShapeError unless the steps are independent, and all inputs follow from the sequences."""
        if not holds or not all(map(ctx.is_stream, inputs)):
            ctx.fail("its output at a step cannot be computed from what is kept of the steps before it")

    def with_data_format(self, data_format: Literal["channels_first", "channels_last"]) -> Self:
        """A copy in which this, and the layers inside, have this ``data_format`` where they state none."""
        return self._with_inner_layers(lambda layer: layer.with_data_format(data_format))

    def without_data_format(self, data_format: Literal["channels_first", "channels_last"]) -> Self:
        """A copy in which this, and the layers inside, do not state this ``data_format``."""
        return self._with_inner_layers(lambda layer: layer.without_data_format(data_format))

    def _with_inner_layers(self, change: Callable[[Layer], Layer]) -> Self:
        changes: dict[str, Any] = {}
        for name, value in self.field_values().items():
            if isinstance(value, Layer):
                changes[name] = change(value)
            elif isinstance(value, tuple) and value and all(isinstance(v, Layer) for v in value):
                changes[name] = tuple(map(change, value))
        changes = {name: value for name, value in changes.items() if value != getattr(self, name)}
        return self.replace(**changes) if changes else self

    def replace(self, **changes: Any) -> Self:
        """A copy with other values in some fields. That of a layer of a model has the model's weights where only
        fields of every layer change (``name``, ``trainable``, ...); else it starts with new ones."""
        new = super().replace(**changes)
        source = weight_source(self)
        if source is not None and changes.keys() <= Layer.specs().keys():
            set_weight_source(new, source)
        return new

    def output_count(self) -> int:
        """The number of outputs of this layer with its field values."""
        return type(self).outputs

    def index_count(self) -> int | None:
        """The number of distinct indices if the input holds indices from 0 on (an embedding), else None.

        Data that feed the layer directly are checked against it before the first step.
        """
        return None

    def output_bounds(self, low: float, high: float) -> tuple[float, float] | None:
        """Bounds of the output's elements for inputs from ``low`` to ``high``, which may be infinite.

        A layer with weights has those of its activation for any input. None: they depend on weights.
        """
        if self.keeps_bounds:
            return low, high
        activation = getattr(self, "activation", None)
        return None if activation is None else activation.output_bounds(-inf, inf)

    def own_settings(self) -> list[str]:
        """The fields among `own_fields`, and ``share``, that do not have their default here."""
        specs = type(self).specs()
        names = sorted({*self.own_fields, "share"})
        return [name for name in names if getattr(self, name) != specs[name].default]

    @classmethod
    def input_range(cls) -> tuple[int, int | None]:
        """The minimum and maximum number of inputs; maximum None for any number."""
        return (cls.inputs, cls.inputs) if isinstance(cls.inputs, int) else cls.inputs

    @classmethod
    def input_count_error(cls, count: int) -> str | None:
        """What is wrong with this number of inputs, None where it is right."""
        least, most = cls.input_range()
        if least <= count and (most is None or count <= most):
            return None
        expected = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        return f"it reads {expected} input{'s' * (expected != '1')}, not {count}"

    def __call__(self, *inputs: Any) -> Any:
        """Apply the layer: to symbols (`Input`, outputs of other layers) it adds a node, to tensors it runs.

        Raises UsageError for other values, and for another number of symbols than it reads.
        """
        taker = next((t for x in _flatten(inputs) if (t := getattr(x, "apply_layer", None)) is not None), None)
        if taker is None:
            raise UsageError(
                f"{type(self).__name__} is called with symbols (pt.Input(shape), outputs of layers) or tensors "
                f"(pt.tensor(array)), not {_type_names(inputs)}"
            )
        return taker(self, tuple(_flatten(inputs)))


def _flatten(inputs: Any) -> list[Any]:
    return [v for x in inputs for v in (_flatten(x) if isinstance(x, list | tuple) else [x])]


def _type_names(inputs: Any) -> str:
    names = ["an empty list" if isinstance(x, list | tuple) and not x else type(x).__name__ for x in inputs]
    return ", ".join(names) or "nothing"
