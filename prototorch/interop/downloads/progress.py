"""The progress of a download: a bar on a terminal, elsewhere nothing but a line at the beginning."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prototorch.base.terminal import escape_line

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A function of the bytes that are there and the bytes in all, which shows them on standard error."""
    stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
    if stream is None or not stream.isatty():
        yield lambda done, size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape_line(name)[:60], total=None)
        yield lambda done, size: progress.update(task, completed=done, total=size)
