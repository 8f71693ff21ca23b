"""The graph of a step: the net, and for training and evaluation loss, metrics, backward pass and optimizer updates.

The whole step is one graph, so that one plan (and on a GPU one CUDA graph) holds it: passes see the forward and the
backward computation together, and nothing returns to Python between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from prototorch import ops
from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executable_plan import APPLY, GUARD, LOSS
from prototorch.errors import ModelWarning, ShapeError, UsageError, warn_user
from prototorch.graph.batch_analysis import BATCHED, INDEPENDENT, UNIFORM, analyze_graph, is_batch_size_independent
from prototorch.graph.ir import Graph, Value
from prototorch.graph.mixed_precision import to_float32
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.trace import InputPreprocessing, Trace, error_scope, trace
from prototorch.layers import AddLoss
from prototorch.metrics.base import apply_mask
from prototorch.metrics.function_metric import FunctionMetric
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, initial_value
from prototorch.schema.patterns import check_patterns
from prototorch.spec import Spec
from prototorch.text.diagnostics import located
from prototorch.train.config import Compile
from prototorch.train.gradient_accumulation import accumulate_gradients
from prototorch.train.loss_scale import LossScaler
from prototorch.train.loss_terms import LossTerm, MetricTerm, check_metrics, resolve_loss_terms, resolve_metric_terms
from prototorch.train.step_inputs import (
    ACCUMULATE,
    GRADIENT_PREFIX,
    LEARNING_RATE,
    OUTPUT_PREFIX,
    PREDICT,
    SAMPLE_MASK,
    SAMPLE_WEIGHT_PREFIX,
    TARGET_PREFIX,
    TEST,
    TRAIN,
    is_training,
    kind_of,
    step_of,
)
from prototorch.train.trained_weights import TrainedWeights, Unfreezing
from prototorch.train.update_rules import UpdateRules
from prototorch.train.variable_inits import VariableInits, initial_slot

if TYPE_CHECKING:
    from prototorch.train.target_scaling import TargetScaling

__all__ = ["LossValues", "StepGraph", "StepGraphBuilder"]


class StepGraph(NamedTuple):
    """A step before planning: its graph, the values that are read after a run (by name), the new values of states (by
    the state's name), the states that change only where updates are applied, initial values of all states, and whether
    the updates are finite as long as all that they read is moderate."""

    graph: Graph
    outputs: dict[str, Value]
    updates: dict[str, Value]
    guarded_states: frozenset[str]
    inits: VariableInits
    has_bounded_updates: bool = False


class LossValues(NamedTuple):
    """A loss in a graph: the inputs it compares with (by output), the loss of each sample [batch] and the mean of each
    term (by the term's name), and the sum of all terms and penalties; ``factored`` are the parts of this sum, losses by
    their names and those that layers add by the layers', without the penalties of weights."""

    targets: dict[str, Value]
    weights: dict[str, Value]
    per_sample: dict[str, Value]
    per_term: dict[str, Value]
    total: Value
    factored: dict[str, Value]


class StepGraphBuilder:
    """Builds the graphs of one model's steps. Raises UsageError for losses and metrics that do not fit the net.

    Args:
        trained_weights: the selection of the weights that are trained; None: what the compile block says.
        step_outputs: values of the net that evaluation and training steps give beside the loss, under `OUTPUT_PREFIX` +
            name.
        decayed_weights: weights that are updated without a gradient, by their decay alone (one that is not trained: its
            slots alone).
    """

    def __init__(
        self,
        net: Net,
        backend: Backend,
        config: Compile | None,
        trained_weights: TrainedWeights | None = None,
        step_outputs: Sequence[str] = (),
        decayed_weights: Sequence[str] = (),
    ):
        self.net, self.backend, self.config = net, backend, config
        self.trained_weights = TrainedWeights(net, config) if trained_weights is None else trained_weights
        self.step_outputs, self.decayed_weights = tuple(step_outputs), tuple(decayed_weights)
        self.seed = config.seed if config is not None else 0
        self.brings_loss = any(isinstance(node.layer, AddLoss) for node in net.nodes)
        self.loss_terms = resolve_loss_terms(net, config) if config is not None else ()
        self.rules: UpdateRules | None = None
        if config is not None:
            check_metrics(net, config, self.loss_terms)
            loss_layers = () if config.train is None else dict.fromkeys(trace_net(net, 1, training=True).loss_layers)
            self.rules = UpdateRules(net, config, self.loss_terms, list(loss_layers))
        self.metric_terms: tuple[MetricTerm, ...] = ()
        self.target_scalings: Mapping[str, TargetScaling] = {}

    @property
    def float_dtype(self) -> str:
        """The dtype of losses and of the learning rate."""
        return self.backend.precision.float_dtype

    @property
    def update_rules(self) -> UpdateRules:
        """Which optimizer changes which weight, and in which step. Raises UsageError where the model is not
        compiled."""
        if self.rules is None or not (self.loss_terms or self.brings_loss):
            raise UsageError("the model has no loss yet: call model.compile(loss=..., optimizer=...) first")
        return self.rules

    def terms_of(self, phase: str) -> tuple[LossTerm, ...]:
        """The losses of a phase: those that its step lowers, or all."""
        name = step_of(phase)
        if not name:
            return self.loss_terms
        losses = self.update_rules.step(name).losses
        return tuple(term for term in self.loss_terms if term.name in losses)

    def build(
        self,
        phase: str,
        specs: Mapping[str, Spec],
        preprocessing: InputPreprocessing | None = None,
        with_mask: bool = False,
    ) -> StepGraph:
        """The step of a phase for inputs of these specs.

        preprocessing: makes one of the inputs inside the graph. with_mask: the graph has the input `SAMPLE_MASK`.
        Raises UsageError where the phase needs a loss and there is none.
        """
        graph, inits = Graph(), VariableInits()
        if phase != PREDICT:
            _ = self.update_rules
        net_trace = self.trace(specs, phase, graph, preprocessing)
        for weight in net_trace.weights.values():
            inits[weight.name] = weight.spec, partial(initial_value, weight, self.seed)
        if phase == PREDICT:
            with use_interpreter(graph):
                outputs = {name: self._in_target_unit(name, net_trace.values[name]) for name in self.net.outputs}
            return StepGraph(graph, outputs, {}, frozenset(), inits)
        if is_training(phase):
            self._check_phase(phase)
        step = StepGraph(graph, {}, {}, frozenset(), inits)
        with use_interpreter(graph):
            return self._add_step(step, net_trace, phase, with_mask)

    def trace(
        self,
        specs: Mapping[str, Spec],
        phase: str,
        graph: Graph | None = None,
        preprocessing: InputPreprocessing | None = None,
    ) -> Trace:
        """The net traced for a phase; its weights are trained as the compile block says. Raises UsageError for a
        pattern of it that matches nothing."""
        weights, name = self.trained_weights, step_of(phase)
        net = weights.net
        if name:
            net = self.update_rules.net_of_step(self.update_rules.step(name), net)
        net_trace = trace(
            net,
            specs,
            is_training(phase),
            graph,
            None,
            self.backend.precision.low_dtype,
            preprocessing,
            weights.frozen_layers,
            self.float_dtype,
        )
        if not name:
            weights.check(net_trace.weights)
        net_trace.weights = weights.select(net_trace)
        if name:
            net_trace.weights = self.update_rules.select(name, net_trace.weights)
        return net_trace

    def _check_phase(self, phase: str) -> None:
        """Raise UsageError for a training step without a name, where steps alternate."""
        if self.update_rules.steps or step_of(phase):
            self.update_rules.step(step_of(phase))

    def set_unfreezings(self, unfreezings: Sequence[Unfreezing]) -> None:
        """Train these layers or weights as well."""
        trained_weights = TrainedWeights(self.net, self.config, unfreezings)
        if self.rules is not None:
            self.rules.resolve(trained_weights)
        self.trained_weights = trained_weights

    def newly_trained(self, pattern: str, specs: Mapping[str, Spec]) -> list[str]:
        """The weights that unfreezing a pattern adds to those that are trained as compiled."""
        before, after = (TrainedWeights(self.net, self.config, u) for u in ((), (Unfreezing(pattern, 0),)))
        net_trace = trace(after.net, specs, False)
        names = [name for node in self.net.nodes for name in (node.name, node.weights_key)]
        check_patterns([pattern], [*names, *net_trace.weights], "layer or weight")
        if self.rules is not None:
            self.rules.check(after)
        weights = after.select(net_trace), before.select(trace(before.net, specs, False))
        return [name for name, weight in weights[0].items() if weight.trainable and not weights[1][name].trainable]

    def build_losses(
        self, graph: Graph, net_trace: Trace, count: Value | float | None = None, phase: str = TEST
    ) -> LossValues:
        """The loss of a traced net, in its graph; ``count`` is the number of samples that count (None: all)."""
        terms = self.terms_of(phase)
        batch = _batch_size(graph)
        share = 1.0 / (float(batch) if count is None else count)
        targets: dict[str, Value] = {}
        weights: dict[str, Value] = {}
        for name in dict.fromkeys(t.output for t in terms):
            term = next((t for t in terms if t.output == name and t.loss.needs_target), None)
            if term is not None:
                spec = term.target_spec(to_float32(net_trace.values[name]).spec)
                targets[name] = graph.input(TARGET_PREFIX + name, spec)
            weights[name] = graph.input(SAMPLE_WEIGHT_PREFIX + name, Spec((batch,)))
        total: Value | None = None
        factored: dict[str, Value] = {}
        per_sample: dict[str, Value] = {}
        per_term: dict[str, Value] = {}
        for term in terms:
            with located(term.span), error_scope(graph, f"loss {term.name}"):
                mask = output_mask(net_trace, term.output)
                masks = {} if mask is None else {"mask": mask}
                scaling = self.target_scalings.get(term.output)
                target = targets[term.output] if term.loss.needs_target else None
                target = target if scaling is None or target is None else scaling.scale(target)
                samples = per_sample[term.name] = term.loss.per_sample_loss(
                    target, to_float32(net_trace.values[term.output]), **masks
                )
                mean = per_term[term.name] = ops.sum(samples * weights[term.output]) * share
                mean = mean if term.factor == 1.0 else mean * term.factor
                total = mean if total is None else total + mean
                factored[term.name] = mean
        with graph.scope("penalties"):
            for layer, penalty in zip(net_trace.loss_layers, net_trace.losses, strict=True):
                if step_of(phase) and layer not in self.update_rules.step(step_of(phase)).losses:
                    continue
                total = penalty if total is None else total + penalty
                factored[layer] = penalty if layer not in factored else factored[layer] + penalty
            for penalty in net_trace.regularization_losses():
                total = penalty if total is None else total + penalty
        assert total is not None
        return LossValues(targets, weights, per_sample, per_term, total, factored)

    def resolve_metrics(self, specs: Mapping[str, Spec]) -> None:
        """Resolve the metrics before any step: a resumed training may have no step left in its epoch."""
        self._metrics_of(trace(self.net, specs, False))

    def is_samplewise(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        """Whether the samples of a batch are independent in a phase, so that a smaller batch may be padded.

        No sample may depend on another one, and no value on the size of the batch: compared are the graphs of two batch
        sizes, and how each value depends on the batch axis.
        """
        batch = next((s.shape[0] for s in specs.values() if s.shape), 1)
        if batch < 2 or any(s.shape[:1] != (batch,) for s in specs.values()):
            return False
        graphs = []
        for size in (batch, batch + 1):
            graph = Graph()
            size_specs = {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()}
            weights = self.trained_weights
            net_trace = trace(weights.net, size_specs, is_training(phase), graph, frozen_layers=weights.frozen_layers)
            batched, uniform = [net_trace.values[name] for name in self.net.outputs], list[Value]()
            with use_interpreter(graph):
                if phase != PREDICT:
                    masks = [output_mask(net_trace, t.output) for t in self.loss_terms]
                    count = ops.sum(graph.input(SAMPLE_MASK, Spec((size,))))
                    per_sample = self.build_losses(graph, net_trace, count).per_sample
                    batched += [*per_sample.values(), *(m for m in masks if m is not None)]
                    batched += self._function_metrics(net_trace, graph)
                    uniform = [*net_trace.losses, *net_trace.regularization_losses(), *net_trace.updates.values()]
            graphs.append((graph, batched, uniform))
        graph, batched, uniform = graphs[0]
        dependence = analyze_graph(graph, batch)
        return (
            is_batch_size_independent(graph, graphs[1][0])
            and all(dependence.get(v) == BATCHED and v.shape[0] == batch for v in batched)
            and all(dependence.get(v, INDEPENDENT) in (INDEPENDENT, UNIFORM) for v in uniform)
        )

    def _in_target_unit(self, output: str, value: Value) -> Value:
        """An output as predictions and metrics have it: scaled back where its targets are scaled."""
        scaling = self.target_scalings.get(output)
        if scaling is None:
            return value
        output_value: Value = scaling.unscale(to_float32(value))
        return output_value

    def _function_metrics(self, net_trace: Trace, graph: Graph) -> list[Value]:
        """The values of metrics that are functions, of which it is not known that they are of one sample each."""
        return [
            term.metric.values(graph.inputs[TARGET_PREFIX + term.output], net_trace.values[term.output])
            for term in self._metrics_of(net_trace)
            if isinstance(term.metric, FunctionMetric)
        ]

    def _metrics_of(self, net_trace: Trace) -> tuple[MetricTerm, ...]:
        if not self.metric_terms and self.config is not None:
            self.metric_terms = resolve_metric_terms(self.net, self.config, self.loss_terms, net_trace)
        return self.metric_terms

    def _add_step(self, step: StepGraph, net_trace: Trace, phase: str, with_mask: bool) -> StepGraph:
        graph = step.graph
        batch = _batch_size(graph)
        count: Value | float = float(batch)
        sample_mask = graph.constant(np.ones(batch, np.float32))
        if with_mask:
            sample_mask = graph.input(SAMPLE_MASK, Spec((batch,)))
            with graph.scope("samples that count"):
                count = ops.sum(sample_mask)
        losses = self.build_losses(graph, net_trace, count, phase)
        totals = TRAIN if is_training(phase) else phase
        if self.update_rules.steps:
            logged: dict[str, Value] = {}
            for name in [step_of(phase)] if step_of(phase) else [s.name for s in self.update_rules.steps]:
                logged |= self.update_rules.logged_losses(name, losses.total, losses.factored, losses.per_term, phase)
            for name, value in logged.items():
                _add_loss_totals(step, totals, count, {name: value}, name)
        else:
            per_term = losses.per_term if len(self.loss_terms) > 1 else {}
            _add_loss_totals(step, totals, count, {"loss": losses.total, **per_term})
        self._add_metrics(step, net_trace, totals, losses, sample_mask)
        step.outputs[LOSS] = losses.total
        step.outputs.update({OUTPUT_PREFIX + name: net_trace.values[name] for name in self.step_outputs})
        if not is_training(phase):
            return step
        step.updates.update(net_trace.updates)
        guarded_states = self._add_optimizer(step, net_trace, losses.total, phase)
        return step._replace(guarded_states=guarded_states, has_bounded_updates=self._has_bounded_updates(net_trace))

    def _has_bounded_updates(self, net_trace: Trace) -> bool:
        constraints = [w.constraint for w in net_trace.weights.values() if w.constraint is not None]
        optimizers = (group.optimizer for group in self.update_rules.groups)
        return all(o.has_bounded_updates for o in optimizers) and all(c.is_bounded for c in constraints)

    def _add_metrics(
        self, step: StepGraph, net_trace: Trace, phase: str, losses: LossValues, sample_mask: Value
    ) -> None:
        for term in self._metrics_of(net_trace):
            if term.output not in losses.targets:
                continue  # a step without a loss at this output
            with located(term.span), error_scope(step.graph, f"metric {term.name}"):
                output = net_trace.values[term.output]
                states = _add_states(step, f"{METRIC_PREFIX}{phase}:{term.name}:", term.metric.states(output.spec))
                weight = losses.weights[term.output] if term.is_weighted else sample_mask
                mask = output_mask(net_trace, term.output)
                weight = weight if mask is None else apply_mask(weight, mask)
                prediction = term.measured_output(self._in_target_unit(term.output, output))
                new = term.metric.update(states, losses.targets[term.output], prediction, weight)
                step.updates.update({states[k].name: v for k, v in new.items()})

    def _add_optimizer(self, step: StepGraph, net_trace: Trace, total: Value, phase: str) -> frozenset[str]:
        """The backward pass and the optimizer's updates; gives the names of the states that the optimizer changes."""
        graph, name = step.graph, step_of(phase)
        weights = [w for w in net_trace.weights.values() if w.trainable]
        if not weights:
            warn_user("no weight is trained: all layers are frozen, or have no weights", ModelWarning)
        values = [graph.states[w.name] for w in weights]
        with graph.phase("backward"):
            entries = list(graph.nodes)
            scaler = LossScaler(graph, step.inits) if self.backend.precision.loss_scaling else None
            seeds = [(total, graph.constant(np.ones((), total.dtype)) if scaler is None else scaler.scale)]
            gradients = backward_pass(entries, seeds, values, within=lambda node: graph.scope(node.scope))
            if scaler is not None:
                step.outputs[APPLY] = scaler.update(gradients, step.updates)
            step.outputs[GUARD] = total if scaler is None else total + scaler.failure_marker(step.outputs[APPLY])
        if scaler is not None:
            with graph.phase("update"):  # together with the updates, which read them
                gradients = scaler.unscale(gradients)
        grads_by_name = {w.name: g for w, g in zip(weights, gradients, strict=True) if g is not None}
        unguarded_names = set(step.updates)
        with graph.phase("update"):
            count = self.update_rules.steps_per_update(name)
            if count > 1:
                is_partial = kind_of(phase) == ACCUMULATE
                grads_by_name, sums = accumulate_gradients(graph, step.inits, grads_by_name, count, is_partial, name)
                step.updates.update(sums)
            if kind_of(phase) == TRAIN:
                self._add_updates(step, net_trace, grads_by_name)
        return frozenset(step.updates.keys() - unguarded_names)

    def build_update(self, specs: Mapping[str, Spec]) -> StepGraph:
        """The optimizer's updates alone, for gradients that are given: inputs `GRADIENT_PREFIX` + the weight's name.

        specs: of the net's inputs. The gradients are means over the steps of an update.
        """
        net_trace = self.trace(specs, TRAIN)
        graph, inits = Graph(), VariableInits()
        step = StepGraph(graph, {}, {}, frozenset(), inits)
        with use_interpreter(graph), graph.phase("update"):
            gradients = {}
            for name, weight in net_trace.weights.items():
                inits[name] = weight.spec, partial(initial_value, weight, self.seed)
                graph.state(name, weight.spec)
                if weight.trainable:
                    gradients[name] = graph.input(GRADIENT_PREFIX + name, weight.spec)
            self._add_updates(step, net_trace, gradients)
        return step._replace(
            guarded_states=frozenset(step.updates), has_bounded_updates=self._has_bounded_updates(net_trace)
        )

    def _add_updates(self, step: StepGraph, net_trace: Trace, gradients: dict[str, Value]) -> None:
        """The optimizer's updates of the weights that have a gradient, and of those in `decayed_weights`."""
        graph, rules = step.graph, self.update_rules
        for name in rules.update_inputs(gradients):
            graph.input(name, Spec((), self.float_dtype if name.startswith(LEARNING_RATE) else "int64"))
        clipped = rules.clip(gradients)
        for name in (*gradients, *(n for n in self.decayed_weights if n in net_trace.weights and n not in gradients)):
            weight, value = net_trace.weights[name], graph.states[name]
            optimizer, steps_of_weight = rules.group_of(name).optimizer, rules.steps_of(name)
            rate, number = (graph.inputs[i] for i in rules.inputs_of(name))
            with graph.scope(name):
                slots = {}
                for slot_name, start in optimizer.initial_slots(weight).items():
                    array, slot = np.asarray(start), f"{SLOT_PREFIX}{name}:{slot_name}"
                    step.inits[slot] = Spec(array.shape, str(array.dtype)), partial(initial_slot, array)
                    slots[slot_name] = graph.state(slot, step.inits[slot][0])
                unfrozen = self.trained_weights.first_step(name, net_trace)
                first_step = rules.updates_before(unfrozen, steps_of_weight) if unfrozen else 0
                steps = number - first_step if first_step else number
                if name in clipped:
                    new, new_slots = optimizer.apply(value, clipped[name], slots, rate, steps, weight)
                    step.updates[name] = new if weight.constraint is None else weight.constraint.project(new)
                else:  # its value is what the forward pass has made of it
                    current = step.updates.get(name, value)
                    zeros = ops.full(shape=current.shape, value=0, dtype=current.dtype)
                    new, new_slots = optimizer.apply(current, zeros, slots, rate, steps, weight)
                    if weight.trainable:
                        step.updates[name] = new
                step.updates.update({slots[k].name: v for k, v in new_slots.items()})


def output_mask(net_trace: Trace, output: str) -> Value | None:
    """The mask of an output, None where it has none: elements where it is False do not count in losses and metrics.

    Raises ShapeError where the mask's shape is not a prefix of the output's.
    """
    value = net_trace.values[output]
    mask = net_trace.masks.get(value)
    if mask is not None and mask.shape != value.shape[: mask.ndim]:
        raise ShapeError(
            f"the output {output!r} of shape {list(value.shape)} has a mask of shape {list(mask.shape)}, "
            "which does not belong to it"
        )
    return mask


def _batch_size(graph: Graph) -> int:
    """The batch size of a traced net: axis 0 of its first input."""
    return next((value.shape[0] for value in graph.inputs.values() if value.shape), 1)


def _add_states(step: StepGraph, prefix: str, specs: Mapping[str, Spec]) -> dict[str, Value]:
    states = {}
    for name, spec in specs.items():
        step.inits[prefix + name] = spec, partial(np.zeros, spec.shape, spec.dtype)
        states[name] = step.graph.state(prefix + name, spec)
    return states


def _add_loss_totals(
    step: StepGraph, phase: str, count: Value | float, losses: Mapping[str, Value], counter: str = "loss"
) -> None:
    """Sums of the losses times their number of samples, and the number of samples, in float64. counter: the loss that
    the number is kept with."""
    count = ops.cast(count, dtype="float64") if isinstance(count, Value) else count
    for name, value in losses.items():
        total = _add_states(step, f"{METRIC_PREFIX}{phase}:{name}:", {"sum": Spec((), "float64")})["sum"]
        step.updates[total.name] = total + ops.cast(value, dtype="float64") * count
    samples = _add_states(step, f"{METRIC_PREFIX}{phase}:{counter}:", {"count": Spec((), "float64")})["count"]
    step.updates[samples.name] = samples + count
