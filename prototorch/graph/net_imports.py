"""The line ``import: "my_layers"`` of a model text: the Python modules whose layers, losses, ... the text uses."""

from __future__ import annotations

import os

from prototorch.base.terminal import escape_line
from prototorch.errors import UsageError
from prototorch.schema.python_imports import (
    HOW_TO_ALLOW,
    check_module_name,
    import_python_module,
    is_python_allowed,
    module_location,
    register_layers,
)
from prototorch.text.diagnostics import Report
from prototorch.text.name_resolution import string_values
from prototorch.text.syntax_tree import Document, Field, InvalidValue

__all__ = ["read_imports"]


def read_imports(document: Document, report: Report) -> tuple[str, ...] | None:
    """Import the modules that a text names; their names. None after a mistake, which is reported.

    A module is looked for beside the text, then in the working directory, then in ``sys.path``. Without
    `schema.python_imports.allow_python` nothing is imported: that is a mistake of the text.
    """
    fields = [f for f in document.fields if f.name == "import"]
    names = [(name, f) for f in fields for name in _names(f, report)]
    before = len(report)
    folders = _folders(document)
    for name, f in dict(reversed(names)).items():
        try:
            check_module_name(name)
            if not is_python_allowed():
                file = module_location(name, folders)
                runs = f"would run {escape_line(file)}" if file else f"would run the Python module {name!r}"
                report.add(f"import {name!r} {runs}. {HOW_TO_ALLOW}.", f.value.span, f.chain)
                continue
            report.imported_classes.update(register_layers(import_python_module(name, folders), name))
        except UsageError as error:
            report.add(f"import: {error}.", f.value.span, f.chain)
    if len(report) > before or any(isinstance(f.value, InvalidValue) for f in fields):
        return None
    return tuple(dict(names))


def _names(f: Field, report: Report) -> list[str]:
    names = string_values(f.value)
    if len(names) != len(getattr(f.value, "items", (f.value,))) and not isinstance(f.value, InvalidValue):
        report.add('import names Python modules in quotes: import: "my_layers".', f.value.span, f.chain)
    return names


def _folders(document: Document) -> tuple[str, ...]:
    path = document.source.path if document.source is not None else None
    beside = (os.path.dirname(os.path.realpath(path)),) if path is not None and os.path.isfile(path) else ()
    return (*beside, os.getcwd())
