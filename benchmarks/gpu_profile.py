"""Where the time of a training step goes, kernel by kernel, beside what its plan predicts.

    python -m benchmarks.gpu_profile resnet50 --precision bf16 --batch 256 --folder DIR
    python -m benchmarks.gpu_profile resnet50 --sample DIR      tables from traces that were recorded before

CUPTI records the kernels, by torch.profiler in this process: once in a run kernel by kernel, which tells the launch of
the plan that each kernel belongs to, and once in replays of the captured graph, whose times are shown. Where CUPTI
records nothing, the times are those of CUDA's events around each launch, without gaps.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.device.kernel_trace import (
    RANGE,
    Replay,
    TracedKernel,
    label_kernels,
    median_replay,
    read_events,
    read_kernels,
    split_replays,
    transfer_labels,
)
from benchmarks.device.profile_tables import PredictedLaunch, profile_lines
from benchmarks.gpu_ours import OursOnGpu
from benchmarks.gpu_rates import find_card
from benchmarks.gpu_roofline import predict
from benchmarks.workloads import TRAINING, find_workload

REPLAYS = 5
DEVICE_OPS = {"copy": "new states"}  # a launch of the executor's own -> its name in a prediction
LAUNCH_TRACE, REPLAY_TRACE, PREDICTIONS = "launches.json", "replays.json", "predictions.json"


def predict_launches(records: list[Any], net: str, precision: str, batch: int, card: str) -> dict[str, PredictedLaunch]:
    """What the plan predicts of each launch of the executor, by the launch's label; those that the prediction does not
    know by op, layer and phase have no seconds."""
    known: dict[tuple[str, str, str], deque[Any]] = defaultdict(deque)
    for part in predict(net, TRAINING, precision, batch, card).steps:
        layer = "" if part.step.kernel == "device" else part.step.layer  # one launch for all weights or states
        known[part.step.op, layer, part.step.phase].append(part)
    found = {}
    for number, record in enumerate(records):
        op = DEVICE_OPS.get(record.op, record.op)
        parts = known[op, record.scope, record.phase] or known[op, "", record.phase]
        part = parts.popleft() if parts else None
        label = f"{number} {record.phase} {record.op} {record.scope}"
        found[label] = PredictedLaunch(
            record.op,
            record.scope,
            record.phase,
            part.sober_seconds if part else 0.0,
            part.nbytes if part else 0.0,
            sum(launch.flops for launch in part.launches) if part else 0.0,
        )
    return found


def record_trace(path: Path, work: Callable[[], None]) -> None:
    """Run ``work`` under torch.profiler, and keep the trace."""
    import torch

    torch.cuda.synchronize()  # the profiler needs PyTorch's context
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        work()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))


def record_step(net: str, precision: str, batch: int, folder: Path) -> Iterator[str]:
    """Record both traces and the predictions in ``folder``; lines about what was recorded."""
    import torch

    one = OursOnGpu(find_workload(net), "cuda", precision)
    one.feed(*find_workload(net).batch(batch))
    step = one.make_step(TRAINING)
    one.synchronize()
    runner = one.runner
    if runner.graph is None:
        yield f"the step was not captured: {runner.capture_failure}"
    records = runner.launches[runner.plan.setup_steps :]
    card = torch.cuda.get_device_name()
    try:
        find_card(card)
    except ValueError as error:
        yield f"{error}: the prediction is that of an H200"
        card = "H200"
    predictions = predict_launches(records, net, precision, batch, card)
    write_predictions(folder, predictions)

    def launch_each() -> None:
        with one.backend.run_context():
            for record, label in zip(records, predictions, strict=True):
                with torch.profiler.record_function(RANGE + label):
                    record.launch()
                    one.synchronize()

    def replay() -> None:
        for _ in range(REPLAYS):
            step()
            one.synchronize()

    record_trace(folder / "first.json", lambda: None)  # CUPTI starts here
    (folder / "first.json").unlink(missing_ok=True)
    record_trace(folder / LAUNCH_TRACE, launch_each)
    record_trace(folder / REPLAY_TRACE, replay)
    slowest = one.slowest_ops(12)
    yield f"by CUDA's events around each launch: {slowest}"


def write_predictions(folder: Path, predictions: dict[str, PredictedLaunch]) -> None:
    """Keep them beside the traces, so that the tables can be made again."""
    rows = {label: [p.op, p.layer, p.phase, p.seconds, p.nbytes, p.flops] for label, p in predictions.items()}
    (folder / PREDICTIONS).write_text(json.dumps(rows), encoding="utf-8")


def tables(title: str, folder: Path) -> Iterator[str]:
    """The tables of the traces in a folder."""
    rows = json.loads((folder / PREDICTIONS).read_text(encoding="utf-8"))
    predictions = {label: PredictedLaunch(*row) for label, row in rows.items()}
    labelled = label_kernels(read_events(folder / LAUNCH_TRACE))
    kernels = read_kernels(read_events(folder / REPLAY_TRACE))
    replays = split_replays(kernels, REPLAYS)
    yield (
        f"CUPTI: {len(labelled)} kernels and copies kernel by kernel, {len(kernels)} in {REPLAYS} replays of the "
        f"graph ({len(replays[0].kernels) if replays else 0} in each)"
    )
    if not labelled:
        yield "CUPTI has recorded no kernel: see the times by events above"
        return
    if replays:
        yield from profile_lines(title, transfer_labels(median_replay(replays), labelled), predictions)
        return
    yield "CUPTI has recorded no kernel of a replayed graph: these are the kernels one by one, each waited for"
    yield from profile_lines(title, Replay([k for k in labelled if isinstance(k, TracedKernel)]), predictions)


def compress_traces(folder: Path) -> None:
    """Traces of some megabytes become small files."""
    for name in (LAUNCH_TRACE, REPLAY_TRACE):
        path = folder / name
        path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where no kernel was recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=Path(), help="that the traces are written into")
    parser.add_argument("--sample", type=Path, help="read the traces of this folder, and record none")
    args = parser.parse_args(arguments)
    title = f"{args.net}, training in {args.precision}, batch {args.batch}"
    if args.sample:
        print(f"no GPU: tables from the recorded sample {args.sample}")
        print("\n".join(tables(title, args.sample)))
        return 0
    for line in record_step(args.net, args.precision, args.batch, args.folder):
        print(line, flush=True)
    lines = list(tables(title, args.folder))
    print("\n".join(lines))
    compress_traces(args.folder)
    return 0 if len(lines) > 2 else 1


if __name__ == "__main__":
    sys.exit(main())
