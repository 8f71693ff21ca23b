"""A profile as tables: the longest kernels, the ops by family, and where a step is slower than predicted."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.device.kernel_trace import Replay

MOST = 15
LONG_GAP = 20.0  # microseconds


@dataclass(frozen=True)
class PredictedLaunch:
    """What the plan predicts of one launch of the executor: its op, layer and phase, seconds, bytes and operations."""

    op: str
    layer: str
    phase: str
    seconds: float = 0.0
    nbytes: float = 0.0
    flops: float = 0.0


@dataclass
class _Total:
    microseconds: float = 0.0
    kernels: int = 0
    labels: dict[str, None] = field(default_factory=dict)

    def add(self, microseconds: float, label: str) -> None:
        self.microseconds += microseconds
        self.kernels += 1
        self.labels[label] = None


def profile_lines(title: str, replay: Replay, predictions: Mapping[str, PredictedLaunch]) -> Iterator[str]:
    """The lines of the summary. predictions: by the label of a launch."""
    gaps = replay.gaps()
    long_gaps = [g for g in gaps if g > LONG_GAP]
    predicted = sum(p.seconds for p in predictions.values()) * 1e6
    yield (
        f"{title}: {replay.span:,.0f} us for {len(replay.kernels)} kernels of which {replay.busy:,.0f} us are busy; "
        f"gaps {sum(gaps):,.0f} us, median {statistics.median(gaps) if gaps else 0:.1f} us, "
        f"{len(long_gaps)} longer than {LONG_GAP:.0f} us ({sum(long_gaps):,.0f} us); "
        f"predicted {predicted:,.0f} us"
    )
    unknown = [k for k in replay.kernels if k.label not in predictions]
    if unknown:
        names = ", ".join(dict.fromkeys(_short(k.name, 40) for k in unknown[:20]))
        yield f"of no known launch: {len(unknown)} kernels, {sum(k.duration for k in unknown):,.0f} us: {names}"
    launches = sum_by_launch(replay)
    yield from _kernel_table(replay, launches, predictions)
    yield from _op_table(replay, launches, predictions)
    yield from _miss_table(launches, predictions)


def sum_by_launch(replay: Replay) -> dict[str, float]:
    """Microseconds of all kernels of each launch, by its label."""
    found: dict[str, float] = defaultdict(float)
    for one in replay.kernels:
        found[one.label] += one.duration
    return dict(found)


def _kernel_table(
    replay: Replay, launches: Mapping[str, float], predictions: Mapping[str, PredictedLaunch]
) -> Iterator[str]:
    totals: dict[str, _Total] = defaultdict(_Total)
    longest: dict[str, tuple[float, str]] = {}
    for one in replay.kernels:
        totals[one.name].add(one.duration, one.label)
        longest[one.label] = max(longest.get(one.label, (0.0, "")), (one.duration, one.name))
    everything = sum(t.microseconds for t in totals.values())
    yield ""
    yield "| kernel | op, layers | times | us | share | predicted us | GB/s | TFLOP/s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, total in sorted(totals.items(), key=lambda item: -item[1].microseconds)[:MOST]:
        # the bytes and operations of an op count for the longest of its kernels
        own = [label for label in total.labels if label in predictions and longest[label][1] == name]
        yield (
            f"| {_short(name)} | {_describe([predictions[n] for n in total.labels if n in predictions])} "
            f"| {total.kernels} | {total.microseconds:,.1f} | {total.microseconds / everything:.1%} "
            f"| {_rates(own, launches, predictions)} |"
        )


def _op_table(
    replay: Replay, launches: Mapping[str, float], predictions: Mapping[str, PredictedLaunch]
) -> Iterator[str]:
    families: dict[str, _Total] = defaultdict(_Total)
    for one in replay.kernels:
        known = predictions.get(one.label)
        families[f"{known.op} ({known.phase})" if known else "?"].add(one.duration, one.label)
    everything = sum(t.microseconds for t in families.values())
    yield ""
    yield "| op | launches | kernels | us | share | predicted us | GB/s | TFLOP/s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, total in sorted(families.items(), key=lambda item: -item[1].microseconds)[:MOST]:
        labels = [label for label in total.labels if label in predictions]
        yield (
            f"| {name} | {len(total.labels)} | {total.kernels} | {total.microseconds:,.1f} "
            f"| {total.microseconds / everything:.1%} | {_rates(labels, launches, predictions)} |"
        )


def _miss_table(launches: Mapping[str, float], predictions: Mapping[str, PredictedLaunch]) -> Iterator[str]:
    yield ""
    yield "| furthest above the prediction | us | predicted us | times | GB/s | TFLOP/s |"
    yield "| --- | --- | --- | --- | --- | --- |"
    over = sorted(
        (predictions[label].seconds * 1e6 - us, label) for label, us in launches.items() if label in predictions
    )
    for difference, label in over[:MOST]:
        if difference >= 0:
            return
        one, us = predictions[label], launches[label]
        times = f"{us / (one.seconds * 1e6):.1f}" if one.seconds else ""
        predicted, *rates = _rates([label], launches, predictions).split(" | ")
        yield f"| {one.phase} {one.op} {one.layer} | {us:,.1f} | {predicted} | {times} | {' | '.join(rates)} |"


def _rates(labels: Sequence[str], launches: Mapping[str, float], predictions: Mapping[str, PredictedLaunch]) -> str:
    """Predicted microseconds, and the bytes and operations a second that were reached."""
    us = sum(launches[label] for label in labels)
    if not us:
        return " |  | "
    chosen = [predictions[label] for label in labels]
    flops = sum(p.flops for p in chosen) / us / 1e6
    return (
        f"{sum(p.seconds for p in chosen) * 1e6:,.1f} | {sum(p.nbytes for p in chosen) / us / 1e3:,.0f} "
        f"| {f'{flops:,.0f}' if flops >= 1 else ''}"
    )


def _describe(launches: Sequence[PredictedLaunch], most: int = 2) -> str:
    """The ops, and the first layers."""
    if not launches:
        return "?"
    ops = ", ".join(dict.fromkeys(f"{p.phase} {p.op}" for p in launches))
    layers = list(dict.fromkeys(p.layer for p in launches if p.layer))
    more = f" and {len(layers) - most} more" if len(layers) > most else ""
    return f"{ops}: {', '.join(layers[:most])}{more}" if layers else ops


def _short(name: str, most: int = 70) -> str:
    name = name.replace("|", "/").removeprefix("void ")
    return name if len(name) <= most else f"{name[: most - 20]}...{name[-17:]}"
