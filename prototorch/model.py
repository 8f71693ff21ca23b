"""The model: declared in text or in Python, compiled, fitted, evaluated, saved. A thin face over the rooms below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from prototorch.backends.devices import backend_for
from prototorch.data.binding import Bound
from prototorch.data.checks import check_dataset
from prototorch.data.dataset import Dataset
from prototorch.data.declare import Data
from prototorch.data.loader import Loader
from prototorch.data.memory import as_dataset
from prototorch.engine.variables import METRIC, SLOT, Variables, initial
from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.graph.symbol import Symbol, net_of
from prototorch.graph.trace import Weight, trace
from prototorch.graph.write import net_fields
from prototorch.spec import Spec
from prototorch.storage import checkpoint, datafiles  # noqa: F401  (datafiles: HDF5 as a data source)
from prototorch.text.tree import Body, Field
from prototorch.text.writer import write_fields
from prototorch.train.callbacks import Callback, CallbackList
from prototorch.train.declare import Compile, Fit, OutputLoss
from prototorch.train.feed import Feed, bound, input_specs, target_of
from prototorch.train.loop import Trainer
from prototorch.train.progress import progress
from prototorch.train.program import TEST, TRAIN, Program, terms
from prototorch.train.standard import History
from prototorch.train.transform import Preparation


class Model:
    """A net with its weights.

    Made from symbols (``Model(inputs, outputs)``), from a text or a file (`load_model`), or from a list of layers
    (`Sequential`). ``fit_block`` and ``compile_block`` are what its text declares, None where it says nothing.
    """

    def __init__(self, inputs: Symbol | Sequence[Symbol] | Net, outputs: Symbol | Sequence[Symbol] | None = None,
                 name: str = "model"):  # fmt: skip
        if isinstance(inputs, Net):
            self.net = inputs
        elif outputs is None:
            raise UsageError("Model wants inputs and outputs")
        else:
            self.net = net_of(_listed(inputs), _listed(outputs), name)
        self.variables = Variables()
        self.compile_block: Compile | None = None
        self.fit_block: Fit | None = None
        self._trainer: Trainer | None = None
        self._known: dict[str, Weight] | None = None
        self.history: History | None = None

    def to_text(self) -> str:
        """The model as canonical text, with all blocks and repeats expanded; `load_model` reads it back equal."""
        return write_fields([*net_fields(self.net), *self._blocks()])

    def _blocks(self) -> list[Field]:
        found = (("compile", self.compile_block), ("fit", self.fit_block))
        return [Field(name, Body(tuple(block.to_fields()))) for name, block in found if block is not None]

    # ---------------------------------------------------------------- compile

    def compile(self, optimizer: Any = "adam", loss: Any = None, metrics: Any = None, *,
                loss_weights: Mapping[str, float] | Sequence[float] | None = None, device: str = "auto",
                seed: int = 0, threads: int | None = None, precision: str = "float32") -> None:  # fmt: skip
        """Say how the model is trained; as in Keras.

        loss: a name, a `Loss`, a list (one for each output) or a dict by output. metrics: likewise; "accuracy" is made
        concrete by the loss. seed: decides the first weights, the order of the data, dropout and augmentation. Weights that
        are there stay; the optimiser begins anew. Raises UsageError for what does not fit.
        """
        block = Compile(loss=() if loss is None else loss, optimizer=optimizer, metrics=metrics or (), device=device,
                        precision=precision, seed=seed, threads=threads)  # fmt: skip
        if loss_weights is not None:
            block = block.replace(loss=_weighted(block, self.net, loss_weights))
        self.set_compile(block)

    def set_compile(self, block: Compile) -> None:
        """As `compile`, from a block."""
        program = Program(self.net, self.variables, backend_for(block.device, block.threads), block)
        self.variables.drop(SLOT)
        self.variables.drop(METRIC)
        self.compile_block = block
        self._trainer = Trainer(program, Preparation(self.net, backend_for("cpu", 1)))

    @property
    def trainer(self) -> Trainer:
        """What runs the steps; a model that is not compiled can still predict."""
        if self._trainer is None:
            if self.compile_block is not None:
                self.set_compile(self.compile_block)
            else:
                backend = backend_for("auto")
                program = Program(self.net, self.variables, backend, None)
                self._trainer = Trainer(program, Preparation(self.net, backend_for("cpu", 1)))
        assert self._trainer is not None
        return self._trainer

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step; may be set, which takes the place of a schedule."""
        return self.trainer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.trainer.learning_rate = value

    @property
    def stop_training(self) -> bool:
        """Set by a callback to end `fit` after the epoch's step."""
        return self.trainer.stop_training

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        self.trainer.stop_training = value

    # ---------------------------------------------------------------- fit, evaluate, predict

    def fit(self, x: Any = None, y: Any = None, *, batch_size: int | None = None, epochs: int | None = None,
            validation_split: float | None = None, validation_data: Any = None, shuffle: bool | None = None,
            callbacks: Sequence[Callback] | None = None, class_weight: Mapping[int, float] | None = None,
            sample_weight: Any = None, steps_per_epoch: int | None = None, validation_steps: int | None = None,
            validation_freq: int | None = None, initial_epoch: int = 0, verbose: Any = "auto") -> History:  # fmt: skip
        """Train; as in Keras. What is left out comes from the model's ``fit`` block, else from its defaults.

        x, y: arrays [samples, ...], or lists or dicts of them, a `Dataset`, a `Data` block or the name or path of a data
        source; without x the fit block's data. verbose: "auto" (a bar on a terminal, else a line an epoch), 0, 1, 2.
        Ctrl-C lets the step end and gives back the history. Returns the `History`. Raises DataError for data that do not
        fit, UsageError for a model without a loss.
        """
        given = {"batch_size": batch_size, "epochs": epochs, "validation_split": validation_split, "shuffle": shuffle,
                 "steps_per_epoch": steps_per_epoch, "validation_steps": validation_steps,
                 "validation_freq": validation_freq}  # fmt: skip
        block = (self.fit_block or Fit()).replace(**{k: v for k, v in given.items() if v is not None})
        if callbacks is None:
            callbacks = block.callbacks
        trainer = self.trainer
        _ = trainer.program.optimizer  # a model without a loss is told so before data are read
        data, loading, validation = self._data(x, y, sample_weight, block, validation_data)
        prepared = self._bound(data, True)
        loader = Loader(prepared, block.batch_size, **{**loading, "shuffle": block.shuffle and loading.get("shuffle", True)},
                        seed=trainer.program.seed)  # fmt: skip
        check = None
        if validation is not None:
            held = self._bound(validation, True)
            check = (held, Loader(held, block.batch_size, shuffle=False, **_eval_loading(loading)))
        history = History()
        self.history = history
        bars = progress(verbose)
        return trainer.fit(self, prepared, loader, check, epochs=block.epochs, callbacks=[*callbacks, *bars],
                           history=history, class_weight=class_weight, steps_per_epoch=block.steps_per_epoch,
                           validation_steps=block.validation_steps, validation_freq=block.validation_freq,
                           initial_epoch=initial_epoch)  # fmt: skip

    def evaluate(self, x: Any = None, y: Any = None, *, batch_size: int | None = None, sample_weight: Any = None,
                 steps: int | None = None, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics over data, by name; x and y as for `fit`. Without x the fit block's validation data."""
        block = self.fit_block or Fit()
        data, loading, validation = self._data(x, y, sample_weight, block.replace(validation_split=0.0), None)
        held = self._bound(validation if x is None and validation is not None else data, True)
        loader = Loader(held, batch_size or block.batch_size, shuffle=False, **_eval_loading(loading))
        return self.trainer.evaluate(self, held, loader, steps=steps, callbacks=CallbackList(callbacks, self))

    def predict(self, x: Any, *, batch_size: int | None = None, steps: int | None = None,
                callbacks: Sequence[Callback] = ()) -> Any:  # fmt: skip
        """The outputs for x [samples, ...] (or what `fit` takes): an array [samples, ...], or a dict for several outputs."""
        data, loading, _ = self._data(x, None, None, Fit(), None)
        held = self._bound(data, False)
        loader = Loader(held, batch_size or 32, shuffle=False, **_eval_loading(loading))
        found = self.trainer.predict(self, held, loader, steps=steps, callbacks=CallbackList(callbacks, self))
        return next(iter(found.values())) if len(found) == 1 else found

    def train_on_batch(self, x: Any, y: Any, sample_weight: Any = None,
                       class_weight: Mapping[int, float] | None = None) -> dict[str, Any]:  # fmt: skip
        """One training step on these samples; the loss and metrics of this batch."""
        return self._on_batch(TRAIN, x, y, sample_weight, class_weight)

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Loss and metrics of these samples, without training."""
        return self._on_batch(TEST, x, y, sample_weight, None)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for these samples, in one piece."""
        data = self._arrays(x, None, None)
        return self.predict(x, batch_size=len(data))

    def _on_batch(self, phase: str, x: Any, y: Any, sample_weight: Any, class_weight: Any) -> dict[str, Any]:
        trainer = self.trainer
        held = self._bound(self._arrays(x, y, sample_weight), True)
        feed = Feed(trainer.program, held, trainer.preparation, phase == TRAIN, class_weight)
        loader = Loader(held, len(held), shuffle=False, seed=trainer.program.seed, epoch=trainer.step, threads=0,
                        transform=feed.transform if trainer.preparation.needed else None)  # fmt: skip
        trainer.program.reset(phase)
        for batch in loader:
            trainer.run(phase, feed, batch, batch.count)
        return trainer.program.results(phase)

    # ---------------------------------------------------------------- data

    def _arrays(self, x: Any, y: Any, sample_weight: Any) -> Dataset:
        if isinstance(x, Dataset):
            return x
        terms = self.trainer.program.terms
        outputs = tuple(dict.fromkeys(t.output for t in terms)) or self.net.outputs
        return as_dataset(x, y, sample_weight, inputs=tuple(i.name for i in self.net.inputs), outputs=outputs)

    def _data(self, x: Any, y: Any, sample_weight: Any, block: Fit,
              validation: Any) -> tuple[Dataset, dict[str, Any], Dataset | None]:  # fmt: skip
        loading: dict[str, Any] = {}
        held: Dataset | None = None
        if x is None:
            x = block.data
            if x is None:
                raise UsageError("there are no data: give x and y, or a fit { data { ... } } block in the model's text")
            if validation is None and block.validation is not None:
                validation = block.validation
        if isinstance(x, str | PathLike):
            x = Data(source=fspath(x))
        if isinstance(x, Data):
            loading = x.loading()
            data, held = x.open_both(self.net.inputs[0].shape if self.net.inputs else None)
        else:
            data = self._arrays(x, y, sample_weight)
        if validation is not None:
            held = self._validation(validation)
        elif block.validation_split:
            data, held = data.split(block.validation_split)
        return data, loading, held

    def _validation(self, given: Any) -> Dataset:
        if isinstance(given, str | PathLike):
            given = Data(source=fspath(given), part="test")
        if isinstance(given, Data):
            return given.open(self.net.inputs[0].shape if self.net.inputs else None)
        if isinstance(given, tuple):
            return self._arrays(*(*given, None)[:3] if len(given) == 2 else given)
        return self._arrays(given, None, None)

    def _bound(self, data: Dataset, supervised: bool) -> Bound:
        program = self.trainer.program
        held = bound(program, data, self.trainer.preparation, supervised)
        specs = input_specs(self.net, held, self.trainer.preparation, 1)
        self._build(specs)
        if supervised:
            outputs = program.output_specs(specs)
            bound_here = {t.output: target_of(t.loss, outputs[t.output]) for t in program.terms if t.output in held.target_of}
            check_dataset(held, bound_here)
        return held

    # ---------------------------------------------------------------- weights

    def _build(self, specs: Mapping[str, Spec]) -> dict[str, Weight]:
        """Make the weights that are not there yet, for inputs of these specs."""
        if self._known is None:
            self._known = trace(self.net, specs, False).weights
        seed = self.compile_block.seed if self.compile_block is not None else 0
        for weight in self._known.values():
            if weight.name not in self.variables:
                self.variables.create(weight.name, initial(weight, seed))
            self.variables.check(weight.name, weight.spec)
        return self._known

    def build(self, **shapes: Sequence[int]) -> None:
        """Make the weights now. Inputs with sizes that only data tell need ``name=shape`` (without the batch dimension)."""
        self._build(self.input_specs(1, shapes))

    def input_specs(self, batch: int, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, Spec]:
        """The specs of the inputs for a batch size. Raises UsageError for a size that is not known."""
        specs = {}
        for node in self.net.inputs:
            shape = tuple((shapes or {}).get(node.name, node.shape))
            if None in shape:
                raise UsageError(f"the input {node.name!r} has a size that only data tell: say build({node.name}=[...]) first")
            specs[node.name] = Spec((batch, *(n for n in shape if n is not None)), node.dtype)
        return specs

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name (``layer/weight``), the arrays themselves."""
        if self._known is None:
            self.build()
        return self.variables.weights()

    def get_weights(self) -> dict[str, np.ndarray]:
        """Copies of the weights by name."""
        return {name: np.array(array) for name, array in self.weights.items()}

    def set_weights(self, weights: Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> None:
        """Write weights, by name or in order; all of them. Raises WeightsError where names or shapes do not fit."""
        here = self.weights
        if not isinstance(weights, Mapping):
            if len(weights) != len(here):
                raise UsageError(f"the model has {len(here)} weights, {len(weights)} are given")
            weights = dict(zip(here, weights, strict=True))
        checkpoint.assign(here, weights)

    def count_params(self) -> int:
        """The number of elements of all weights, running statistics included."""
        return sum(int(np.size(a)) for a in self.weights.values())

    def save(self, path: str | PathLike[str]) -> None:
        """Write text, weights, optimiser and, during a `fit`, all that is needed to go on, into one HDF5 file."""
        _ = self.weights
        trainer = self._trainer
        state = trainer.state() if trainer is not None and trainer.loader is not None else None
        training = {"state": state, "set_rate": trainer.set_rate if trainer is not None else None}
        checkpoint.save(path, self.to_text(), self.variables, training)

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write the weights alone (with the text) into an HDF5 file."""
        _ = self.weights
        checkpoint.save(path, self.to_text(), self.variables, None)

    def load_weights(self, path: str | PathLike[str], *, by_name: bool = False,
                     skip_mismatch: bool = False) -> checkpoint.LoadReport:  # fmt: skip
        """Read weights from a file that `save` or `save_weights` wrote; gives back what was loaded and what was not.

        Strict by default: every weight must be there, with its shape, and no other. ``by_name`` lets weights be missing or
        left over, ``skip_mismatch`` also lets shapes differ. Raises WeightsError, ModelFileError.
        """
        return checkpoint.load_into(path, self.weights, by_name=by_name, skip_mismatch=skip_mismatch)


def _eval_loading(loading: Mapping[str, Any]) -> dict[str, Any]:
    """A data block's loading arguments that also hold where samples are only read in order."""
    return {k: v for k, v in loading.items() if k not in ("shuffle", "drop_last")}


def _weighted(block: Compile, net: Net, weights: Mapping[str, float] | Sequence[float]) -> tuple[OutputLoss, ...]:
    """The losses with Keras' loss_weights in them."""
    if not isinstance(weights, Mapping):
        if len(weights) != len(block.loss):
            raise UsageError(f"loss_weights has {len(weights)} numbers for {len(block.loss)} losses")
        return tuple(one.replace(weight=float(w)) for one, w in zip(block.loss, weights, strict=True))
    found = terms(net, block)
    for name in weights:
        if name not in {t.output for t in found}:
            raise UsageError(f"loss_weights names {name!r}, which has no loss; there are {', '.join(t.output for t in found)}")
    return tuple(one.replace(weight=float(weights.get(t.output, 1.0))) for one, t in zip(block.loss, found, strict=True))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def Sequential(layers: Sequence[Any], name: str = "sequential") -> Model:
    """A model of layers one after the other. The first item is an `Input`."""
    if not layers or not isinstance(layers[0], Symbol):
        raise UsageError("Sequential wants pt.Input(shape) as its first item")
    value: Any = layers[0]
    for layer in layers[1:]:
        value = layer(value)
    return Model(layers[0], value, name=name)
