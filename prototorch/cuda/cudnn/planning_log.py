"""What is logged of planning: cuDNN's refusals at the level debug, each kind of failure as one warning."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["frontend_log_at_debug", "warn_of_engine", "warn_of_failure", "warn_once"]

log = logging.getLogger(__name__)

#: loggers of cuDNN's graph API that tell of graphs without an engine, at the level warning
_FRONTEND_LOGGERS = ("cudnn.pygraph", "cudnn.engines.heuristics", "cudnn.engines.manifest")
_warned: set[str] = set()


def warn_once(subject: str, text: str) -> None:
    """Log a warning; only the first of a subject in the process."""
    if subject not in _warned:
        _warned.add(subject)
        log.warning("%s", text)


def warn_of_failure(kind: str, failure: Exception) -> None:
    """Warn of a failure to plan graphs of this kind, once for each kind and reason."""
    reason = next(iter(str(failure).splitlines()), "")
    warn_once(
        f"{kind} {reason}",
        f"cuDNN failed to plan a graph of the kind {kind} ({reason}): the next kernel is used, which may be slower; "
        "expected a plan or a refusal: check the installed versions with `prototorch devices`",
    )


def warn_of_engine(kind: str, engine: str, failure: Exception) -> None:
    """Warn that an engine could not be built, though cuDNN offers it, once for each kind of graph and reason."""
    reason = f"{type(failure).__name__}: {next(iter(str(failure).splitlines()), '')}"
    warn_once(
        f"{kind} engine {reason}",
        f"cuDNN's engine {engine} of a graph of the kind {kind} cannot be built ({reason}): the next one is used, "
        "which may be slower; check the versions of cuDNN and NVRTC with `prototorch devices`",
    )


@contextmanager
def frontend_log_at_debug() -> Iterator[None]:
    """Within it, warnings of cuDNN's graph API in this thread are logged here at the level debug: without a
    configuration of logging they would be printed to stderr."""
    thread = threading.get_ident()

    def demote(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        log.debug("cuDNN's graph API: %s", record.getMessage())
        return False

    loggers = [logging.getLogger(name) for name in _FRONTEND_LOGGERS]
    for logger in loggers:
        logger.addFilter(demote)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(demote)
