"""Checks of the arguments of `Model`'s methods."""

from __future__ import annotations

import operator
from os import PathLike
from typing import Any

from prototorch.errors import UsageError
from prototorch.schema.neutral_arguments import neutral

__all__ = [
    "COMPILE_ARGUMENTS",
    "OLD_FIT_ARGUMENTS",
    "SAVE_ARGUMENTS",
    "SUMMARY_ARGUMENTS",
    "WEIGHTS_ARGUMENTS",
    "check_integer",
    "check_optional_integer",
    "check_path",
    "check_verbose",
]

#: arguments of Keras' methods that the methods of `Model` take where they change nothing
COMPILE_ARGUMENTS = {
    "run_eagerly": neutral(
        None, False, hint="a step is always planned and compiled; to look inside it, PROTOTORCH_CPU=plain runs op by op"
    ),
    "steps_per_execution": neutral(
        None, 1, hint="leave it out: each step is one call already, and callbacks see each of them"
    ),
    "jit_compile": neutral(None, "auto", True, False, hint="steps are always compiled: leave it out"),
    "auto_scale_loss": neutral(True, hint="precision: fp16 always scales the loss; take precision='bf16' instead"),
}
_WORKERS = "the loader chooses its threads itself; leave it out"
OLD_FIT_ARGUMENTS = {
    "workers": neutral(None, 1, hint=_WORKERS),
    "max_queue_size": neutral(None, 10, hint=_WORKERS),
    "use_multiprocessing": neutral(None, False, hint=_WORKERS),
}
SUMMARY_ARGUMENTS = {
    "line_length": neutral(None, hint="lines are as long as they must be"),
    "positions": neutral(None, hint="columns are as wide as they must be"),
    "expand_nested": neutral(None, False, True, hint="all layers are shown"),
    "show_trainable": neutral(None, False, hint="the last line has the number of trained parameters"),
    "layer_range": neutral(None, hint="all layers are shown"),
}
SAVE_ARGUMENTS = {
    "overwrite": neutral(None, True, hint="a file is replaced by a complete new one; test os.path.exists(path) first"),
    "zipped": neutral(None, hint="a model is one HDF5 file"),
    "include_optimizer": neutral(True, hint="use save_weights, which leaves the optimizer's state out"),
    "save_format": neutral(None, "h5", hint="the format is HDF5, with the ending .h5"),
}
WEIGHTS_ARGUMENTS = {**SAVE_ARGUMENTS, "max_shard_size": neutral(None, hint="weights are one HDF5 file")}


def check_verbose(value: Any) -> bool:
    """Whether `Model.evaluate` and `Model.predict` print a line. Raises UsageError for another value than Keras'."""
    if isinstance(value, str) != (value == "auto") or value not in ("auto", 0, 1, 2):
        raise UsageError(f"verbose must be 'auto', 0 (nothing), 1 or 2 (a line on standard error), not {value!r}")
    return value in (1, 2)


def check_path(value: Any, example: str = "model.h5") -> None:
    """Raise UsageError for what is no path of a file."""
    if not isinstance(value, str | PathLike) or "\0" in str(value):
        raise UsageError(f"expected the path of a file, e.g. {example!r}, not {value!r:.80}")


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """The value as an int. Raises UsageError, which names the argument, unless it is an integer >= ``least``."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} must be an integer of at least {least}, not {value!r}.")
    return number


def check_optional_integer(name: str, value: Any) -> int | None:
    """As `check_integer`, but None stays None."""
    return None if value is None else check_integer(name, value)
