"""The model: declared in text or in Python, compiled, fitted, evaluated and saved; thin, over the packages below."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from prototorch import train
from prototorch.data import pipeline
from prototorch.data.read_limits import ReadLimits
from prototorch.data.table_columns import TableColumns
from prototorch.engine.backends.devices import backend_for
from prototorch.engine.storage import checkpoint
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.net_writer import net_fields
from prototorch.graph.symbolic import SymbolicTensor, net_symbols
from prototorch.graph.trace import trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.adapted_layer import has_unadapted, refuse_unadapted
from prototorch.layers.base import Layer
from prototorch.layers.layer_output import set_layer_model
from prototorch.model import loading
from prototorch.model.foreign_files import ModelToWrite, model_writer
from prototorch.model.keras_hints import METHODS_WITHOUT_EFFECT
from prototorch.model.nested_weights import NamesBelow, part_below, take_over_below
from prototorch.model.rules_file import as_rules
from prototorch.model.structure import (
    attribute_error,
    check_layers,
    check_patterns,
    class_names,
    enter_weight_sources,
    find_layer,
    layer_of,
    net_of_symbols,
    part_of,
    share_inner_weights,
    share_weights,
    trained_columns,
    unfreeze_in,
)
from prototorch.model.weights import (
    create_weights,
    input_specs,
    warn_of_states,
    weight_specs,
    weights_of_file,
    write_weights,
)
from prototorch.model.weights_block import Weights
from prototorch.optimizers import Optimizer
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, NamedWeights, Variables
from prototorch.schema.neutral_arguments import explain_arguments
from prototorch.schema.overrides import refuse_overrides
from prototorch.spec import Spec
from prototorch.text.syntax_tree import Body, Field
from prototorch.text.writer import format_fields
from prototorch.train.argument_checks import (
    COMPILE_ARGUMENTS,
    OLD_FIT_ARGUMENTS,
    SAVE_ARGUMENTS,
    SUMMARY_ARGUMENTS,
    WEIGHTS_ARGUMENTS,
    check_epochs,
    check_integer,
    check_optional_integer,
    check_path,
    check_verbose,
    warn_of_missing_batches,
    warn_of_validation_arguments,
)
from prototorch.train.callback_list import CallbackList, callback_list
from prototorch.train.callbacks import Callback, bind_output_dirs
from prototorch.train.config import Compile, Fit, fit_sources, record_class_names
from prototorch.train.evaluation_result import EvaluationResult
from prototorch.train.input_ranges import InputRanges
from prototorch.train.state_check import warn_of_loaded
from prototorch.train.step_inputs import PREDICT, TEST, TRAIN
from prototorch.train.trained_weights import with_trainable

if TYPE_CHECKING:
    from prototorch.data.dataset import ArrayDataset
    from prototorch.data.pipeline.batches import Batches
    from prototorch.data.pipeline.columns import Columns
    from prototorch.data.pipeline.signature import ModelSignature
    from prototorch.train.builtin_callbacks import History
    from prototorch.train.learning_rates import LearningRates
    from prototorch.train.plan_cache import PlanCache
    from prototorch.train.trainer import Trainer


class Model:
    """A net with its weights.

    Made from symbolic tensors (``Model(inputs, outputs)``), from a text or a file (`load_model`), or from a list of
    layers (`Sequential`). ``compile_block`` and ``fit_block`` are the blocks of its text, None where there are none.

    Args:
        inputs, outputs: symbolic tensors, or lists of them; or a `Net` alone. ``model.input`` and
            ``model.get_layer(name).output`` are those of another model, whose weights and preprocessing are shared.
        name: the net's name.
        preprocess: layers that are applied to every sample before the net; augment: layers that are applied next, to
            training samples only.
    """

    weights_block: Weights | None = None
    nested_weights: tuple[Weights, ...] = ()  # the blocks of its text that load into some of its layers
    weight_origin: Mapping[str, str] = {}  # the weight set that was loaded last, with its licence, for exports
    _signature: tuple[tuple[Any, ...], ModelSignature] | None = None  # with what it is made from
    _symbols_of_net: tuple[Net, dict[str, SymbolicTensor]] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises UsageError for a method of Keras' models that nothing would call: ``call``, ``train_step``, ..."""
        super().__init_subclass__(**options)
        refuse_overrides(cls, METHODS_WITHOUT_EFFECT)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in METHODS_WITHOUT_EFFECT:
            raise UsageError(f"{type(self).__name__}.{name} cannot be set: {METHODS_WITHOUT_EFFECT[name]}")
        object.__setattr__(self, name, value)

    def __init__(
        self,
        inputs: SymbolicTensor | Sequence[SymbolicTensor] | Net,
        outputs: SymbolicTensor | Sequence[SymbolicTensor] | None = None,
        name: str = "model",
        *,
        preprocess: Sequence[Layer] = (),
        augment: Sequence[Layer] = (),
    ):
        self.net = net_of_symbols(inputs, outputs, name, preprocess, augment)
        self.variables = Variables()
        self.idle_decoder: Any = None  # see `decoder.find_decoder`
        share_weights(self.net, self.variables)
        self.input_ranges = InputRanges(self.net)
        self.compile_block: Compile | None = None
        self.fit_block: Fit | None = None
        self._trainer: Trainer | None = None
        self._weight_specs: dict[str, WeightSpec] | None = None
        self.history: History | None = None
        self._table_columns = TableColumns()
        self.read_limits: ReadLimits | None = None  # of a saved model, on the data that it names

    def __getattr__(self, name: str) -> NoReturn:
        """Raises AttributeError with what to use instead; a property's own, where it has raised one."""
        if hasattr(type(self), name):
            object.__getattribute__(self, name)
        raise attribute_error(type(self), name)

    def __reduce__(self) -> tuple[Callable[[bytes], Model], tuple[bytes]]:
        """A pickle holds the bytes that `save` writes, and the name of `model_from_bytes`. Raises UsageError for a
        model with Python functions."""
        copying = importlib.import_module("prototorch.model.copying")  # which imports the reading of files
        return copying.model_from_bytes, (copying.model_to_bytes(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        """A model with copies of the weights, the optimizer's state and the position of the training."""
        copy: Model = importlib.import_module("prototorch.model.copying").copy_model(self)
        memo[id(self)] = copy
        return copy

    def __copy__(self) -> Model:
        """A model that shares the weights, compiled alike, with an optimizer state of its own."""
        copy: Model = importlib.import_module("prototorch.model.copying").copy_sharing_weights(self)
        return copy

    def __repr__(self) -> str:
        ends = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        return f"<Model {self.name!r}: {len(self.net.nodes)} layers, {ends}>"

    def to_text(self) -> str:
        """The model as canonical text, with all blocks and repeats expanded; `load_model` reads it back equal."""
        blocks = self._blocks()
        return format_fields([*net_fields(self.net, blocks), *blocks])

    def _blocks(self) -> list[Field]:
        blocks = [
            *(("weights", block) for block in self.nested_weights),
            ("weights", self.weights_block),
            ("compile", self.compile_block),
            ("fit", self.fit_block),
        ]
        return [Field(name, Body(tuple(block.to_fields()))) for name, block in blocks if block is not None]

    @property
    def loads_weights(self) -> bool:
        """Whether its text names weights that it begins with."""
        return self.weights_block is not None or bool(self.nested_weights)

    @explain_arguments(SUMMARY_ARGUMENTS)
    def summary(self, batch: int | None = None, print_fn: Callable[[str], Any] | None = print) -> None:
        """Print layers, shapes and parameters; with a batch size also the memory of a training step."""
        (print_fn or print)(
            str(train.summarize(self.net, self.trainer.plan_cache, check_optional_integer("batch", batch)))
        )

    def __call__(self, *inputs: Any, training: bool = False) -> Any:
        """The outputs for inputs in order, or a dict of them by name: one, or a tuple where there are several.

        Symbolic tensors become a part of another net, which shares the weights (as in Keras: training one model changes
        the other). Tensors and arrays [batch, ...] are computed at once, layer by layer, with gradients to the weights
        (`eager.weights_of` has their tensors); `predict` is faster. A table of pandas or polars is read by the names of
        its columns. ``preprocess`` layers come first, ``augment`` layers are left out. training: the phase, for tensors
        and arrays.

        Raises UsageError for another number of inputs, or for inputs of several kinds, DataError for a table that lacks
        a column.
        """
        call = importlib.import_module("prototorch.model.call")  # which imports the functions of tensors
        return call.call_net(self._net_in_target_units(), inputs, training, self._build, self.signature)

    # ---------------------------------------------------------------- structure

    @property
    def name(self) -> str:
        """The net's name."""
        return self.net.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(node.name for node in self.net.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self.net.outputs

    @property
    def input(self) -> Any:
        """The input as a symbolic tensor, as in Keras (several: a list); see `submodel` for the short form."""
        values = [self._symbols()[name] for name in self.inputs]
        return values[0] if len(values) == 1 else values

    @property
    def output(self) -> Any:
        """The output as a symbolic tensor, as in Keras (several: a list)."""
        values = [self._symbols()[name] for name in self.outputs]
        return values[0] if len(values) == 1 else values

    def _symbols(self) -> dict[str, SymbolicTensor]:
        if self._symbols_of_net is None or self._symbols_of_net[0] is not self.net:
            self._symbols_of_net = self.net, net_symbols(self.net)
        return self._symbols_of_net[1]

    def symbols_of_layer(self, name: str) -> tuple[tuple[SymbolicTensor, ...], tuple[SymbolicTensor, ...]]:
        """The symbolic tensors that the layer of that name reads, and those that it gives."""
        values, node = self._symbols(), self.net.node(name)
        return tuple(values[b] for b in node.bottoms), tuple(values[t] for t in node.tops)

    def submodel(self, output: str | Sequence[str]) -> Model:
        """The model from the inputs to these layers: names, patterns (``"conv*"``), or blocks (their last layer).

        It shares the weights (training one changes the other) and has the same ``preprocess``; it is not compiled. Its
        outputs have the names of the layers. Raises UsageError for what matches no layer.
        """
        part = part_of(self.net, output)
        if not any(self.net.unknown_sizes()):
            self.build()  # so that the seed of this model decides its first weights
        model = Model(part)
        model.table_columns = trained_columns(self.table_columns, self.fit_block)
        return model

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in order, each with its name in this net."""
        return tuple(self._layer_of(node) for node in self.net.nodes)

    def _layer_of(self, node: LayerNode) -> Layer:
        layer = layer_of(node)
        set_layer_model(layer, self, node.name)
        return layer

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """A layer by its name or its index. Raises UsageError where there is none."""
        return self._layer_of(find_layer(self.net, name, index))

    @property
    def trainable(self) -> bool:
        """Whether any layer is trainable; setting it is `set_trainable` for all layers."""
        return any(node.layer.trainable for node in self.net.nodes)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.set_trainable(value)

    def set_trainable(self, trainable: bool, *names: str) -> None:
        """Set whether the layers of these names, or patterns (``"stage1/**"``), are trained; without names all of them.

        Layers that share their weights are changed together. Weights stay; a compiled model is compiled again, which
        resets the optimizer's state. Raises UsageError for what matches no layer, and in the middle of a fit.
        """
        if self._trainer is not None:
            self._trainer.ensure_idle("set_trainable")
        patterns = names or ("**",)
        check_layers(self.net, patterns)
        self._take_over_unfreezings()
        self._replace_net(with_trainable(self.net, trainable, patterns))
        self.compile_block = unfreeze_in(self.compile_block, patterns) if trainable else self.compile_block
        self._weight_specs, self._trainer = None, None

    def freeze(self, *patterns: str) -> None:
        """Do not train the layers of these names or patterns; their normalization is in inference mode, as in Keras.

        As ``set_trainable(False, ...)``, which resets the optimizer's state; ``compile(freeze=...)`` says it of one
        compilation, and of single weights as well. Raises UsageError for what matches no layer, and in a fit.
        """
        check_patterns(patterns, "freeze")
        self.set_trainable(False, *patterns)

    def unfreeze(self, *patterns: str) -> None:
        """Train the layers of these names or patterns from the next step on, in the middle of a fit as well (from a
        callback; `callbacks.Unfreeze` does it at an epoch).

        The state of the optimizer stays; weights that are trained anew begin with fresh slots. The layers stay trained
        when the model is compiled again. Raises UsageError for what matches no layer (nor weight, if it is compiled).
        """
        check_patterns(patterns, "unfreeze")
        if self.compile_block is None:
            self.set_trainable(True, *patterns)
            return
        for pattern in patterns:
            self.trainer.plan_cache.newly_trained(pattern)
        self.trainer.unfreeze(patterns)

    def _take_over_unfreezings(self) -> None:
        """Before a new compilation: what was unfrozen since the last one stays trained."""
        unfrozen = () if self._trainer is None else [u.pattern for u in self._trainer.unfreezings]
        if unfrozen:
            self._replace_net(with_trainable(self.net, True, unfrozen))
            self.compile_block = unfreeze_in(self.compile_block, unfrozen)

    def _replace_net(self, net: Net) -> None:
        self.net = net
        enter_weight_sources(net, self.variables)

    # ---------------------------------------------------------------- compile

    @explain_arguments(COMPILE_ARGUMENTS)
    def compile(
        self,
        optimizer: Any = "adam",
        loss: Any = None,
        metrics: Any = None,
        *,
        weighted_metrics: Any = None,
        loss_weights: Mapping[str, float] | Sequence[float] | None = None,
        device: str = "auto",
        seed: int = 0,
        threads: int | None = None,
        precision: str = "auto",
        deterministic: bool = False,
        autotune: bool = False,
        memory: str = "normal",
        lr_mult: Mapping[str, float] | None = None,
        freeze: str | Sequence[str] = (),
        decay_mult: Mapping[str, float] | None = None,
        train: Any = None,
    ) -> None:
        """Configure the training, as in Keras. Existing weights stay; the optimizer's state is reset.

        Args:
            optimizer: a name or an `Optimizer`; or several, by patterns of the layers that each trains:
                ``{"generator/**": Adam(1e-4), "critic/**": RMSprop(5e-5)}``, or a list of such pairs.
            loss: a name, a `Loss`, a list (one for each output; of one output, losses to add, as in Keras) or a dict.
            metrics: likewise; "accuracy" becomes a metric by the loss and the output's shape.
            weighted_metrics: likewise; metrics in which sample and class weights count.
            loss_weights: the factors of the losses in the total, in order or by output.
            seed: of initial weights, the order of the data, dropout and augmentation.
            freeze: patterns of what is not trained, ``["**", "!logits"]``. lr_mult, decay_mult: factors by pattern on
                learning rate and weight decay, ``{"stem/**": 0.1}``.
            train: steps that alternate, each a dict: ``[{"name": "critic", "losses": ["score_loss"], "weights":
                "critic/**", "repeat": 5}, ...]``. device, ..., memory: see `Compile`.

        Raises UsageError for arguments that do not fit the net, BackendError for a device that is not there; warns
        (`ModelWarning`) of a loss that does not fit what the output ends with.
        """
        outputs = self.net.outputs
        loss, metrics, weighted_metrics = (
            _by_output(value, outputs, name)
            for name, value in (("loss", loss), ("metrics", metrics), ("weighted_metrics", weighted_metrics))
        )
        block = Compile(
            loss=() if loss is None else loss,
            optimizer=optimizer,
            metrics=metrics or (),
            weighted_metrics=weighted_metrics or (),
            device=device,
            precision=precision,
            memory=memory,
            seed=seed,
            threads=threads,
            deterministic=deterministic,
            autotune=autotune,
            freeze=freeze,
            lr_mult=lr_mult or (),
            decay_mult=decay_mult or (),
            train=train,
        )
        if loss_weights is not None:
            block = block.replace(loss=_apply_loss_weights(block, self.net, loss_weights))
        self.set_compile(block)
        self._warn_once()

    def set_compile(self, block: Compile) -> None:
        """As `compile`, with a ``compile`` block."""
        if self._trainer is not None:
            self._trainer.ensure_idle("compile")
        self._take_over_unfreezings()
        backend = backend_for(block.device, block.threads, block.precision, block.deterministic, block.autotune)
        plan_cache = train.PlanCache(self.net, self.variables, backend, block)
        self.variables.drop_prefix(SLOT_PREFIX)
        self.variables.drop_prefix(METRIC_PREFIX)
        self.compile_block = block
        self._make_trainer(plan_cache)

    def _make_trainer(self, plan_cache: PlanCache) -> None:
        self._trainer = train.Trainer(plan_cache, train.Preprocessor(self.net, backend_for("cpu")))
        self._has_warned = False
        self._on_batch_runner = train.OnBatchRunner(self._trainer)
        plan_cache.set_target_scalings(self._target_scalings())

    @property
    def table_columns(self) -> TableColumns:
        """The columns of the tables that it was trained on, as far as they are known."""
        return self._table_columns

    @table_columns.setter
    def table_columns(self, columns: TableColumns) -> None:
        self._table_columns = columns
        if self._trainer is not None and self._trainer.plan_cache.set_target_scalings(self._target_scalings()):
            self._on_batch_runner = train.OnBatchRunner(self._trainer)

    def _net_in_target_units(self) -> Net:
        """The net with the layers that scale its outputs back, where a training has scaled their targets."""
        scalings = self._target_scalings()
        return train.with_target_units(self.net, scalings) if scalings else self.net

    def _target_scalings(self) -> Mapping[str, Any]:
        encoding = self._table_columns.encoding
        return {} if encoding is None or not encoding.targets else train.target_scalings(self._table_columns)

    @property
    def trainer(self) -> Trainer:
        """Runs the steps. A model that is not compiled can predict."""
        if self._trainer is None:
            if self.compile_block is not None:
                self.set_compile(self.compile_block)
            else:
                backend = backend_for("auto")
                self._make_trainer(train.PlanCache(self.net, self.variables, backend, None))
        assert self._trainer is not None
        return self._trainer

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer. Raises UsageError where the model is not compiled, or has several (see `optimizers`)."""
        optimizers = self.optimizers
        if len(optimizers) > 1:
            raise UsageError(
                f"the model has {len(optimizers)} optimizers: write model.optimizers[{next(iter(optimizers))!r}]"
            )
        return next(iter(optimizers.values()))

    @property
    def optimizers(self) -> dict[str, Optimizer]:
        """The optimizers by name; one that trains all weights is called "optimizer". Raises UsageError where the model
        is not compiled."""
        return {group.name: group.optimizer for group in self.trainer.plan_cache.update_rules.groups}

    @property
    def metrics_names(self) -> list[str]:
        """The names of the loss and the metrics, in the order of what `evaluate` returns. Raises UsageError where the
        model is not compiled."""
        return self._compiled_trainer().plan_cache.metrics_names()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step; setting it overrides a schedule. Raises UsageError for a model with
        several optimizers (see `learning_rates`)."""
        return self.trainer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.trainer.learning_rate = value

    @property
    def learning_rates(self) -> LearningRates:
        """The learning rates of the next step by the names of the optimizers; setting one overrides its schedule."""
        return self.trainer.learning_rates

    @property
    def stop_training(self) -> bool:
        """Set by a callback to end the epoch after this step, and `fit` after the epoch."""
        return self.trainer.stop_training

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        self.trainer.stop_training = value

    # ---------------------------------------------------------------- fit, evaluate, predict

    @explain_arguments(OLD_FIT_ARGUMENTS, {"nb_epoch": "epochs"})
    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        verbose: Any = "auto",
        callbacks: Sequence[Callback] | Callback | None = None,
        validation_split: float | None = None,
        validation_data: Any = None,
        shuffle: bool | None = None,
        class_weight: Mapping[int, float] | Sequence[float] | str | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | None = None,
        *,
        resume: bool | None = None,
        run_dir: str | PathLike[str] | None = None,
    ) -> History:
        """Train, as in Keras. Omitted arguments come from the model's ``fit`` block, else from its defaults.

        Args:
            x, y: arrays [samples, ...], or lists or dicts of them by input and output; or x alone: a `Dataset`, a
                `Data` block, the name or path of a data source, or batches ``(x, y)`` or ``(x, y, sample_weight)`` from
                an iterable, a generator or a function that makes one. Without x the fit block's data.
            validation_data: (x, y), (x, y, sample_weight), or what x may be; else the last ``validation_split`` of the
                samples; else the validation data of the data source.
            class_weight: a factor in the loss for each class index, a list of one for each class, or "balanced":
                samples / (classes * samples of the class). sample_weight: one for each sample, [samples]. Among the
                metrics both count in ``weighted_metrics`` only, as in Keras.
            steps_per_epoch: steps in an epoch; a data set continues where the last epoch ended, and wraps around.
            initial_epoch: the number of the first epoch (from 0); ``epochs`` is the number after the last.
            verbose: "auto" or 1 (a bar on a terminal, else a line for each epoch), 2 (lines), 0 (nothing).
            resume: whether the training in a file of `save` continues at its position, bit for bit with the same data
                and callbacks. None: if it was saved before its end. True: also a training that was interrupted or has
                ended in this process. False: begin a new training with these weights.
            run_dir: the folder inside which callbacks of the fit block write their files; default: ``runs/NAME``.

        Returns the `History`. Ctrl-C ends the fit after the current step; `save` then keeps the state to resume from.

        Raises:
            UsageError: no loss, no data, arguments that exclude each other.
            DataError: data that do not fit the model.
            TrainingError: a loss that is not finite, or a training that cannot be resumed exactly.
            ResourceError: a step that would not fit in memory; raised before the first step, with a batch that would.
        """
        arguments = {"batch_size": batch_size, "epochs": epochs, "validation_split": validation_split,
                     "shuffle": shuffle, "steps_per_epoch": steps_per_epoch, "validation_steps": validation_steps,
                     "validation_freq": validation_freq}  # fmt: skip
        block = (self.fit_block or Fit()).replace(**{k: v for k, v in arguments.items() if v is not None})
        calls = [
            *(block.callbacks if callbacks is None else callback_list(callbacks)),
            *train.progress_callbacks(verbose),
        ]
        bind_output_dirs(calls, (*block.callbacks, *(self.fit_block or block).callbacks), self.name, run_dir)
        validation_batch_size = check_optional_integer("validation_batch_size", validation_batch_size)
        initial_epoch = check_integer("initial_epoch", initial_epoch, 0)
        check_epochs(initial_epoch, block.epochs)
        trainer = self._compiled_trainer()
        trainer.ensure_idle("fit")
        trainer.profiler = train.Profiler()
        with trainer.profiler(train.OPEN):
            source, validation_source = pipeline.DataSource(x, y, sample_weight, block.steps_per_epoch), None
            if validation_data is not None:
                validation_source = pipeline.DataSource.of_validation(validation_data, block.validation_steps)
            signature = self.signature()
            columns, validation_columns = pipeline.open_fit_data(
                source, validation_source, fit_sources(block), signature
            )
            self.fit_block = record_class_names(self.fit_block, columns)
            self.table_columns = self.table_columns.updated(columns.dataset.table_columns)
            if has_unadapted((*self.net.preprocess, *(node.layer for node in self.net.nodes))):
                train.adapt_layers(self.net, columns)
            training = columns.batches(block.batch_size, training=True, shuffle=block.shuffle)
            self._build(training.input_specs)
            self.input_ranges.begin_training(training.dataset)
            validation = None
            own = {"validation_steps": validation_steps, "validation_batch_size": validation_batch_size}
            own["validation_freq"] = validation_freq
            warn_of_validation_arguments(own, validation_columns is not None, range(initial_epoch, block.epochs))
            if validation_columns is not None:
                validation = validation_columns.batches(validation_batch_size or block.batch_size)
                warn_of_missing_batches("validation_steps", block.validation_steps, validation.steps())
                self.input_ranges.check(validation.dataset)
                terms = trainer.plan_cache.loss_terms
                outputs = {t.output: t.loss.ignored_class for t in terms if t.loss.target_kind == "classes"}
                training.warn_of_overlap(validation, outputs)
        self.history = train.History()
        return trainer.fit(
            self,
            training,
            validation,
            epochs=block.epochs,
            callbacks=calls,
            history=self.history,
            class_weight=block.class_weight if class_weight is None else class_weight,
            steps_per_epoch=block.steps_per_epoch,
            validation_steps=block.validation_steps,
            validation_freq=block.validation_freq,
            initial_epoch=initial_epoch,
            resume=resume,
        )

    @explain_arguments(OLD_FIT_ARGUMENTS)
    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Sequence[Callback] | Callback | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Loss and metrics over data; x and y as for `fit`. Without x the fit block's validation data.

        batch_size: default that of the fit block. steps: the number of batches, default all. verbose: 1 or 2 for a line
        on standard error. return_dict: True for a plain dict. Raises as `fit`.

        Returns an `EvaluationResult`: a tuple of the values in the order of `metrics_names`, that of the loss alone as
        well, which also gives them by name.
        """
        is_verbose = check_verbose(verbose)
        steps = check_optional_integer("steps", steps)
        trainer = self._compiled_trainer()
        batches = self.evaluation_batches(x, y, batch_size, sample_weight, steps)
        calls = CallbackList([] if callbacks is None else callbacks, self, {"steps": steps or batches.steps()})
        results = trainer.evaluate(self, batches, steps=steps, callbacks=calls)
        if is_verbose:
            print(train.format_logs(results), file=sys.stderr)
        return results if return_dict else EvaluationResult(results)

    def evaluation_batches(
        self, x: Any, y: Any, batch_size: int | None = None, sample_weight: Any = None, steps: int | None = None
    ) -> Batches:
        """The batches that `evaluate` runs over; arguments and errors are its own."""
        block = self.fit_block or Fit()
        batch_size = check_optional_integer("batch_size", batch_size) or block.batch_size
        source = pipeline.DataSource(x, y, sample_weight, steps)
        if x is None:
            sources = fit_sources(block)
            columns, validation = pipeline.open_fit_data(source, None, sources, self.signature(), trains=False)
            columns = validation or columns
        else:
            columns = source.columns(self.signature())
        batches = columns.batches(batch_size)
        warn_of_missing_batches("steps", steps, batches.steps())
        self._build(batches.input_specs)
        self.input_ranges.check(batches.dataset)
        return batches

    @explain_arguments(OLD_FIT_ARGUMENTS)
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Sequence[Callback] | Callback | None = None,
    ) -> Any:
        """The outputs for x [samples, ...]: an array, or a dict for several outputs.

        x: what `fit` accepts; or the path of an image, of a folder of images (also of subfolders, in the order of their
        paths), of a file of arrays or of a CSV table; a list of paths of images; images of Pillow. An image that cannot
        be read is an error. Of a model that reads texts, a string is a text, or the path of a file or folder of texts.
        batch_size: default 32. steps: the number of batches, default all. verbose: 1 or 2 for a line on standard error.
        Raises DataError, UsageError, ResourceError.
        """
        is_verbose, start = check_verbose(verbose), time.perf_counter()
        batch_size = check_optional_integer("batch_size", batch_size) or 32
        steps = check_optional_integer("steps", steps)
        parts: list[dict[str, np.ndarray]] = []
        for columns in pipeline.open_samples(x, self.signature().without_targets, batch_size, steps).groups:
            if callbacks is None and steps is None and columns.is_small(batch_size):
                parts.append(self._predict_at_once(columns))
                continue
            batches = columns.batches(batch_size)
            warn_of_missing_batches("steps", steps, batches.steps())
            self._build(batches.input_specs)
            self.input_ranges.check(batches.dataset)
            calls = CallbackList([] if callbacks is None else callbacks, self, {"steps": steps or batches.steps()})
            parts.append(self.trainer.predict(self, batches, steps=steps, callbacks=calls))
        outputs = parts[0]
        if len(parts) > 1:
            outputs = {name: np.concatenate([part[name] for part in parts]) for name in outputs}
        if is_verbose:
            count, seconds = len(next(iter(outputs.values()))), train.format_duration(time.perf_counter() - start)
            print(f"{count} samples predicted in {seconds}", file=sys.stderr)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    @explain_arguments()
    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """One training step on these samples. Returns loss and metrics of this batch as `evaluate` does."""
        return self._on_batch(TRAIN, x, y, sample_weight, class_weight, return_dict)

    @explain_arguments()
    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """Loss and metrics of these samples, without training, as `evaluate` returns them."""
        return self._on_batch(TEST, x, y, sample_weight, None, return_dict)

    @explain_arguments()
    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for these samples, computed as one batch."""
        signature = self.signature().without_targets
        copies = self._copy_outputs(signature, pipeline.DataSource(x).arrays(signature))
        return next(iter(copies.values())) if len(copies) == 1 else copies

    def _predict_at_once(self, columns: Columns) -> dict[str, np.ndarray]:
        """As `Trainer.predict`, of samples that are one batch."""
        data = columns.arrays_in_memory()
        outputs = self._copy_outputs(columns.signature, data)
        train.warn_of_nan_outputs(self.trainer, outputs)
        return outputs

    def _copy_outputs(self, signature: ModelSignature, data: ArrayDataset) -> dict[str, np.ndarray]:
        """The outputs of a step on these samples, by name."""
        to_numpy = self.trainer.plan_cache.backend.to_numpy
        with self.trainer.lock:
            outputs = self._run_on_batch(PREDICT, signature, data, None)
            return {name: np.array(to_numpy(array)) for name, array in outputs.items()}

    def _on_batch(self, phase: str, x: Any, y: Any, sample_weight: Any, class_weight: Any, as_dict: bool) -> Any:
        trainer = self._compiled_trainer()
        with trainer.lock:
            signature = self.signature()
            data = pipeline.DataSource(x, y, sample_weight).arrays(signature)
            self._run_on_batch(phase, signature, data, class_weight)
            results = trainer.plan_cache.metrics.results(phase)
            return results if as_dict else EvaluationResult(results)

    def _run_on_batch(
        self, phase: str, signature: ModelSignature, data: ArrayDataset, class_weight: Any
    ) -> dict[str, Any]:
        runner = self._on_batch_runner
        if not runner.is_bound(phase, data):
            bound_columns = pipeline.Columns(signature, data).bind()
            self._build(bound_columns.input_specs)
            runner.bind(phase, data, bound_columns)
            self.input_ranges.check(bound_columns.dataset)
        elif phase != TRAIN and self.input_ranges.needs_check:
            self.input_ranges.check(runner.bound_dataset(phase, data))
        outputs = runner.run(phase, data, class_weight)
        if phase == TRAIN and not data.table_columns.is_empty:
            table = self.table_columns.updated(data.table_columns)
            self.table_columns = self.table_columns if table == self.table_columns else table
        return outputs

    def signature(self) -> ModelSignature:
        """What the model expects of data, by the names, shapes and dtypes of its inputs and of the targets of its
        losses."""
        trainer, block = self.trainer, self.fit_block
        parts = (trainer, block, self.table_columns, self.read_limits)
        if self._signature is None or any(a is not b for a, b in zip(parts, self._signature[0], strict=True)):
            signature = train.model_signature(trainer.plan_cache, trainer.preprocessor)
            table = trained_columns(self.table_columns, block)
            data = None if block is None else block.data
            self._signature = parts, replace(signature, data=data, table=table, limits=self.read_limits)
        return self._signature[1]

    def _compiled_trainer(self) -> Trainer:
        """The trainer of a compiled model. Raises UsageError, before data are read, where there is no loss."""
        _ = self.trainer.plan_cache.update_rules
        self._warn_once()
        return self.trainer

    def _warn_once(self) -> None:
        """Issue the notes on the compiled model, once for each `compile`."""
        if not self._has_warned:
            self._has_warned = True
            for note in train.find_model_notes(self.trainer.plan_cache.step_graphs):
                warn_user(note, ModelWarning)

    # ---------------------------------------------------------------- weights, files

    def _build(self, specs: Mapping[str, Spec]) -> dict[str, WeightSpec]:
        """Create the weights that do not exist yet, for inputs of these specs.

        Raises ResourceError where they would not fit in memory, WeightsError where existing ones have other specs.
        """
        with self.trainer.lock:
            if self._weight_specs is None:
                net_trace = trace(self.net, specs, False)
                share_inner_weights(net_trace, self.variables)
                self._weight_specs = net_trace.weights
            self.trainer.plan_cache.check_weights_fit(self._weight_specs.values())
            seed = self.compile_block.seed if self.compile_block is not None else 0
            create_weights(self._weight_specs.values(), self.variables, seed)
            return self._weight_specs

    def build(self, **shapes: Sequence[int]) -> None:
        """Create the weights now. Inputs of unknown size need ``name=shape`` (without the batch dimension)."""
        self._build(self.input_specs(1, shapes))

    def input_specs(self, batch: int, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, Spec]:
        """The specs of the inputs for a batch size. shapes: of inputs of unknown size. Raises UsageError."""
        return input_specs(self.net, batch, shapes)

    @property
    def weight_specs(self) -> Mapping[str, WeightSpec]:
        """What is known of each weight, by name; empty before the weights of inputs of unknown size are created."""
        if self._weight_specs is None and not any(self.net.unknown_sizes()):
            self.build()
        return self._weight_specs or {}

    @property
    def weights(self) -> NamedWeights:
        """The weights by name (``layer/weight``) in the order of the layers: the arrays, not copies.

        ``model.weights[name] = array`` writes into one.
        """
        if self._weight_specs is None:
            of_file = weights_of_file(self.net, self.variables)
            if of_file is not None:
                return of_file
            self.build()
        return NamedWeights({name: self.variables[name] for name in self._weight_specs or ()})

    def get_weights(self) -> dict[str, np.ndarray]:
        """Copies of the weights by name."""
        return {name: np.array(array) for name, array in self.weights.items()}

    @explain_arguments()
    def set_weights(self, weights: Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> None:
        """Write all weights, by name or in order. Raises WeightsError where names or shapes do not fit."""
        write_weights(self.weights, weights)

    def count_params(self) -> int:
        """The number of elements of all weights, running statistics included."""
        return sum(int(np.size(a)) for a in self.weights.values())

    @explain_arguments(SAVE_ARGUMENTS, {"filepath": "path"})
    def save(self, path: str | PathLike[str]) -> None:
        """Write text, weights, optimizer state and, during a `fit`, the state to resume from into one HDF5 file.

        Weights that are not finite are reported by a RuntimeWarning; during a `fit` they raise TrainingError instead,
        and an earlier file stays as it is. The file is HDF5, whatever its name; a name that ends as those of another
        format do (``model.keras``, ``model.pt``) is a UsageError.
        """
        check_path(path)
        _ = self.weights
        self._check_before_save(path)
        training = self._trainer.state() if self._trainer is not None and self.compile_block is not None else None
        self._write(path, training)

    @explain_arguments(WEIGHTS_ARGUMENTS, {"filepath": "path"})
    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write the weights alone, with the text and the history of their training, into an HDF5 file."""
        check_path(path)
        _ = self.weights
        self._check_before_save(path)
        self._write(path, None)

    def _write(self, path: str | PathLike[str], training: dict[str, Any] | None) -> None:
        ranges, history = self.input_ranges.training_ranges, self.history
        checkpoint.save(
            path,
            self.to_text(),
            self.variables,
            training,
            ranges,
            self.table_columns,
            history.to_json() if history is not None and history.epoch else None,
        )

    def _check_before_save(self, path: str | PathLike[str]) -> None:
        """Warn of values that are not finite. In a fit they raise TrainingError: the earlier file stays as it is."""
        if self.trainer.is_fitting:
            self.trainer.check_states()
        else:
            warn_of_states(self.variables, path)

    def set_preprocess(self, preprocess: Sequence[Layer], class_names: Sequence[str] | None = None) -> None:
        """Replace the layers that prepare every sample, and the names of the classes unless they are None.

        A compiled model stays compiled. Raises UsageError during a `fit`.
        """
        if self._trainer is not None:
            self._trainer.ensure_idle("set_preprocess")
        names = self.net.class_names if class_names is None else tuple(class_names)
        self._take_over_unfreezings()
        self.net = replace(self.net, preprocess=tuple(preprocess), class_names=names)
        self.input_ranges, self._trainer = InputRanges(self.net), None

    @explain_arguments(aliases={"filepath": "path"})
    def load_weights(
        self,
        path: str | PathLike[str] | Weights,
        *,
        by_name: bool = False,
        skip_mismatch: bool = False,
        rules: Any = None,
        except_: str | Sequence[str] = (),
        system: str | None = None,
        by_order: bool = False,
        allow_download: bool | None = None,
        data_format: str | None = None,
    ) -> LoadReport:
        """Read weights from a file of prototorch, PyTorch, safetensors, Keras, Caffe or NumPy (see `pt.read_weights`).

        path: of the file; or the name of a weight set ("torchvision/resnet50-v2", "imagenet"), an address, or a
        `Weights` block. A set is downloaded once; its preprocessing and class names replace the model's, which is
        printed. A local file with the names of a set of this model gets the rules of that set.

        By default the file must have exactly the model's weights, with their shapes; the names of another system are
        matched with the model's, and its layouts are changed to ours. by_name: weights may be missing or unknown.
        skip_mismatch: shapes may differ as well. rules: which names of the file are others in the model: a dict, or the
        path of a rules file. except_: patterns of the model's weights that keep their values (``"logits/*"``).
        system: "torch", "keras" or "prototorch", whose layouts the arrays have; to be told where the file does not and
        shapes do not decide (square kernels); it goes before what the file tells. by_order: pair layers by their
        order, kinds and shapes instead of names; the error without it shows the pairs. allow_download: whether
        addresses other than those of sets that come with prototorch are opened; None: only one that is given here.
        data_format: "channels_last" or "channels_first", the order of the axes of Keras' images, for a file that does
        not tell (``.weights.h5``); default "channels_last", and the report says so where it matters.

        Returns a report of what was loaded and what was not; after an error nothing has been changed. Weights that are
        not finite are a RuntimeWarning. Raises WeightsError, ModelFileError, and UsageError for a set of another model.
        """
        if isinstance(path, Weights) and (rules is not None or except_):
            raise UsageError("load_weights: a Weights block has except_ and rules itself; give them there")
        block = Weights.from_source(path, except_, as_rules(rules))
        part, specs = self.net, self._weight_specs or weight_specs(self.net, self.variables)
        if block.into is not None:
            part, specs = part_below(self.net, specs, block)
        read = loading.CheckpointSource(block, system, data_format, allow_download).read(
            part, check=not (by_name or skip_mismatch)
        )
        names = read.names(part, specs, by_order=by_order, except_=block.except_)
        laid_out = names.lay_out()
        if block.partial:
            laid_out = laid_out.less_unexpected()
        checked = laid_out.check(by_name=by_name, skip_mismatch=skip_mismatch)
        net, notes, published = self.net, "", read.published
        if published is not None:
            if self._trainer is not None:
                self._trainer.ensure_idle("load_weights of a weight set, which changes the preprocessing")
            take_over = published.take_over if block.into is None else partial(take_over_below, published, part=part)
            net, notes = take_over(net, block)
        current = self.weights
        report = checked.assign(current if block.into is None else NamesBelow(current, block.into))
        if not block.is_saved_file:  # which does not tell what its weights began with
            self.weight_origin = {} if published is None else published.origin
        if notes:
            print(notes, file=sys.stderr)
        if net != self.net:
            self.set_preprocess(net.preprocess, net.class_names)
        warn_of_loaded(self.variables, checked.path, slots=False)
        return report

    def input_dtypes(self) -> dict[str, str]:
        """The elements of the data that the model was trained on, before ``preprocess``, by input; none before fit."""
        return {name: values.dtype for name, values in self.input_ranges.training_ranges.items()}

    @explain_arguments(aliases={"filepath": "path"})
    def export(
        self,
        path: str | PathLike[str],
        format: str | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        **options: Any,
    ) -> tuple[str, ...]:
        """Write the model for another system; returns the paths of the files.

        Args:
            format: "onnx", "torch" or another format that is written; default: that of the path's ending.
            shapes: of inputs whose sizes the text leaves open, by name, without the batch dimension; for a format with
                ``include_preprocess`` that of the first input before ``preprocess`` as well.
            options: of the format. ONNX: ``opset`` (13 to 25, default 18), ``include_preprocess`` (whether the layers
                of ``preprocess`` are a part of the graph; default: those that ONNX can express, and a printed
                line names the others), ``external_data`` (whether the weights are a
                file of their own, ``PATH.data``; default: from 2 GB on).

        Raises UsageError for an unknown format or option, a missing package, and a layer that the format cannot
        express; SnapshotError where a file cannot be written. An older file is then as it was.
        """
        check_path(path, "model.onnx")
        refuse_unadapted((*self.net.preprocess, *(node.layer for node in self.net.nodes)))
        if shapes and self._weight_specs is None and any(self.net.unknown_sizes()):
            self.build(**shapes)
        model = ModelToWrite(
            self._net_in_target_units(),
            dict(self.weights),
            self.to_text(),
            class_names(self.net, self.fit_block, self.table_columns),
            dict(shapes or {}),
            dict(self.weight_origin),
            self.input_dtypes(),
        )
        paths = model_writer().write(fspath(path), model, format, **options)
        for note in model.notes:
            print(note, file=sys.stderr)
        return paths


def _by_output(values: Any, outputs: Sequence[str], what: str) -> Any:
    return train.by_output(values, outputs, what)


def _apply_loss_weights(block: Compile, net: Net, weights: Any) -> Any:
    return train.apply_loss_weights(block, net, weights)
