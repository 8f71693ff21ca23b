"""A model text, read and expanded in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from prototorch.text import overrides
from prototorch.text.diagnostics import Report
from prototorch.text.expansion import expand
from prototorch.text.reader import parse, read_file
from prototorch.text.syntax_tree import Document


def load_document(
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
    root = os.path.dirname(os.fspath(path)) or "."
    return load_text(read_file(path), os.fspath(path), params, settings, report, root)


def load_text(
    text: str,
    path: str | None = None,
    params: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    report: Report | None = None,
    root: str | None = None,
) -> Document:
    """The expanded document of a text. ``path`` is only for messages; files are included from ``root``, if given."""
    diagnostics = Report() if report is None else report
    set_params, others = overrides.parse_overrides(settings)
    document = parse(text, path, diagnostics)
    set_params, others = overrides.set_epochs_param(document, {**(params or {}), **set_params}, others)
    document = expand(document, set_params, diagnostics, root)
    document = overrides.apply_overrides(document, others, diagnostics)
    if report is None:
        diagnostics.raise_if_any()
    return document
