"""The ``data { }`` block: the source of the samples, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, get_args

from prototorch.data.dataset import Dataset
from prototorch.data.image_io import ImageReader
from prototorch.data.read_limits import ReadLimits
from prototorch.data.siamese_pairs import SiamesePairs
from prototorch.data.sources import DatasetSplits, SourceOptions, open_source, source_beside
from prototorch.data.table_columns import TableColumns
from prototorch.data.tables.column_block import Column, InputColumns, MissingPolicy, Scale, ScaleWord
from prototorch.data.tables.table_options import TableOptions
from prototorch.data.text_source import TextFormat, TextInput, TextKind
from prototorch.errors import DataError
from prototorch.schema import Block, Choice, Ints, example, field
from prototorch.schema.block_source import find_span

__all__ = ["Data"]


class Data(Block):
    """Source of the samples.

    ``source`` is the name of a data set (fashion-mnist-mini is always available; fashion-mnist and mnist are searched
    for on this machine) or a path: a folder of images with one folder per class, a list of images (lines
    ``path label``), IDX files, npz, HDF5 or CSV. The format is detected from the content. Of a model that reads texts,
    see `TextVectorization`, it is a text file, a table, or a folder of text files with one folder per class.
    """

    display_name = "data"

    source: str = field(doc="name of a data set, or a path: relative to the model file, else to the working directory")
    folder: str | None = field(
        None, doc="folder searched first for a named set; for a list of images, the folder its paths are in"
    )
    part: Literal["train", "validation", "test"] = field("train", doc="which split of the source")
    label: list[str | int] = field([], doc="target columns (of a CSV table also by index); empty: chosen by the format")
    features: list[str | int] = field([], doc="feature columns of a CSV table; empty: all except the targets")
    classes: list[str] = field([], doc="class names in label order; empty: the names in the source, sorted")
    column: list[Column] = field([], doc='how columns of a table are read by type: column { name: "age" }')
    inputs: list[InputColumns] = field(
        [], doc='the columns of each of several inputs: inputs { name: "place"  columns: ["town", "lat*"] }'
    )
    weights: str | None = field(None, doc="the column of a table that is the weight of each row in the loss")
    missing: str | float | None = field(
        None,
        type=MissingPolicy(),
        doc="what a gap becomes in the columns of a table that do not say it; where this is mean or median, of "
        "categories the most frequent one, of texts none, of lists an element that marks it; none: an error",
    )
    table: str | None = field(
        None, doc="the name of a table of an SQLite file, or of a sheet of Excel; none: the only table, the first sheet"
    )
    decimal: Literal[".", ","] = field(".", doc="what numbers of a table have for a decimal point")
    thousands: Literal[",", ".", "'", " "] | None = field(
        None, doc="what numbers of a table have between thousands, three digits each; none: nothing"
    )
    scale: Scale = field(
        "auto",
        type=ScaleWord(),
        doc="how numbers and dates of a table that is read by type are scaled where a column does not say it, see "
        "column; auto: standard",
    )
    refit: bool = field(
        False, doc="whether a second training learns means, categories and scales of a table anew; they are kept else"
    )
    size: tuple[int, int] | None = field(
        None, type=Ints(2, min=1), doc="height and width, in pixels, that images are resized to; none: the model's"
    )
    color: Literal["rgb", "gray"] | None = field(None, doc="colour mode of images; none: by the model's channels")
    resize: Literal["stretch", "crop", "pad"] = field("stretch", doc="how images of another aspect ratio are resized")
    pairs: bool = field(False, doc="pairs of samples (left, right); the target is whether their classes are equal")
    limit: int | None = field(None, min=1, doc="number of samples of each split to use, drawn by the seed; none: all")
    text: TextKind | None = field(
        None,
        type=Choice(get_args(TextKind)),
        doc="how a source holds texts: lines (one a line), table (columns of a CSV or TSV table), files (a folder of "
        "text files per class), windows (one long text; the target is it one token later), pairs (a table with a text "
        "and the text to generate from it, which is the label); none: files of a folder, windows or pairs where the "
        "model predicts tokens, else a table",
    )
    stride: int | None = field(None, min=1, max=1 << 40, doc="tokens from one window to the next; none: a window")
    buckets: list[int] = field(
        [],
        min=1,
        max=1 << 20,
        doc="rising lengths of texts: a training batch has texts of similar lengths, padded to the next one, of an "
        "input { shape: [none] }; empty: texts of any length",
    )
    shuffle: bool = field(True, doc="whether each epoch has a new order, determined by the seed")
    drop_last: bool = field(False, doc="whether a last batch that is not full is dropped")
    on_error: Literal["fail", "skip"] = field(
        "fail", doc="what happens to an unreadable sample: an error, or skipped and counted"
    )
    skip_limit: float = field(0.05, min=0, max=1, doc="largest fraction of samples that may be skipped")
    threads: int | None = field(None, min=0, max=256, doc="number of threads that read ahead; none: automatic")
    prefetch: int = field(2, min=0, max=1024, doc="number of batches read ahead")
    timeout: float = field(120.0, above=0, doc="seconds that reading one batch may take")

    foreign_fields = {
        **dict.fromkeys(("path", "file", "filename", "dataset", "root", "dir", "directory", "folder"), "source"),
        **dict.fromkeys(("target", "targets", "labels", "y"), "label"),
        "columns": "column",
        **dict.fromkeys(("sample_weight", "sample_weights", "weight"), "weights"),
        "batch_size": "It belongs into fit { }.",
    }
    examples = [
        example('data { source: "fashion-mnist-mini" }'),
        example('data { source: "photos"  size: 224  resize: crop  on_error: skip }'),
        example('data { source: "table.csv"  label: "price" }'),
        example('data { source: "reviews.csv"  text: table  features: "review"  label: "sentiment" }'),
        example('data { source: "people.csv"  label: "fare"  column { name: "ticket"  type: ignore } }'),
        example('data { source: "people.csv"  label: "fare"  weights: "count"  column { name: "fare"  scale: log } }'),
        example('data { source: "shop.db"  table: "orders"  label: "price" }'),
        example('data { source: "novel.txt"  text: windows  stride: 16 }'),
    ]

    @property
    def text_folder(self) -> str | None:
        """The folder of the text that names the source; None where the command line or Python does."""
        span = find_span(self, "source")
        return os.path.dirname(span.path) if span is not None and os.path.isfile(span.path) else None

    def beside_text(self) -> Data:
        """The block with the path of a source that lies beside the text that names it, see `source_beside`."""
        source = source_beside(self.source, self.text_folder or "")
        return self if source == self.source else self.replace(source=source)

    def open_splits(
        self,
        shape: tuple[int | None, ...] | None = None,
        seed: int = 0,
        limits: ReadLimits | None = None,
        texts: Sequence[TextInput] = (),
        learn: bool = False,
        kind: TextKind | None = None,
        groups: TableColumns | None = None,
        table: TableOptions | None = None,
    ) -> DatasetSplits:
        """The data sets of the source by split, each limited to ``limit`` samples.

        Args:
            shape: of the model's image input [channels, height, width]; the default for size and colour.
            seed: decides which samples ``limit`` draws.
            limits: on the files that are read, for a block of a saved model.
            texts: the inputs of a model that reads texts; learn: whether their tokenizers learn a vocabulary; kind: the
                kind of a file that does not tell.
            groups: the columns of a table for each of several inputs and targets.
            table: how a table is read by type; None: numbers alone are read.

        Raises:
            DataError, ResourceError, UsageError: as `open_source`.
        """
        if self.text is not None and not texts:
            raise DataError(
                f"{self.source}: text: {self.text} is for a model that reads texts; this one has no "
                "tokenizer: preprocess { TextVectorization { } }"
            )
        text = TextFormat(self.text, tuple(texts), self.stride, learn, kind) if texts else None
        options = SourceOptions(
            self.label,
            self.features,
            self.classes,
            self.image_reader(shape),
            self.folder,
            limits,
            self.text_folder,
            text,
            groups,
            table,
        )
        return {split: self._limit(dataset, seed) for split, dataset in open_source(self.source, options).items()}

    def open(self, shape: tuple[int | None, ...] | None = None, seed: int = 0) -> Dataset:
        """The data set of the split ``part``. Raises DataError if the source does not have it."""
        return self._select(self.open_splits(shape, seed))

    def open_train_and_validation(
        self,
        shape: tuple[int | None, ...] | None = None,
        seed: int = 0,
        limits: ReadLimits | None = None,
        texts: Sequence[TextInput] = (),
        learn: bool = False,
        kind: TextKind | None = None,
        groups: TableColumns | None = None,
        table: TableOptions | None = None,
    ) -> tuple[Dataset, Dataset | None]:
        """The data set of the split ``part``; for training also the validation split, else the test split, or None."""
        splits = self.open_splits(shape, seed, limits, texts, learn, kind, groups, table)
        validation = next((splits[name] for name in ("validation", "test") if name in splits), None)
        return self._select(splits), validation if self.part == "train" else None

    def loader_options(self) -> dict[str, Any]:
        """The keyword arguments of `Loader` that this block sets."""
        names = ("shuffle", "drop_last", "on_error", "skip_limit", "threads", "prefetch", "timeout", "buckets")
        return {name: getattr(self, name) for name in names}

    def _select(self, splits: DatasetSplits) -> Dataset:
        if self.part not in splits:
            raise DataError(f"{self.source}: has no part {self.part!r}; it has {', '.join(splits)}")
        return splits[self.part]

    def _limit(self, dataset: Dataset, seed: int) -> Dataset:
        samples = dataset if self.limit is None else dataset.sample(self.limit, seed)
        return SiamesePairs(samples) if self.pairs else samples

    def image_reader(self, shape: tuple[int | None, ...] | None) -> ImageReader:
        """The reader of images for an input of this shape [channels, height, width]."""
        image = shape if shape is not None and len(shape) == 3 else (None, None, None)
        size = self.size
        if size is None and image[1] is not None and image[2] is not None:
            size = (image[1], image[2])
        return ImageReader(size, self.color or ("gray" if image[0] == 1 else "rgb"), self.resize)
