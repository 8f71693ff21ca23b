"""Tensors as text, in PyTorch's form: four digits, aligned, large ones in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prototorch.eager.dtype import get_default_dtype
from prototorch.errors import UsageError

__all__ = ["PrintOptions", "elements_as_text", "print_options", "set_printoptions", "tensor_as_text"]


class PrintOptions:
    """How tensors are printed.

    precision: digits behind the point. threshold: elements from which on a part is printed. edgeitems: how many at each
    end of a dimension are printed then. linewidth: characters of a line. sci_mode: whether numbers have exponents; None
    where the elements decide.
    """

    def __init__(self) -> None:
        self.precision, self.threshold, self.edgeitems, self.linewidth = 4, 1000, 3, 80
        self.sci_mode: bool | None = None


print_options = PrintOptions()
_PROFILES: dict[str, tuple[int, float, int, int]] = {
    "default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, float("inf"), 3, 80),
}  # fmt: skip


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors are printed (see `PrintOptions`). profile: "default", "short" or "full", which the other
    arguments change."""
    options = print_options
    if profile is not None:
        if profile not in _PROFILES:
            raise UsageError(f"set_printoptions: profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
        options.precision, options.threshold, options.edgeitems, options.linewidth = _PROFILES[profile]  # type: ignore[assignment]
    for name, value in (
        ("precision", precision),
        ("threshold", threshold),
        ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):
        if value is not None:
            if not isinstance(value, int | float) or value < 0:
                raise UsageError(f"set_printoptions: {name} must be 0 or more, got {value!r}")
            setattr(options, name, value)
    options.sci_mode = sci_mode


def _format_of(part: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """The function that writes an element of an array, and the width of the finite ones."""
    if part.dtype.kind != "f":
        width = max((len(str(v)) for v in part.reshape(-1).tolist()), default=1)
        return (lambda v: str(v).rjust(width)), width
    numbers = part[np.isfinite(part) & (part != 0)].astype(np.float64)
    digits = print_options.precision
    is_whole = bool((numbers == np.ceil(numbers)).all())
    large, small = (np.abs(numbers).max(), np.abs(numbers).min()) if numbers.size else (0.0, 1.0)
    has_exponent = large / small > 1000 or large > 1e8 or (small < 1e-4 and not is_whole)
    if print_options.sci_mode is not None:
        has_exponent = print_options.sci_mode

    def write(v: float) -> str:
        if has_exponent:
            return f"{v:.{digits}e}"
        if is_whole:
            return f"{v:.0f}." if np.isfinite(v) else f"{v:.0f}"
        return f"{v:.{digits}f}"

    width = max((len(write(v)) for v in numbers.tolist()), default=1)
    return (lambda v: write(v).rjust(width)), width


def elements_as_text(array: np.ndarray, indent: int = 0) -> str:
    """The elements of an array in nested brackets; lines after the first begin with ``indent`` spaces."""
    if array.dtype.kind not in "fiub":
        array = array.astype(np.float32)
    if not array.size:
        return "[]"
    edge = print_options.edgeitems
    in_part = array.size > print_options.threshold
    part = array
    for axis in range(array.ndim if in_part else 0):
        if array.shape[axis] > 2 * edge:
            last = array.shape[axis] - np.arange(edge, 0, -1)
            part = part.take(np.concatenate([np.arange(edge), last]), axis)
    write, width = _format_of(part)
    return _nested(array, write, width, indent, edge if in_part else None)


def _nested(array: np.ndarray, write: Callable[[Any], str], width: int, indent: int, edge: int | None) -> str:
    if not array.ndim:
        return write(array.item())
    is_cut = edge is not None and len(array) > 2 * edge
    first, last = (array[:edge], array[len(array) - (edge or 0) :]) if is_cut else (array, array[:0])
    if array.ndim == 1:
        words = [write(v) for v in first.tolist()] + [" ..."] * is_cut + [write(v) for v in last.tolist()]
        per_line = max((print_options.linewidth - indent) // (width + 2), 1)
        lines = [", ".join(words[k : k + per_line]) for k in range(0, len(words), per_line)]
        return "[" + f",\n{' ' * (indent + 1)}".join(lines) + "]"
    parts = [_nested(a, write, width, indent + 1, edge) for a in first] + ["..."] * is_cut
    parts += [_nested(a, write, width, indent + 1, edge) for a in last]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def tensor_as_text(tensor: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``: elements and what is not the default."""
    prefix, notes = "tensor(", []
    array = tensor.numpy()
    if tensor.device.type != "cpu":
        notes.append(f"device='{tensor.device}'")
    is_default = tensor.dtype == get_default_dtype() or (tensor.dtype in ("int64", "bool") and bool(array.size))
    if not array.size and array.ndim != 1:
        notes.append(f"size={tuple(array.shape)}")
    if not is_default:
        notes.append(f"dtype={tensor.dtype!r}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    text = prefix + elements_as_text(array, len(prefix))
    line = len(text) - text.rfind("\n") + 1
    for note in notes:
        if line + len(note) + 2 > print_options.linewidth:
            text, line = f"{text},\n{' ' * len(prefix)}{note}", len(prefix) + len(note)
        else:
            text, line = f"{text}, {note}", line + len(note) + 2
    return text + ")"
