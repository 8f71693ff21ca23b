"""Sources of texts as data sets of token ids: tables, folders of files per class, one long text, pairs of texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from prototorch.data.csv_reader import column_index, read_rows
from prototorch.data.dataset import Dataset
from prototorch.data.image_folder import find_image_files, find_splits, list_class_names
from prototorch.data.label_words import encode_labels
from prototorch.data.safe_io import check_memory, printable_path
from prototorch.data.table_columns import TableColumns
from prototorch.data.text_files import TEXT_SUFFIXES, read_text, read_text_lines
from prototorch.data.token_dataset import TokenDataset, TokenSequences, WindowDataset
from prototorch.errors import DataError, did_you_mean

__all__ = ["TextFormat", "TextInput", "TextKind", "open_texts"]

TextKind = Literal["lines", "table", "files", "windows", "pairs"]
Check = Callable[[Path], None]


class TextEncoder(Protocol):
    """What makes ids of texts: a tokenizer."""

    def encode(self, text: str) -> list[int]: ...
    def encode_part(self, text: str) -> list[int]: ...
    def edge_ids(self) -> tuple[int, int]: ...
    def is_adapted(self) -> bool: ...
    def adapt(self, data: Any) -> None: ...
    def padding_id(self) -> int: ...


@dataclass(frozen=True)
class TextInput:
    """An input that texts are made for: its name, its tokenizer, and the number of ids of a sample, None: that of the
    longest text."""

    name: str
    tokenizer: TextEncoder
    length: int | None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """The ids of texts, int32 [n, length], padded."""
        padding = self.tokenizer.padding_id()
        sequences = TokenSequences([self.tokenizer.encode(text) for text in texts], self.length, padding)
        return sequences.read(np.arange(len(sequences)))


@dataclass(frozen=True)
class TextFormat:
    """How a source of texts is read.

    kind: see `Data`; None: files of a folder, else what the model reads (``default_kind``), else a table.
    inputs: those of the model, in order. stride: of windows; None: their length.
    learn: whether a tokenizer without a vocabulary learns that of these texts.
    """

    kind: TextKind | None
    inputs: tuple[TextInput, ...]
    stride: int | None = None
    learn: bool = False
    default_kind: TextKind | None = None


def open_texts(
    path: Path,
    text: TextFormat,
    labels: Sequence[str | int],
    features: Sequence[str | int],
    classes: Sequence[str],
    check: Check,
) -> dict[str, Dataset]:
    """The data sets of a source of texts by split.

    labels, features, classes: those of `SourceOptions`. check: raises for a file that may not be read.

    Raises:
        DataError: a source of another kind, or one that does not have what its kind needs.
    """
    name = printable_path(path)
    kind = text.kind or _find_kind(path, text, labels, features, name)
    if path.is_dir() != (kind == "files"):
        what = "a folder of text files per class" if kind == "files" else "one file"
        raise DataError(f"{name}: text: {kind} reads {what}, and this is {'a folder' if path.is_dir() else 'a file'}")
    count = 2 if kind == "pairs" else 1
    if kind != "table" and len(text.inputs) != count:
        raise DataError(
            f"{name}: text: {kind} is for a model of {count} input{'s' * (count > 1)}, which reads texts; "
            f"this one has {len(text.inputs)}"
        )
    if kind == "files":
        folders = find_splits(path) or {"train": path}
        words = tuple(classes) or list_class_names(folders["train"])
        return {split: _open_files(folder, text, words, check) for split, folder in folders.items()}
    if kind == "windows":
        return {"train": _open_windows(path, text, name)}
    if kind == "lines":
        lines = read_text_lines(path)
        one = text.inputs[0]
        return {
            "train": TokenDataset(
                {one.name: _encode(one, text, lines)}, {}, [one.name], name=name, origins=f"{name}, text {{}}"
            )
        }
    return {"train": _open_table(path, text, kind == "pairs", labels, features, classes, name)}


def _find_kind(
    path: Path, text: TextFormat, labels: Sequence[str | int], features: Sequence[str | int], name: str
) -> TextKind:
    if path.is_dir():
        return "files"
    if text.default_kind is not None:
        return text.default_kind
    if labels or features:
        return "table"
    raise DataError(
        f"{name}: the model reads texts; say how this file holds them: data {{ text: windows }} is one long text, "
        'whose next token is learned; text: lines a text per line; text: table  label: "column" a table with texts'
    )


def _encode(one: TextInput, text: TextFormat, texts: Sequence[str], extra: Sequence[str] = ()) -> TokenSequences:
    """The ids of texts; a tokenizer without a vocabulary first learns that of these and of the ``extra`` ones."""
    _learn(one, text, [*texts, *extra])
    return TokenSequences([one.tokenizer.encode(t) for t in texts], one.length, one.tokenizer.padding_id())


def _learn(one: TextInput, text: TextFormat, texts: Sequence[str]) -> None:
    if text.learn and not one.tokenizer.is_adapted():
        one.tokenizer.adapt(list(texts))


def _open_windows(path: Path, text: TextFormat, name: str) -> WindowDataset:
    one = text.inputs[0]
    if one.length is None:
        raise DataError(
            f"{name}: a window has the length of the input {one.name!r}, which is not declared: "
            "input { shape: [64]  dtype: int32 }"
        )
    whole = read_text(path)
    _learn(one, text, [whole])
    ids = np.asarray(one.tokenizer.encode_part(whole), np.int32)
    return WindowDataset(ids, one.length, text.stride or one.length, input=one.name, target="next", name=name)


def _open_files(folder: Path, text: TextFormat, classes: Sequence[str], check: Check) -> TokenDataset:
    name, one = printable_path(folder), text.inputs[0]
    class_names = list_class_names(folder)
    if not class_names:
        raise DataError(f"{name}: has no class folders; expected one folder of text files per class")
    files = {word: find_image_files(folder / word, TEXT_SUFFIXES) for word in class_names}
    check_memory(sum(os.stat(file).st_size for paths in files.values() for file in paths if os.path.exists(file)), name)
    texts, labels, origins = [], [], []
    for word in class_names:
        if word not in classes:
            raise DataError(
                f"{name}: the folder {word!r} is not one of the classes {', '.join(classes[:8])}."
                f"{did_you_mean(word, classes)}"
            )
        for file in files[word]:
            check(Path(file))
            texts.append(read_text(Path(file)))
            labels.append(list(classes).index(word))
            origins.append(printable_path(file))
    if not texts:
        raise DataError(f"{name}: has no text files ({', '.join(sorted(TEXT_SUFFIXES))})")
    return TokenDataset(
        {one.name: _encode(one, text, texts)},
        {"label": np.array(labels, np.int64)},
        [one.name],
        ["label"],
        classes={"label": tuple(classes)},
        name=name,
        origins=origins,
        sorted_by_class=len(class_names) > 1,
    )


def _open_table(
    path: Path,
    text: TextFormat,
    is_pairs: bool,
    labels: Sequence[str | int],
    features: Sequence[str | int],
    classes: Sequence[str],
    name: str,
) -> TokenDataset:
    if is_pairs and not (labels or features):
        labels, features = [-1], [0]
    if not labels:
        raise DataError(
            f'{name}: text: table needs the target column: label: "name" of the header, or its number without one'
        )
    rows, lines = read_rows(path, name, prefers_tabs=True)
    has_header = any(isinstance(column, str) for column in [*labels, *features])
    header = [cell.strip() for cell in rows[0]] if has_header else [str(i) for i in range(len(rows[0]))]
    rows, lines = (rows[1:], lines[1:]) if has_header else (rows, lines)
    if not rows:
        raise DataError(f"{name}: has no rows")
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise DataError(
                f"{name}, line {line}: has {len(row)} fields, expected {len(header)} as in the lines before it"
            )
    targets = [column_index(c, header, name, False) for c in labels]
    columns = [column_index(c, header, name, False) for c in features]
    columns = columns or [i for i in range(len(header)) if i not in targets]
    count = 1 if is_pairs else len(text.inputs)
    if len(columns) != count or len(targets) != 1:
        raise DataError(
            f"{name}: expected {count} column{'s' * (count > 1)} of texts and one target, got {len(columns)} and "
            f'{len(targets)}; name them: features: ["text"]  label: "class"'
        )
    texts = [[row[c] for row in rows] for c in columns]
    target = [row[targets[0]] for row in rows]
    origins = [f"{name}, line {line}" for line in lines]
    if is_pairs:
        return _make_pairs(text, texts[0], target, name, origins)
    sequences = {one.name: _encode(one, text, column) for one, column in zip(text.inputs, texts, strict=True)}
    y, names = encode_labels([word.strip() for word in target], classes, lambda at: origins[at])
    column = header[targets[0]] if has_header and header[targets[0]] not in sequences else "label"
    dataset = TokenDataset(
        sequences,
        {column: y},
        list(sequences),
        [column],
        classes={column: names} if names else {},
        name=name,
        origins=origins,
    )
    if has_header:
        dataset.table_columns = TableColumns(tuple(header[c] for c in columns), (header[targets[0]],))
    return dataset


def _make_pairs(
    text: TextFormat, sources: Sequence[str], targets: Sequence[str], name: str, origins: Sequence[str]
) -> TokenDataset:
    """A text as the target of another: the second input is it behind the start, the target is it before the end."""
    source, begin = text.inputs
    if source.tokenizer is begin.tokenizer:
        _learn(source, text, [*sources, *targets])
    first = _encode(source, text, sources)
    _learn(begin, text, targets)
    (start, end), padding = begin.tokenizer.edge_ids(), begin.tokenizer.padding_id()
    room = None if begin.length is None else begin.length - 1
    rows = [begin.tokenizer.encode_part(t)[:room] for t in targets]
    length = begin.length or 1 + max(map(len, rows))
    return TokenDataset(
        {
            source.name: first,
            begin.name: TokenSequences([[start, *row] for row in rows], length, padding),
            "next": TokenSequences([[*row, end] for row in rows], length, padding),
        },
        {},
        [source.name, begin.name],
        ["next"],
        name=name,
        origins=origins,
    )
