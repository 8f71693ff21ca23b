"""The progress bar and the progress lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from prototorch.train.callbacks import Callback
from prototorch.train.progress import progress_callbacks
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
