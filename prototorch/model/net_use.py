"""The layer ``Net`` of a text: its fields."""

from __future__ import annotations

from prototorch.schema import Block, Identifier, ListOf, Str, example, field
from prototorch.schema.call_schema import class_schema
from prototorch.schema.patterns import Pattern
from prototorch.text.call_schema import SchemaSource
from prototorch.text.nested_net import NET_WORD

__all__ = ["OWN_WEIGHTS", "NetUse"]

OWN_WEIGHTS = "own"


class NetUse(Block):
    """Another net as a layer: ``Net("lenet", weights: "fashion-mnist", output: "dense_1", trainable: false)``.

    Its layers are layers of this net, with the name of the use in front of theirs (``lenet/dense_1``): a saved model,
    ``show --expanded`` and exports know nothing else. It reads as many outputs as its text has inputs. Its ``compile``,
    ``fit`` and ``augment`` are left out; its ``preprocess`` is the model's where this text has none. Params of its text
    are set by their names, ``Net("vit", classes: 3)``; ``params { name: 3 }`` sets one that has the name of a field.
    """

    display_name = NET_WORD
    positional = ("source",)

    source: str = field(
        doc="Name of a model that comes with prototorch, or the path of a text (.proto) or of a saved model (.h5), "
        "relative to this text and not outside its folder."
    )
    name: str | None = field(
        default=None, type=Identifier(), doc="What its layers' names begin with; default: the name of its source."
    )
    weights: str | None = field(
        default=OWN_WEIGHTS,
        doc='What it begins with: a weight set or an alias of one ("imagenet"), a file, an address; own: what its text '
        "says, or the arrays of a saved model; none: initialized anew.",
    )
    digest: str | None = field(default=None, doc="Digest of the file of its weights, as in weights { }.")
    except_: tuple[str, ...] = field(
        default=(),
        type=ListOf(Pattern()),
        doc="Patterns of its weights, or layers, that are initialized as without the file, as in weights { }.",
    )
    output: tuple[str, ...] = field(
        default=(),
        type=ListOf(Str()),
        doc="The layers, by names, patterns or blocks, whose outputs it gives; layers behind them are left out. "
        "Default: that of its text.",
    )
    trainable: bool = field(default=True, doc="Whether its weights are trained.")
    lr_mult: float = field(default=1.0, min=0, doc="A factor on the learning rate of its weights.")
    decay_mult: float = field(default=1.0, min=0, doc="A factor on the weight decay of its weights.")
    shared_weights: str | None = field(
        default=None, type=Identifier(), doc="A name under which all its weights are shared with other uses of the net."
    )

    foreign_fields = {
        **dict.fromkeys(("path", "file"), "source"),
        **dict.fromkeys(("pretrained", "checkpoint"), "weights"),
    }
    examples = [
        example('Net { source: "lenet"  weights: "fashion-mnist"  output: "dense_1"  trainable: false }'),
        example('Net { source: "trained.h5"  name: "base"  output: "features"  lr_mult: 0.1 }'),
    ]

    @classmethod
    def input_range(cls) -> tuple[int, int | None]:
        """How many inputs it may have: as many as its text."""
        return 0, None

    def check(self) -> None:
        """A digest and exceptions, which weights without a file cannot have."""
        if self.digest is not None and self.weights is None:
            self.refuse("weights: none loads no file that could have a digest", "digest")
        if self.except_ and self.weights is None:
            self.refuse("weights: none loads no file from which something is left out", "except_")


NET_SCHEMA = SchemaSource(name="Net", find=lambda _: class_schema(NetUse))
