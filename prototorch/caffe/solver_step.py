"""One iteration of a solver as a plan: forward and backward pass and the update of all parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from prototorch.caffe.interop.backward_flags import find_backward_flags
from prototorch.caffe.interop.caffe_net import CaffeNet, CaffeParam
from prototorch.caffe.interop.solver_fields import translate_optimizer
from prototorch.caffe.text.message import Message
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import LOSS
from prototorch.errors import TrainingError, UsageError
from prototorch.graph.net import LayerNode, Net
from prototorch.graph.trace import RANDOM_KEY, Trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers import AddLoss, StopGradient
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.config import Compile
from prototorch.train.nan_diagnosis import NonFiniteStepError, raise_if_not_finite
from prototorch.train.plan_cache import PlanCache
from prototorch.train.state_check import describe_names
from prototorch.train.step_inputs import ACCUMULATE, LEARNING_RATE, OUTPUT_PREFIX, STEP, TRAIN, random_key
from prototorch.train.trained_weights import TrainedWeights

__all__ = ["SolverStep", "StepResult", "owned_params", "refusal"]


@dataclass(frozen=True)
class StepResult:
    """What a batch has given: the loss, and the net's outputs by blob."""

    loss: float
    outputs: dict[str, np.ndarray]


def owned_params(net: CaffeNet) -> list[CaffeParam]:
    """The parameter blobs that a solver updates, in the order of its history: shared ones count once."""
    return [param for param in net.params if param.owner is None]


class SolverStep:
    """The plans of a solver's iterations on a net whose layers between its inputs and its losses are all native.

    variables: the net's; the optimizer's slots are made there. Raises UsageError for a net without a loss.
    """

    def __init__(self, net: CaffeNet, variables: Variables, backend: Backend, solver: Message, seed: int):
        self.net, self.seed = net, seed
        self._iter_size = solver["iter_size"]
        if not any(weight for layer in net.layers for weight in layer.loss_weights):
            raise UsageError(f"the train net {net.net.name!r} has no loss: a loss layer, or a loss_weight at a top")
        config = Compile(optimizer=translate_optimizer(solver), seed=seed)
        net_with_losses = with_losses(net)
        self.plans = PlanCache(
            net_with_losses,
            variables,
            backend,
            config,
            trained_weights=ParamSpecs(net_with_losses, net),
            step_outputs=[net.blobs[blob] for blob in net.outputs],
            decayed_weights=_decayed(net, solver),
        )
        self._specs = {value: net.specs[value] for value in net.inputs.values()}
        self.num_batches = 0

    def create_slots(self) -> None:
        """Make the optimizer's state, if it is not there yet."""
        self.plans.executor(TRAIN, self._specs)

    def run(self, inputs: Mapping[str, np.ndarray], rate: float, iteration: int, batch: int) -> StepResult:
        """One of the ``iter_size`` batches of an iteration; the last one updates the parameters.

        inputs: by value of the net. rate: the learning rate. Raises TrainingError where the loss or a gradient is not
        finite; nothing has been updated then.
        """
        phase = TRAIN if batch == self._iter_size - 1 else ACCUMULATE
        executor = self.plans.executor(phase, self._specs)
        feeds: dict[str, object] = dict(inputs)
        if phase == TRAIN:
            feeds[LEARNING_RATE] = np.asarray(rate, self.plans.step_graphs.float_dtype)
            feeds[STEP] = np.int64(iteration + 1)
        if RANDOM_KEY in executor.plan.inputs:
            feeds[RANDOM_KEY] = random_key(self.seed, self.num_batches)
        self.num_batches += 1
        try:
            outputs = executor(feeds, raise_if_not_finite)
            executor.synchronize(raise_if_not_finite)
        except NonFiniteStepError as error:
            raise refusal(error, iteration) from None
        to_numpy = self.plans.backend.to_numpy
        values = {blob: np.array(to_numpy(outputs[OUTPUT_PREFIX + self.net.blobs[blob]])) for blob in self.net.outputs}
        return StepResult(float(to_numpy(outputs[LOSS])), values)


