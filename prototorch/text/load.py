"""A model text, read and expanded in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import settings as overrides
from .expand import expand
from .mistakes import Report
from .reader import parse, read_file
from .tree import Document


def load(
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    report: Report | None = None,
) -> Document:
    """The expanded document of a file.

    params: values for its ``param``s. settings: ``name=value`` and ``block.field=value``, as from ``--set``.
    report: takes the mistakes; without one they are raised as TextError. Files are included from the file's folder.
    Raises FileError where the file cannot be read, UsageError for a setting that is none.
    """
    mine = Report() if report is None else report
    document = read_file(path, mine)
    return _finished(document, params, settings, mine, report is None, os.path.dirname(os.fspath(path)) or ".")


def load_text(
    text: str,
    path: str | None = None,
    params: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    report: Report | None = None,
    root: str | None = None,
) -> Document:
    """The expanded document of a text. ``path`` is only for messages; files are included from ``root``, if given."""
    mine = Report() if report is None else report
    return _finished(parse(text, path, mine), params, settings, mine, report is None, root)


def _finished(
    document: Document,
    params: Mapping[str, Any] | None,
    settings: Sequence[str],
    report: Report,
    strict: bool,
    root: str | None,
) -> Document:
    set_params, others = overrides.split(settings)
    expanded = expand(document, {**(params or {}), **set_params}, report, root)
    expanded = overrides.apply(expanded, others, report)
    if strict:
        report.raise_if_any()
    return expanded
