"""What a step should take on an H200: a prediction from the plan alone, without a GPU. It is no measurement.

    python -m benchmarks.gpu_predicted --rows resnet50,alexnet --precision bf16 --batch 256
    python -m benchmarks.gpu_predicted --what infer --batch 1 --steps 20

The plan is made as it would be for the GPU, and each launch is counted with the bytes it reads and writes (see
gpu_recorded.py). A launch takes `NODE`, and the longer of its bytes at `BYTES` and its product at the rate of its
type. Nothing is said of instructions, of caches or of how well cuDNN's engines do: a kernel that is slower than this
has something else to tell.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu_recorded import RecordingDevice, Started, Told
from benchmarks.ours import model_of
from benchmarks.rows import INFERENCE, NETS_MEASURED, TRAINING, Row, row_of
from prototorch.backends.cuda.backend import CudaBackend, Work
from prototorch.engine.variables import Variables
from prototorch.graph.cost import Cost, cost
from prototorch.graph.describe import PlannedStep, describe
from prototorch.graph.plan import Plan
from prototorch.graph.record import Value
from prototorch.spec import Spec
from prototorch.train.program import PREDICT, TRAIN, Program

#: seconds of a kernel as a node of a CUDA graph, of those that wait for each other: 1.5 to 2 microseconds
NODE = 1.7e-6
#: bytes a second: 4.8e12 by the datasheet, 4.3e12 of a plain copy as PyTorch does it
BYTES = 4.0e12
#: operations a second by precision: dense bf16 989e12 by the datasheet, 770e12 to 800e12 of one large product
RATES = {"bf16": 650e12, "fp16": 650e12, "tf32": 325e12, "fp32": 60e12}


@dataclass
class Part:
    """A step of the plan with what it starts. ``least`` is what its op must read and write at least."""

    told: PlannedStep
    started: list[Started]
    least: Cost
    seconds: float = 0.0

    @property
    def nbytes(self) -> float:
        """Bytes that travel."""
        return sum(s.nbytes for s in self.started)


@dataclass
class Prediction:
    """A whole step."""

    net: str
    what: str
    precision: str
    batch: int
    parts: list[Part] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all parts, one after another."""
        return sum(p.seconds for p in self.parts)

    @property
    def launches(self) -> int:
        """Kernels."""
        return sum(len(p.started) for p in self.parts)

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.batch / self.seconds

    def kernels(self) -> dict[str, list[tuple[Started, float]]]:
        """What is started by family and name, with its seconds, those that take the longest first."""
        made: dict[str, list[tuple[Started, float]]] = {}
        for part in self.parts:
            for one in part.started:
                made.setdefault(f"{part.told.kernel or part.told.op}/{one.name}", []).append(
                    (one, seconds(one, self.precision))
                )
        return dict(sorted(made.items(), key=lambda item: -sum(s for _, s in item[1])))


def seconds(one: Started, precision: str) -> float:
    """The time of a launch."""
    kind = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32" if precision != "fp32" else "fp32"}
    rate = RATES[kind.get(one.factors, "fp32")]
    return NODE + max(one.nbytes / BYTES, one.flops / rate)


def predicted(net: str, what: str, precision: str, batch: int) -> Prediction:
    """The prediction for a row."""
    row = row_of(net)
    device = RecordingDevice(precision)
    plan, backend = _plan(row, what, batch, device)
    made = Prediction(net, what, precision, batch, parts(plan, backend, device))
    for part in made.parts:
        part.seconds = sum(seconds(s, precision) for s in part.started)
    return made


def _plan(row: Row, what: str, batch: int, device: RecordingDevice) -> tuple[Plan, CudaBackend]:
    model, backend = model_of(row, 1), CudaBackend(device)  # type: ignore[arg-type]
    program = Program(model.net, Variables(), backend, model.compile_block)
    specs = {model.inputs[0]: Spec((batch, *row.shape), "int32" if row.numbers else "float32")}
    return program.plan(TRAIN if what == TRAINING else PREDICT, specs, create=False), backend


class _Arrays:
    """The arrays of a plan, at addresses that tell them apart."""

    def __init__(self, plan: Plan):
        self.plan, self.made, self.states, self.end = plan, dict[int, Told](), dict[str, Told](), 1 << 50

    def of(self, value: Value) -> Told:
        """The array of a value."""
        if id(value) not in self.made:
            place, spec = self.plan.places[id(value)], value.spec
            address = place.offset
            if place.kind != "arena":
                self.end += 1 << 40
                address = self.end
            if place.kind == "state":
                address = self.states.setdefault(place.name, Told(spec.shape, spec.dtype, address)).address
            self.made[id(value)] = Told(spec.shape, spec.dtype, address)
        return self.made[id(value)]


