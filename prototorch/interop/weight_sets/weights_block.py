"""The ``weights { }`` block of a model text: which weights the model begins with."""

from __future__ import annotations

from typing import Any, Literal

from prototorch.interop.matching.rules import Rules
from prototorch.schema import Block, ListOf, example, field
from prototorch.schema.patterns import Pattern

__all__ = ["Weights"]


class Weights(Block):
    """The weights that a model begins with: ``weights { source: "imagenet" }``.

    They are loaded once, when a model is made from its text; never when a saved model is opened or a training resumed.
    From Python: ``load_model("resnet50", weights=Weights("imagenet", except_=["logits"]))``.
    """

    display_name = "weights"

    source: str = field(
        doc='Name of a weight set ("torchvision/resnet50-v2") or an alias of one ("imagenet"), the path of a file, '
        "relative to the model file, or an address."
    )
    except_: tuple[str, ...] = field(
        (), type=ListOf(Pattern()), doc="Patterns of the weights, or layers, that are initialized as without the file."
    )
    rules: Rules | None = field(None, doc="How the file's names are mapped to the model's; none: as its set declares.")
    preprocess: Literal["set", "text"] = field(
        "set", doc="Whose preprocessing the model has: that of the weight set, where it declares one, or the text's."
    )

    foreign_fields = {
        **dict.fromkeys(("path", "file", "name", "set", "address", "url", "from"), "source"),
        **dict.fromkeys(("exclude", "skip", "ignore"), "except"),
    }
    examples = [
        example('weights { source: "imagenet" }'),
        example('weights { source: "torchvision/resnet50-v1"  except: "logits/*" }'),
        example('weights { source: "trained.pth"  rules { map { from: "fc"  to: "logits" } } }'),
    ]

    @classmethod
    def coerce(cls, value: Any) -> Weights | None:
        """A string is the source; an object with a ``url`` (torchvision's enums) that address."""
        if isinstance(value, str):
            return cls(source=value)
        url = getattr(value, "url", None)
        return cls(source=url) if isinstance(url, str) else None
