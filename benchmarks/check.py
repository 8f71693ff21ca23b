"""Checks that all frameworks compute the same: parameter counts, first outputs, and the losses of the first steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

#: of the largest output, and of the first loss: float32 through 50 layers, and Winograd's rounding
OUTPUT_TOLERANCE, FIRST_LOSS_TOLERANCE = 1e-3, 1e-3
#: of what a loss has changed by: rounding grows through batch normalisation over few samples (2e-3 to 5e-3 were seen
#: between two peers on ResNet-50), while a wrong gradient, momentum or decay changes all of it
LOSS_CHANGE_TOLERANCE = 0.03


def compare_parameters(ours: int, theirs: int | None) -> str | None:
    """A complaint where the numbers of parameters differ."""
    if theirs is None or theirs == ours:
        return None
    return f"it has {theirs:,} parameters, prototorch's net {ours:,}"


def compare_losses(ours: list[float], theirs: list[float]) -> str | None:
    """A complaint where the losses of the first steps differ."""
    if not np.isfinite([*ours, *theirs]).all():
        return f"losses {theirs}, prototorch's {ours}"
    change = max(abs(loss - ours[0]) for loss in ours)
    for step, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        tolerance = FIRST_LOSS_TOLERANCE * abs(mine) if step == 0 else LOSS_CHANGE_TOLERANCE * change + 1e-5 * abs(mine)
        if abs(mine - other) > tolerance:
            return f"the loss of step {step + 1} is {other:.6g}, prototorch's {mine:.6g}"
    return None


def compare_outputs(ours: Path, theirs: Path) -> str | None:
    """A complaint where the outputs differ."""
    mine, other = np.load(ours), np.load(theirs)
    if mine.shape != other.shape:
        return f"its output has the shape {list(other.shape)}, prototorch's {list(mine.shape)}"
    off = float(np.abs(mine - other).max() / np.abs(mine).max())
    return None if off <= OUTPUT_TOLERANCE else f"its output differs by {off:.1e} of the largest from prototorch's"
