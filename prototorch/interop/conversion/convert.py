"""`convert`: one function for all conversions; what it writes is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prototorch.engine.storage.atomic_write import rename_durably, staging_folder, write_bytes
from prototorch.errors import FileError, UsageError
from prototorch.interop.conversion.pairs import rules_text
from prototorch.interop.conversion.sources import ConversionSource, WeightOptions, open_source
from prototorch.interop.downloads.digests import digests_of_file
from prototorch.interop.writers import find_output_format, output_formats, written_endings
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.model.foreign_files import ModelToWrite
from prototorch.model.rules_file import as_rules
from prototorch.model.weights_block import Weights
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields

__all__ = ["Conversion", "convert"]

_TEXT_ENDINGS = (".proto", ".prototxt")
_FOREIGN_HDF5 = (".weights.h5", ".caffemodel.h5")
_OWN_FORMATS = ("proto", "prototorch")
_Write = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Conversion:
    """The result of `convert`: the files that were written, and what a user must know, a sentence each."""

    paths: tuple[str, ...]
    notes: tuple[str, ...]


def convert(
    source: str,
    target: str | None,
    *,
    to: str | None = None,
    model: str | None = None,
    overrides: Sequence[str] = (),
    rules: Any = None,
    write_rules: str | None = None,
    weights_to: str | None = None,
    matching: WeightOptions | None = None,
    import_options: Mapping[str, Any] | None = None,
    force: bool = False,
    **writer_options: Any,
) -> Conversion:
    """Convert a file: weights to weights, a model of another system to a text and its weights, ours to another's.

    source: a saved model, a text or the name of a shipped model, or a file of another system. target: the file to
    write; its ending is the format, or ``to`` is ("proto", "prototorch", or the name of a writer). model: the text or
    saved model whose weights the source has. overrides: as ``--set`` for a text. rules: see `Model.load_weights`.
    write_rules: a file for the pairs of layers that were found, as rules; then target may be None. weights_to: the
    .h5 for the weights of a text; by default beside it. matching: how weights are matched. import_options: for
    the importer of a whole model, see `ModelFormat.options`. force: replace files. writer_options: those of the format
    that is written.

    Raises UsageError for what cannot be converted into what, FileError for files that exist, and what readers raise.
    """
    if target is None and write_rules is None:
        raise UsageError("convert: what is to be written? Give -o OUT, or --write-rules FILE")
    if write_rules is not None and model is None:
        raise UsageError("--write-rules needs --model TEXT: rules map the names of a file to those of a net")
    options = replace(matching or WeightOptions(), rules=as_rules(rules))
    writes: dict[str, _Write] = {}
    notes: list[str] = []
    if write_rules is not None:
        conversion = open_source(source, model, overrides, options, import_options or {}, match_only=True)
        assert conversion.match is not None
        text = rules_text(conversion.match)
        writes[write_rules], notes = lambda path: _write_text(path, text), conversion.notes
    if target is not None:
        conversion = open_source(source, model, overrides, options, import_options or {})
        writes |= _plan(conversion, target, to, weights_to, writer_options)
        notes = conversion.notes
    for path in writes:
        _check_target(source, path, force)
    paths = _write_all(writes, force)
    return Conversion(tuple(sorted(paths, key=lambda path: path != target)), tuple(notes))


def _plan(
    source: ConversionSource, target: str, to: str | None, weights_to: str | None, options: dict[str, Any]
) -> dict[str, _Write]:
    """What is to be written, by path. Raises UsageError for pairs of formats between which there is no way."""
    is_text = to == "proto" or (to is None and target.endswith(_TEXT_ENDINGS))
    is_own = to == "prototorch" or (to is None and target.endswith(".h5") and not target.endswith(_FOREIGN_HDF5))
    if weights_to is not None and not is_text:
        raise UsageError(f"--weights-to is for a text; {target} has the weights itself")
    if (is_text or is_own) and options:
        raise UsageError(f"{target}: this format has no option {', '.join(options)}")
    if source.model is not None and not source.has_weights and not is_text and source.model.weights:
        source.notes.append(f"{source.path} is a text, which holds no weights: those written are initial, untrained")
    if not is_text and not is_own:
        return {target: _foreign_writer(source, target, to, options)}
    own = source.model
    if own is None:
        raise UsageError(
            f"{source.path}: is a file of weights, which tells no net; --model TEXT names the model that it belongs to"
        )
    if is_own:
        return {target: lambda path: _save(own, path)}
    weights = weights_to or os.path.splitext(target)[0] + ".h5"
    if source.has_weights:
        pair = _TextAndWeights(own, source.text, os.path.relpath(weights, os.path.dirname(target) or os.curdir))
        return {weights: pair.write_weights, target: pair.write_text}  # the text names the file, with its digest
    text = source.text or own.to_text()
    writes: dict[str, _Write] = {target: lambda path: _write_text(path, text)}
    if weights_to is not None:
        if source.text is None:
            raise UsageError(f"{source.path}: is a text, which has no weights to write into {weights_to}")
        source.notes.append(f"{source.path} has no weights: {weights_to} is not written")
    return writes


class _TextAndWeights:
    """A text and the saved model with its weights, which the text names relative to itself, with the digest.

    text: the model's, where it is not what `Model.to_text` gives. source: the path of the weights from the text.
    """

    def __init__(self, model: Any, text: str | None, source: str):
        self.model, self.text, self.source = model, text, source.replace(os.sep, "/")
        self.digest = ""
        model.weights_block, model.nested_weights = (
            None,
            (),
        )  # the weights are those of the file, wherever they came from

    def write_weights(self, path: str) -> Sequence[str]:
        paths = _save(self.model, path)
        self.digest = f"sha256:{digests_of_file(path).sha256}"
        return paths

    def write_text(self, path: str) -> Sequence[str]:
        block = Weights(source=self.source, digest=self.digest)
        field = Field("weights", Body(tuple(block.to_fields())))
        return _write_text(path, (self.text or self.model.to_text()).rstrip("\n") + "\n" + format_fields([field]))


def _foreign_writer(source: ConversionSource, target: str, to: str | None, options: dict[str, Any]) -> _Write:
    format = _find_format(target, to)
    if source.model is None:
        assert source.file is not None
        if format.write_arrays is None:
            raise UsageError(
                f"{source.path}: is a file of weights, and {format.title} needs the net as well: --model TEXT names it"
            )
        if options:
            raise UsageError(f"{target}: arrays as they are take no option {', '.join(options)}")
        file, write = source.file, format.write_arrays
        source.notes.append("no --model: names and layouts of the arrays stay as they are")
        return lambda path: write(path, file, file.metadata)
    model = source.model
    to_write = ModelToWrite(
        model.net,
        model.weights,
        source.text or model.to_text(),
        model.net.class_names,
        shapes=source.shapes,
        metadata=source.metadata,
        input_dtypes=model.input_dtypes(),
    )

    def write_model(path: str) -> Sequence[str]:
        paths = format.save(path, to_write, **options)
        source.notes.extend(to_write.notes)
        return paths

    return write_model


def _find_format(target: str, to: str | None) -> OutputFormat:
    formats = output_formats()
    if to is None and not any(target.lower().endswith(e) for one in formats for e in one.endings):
        names = ", ".join(("proto", "prototorch", *(one.name for one in formats)))
        raise UsageError(
            f"{target}: no format that is written has this ending; there are .proto (a text of ours), .h5 (a saved "
            f"model of ours), {written_endings()}; or --to says which: {names}"
        )
    return find_output_format(target, to)


def _save(model: Any, path: str) -> Sequence[str]:
    model.save_weights(path)
    return (path,)


def _write_text(path: str, text: str) -> Sequence[str]:
    write_bytes(path, text.encode())
    return (path,)


def _check_target(source: str, path: str, force: bool) -> None:
    if os.path.isdir(path):
        raise FileError(f"{path}: is a folder, not a file to write")
    if os.path.exists(source) and os.path.exists(path) and os.path.samefile(source, path):
        raise FileError(f"{path}: is the file that is read; write to another one")
    if os.path.lexists(path) and not force:
        raise FileError(f"{path}: exists; --force replaces it")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileError(f"{path}: there is no folder {folder}")


def _write_all(writes: dict[str, _Write], force: bool) -> tuple[str, ...]:
    """Write every file into a temporary folder beside its place first, then move them all."""
    moves: list[tuple[str, str]] = []
    with contextlib.ExitStack() as staged:
        for target, write in writes.items():
            folder = staged.enter_context(staging_folder(target))
            for path in write(os.path.join(folder, os.path.basename(target))):
                final = os.path.join(os.path.dirname(target), os.path.relpath(path, folder))
                if os.path.lexists(final) and not force:
                    raise FileError(f"{final}: exists; --force replaces it")
                moves.append((path, final))
        for path, final in moves:
            rename_durably(path, final)
    return tuple(final for _, final in moves)