def refusal(error: NonFiniteStepError, iteration: int) -> TrainingError:
    """The error about an iteration that is not finite, which has changed no parameter."""
    if not np.isfinite(error.loss):
        what = f"the loss is {error.loss}, not finite"
    elif not error.states:
        what = "the loss is finite, but a gradient is not finite"
    else:
        what = f"the loss is finite, but the update would make {describe_names(error.states)} not finite"
    return TrainingError(
        f"{what} in iteration {iteration}; no parameter has been changed by it. Try a smaller base_lr or "
        "clip_gradients, or look for odd values in the data"
    )


def with_losses(net: CaffeNet) -> Net:
    """The net with its losses as `AddLoss` layers, and with no gradient where ``propagate_down`` is false."""
    names = {node.name for node in net.net.nodes} | set(net.specs)
    nodes = {node.name: node for node in net.net.nodes}
    added: list[LayerNode] = []

    def add(name: str, layer: AddLoss | StopGradient, value: str) -> str:
        while name in names:
            name += "_"
        names.add(name)
        added.append(LayerNode(name, layer, (value,), (name,)))
        return name

    result: list[LayerNode] = []
    flags = find_backward_flags(net)
    for layer, bottom_flags in zip(net.layers, flags.bottoms, strict=True):
        stopped_values = {}
        if layer.message["propagate_down"]:
            for value, flag in zip(layer.bottom_values, bottom_flags, strict=True):
                if not flag and value not in net.inputs.values():
                    stopped_values[value] = add(f"{value}/stopped", StopGradient(), value)
        result += added
        added.clear()
        for name in layer.nodes:
            node = nodes[name]
            result.append(replace(node, bottoms=tuple(stopped_values.get(b, b) for b in node.bottoms)))
        for value, weight in zip(layer.top_values, layer.loss_weights, strict=False):
            if weight:
                add(f"{value}/add_loss", AddLoss(weight=weight), value)
        result += added
        added.clear()
    return replace(net.net, nodes=tuple(result))


class ParamSpecs(TrainedWeights):
    """What the ``param`` fields of a net's layers say of its weights: which are trained, and the factors."""

    def __init__(self, net: Net, caffe_net: CaffeNet):
        super().__init__(net, None)
        flags = find_backward_flags(caffe_net)
        self._params = {
            name: (param, flag)
            for layer, layer_flags in zip(caffe_net.layers, flags.params, strict=True)
            for param, flag in zip(layer.params, layer_flags, strict=True)
            if param.owner is None
            for name in param.weights
        }

    def check(self, weights: Iterable[str] = ()) -> bool:
        return True

    def select(self, net_trace: Trace) -> dict[str, WeightSpec]:
        selected = {}
        for name, weight in net_trace.weights.items():
            if name not in self._params:  # a state that is no parameter blob, as of a recurrent layer
                selected[name] = weight
                continue
            param, flag = self._params[name]
            selected[name] = replace(
                weight,
                trainable=weight.trainable and flag,
                lr_mult=param.lr_mult,
                decay_mult=param.decay_mult,
            )
        return selected

    def first_step(self, weight: str, net_trace: Trace) -> int:
        return 0


def _decayed(net: CaffeNet, solver: Message) -> list[str]:
    """The weights that a solver updates although they may have no gradient: all; of those that are not trained it
    keeps the history, which for SGD and Nesterov is 0."""
    keeps_all = solver["type"] not in ("SGD", "Nesterov")
    return [name for param in owned_params(net) if keeps_all or param.lr_mult for name in param.weights]


def input_specs(net: CaffeNet) -> dict[str, Spec]:
    """The specs of a net's inputs, by value."""
    return {value: net.specs[value] for value in net.inputs.values()}
