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
from prototorch.engine.captured import APPLY, LOSS, bound
from prototorch.engine.runner import Runner
from prototorch.engine.variables import METRIC, SLOT, Variables, initial, nbytes
from prototorch.errors import ResourceError, ShapeError, UsageError, did_you_mean
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan, make_plan
from prototorch.graph.record import Graph, Value
from prototorch.graph.rows import FREE, ROWS, SAME, alike, of_samples
from prototorch.graph.trace import InGraph, Trace, Weight, told, trace
from prototorch.losses import Loss
from prototorch.metrics import Metric, resolve
from prototorch.metrics.base import masked
from prototorch.ops.core import interpreting, pull_back
from prototorch.optim import Optimizer
from prototorch.spec import Spec
from prototorch.train.declare import Compile
from prototorch.train.loss_scale import LossScale
from prototorch.train.memory import Need, largest_batch, need_of, refuse, refuse_weights

TARGET, WEIGHT, RATE, STEP = "target:", "weight:", "learning_rate", "step"
COUNTED = "counted"  # the input of a plan that may be filled up: 1 for each sample that counts, 0 for the others
_LARGE = 1 << 20  # bytes of a variable that is made beside others
TRAIN, TEST, PREDICT = "train", "test", "predict"


@dataclass(frozen=True)
class Term:
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
class Measure:
    """A metric at an output, with the name it has in the logs, and whether sample weights count in it."""

    output: str
    metric: Metric
    name: str
    weighted: bool = False


class Losses(NamedTuple):
    """A loss in a graph: the inputs it compares with (by output), the loss of each sample and the mean of each term (by
    the term's name), and the sum of all terms and penalties."""

    targets: dict[str, Value]
    weights: dict[str, Value]
    each: dict[str, Value]
    parts: dict[str, Value]
    total: Value


def begun(start: np.ndarray) -> np.ndarray:
    """How a slot begins, as an array of its own; of zeros no memory is touched before the first step."""
    return np.array(start, order="C") if start.any() else np.zeros(start.shape, start.dtype)


class Births(dict[str, tuple[Spec, Callable[[], np.ndarray]]]):
    """How variables begin that a plan needs: name -> spec, and what makes the array."""


