"""Options and helpers that several commands share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import click
import numpy as np

from prototorch.data.data_block import Data
from prototorch.data.sources import describe_source
from prototorch.engine.backends.device_name import DEVICE_NAMES, describe_device_names, parse_device, suggest_device
from prototorch.errors import UsageError
from prototorch.interop.weight_sets.weights_block import Weights
from prototorch.model.load import find_model_file, is_saved, load_model
from prototorch.model.model import Model
from prototorch.schema.python_imports import allow_python

_ALLOW_READ = "prototorch.allow_read"
_EXCEPT = "prototorch.except"


def model_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """``FILE``: a model text, a shipped model's name, or a saved model; with ``--allow-read``, ``--allow-python``."""
    return click.argument("file", metavar="FILE")(allow_read_option(allow_python_option(function)))


def allow_python_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--allow-python``: texts that the command reads may import the Python modules that they name."""
    text = "Run the Python modules that FILE names (import, Caffe's Python layers). Only for files you trust."

    def allow(context: click.Context, _: click.Parameter, is_allowed: bool) -> None:
        if is_allowed:
            context.with_resource(allow_python())

    return click.option("--allow-python", is_flag=True, help=text, expose_value=False, callback=allow)(function)


def allow_read_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--allow-read``: folders in which a saved model may name data; `open_model` takes them from the context."""
    text = "A folder, besides the working directory, in which a saved model may name its data. May be repeated."
    return click.option("--allow-read", multiple=True, metavar="DIR", help=text, expose_value=False,
                        callback=lambda context, _, folders: context.meta.update({_ALLOW_READ: folders}))(
        function)  # fmt: skip


def set_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--set name=value``: a parameter, or any field of a block by its path."""
    text = "Set a parameter (classes=10) or a field (fit.epochs=3). May be repeated."
    return click.option("--set", "overrides", multiple=True, metavar="NAME=VALUE", help=text)(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``: the result as JSON on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(function)


def quiet_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--quiet``: no progress."""
    return click.option("--quiet", "-q", is_flag=True, help="Show no progress.")(function)


def threads_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--threads``: the number of threads of the kernels."""
    return click.option("--threads", type=click.IntRange(min=1), help="As --set compile.threads=N.")(function)


class _DeviceType(click.ParamType):
    """The name of a device."""

    name = "|".join((*DEVICE_NAMES, "cuda:N"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; fails for what is no name of a device."""
        if parse_device(value) is None:
            self.fail(f"there is no device {value[:60]!r}, expected {describe_device_names()}.{suggest_device(value)}")
        return str(value)


class _DeviceListType(_DeviceType):
    """The names of devices, with commas between them."""

    name = f"{_DeviceType.name}[,...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The names; fails for what is no name of a device, and for one that is there twice."""
        names = [super(_DeviceListType, self).convert(name.strip(), param, ctx) for name in str(value).split(",")]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            self.fail(f"{twice!r} is there twice, expected each device once: its times would only be measured again")
        return tuple(names)


def devices_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--device`` of a command that compares devices: a tuple of names."""
    text = "As --set compile.device=NAME. Several (cpu,cuda): side by side."
    return click.option("--device", "devices", type=_DeviceListType(), help=text)(function)


def device_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--device``: the device to run on."""
    return click.option("--device", type=_DeviceType(), help="As --set compile.device=NAME.")(function)


def add_device_overrides(overrides: tuple[str, ...], threads: int | None, device: str | None = None) -> tuple[str, ...]:
    """The overrides with the number of threads and the device, where they are given."""
    settings = (("compile.threads", threads), ("compile.device", device))
    return (*overrides, *(f"{name}={json.dumps(value)}" for name, value in settings if value is not None))


def warn_untrained(file: str, does: str, model: Model | None = None) -> None:
    """Note on standard error that FILE has no weights, and names none."""
    if not is_saved(find_model_file(file)) and (model is None or model.weights_block is None):
        click.echo(f"note: {file} is a text, which holds no weights: it {does} as it begins, untrained", err=True)


def data_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--data``: another data source than the model's own."""
    return click.option("--data", metavar="SOURCE", help="Data: a name (fashion-mnist-mini) or a path.")(function)


def weights_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--weights``, ``--except`` and ``--allow-download``: what the model begins with; `open_model` takes the patterns
    of ``--except`` from the context."""
    allow = click.option(
        "--allow-download", is_flag=True, help="Open an address that the text, or a set beside it, names."
    )
    text = "Layers or weights that begin anew in spite of --weights (logits/*): a pattern. May be repeated."
    leave_out = click.option(
        "--except",
        "except_",
        multiple=True,
        metavar="PATTERN",
        help=text,
        expose_value=False,
        callback=lambda context, _, patterns: context.meta.update({_EXCEPT: patterns}),
    )
    text = "Begin with these weights: a set (imagenet), a file of any system, or an address."
    return click.option("--weights", metavar="WHAT", help=text)(leave_out(allow(function)))


def open_model(
    file: str,
    overrides: tuple[str, ...],
    data: str | None = None,
    weights: str | Literal[False] | None = False,
    allow_download: bool = False,
) -> Model:
    """The model of a command's arguments. weights: as of `load_model`; by default none are loaded into a text."""
    extra = (f"fit.data.source={json.dumps(data)}",) if data is not None else ()
    patterns = click.get_current_context().meta.get(_EXCEPT, ())
    if patterns and not weights:
        raise UsageError(
            "--except leaves weights out of those of --weights, which is not given; of a text's own block "
            f"--set 'weights.except={patterns[0]}' does"
        )
    begin = Weights(source=weights, except_=patterns) if patterns and weights else weights
    return load_model(file, weights=begin, overrides=(*overrides, *extra), allow_read=allowed_folders(),
                      allow_download=allow_download)  # fmt: skip


def allowed_folders() -> tuple[str, ...]:
    """The folders of ``--allow-read``."""
    return click.get_current_context().meta.get(_ALLOW_READ, ())


def print_data_paths(*blocks: Data | None) -> None:
    """Note on standard error where data are read from."""
    for block in blocks:
        if block is not None:
            click.echo(f"data: {describe_source(block.source, block.folder)}", err=True)


def print_json(value: Any) -> None:
    """A result as JSON; numbers that are not finite, which JSON does not know, as null."""
    click.echo(format_json(value))


def format_json(value: Any) -> str:
    """A value as JSON; numbers that are not finite, which JSON does not know, as null."""
    return json.dumps(to_json_types(value), indent=2, allow_nan=False)


def to_json_types(value: Any) -> Any:
    """A value of the types that JSON knows; numbers that are not finite as None."""
    return _replace_nonfinite(to_plain_types(value))


def to_plain_types(value: Any) -> Any:
    """Numbers and arrays of NumPy as Python's own."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): to_plain_types(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_types(v) for v in value]
    return value


def _replace_nonfinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _replace_nonfinite(v) for k, v in value.items()}
    return [_replace_nonfinite(v) for v in value] if isinstance(value, list) else value
