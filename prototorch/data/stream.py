"""Batches out of any Python iterable: a generator, a function that makes one, or a sequence of batches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import chain
from typing import Any

import numpy as np

from prototorch.data.array_conversion import as_dataset
from prototorch.data.batch import Batch, BatchContext, BatchTransform, cast_columns
from prototorch.data.binding import BoundDataset, IndexRange, Shape, TargetSpec, bind
from prototorch.data.checks import check_target
from prototorch.data.dataset import ArrayDataset
from prototorch.data.ordered_pool import OrderedPool, closing
from prototorch.errors import DataError, PrototorchError


class BatchStream:
    """Batches of an iterable, made ahead by one thread, in the names and shapes of a model.

    An item is ``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)`` with x and y as `as_dataset` takes them, or a
    dict that holds all inputs and outputs by name. A function is called for each epoch; an iterator goes on where the
    epoch before ended; anything else is iterated anew. Labels and shapes are checked in every batch.

    Args:
        source: the iterable, or a function that makes one.
        inputs, targets: as for `bind`.
        steps: batches in an epoch; needed where the iterable does not end.
        seed, epoch, prefetch, transform, dtypes, timeout: as for `Loader`.

    Attributes:
        waited: seconds spent waiting for batches so far.
        bound: the first batch, bound to the model; None before it.
        position: batches of this epoch taken so far. (``batch_size`` is 1: of a stream, batches are counted.)
        indices: inputs that a layer looks up in a table, as for `bind`.
        inputs, targets, indices, transform, dtypes: may be changed before iterating, once `first` has told what there
        is.
    """

    batch_size = 1

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
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
        name: str = "the data",
    ):
        self._source, self.name = source, name
        self.inputs, self.targets = dict(inputs), dict(targets or {})
        self.indices: Mapping[str, IndexRange] = {}
        self.transform, self.dtypes = transform, dict(dtypes or {})
        if steps is None and isinstance(source, Sized):
            steps = len(source)
        self.steps, self.seed, self.epoch, self.position = steps, seed, epoch, 0
        self._prefetch, self._timeout = prefetch, timeout
        self.wait_seconds = 0.0
        self.bound: BoundDataset | None = None
        self._begun: Iterator[Any] | None = None

    def __len__(self) -> int:
        """The number of batches in an epoch. Raises TypeError where only the iterable's end tells."""
        if self.steps is None:
            raise TypeError(f"{self.name}: how many batches an epoch has is not known; give the steps")
        return self.steps

    def peek(self) -> ArrayDataset:
        """The samples of the next batch, to learn names, shapes and types from; iterating gives it once more.

        Raises DataError where there is none.
        """
        if self._begun is None:
            self._begun = self._new()
        item = next(self._begun, self)
        if item is self:
            self._check_enough(0)
        self._begun = chain([item], self._begun)
        return self._arrays(item, self.position)

    def __iter__(self) -> Iterator[Batch]:
        items = self._items()
        skip = self.position
        place = [self._drop(items, skip)]  # samples so far: the one thread counts them

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
            batch = self._batch(item, skip + number, place[0])
            place[0] += batch.num_samples
            return batch

        pieces = sys.maxsize if self.steps is None else max(0, self.steps - skip)
        pool = OrderedPool(
            make,
            pieces,
            threads=1,
            ahead=self._prefetch,
            timeout=self._timeout,
            describe=lambda number: f"batch {skip + number} of {self.name}",
        )
        with closing(pool):
            for number in range(pieces):
                asked = time.perf_counter()
                try:
                    batch = pool.take()
                finally:
                    self.wait_seconds += time.perf_counter() - asked
                if batch is None:
                    self._check_enough(skip + number)
                    break
                self.position = skip + number + 1
                yield batch
        self.epoch, self.position = self.epoch + 1, 0

    def state(self) -> dict[str, Any]:
        """Where the stream stands: epoch and number of batches taken from it."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there: the batches before are drawn and thrown away. Exact where the source repeats itself."""
        self.seed, self.epoch, self.position = int(state["seed"]), int(state["epoch"]), int(state["position"])

    def _items(self) -> Iterator[Any]:
        begun, self._begun = self._begun, None
        return self._new() if begun is None else begun

    def _new(self) -> Iterator[Any]:
        if callable(self._source):
            return iter(self._source())
        source: Any = self._source
        if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
            return (source[i] for i in range(len(source)))
        return iter(source)

    def _drop(self, items: Iterator[Any], count: int) -> int:
        """Draw so many batches and throw them away; the number of samples in them."""
        samples = 0
        for number in range(count):
            item = next(items, self)
            if item is self:
                raise DataError(f"{self.name}: has only {number} batches; the training was interrupted after {count}")
            samples += len(self._arrays(item, number))
        return samples

    def _check_enough(self, count: int) -> None:
        if count == 0:
            raise DataError(f"{self.name}: gives no batches (an iterator that is used up? give a function instead)")
        if self.steps is not None:
            raise DataError(f"{self.name}: ends after {count} batches, {self.steps} are wanted for an epoch")

    def _arrays(self, item: Any, number: int) -> ArrayDataset:
        x, y, weight = self._parts(item)
        name = f"{self.name}, batch {number}"
        held = as_dataset(x, y, weight, inputs=tuple(self.inputs), outputs=tuple(self.targets) or ("y",), name=name)
        if not len(held):
            raise DataError(f"{name}: is empty")
        return held

    def _batch(self, item: Any, number: int, position: int) -> Batch:
        held = self._arrays(item, number)
        bound = bind(held, self.inputs, self.targets, indices=self.indices)
        self.bound = self.bound or bound
        for output, target in self.targets.items():
            column = bound.target_columns[output]
            values = bound.column_array(column)
            assert values is not None
            check_target(bound, column, values, target)
        place = BatchContext(self.seed, self.epoch, position, np.arange(position, position + len(held)))
        columns = cast_columns(bound.read(np.arange(len(held))), self.dtypes)
        return Batch(columns if self.transform is None else self.transform(columns, place), place)

    def _parts(self, item: Any) -> tuple[Any, Any, Any]:
        if isinstance(item, tuple):
            if not 1 <= len(item) <= 3:
                raise DataError(f"{self.name}: gives tuples of {len(item)}, not (x,), (x, y) or (x, y, sample_weight)")
            x, y, weight = (*item, None, None)[:3]
            return x, y, weight
        if isinstance(item, Mapping):
            y = {name: item[name] for name in self.targets if name in item}
            x = {name: value for name, value in item.items() if name not in y and name != "sample_weight"}
            return x, y or None, item.get("sample_weight")
        return item, None, None
