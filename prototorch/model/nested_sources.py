"""The source of a net in a net: a model that comes with prototorch, a text, or a saved model, read without training."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from prototorch.base.package_files import shipped_models
from prototorch.engine.storage import checkpoint
from prototorch.errors import ModelFileError, did_you_mean
from prototorch.graph.net import Net
from prototorch.graph.net_reader import read_net
from prototorch.model.net_use import NetUse
from prototorch.model.text_parts import read_vocabularies, saved_document
from prototorch.schema import to_name
from prototorch.schema.types import text_name
from prototorch.text import limits
from prototorch.text.diagnostics import Report
from prototorch.text.dialects import find_dialect
from prototorch.text.includes import IncludeError, IncludeFiles
from prototorch.text.name_resolution import string_values
from prototorch.text.nested_net import FileKey, NetRequest
from prototorch.text.operands import to_operand
from prototorch.text.reader import decode_utf8, parse
from prototorch.text.syntax_tree import (
    Body,
    Document,
    ExpansionFrame,
    Field,
    Scalar,
    to_python_value,
)

__all__ = ["ReadNet", "read_source"]

TEXT_SUFFIX, SAVED_SUFFIXES = ".proto", (".h5", ".hdf5")


@dataclass(frozen=True)
class ReadNet:
    """A net by its source, without what a use says of it.

    stem: the default name of a use. main_outputs: those of its text, without those that only a loss has. weights: its
    ``weights`` blocks. unused: what its text has and is left out. saved_file: the file that has its arrays, relative to
    the main file.
    """

    title: str
    stem: str
    net: Net
    main_outputs: tuple[str, ...]
    weights: tuple[Field, ...]
    unused: tuple[str, ...]
    saved_file: str | None = None


def read_source(request: NetRequest, source: str, params: Mapping[str, Field]) -> ReadNet | None:
    """The net that a source names. Raises IncludeError for a file that cannot be opened; other mistakes are reported,
    and give None."""
    values = {name: to_operand(f.value) for name, f in params.items()}
    if source.endswith(SAVED_SUFFIXES):
        parts = _locate(request, source)
        return _cached(request, (request.files.root or ".", *parts), {}, lambda: _read_saved(request, parts, params))
    files = request.files
    if source.endswith(TEXT_SUFFIX):
        parts = _locate(request, source)
    else:
        path = shipped_models().get(source)
        if path is None:
            suggestion = did_you_mean(source, shipped_models())
            hint = suggestion or ' A file is named with its ending: Net("base.proto"), Net("base.h5").'
            raise IncludeError(f"No model named {source!r} comes with prototorch.{hint}")
        files = IncludeFiles(str(path.parent))
        parts = (path.name,)
    file: FileKey = (os.path.realpath(files.root or "."), *parts)
    if file in request.open_files:
        circle = " -> ".join(key[-1] for key in (*request.open_files[request.open_files.index(file) :], file))
        raise IncludeError(f"These nets contain each other in a circle: {circle}.")
    if len(request.open_files) > limits.MAX_INCLUDE_DEPTH:
        raise IncludeError(f"More than {limits.MAX_INCLUDE_DEPTH} nets are inside each other.")
    title = source if files is not request.files else "/".join(parts)
    return _cached(request, file, values, lambda: _read_text(request, files, file, title, params))


def _locate(request: NetRequest, source: str) -> tuple[str, ...]:
    if request.files.root is None:
        raise IncludeError('A text that is not a file has nets of the package alone, such as Net("lenet").')
    suffixes = (TEXT_SUFFIX, *SAVED_SUFFIXES)
    return request.files.locate(source, request.base, suffixes, "the file of a net", "the file that names it")


def _cached(
    request: NetRequest, file: FileKey, params: Mapping[str, Any], read: Callable[[], ReadNet | None]
) -> ReadNet | None:
    key = (file, repr(params))
    if key not in request.cache:
        request.cache[key] = read()
    result: ReadNet | None = request.cache[key]
    return result


def _read_text(
    request: NetRequest, files: IncludeFiles, file: FileKey, title: str, params: Mapping[str, Field]
) -> ReadNet | None:
    parts = file[1:]
    report = Report()
    text = decode_utf8(files.read(parts, "loaded"), files.name(parts), report)
    if text is not None:
        dialect = find_dialect(text)
        if dialect is not None:
            raise IncludeError(
                f"{title!r} is a text of {dialect[0].name.title()}; `prototorch convert` makes a text of it that can "
                "be a net here."
            )
        document = parse(text, files.name(parts), report)
        values = {name: to_operand(f.value) for name, f in params.items()}
        expansion = request.expand(document, values, files, file, report)
        unknown = [f for name, f in params.items() if name not in expansion.params]
        for f in unknown if not len(report) else ():
            names = [*(text_name(n) for n in NetUse.specs()), *expansion.params]
            request.report.add(
                f"Net has no field {f.name!r}, and {title} no param of this name.{did_you_mean(f.name, names)}",
                f.name_span,
            )
        if unknown and not len(report):
            return None
        read = _read_net(request, expansion.document, title, PurePosixPath(parts[-1]).stem, report)
        if read is not None:
            folder = os.path.relpath(os.path.dirname(files.name(parts)) or ".", request.files.root or ".")
            return replace(read, weights=tuple(_relative_weights(f, folder) for f in read.weights))
    _take_over(report, request)
    return None


def _read_saved(request: NetRequest, parts: tuple[str, ...], params: Mapping[str, Field]) -> ReadNet | None:
    path = request.files.check_regular(parts, "loaded")
    title = "/".join(parts)
    for f in params.values():
        hint = did_you_mean(f.name, [text_name(n) for n in NetUse.specs()])
        message = f"{title} is a saved model, in which all params are set: it takes no {f.name!r}.{hint}"
        request.report.add(message, f.name_span)
    if params:
        return None
    report = Report()
    try:
        document = saved_document(checkpoint.load(path, mapped=True), path, (), report)
    except ModelFileError as error:
        raise IncludeError(str(error)) from None
    read = _read_net(request, document, title, PurePosixPath(parts[-1]).stem, report)
    if read is None:
        _take_over(report, request)
        return None
    return replace(read, weights=(), saved_file=title)


def _read_net(request: NetRequest, document: Document, title: str, stem: str, report: Report) -> ReadNet | None:
    """The net of an expanded text, without what it says of training; None after mistakes, which are in the report."""
    fields = _less_imports(request, document, title, report)
    source = request.document.source if any(f.name == "import" for f in fields) else document.source
    net, sections = read_net(replace(document, statements=tuple(fields), source=source), report)
    if net is not None:
        read_vocabularies(net, report, document.source is None)
    if net is None or len(report):
        return None
    if not any(f.name == "name" for f in fields):
        net = replace(net, name=to_name(stem))
    stated = next((f for f in fields if f.name == "data_format"), None)
    outer = next((f for f in request.document.fields if f.name == "data_format"), None)
    if outer is not None and to_python_value(outer.value) != (stated and to_python_value(stated.value)):
        report.add(
            f"This text says data_format: {to_python_value(outer.value)} for all layers, and {title} says "
            f"{'another one' if stated else 'none'}: leave out the line, and write data_format in the layers.",
            request.span,
        )
        return None
    has_output = any(f.name == "output" for f in fields)
    names = [n for f in fields if f.name == "output" for n in string_values(f.value)]
    main = tuple(n for n in net.outputs if n in names) if has_output else net.nodes[-1].tops[:1]
    unused = tuple(name for name in ("augment", "compile", "fit") if name in sections)
    weights = tuple(f for f in fields if f.name == "weights" and isinstance(f.value, Body))
    return ReadNet(title, to_name(stem), net, main or net.outputs, weights, unused)


def _less_imports(request: NetRequest, document: Document, title: str, report: Report) -> list[Field]:
    """The fields of a text whose modules are those that the text around imports, where it does: it alone decides which
    Python runs, and where it is looked for."""
    outer = [f for f in request.document.fields if f.name == "import"]
    imports = {name for f in outer for name in string_values(f.value)}
    own = [f for f in document.fields if f.name == "import"]
    for name in [n for f in own for n in string_values(f.value) if n not in imports]:
        report.add(
            f'{title} needs the Python module {name!r}, which this text does not import: write import: "{name}" in it.',
            request.span,
        )
    rest = [f for f in document.fields if f.name != "import"]
    return [*outer, *rest] if own else rest


def _relative_weights(f: Field, folder: str) -> Field:
    """A ``weights`` block whose source, where it is a file beside its text, is relative to the main file."""
    span = f.value.span
    if span is None or span.path is None or folder in ("", "."):
        return f
    text_folder = os.path.dirname(span.path)
    return replace(f, value=Body(tuple(_relative_source(g, text_folder, folder) for g in f.value.fields), span))


def _relative_source(f: Field, text_folder: str, folder: str) -> Field:
    name = to_python_value(f.value)
    if f.name != "source" or not isinstance(name, str) or not os.path.exists(os.path.join(text_folder, name)):
        return f
    return replace(f, value=Scalar(os.path.join(folder, name), f.value.span))


def _take_over(report: Report, request: NetRequest) -> None:
    """Report the mistakes of a text where the net is used."""
    for d in report.diagnostics:
        if d.span is request.span:
            request.report.add(d.message, d.span)
        else:
            request.report.add(d.message, d.span, _inside(d.chain, request.frame), d.is_provisional)


def _inside(chain: ExpansionFrame | None, outer: ExpansionFrame) -> ExpansionFrame:
    """A chain of frames in another one."""
    return outer if chain is None else ExpansionFrame(chain.label, chain.span, _inside(chain.outer, outer))
