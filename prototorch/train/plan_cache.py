"""The programs of a compiled model: forward, loss, metrics, backward and update in one plan a phase and shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from prototorch import ops
from prototorch.backends.core import Backend
from prototorch.backends.executable_plan import APPLY, LOSS
from prototorch.backends.executor import Executor
from prototorch.errors import ResourceError, ShapeError, UsageError, did_you_mean
from prototorch.graph.batch_analysis import BATCHED, INDEPENDENT, UNIFORM, analyze_graph, is_batch_size_independent
from prototorch.graph.ir import Graph, Value
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan, make_plan
from prototorch.graph.trace import InputPreprocessing, Trace, WeightSpec, error_scope, trace
from prototorch.losses import Loss
from prototorch.metrics import Metric, resolve_metric
from prototorch.metrics.base import apply_mask
from prototorch.ops.core import backward_pass, use_interpreter
from prototorch.optimizers import Optimizer
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX, Variables, initial_value, total_bytes
from prototorch.spec import Spec
from prototorch.train.config import Compile
from prototorch.train.loss_scale import LossScaler
from prototorch.train.memory_estimate import (
    MemoryEstimate,
    estimate_memory,
    largest_batch,
    memory_error,
    weights_memory_error,
)

TARGET_PREFIX, SAMPLE_WEIGHT_PREFIX, LEARNING_RATE, STEP = "target:", "weight:", "learning_rate", "step"
SAMPLE_MASK = "counted"  # the input of a plan that may be filled up: 1 for each sample that counts, 0 for the others
_LARGE_VARIABLE = 1 << 20  # bytes of a variable that is made beside others
TRAIN, TEST, PREDICT = "train", "test", "predict"


@dataclass(frozen=True)
class LossTerm:
    """A loss at an output: its factor, its name in the logs, and the data column of its target where that is said."""

    output: str
    loss: Loss
    factor: float
    name: str
    target: str | None = None

    def target_spec(self, output: Spec) -> Spec:
        """As of the loss, see `Loss.target_spec`. Raises ShapeError that names the output."""
        try:
            return self.loss.target_spec(output)
        except ShapeError as exc:
            raise ShapeError(f"loss at {self.output!r}: {exc}") from exc


@dataclass(frozen=True)
class MetricTerm:
    """A metric at an output, with the name it has in the logs, and whether sample weights count in it."""

    output: str
    metric: Metric
    name: str
    weighted: bool = False


class LossValues(NamedTuple):
    """A loss in a graph: the inputs it compares with (by output), the loss of each sample and the mean of each term (by
    the term's name), and the sum of all terms and penalties."""

    targets: dict[str, Value]
    weights: dict[str, Value]
    per_sample: dict[str, Value]
    per_term: dict[str, Value]
    total: Value


def initial_slot(start: np.ndarray) -> np.ndarray:
    """How a slot begins, as an array of its own; of zeros no memory is touched before the first step."""
    return np.array(start, order="C") if start.any() else np.zeros(start.shape, start.dtype)


class VariableInits(dict[str, tuple[Spec, Callable[[], np.ndarray]]]):
    """How variables begin that a plan needs: name -> spec, and what makes the array."""


class PlanCache:
    """All plans of one model on one backend. Plans are made when they are first needed and kept."""

    def __init__(self, net: Net, variables: Variables, backend: Backend, compiled: Compile | None):
        self.net, self.variables, self.backend, self.compile_config = net, variables, backend, compiled
        self.seed = compiled.seed if compiled is not None else 0
        self.loss_terms = resolve_loss_terms(net, compiled) if compiled is not None else ()
        if compiled is not None:
            check_metrics(net, compiled, self.loss_terms)
        self.metric_terms: tuple[MetricTerm, ...] = ()
        self._executors: dict[Any, Executor] = {}
        self._plans: dict[Any, Plan] = {}  # those of the executors
        self._arena: Any = None
        self._scratch_bytes = 0  # bytes that the kernels of plans that were bound take beside
        self._output_specs: dict[Any, dict[str, Spec]] = {}
        self._can_pad: dict[Any, bool] = {}
        self._precompiled: dict[Any, tuple[Plan, VariableInits]] = {}  # plans that were made ahead of need

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser. Raises UsageError where the model is not compiled."""
        if self.compile_config is None or not self.loss_terms:
            raise UsageError("the model has no loss yet: call model.compile(loss=..., optimizer=...) first")
        return self.compile_config.optimizer

    @property
    def _low_memory(self) -> bool:
        return self.compile_config is not None and self.compile_config.memory == "low"

    def executor(self, phase: str, specs: Mapping[str, Spec], preparation: InputPreprocessing | None = None,
               with_mask: bool = False) -> Executor:  # fmt: skip
        """The bound plan of a phase for inputs of these specs. preparation: makes one of them inside the plan. counted:
        the plan has the input `SAMPLE_MASK`, so that a smaller batch may be filled up (see `fillable`).

        Raises ResourceError where it would not fit in memory: before any of it is taken.
        """
        key = _plan_key(phase, specs, preparation is not None, with_mask)
        found = self._executors.get(key)
        if found is None:
            made = self._precompiled.pop(key) if key in self._precompiled else None
            plan, births = made or self._make_plan(phase, specs, preparation, with_mask)
            self._check_memory(phase, specs, plan, births, preparation)
            self._create_variables(births)
            try:
                if self._arena is None or len(self._arena) < plan.arena_bytes:
                    self._arena = self.backend.allocate(plan.arena_bytes)
                found = self._executors[key] = make_executor(plan, self.backend, self.variables, self._arena)
                self._plans[key] = plan
                self._scratch_bytes = max(self._scratch_bytes, self.backend.scratch_bytes(plan.signatures()) or 0)
            except ResourceError as exc:  # there was less than the device had said
                free = self.backend.free_bytes() or 0
                raise self._memory_error(phase, specs, plan, births, preparation, free) from exc
        return found

    def precompile(self, phase: str, specs: Mapping[str, Spec], stop: Event) -> None:
        """Make a plan and have its kernels compiled, beside what runs, so that `runner` finds them; until ``stop``."""
        if not self.backend.can_precompile or (self.compile_config is not None and self.compile_config.autotune):
            return  # on a device a kernel is made for its first launch; what is timed beside something is timed wrongly
        key = _plan_key(phase, specs, False, False)
        if key in self._executors or key in self._precompiled:
            return
        made = self._make_plan(phase, specs)
        if not stop.is_set():
            self.backend.precompile([self.backend.prepare(*said) for said in made[0].signatures()], stop)
            self._precompiled[key] = made

    def bound_plan(self, phase: str, specs: Mapping[str, Spec]) -> Plan:
        """The plan that `executor` has bound for a phase and inputs of these specs."""
        return self._plans[_plan_key(phase, specs, False, False)]

    def executors(self) -> list[Executor]:
        """The bound plans there are."""
        return list(self._executors.values())

    def plan(self, phase: str, specs: Mapping[str, Spec], create: bool = True, with_mask: bool = False) -> Plan:
        """The plan of a phase; with ``create`` the variables it needs are made where they are missing. counted: see
        `runner`."""
        plan, births = self._make_plan(phase, specs, None, with_mask)
        if create:
            self._create_variables(births)
        return plan

    def can_pad(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        """Whether a batch with fewer samples than these specs say may go through their plan, filled up with others that
        do not count: no sample sees another one, and no number follows from the size of the batch."""
        key = (phase == TRAIN, phase == PREDICT, tuple(sorted(specs.items())))
        if key not in self._can_pad:
            self._can_pad[key] = self._is_samplewise(phase, specs)
        return self._can_pad[key]

    def _is_samplewise(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        batch = next(iter(specs.values())).shape[0]
        if batch < 2 or any(s.shape[:1] != (batch,) for s in specs.values()):
            return False
        graphs = []
        for size in (batch, batch + 1):
            graph = Graph()
            traced = trace(self.net, {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()},
                           phase == TRAIN, graph)  # fmt: skip
            rows, free = [traced.values[name] for name in self.net.outputs], list[Value]()
            with use_interpreter(graph):
                if phase != PREDICT:
                    masks = [self._mask(traced, t.output) for t in self.loss_terms]
                    count = ops.sum(graph.input(SAMPLE_MASK, Spec((size,))))
                    each = self.build_losses(graph, traced, count).per_sample
                    rows += [*each.values(), *(m for m in masks if m is not None)]
                    free = [*traced.losses, *traced.regularization_losses(), *traced.updates.values()]
            graphs.append((graph, rows, free))
        graph, rows, free = graphs[0]
        known = analyze_graph(graph, batch)
        return (
            is_batch_size_independent(graph, graphs[1][0])
            and all(known.get(v) == BATCHED and v.shape[0] == batch for v in rows)
            and all(known.get(v, INDEPENDENT) in (INDEPENDENT, UNIFORM) for v in free)
        )

    def _make_plan(self, phase: str, specs: Mapping[str, Spec], preparation: InputPreprocessing | None = None,
                 with_mask: bool = False) -> tuple[Plan, VariableInits]:  # fmt: skip
        """The plan of a phase, and how each variable it needs begins."""
        graph, births = Graph(), VariableInits()
        traced = trace(self.net, specs, phase == TRAIN, graph, None, self.backend.precision.low_dtype, preparation)
        for weight in traced.weights.values():
            births[weight.name] = weight.spec, partial(initial_value, weight, self.seed)
        if phase == PREDICT:
            outputs = {name: traced.values[name] for name in self.net.outputs}
            return make_plan(graph, outputs, backend=self.backend, low_memory=self._low_memory), births
        if not self.loss_terms:
            raise UsageError("the model has no loss yet: call model.compile(loss=..., optimizer=...) first")
        with use_interpreter(graph):
            return self._build_step(graph, traced, phase, births, with_mask and phase != PREDICT), births

    def _create_variables(self, inits: VariableInits) -> None:
        missing: dict[str, Callable[[], np.ndarray]] = {}
        for name, (spec, make) in inits.items():
            if name in self.variables:
                self.variables.check_spec(name, spec)
            else:
                missing[name] = make
        large = [name for name in missing if inits[name][0].nbytes >= _LARGE_VARIABLE]
        large.sort(key=lambda name: -inits[name][0].nbytes)
        with ThreadPoolExecutor(max(min(self.backend.threads, len(large)), 1)) as makers:
            coming = {name: makers.submit(missing[name]) for name in large}  # each draws from a stream of its own
            for name, make in missing.items():
                self.variables.create(name, coming.pop(name).result() if name in coming else make(), own=True)

    def _missing_variables(self, inits: VariableInits) -> dict[str, Spec]:
        there = self.variables.resident_names(self.backend)
        return {name: spec for name, (spec, _) in inits.items() if name not in there}

    def _estimate(self, plan: Plan, inits: VariableInits) -> MemoryEstimate:
        """What a plan takes beside what is there already."""
        held = 0 if self._arena is None else len(self._arena)
        scratch = (self.backend.scratch_bytes(plan.signatures()) or 0) - self._scratch_bytes
        return estimate_memory(plan, self._missing_variables(inits), held, self.backend.input_copies, max(scratch, 0))

    def _check_memory(self, phase: str, specs: Mapping[str, Spec], plan: Plan, inits: VariableInits,
                          preparation: InputPreprocessing | None) -> None:  # fmt: skip
        free = self.backend.free_bytes()
        need = self._estimate(plan, inits)
        if free is not None and need.total > free:
            raise self._memory_error(phase, specs, plan, inits, preparation, free)

    def _memory_error(self, phase: str, specs: Mapping[str, Spec], plan: Plan, inits: VariableInits,
                 preparation: InputPreprocessing | None, free: int) -> ResourceError:  # fmt: skip
        """The error about a plan that does not fit, with a batch size that would."""
        need = self._estimate(plan, inits)
        batch = next(iter(specs.values())).shape[0]

        def fits(size: int) -> bool:
            smaller = {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()}
            return self._estimate(*self._make_plan(phase, smaller, preparation)).total <= free

        what = {TRAIN: "a training step", TEST: "an evaluation step", PREDICT: "a prediction"}[phase]
        what = f"{what} of {self.net.name!r} at batch size {batch}"
        return memory_error(self.net, plan, need, free, what, largest_batch(batch, fits))

    def check_weights(self, wanted: Iterable[WeightSpec]) -> None:
        """Raise ResourceError where weights that are not there yet would not fit in memory."""
        missing = {w.name: w.spec for w in wanted if w.name not in self.variables}
        free = self.backend.free_bytes() if missing else None
        if free is not None and total_bytes(missing.values()) > free:
            raise weights_memory_error(self.net, missing, free)

    def output_specs(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """The specs of the net's outputs for inputs of these specs."""
        key = tuple(sorted(specs.items()))
        if key not in self._output_specs:
            traced = trace(self.net, specs, False)
            self._output_specs[key] = {name: traced.values[name].spec for name in self.net.outputs}
        return self._output_specs[key]

    def _build_step(self, graph: Graph, traced: Trace, phase: str, inits: VariableInits, with_mask: bool) -> Plan:
        batch = next(iter(graph.inputs.values())).shape[0]
        count: Value | float = float(batch)
        every = graph.constant(np.ones(batch, np.float32))
        if with_mask:
            every = graph.input(SAMPLE_MASK, Spec((batch,)))
            with graph.scope("samples that count"):
                count = ops.sum(every)
        targets, weights, _, parts, total = self.build_losses(graph, traced, count)
        updates: dict[str, Value] = {}
        self._add_totals(
            graph, phase, count, {"loss": total, **(parts if len(self.loss_terms) > 1 else {})}, updates, inits
        )
        for measure in self.metrics_of(traced):
            with error_scope(graph, f"metric {measure.name}"):
                wanted = measure.metric.states(traced.values[measure.output].spec)
                states = self._add_states(graph, f"{METRIC_PREFIX}{phase}:{measure.name}:", wanted, inits)
                mask = self._mask(traced, measure.output)
                weight = weights[measure.output] if measure.weighted else every
                weight = weight if mask is None else apply_mask(weight, mask)
                new = measure.metric.update(states, targets[measure.output], traced.values[measure.output], weight)
                updates.update({states[k].name: v for k, v in new.items()})
        outputs, gated = {LOSS: total}, frozenset[str]()
        if phase == TRAIN:
            updates.update(traced.updates)
            gated = self._add_updates(graph, traced, total, updates, inits, outputs)
        plan = make_plan(graph, outputs, updates, self.backend, low_memory=self._low_memory)
        plan.guarded_states = gated
        return plan

    def build_losses(self, graph: Graph, traced: Trace, count: Value | float | None = None) -> LossValues:
        """The loss of a traced net, in its graph; ``count`` is how many samples count, all where it is left out."""
        batch = next(iter(graph.inputs.values())).shape[0]
        share = 1.0 / (float(batch) if count is None else count)
        targets: dict[str, Value] = {}
        weights: dict[str, Value] = {}
        for name in dict.fromkeys(t.output for t in self.loss_terms):
            term = next(t for t in self.loss_terms if t.output == name)
            targets[name] = graph.input(TARGET_PREFIX + name, term.target_spec(traced.values[name].spec))
            weights[name] = graph.input(SAMPLE_WEIGHT_PREFIX + name, Spec((batch,)))
        total: Value | None = None
        each: dict[str, Value] = {}
        parts: dict[str, Value] = {}
        for term in self.loss_terms:
            with error_scope(graph, f"loss {term.name}"):
                mask = self._mask(traced, term.output)
                masks = {} if mask is None else {"mask": mask}
                own = each[term.name] = term.loss.per_sample_loss(
                    targets[term.output], traced.values[term.output], **masks
                )
                part = ops.sum(own * weights[term.output]) * share
                parts[term.name] = part
                part = part if term.factor == 1.0 else part * term.factor
                total = part if total is None else total + part
        with graph.scope("penalties"):
            for extra in (*traced.losses, *traced.regularization_losses()):
                total = extra if total is None else total + extra
        assert total is not None
        return LossValues(targets, weights, each, parts, total)

    def _mask(self, traced: Trace, output: str) -> Value | None:
        """The mask of an output: places where it is False count neither in the loss nor in the metrics."""
        value = traced.values[output]
        mask = traced.masks.get(value)
        if mask is not None and mask.shape != value.shape[: mask.ndim]:
            raise ShapeError(
                f"the output {output!r} of shape {list(value.shape)} has a mask of shape {list(mask.shape)}, "
                "which does not belong to it"
            )
        return mask

    def metrics_of(self, traced: Trace) -> tuple[MetricTerm, ...]:
        """The metrics, with "accuracy" made concrete by the loss and the output's shape."""
        if not self.metric_terms and self.compile_config is not None:
            self.metric_terms = resolve_metric_terms(self.net, self.compile_config, self.loss_terms, traced)
        return self.metric_terms

    def resolve_metrics(self, specs: Mapping[str, Spec]) -> None:
        """Make the metrics concrete before any step: a training that goes on may have none left in its epoch."""
        self.metrics_of(trace(self.net, specs, False))

    def _add_states(
        self, graph: Graph, prefix: str, specs: Mapping[str, Any], inits: VariableInits
    ) -> dict[str, Value]:
        made = {}
        for name, spec in specs.items():
            inits[prefix + name] = spec, partial(np.zeros, spec.shape, spec.dtype)
            made[name] = graph.state(prefix + name, spec)
        return made

    def _add_totals(self, graph, phase, count, losses, updates, inits) -> None:
        count = ops.cast(count, dtype="float64") if isinstance(count, Value) else count
        for name, value in losses.items():
            state = self._add_states(graph, f"{METRIC_PREFIX}{phase}:{name}:", {"sum": Spec((), "float64")}, inits)[
                "sum"
            ]
            updates[state.name] = state + ops.cast(value, dtype="float64") * count
        seen = self._add_states(graph, f"{METRIC_PREFIX}{phase}:loss:", {"count": Spec((), "float64")}, inits)["count"]
        updates[seen.name] = seen + count

    def _add_updates(self, graph: Graph, traced: Trace, total: Value, updates: dict[str, Value], inits: VariableInits,
                outputs: dict[str, Value]) -> frozenset[str]:  # fmt: skip
        """The backward pass and the optimiser's updates; the names of what the optimiser changes."""
        optimizer = self.optimizer
        wanted = [w for w in traced.weights.values() if w.trainable]
        values = [graph.states[w.name] for w in wanted]
        with graph.phase("backward"):
            entries = list(graph.nodes)
            scaling = LossScaler(graph, inits) if self.backend.precision.loss_scaling else None
            seeds = [(total, graph.constant(np.float32(1)) if scaling is None else scaling.scale)]
            found = backward_pass(entries, seeds, values, within=lambda node: graph.scope(node.scope))
            if scaling is not None:
                found = scaling.unscale(found)
                outputs[APPLY] = scaling.update(found, updates)
        pairs = [(w, v, g) for w, v, g in zip(wanted, values, found, strict=True) if g is not None]
        had = set(updates)
        with graph.phase("update"):
            rate, step = graph.input(LEARNING_RATE, Spec(())), graph.input(STEP, Spec((), "int64"))
            grads = optimizer.clip([g for _, _, g in pairs])
            for (weight, value, _), grad in zip(pairs, grads, strict=True):
                with graph.scope(weight.name):
                    slots = {}
                    for name, start in optimizer.initial_slots(weight).items():
                        full = f"{SLOT_PREFIX}{weight.name}:{name}"
                        spec = Spec(tuple(np.shape(start)), str(np.asarray(start).dtype))
                        inits[full] = spec, partial(initial_slot, np.asarray(start))
                        slots[name] = graph.state(full, spec)
                    new, new_slots = optimizer.apply(value, grad, slots, rate, step, weight)
                    updates[weight.name] = new if weight.constraint is None else weight.constraint.project(new)
                    updates.update({slots[k].name: v for k, v in new_slots.items()})
        return frozenset(updates.keys() - had)

    def finalize_weights(self) -> None:
        """At the end of a training: weights become what the optimiser says they end as (their moving average)."""
        slots: dict[str, dict[str, Any]] = {}
        for name, array in self.variables.with_prefix(SLOT_PREFIX):
            weight, slot = name[len(SLOT_PREFIX) :].rsplit(":", 1)
            slots.setdefault(weight, {})[slot] = array
        for weight, held in slots.items():
            end = self.optimizer.final_value(held)
            if end is not None:
                self.variables.assign(weight, end)

    def metric_results(self, phase: str) -> dict[str, Any]:
        """The loss and the metrics of a phase so far, as numbers."""
        v = self.variables
        total = f"{METRIC_PREFIX}{phase}:loss:count"
        count = float(v.borrow(total)) if total in v else 0.0
        names = ["loss", *([t.name for t in self.loss_terms] if len(self.loss_terms) > 1 else [])]
        logs: dict[str, Any] = {n: float(v.borrow(f"{METRIC_PREFIX}{phase}:{n}:sum")) / count for n in names if count}
        for measure in self.metric_terms:
            prefix = f"{METRIC_PREFIX}{phase}:{measure.name}:"
            arrays = {k[len(prefix) :]: a for k, a in v.borrow_prefix(prefix)}
            if arrays:
                result = np.asarray(measure.metric.result(arrays))
                logs[measure.name] = float(result) if result.ndim == 0 else result.tolist()
        return logs

    def reset_metrics(self, phase: str) -> None:
        """Begin the totals of a phase anew."""
        self.variables.zero_prefix(f"{METRIC_PREFIX}{phase}:")


def _plan_key(phase: str, specs: Mapping[str, Spec], prepared: bool, counted: bool) -> tuple[str, Any]:
    """What a plan is known by. Of a prediction nothing is counted."""
    return phase, (tuple(sorted(specs.items())), prepared, counted and phase != PREDICT)


def random_key(seed: int, step: int) -> np.ndarray:
    """The random key of a step."""
    return np.array([seed & (2**64 - 1), step], np.uint64)


def resolve_loss_terms(net: Net, compiled: Compile) -> tuple[LossTerm, ...]:
    """The losses, each at its output. Raises UsageError for an output that does not exist or a loss without a place."""
    made: list[LossTerm] = []
    for i, given in enumerate(compiled.loss):
        output = given.output
        if output is None:
            if len(compiled.loss) == len(net.outputs):
                output = net.outputs[i]
            elif len(net.outputs) == 1:
                output = net.outputs[0]
            else:
                raise UsageError(
                    f"the net has {len(net.outputs)} outputs ({', '.join(net.outputs)}): say loss {{ output: ... }}"
                )
        check_output(net, output, "loss")
        before = sum(t.output == output for t in made)
        name = f"{output}_loss_{before + 1}" if before else f"{output}_loss"
        made.append(LossTerm(output, given.type, given.weight, name, given.target))
    return tuple(made)


def check_output(net: Net, output: str, what: str) -> None:
    """UsageError for an output the net does not have."""
    if output not in net.outputs:
        raise UsageError(
            f"{what}: the net has no output {output!r}; it has {', '.join(net.outputs)}."
            f"{did_you_mean(output, net.outputs)}"
        )


def check_metrics(net: Net, compiled: Compile, losses: Sequence[LossTerm]) -> None:
    """Raises UsageError for a metric at an output that does not exist or has no loss, and so no target."""
    learned = [t.output for t in losses]
    for given in (*compiled.metrics, *compiled.weighted_metrics):
        if given.output is not None:
            check_output(net, given.output, "metrics")
            if given.output not in learned:
                raise UsageError(f"metrics: the output {given.output!r} has no loss, and so no target to compare with")


def resolve_metric_terms(
    net: Net, compiled: Compile, losses: Sequence[LossTerm], traced: Trace
) -> tuple[MetricTerm, ...]:
    """The metrics with their names in the logs: the bare name for one output, ``output_name`` for several."""
    made: list[MetricTerm] = []
    found = [(one, False) for one in compiled.metrics] + [(one, True) for one in compiled.weighted_metrics]
    for given, weighted in found:
        at = [given.output] if given.output is not None else list(dict.fromkeys(t.output for t in losses))
        for output in at:
            loss = next((t.loss for t in losses if t.output == output), None)
            metric = given.type
            word = metric if isinstance(metric, str) else None
            if isinstance(metric, str):
                metric = resolve_metric(metric, loss, traced.values[output].spec)
            name = word or metric.name
            name = name if len({t.output for t in losses}) <= 1 else f"{output}_{name}"
            stem, n = name, 1
            while any(m.name == name for m in made):
                name, n = f"{stem}_{n}", n + 1
            made.append(MetricTerm(output, metric, name, weighted))
    return tuple(made)
