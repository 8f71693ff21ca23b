"""Checks of the arguments of `Model`'s methods."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from os import PathLike
from typing import Any

from prototorch.data.checks import DataWarning
from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.schema.neutral_arguments import neutral

__all__ = [
    "COMPILE_ARGUMENTS",
    "OLD_FIT_ARGUMENTS",
    "SAVE_ARGUMENTS",
    "SUMMARY_ARGUMENTS",
    "WEIGHTS_ARGUMENTS",
    "check_epochs",
    "check_integer",
    "check_optional_integer",
    "check_path",
    "check_verbose",
    "warn_of_missing_batches",
    "warn_of_validation_arguments",
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


def check_epochs(initial_epoch: int, epochs: int) -> None:
    """Raise UsageError where a fit would begin beyond its last epoch; warn where it would train nothing."""
    if initial_epoch > epochs:
        raise UsageError(
            f"initial_epoch={initial_epoch} is beyond epochs={epochs}: epochs is the number after the last epoch, not "
            f"how many are added; write epochs={initial_epoch + epochs} for {epochs} more"
        )
    if initial_epoch == epochs:
        warn_user(f"initial_epoch={initial_epoch} is epochs={epochs}: no epoch is trained", ModelWarning)


def warn_of_validation_arguments(arguments: Mapping[str, Any], has_validation: bool, epochs: range) -> None:
    """Warn of arguments of validation that have no effect in these epochs, or without validation data."""
    without_effect = [
        name for name, value in arguments.items() if value is not None and (name, value) != ("validation_freq", 1)
    ]
    if without_effect and not has_validation:
        verb = "have" if len(without_effect) > 1 else "has"
        warn_user(
            f"{' and '.join(without_effect)} {verb} no effect, there are no validation data: give validation_data or "
            "validation_split",
            ModelWarning,
        )
    every = arguments["validation_freq"] or 1
    if has_validation and epochs and not any((epoch + 1) % every == 0 for epoch in epochs):
        warn_user(
            f"validation_freq={every} is more than the {len(epochs)} epochs of this fit, which validates never",
            ModelWarning,
        )


def warn_of_missing_batches(name: str, steps: int | None, available: int | None) -> None:
    """Warn of a number of steps that is more than the batches of the data; None: not stated, or not known."""
    if steps is not None and available is not None and steps > available:
        warn_user(f"{name}={steps} is more than the {available} batches of the data: all of them are used", DataWarning)
