"""How PyTorch's modules store the weights of our layers, by the names of a ``state_dict``: the weights of all rows.

Source: torch.nn's documentation of each module.
"""

from __future__ import annotations

from prototorch.interop.counterparts.row import counterpart_rows
from prototorch.interop.counterparts.torch.row import LAYOUTS, TorchRow

__all__ = ["LAYOUTS"]

for _row in counterpart_rows(LAYOUTS.system):
    assert isinstance(_row, TorchRow)
    if _row.weights or _row.layouts is not None:
        LAYOUTS.register(*_row.layers)(_row.weight_layouts)
    for _variant in _row.variants:
        LAYOUTS.register_variant(*_row.layers)(_variant)
