"""Anomaly mode: an error of the backward pass, and a gradient that is not a number, name the op and where it was
called.

    with pt.autograd.detect_anomaly():
        loss(model(x)).backward()
"""

from __future__ import annotations

from contextvars import Token

from prototorch.eager.observers import AnomalyMode, Observers, observers

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly:
    """A context in which each op remembers where it was called; errors of its gradient show it. It slows programs down.

    check_nan: whether a gradient with elements that are not numbers is an error.
    """

    mode = True

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        self._tokens: list[Token[Observers | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_set_mode(self.mode, self.check_nan))

    def __exit__(self, *_: object) -> None:
        observers.reset(self._tokens.pop())


class set_detect_anomaly(detect_anomaly):
    """Turn anomaly mode on or off, at once, and as a context until its end."""

    def __init__(self, mode: bool, check_nan: bool = True):
        super().__init__(check_nan)
        self.mode = bool(mode)
        self._tokens.append(_set_mode(self.mode, check_nan))

    def __enter__(self) -> None:
        """The mode is set already."""


def _set_mode(mode: bool, check_nan: bool) -> Token[Observers | None]:
    anomaly = AnomalyMode(bool(check_nan)) if mode else None
    changed = (observers.get() or Observers())._replace(anomaly=anomaly)
    return observers.set(None if changed == Observers() else changed)
