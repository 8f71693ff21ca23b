"""What a shell completes beside commands and options: models, members of the families, paths. Answered by the index and
by names of files: no model is read, and nothing that a command runs is imported.

click writes the scripts (``_PROTOTORCH_COMPLETE=bash_source prototorch``); docs/command-line.md says how to load them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from prototorch.base import index
from prototorch.base.package_files import shipped_models

__all__ = ["complete_members", "complete_models", "register_shells"]


def complete_models(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shipped models whose names begin so, and the paths that do; none where only paths do, which the shell itself
    completes best."""
    models = [name for name in shipped_models() if name.startswith(incomplete)]
    return [CompletionItem(value) for value in (*models, *_paths(incomplete))] if models else []


def complete_members(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The layers, losses, optimizers and other members of families whose names begin so."""
    return [CompletionItem(name) for name in sorted(set(index.member_names())) if name.startswith(incomplete)]


def _paths(incomplete: str) -> Iterator[str]:
    """The paths that begin so, folders with a slash at their end; hidden ones only where a dot has been typed."""
    folder, beginning = os.path.split(incomplete)
    try:
        files = sorted(os.scandir(folder or os.curdir), key=lambda file: file.name)
    except OSError:
        return
    for file in files:
        if file.name.startswith(beginning) and (beginning or not file.name.startswith(".")):
            yield os.path.join(folder, file.name) + ("/" if file.is_dir() else "")


class _PathsElsewhere(ShellComplete):
    """Completes paths where nothing else is known, as shells do by themselves."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        items = super().get_completions(args, incomplete)
        return items or ([] if incomplete.startswith("-") else [CompletionItem(incomplete, type="file")])


def register_shells() -> None:
    """Have click complete paths where nothing else is known, in bash, zsh and fish."""
    for shell in (BashComplete, ZshComplete, FishComplete):
        add_completion_class(type(shell.__name__, (_PathsElsewhere, shell), {}))
