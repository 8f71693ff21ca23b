"""What a step should take on an H200 or H100: a prediction from the plan alone, without a GPU. It is no measurement.

    python -m benchmarks.gpu_roofline --rows resnet50,alexnet --precision bf16 --batch 256
    python -m benchmarks.gpu_roofline --card H100 --what infer --batch 1 --steps 20

The plan is made as it would be for the GPU, and each launch is counted with the bytes it reads and writes (see
gpu_recording_device.py). A launch takes a start, and the longer of its bytes and its product at the card's rates: near
the best that is possible, and soberly (see gpu_rates.py). Nothing is said of instructions, of caches or of how well
cuDNN's engines do: a kernel that is slower than this has something else to tell.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu_rates import BEST, CARDS, SOBER, find_card, launch_seconds
from benchmarks.gpu_recording_device import ArrayDesc, LaunchCost, RecordingDevice
from benchmarks.prototorch_contender import build_model
from benchmarks.workloads import GPU_WORKLOADS, INFERENCE, TRAINING, Workload, find_workload
from prototorch.cuda.backend import CudaBackend
from prototorch.cuda.stream_kernel import StreamKernel
from prototorch.engine.backends.watching import find_watch
from prototorch.graph.cost import Cost, estimate_cost
from prototorch.graph.executable import make_executable
from prototorch.graph.ir import Value
from prototorch.graph.plan import Plan
from prototorch.graph.plan_printer import PlannedStep, describe_plan
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import PREDICT, TRAIN


@dataclass
class StepPrediction:
    """A step of the plan with what it starts. ``least`` is what its op must read and write at least; ``seconds`` at the
    card's best rates, ``sober_seconds`` at those to be expected."""

    step: PlannedStep
    launches: list[LaunchCost]
    least: Cost
    seconds: float = 0.0
    sober_seconds: float = 0.0

    @property
    def nbytes(self) -> float:
        """Bytes that travel."""
        return sum(s.nbytes for s in self.launches)