def parts(plan: Plan, backend: CudaBackend, device: RecordingDevice) -> list[Part]:
    """The steps of a plan with what they start, as the engine strings them (`engine/captured.py`): what follows from
    the weights alone is left out, updates are made together, and a training step has the check of its loss."""
    arrays, made = _Arrays(plan), list[Part]()
    updates: list[tuple[PlannedStep, Work, Any, Any, Cost]] = []
    for step, told in zip(plan.steps, describe(plan, backend, "").steps, strict=True):
        ins, outs = tuple(v.spec for v in step.inputs), tuple(v.spec for v in step.outputs)
        least = cost(step.node.op, ins, outs, step.node.attrs)
        given, into = [arrays.of(v) for v in step.inputs], [arrays.of(v) for v in step.outputs]
        if told.phase == "once":
            continue
        run = backend.prepare(step.node.op, ins, outs, step.node.attrs)
        if step.node.phase == "update":
            updates.append((told, run, given, into, least))  # type: ignore[arg-type]
            continue
        made.append(Part(told, _started(run, given, into, told, least, device), least))
    if updates:
        made.append(Part(_own("check of the loss"), [Started("check_loss", 8)], Cost()))
        made += _updates(updates, backend, device)
    for states in [[n for n, _ in plan.copies if (n in plan.gated) is updated] for updated in (False, True)]:
        if states:
            moved = 2 * sum(plan.states[n].spec.nbytes for n in states)
            made.append(Part(_own("new states"), [Started("copy_all", moved)], Cost(0, moved)))
    return made


def _own(name: str) -> PlannedStep:
    return PlannedStep(0, "update", name, (), name, (name,), "device", "device", (), ())


def _started(run: Any, given: Sequence[Told], into: Sequence[Told], told: PlannedStep, least: Cost,
             device: RecordingDevice) -> list[Started]:  # fmt: skip
    if told.level == "plain":
        return [Started(f"plain {told.op}", least.nbytes)]
    run.run(given, into)
    found = device.taken([*given, *into])
    if len(found) == 1 and not found[0].flops:  # an op may not touch the whole of its arrays; products of our own
        factors = "float32" if "matmul" in told.members else ""
        return [Started(found[0].name, least.nbytes, least.flops if factors else 0, factors)]
    return found


def _updates(calls: Sequence[tuple[PlannedStep, Work, Any, Any, Cost]], backend: CudaBackend,
             device: RecordingDevice) -> list[Part]:  # fmt: skip
    known = {id(run): (told, least) for told, run, _, _, least in calls}
    left = sum((least for _, _, _, _, least in calls), Cost())
    made, together = list[Part](), list[Any]()
    for run, given, into in backend.together([(run, given, into) for _, run, given, into, _ in calls]):
        if id(run) not in known:
            together.append((run, given, into))
            continue
        told, least = known[id(run)]
        left += Cost(-least.flops, -least.nbytes)
        made.append(Part(told, _started(run, given, into, told, least, device), least))
    for run, given, into in together:
        run.run(given, into)
        found = [Started(s.name, left.nbytes / len(together)) for s in device.taken([])]
        made.append(Part(_own("updates"), found, Cost(left.flops // len(together), left.nbytes // len(together))))
    return made


# ---------------------------------------------------------------- the page


def line(p: Prediction) -> str:
    """A row of the first table."""
    moved, least = sum(x.nbytes for x in p.parts), sum(x.least.nbytes for x in p.parts)
    flops = sum(s.flops for x in p.parts for s in x.started)
    return (f"| {p.net} | {p.what} | {p.precision} | {p.batch} | {p.launches} | {moved / 1e9:,.2f} "
            f"| {least / 1e9:,.2f} | {flops / 1e9:,.0f} | {p.seconds * 1e3:,.3f} | {p.rate:,.0f} |")  # fmt: skip


#: least: each op reads its inputs and writes its outputs once
HEAD = (
    "| net | what | precision | batch | kernels | GB | least GB | GFLOP | ms | samples/s |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def details(p: Prediction, steps: int) -> Iterable[str]:
    """By kernel, and the steps that take the longest."""
    yield f"\n**{p.net}, {p.what}, {p.precision}, batch {p.batch}**\n"
    yield "| kernel | times | GB | GFLOP | ms | share |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, found in list(p.kernels().items())[:steps]:
        moved, flops = sum(s.nbytes for s, _ in found), sum(s.flops for s, _ in found)
        time = sum(t for _, t in found)
        yield (f"| {name} | {len(found)} | {moved / 1e9:,.3f} | {flops / 1e9:,.0f} | {time * 1e3:,.3f} "
               f"| {time / p.seconds:.1%} |")  # fmt: skip
    yield "\n| layer | ops | kernels | MB | ms |"
    yield "| --- | --- | --- | --- | --- |"
    for part in sorted(p.parts, key=lambda x: -x.seconds)[:steps]:
        ops = [f"{n} {m}" if (n := part.told.members.count(m)) > 1 else m for m in dict.fromkeys(part.told.members)]
        yield (f"| {part.told.layer or '-'} | {part.told.phase} {' + '.join(ops)} | {len(part.started)} "
               f"| {part.nbytes / 1e6:,.1f} | {part.seconds * 1e3:,.4f} |")  # fmt: skip


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(NETS_MEASURED))
    parser.add_argument("--what", default=TRAINING, help=f"{TRAINING} and {INFERENCE}")
    parser.add_argument("--precision", default="bf16", help="of bf16, fp16, tf32, fp32")
    parser.add_argument("--batch", default="256")
    parser.add_argument("--steps", type=int, default=0, help="how many kernels and steps of each row are listed")
    args = parser.parse_args()
    found = [
        predicted(net, what, precision, int(batch))
        for net in args.rows.split(",")
        for what in args.what.split(",")
        for precision in args.precision.split(",")
        for batch in args.batch.split(",")
    ]
    print("\n".join([*HEAD, *map(line, found)]))
    for one in found if args.steps else ():
        print("\n".join(details(one, args.steps)))


if __name__ == "__main__":
    main()
