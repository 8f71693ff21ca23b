"""Files of Caffe as arguments of commands; what they need is imported when there is one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.errors import FileError, UsageError
from prototorch.model.load import check_text_file, find_model_file, is_saved
from prototorch.schema.python_imports import is_python_allowed
from prototorch.text.dialects import find_dialect
from prototorch.text.reader import read_file

__all__ = [
    "caffe_kind_of", "caffe_kind_of_path", "is_caffe_net", "is_caffe_solver", "refuse_caffe_options", "refuse_options",
    "test_caffe", "train_caffe",
]  # fmt: skip

_NAMES = {"level": "--level", "stages": "--stage", "snapshot": "--snapshot",
          "caffe_resume": "--caffe-resume", "snapshot_prefix": "--snapshot-prefix",
          "sigint_effect": "--sigint-effect", "sighup_effect": "--sighup-effect",
          "iterations": "--iterations"}  # fmt: skip


def caffe_kind_of(file: str) -> str | None:
    """ "net" or "solver" for a text of Caffe, None for other files."""
    try:
        return caffe_kind_of_path(find_model_file(file))
    except FileError:  # the command says what is wrong with it
        return None


def caffe_kind_of_path(path: str) -> str | None:
    """As `caffe_kind_of`. Raises FileError for a file that is no model."""
    recognized = None if is_saved(path) else find_dialect(read_file(check_text_file(path)))
    return recognized[1] if recognized is not None and recognized[0].name == "caffe" else None


def is_caffe_net(file: str) -> bool:
    """Whether FILE of a command is a net of Caffe."""
    return caffe_kind_of_path(find_model_file(file)) == "net"


def is_caffe_solver(file: str) -> bool:
    """Whether a file is a solver of Caffe. Raises UsageError for a net of Caffe, which says nothing of training."""
    kind = caffe_kind_of(file)
    if kind == "net":
        raise UsageError(
            f"{file} is a net of Caffe, without a solver: write one, and run it: "
            f'net: "{file}"  base_lr: 0.01  lr_policy: "fixed"  momentum: 0.9  max_iter: 1000  display: 100'
        )
    return kind == "solver"


def refuse_options(options: Mapping[str, Any], why: str) -> None:
    """Raise UsageError for the first option, by its name, that is given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} {why}")


def refuse_caffe_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option of Caffe's files that is given for another file."""
    refuse_options({_NAMES[name]: value for name, value in options.items()}, "is for files of Caffe")


def train_caffe(file: str, native: Mapping[str, Any], **options: Any) -> int:
    """Train by a solver; the exit code. native: options that a solver does not have."""
    refuse_options(native, f"does not go with {file}: the fields of a Caffe solver say it")
    training = importlib.import_module("prototorch.cli.caffe_training")
    stages = tuple(name for text in options.pop("stages") for name in text.split(",") if name)
    settings = {name: value for name, value in options.items() if value is not None}
    return int(training.train(training.CaffeRun(file, stages=stages, **settings)))


def test_caffe(
    file: str,
    native: Mapping[str, Any],
    *,
    device: str | None,
    weights: str | None,
    as_json: bool,
    iterations: int | None,
    level: int | None,
    stages: Sequence[str],
) -> None:
    """Test a net with weights. native: options that a Caffe net does not have. Raises UsageError for a solver."""
    if caffe_kind_of(file) == "solver":
        raise UsageError(f"{file} is a solver of Caffe: evaluate the net that it names, with --weights")
    refuse_options(native, f"does not go with {file}: the data layers of a Caffe net say it")
    importlib.import_module("prototorch.cli.caffe_training").select_mode(device)
    testing = importlib.import_module("prototorch.cli.caffe_testing")
    names = [name for text in stages for name in text.split(",") if name]
    testing.test_net(file, weights, iterations or 50, level or 0, names, is_python_allowed(), as_json)


test_caffe.__test__ = False  # type: ignore[attr-defined]  # no test of pytest
