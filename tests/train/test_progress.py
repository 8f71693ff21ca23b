"""The progress bar and the progress lines."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from prototorch.train.callbacks import Callback
from prototorch.train.progress import format_logs, progress_callbacks
from tests.train.test_callbacks import X, Y, fit, model


def test_progress_lines_and_bar():
    for terminal in (False, True):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=100, color_system=None)
        made = model()
        made.fit(X, Y, epochs=2, batch_size=8, callbacks=progress_callbacks("auto", console), verbose=0)
        lines = [line for line in text.getvalue().splitlines() if "loss" in line and "/s" in line]
        assert any("epoch 2/2" in line and "accuracy" in line for line in lines)
        if not terminal:
            assert len(lines) == 2
    assert progress_callbacks(0) == []


def test_an_error_leaves_the_terminal_as_it_was():
    class Breaks(Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError("mine")

    text = io.StringIO()
    bars = progress_callbacks("auto", Console(file=text, force_terminal=True, width=100, color_system=None))
    with pytest.raises(KeyError, match="mine"):
        fit(model(), [*bars, Breaks()])
    assert bars[0].live is None
    assert "\x1b[?25h" in text.getvalue()  # the cursor is shown again


@pytest.mark.parametrize("width", [32, 40, 80, 120])
def test_the_bar_is_one_line_at_any_width(width, monkeypatch):
    """The step, the loss and the remaining time stay where there is room for little; nothing is ever wrapped."""
    monkeypatch.setattr("prototorch.train.progress._REFRESH_SECONDS", 0.0)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    made = model()
    made.fit(
        X, Y, epochs=2, batch_size=2, callbacks=progress_callbacks("auto", console), verbose=0, validation_split=0.25
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    lines = [line.rstrip() for part in plain.split("\n") for line in part.split("\r") if line.strip()]
    assert max(map(len, lines)) <= width
    bars = [line for line in lines if "/9" in line and line.startswith("epoch 2/2")]
    assert len(bars) == 9
    assert all("loss " in line and " left" in line for line in bars[1:]) or width < 40
    assert all("━" in line and "/s" in line and "accuracy" in line for line in bars[1:]) or width < 80
    joined = " ".join(plain.split())
    for name in ("loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"):
        assert f" {name} " in joined  # the line of a complete epoch leaves nothing out


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ({"learning_rate": 1e-05}, "learning_rate 1e-05"),
        ({"learning_rate": 0.0}, "learning_rate 0"),
        ({"learning_rate": 0.00125}, "learning_rate 0.00125"),
        ({"learning_rate": 0.1}, "learning_rate 0.1"),
        ({"loss": 3e-7, "mae": 12345.6}, "loss 3e-07  mae 1.23e+04"),
        ({"loss": float("nan"), "batch_loss": 1.0}, "loss nan"),
        ({"counts": [[0.0] * 10] * 10}, "counts [10 x 10 values]"),
        ({"per_class": [0.5, 1.0]}, "per_class [0.5, 1.0]"),
    ],
)
def test_logs_as_text(logs, expected):
    assert format_logs(logs) == expected


def test_a_terminal_that_is_gone_does_not_end_the_training():
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    console = Console(file=Gone(), force_terminal=True, width=80)
    made = model()
    history = made.fit(X, Y, epochs=2, batch_size=8, callbacks=progress_callbacks("auto", console), verbose=0)
    assert history.epoch == [0, 1]
