"""Programs that run with PyTorch and with prototorch, and the comparison of what they give."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import prototorch as pt


def run(program: Any, module: Any) -> Any:
    """What a program gives, with tensors as lists; "error" for one that a RuntimeError or ValueError ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return as_values(program(module))
        except (RuntimeError, ValueError, TypeError, IndexError) as exc:
            return f"error: {type(exc).__mro__[-3].__name__}"


def as_values(value: Any) -> Any:
    if isinstance(value, pt.Tensor | torch.Tensor):
        return np.asarray(value.detach().cpu().numpy(), np.float64).round(8).tolist()
    if isinstance(value, tuple | list):
        return [as_values(v) for v in value]
    return value


def assert_same(program: Any, expect_error: bool | None = None) -> None:
    theirs, ours = run(program, torch), run(program, pt)
    if isinstance(theirs, str) and theirs.startswith("error"):
        assert isinstance(ours, str), f"PyTorch gives an error, and this {ours}"
        assert ours.startswith("error"), f"PyTorch gives an error, and this {ours}"
        assert expect_error is not False
    else:
        assert ours == theirs
        assert expect_error is not True
