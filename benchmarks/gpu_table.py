"""The GPU's table: a line for each net, training or inference, precision and batch size. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEADERS = ("net", "what", "precision", "batch", "img/s", "autotune", "fed img/s", "predicted", "best of torch", "ratio",
           "goal", "MiB", "torch MiB", "the others, remarks")  # fmt: skip
COLUMNS = f"| {' | '.join(HEADERS)} |"
RULE = f"| {' | '.join(['---'] * len(HEADERS))} |"
#: names of seconds in a result: ours, ours with kernels chosen by timing, what `benchmarks.gpu_roofline` predicts
OURS, AUTOTUNED, PREDICTED = "prototorch", "prototorch autotune", "predicted"

#: how much faster than a peer training is to be, by net and peer; "best": than the fastest of PyTorch's modes. Where
#: launches dominate, PyTorch's own CUDA graph is at the same limit
SPEEDUP_GOALS: dict[str, dict[str, float]] = {
    "lenet": {"torch eager": 5.0, "torch graph": 1.0},
    "resnet50": {"best": 1.5},
}
DEFAULT_GOALS = {"best": 1.2}
#: samples a second that training in bf16 with a batch of 256 is to reach
RATE_GOALS = {"resnet50": 5000.0, "alexnet": 20000.0}


def peers_of(seconds: Mapping[str, float]) -> list[tuple[float, str]]:
    """PyTorch's modes with their seconds, the fastest first."""
    return sorted((s, n) for n, s in seconds.items() if n.startswith("torch"))


def describe_goals(net: str, what: str, precision: str, batch: int, seconds: Mapping[str, float]) -> str:
    """Each goal of a row that can be judged, with "yes" or "no"."""
    ours = min((seconds[n] for n in (OURS, AUTOTUNED) if n in seconds), default=None)
    if ours is None or what != "train":
        return ""
    texts = []
    for peer, goal in SPEEDUP_GOALS.get(net, DEFAULT_GOALS).items():
        theirs = peers_of(seconds)[0][0] if peer == "best" and peers_of(seconds) else seconds.get(peer)
        if theirs is not None:
            verdict = "yes" if theirs / ours >= goal else "**no**"
            texts.append(f"{goal:g}x {peer.removeprefix('torch ')} {verdict}")
    if net in RATE_GOALS and precision == "bf16" and batch == 256:
        texts.append(f"{RATE_GOALS[net]:,.0f}/s {'yes' if batch / ours >= RATE_GOALS[net] else '**no**'}")
    return ", ".join(texts)


def format_row(net: str, what: str, precision: str, batch: int, result: Mapping[str, Any]) -> str:
    """A cell as a line of the table. The ratio is the time of PyTorch's fastest mode over that of our faster one."""
    seconds, bytes_used = result.get("seconds", {}), result.get("bytes", {})

    def rate(name: str) -> str:
        return f"{batch / seconds[name]:,.0f}" if name in seconds else ""

    def mebibytes(name: str) -> str:
        return f"{bytes_used[name] / 2**20:,.0f}" if name in bytes_used else ""

    peers = peers_of(seconds)
    ours = min((seconds[n] for n in (OURS, AUTOTUNED) if n in seconds), default=None)
    best = f"{rate(peers[0][1])} ({peers[0][1].removeprefix('torch ')})" if peers else ""
    ratio = f"{peers[0][0] / ours:.2f}" if peers and ours is not None else ""
    more = [n for n in seconds if n.startswith(f"{OURS} ") and n != AUTOTUNED]
    others = ", ".join(f"{n.removeprefix('torch ')} {rate(n)}" for n in [*(n for _, n in peers[1:]), *more])
    tail = "; ".join([others, *result.get("remarks", [])]).strip("; ").replace("|", "/").replace("\n", " ")
    cells = (
        net,
        what,
        precision,
        str(batch),
        rate(OURS) or "failed",
        rate(AUTOTUNED),
        rate("fed"),
        rate(PREDICTED),
        best,
        ratio,
        describe_goals(net, what, precision, batch, seconds),
        mebibytes(OURS),
        mebibytes(peers[0][1]) if peers else "",
        tail,
    )
    return f"| {' | '.join(cells)} |"


def merge_results(results: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Several measurements of one cell, with different contenders, as one; a later one counts."""
    merged: dict[str, Any] = {"seconds": {}, "bytes": {}, "remarks": []}
    for result in results:
        merged["seconds"].update(result.get("seconds", {}))
        merged["bytes"].update(result.get("bytes", {}))
        merged["remarks"] += [r for r in result.get("remarks", []) if r not in merged["remarks"]]
    return merged


def row_key(line: str) -> str:
    """Which cell a line is about: net, training or inference, precision, batch."""
    return "|".join(line.split("|")[1:5])
