"""Manual pages, generated from the declarations of blocks."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

from prototorch.constraints import Constraint
from prototorch.data.data_block import Data
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.input_spec import NetInput
from prototorch.initializers import Initializer
from prototorch.layers import Layer
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.model.net_use import NetUse
from prototorch.model.weights_block import Weights
from prototorch.optimizers.base import Optimizer
from prototorch.optimizers.schedules.base import Schedule
from prototorch.regularizers import Regularizer
from prototorch.schema import Block, example
from prototorch.schema.types import text_name
from prototorch.text.case_conversion import snake_case
from prototorch.text.keywords import KEYWORDS, LAYER_WORDS, TOP_LEVEL
from prototorch.train.callbacks import Callback
from prototorch.train.config import Compile, Fit, OutputLoss, OutputMetric

FAMILIES: dict[str, Any] = {
    "layers": Layer, "losses": Loss, "metrics": Metric, "optimizers": Optimizer, "schedules": Schedule,
    "callbacks": Callback, "initializers": Initializer, "regularizers": Regularizer, "constraints": Constraint,
}  # fmt: skip


class _Preprocess(Block):
    """Layers that are applied to every sample before the net, in training, evaluation and prediction.

    They make the net's first input of what the data hold: ``preprocess { Rescaling { scale: $(1 / 255) } }``. They have
    no weights. Random layers belong into ``augment``, which runs next, in training only.
    """

    display_name = "preprocess"
    examples = (example("preprocess { Resizing { height: 224  width: 224 }  Rescaling { scale: 0.0039 } }"),)


class _Augment(Block):
    """Layers that are applied to training samples only, after ``preprocess``: random flips, crops, noise.

    They keep the shape of a sample. Their random numbers follow from the seed, the epoch and the sample.
    """

    display_name = "augment"
    examples = (
        example("augment { ZeroPadding2D { padding: 4 }  RandomCrop { height: 32  width: 32 }  RandomFlip { } }"),
    )


_BLOCKS = {
    "input": NetInput, "Net": NetUse, "preprocess": _Preprocess, "augment": _Augment, "weights": Weights,
    "compile": Compile, "fit": Fit, "data": Data, "loss": OutputLoss, "metrics": OutputMetric,
}  # fmt: skip
_SINGULAR = {"losses": "loss"}
_PAGE_ALIASES = {
    "accuracy": "metrics",
    "acc": "metrics",
    "validation": "data",
    "optimizer": "compile",
    "callbacks": "fit",
}
PAGE_WIDTH = 110  # of a page


def list_families() -> dict[str, list[type[Block]]]:
    """All declared classes by family, public ones only, by name."""
    return {
        name: [c for c in root.members().values() if not c.__name__.startswith("_")] for name, root in FAMILIES.items()
    }


def list_sections() -> dict[str, type[Block]]:
    """The classes of the blocks that a text has besides layers, by the words that begin them."""
    return dict(_BLOCKS)


@dataclass
class Page:
    """A manual page: of one class, from its docstring, its fields and its examples."""

    block: type[Block]
    family: str

    def fields(self) -> list[dict[str, Any]]:
        """Each field with its type, default and meaning."""
        rows = []
        for name, spec in self.block.specs().items():
            default = "required" if spec.required else _format_default(getattr(spec.default, "value", spec.default))
            kind = f"{spec.type.label()}{_format_bounds(spec.type)}"
            rows.append({"name": text_name(name), "type": kind, "default": default, "doc": spec.doc})
        return rows

    @property
    def title(self) -> str:
        """The name as a text writes it, and its family."""
        if self.family == "block":
            return f"{vars(self.block).get('display_name') or self.block.__name__} {{ }}"
        return f"{self.block.__name__} ({_SINGULAR.get(self.family, self.family.rstrip('s'))})"

    def as_dict(self) -> dict[str, Any]:
        """The object that ``layers NAME --json`` writes of it."""
        return {
            "name": self.block.__name__,
            "family": self.family,
            "names": _accepted_names(self.block),
            "doc": inspect.getdoc(self.block) or "",
            "fields": self.fields(),
            "examples": [e.text for e in self.block.examples],
        }

    def __str__(self) -> str:
        lines = [self.title, "", inspect.getdoc(self.block) or "", ""]
        others = [name for name in _accepted_names(self.block) if name != self.block.__name__]
        if others and self.family != "block":
            lines += [f"Also written: {', '.join(others)}", ""]
        fields = self.fields()
        if fields:
            lines.append("Fields:")
            width = max(len(f["name"]) for f in fields)
            for f in fields:
                default = f["default"] if f["default"] == "required" else f"default {f['default']}"
                text = f"{f['type']}, {default}" + (f": {f['doc']}" if f["doc"] else "")
                head = f"  {f['name']:{width}}  "
                lines += textwrap.wrap(head + text, PAGE_WIDTH, subsequent_indent=" " * len(head), drop_whitespace=True)
            lines.append("")
        if self.block.examples:
            lines += ["Examples:", *(f"  {e.text}" for e in self.block.examples)]
        return "\n".join(lines).rstrip()


def _accepted_names(block: type[Block]) -> list[str]:
    """All names a text may use, the class's own first."""
    names = block.family_registry.names_of(block) if block.family_registry is not None else ()
    return list(dict.fromkeys([block.__name__, *names]))


def _format_bounds(kind: Any) -> str:
    """The bounds of a number's field, as ``" >= 1"``."""
    bounds = getattr(kind, "bounds", None) or kind
    signs = (("min", ">="), ("above", ">"), ("max", "<="), ("below", "<"))
    limits = [(sign, getattr(bounds, name, None)) for name, sign in signs]
    return "".join(f" {sign} {limit:g}" for sign, limit in limits if isinstance(limit, int | float))


def _format_default(value: Any) -> str:
    if isinstance(value, Block):
        return snake_case(type(value).__name__)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "[" + ", ".join(map(_format_default, value)) + "]" if isinstance(value, tuple) else str(value)


def find_page(name: str) -> Page:
    """The manual page of a name, in any family. Raises UsageError with the nearest known name."""
    block = _BLOCKS.get(_PAGE_ALIASES.get(name, name))
    if block is not None:
        return Page(block, "block")
    known_names: list[str] = [*_BLOCKS, *_PAGE_ALIASES]
    for family, root in FAMILIES.items():
        member = root.family_registry.find(name)
        if member is not None:
            return Page(member, family)
        known_names += root.family_registry.names()
    if name in (*KEYWORDS, *TOP_LEVEL, *LAYER_WORDS):
        raise UsageError(f"{name!r} is a word of the model language, which docs/language.md explains, and has no page")
    raise UsageError(
        f"there is no manual page for {name!r}.{did_you_mean(name, known_names)} `prototorch layers` lists all"
    )