class Program:
    """All plans of one model on one backend. Plans are made when they are first needed and kept."""

    def __init__(self, net: Net, variables: Variables, backend: Backend, compiled: Compile | None):
        self.net, self.variables, self.backend, self.compiled = net, variables, backend, compiled
        self.seed = compiled.seed if compiled is not None else 0
        self.terms = terms(net, compiled) if compiled is not None else ()
        if compiled is not None:
            check_metrics(net, compiled, self.terms)
        self.measures: tuple[Measure, ...] = ()
        self._runners: dict[Any, Runner] = {}
        self._arena: Any = None
        self._scratch = 0  # bytes that the kernels of plans that were bound take beside
        self._output_specs: dict[Any, dict[str, Spec]] = {}
        self._fillable: dict[Any, bool] = {}
        self._made: dict[Any, tuple[Plan, Births]] = {}  # plans that were made ahead of need

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser. Raises UsageError where the model is not compiled."""
        if self.compiled is None or not self.terms:
            raise UsageError("the model has no loss yet: call model.compile(loss=..., optimizer=...) first")
        return self.compiled.optimizer

    @property
    def _low(self) -> bool:
        return self.compiled is not None and self.compiled.memory == "low"

    def runner(self, phase: str, specs: Mapping[str, Spec], preparation: InGraph | None = None,
               counted: bool = False) -> Runner:  # fmt: skip
        """The bound plan of a phase for inputs of these specs. preparation: makes one of them inside the plan. counted:
        the plan has the input `COUNTED`, so that a smaller batch may be filled up (see `fillable`).

        Raises ResourceError where it would not fit in memory: before any of it is taken.
        """
        key = _key(phase, specs, preparation is not None, counted)
        found = self._runners.get(key)
        if found is None:
            made = self._made.pop(key) if key in self._made else None
            plan, births = made or self._planned(phase, specs, preparation, counted)
            self._refuse_too_large(phase, specs, plan, births, preparation)
            self._create(births)
            try:
                if self._arena is None or len(self._arena) < plan.arena:
                    self._arena = self.backend.bytes(plan.arena)
                found = self._runners[key] = bound(plan, self.backend, self.variables, self._arena)
                self._scratch = max(self._scratch, self.backend.scratch(plan.said()) or 0)
            except ResourceError as exc:  # there was less than the device had said
                free = self.backend.free_bytes() or 0
                raise self._refusal(phase, specs, plan, births, preparation, free) from exc
        return found

    def ahead(self, phase: str, specs: Mapping[str, Spec], stop: Event) -> None:
        """Make a plan and have its kernels compiled, beside what runs, so that `runner` finds them; until ``stop``."""
        if self.backend.device is not None or (self.compiled is not None and self.compiled.autotune):
            return  # on a device a kernel is made for its first launch; what is timed beside something is timed wrongly
        key = _key(phase, specs, False, False)
        if key in self._runners or key in self._made:
            return
        made = self._planned(phase, specs)
        if not stop.is_set():
            self.backend.ahead([self.backend.prepare(*said) for said in made[0].said()], stop)
            self._made[key] = made

    def runners(self) -> list[Runner]:
        """The bound plans there are."""
        return list(self._runners.values())

    def plan(self, phase: str, specs: Mapping[str, Spec], create: bool = True, counted: bool = False) -> Plan:
        """The plan of a phase; with ``create`` the variables it needs are made where they are missing. counted: see
        `runner`."""
        plan, births = self._planned(phase, specs, None, counted)
        if create:
            self._create(births)
        return plan

    def fillable(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        """Whether a batch with fewer samples than these specs say may go through their plan, filled up with others that
        do not count: no sample sees another one, and no number follows from the size of the batch."""
        key = (phase == TRAIN, phase == PREDICT, tuple(sorted(specs.items())))
        if key not in self._fillable:
            self._fillable[key] = self._by_samples(phase, specs)
        return self._fillable[key]

    def _by_samples(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        batch = next(iter(specs.values())).shape[0]
        if batch < 2 or any(s.shape[:1] != (batch,) for s in specs.values()):
            return False
        graphs = []
        for size in (batch, batch + 1):
            graph = Graph()
            traced = trace(self.net, {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()},
                           phase == TRAIN, graph)  # fmt: skip
            rows, free = [traced.values[name] for name in self.net.outputs], list[Value]()
            with interpreting(graph):
                if phase != PREDICT:
                    masks = [self._mask(traced, t.output) for t in self.terms]
                    count = ops.sum_(graph.input(COUNTED, Spec((size,))))
                    each = self.losses(graph, traced, count).each
                    rows += [*each.values(), *(m for m in masks if m is not None)]
                    free = [*traced.losses, *traced.penalties(), *traced.updates.values()]
            graphs.append((graph, rows, free))
        graph, rows, free = graphs[0]
        known = of_samples(graph, batch)
        return (
            alike(graph, graphs[1][0])
            and all(known.get(id(v)) == ROWS and v.shape[0] == batch for v in rows)
            and all(known.get(id(v), FREE) in (FREE, SAME) for v in free)
        )

    def _planned(self, phase: str, specs: Mapping[str, Spec], preparation: InGraph | None = None,
                 counted: bool = False) -> tuple[Plan, Births]:  # fmt: skip
        """The plan of a phase, and how each variable it needs begins."""
        graph, births = Graph(), Births()
        traced = trace(self.net, specs, phase == TRAIN, graph, None, self.backend.precision.low, preparation)
        for weight in traced.weights.values():
            births[weight.name] = weight.spec, partial(initial, weight, self.seed)
        if phase == PREDICT:
            outputs = {name: traced.values[name] for name in self.net.outputs}
            return make_plan(graph, outputs, backend=self.backend, low_memory=self._low), births
        if not self.terms:
            raise UsageError("the model has no loss yet: call model.compile(loss=..., optimizer=...) first")
        with interpreting(graph):
            return self._step(graph, traced, phase, births, counted and phase != PREDICT), births

    def _create(self, births: Births) -> None:
        missing: dict[str, Callable[[], np.ndarray]] = {}
        for name, (spec, make) in births.items():
            if name in self.variables:
                self.variables.check(name, spec)
            else:
                missing[name] = make
        large = [name for name in missing if births[name][0].nbytes >= _LARGE]
        large.sort(key=lambda name: -births[name][0].nbytes)
        with ThreadPoolExecutor(max(min(self.backend.threads, len(large)), 1)) as makers:
            coming = {name: makers.submit(missing[name]) for name in large}  # each draws from a stream of its own
            for name, make in missing.items():
                self.variables.create(name, coming.pop(name).result() if name in coming else make(), own=True)

    def _missing(self, births: Births) -> dict[str, Spec]:
        there = self.variables.where(self.backend)
        return {name: spec for name, (spec, _) in births.items() if name not in there}

    def _need(self, plan: Plan, births: Births) -> Need:
        """What a plan takes beside what is there already."""
        held = 0 if self._arena is None else len(self._arena)
        scratch = (self.backend.scratch(plan.said()) or 0) - self._scratch
        return need_of(plan, self._missing(births), held, self.backend.input_copies, max(scratch, 0))

    def _refuse_too_large(self, phase: str, specs: Mapping[str, Spec], plan: Plan, births: Births,
                          preparation: InGraph | None) -> None:  # fmt: skip
        free = self.backend.free_bytes()
        need = self._need(plan, births)
        if free is not None and need.total > free:
            raise self._refusal(phase, specs, plan, births, preparation, free)

    def _refusal(self, phase: str, specs: Mapping[str, Spec], plan: Plan, births: Births,
                 preparation: InGraph | None, free: int) -> ResourceError:  # fmt: skip
        """The error about a plan that does not fit, with a batch size that would."""
        need = self._need(plan, births)
        batch = next(iter(specs.values())).shape[0]

        def fits(size: int) -> bool:
            smaller = {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()}
            return self._need(*self._planned(phase, smaller, preparation)).total <= free

        what = {TRAIN: "a training step", TEST: "an evaluation step", PREDICT: "a prediction"}[phase]
        what = f"{what} of {self.net.name!r} at batch size {batch}"
        return refuse(self.net, plan, need, free, what, largest_batch(batch, fits))

    def check_weights(self, wanted: Iterable[Weight]) -> None:
        """Raise ResourceError where weights that are not there yet would not fit in memory."""
        missing = {w.name: w.spec for w in wanted if w.name not in self.variables}
        free = self.backend.free_bytes() if missing else None
        if free is not None and nbytes(missing.values()) > free:
            raise refuse_weights(self.net, missing, free)

    def output_specs(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """The specs of the net's outputs for inputs of these specs."""
        key = tuple(sorted(specs.items()))
        if key not in self._output_specs:
            traced = trace(self.net, specs, False)
            self._output_specs[key] = {name: traced.values[name].spec for name in self.net.outputs}
        return self._output_specs[key]

    def _step(self, graph: Graph, traced: Trace, phase: str, births: Births, counted: bool) -> Plan:
        batch = next(iter(graph.inputs.values())).shape[0]
        count: Value | float = float(batch)
        every = graph.constant(np.ones(batch, np.float32))
        if counted:
            every = graph.input(COUNTED, Spec((batch,)))
            with graph.scope("samples that count"):
                count = ops.sum_(every)
        targets, weights, _, parts, total = self.losses(graph, traced, count)
        updates: dict[str, Value] = {}
        self._totals(graph, phase, count, {"loss": total, **(parts if len(self.terms) > 1 else {})}, updates, births)
        for measure in self.measured(traced):
            with told(graph, f"metric {measure.name}"):
                wanted = measure.metric.states(traced.values[measure.output].spec)
                states = self._states(graph, f"{METRIC}{phase}:{measure.name}:", wanted, births)
                mask = self._mask(traced, measure.output)
                weight = weights[measure.output] if measure.weighted else every
                weight = weight if mask is None else masked(weight, mask)
                new = measure.metric.update(states, targets[measure.output], traced.values[measure.output], weight)
                updates.update({states[k].name: v for k, v in new.items()})
        outputs, gated = {LOSS: total}, frozenset[str]()
        if phase == TRAIN:
            updates.update(traced.updates)
            gated = self._update(graph, traced, total, updates, births, outputs)
        plan = make_plan(graph, outputs, updates, self.backend, low_memory=self._low)
        plan.gated = gated
        return plan

    def losses(self, graph: Graph, traced: Trace, count: Value | float | None = None) -> Losses:
        """The loss of a traced net, in its graph; ``count`` is how many samples count, all where it is left out."""
        batch = next(iter(graph.inputs.values())).shape[0]
        share = 1.0 / (float(batch) if count is None else count)
        targets: dict[str, Value] = {}
        weights: dict[str, Value] = {}
        for name in dict.fromkeys(t.output for t in self.terms):
            term = next(t for t in self.terms if t.output == name)
            targets[name] = graph.input(TARGET + name, term.target_spec(traced.values[name].spec))
            weights[name] = graph.input(WEIGHT + name, Spec((batch,)))
        total: Value | None = None
        each: dict[str, Value] = {}
        parts: dict[str, Value] = {}
        for term in self.terms:
            with told(graph, f"loss {term.name}"):
                mask = self._mask(traced, term.output)
                masks = {} if mask is None else {"mask": mask}
                own = each[term.name] = term.loss.per_sample(targets[term.output], traced.values[term.output], **masks)
                part = ops.sum_(own * weights[term.output]) * share
                parts[term.name] = part
                part = part if term.factor == 1.0 else part * term.factor
                total = part if total is None else total + part
        with graph.scope("penalties"):
            for extra in (*traced.losses, *traced.penalties()):
                total = extra if total is None else total + extra
        assert total is not None
        return Losses(targets, weights, each, parts, total)

    def _mask(self, traced: Trace, output: str) -> Value | None:
        """The mask of an output: places where it is False count neither in the loss nor in the metrics."""
        value = traced.values[output]
        mask = traced.masks.get(id(value))
        if mask is not None and mask.shape != value.shape[: mask.ndim]:
            raise ShapeError(
                f"the output {output!r} of shape {list(value.shape)} has a mask of shape {list(mask.shape)}, "
                "which does not belong to it"
            )
        return mask

    def measured(self, traced: Trace) -> tuple[Measure, ...]:
        """The metrics, with "accuracy" made concrete by the loss and the output's shape."""
        if not self.measures and self.compiled is not None:
            self.measures = measures(self.net, self.compiled, self.terms, traced)
        return self.measures

    def resolve(self, specs: Mapping[str, Spec]) -> None:
        """Make the metrics concrete before any step: a training that goes on may have none left in its epoch."""
        self.measured(trace(self.net, specs, False))

    def _states(self, graph: Graph, prefix: str, specs: Mapping[str, Any], births: Births) -> dict[str, Value]:
        made = {}
        for name, spec in specs.items():
            births[prefix + name] = spec, partial(np.zeros, spec.shape, spec.dtype)
            made[name] = graph.state(prefix + name, spec)
        return made

    def _totals(self, graph, phase, count, losses, updates, births) -> None:
        count = ops.cast(count, dtype="float64") if isinstance(count, Value) else count
        for name, value in losses.items():
            state = self._states(graph, f"{METRIC}{phase}:{name}:", {"sum": Spec((), "float64")}, births)["sum"]
            updates[state.name] = state + ops.cast(value, dtype="float64") * count
        seen = self._states(graph, f"{METRIC}{phase}:loss:", {"count": Spec((), "float64")}, births)["count"]
        updates[seen.name] = seen + count

    def _update(self, graph: Graph, traced: Trace, total: Value, updates: dict[str, Value], births: Births,
                outputs: dict[str, Value]) -> frozenset[str]:  # fmt: skip
        """The backward pass and the optimiser's updates; the names of what the optimiser changes."""
        optimizer = self.optimizer
        wanted = [w for w in traced.weights.values() if w.trainable]
        values = [graph.states[w.name] for w in wanted]
        with graph.phase("backward"):
            entries = list(graph.nodes)
            scaling = LossScale(graph, births) if self.backend.precision.scaled else None
            seeds = [(total, graph.constant(np.float32(1)) if scaling is None else scaling.scale)]
            found = pull_back(entries, seeds, values, within=lambda node: graph.scope(node.scope))
            if scaling is not None:
                found = scaling.unscaled(found)
                outputs[APPLY] = scaling.update(found, updates)
        pairs = [(w, v, g) for w, v, g in zip(wanted, values, found, strict=True) if g is not None]
        had = set(updates)
        with graph.phase("update"):
            rate, step = graph.input(RATE, Spec(())), graph.input(STEP, Spec((), "int64"))
            grads = optimizer.clip([g for _, _, g in pairs])
            for (weight, value, _), grad in zip(pairs, grads, strict=True):
                with graph.scope(weight.name):
                    slots = {}
                    for name, start in optimizer.slots(weight).items():
                        full = f"{SLOT}{weight.name}:{name}"
                        spec = Spec(tuple(np.shape(start)), str(np.asarray(start).dtype))
                        births[full] = spec, partial(begun, np.asarray(start))
                        slots[name] = graph.state(full, spec)
                    new, new_slots = optimizer.apply(value, grad, slots, rate, step, weight)
                    updates[weight.name] = new if weight.constraint is None else weight.constraint.project(new)
                    updates.update({slots[k].name: v for k, v in new_slots.items()})
        return frozenset(updates.keys() - had)

    def finish(self) -> None:
        """At the end of a training: weights become what the optimiser says they end as (their moving average)."""
        slots: dict[str, dict[str, Any]] = {}
        for name, array in self.variables.beginning(SLOT):
            weight, slot = name[len(SLOT) :].rsplit(":", 1)
            slots.setdefault(weight, {})[slot] = array
        for weight, held in slots.items():
            end = self.optimizer.final(held)
            if end is not None:
                self.variables.assign(weight, end)

    def results(self, phase: str) -> dict[str, Any]:
        """The loss and the metrics of a phase so far, as numbers."""
        v = self.variables
        count = float(v.get(f"{METRIC}{phase}:loss:count", 0.0))
        names = ["loss", *([t.name for t in self.terms] if len(self.terms) > 1 else [])]
        logs: dict[str, Any] = {n: float(v[f"{METRIC}{phase}:{n}:sum"]) / count for n in names if count}
        for measure in self.measures:
            prefix = f"{METRIC}{phase}:{measure.name}:"
            arrays = {k[len(prefix) :]: a for k, a in v.beginning(prefix)}
            if arrays:
                result = np.asarray(measure.metric.result(arrays))
                logs[measure.name] = float(result) if result.ndim == 0 else result.tolist()
        return logs

    def reset(self, phase: str) -> None:
        """Begin the totals of a phase anew."""
        for _, array in self.variables.beginning(f"{METRIC}{phase}:"):
            array[...] = 0


