"""Options that several commands share. What they are for is imported when a command runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from prototorch.cli.completion import complete_models
from prototorch.engine.backends.device_name import DEVICE_NAMES, describe_device_names, parse_device, suggest_device

#: where the context of a command keeps the values of --allow-read and --except
ALLOW_READ = "prototorch.allow_read"
EXCEPT = "prototorch.except"


def model_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """``FILE``: a model text, a shipped model's name, or a saved model; with ``--allow-read``, ``--allow-python``."""
    argument = click.argument("file", metavar="FILE", shell_complete=complete_models)
    return argument(allow_read_option(allow_python_option(function)))


def allow_python_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--allow-python``: texts that the command reads may import the Python modules that they name."""
    text = "Run the Python modules that FILE names (import, Caffe's Python layers). Only for files you trust."

    def allow(context: click.Context, _: click.Parameter, is_allowed: bool) -> None:
        if is_allowed:
            python_imports = importlib.import_module("prototorch.schema.python_imports")
            context.with_resource(python_imports.allow_python())

    return click.option("--allow-python", is_flag=True, help=text, expose_value=False, callback=allow)(function)


def allow_read_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--allow-read``: folders in which a saved model may name data; `open_model` takes them from the context."""
    text = "A folder, besides the working directory, in which a saved model may name its data. May be repeated."
    return click.option(
        "--allow-read",
        multiple=True,
        metavar="DIR",
        help=text,
        expose_value=False,
        callback=lambda context, _, folders: context.meta.update({ALLOW_READ: folders}),
    )(function)


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

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The devices whose names begin so."""
        return [CompletionItem(name) for name in DEVICE_NAMES if name.startswith(incomplete)]


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
        callback=lambda context, _, patterns: context.meta.update({EXCEPT: patterns}),
    )
    text = "Begin with these weights: a set (imagenet), a file of any system, or an address."
    return click.option("--weights", metavar="WHAT", help=text)(leave_out(allow(function)))
