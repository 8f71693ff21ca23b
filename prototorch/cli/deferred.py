"""Commands whose modules declare options alone: what a command does is imported when it runs, not to parse options."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import update_wrapper
from typing import Any

import click

__all__ = ["deferred_command", "deferred_to"]


def deferred_command(
    module: str, *, context: Callable[[], AbstractContextManager[None]] = nullcontext, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that runs the function ``run`` of a module; the function below has its options and its help alone.

    context: of the import of the module and the run. settings: as of `click.command`.
    """

    def decorate(declaration: Callable[..., Any]) -> click.Command:
        run = deferred_to(module, "run")(declaration)

        def call(*args: Any, **options: Any) -> Any:
            with context():
                return run(*args, **options)

        return click.command(**settings)(update_wrapper(call, declaration))

    return decorate


def deferred_to(module: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """In the place of a function the one of a name in a module, which is imported when it is called."""

    def decorate(declaration: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            return getattr(importlib.import_module(module), name)(*args, **options)

        return update_wrapper(call, declaration)

    return decorate
