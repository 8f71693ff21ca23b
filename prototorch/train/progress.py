"""Progress of a fit: a bar on a terminal, elsewhere a line for each epoch."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from prototorch.errors import UsageError
from prototorch.terminal import EscapingStream, escape_line
from prototorch.train.callbacks import Callback, Logs
from prototorch.train.profiler import DATA, data_wait_share

_REFRESH_SECONDS = 0.1  # between two updates of the bar
_WAIT_SHARE_SHOWN = 0.1  # report waiting for data from this share of the training time on
_WAIT_SECONDS_SHOWN = 0.5  # and from this many seconds of an epoch on


class _Console(Console):
    """Where progress is shown. That nobody reads it any more is an error as on any other stream."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError from None


def progress_callbacks(verbose: Any = "auto", console: Console | None = None) -> list[Callback]:
    """The callbacks that show progress.

    verbose: "auto" or 1: a bar on a terminal, else a line for each epoch; 2: lines; 0: nothing. Raises UsageError.
    """
    if isinstance(verbose, str) != (verbose == "auto") or verbose not in ("auto", 0, 1, 2):
        raise UsageError(f"verbose must be 'auto', 0 (nothing), 1 (a bar) or 2 (a line an epoch), not {verbose!r}")
    if verbose == 0:
        return []
    console = console or _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if verbose in ("auto", 1) and console.is_terminal:
        return [_ProgressBar(console)]
    return [_ProgressLines(console)]


def format_logs(logs: Logs) -> str:
    """Logs as one line, without the loss of the last batch."""
    return "  ".join(f"{escape_line(k)} {_format_value(v)}" for k, v in logs.items() if k != "batch_loss")


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.3g}"
    return escape_line(str(value))


def format_duration(seconds: float) -> str:
    """A duration: 3.2s, 45s or 2:05 (minutes and seconds)."""
    if seconds < 60:
        return f"{seconds:.0f}s" if seconds >= 10 else f"{seconds:.1f}s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class _ProgressDisplay(Callback, abstract=True):
    """What the bar and the lines share: times and counters."""

    display = True

    def __init__(self, console: Console):
        self.console = console
        self.epoch_started = time.perf_counter()
        self.epoch = self.batch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch, self.batch, self.epoch_started = epoch, 0, time.perf_counter()

    @property
    def title(self) -> str:
        """``epoch 2/5``."""
        width = len(str(self.params["epochs"]))
        return f"epoch {self.epoch + 1:>{width}}/{self.params['epochs']}"

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        spent = time.perf_counter() - self.epoch_started
        rate = self.model.trainer.samples_seen / max(spent, 1e-9)
        share = data_wait_share(self.model.trainer.epoch_seconds)
        long = self.model.trainer.epoch_seconds.get(DATA, 0.0) >= _WAIT_SECONDS_SHOWN
        waiting = f"  data: waited {share:.0%} of the time" if share >= _WAIT_SHARE_SHOWN and long else ""
        self.console.print(
            f"{self.title}  {format_duration(spent)}  {rate:,.0f}/s  {format_logs(logs or {})}{waiting}", soft_wrap=True
        )


class _ProgressLines(_ProgressDisplay):
    """A line for each epoch."""

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.batch = batch + 1


class _ProgressBar(_ProgressDisplay):
    """A bar with rate, remaining time, loss and metrics, and a line for each complete epoch."""

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.live: Live | None = None
        self.last_update = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._close()
        self.live = Live(console=self.console, transient=True, auto_refresh=False)
        is_escaped = isinstance(sys.stderr, EscapingStream)
        self.live.start()  # replaces the streams by ones that print above the bar
        if is_escaped:
            sys.stdout, sys.stderr = EscapingStream(sys.stdout), EscapingStream(sys.stderr)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.batch = batch + 1
        now = time.perf_counter()
        if self.live is None or now - self.last_update < _REFRESH_SECONDS:
            return
        self.last_update = now
        steps, spent = self.params["steps"], now - self.epoch_started
        rate = self.model.trainer.samples_seen / max(spent, 1e-9)
        remaining = f"{format_duration(spent / batch * (steps - batch) if batch else 0.0)} left" if steps else ""
        table = Table.grid(padding=(0, 1))
        running = self.model.trainer.plan_cache.metrics.results("train") if batch else {}
        bar = ProgressBar(total=steps, completed=batch, width=24)
        table.add_row(self.title, bar, f"{batch}/{steps or '?'}", f"{rate:,.0f}/s", remaining, format_logs(running))
        self.live.update(table, refresh=True)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._close()
        super().on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._close()

    def on_failure(self) -> None:
        self._close()

    def _close(self) -> None:
        if getattr(self, "live", None) is not None:
            self.live.stop()  # type: ignore[union-attr]
            self.live = None
