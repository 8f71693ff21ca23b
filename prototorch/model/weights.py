"""The weights of a model: created, read, written, saved and loaded."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import numpy as np

from prototorch.engine.storage import checkpoint
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import UsageError, WeightsError
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.trace import Trace, trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.interop.matching import match_weights
from prototorch.interop.matching.assign import assign_match
from prototorch.interop.matching.report import check_match, load_report
from prototorch.interop.matching.rules_file import as_rules
from prototorch.interop.weight_sets.assign_to_model import assign_set
from prototorch.interop.weight_sets.opening import find_owner, is_saved_file, open_weights
from prototorch.interop.weight_sets.weights_block import Weights
from prototorch.layers.base import Layer
from prototorch.runtime.variables import NamedWeights, Variables, initial_value
from prototorch.schema.neutral_arguments import explain_arguments
from prototorch.spec import Spec
from prototorch.train.argument_checks import SAVE_ARGUMENTS, WEIGHTS_ARGUMENTS, check_path
from prototorch.train.config import Compile
from prototorch.train.input_ranges import InputRanges
from prototorch.train.state_check import describe_states, non_finite_states, warn_of_loaded
from prototorch.train.trainer import Trainer

__all__ = ["ModelWeights"]


class ModelWeights:
    """The part of `prototorch.model.model.Model` that concerns its weights."""

    net: Net
    variables: Variables
    weight_origin: Mapping[str, str] = {}  # the weight set that was loaded last, with its licence, for exports
    input_ranges: InputRanges
    compile_block: Compile | None
    _trainer: Trainer | None
    _weight_specs: dict[str, WeightSpec] | None
    weights_block: Weights | None = None

    @property
    def trainer(self) -> Trainer:
        """Runs the steps; see `prototorch.model.model.Model.trainer`."""
        raise NotImplementedError

    def _bind_inner_layers(self, net_trace: Trace) -> None:
        """See `prototorch.model.structure.ModelStructure`."""
        raise NotImplementedError

    def _take_over_unfreezings(self) -> None:
        """See `prototorch.model.structure.ModelStructure`."""
        raise NotImplementedError

    def to_text(self) -> str:
        """The model as text; see `prototorch.model.model.Model.to_text`."""
        raise NotImplementedError

    def _build(self, specs: Mapping[str, Spec]) -> dict[str, WeightSpec]:
        """Create the weights that do not exist yet, for inputs of these specs.

        Raises ResourceError where they would not fit in memory, WeightsError where existing ones have other specs.
        """
        with self.trainer.lock:
            if self._weight_specs is None:
                net_trace = trace(self.net, specs, False)
                self._bind_inner_layers(net_trace)
                self._weight_specs = net_trace.weights
            self.trainer.plan_cache.check_weights_fit(self._weight_specs.values())
            seed = self.compile_block.seed if self.compile_block is not None else 0
            for weight in self._weight_specs.values():
                if weight.name not in self.variables:
                    self.variables.create(weight.name, initial_value(weight, seed), own=True)
                self.variables.check_spec(weight.name, weight.spec)
            return self._weight_specs

    def build(self, **shapes: Sequence[int]) -> None:
        """Create the weights now. Inputs of unknown size need ``name=shape`` (without the batch dimension)."""
        self._build(self.input_specs(1, shapes))

    def input_specs(self, batch: int, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, Spec]:
        """The specs of the inputs for a batch size. shapes: of inputs of unknown size. Raises UsageError."""
        specs = {}
        for node in self.net.inputs:
            shape = tuple((shapes or {}).get(node.name, node.shape))
            if None in shape:
                raise UsageError(f"the input {node.name!r} has an unknown size; call build({node.name}=[...]) first")
            specs[node.name] = Spec((batch, *(n for n in shape if n is not None)), node.dtype)
        return specs

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name (``layer/weight``) in the order of the layers: the arrays, not copies.

        ``model.weights[name] = array`` writes into one.
        """
        if self._weight_specs is None:
            loaded = self.variables.weights()
            if loaded and any(self.net.unknown_sizes()):  # from a file: only their order must be determined
                return NamedWeights({name: loaded[name] for name in trace_net(self.net, 1).weights if name in loaded})
            self.build()
        return NamedWeights({name: self.variables[name] for name in self._weight_specs or ()})

    def get_weights(self) -> dict[str, np.ndarray]:
        """Copies of the weights by name."""
        return {name: np.array(array) for name, array in self.weights.items()}

    @explain_arguments()
    def set_weights(self, weights: Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> None:
        """Write all weights, by name or in order. Raises WeightsError where names or shapes do not fit."""
        current = self.weights
        if not isinstance(weights, Mapping):
            if len(weights) != len(current):
                raise UsageError(f"the model has {len(current)} weights, got {len(weights)}")
            weights = dict(zip(current, weights, strict=True))
        checkpoint.assign_weights(current, weights, source="the weights given", strict=True)

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
        checkpoint.save(path, self.to_text(), self.variables, training, self.input_ranges.training_ranges)

    @explain_arguments(WEIGHTS_ARGUMENTS, {"filepath": "path"})
    def save_weights(self, path: str | PathLike[str]) -> None:
        """Write the weights alone (with the text) into an HDF5 file."""
        check_path(path)
        _ = self.weights
        self._check_before_save(path)
        checkpoint.save(path, self.to_text(), self.variables, None, self.input_ranges.training_ranges)

    def _check_before_save(self, path: str | PathLike[str]) -> None:
        """Warn of values that are not finite. In a fit they raise TrainingError: the earlier file stays as it is."""
        if self.trainer.is_fitting:
            self.trainer.check_states()
        elif names := non_finite_states(self.variables):
            warnings.warn(
                f"{fspath(path)} gets values that are not finite: {describe_states(self.variables, names)}",
                RuntimeWarning, stacklevel=3,
            )  # fmt: skip

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
    def load_weights(self, path: str | PathLike[str] | Weights, *, by_name: bool = False, skip_mismatch: bool = False,
                     rules: Any = None, except_: str | Sequence[str] = (), system: str | None = None,
                     by_order: bool = False, allow_download: bool | None = None,
                     data_format: str | None = None) -> LoadReport:  # fmt: skip
        """Read weights from a file of prototorch, PyTorch, safetensors, Keras, Caffe or NumPy (see `pt.read_weights`).

        path: of the file; or the name of a weight set ("torchvision/resnet50-v2", "imagenet"), an address, or a
        `Weights` block. A set is downloaded once; its preprocessing and class names replace the model's, which is
        printed. A local file with the names of a set of this model gets the rules of that set.

        By default the file must have exactly the model's weights, with their shapes; the names of another system are
        matched with the model's, and its layouts are changed to ours. by_name: weights may be missing or unknown.
        skip_mismatch: shapes may differ as well. rules: which names of the file are others in the model: a dict, or the
        path of a rules file. except_: patterns of the model's weights that keep their values (``"logits/*"``).
        system: "torch", "keras" or "prototorch", for a file that does not tell. by_order: pair layers by their order,
        kinds and shapes instead of names; the error without it shows the pairs. allow_download: whether
        addresses other than those of sets that come with prototorch are opened; None: only one that is given here.
        data_format: "channels_last" or "channels_first", the order of the axes of Keras' images, for a file that does
        not tell (``.weights.h5``); default "channels_last", and the report says so where it matters.

        Returns a report of what was loaded and what was not; after an error nothing has been changed. Weights that are
        not finite are a RuntimeWarning. Raises WeightsError, ModelFileError, and UsageError for a set of another model.
        """
        if isinstance(path, Weights) and (rules is not None or except_):
            raise UsageError("load_weights: a Weights block has except_ and rules itself; give them there")
        block = Weights.from_source(path, except_, as_rules(rules))
        if is_saved_file(block.source) and not (block.rules or block.except_ or system or by_order or data_format):
            report = checkpoint.load_weights_into(
                block.source, self.weights, by_name=by_name, skip_mismatch=skip_mismatch
            )
            warn_of_loaded(self.variables, block.source, slots=False)
            return report
        opened = open_weights(block, self.net, allow_download=allow_download, check=not (by_name or skip_mismatch))
        weights = self.weights
        specs = self._weight_specs or trace_net(self.net, 1).weights
        match = match_weights(opened.file, specs, self.net, opened.rules, system=system or opened.system,
                              by_order=by_order, except_=block.except_,
                              data_format=data_format or opened.data_format)  # fmt: skip
        try:
            check_match(match, by_name=by_name, skip_mismatch=skip_mismatch)
        except WeightsError as error:
            raise WeightsError(f"{error}{find_owner(opened.file)}") from None
        if self._trainer is not None and opened.declared is not None:
            self._trainer.ensure_idle("load_weights of a weight set, which changes the preprocessing")
        net, notes = (self.net, "") if opened.declared is None else assign_set(self.net, opened.declared, block)
        assign_match(match, weights)
        declared = opened.declared.weights if opened.declared is not None else None
        self.weight_origin = {} if declared is None else {"weights": declared.name, "license": declared.license}
        if notes:
            print(notes, file=sys.stderr)
        if net != self.net:
            self.set_preprocess(net.preprocess, net.class_names)
        warn_of_loaded(self.variables, opened.file.path, slots=False)
        return load_report(match)
