"""The model of a command's arguments, and notes on it."""

from __future__ import annotations

import json
from typing import Literal

import click

from prototorch.cli.options import ALLOW_READ, EXCEPT
from prototorch.data.data_block import Data
from prototorch.data.sources import describe_source
from prototorch.errors import UsageError
from prototorch.model.load import find_model_file, is_saved, load_model
from prototorch.model.model import Model
from prototorch.model.weights_block import Weights

__all__ = ["add_device_overrides", "allowed_folders", "open_model", "print_data_paths", "warn_untrained"]


def add_device_overrides(overrides: tuple[str, ...], threads: int | None, device: str | None = None) -> tuple[str, ...]:
    """The overrides with the number of threads and the device, where they are given."""
    settings = (("compile.threads", threads), ("compile.device", device))
    return (*overrides, *(f"{name}={json.dumps(value)}" for name, value in settings if value is not None))


def warn_untrained(file: str, does: str, model: Model | None = None) -> None:
    """Note on standard error that FILE has no weights, and names none."""
    if not is_saved(find_model_file(file)) and (model is None or not model.loads_weights):
        click.echo(f"note: {file} is a text, which holds no weights: it {does} as it begins, untrained", err=True)


def open_model(
    file: str,
    overrides: tuple[str, ...],
    data: str | None = None,
    weights: str | Literal[False] | None = False,
    allow_download: bool = False,
) -> Model:
    """The model of a command's arguments. weights: as of `load_model`; by default none are loaded into a text."""
    extra = (f"fit.data.source={json.dumps(data)}",) if data is not None else ()
    patterns = click.get_current_context().meta.get(EXCEPT, ())
    if patterns and not weights:
        raise UsageError(
            "--except leaves weights out of those of --weights, which is not given; of a text's own block "
            f"--set 'weights.except={patterns[0]}' does"
        )
    begin = Weights(source=weights, except_=patterns) if patterns and weights else weights
    return load_model(
        file, weights=begin, overrides=(*overrides, *extra), allow_read=allowed_folders(), allow_download=allow_download
    )


def allowed_folders() -> tuple[str, ...]:
    """The folders of ``--allow-read``."""
    return click.get_current_context().meta.get(ALLOW_READ, ())


def print_data_paths(*blocks: Data | None) -> None:
    """Note on standard error where data are read from."""
    for block in blocks:
        if block is not None:
            click.echo(f"data: {describe_source(block.source, block.folder)}", err=True)
