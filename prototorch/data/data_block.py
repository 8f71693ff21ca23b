"""The ``data { }`` block: what is trained on, and how it is read."""

from __future__ import annotations

from typing import Any, Literal

from prototorch.data.dataset import Dataset
from prototorch.data.image_io import ImageReader
from prototorch.data.siamese_pairs import SiamesePairs
from prototorch.data.sources import DatasetSplits, SourceOptions, open_source
from prototorch.errors import DataError
from prototorch.schema import Block, Ints, example, field


class Data(Block):
    """Where the samples come from.

    ``source`` is the name of a data set (fashion-mnist-mini is always there; fashion-mnist and mnist are looked for on
    this machine) or a path: a folder of pictures with one folder a class, a list of pictures (lines ``path label``),
    IDX files, npz, HDF5 or CSV. What it is is told by its content.
    """

    display_name = "data"

    source: str = field(doc="name of a data set, or a path (relative to the working directory)")
    folder: str | None = field(None, doc="where a named set is looked for first")
    part: Literal["train", "validation", "test"] = field("train", doc="which part of the source")
    label: list[str | int] = field(
        [], doc="the columns that are learned (of a CSV table also by index); empty: by kind"
    )
    features: list[str | int] = field([], doc="the columns of a CSV table that the model reads; empty: all others")
    classes: list[str] = field([], doc="names of the classes in order; empty: as found, sorted")
    size: tuple[int, int] | None = field(
        None, type=Ints(2, min=1), doc="height and width pictures are brought to, in pixels; none: the model's"
    )
    color: Literal["rgb", "gray"] | None = field(None, doc="colour of pictures; none: by the model's channels")
    resize: Literal["stretch", "crop", "pad"] = field(
        "stretch", doc="how pictures of another shape are brought to size"
    )
    pairs: bool = field(False, doc="two samples at a time (left, right); the target is whether their class is one")
    limit: int | None = field(None, min=1, doc="use only this many samples of each part")
    shuffle: bool = field(True, doc="a new order each epoch, by the seed")
    drop_last: bool = field(False, doc="leave out a last batch that is not full")
    on_error: Literal["fail", "skip"] = field("fail", doc="what a sample that cannot be read does: stop, or be counted")
    skip_limit: float = field(0.05, min=0, max=1, doc="fraction of samples that may be skipped before it is an error")
    threads: int | None = field(None, min=0, max=256, doc="threads that read ahead; none: chosen")
    prefetch: int = field(2, min=0, max=1024, doc="batches that may wait to be used")
    timeout: float = field(120.0, above=0, doc="seconds the reading of one batch may take")

    examples = [
        example('data { source: "fashion-mnist-mini" }'),
        example('data { source: "photos"  size: 224  resize: crop  on_error: skip }'),
        example('data { source: "table.csv"  label: "price" }'),
    ]

    def open_splits(self, shape: tuple[int | None, ...] | None = None) -> DatasetSplits:
        """The data sets of the source by part, limited.

        Args:
            shape: of the model's picture input [channels, height, width]; gives size and colour where left out.

        Raises:
            DataError, ResourceError: as `open_source`.
        """
        options = SourceOptions(self.label, self.features, self.classes, self._reader(shape), self.folder)
        return {part: self._limited(found) for part, found in open_source(self.source, options).items()}

    def open(self, shape: tuple[int | None, ...] | None = None) -> Dataset:
        """The part that is asked for. Raises DataError where the source does not have it."""
        return self._chosen(self.open_splits(shape))

    def open_train_and_validation(self, shape: tuple[int | None, ...] | None = None) -> tuple[Dataset, Dataset | None]:
        """The part that is asked for, and what the source has to validate on: its validation, else its test part."""
        found = self.open_splits(shape)
        chosen = self._chosen(found)
        others = [found[part] for part in ("validation", "test") if part in found and part != self.part]
        return chosen, others[0] if others and self.part == "train" else None

    def loader_options(self) -> dict[str, Any]:
        """The arguments of `Loader` that this block sets."""
        names = ("shuffle", "drop_last", "on_error", "skip_limit", "threads", "prefetch", "timeout")
        return {name: getattr(self, name) for name in names}

    def _chosen(self, found: DatasetSplits) -> Dataset:
        if self.part not in found:
            raise DataError(f"{self.source}: has no part {self.part!r}; it has {', '.join(found)}")
        return found[self.part]

    def _limited(self, dataset: Dataset) -> Dataset:
        chosen = dataset if self.limit is None else dataset.take(self.limit)
        return SiamesePairs(chosen) if self.pairs else chosen

    def _reader(self, shape: tuple[int | None, ...] | None) -> ImageReader:
        picture = shape if shape is not None and len(shape) == 3 else (None, None, None)
        size = self.size
        if size is None and picture[1] is not None and picture[2] is not None:
            size = (picture[1], picture[2])
        return ImageReader(size, self.color or ("gray" if picture[0] == 1 else "rgb"), self.resize)
