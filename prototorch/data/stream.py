"""Batches from any Python iterable: a generator, a function that returns one, or a sequence of batches."""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import chain
from typing import Any

import numpy as np

from prototorch.data.array_conversion import as_dataset
from prototorch.data.batch import Batch, BatchContext, BatchIterator, BatchTransform, cast_columns
from prototorch.data.batch_assembly import BatchAssembly, BatchMemory
from prototorch.data.binding import bind
from prototorch.data.checks import check_target
from prototorch.data.dataset import ArrayDataset
from prototorch.data.frames import FrameReader, is_frame
from prototorch.data.ordered_pool import OrderedPool, closing
from prototorch.data.pipeline.signature import IndexRange, Shape, TargetSpec
from prototorch.data.table_columns import TableColumns
from prototorch.errors import DataError, PrototorchError, UsageError

__all__ = ["BatchStream"]


class BatchStream(BatchIterator):
    """Batches of an iterable, read ahead by one thread and bound to the names and shapes of a model.

    An item is ``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)`` with x and y as in `as_dataset`, or a dict of
    all inputs and outputs by name. A list is such a tuple where it comes from a data loader (of prototorch or PyTorch,
    which collate tuples to lists), or where the model has one input; otherwise it is x. A function is called for each
    epoch; an iterator continues where the previous epoch ended; any other iterable is iterated from its start. Labels
    and shapes are checked in every batch.

    Args:
        source: the iterable, or a function that returns one.
        inputs, targets: as for `bind`.
        steps: batches per epoch; required if the iterable does not end.
        seed, epoch, prefetch, transform, dtypes, timeout: as for `Loader`.
        frames: reads the tables of pandas and polars in the batches; None: they are arrays.
        name: for messages.

    Attributes:
        wait_seconds: seconds spent waiting for batches so far.
        position: batches of this epoch taken so far. (``batch_size`` is 1: a stream counts batches.)
        indices: inputs that a layer uses as table indices, as for `bind`.
        batch_memory: to which the large columns of a batch are copied, as for `Loader`.
        transform, dtypes: may be changed between `peek` and the iteration, and inputs, targets, indices by `bind`.
    """

    batch_size = 1
    state_kind = "Stream"  #: identifies the format of `state` in saved files

    def __init__(
        self,
        source: Iterable[object] | Callable[[], Iterable[object]],
        inputs: Mapping[str, Shape],
        targets: Mapping[str, TargetSpec] | None = None,
        *,
        steps: int | None = None,
        seed: int = 0,
        epoch: int = 0,
        prefetch: int = 2,
        transform: BatchTransform | None = None,
        dtypes: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        frames: FrameReader | None = None,
        name: str = "the data",
    ):
        self._source, self.name = source, name
        self.inputs, self.targets = dict(inputs), dict(targets or {})
        self.indices: Mapping[str, IndexRange] = {}
        self.transform, self.dtypes = transform, dict(dtypes or {})
        if steps is None and isinstance(source, Sized):
            with contextlib.suppress(TypeError):  # a data loader of a stream without a length
                steps = len(source)
        self.steps, self.seed, self.epoch, self.position = steps, seed, epoch, 0
        self._prefetch, self._timeout, self._frames = prefetch, timeout, frames
        self.wait_seconds = 0.0
        self.batch_memory: BatchMemory | None = None
        self._iterator: Iterator[object] | None = None  # of this epoch, after `peek`

    def __len__(self) -> int:
        """The number of batches per epoch. Raises TypeError if it is unknown until the iterable ends."""
        if self.steps is None:
            raise TypeError(f"{self.name}: the number of batches per epoch is unknown; set steps")
        return self.steps

    def num_batches(self) -> int | None:
        return self.steps

    def bind(
        self, inputs: Mapping[str, Shape], targets: Mapping[str, TargetSpec], indices: Mapping[str, IndexRange]
    ) -> BatchStream:
        """The stream, whose batches get these inputs, targets and indices from now on; for use after `peek`."""
        self.inputs, self.targets, self.indices = dict(inputs), dict(targets), indices
        return self

    def peek(self) -> ArrayDataset:
        """The samples of the next batch, to learn names, shapes and dtypes; the iteration returns this batch as well.

        Raises DataError if there is none.
        """
        if self._iterator is None:
            self._iterator = self._new_iterator()
        item = next(self._iterator, self)
        if item is self:
            self._check_enough(0)
        self._iterator = chain([item], self._iterator)
        return self._as_dataset(item, self.position)

    def __iter__(self) -> Iterator[Batch]:
        items = self._take_iterator()
        skip = self.position
        num_samples = [self._drop(items, skip)]  # so far; only the one thread updates it

        def make(number: int) -> Batch | None:
            try:
                item = next(items)
            except StopIteration:
                return None
            except PrototorchError:
                raise
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                raise DataError(f"{self.name}: batch {skip + number} cannot be made: {text}") from error
            batch = self._batch(item, skip + number, num_samples[0])
            num_samples[0] += batch.num_samples
            return batch

        count = sys.maxsize if self.steps is None else max(0, self.steps - skip)
        pool = OrderedPool(
            make,
            count,
            threads=1,
            read_ahead=self._prefetch,
            timeout=self._timeout,
            describe=lambda number: f"batch {skip + number} of {self.name}",
        )
        with closing(pool):
            for number in range(count):
                start = time.perf_counter()
                try:
                    batch = pool.take()
                finally:
                    self.wait_seconds += time.perf_counter() - start
                if batch is None:
                    self._check_enough(skip + number)
                    break
                self.position = skip + number + 1
                yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """The stream's position as JSON values: the epoch and the number of batches taken from it."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``: earlier batches are read and discarded. Exact if the source is deterministic."""
        self.seed, self.epoch, self.position = int(state["seed"]), int(state["epoch"]), int(state["position"])

    def _take_iterator(self) -> Iterator[object]:
        iterator, self._iterator = self._iterator, None
        return self._new_iterator() if iterator is None else iterator

    def _new_iterator(self) -> Iterator[object]:
        if callable(self._source):
            try:
                inspect.signature(self._source).bind()
            except ValueError:
                pass  # a function whose signature is not known
            except TypeError as error:
                raise UsageError(f"{self.name}: the function of batches is called without arguments: {error}") from None
            batches: Any = self._source()
            if not isinstance(batches, Iterable) and not hasattr(batches, "__getitem__"):
                raise UsageError(
                    f"{self.name}: the function gives {batches!r:.80}, expected an iterable of batches (x, y): let it "
                    "`yield x, y` for each batch, or return a list of them"
                )
            return iter(batches)
        source: Any = self._source
        if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
            return (source[i] for i in range(len(source)))
        return iter(source)

    def _drop(self, items: Iterator[object], count: int) -> int:
        """Read and discard ``count`` batches; the number of samples in them."""
        samples = 0
        for number in range(count):
            item = next(items, self)
            if item is self:
                raise DataError(f"{self.name}: has only {number} batches; the training was interrupted after {count}")
            samples += len(self._as_dataset(item, number))
        return samples

    def _check_enough(self, count: int) -> None:
        if count == 0:
            raise DataError(f"{self.name}: gives no batches (an exhausted iterator? pass a function instead)")
        if self.steps is not None:
            raise DataError(f"{self.name}: ends after {count} batches, expected {self.steps} per epoch")

    def _as_dataset(self, item: object, number: int) -> ArrayDataset:
        x, y, weight = self._unpack(item)
        name, table = f"{self.name}, batch {number}", TableColumns()
        if self._frames is not None:
            x, y, table = self._frames.read(x, y, name)
        dataset = as_dataset(x, y, weight, inputs=tuple(self.inputs), outputs=tuple(self.targets) or ("y",), name=name)
        if not len(dataset):
            raise DataError(f"{name}: is empty")
        dataset.table_columns = table
        return dataset

    def _batch(self, item: object, number: int, position: int) -> Batch:
        dataset = self._as_dataset(item, number)
        dataset_of_batch = bind(dataset, self.inputs, self.targets, indices=self.indices)
        for output, target in self.targets.items():
            column = dataset_of_batch.target_columns[output]
            values = dataset_of_batch.column_array(column)
            assert values is not None
            check_target(dataset_of_batch, column, values, target)
        context = BatchContext(self.seed, self.epoch, position, np.arange(position, position + len(dataset)))
        columns = cast_columns(dataset_of_batch.read(np.arange(len(dataset))), self.dtypes)
        columns = columns if self.transform is None else self.transform(columns, context)
        if self.batch_memory is not None:
            columns = BatchAssembly(self.batch_memory, {}).move(columns)
        return Batch(columns, context)

    def _is_tuple(self, item: list[object]) -> bool:
        """Whether a list holds x and y, and not the arrays of several inputs."""
        return (
            len(self.inputs) == 1
            and 1 <= len(item) <= 3
            and all(hasattr(part, "shape") or is_frame(part) for part in item)
        )

    def _unpack(self, item: object) -> tuple[object, object, object]:
        """(x, y, sample_weight) of an item."""
        if isinstance(item, list) and (hasattr(self._source, "collate_fn") or self._is_tuple(item)):
            item = tuple(item)
        if isinstance(item, tuple):
            if not 1 <= len(item) <= 3:
                raise DataError(
                    f"{self.name}: expected (x,), (x, y) or (x, y, sample_weight), got a tuple of {len(item)}"
                )
            x, y, weight = (*item, None, None)[:3]
            return x, y, weight
        if isinstance(item, Mapping):
            y = {name: item[name] for name in self.targets if name in item}
            x = {name: value for name, value in item.items() if name not in y and name != "sample_weight"}
            return x, y or None, item.get("sample_weight")
        return item, None, None
