"""The names of the tape's nodes, as PyTorch names its gradients: ``MulBackward0``."""

from __future__ import annotations

__all__ = ["node_name"]

#: ops whose name in PyTorch is another one
_NAMES = {
    "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "negative": "Neg", "matmul": "Mm",
    "concat": "Cat", "reshape": "View", "transpose": "Permute", "broadcast_to": "Expand", "cast": "ToCopy",
    "square": "Pow", "max": "Amax", "min": "Amin", "take_along_axis": "Gather",
}  # fmt: skip


def node_name(op: str) -> str:
    """The name of the node of an op."""
    if op == "view_update":
        return "CopySlices"
    return f"{_NAMES.get(op) or ''.join(part.capitalize() for part in op.split('_'))}Backward0"
