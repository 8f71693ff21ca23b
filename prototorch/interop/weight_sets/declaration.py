"""`WeightSet`: where published weights of a model are, what they are worth, and what they need."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.layers.base import Layer
from prototorch.model.name_rules import Rules
from prototorch.schema import Block, example, field
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields

__all__ = ["WeightSet", "describe_layers"]


class WeightSet(Block):
    """Published weights of a model, declared in ``weights/MODEL.proto`` beside the model's text.

    Nothing is stated that its publisher does not state: a digest, a size or an accuracy that was not published is left
    out. A set whose address is ``file:`` with a relative path lies beside its declaration, and needs no network.
    """

    display_name = "weight_set"

    name: str = field(doc='Name of the set, "SOURCE/NAME".')
    alias: list[str] = field([], doc='Other names among the sets of its model, such as "imagenet".')
    model: str = field(doc="Name of the model text that the weights belong to.")
    replaces: str | None = field(
        None,
        doc="Name of the model for which `pt.models` gives this one when pretrained weights are wanted.",
    )
    address: str = field(
        doc="URL of the file: https:, or file: with a path, relative to the declaration unless it begins with /."
    )
    digest: str | None = field(
        None, doc='Its published digest: "sha256:" with all 64 digits or the first 8, "sha1:" with 40, "md5:" with 32.'
    )
    mebibytes: float | None = field(None, above=0, doc="Its published size, in MiB.")
    format: str = field(doc="Format of the file, as its reader is named, and for people.")
    system: str = field(doc="The system whose names and layouts the file has: torch, keras, caffe, nnabla, prototorch.")
    license: str = field(doc="What its publisher states of the licence.")
    trained_by: str = field(doc="Who trained the weights.")
    recipe: str | None = field(None, doc="URL of a description of the training.")
    dataset: str | None = field(None, doc="What they were trained on, and what the accuracies are of.")
    top1: float | None = field(None, min=0, max=100, doc="Published top-1 accuracy, in percent.")
    top5: float | None = field(None, min=0, max=100, doc="Published top-5 accuracy, in percent.")
    classes: str | None = field(None, doc="Name of the list of its classes, a file in the folder classes beside it.")
    preprocess: list[Layer] = field([], doc="The preprocessing that it was trained for; replaces the model's.")
    rules: Rules = field(Rules(), doc="How its names are mapped to the model's.")

    examples = [
        example(
            'weight_set { name: "torchvision/alexnet"  alias: ["imagenet"]  model: "alexnet_torchvision"  '
            'address: "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"  digest: "sha256:7be5be79"  '
            'format: "PyTorch"  system: "torch"  license: "none stated"  trained_by: "torchvision"  '
            'rules { map { from: "classifier.6"  to: "logits" } } }'
        )
    ]

    def check(self) -> None:
        """A name of two parts, a digest of a known form, and an address that can be opened."""
        source, _, name = self.name.partition("/")
        if not source or not name or "/" in name:
            self.refuse(f"the name of a set is SOURCE/NAME, not {self.name!r}", "name")
        kind, _, digits = (self.digest or "md5:" + 32 * "0").partition(":")
        lengths = {"sha256": (8, 64), "sha1": (40,), "md5": (32,)}.get(kind, ())
        if len(digits) not in lengths or set(digits) - set("0123456789abcdef"):
            self.refuse(
                f"expected sha256: with 64 or 8 hexadecimal digits, sha1: with 40, or md5: with 32, got "
                f"{self.digest!r:.80}",
                "digest",
            )
        schemes = ("https://", "file:", *(("http://",) if self.digest else ()))
        if not self.address.startswith(schemes):
            self.refuse(
                f"expected an address that begins with https:// or file:, or with http:// beside a digest, got "
                f"{self.address!r:.80}",
                "address",
            )

    def describe(self) -> str:
        """One line: who trained it, on what, with which accuracy."""
        accuracies = [f"top-{k} {value:g} %" for k, value in ((1, self.top1), (5, self.top5)) if value is not None]
        parts = [f"by {self.trained_by}", *([f"on {self.dataset}"] if self.dataset else []), *accuracies]
        return ", ".join(parts)


def describe_layers(layers: Sequence[Layer]) -> str:
    """Layers as a text writes them, in one line."""
    fields = [Field(type(layer).__name__, Body(tuple(layer.to_fields()))) for layer in layers]
    return " ".join(format_fields(fields).split()) or "none"
