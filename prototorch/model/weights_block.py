"""The ``weights { }`` block of a model text: which weights the model begins with."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from prototorch.engine.storage.container import is_container
from prototorch.errors import UsageError
from prototorch.model.name_rules import Rules
from prototorch.schema import Block, Identifier, ListOf, example, field
from prototorch.schema.block_source import find_span
from prototorch.schema.call_schema import class_schema
from prototorch.schema.patterns import Pattern
from prototorch.text.call_schema import SchemaSource

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
    digest: str | None = field(
        None,
        doc='Digest of the file, "sha256:" with 64 digits or the first 8 or more of them; another file at its place is '
        "an error.",
    )
    except_: tuple[str, ...] = field(
        (), type=ListOf(Pattern()), doc="Patterns of the weights, or layers, that are initialized as without the file."
    )
    rules: Rules | None = field(None, doc="How the file's names are mapped to the model's; none: as its set declares.")
    system: Literal["torch", "keras", "prototorch"] | None = field(
        None, doc="The system whose layouts the arrays have; none: the one that the file tells, or the shapes."
    )
    data_format: Literal["channels_last", "channels_first"] | None = field(
        None, doc="The order of the axes of Keras' images, for a file that does not tell it."
    )
    into: str | None = field(
        None,
        type=Identifier(),
        doc="What the names of the layers that they are of begin with: the name of a net in the net, or of a block; "
        "none: all layers.",
    )
    model: str | None = field(
        None, doc="Name of the model that has a set of this alias; none: the net's own. It goes with into."
    )
    partial: bool = field(
        False, doc="Whether the file may have weights of layers that are not here. It goes with into."
    )
    preprocess: Literal["set", "text"] = field(
        "set", doc="Whose preprocessing the model has: that of the weight set, where it declares one, or the text's."
    )

    foreign_fields = {
        **dict.fromkeys(("path", "file", "name", "set", "address", "url", "from"), "source"),
        **dict.fromkeys(("exclude", "skip", "ignore"), "except"),
    }
    examples = [
        example('weights { source: "imagenet" }'),
        example('weights { source: "trained.h5"  digest: "sha256:9f86d081" }'),
        example('weights { source: "torchvision/resnet50-v1"  except: "logits/*" }'),
        example('weights { source: "trained.pth"  rules { map { from: "fc"  to: "logits" } } }'),
        example('weights { source: "gpt2.npz"  system: "prototorch" }'),
        example('weights { source: "imagenet"  into: "backbone"  model: "resnet50"  partial: true }'),
    ]

    def check(self) -> None:
        """A digest of a known form; model and partial beside into alone."""
        if self.digest is not None and not re.fullmatch("sha256:[0-9a-f]{8,64}", self.digest):
            self.refuse(f"expected sha256: with 8 to 64 hexadecimal digits, got {self.digest!r:.80}", "digest")
        if self.into is None and (self.model is not None or self.partial):
            name = "partial" if self.model is None else "model"
            self.refuse(f"{name} goes with into, which names the layers", name)

    @classmethod
    def from_source(cls, what: Any, except_: str | Sequence[str] = (), rules: Rules | None = None) -> Weights:
        """A block for what Python calls weights: a name, an address, a path, or one of torchvision's enums (by their
        ``url``). Raises UsageError for other values."""
        if isinstance(what, Weights):
            return what
        url = getattr(what, "url", what)
        source = os.fspath(url) if isinstance(url, str | os.PathLike) else None
        if not isinstance(source, str) or not source or "\0" in source:
            raise UsageError(
                f"expected weights: a path, an address, the name of a set, or a Weights block, not {what!r:.80}"
            )
        return cls(source=source, except_=[except_] if isinstance(except_, str) else list(except_), rules=rules)

    @property
    def text_folder(self) -> str | None:
        """The folder of the text that names the source; None where the command line or Python does."""
        span = find_span(self, "source")
        return os.path.dirname(span.path) or "." if span is not None and os.path.isfile(span.path) else None

    @property
    def path(self) -> Path:
        """The path that the source stands for, where it is one: beside the text that names it, else as it is."""
        path = Path(self.source).expanduser()
        if self.text_folder is not None and (beside := Path(self.text_folder) / path).exists():
            return beside
        return path

    @property
    def is_saved_file(self) -> bool:
        """Whether the source is the path of a file of `Model.save`, and of no set."""
        return "://" not in self.source and os.path.isfile(self.path) and is_container(self.path)


WEIGHTS_SCHEMA = SchemaSource(name="weights", find=lambda _: class_schema(Weights))
