"""What `fit`, `evaluate` and `predict` are given, made into batches for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

from prototorch.data.binding import Bound, Target
from prototorch.data.checks import check_dataset, compare
from prototorch.data.dataset import Arrays, Dataset
from prototorch.data.declare import Data
from prototorch.data.loader import Loader
from prototorch.data.memory import as_dataset, is_stream
from prototorch.data.stream import Stream
from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.spec import Spec
from prototorch.train.declare import Fit
from prototorch.train.feed import bound, indices_of, input_specs, target_of
from prototorch.train.loop import Supply, Trainer

COMPARED = 1 << 26  # bytes of training data that are searched for validation samples


class Given:
    """Data as they were given: a data set, or a stream of batches (``source``), how they are to be read, and what the
    source itself has to validate on."""

    def __init__(self, source: Dataset | Any, loading: Mapping[str, Any] | None = None, held: Dataset | None = None):
        self.source, self.loading, self.held = source, dict(loading or {}), held

    @property
    def streams(self) -> bool:
        """Whether these are batches already."""
        return not isinstance(self.source, Dataset)


class Intake:
    """Makes `Supply` of data for one model. ``build`` makes the weights when the inputs' specs are known."""

    def __init__(self, net: Net, trainer: Trainer, build: Callable[[Mapping[str, Spec]], Any]):
        self.net, self.trainer, self.build = net, trainer, build

    # ---------------------------------------------------------------- what is given

    def given(self, x: Any, y: Any = None, sample_weight: Any = None) -> Given:
        """x as `Model.fit` takes it. Raises DataError, UsageError."""
        if isinstance(x, str | PathLike):
            x = Data(source=fspath(x))
        if isinstance(x, Data | Dataset) or _streams(x):
            for name, value in (("y", y), ("sample_weight", sample_weight)):
                if value is not None:
                    raise UsageError(f"{name} is given beside data that hold their own targets")
        if isinstance(x, Data):
            return Given(*self._opened(x))
        return Given(x if isinstance(x, Dataset) or _streams(x) else self.arrays(x, y, sample_weight))

    def validating(self, given: Any) -> Given:
        """``validation_data`` as `Model.fit` takes it: also (x, y) and (x, y, sample_weight)."""
        if isinstance(given, str | PathLike):
            given = Data(source=fspath(given), part="test")
        if isinstance(given, tuple):
            if not 1 <= len(given) <= 3:
                raise UsageError(f"validation_data is (x, y) or (x, y, sample_weight), not a tuple of {len(given)}")
            return self.given(*given)
        return self.given(given)

    def both(self, x: Any, y: Any, sample_weight: Any, block: Fit, validation: Any) -> tuple[Given, Given | None]:
        """Training and validation data; without x those of the fit block. Raises UsageError where there are none."""
        if x is None:
            if block.data is None:
                raise UsageError("there are no data: give x and y, or a fit { data { ... } } block in the model's text")
            x, validation = block.data, block.validation if validation is None else validation
        data = self.given(x, y, sample_weight)
        if validation is not None:
            return data, self.validating(validation)
        if block.validation_split:
            if data.streams:
                raise UsageError(
                    "validation_split needs arrays or a data set; of a stream of batches give validation_data"
                )
            data.source, data.held = data.source.split(block.validation_split)
        return data, None if data.held is None else Given(data.held, data.loading)

    def _opened(self, data: Data) -> tuple[Dataset, dict[str, Any], Dataset | None]:
        found, held = data.open_both(self.net.inputs[0].shape if self.net.inputs else None)
        return found, data.loading(), held

    def arrays(self, x: Any, y: Any = None, sample_weight: Any = None) -> Arrays:
        """Arrays in memory as a data set with the model's names. Targets bear the name of the column that their loss
        names, else of their output; an output that learns an input has none."""
        return as_dataset(x, y, sample_weight, inputs=[i.name for i in self.net.inputs], outputs=self._target_names())

    def _target_names(self) -> tuple[str, ...]:
        inputs = {i.name for i in self.net.inputs}
        terms = self.trainer.program.terms
        return tuple(dict.fromkeys(t.target or t.output for t in terms if t.target not in inputs)) or self.net.outputs

    # ---------------------------------------------------------------- batches

    def supply(self, given: Given, batch_size: int, *, supervised: bool, training: bool = False, shuffle: bool = True,
               steps: int | None = None) -> Supply:  # fmt: skip
        """Batches of it, bound to the model and checked. Raises DataError for what does not fit."""
        seed = self.trainer.program.seed
        if given.streams:
            return self._stream(given.source, supervised, steps, seed)
        held = self.bound(given.source, supervised)
        loading = given.loading
        if training:
            loading = {**loading, "shuffle": shuffle and loading.get("shuffle", True)}
        else:
            loading = {**{k: v for k, v in loading.items() if k != "drop_last"}, "shuffle": False}
        return Supply(held, Loader(held, batch_size, seed=seed, **loading))

    def bound(self, data: Dataset, supervised: bool, warn: bool = True) -> Bound:
        """The data set as the model sees it, checked; the weights are made. warn: of what is odd in a whole set."""
        held = bound(self.trainer.program, data, self.trainer.preparation, supervised)
        check_dataset(held, self.targets(held) if supervised else None, warn=warn)
        if not supervised:
            self.build(input_specs(self.net, held, self.trainer.preparation, 1))
        return held

    def targets(self, held: Bound) -> dict[str, Target]:
        """What the loss of each output wants to be given; the weights are made."""
        specs = input_specs(self.net, held, self.trainer.preparation, 1)
        self.build(specs)
        program = self.trainer.program
        outputs = program.output_specs(specs)
        return {t.output: target_of(t, outputs[t.output]) for t in program.terms if t.output in held.target_of}

    def _stream(self, source: Any, supervised: bool, steps: int | None, seed: int) -> Supply:
        inputs: dict[str, tuple[int | None, ...]] = {i.name: i.shape for i in self.net.inputs}
        learned = [t.output for t in self.trainer.program.terms if t.target not in inputs] if supervised else []
        stream = Stream(source, inputs, {name: Target(()) for name in learned}, steps=steps, seed=seed)
        first = stream.first()
        held = bound(self.trainer.program, first, self.trainer.preparation, supervised)
        targets = self.targets(held) if supervised else {}
        if not supervised:
            self.build(input_specs(self.net, held, self.trainer.preparation, 1))
        if self.trainer.preparation.needed:
            name = self.trainer.preparation.name
            stream.inputs[name] = held.columns[held.input_of[name]].shape
        stream.targets, stream.indices = targets, indices_of(self.net, self.trainer.preparation)
        return Supply(held, stream)


def compared(training: Supply, validation: Supply) -> None:
    """Warn of validation samples that are training samples too, where looking for them is cheap."""
    size = sum(spec.nbytes for spec in training.bound.columns.values()) * len(training.bound)
    sets = isinstance(training.batches, Loader) and isinstance(validation.batches, Loader)
    if sets and training.bound.cheap and validation.bound.cheap and size <= COMPARED:
        compare(training.bound, validation.bound)


def _streams(x: Any) -> bool:
    """Whether x gives batches: also what only says ``__iter__``, as other libraries' loaders do."""
    if isinstance(x, Dataset | Data):
        return False
    plain = hasattr(x, "__array__") or isinstance(x, list | tuple | Mapping | str | bytes | bytearray | memoryview)
    return is_stream(x) or (hasattr(x, "__iter__") and not plain)


__all__ = ["Given", "Intake", "compared"]
