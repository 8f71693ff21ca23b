"""The plans and executors of a compiled model, by phase and input specs, made when they are first needed."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.executor import Executor
from prototorch.engine.backends.guarded_updates import GuardedUpdates
from prototorch.engine.backends.registry import KernelFn
from prototorch.errors import ResourceError, UsageError
from prototorch.graph.executable import make_executable
from prototorch.graph.net import Net
from prototorch.graph.plan import Plan, make_plan
from prototorch.graph.probe import probe_specs, trace_net
from prototorch.graph.trace import InputPreprocessing, trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.layers.adapted_layer import AdaptedLayer, refuse_unadapted
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import SLOT_PREFIX, Variables, total_bytes
from prototorch.spec import Spec
from prototorch.text.diagnostics import located
from prototorch.train.config import Compile
from prototorch.train.loss_terms import LossTerm
from prototorch.train.memory_estimate import (
    MemoryEstimate,
    estimate_memory,
    largest_batch,
    memory_error,
    weights_memory_error,
)
from prototorch.train.metric_totals import MetricTotals
from prototorch.train.step_graph import StepGraphBuilder
from prototorch.train.step_inputs import ACCUMULATE, PREDICT, TEST, TRAIN, is_training, kind_of
from prototorch.train.trained_weights import TrainedWeights, Unfreezing
from prototorch.train.update_rules import UpdateRules
from prototorch.train.variable_inits import VariableInits

if TYPE_CHECKING:
    from prototorch.train.target_scaling import TargetScaling

__all__ = ["PlanCache"]

_STEP_NAMES = {
    TRAIN: "a training step",
    ACCUMULATE: "a training step",
    TEST: "an evaluation step",
    PREDICT: "a prediction",
}

#: phase, input specs, whether the plan preprocesses its input, whether it has a sample mask
PlanKey = tuple[str, tuple[Any, bool, bool]]


class PlanCache:
    """All plans of one model on one backend, and their executors, which share the variables and one arena.

    ``steps`` builds the graphs; ``metrics`` are the running totals that the steps update. trained_weights,
    step_outputs, decayed_weights: see `StepGraphBuilder`.
    """

    def __init__(
        self,
        net: Net,
        variables: Variables,
        backend: Backend,
        config: Compile | None,
        *,
        trained_weights: TrainedWeights | None = None,
        step_outputs: Sequence[str] = (),
        decayed_weights: Sequence[str] = (),
    ):
        self.net, self.variables, self.backend = net, variables, backend
        self.step_graphs = StepGraphBuilder(net, backend, config, trained_weights, step_outputs, decayed_weights)
        rules = self.step_graphs.rules
        loss_names = None if rules is None else rules.loss_names
        self.metrics = MetricTotals(
            variables, self.step_graphs.loss_terms, lambda: self.step_graphs.metric_terms, loss_names
        )
        if not self.step_graphs.trained_weights.check():
            self.step_graphs.trained_weights.check(trace_net(net, 1).weights)
        if rules is not None:
            rules.resolve(self.step_graphs.trained_weights)
        self._low_memory = config is not None and config.memory == "low"
        self._autotune = config is not None and config.autotune
        self._executors: dict[PlanKey, Executor] = {}
        self._plans: dict[PlanKey, Plan] = {}  # those of the executors
        self._precompiled: dict[PlanKey, tuple[Plan, VariableInits]] = {}  # made ahead of need
        self._can_pad: dict[Any, bool] = {}
        self._output_specs: dict[Any, dict[str, Spec]] = {}
        self.train_revision = 0  # counts the changes of what a training step is
        self._adapted_layers = tuple(node.layer for node in net.nodes if isinstance(node.layer, AdaptedLayer))
        self._adaptations = sum(layer.revision for layer in self._adapted_layers)
        self._arena: Any = None
        self._scratch_bytes = 0  # of the kernels of all executors

    @property
    def seed(self) -> int:
        """The seed of initial weights, data order, dropout and augmentation."""
        return self.step_graphs.seed

    @property
    def loss_terms(self) -> tuple[LossTerm, ...]:
        """The losses; empty where the model is not compiled."""
        return self.step_graphs.loss_terms

    @property
    def update_rules(self) -> UpdateRules:
        """Which optimizer changes which weight, and in which step. Raises UsageError where the model is not
        compiled."""
        return self.step_graphs.update_rules

    @property
    def training_phases(self) -> tuple[str, ...]:
        """The phases of the training steps of a compiled model: one, or one for each of the steps that alternate."""
        return self.update_rules.phases

    def metrics_names(self) -> list[str]:
        """The names of the loss and the metrics in the logs, also before the first step."""
        self.step_graphs.resolve_metrics(self._train_specs() or probe_specs(self.net, 1))
        return self.metrics.names()

    def executor(
        self,
        phase: str,
        specs: Mapping[str, Spec],
        preprocessing: InputPreprocessing | None = None,
        with_mask: bool = False,
    ) -> Executor:
        """The executor of a phase for inputs of these specs; see `StepGraphBuilder.build`.

        Raises ResourceError, before anything is allocated, where the plan would not fit in memory.
        """
        self._follow_adaptations()
        key = _plan_key(phase, specs, preprocessing is not None, with_mask)
        executor = self._executors.get(key)
        if executor is None:
            ready = self._precompiled.pop(key) if key in self._precompiled else None
            plan, inits = ready or self._make_plan(phase, specs, preprocessing, with_mask)
            free = self.backend.free_bytes()
            needed = 0 if free is None else self._estimate(plan, inits).total
            if free is not None and needed > free:
                for _ in range(2):  # models that are not used any more, and what their finalizers leave
                    gc.collect()
                free = self.backend.free_bytes() or 0
            if free is not None and needed > free:
                raise self._memory_error(phase, specs, plan, inits, preprocessing, free)
            inits.create_missing(self.variables, self.backend.threads)
            try:
                if self._arena is None or len(self._arena) < plan.arena_bytes:
                    self._arena = self.backend.allocate(plan.arena_bytes)
                executor = self._executors[key] = make_executor(plan, self.backend, self.variables, self._arena)
                self._plans[key] = plan
                self._scratch_bytes = max(self._scratch_bytes, self.backend.scratch_bytes(plan.signatures()) or 0)
            except ResourceError as exc:  # less memory than the device had reported
                free = self.backend.free_bytes() or 0
                raise self._memory_error(phase, specs, plan, inits, preprocessing, free) from exc
        return executor

    def _follow_adaptations(self) -> None:
        """Make all plans anew where a layer has been adapted since. Raises UsageError for one that never was."""
        revision = sum(layer.revision for layer in self._adapted_layers)
        if revision != self._adaptations:
            self._adaptations = revision
            for plans in (self._executors, self._plans, self._precompiled, self._can_pad, self._output_specs):
                plans.clear()
        refuse_unadapted(self._adapted_layers)

    def bound_plan(self, phase: str, specs: Mapping[str, Spec]) -> Plan:
        """The plan that `executor` has bound for a phase and inputs of these specs."""
        return self._plans[_plan_key(phase, specs, False, False)]

    def set_unfreezings(self, unfreezings: Sequence[Unfreezing]) -> None:
        """Train these layers or weights, too: plans of training steps are made anew, and the slots of the weights."""
        self.step_graphs.set_unfreezings(unfreezings)
        self.train_revision += 1
        specs = self._train_specs()
        for plans in (self._executors, self._plans, self._precompiled, self._can_pad):
            for key in [key for key in plans if key[0] is True or is_training(str(key[0]))]:
                del plans[key]
        if specs is not None:
            for phase in self.training_phases:
                self.step_graphs.build(phase, specs).inits.create_missing(self.variables, self.backend.threads)

    def set_target_scalings(self, scalings: Mapping[str, TargetScaling]) -> bool:
        """Let losses compare scaled targets of these outputs; returns whether that is new. All plans are then made
        anew. Raises UsageError for a loss that compares no values."""
        if dict(self.step_graphs.target_scalings) == dict(scalings):
            return False
        for term in self.loss_terms:
            if term.output in scalings and term.loss.target_kind not in ("values", "binary"):
                with located(term.span):
                    raise UsageError(
                        f"the target of {term.output!r} is scaled, and {type(term.loss).__name__} compares classes: "
                        "leave scale out, or write a loss of values, such as mse"
                    )
        self.step_graphs.target_scalings = dict(scalings)
        self.train_revision += 1
        for plans in (self._executors, self._plans, self._precompiled, self._can_pad):
            plans.clear()
        return True

    def newly_trained(self, pattern: str) -> list[str]:
        """The weights that unfreezing a pattern adds to those that are trained as compiled. Raises UsageError for one
        that matches no layer and no weight."""
        return self.step_graphs.newly_trained(pattern, self._train_specs() or probe_specs(self.net, 1))

    def _train_specs(self) -> dict[str, Spec] | None:
        """The input specs of some training step that has a plan."""
        return next((dict(key[1][0]) for key in self._plans if kind_of(key[0]) == TRAIN), None)

    def executors(self) -> list[Executor]:
        """All executors made so far."""
        return list(self._executors.values())

    def is_guarded(self, name: str) -> bool:
        """Whether a state is one that training steps keep finite: a trained weight, or a slot of the optimizer."""
        return name.startswith(SLOT_PREFIX) or any(name in plan.guarded_states for plan in self._plans.values())

    def plan(self, phase: str, specs: Mapping[str, Spec], create: bool = True, with_mask: bool = False) -> Plan:
        """The plan of a phase. create: also create the missing variables; with_mask: see `executor`."""
        plan, inits = self._make_plan(phase, specs, None, with_mask)
        if create:
            inits.create_missing(self.variables, self.backend.threads)
        return plan

    def precompile(self, phase: str, specs: Mapping[str, Spec], stop: Event) -> None:
        """Make a plan and compile its kernels in the background, so that `executor` finds them, until ``stop`` is set.

        Does nothing on a backend that cannot precompile, nor while kernels are chosen by timing, which background work
        would falsify.
        """
        if not self.backend.can_precompile or self._autotune:
            return
        key = _plan_key(phase, specs, False, False)
        if key in self._executors or key in self._precompiled:
            return
        revision = self.train_revision
        plan, inits = self._make_plan(phase, specs)
        if not stop.is_set():
            self.backend.precompile(self.step_kernels(plan), stop)
            if revision == self.train_revision:
                self._precompiled[key] = plan, inits

    def step_kernels(self, plan: Plan) -> list[KernelFn]:
        """The kernels of a plan's steps, as an executor runs them: those of its updates watch what they store."""
        kernels = [self.backend.prepare(*signature) for signature in plan.signatures()]
        GuardedUpdates.of(make_executable(plan), kernels)
        return kernels

    def can_pad(self, phase: str, specs: Mapping[str, Spec]) -> bool:
        """Whether a smaller batch may be padded to these specs; see `StepGraphBuilder.is_samplewise`."""
        key = (is_training(phase), phase == PREDICT, tuple(sorted(specs.items())))
        if key not in self._can_pad:
            self._can_pad[key] = self.step_graphs.is_samplewise(phase, specs)
        return self._can_pad[key]

    def output_specs(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """The specs of the net's outputs, and of what losses are taken at, for inputs of these specs."""
        key = tuple(sorted(specs.items()))
        if key not in self._output_specs:
            net_trace = trace(self.net, specs, False)
            names = dict.fromkeys((*self.net.outputs, *(t.output for t in self.loss_terms)))
            self._output_specs[key] = {name: net_trace.values[name].spec for name in names}
        return self._output_specs[key]

    def check_weights_fit(self, weights: Iterable[WeightSpec]) -> None:
        """Raise ResourceError where those of the weights that do not exist yet would not fit in memory."""
        missing = {w.name: w.spec for w in weights if w.name not in self.variables}
        free = self.backend.free_bytes() if missing else None
        if free is not None and total_bytes(missing.values()) > free:
            raise weights_memory_error(self.net, missing, free)

    def finalize_weights(self) -> None:
        """At the end of a training: set weights to their final values, such as their moving average."""
        slots: dict[str, dict[str, Any]] = {}
        for name, array in self.variables.with_prefix(SLOT_PREFIX):
            weight, slot = name[len(SLOT_PREFIX) :].rsplit(":", 1)
            slots.setdefault(weight, {})[slot] = array
        for weight, arrays in slots.items():
            value = self.update_rules.group_of(weight).optimizer.final_value(arrays)
            if value is not None:
                self.variables.assign(weight, value)

    def _make_plan(
        self,
        phase: str,
        specs: Mapping[str, Spec],
        preprocessing: InputPreprocessing | None = None,
        with_mask: bool = False,
    ) -> tuple[Plan, VariableInits]:
        step = self.step_graphs.build(phase, specs, preprocessing, with_mask)
        plan = make_plan(step.graph, step.outputs, step.updates, self.backend, low_memory=self._low_memory)
        plan.guarded_states = step.guarded_states
        plan.has_bounded_updates = step.has_bounded_updates
        return plan, step.inits

    def _estimate(self, plan: Plan, inits: VariableInits) -> MemoryEstimate:
        """The memory that an executor would allocate beyond what is allocated already."""
        resident = self.variables.resident_names(self.backend)
        missing = {name: spec for name, (spec, _) in inits.items() if name not in resident}
        arena = 0 if self._arena is None else len(self._arena)
        scratch = (self.backend.scratch_bytes(plan.signatures()) or 0) - self._scratch_bytes
        return estimate_memory(plan, missing, arena, self.backend.input_copies, max(scratch, 0))

    def _memory_error(
        self,
        phase: str,
        specs: Mapping[str, Spec],
        plan: Plan,
        inits: VariableInits,
        preprocessing: InputPreprocessing | None,
        free: int,
    ) -> ResourceError:
        """The error about a plan that does not fit, with a batch size that would."""
        batch = next(iter(specs.values())).shape[0]

        def fits(size: int) -> bool:
            smaller = {k: Spec((size, *s.shape[1:]), s.dtype) for k, s in specs.items()}
            return self._estimate(*self._make_plan(phase, smaller, preprocessing)).total <= free

        what = f"{_STEP_NAMES[kind_of(phase)]} of {self.net.name!r} at batch size {batch}"
        estimate = self._estimate(plan, inits)
        return memory_error(self.net, plan, estimate, free, what, largest_batch(batch, fits))


def _plan_key(phase: str, specs: Mapping[str, Spec], preprocesses: bool, with_mask: bool) -> PlanKey:
    """A prediction has no sample mask: nothing is counted."""
    return phase, (tuple(sorted(specs.items())), preprocesses, with_mask and phase != PREDICT)
