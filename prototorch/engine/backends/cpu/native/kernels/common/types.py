"""The types in the signatures of kernels."""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.cpu.native.ir_builder import Int64, Num
from prototorch.spec import Spec

__all__ = ["Attrs", "Index", "Mask", "Specs"]

#: the specs of a step's inputs or outputs
Specs = tuple[Spec, ...]
#: the attributes of an op
Attrs = dict[str, Any]
#: an index that is known when the code is emitted, or at run time
Index = int | Int64
#: the lanes of a vector that are loaded or stored; None for all
Mask = Num | None