def _key(phase: str, specs: Mapping[str, Spec], prepared: bool, counted: bool) -> tuple[str, Any]:
    """What a plan is known by. Of a prediction nothing is counted."""
    return phase, (tuple(sorted(specs.items())), prepared, counted and phase != PREDICT)


def key_of(seed: int, step: int) -> np.ndarray:
    """The random key of a step."""
    return np.array([seed & (2**64 - 1), step], np.uint64)


def terms(net: Net, compiled: Compile) -> tuple[Term, ...]:
    """The losses, each at its output. Raises UsageError for an output that does not exist or a loss without a place."""
    made: list[Term] = []
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
        made.append(Term(output, given.type, given.weight, name, given.target))
    return tuple(made)


def check_output(net: Net, output: str, what: str) -> None:
    """UsageError for an output the net does not have."""
    if output not in net.outputs:
        raise UsageError(
            f"{what}: the net has no output {output!r}; it has {', '.join(net.outputs)}."
            f"{did_you_mean(output, net.outputs)}"
        )


def check_metrics(net: Net, compiled: Compile, losses: Sequence[Term]) -> None:
    """Raises UsageError for a metric at an output that does not exist or has no loss, and so no target."""
    learned = [t.output for t in losses]
    for given in (*compiled.metrics, *compiled.weighted_metrics):
        if given.output is not None:
            check_output(net, given.output, "metrics")
            if given.output not in learned:
                raise UsageError(f"metrics: the output {given.output!r} has no loss, and so no target to compare with")


def measures(net: Net, compiled: Compile, losses: Sequence[Term], traced: Trace) -> tuple[Measure, ...]:
    """The metrics with their names in the logs: the bare name for one output, ``output_name`` for several."""
    made: list[Measure] = []
    found = [(one, False) for one in compiled.metrics] + [(one, True) for one in compiled.weighted_metrics]
    for given, weighted in found:
        at = [given.output] if given.output is not None else list(dict.fromkeys(t.output for t in losses))
        for output in at:
            loss = next((t.loss for t in losses if t.output == output), None)
            metric = given.type
            word = metric if isinstance(metric, str) else None
            if isinstance(metric, str):
                metric = resolve(metric, loss, traced.values[output].spec)
            name = word or metric.name
            name = name if len({t.output for t in losses}) <= 1 else f"{output}_{name}"
            stem, n = name, 1
            while any(m.name == name for m in made):
                name, n = f"{stem}_{n}", n + 1
            made.append(Measure(output, metric, name, weighted))
    return tuple(made)
