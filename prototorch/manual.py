"""The manual: pages made from the declarations."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from prototorch.constraints import Constraint
from prototorch.data.declare import Data
from prototorch.errors import UsageError, did_you_mean
from prototorch.initializers import Initializer
from prototorch.layers import Layer
from prototorch.losses import Loss
from prototorch.metrics import Metric
from prototorch.optim import Optimizer, Schedule
from prototorch.regularizers import Regularizer
from prototorch.schema import Block
from prototorch.text.names import snake_case
from prototorch.train.callbacks import Callback
from prototorch.train.declare import Compile, Fit

_FAMILIES: dict[str, Any] = {
    "layers": Layer, "losses": Loss, "metrics": Metric, "optimizers": Optimizer, "schedules": Schedule,
    "callbacks": Callback, "initializers": Initializer, "regularizers": Regularizer, "constraints": Constraint,
}  # fmt: skip
_BLOCKS = {"compile": Compile, "fit": Fit, "data": Data}


def families() -> dict[str, list[type[Block]]]:
    """All declared classes by family, public ones only, by name."""
    return {
        name: [c for c in root.members().values() if not c.__name__.startswith("_")] for name, root in _FAMILIES.items()
    }


@dataclass
class Page:
    """A manual page: of one class, from its docstring, its fields and its examples."""

    block: type[Block]
    family: str

    def fields(self) -> list[dict[str, Any]]:
        """Each field with its type, default and meaning."""
        made = []
        defaults = {}
        for name, spec in self.block.specs().items():
            if not spec.required:
                raw = spec.default
                defaults[name] = getattr(raw, "value", raw)
            shown = "required" if spec.required else _text(defaults[name])
            made.append({"name": name, "type": spec.type.label(), "default": shown, "doc": spec.doc})
        return made

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.block.__name__,
            "family": self.family,
            "doc": inspect.getdoc(self.block) or "",
            "fields": self.fields(),
            "examples": [e.text for e in self.block.examples],
        }

    def __str__(self) -> str:
        lines = [f"{self.block.__name__} ({self.family.rstrip('s') if self.family != 'losses' else 'loss'})", ""]
        lines += [inspect.getdoc(self.block) or "", ""]
        fields = self.fields()
        if fields:
            lines.append("Fields:")
            wide = max(len(f["name"]) for f in fields)
            for f in fields:
                said = f": {f['doc']}" if f["doc"] else ""
                lines.append(f"  {f['name']:{wide}}  {f['type']}, {f['default']}{said}")
            lines.append("")
        if self.block.examples:
            lines += ["Examples:", *(f"  {e.text}" for e in self.block.examples)]
        return "\n".join(lines).rstrip()


def _text(value: Any) -> str:
    if isinstance(value, Block):
        return snake_case(type(value).__name__)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def page(name: str) -> Page:
    """The manual page of a name, in any family. Raises UsageError with the nearest known name."""
    if name in _BLOCKS:
        return Page(_BLOCKS[name], "block")
    known: list[str] = list(_BLOCKS)
    for family, root in _FAMILIES.items():
        names = root._family.names
        if name in names:
            return Page(names[name], family)
        known += names
    raise UsageError(f"there is no manual page for {name!r}.{did_you_mean(name, known)} `prototorch layers` lists all")
