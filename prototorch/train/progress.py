"""Progress of a fit: a bar on a terminal, elsewhere a line for each epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prototorch.base.terminal import EscapingStream, escape_line
from prototorch.errors import UsageError
from prototorch.train.callbacks import Callback, Logs
from prototorch.train.profiler import DATA, data_wait_share

_REFRESH_SECONDS = 0.1  # between two updates of the bar
_WAIT_SHARE_SHOWN = 0.1  # report waiting for data from this share of the training time on
_WAIT_SECONDS_SHOWN = 0.5  # and from this many seconds of an epoch on
_MAX_ELEMENTS_SHOWN = 8  # of a metric that is an array; of larger ones the shape is shown
_BAR_COLUMNS = (8, 24)  # the narrowest and the widest bar


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


def format_logs(logs: Mapping[str, Any]) -> str:
    """Logs as one line, without the loss of the last batch."""
    return "  ".join(_format_items(logs))


def _format_items(logs: Mapping[str, Any]) -> list[str]:
    return [f"{escape_line(name)} {_format_value(name, value)}" for name, value in logs.items() if name != "batch_loss"]


def _format_value(name: str, value: Any) -> str:
    if isinstance(value, float):
        if value == 0 or name.endswith("learning_rate"):
            return f"{value:.4g}"
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.3g}"
    if isinstance(value, list) and np.size(value) > _MAX_ELEMENTS_SHOWN:
        return f"[{' x '.join(map(str, np.shape(value)))} values]"
    return escape_line(str(value))


def format_duration(seconds: float) -> str:
    """A duration: 3.2s, 45s or 2:05 (minutes and seconds)."""
    if seconds < 60:
        return f"{seconds:.0f}s" if seconds >= 10 else f"{seconds:.1f}s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class _ProgressDisplay(Callback, abstract=True):
    """What the bar and the lines share: times and counters, which begin anew where a training is resumed.

    A display that cannot be written to any more (a closed terminal or pipe) ends; the training goes on.
    """

    display = True

    def __init__(self, console: Console):
        self.console = console
        self.epoch_started = time.perf_counter()
        self.epoch = self.batch = self.first_batch = self.first_sample = 0
        self.is_closed = False

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        trainer = self.model.trainer
        self.first_batch, self.first_sample = trainer.batch, trainer.samples_seen
        self.epoch, self.batch, self.epoch_started = epoch, trainer.batch, time.perf_counter()

    @property
    def title(self) -> str:
        """``epoch 2/5``."""
        width = len(str(self.params["epochs"]))
        return f"epoch {self.epoch + 1:>{width}}/{self.params['epochs']}"

    def rate(self, seconds: float) -> str:
        """The samples per second that were trained here."""
        return f"{(self.model.trainer.samples_seen - self.first_sample) / max(seconds, 1e-9):,.0f}/s"

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        trainer = self.model.trainer
        spent = time.perf_counter() - self.epoch_started
        share = data_wait_share(trainer.epoch_seconds)
        items = [f"resumed after step {self.first_batch}"] if self.first_batch else []
        if trainer.samples_seen > self.first_sample:
            items += [format_duration(spent), self.rate(spent)]
        items += _format_items(logs or {})
        if share >= _WAIT_SHARE_SHOWN and trainer.epoch_seconds.get(DATA, 0.0) >= _WAIT_SECONDS_SHOWN:
            items.append(f"data: waited {share:.0%} of the time")
        self.print(self.title, *items)

    def print(self, title: str, *items: str) -> None:
        """A line of items; on a terminal that is too narrow it is continued, indented, between two items."""
        width = self.console.width if self.console.is_terminal else sys.maxsize
        lines = [title]
        for item in items:
            if len(lines[-1]) + 2 + len(item) > width and lines[-1].strip() and len(lines[-1]) > len(title):
                lines.append(" " * min(len(title), max(0, width - 2 - len(item))))
            lines[-1] += f"  {item}"
        self.write(lambda: self.console.print("\n".join(lines), soft_wrap=True, markup=False))

    def write(self, action: Callable[[], object]) -> None:
        """Write to the console, unless it cannot be written to."""
        if self.is_closed:
            return
        try:
            action()
        except BrokenPipeError:  # nobody reads what this process writes: it ends, as other commands do
            raise
        except (OSError, ValueError):  # the terminal is gone, or the stream was closed in this process
            self.is_closed = True


class _ProgressLines(_ProgressDisplay):
    """A line for each epoch."""


class _ProgressBar(_ProgressDisplay):
    """A bar with rate, remaining time, loss and metrics, and a line for each complete epoch.

    The bar is one line of the terminal. Where that is narrow, what comes last here is left out: the epoch and the step,
    the loss, the remaining time, the bar, the samples per second, the metrics in their order.
    """

    def __init__(self, console: Console):
        super().__init__(console)
        self.live: Live | None = None
        self.last_update = 0.0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._close()
        self.live = Live(console=self.console, transient=True, auto_refresh=False)
        is_escaped = isinstance(sys.stderr, EscapingStream)
        self.write(self.live.start)  # replaces the streams by ones that print above the bar
        if is_escaped:
            sys.stdout, sys.stderr = EscapingStream(sys.stdout), EscapingStream(sys.stderr)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.batch = batch + 1
        now = time.perf_counter()
        if self.live is None or self.is_closed or now - self.last_update < _REFRESH_SECONDS:
            return
        self.last_update = now
        self._update(self._make_bar(batch, now - self.epoch_started))

    def on_test_begin(self, logs: Logs | None = None) -> None:
        if self.live is not None:
            self._update(Text(f"{self.title} validation", no_wrap=True, overflow="ellipsis"))

    def _make_bar(self, batch: int, spent: float) -> Table:
        steps, num_done = self.params["steps"], batch - self.first_batch
        metrics = _format_items(self.model.trainer.plan_cache.metrics.results("train")) if num_done > 0 else []
        left = f"{format_duration(spent / num_done * (steps - batch))} left" if steps and num_done > 0 else ""
        width = self.console.width - len(self.title)
        texts: dict[str, str] = {}

        def add(name: str, text: str) -> bool:
            nonlocal width
            if not text or width < len(text) + 1:
                return False
            texts[name], width = text, width - len(text) - 1
            return True

        add("step", f"{batch}/{steps or '?'}")
        add("loss", metrics[0] if metrics else "")
        add("left", left)
        has_bar = add("bar", " " * _BAR_COLUMNS[0])
        add("rate", self.rate(spent) if num_done > 0 else "")
        for number, item in enumerate(metrics[1:]):
            if not add(f"metric {number}", item):
                break
        table = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [Text(self.title)]
        if has_bar:
            bar_width = min(_BAR_COLUMNS[0] + width, _BAR_COLUMNS[1])
            cells.append(ProgressBar(total=steps, completed=batch, width=bar_width))
        order = ["step", "rate", "left", "loss", *(name for name in texts if name.startswith("metric"))]
        cells += [Text(texts[name]) for name in order if name in texts]
        for _ in cells:
            table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_row(*cells)
        return table

    def _update(self, content: RenderableType) -> None:
        live = self.live
        assert live is not None
        self.write(lambda: live.update(content, refresh=True))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._close()
        super().on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._close()

    def on_failure(self) -> None:
        self._close()

    def _close(self) -> None:
        if self.live is not None:
            self.write(self.live.stop)
            self.live = None
