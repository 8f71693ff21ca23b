"""Which optimizer changes which weight, and in which of the steps that alternate.

Everything is a function of the number of steps so far: a training that goes on after any step needs no other state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.optimizers import Optimizer
from prototorch.schema.block_source import find_span
from prototorch.schema.patterns import check_patterns, includes
from prototorch.text.diagnostics import located
from prototorch.text.source import Span
from prototorch.train.config import Compile
from prototorch.train.loss_terms import LossTerm
from prototorch.train.optimizer_blocks import ONLY_OPTIMIZER
from prototorch.train.step_blocks import TrainingStep
from prototorch.train.step_inputs import LEARNING_RATE, STEP, TRAIN, step_of, training_phase
from prototorch.train.trained_weights import TrainedWeights, layers_by_weight

__all__ = ["OptimizerGroup", "UpdateRules", "net_of_step"]


class OptimizerGroup(NamedTuple):
    """An optimizer and the weights that it trains, by patterns."""

    name: str
    optimizer: Optimizer
    layers: tuple[str, ...]
    span: Span | None = None


class _Assignment(NamedTuple):
    """The optimizer of each trained weight, and the names of the steps that change it."""

    groups: dict[str, OptimizerGroup]
    steps: dict[str, tuple[str, ...]]


class UpdateRules:
    """The optimizers and the alternating steps of a compiled model.

    Attributes:
        groups: the optimizers; one, with all weights, unless the compile block has several.
        steps: the steps of a round in their order; empty where all steps are the same.
    """

    def __init__(self, net: Net, config: Compile, loss_terms: Sequence[LossTerm], loss_layers: Sequence[str]):
        self._net = net
        self.groups = _groups_of(config)
        self.steps: tuple[TrainingStep, ...] = () if config.train is None else config.train.step
        self._check_losses(loss_terms, loss_layers)
        self._assignment: _Assignment | None = None

    # ------------------------------------------------------------------ the order of steps

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases of the training steps of a round, once each."""
        return tuple(training_phase(TRAIN, step.name) for step in self.steps) or (TRAIN,)

    @cached_property
    def round_length(self) -> int:
        """The number of steps after which the round begins again."""
        return sum(step.repeat for step in self.steps) or 1

    def step_name(self, number: int) -> str:
        """The name of the step after ``number`` steps; "" where all steps are the same."""
        rest = number % self.round_length
        for step in self.steps:
            if rest < step.repeat:
                return step.name
            rest -= step.repeat
        return ""

    def step(self, name: str) -> TrainingStep:
        """The step of this name. Raises UsageError for "" where steps alternate, and for an unknown name."""
        step = next((step for step in self.steps if step.name == name), None)
        if step is None:
            phases = " or ".join(map(repr, self.phases))
            if not name:
                raise UsageError(
                    f"this model is trained by steps that alternate, each of which is a phase: write {phases}"
                )
            hint = did_you_mean(name, [step.name for step in self.steps])
            missing = f"no step named {name!r}" if self.steps else "no steps that alternate"
            raise UsageError(f"this model is trained by {missing}: write {phases}.{hint}")
        return step

    def runs_before(self, number: int, name: str) -> int:
        """How many of the first ``number`` steps were the one of this name."""
        rounds, rest = divmod(number, self.round_length)
        for step in self.steps:
            if step.name == name:
                return rounds * step.repeat + min(max(rest, 0), step.repeat)
            rest -= step.repeat
        return number

    def updates_before(self, number: int, names: Sequence[str]) -> int:
        """How many updates the steps of these names made in the first ``number`` steps."""
        return sum(self.runs_before(number, name) // self.steps_per_update(name) for name in names)

    def steps_per_update(self, name: str) -> int:
        """The number of runs of a step whose gradients an update takes the mean of."""
        if len(self.groups) == 1:
            return self.groups[0].optimizer.steps_per_update
        groups = [group for group in self.groups if name in self.steps_of_group(group.name)]
        return groups[0].optimizer.steps_per_update if groups else 1

    # ------------------------------------------------------------------ weights

    def resolve(self, weights: TrainedWeights) -> None:
        """Find the optimizer and the steps of each trained weight. Raises UsageError as `check` does."""
        self._assignment = self.check(weights)
        self._check_accumulation()

    def check(self, weights: TrainedWeights) -> _Assignment | None:
        """The optimizer and the steps of each trained weight; None where there is one optimizer and one kind of steps.

        Raises UsageError for a pattern that matches nothing, and for a trained weight that has no optimizer, or more
        than one, or that no step changes.
        """
        if len(self.groups) == 1 and not self.steps and self.groups[0].layers == ("**",):
            return None
        net_trace = trace_net(weights.net, 1)
        users = layers_by_weight(net_trace)
        names = [name for node in self._net.nodes for name in {node.name, node.weights_key}]
        names += list(net_trace.weights)
        for patterns, span in [
            *((g.layers, g.span) for g in self.groups),
            *((s.weights, find_span(s, "weights")) for s in self.steps),
        ]:
            with located(span):
                check_patterns(patterns, names, "layer or weight")
        trainable = [w.name for w in weights.select(net_trace).values() if w.trainable]
        groups = {name: self._group_of(name, users[name]) for name in trainable}
        nodes = {step.name: {n.name for n in self.net_of_step(step, weights.net).nodes} for step in self.steps}
        steps = {}
        for name in trainable:
            steps[name] = tuple(
                step.name
                for step in self.steps
                if includes(step.weights, name, *users[name]) and nodes[step.name].intersection(users[name])
            )
            if self.steps and not steps[name]:
                with located(find_span(self.steps[0], "weights")):
                    raise UsageError(
                        f"no step changes the weight {name!r}: the steps have the weights "
                        f"{_describe_steps(self.steps)}; add it to a step whose losses depend on it, or freeze it: "
                        f"freeze: {users[name][0]!r}"
                    )
        for step in self.steps:
            if not any(step.name in of_weight for of_weight in steps.values()):
                with located(find_span(step, "weights")):
                    raise UsageError(
                        f"the step {step.name!r} changes no weight: its losses {', '.join(step.losses)} depend on none "
                        f"that is trained and that {', '.join(step.weights)} matches"
                    )
        return _Assignment(groups, steps)

    def group_of(self, weight: str) -> OptimizerGroup:
        """The optimizer of a trained weight; one of the optimizers for a weight that is not trained."""
        return self.groups[0] if self._assignment is None else self._assignment.groups.get(weight, self.groups[0])

    def steps_of(self, weight: str) -> tuple[str, ...]:
        """The names of the steps that change a weight; ("",) where all steps are the same."""
        if not self.steps or self._assignment is None:
            return ("",)
        return self._assignment.steps.get(weight, ())

    def steps_of_group(self, name: str) -> tuple[str, ...]:
        """The names of the steps in which an optimizer changes weights."""
        if not self.steps or self._assignment is None:
            return ("",)
        weights = [weight for weight, group in self._assignment.groups.items() if group.name == name]
        used = {step for weight in weights for step in self._assignment.steps[weight]}
        return tuple(step.name for step in self.steps if step.name in used)

    def select(self, name: str, weights: Mapping[str, WeightSpec]) -> dict[str, WeightSpec]:
        """The weights as a step sees them: trained are those that it changes."""
        return {
            weight: spec if name in self.steps_of(weight) else replace(spec, trainable=False)
            for weight, spec in weights.items()
        }

    def inputs_of(self, weight: str) -> tuple[str, str]:
        """The names of the step's inputs with the learning rate of a weight, and the number of its update from 1."""
        steps = self.steps_of(weight)
        rate = LEARNING_RATE if len(self.groups) == 1 else f"{LEARNING_RATE}:{self.group_of(weight).name}"
        return rate, STEP if steps == ("",) else f"{STEP}:{'+'.join(steps)}"

    def update_inputs(self, weights: Iterable[str]) -> list[str]:
        """The names of the inputs of a step that updates these weights."""
        names = () if len(self.groups) > 1 or self.steps else (LEARNING_RATE, STEP)
        return list(dict.fromkeys((*names, *(name for weight in weights for name in self.inputs_of(weight)))))

    def input_numbers(self, names: Iterable[str], number: int) -> dict[str, int]:
        """The values of the inputs with numbers of updates, of those of a step's inputs, after ``number`` steps."""
        values = {}
        for name in names:
            if name == STEP:
                values[name] = self.updates_before(number, ("",)) + 1
            elif name.startswith(f"{STEP}:"):
                values[name] = self.updates_before(number, name.removeprefix(f"{STEP}:").split("+")) + 1
        return values

    def clip(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Gradients by weight, clipped by the optimizer of each."""
        clipped: dict[str, Any] = {}
        for group in self.groups:
            names = [name for name in gradients if self.group_of(name).name == group.name]
            clipped |= zip(names, group.optimizer.clip([gradients[name] for name in names]), strict=True)
        return {name: clipped[name] for name in gradients}

    def logged_losses(
        self, step: str, total: Any, parts: Mapping[str, Any], means: Mapping[str, Any], phase: str
    ) -> dict[str, Any]:
        """What is logged of the losses of a step: their sum, and where there are several each of them.

        total: the loss of a graph of this step. parts: its losses with their factors, by name. means: losses without
        their factors, where they have any. phase: in an evaluation the sum is made of the parts.
        """
        names = self.step(step).losses
        if not step_of(phase):
            total = sum((parts[name] for name in names[1:]), parts[names[0]])
        each = {name: means.get(name, parts[name]) for name in names} if len(names) > 1 else {}
        return {f"{step}_loss": total, **each}

    @property
    def loss_names(self) -> dict[str, bool]:
        """The names in the logs of the losses of all steps, and whether it is the sum of a step; empty where all steps
        are the same."""
        names = {}
        for step in self.steps:
            names[f"{step.name}_loss"] = True
            names.update(dict.fromkeys(step.losses if len(step.losses) > 1 else (), False))
        return names

    @property
    def rate_names(self) -> dict[str, str]:
        """The names of the optimizers, and those of their learning rates in the logs."""
        if len(self.groups) == 1:
            return {self.groups[0].name: LEARNING_RATE}
        return {group.name: f"{group.name}_{LEARNING_RATE}" for group in self.groups}

    def group(self, name: str) -> OptimizerGroup:
        """The optimizer of this name; KeyError if there is none."""
        return {group.name: group for group in self.groups}[name]

    def iterations(self, optimizer: str, number: int) -> int:
        """How many updates an optimizer made in the first ``number`` steps."""
        return self.updates_before(number, self.steps_of_group(optimizer))

    def net_of_step(self, step: TrainingStep, net: Net) -> Net:
        """The part of a net that the losses of a step depend on."""
        return net_of_step(net, [self._outputs.get(name, name) for name in step.losses])

    def _group_of(self, weight: str, users: Sequence[str]) -> OptimizerGroup:
        groups = [group for group in self.groups if includes(group.layers, weight, *users)]
        if not groups:
            listing = "; ".join(f"{g.name}: {', '.join(g.layers)}" for g in self.groups)
            with located(self.groups[0].span):
                raise UsageError(
                    f"the weight {weight!r} has no optimizer: they train {listing}; add it to one of them, or freeze "
                    f"it: freeze: {users[0]!r}"
                )
        if len(groups) > 1:
            first, second = groups[:2]
            with located(second.span):
                place = f" ({first.span})" if first.span is not None else ""
                raise UsageError(
                    f"the weight {weight!r} has two optimizers: {first.name!r}{place}, by {', '.join(first.layers)}, "
                    f'and {second.name!r}, by {", ".join(second.layers)}; take it out: layers: [..., "!{weight}"]'
                )
        return groups[0]

    # ------------------------------------------------------------------ checks

    def _check_losses(self, loss_terms: Sequence[LossTerm], loss_layers: Sequence[str]) -> None:
        """Raise UsageError for a loss that a step names and that is not there, one that no step has, and names that the
        logs would have twice."""
        self._outputs = {term.name: term.output for term in loss_terms}
        if not self.steps:
            return
        names = [*self._outputs, *loss_layers]
        for step in self.steps:
            for name in step.losses:
                if name not in names:
                    with located(find_span(step, "losses")):
                        hint = did_you_mean(name, names)
                        raise UsageError(
                            f"the step {step.name!r} lowers {name!r}, and there is no loss of that name; there are "
                            f"{', '.join(names) or 'none'}.{hint}"
                        )
        unused = [name for name in names if not any(name in step.losses for step in self.steps)]
        if unused:
            span = next((term.span for term in loss_terms if term.name == unused[0]), None)
            with located(span):
                raise UsageError(
                    f"no step lowers the loss {unused[0]!r}: add it to the losses of one, or take it out; the steps "
                    "have " + "; ".join(f"{step.name}: {', '.join(step.losses)}" for step in self.steps)
                )
        logged = {name for step in self.steps if len(step.losses) > 1 for name in step.losses}
        for step in self.steps:
            if f"{step.name}_loss" in logged:
                with located(find_span(step, "name")):
                    raise UsageError(
                        f"the step {step.name!r} would be logged as '{step.name}_loss', which is the name of a loss: "
                        "give the step or the loss another name"
                    )

    def _check_accumulation(self) -> None:
        """Raise UsageError for optimizers of one step that take the mean over different numbers of steps."""
        for name in [step.name for step in self.steps] or [""]:
            groups = [group for group in self.groups if name in self.steps_of_group(group.name)]
            for group in groups[1:]:
                first, count = groups[0], group.optimizer.steps_per_update
                if count != first.optimizer.steps_per_update:
                    with located(group.span):
                        raise UsageError(
                            f"gradient_accumulation_steps is {first.optimizer.steps_per_update} in the optimizer "
                            f"{first.name!r} and {count} in {group.name!r}, which change weights in the same step: "
                            "write the same number in both"
                        )


def net_of_step(net: Net, values: Sequence[str]) -> Net:
    """The layers of a net that values, or layers by their names, depend on; its outputs are the values."""
    needed = {top for node in net.nodes if node.name in values for top in node.tops} | set(values)
    nodes = []
    for node in reversed(net.nodes):
        if needed.intersection(node.tops):
            needed.update(node.bottoms)
            nodes.append(node)
    outputs = tuple(dict.fromkeys(v for v in values if any(v in node.tops for node in nodes)))
    return replace(net, nodes=tuple(reversed(nodes)), outputs=outputs)


def _groups_of(config: Compile) -> tuple[OptimizerGroup, ...]:
    """The optimizers of a compile block. Raises UsageError for two of one name."""
    if isinstance(config.optimizer, Optimizer):
        return (OptimizerGroup(ONLY_OPTIMIZER, config.optimizer, ("**",)),)
    groups: list[OptimizerGroup] = []
    for block in config.optimizer:
        span = find_span(block, "layers") or find_span(block)
        if any(block.short_name == group.name for group in groups):
            with located(span):
                raise UsageError(
                    f"two optimizers are called {block.short_name!r}: give one of them a name of its own, "
                    'optimizer { name: "..."  layers: ...  type: ... }'
                )
        groups.append(OptimizerGroup(block.short_name, block.type, block.layers, span))
    return tuple(groups)


def _describe_steps(steps: Sequence[TrainingStep]) -> str:
    return "; ".join(f"{step.name}: {', '.join(step.weights)}" for step in steps)