@dataclass
class Prediction:
    """A whole step on a card."""

    net: str
    what: str
    precision: str
    batch: int
    card: str = "H200"
    steps: list[StepPrediction] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all parts, one after another, at the best rates."""
        return sum(p.seconds for p in self.steps)

    @property
    def sober_seconds(self) -> float:
        """Of all parts, one after another, at the rates to be expected."""
        return sum(p.sober_seconds for p in self.steps)

    @property
    def launches(self) -> int:
        """Kernels."""
        return sum(len(p.launches) for p in self.steps)

    @property
    def rate(self) -> float:
        """Samples a second at the best rates."""
        return self.batch / self.seconds

    @property
    def sober_rate(self) -> float:
        """Samples a second at the rates to be expected."""
        return self.batch / self.sober_seconds

    def kernels(self) -> dict[str, list[tuple[LaunchCost, float]]]:
        """What is started by family and name, with its sober seconds, those that take the longest first."""
        rates = find_card(self.card)[SOBER]
        predictions: dict[str, list[tuple[LaunchCost, float]]] = {}
        for part in self.steps:
            for one in part.launches:
                predictions.setdefault(f"{part.step.kernel or part.step.op}/{one.name}", []).append(
                    (one, launch_seconds(one, self.precision, rates))
                )
        return dict(sorted(predictions.items(), key=lambda item: -sum(s for _, s in item[1])))


def predict(net: str, what: str, precision: str, batch: int, card: str = "H200") -> Prediction:
    """The prediction for a row. card: "H200", "H100", or the name of such a device. Raises ValueError for another."""
    row, rates = find_workload(net), find_card(card)
    device = RecordingDevice(precision)
    plan, backend = plan_of_row(row, what, batch, device)
    predictions = Prediction(net, what, precision, batch, card, predict_steps(plan, backend, device))
    for part in predictions.steps:
        part.seconds = sum(launch_seconds(s, precision, rates[BEST]) for s in part.launches)
        part.sober_seconds = sum(launch_seconds(s, precision, rates[SOBER]) for s in part.launches)
    return predictions


def plan_of_row(row: Workload, what: str, batch: int, device: RecordingDevice) -> tuple[Plan, CudaBackend]:
    """The plan of a row of the table for this device, and its backend."""
    model, backend = build_model(row, 1), CudaBackend(device)  # type: ignore[arg-type]
    program = PlanCache(model.net, Variables(), backend, model.compile_block)
    specs = {model.inputs[0]: Spec((batch, *row.shape), "int32" if row.vocabulary else "float32")}
    return program.plan(TRAIN if what == TRAINING else PREDICT, specs, create=False), backend


class _ArrayTable:
    """The arrays of a plan, at addresses that tell them apart."""

    def __init__(self, plan: Plan):
        self.plan, self.made, self.states, self.end = plan, dict[int, ArrayDesc](), dict[str, ArrayDesc](), 1 << 50

    def of(self, value: Value) -> ArrayDesc:
        """The array of a value."""
        if id(value) not in self.made:
            place, spec = self.plan.allocations[value], value.spec
            address = place.offset
            if place.kind != "arena":
                self.end += 1 << 40
                address = self.end
            if place.kind == "state":
                address = self.states.setdefault(place.name, ArrayDesc(spec.shape, spec.dtype, address)).address
            self.made[id(value)] = ArrayDesc(spec.shape, spec.dtype, address)
        return self.made[id(value)]


def predict_steps(plan: Plan, backend: CudaBackend, device: RecordingDevice) -> list[StepPrediction]:
    """The steps of a plan with what they start, as the engine strings them (`runtime/cuda_graph.py`): what follows from
    the weights alone is left out, updates are made together, and a training step has the checks of its gradients and of
    its loss."""
    arrays, predictions = _ArrayTable(plan), list[StepPrediction]()
    updates: list[tuple[PlannedStep, StreamKernel, Any, Any, Cost]] = []
    for step, planned_step in zip(plan.steps, describe_plan(plan, backend, "").steps, strict=True):
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        lower_bound = estimate_cost(step.node.op, ins, outs, step.node.attrs)
        inputs, outputs = [arrays.of(v) for v in step.inputs], [arrays.of(v) for v in step.outputs]
        if planned_step.phase == "setup":
            continue
        run = backend.prepare(step.node.op, ins, outs, step.node.attrs)
        if step.node.phase == "update":
            updates.append((planned_step, run, inputs, outputs, lower_bound))  # type: ignore[arg-type]
            continue
        predictions.append(
            StepPrediction(
                planned_step, _step_launches(run, inputs, outputs, planned_step, lower_bound, device), lower_bound
            )
        )
    if updates:
        watch = find_watch(make_executable(plan))
        nbytes = 0 if watch is None else sum(b.spec.nbytes for b in watch.operands)
        if nbytes:
            check = _device_step("check of the gradients")
            predictions.append(StepPrediction(check, [LaunchCost("check_finite", nbytes)], Cost(0, nbytes)))
        predictions.append(StepPrediction(_device_step("check of the loss"), [LaunchCost("check_step", 8)], Cost()))
        predictions += _fused_updates(updates, backend, device)
    for states in [
        [n for n, _ in plan.state_copies if (n in plan.guarded_states) is guarded] for guarded in (False, True)
    ]:
        if states:
            nbytes = 2 * sum(plan.states[n].spec.nbytes for n in states)
            predictions.append(
                StepPrediction(_device_step("new states"), [LaunchCost("copy_all", nbytes)], Cost(0, nbytes))
            )
    return predictions


def _device_step(name: str) -> PlannedStep:
    return PlannedStep(0, "update", name, (), name, (name,), "device", "device", (), ())


def _step_launches(
    run: Any,
    inputs: Sequence[ArrayDesc],
    outputs: Sequence[ArrayDesc],
    planned_step: PlannedStep,
    lower_bound: Cost,
    device: RecordingDevice,
) -> list[LaunchCost]:
    if planned_step.level == "plain":
        return [LaunchCost(f"plain {planned_step.op}", lower_bound.nbytes)]
    run.kernel(inputs, outputs)
    result = device.drain_launches([*inputs, *outputs])
    if len(result) == 1 and not result[0].flops:  # an op may not touch the whole of its arrays; products of our own
        factors = "float32" if "matmul" in planned_step.members else ""
        return [LaunchCost(result[0].name, lower_bound.nbytes, lower_bound.flops if factors else 0, factors)]
    return result


def _fused_updates(
    calls: Sequence[tuple[PlannedStep, StreamKernel, Any, Any, Cost]], backend: CudaBackend, device: RecordingDevice
) -> list[StepPrediction]:
    planned = {id(run): (planned_step, lower_bound) for planned_step, run, _, _, lower_bound in calls}
    remaining = sum((lower_bound for _, _, _, _, lower_bound in calls), Cost())
    predictions, together = list[StepPrediction](), list[Any]()
    for run, inputs, outputs in backend.fuse_updates([(run, inputs, outputs) for _, run, inputs, outputs, _ in calls]):
        if id(run) not in planned:
            together.append((run, inputs, outputs))
            continue
        planned_step, lower_bound = planned[id(run)]
        remaining += Cost(-lower_bound.flops, -lower_bound.nbytes)
        predictions.append(
            StepPrediction(
                planned_step, _step_launches(run, inputs, outputs, planned_step, lower_bound, device), lower_bound
            )
        )
    for run, inputs, outputs in together:
        run.kernel(inputs, outputs)
        result = [LaunchCost(s.name, remaining.nbytes / len(together)) for s in device.drain_launches([])]
        predictions.append(
            StepPrediction(
                _device_step("updates"),
                result,
                Cost(remaining.flops // len(together), remaining.nbytes // len(together)),
            )
        )
    return predictions


# ---------------------------------------------------------------- the page


def format_row(p: Prediction) -> str:
    """A row of the first table."""
    nbytes, lower_bound = sum(x.nbytes for x in p.steps), sum(x.least.nbytes for x in p.steps)
    flops = sum(s.flops for x in p.steps for s in x.launches)
    return (
        f"| {p.net} | {p.what} | {p.precision} | {p.batch} | {p.launches} | {nbytes / 1e9:,.2f} "
        f"| {lower_bound / 1e9:,.2f} | {flops / 1e9:,.0f} | {p.seconds * 1e3:,.3f} | {p.rate:,.0f} "
        f"| {p.sober_seconds * 1e3:,.3f} | {p.sober_rate:,.0f} |"
    )


#: least: each op reads its inputs and writes its outputs once
HEAD = (
    "| net | what | precision | batch | kernels | GB | least GB | GFLOP | best ms | samples/s | sober ms | samples/s |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def format_details(p: Prediction, steps: int) -> Iterable[str]:
    """By kernel, and the steps that take the longest."""
    yield f"\n**{p.net}, {p.what}, {p.precision}, batch {p.batch}**\n"
    yield "| kernel | times | GB | GFLOP | sober ms | share |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, result in list(p.kernels().items())[:steps]:
        nbytes, flops = sum(s.nbytes for s, _ in result), sum(s.flops for s, _ in result)
        time = sum(t for _, t in result)
        yield (
            f"| {name} | {len(result)} | {nbytes / 1e9:,.3f} | {flops / 1e9:,.0f} | {time * 1e3:,.3f} "
            f"| {time / p.sober_seconds:.1%} |"
        )
    yield "\n| layer | ops | kernels | MB | sober ms |"
    yield "| --- | --- | --- | --- | --- |"
    for part in sorted(p.steps, key=lambda x: -x.sober_seconds)[:steps]:
        ops = [f"{n} {m}" if (n := part.step.members.count(m)) > 1 else m for m in dict.fromkeys(part.step.members)]
        yield (
            f"| {part.step.layer or '-'} | {part.step.phase} {' + '.join(ops)} | {len(part.launches)} "
            f"| {part.nbytes / 1e6:,.1f} | {part.sober_seconds * 1e3:,.4f} |"
        )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(GPU_WORKLOADS))
    parser.add_argument("--what", default=TRAINING, help=f"{TRAINING} and {INFERENCE}")
    parser.add_argument("--precision", default="bf16", help="of bf16, fp16, tf32, fp32")
    parser.add_argument("--batch", default="256")
    parser.add_argument("--card", default="H200", choices=list(CARDS))
    parser.add_argument("--steps", type=int, default=0, help="how many kernels and steps of each row are listed")
    args = parser.parse_args()
    result = [
        predict(net, what, precision, int(batch), args.card)
        for net in args.rows.split(",")
        for what in args.what.split(",")
        for precision in args.precision.split(",")
        for batch in args.batch.split(",")
    ]
    print("\n".join([*HEAD, *map(format_row, result)]))
    for one in result if args.steps else ():
        print("\n".join(format_details(one, args.steps)))


if __name__ == "__main__":
    main()
