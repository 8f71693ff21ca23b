"""Write the page of predictions for an H200 and an H100, from the plans as they are now.

python -m benchmarks.gpu_roofline_page > benchmarks/results/gpu-predicted-DATE.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.gpu_rates import BANDWIDTH_SHARES, BEST, CARDS, SOBER
from benchmarks.gpu_roofline import HEAD, format_details, format_row, predict
from benchmarks.workloads import GPU_WORKLOADS, INFERENCE, TRAINING

__all__ = ["page"]

DETAILED = ("lenet", "alexnet", "resnet50", "transformer")  # nets whose kernels and steps are listed


def _rates() -> Iterator[str]:
    columns = [CARDS[card][kind] for kind in (BEST, SOBER) for card in ("H200", "H100")]

    def row(name: str, values: Iterable[str], source: str) -> str:
        return f"| {name} | {' | '.join(values)} | {source} |"

    yield row(
        "memory",
        (f"{r.bytes_per_second / 1e12:.1f} TB/s" for r in columns),
        "a plain copy moved 4.3 and 3.0 TB/s; sober 0.7 of it",
    )
    for name, share in BANDWIDTH_SHARES.items():
        yield row(
            f"memory, by the kernel `{name}`",
            (f"{r.bytes_per_second * share / 1e12:.1f} TB/s" for r in columns),
            "a block for each row waits between its sums",
        )
    for kind, source in (
        ("bf16", "one large product reached 788 and 798; convolutions have a mean of 250 to 330"),
        ("tf32", "half of bf16"),
        ("fp32", "67 by the datasheet"),
    ):
        yield row(f"{kind} products", (f"{r.flops_per_second[kind] / 1e12:.0f} TFLOP/s" for r in columns), source)
    yield row("start of a launch", (f"{r.launch_seconds * 1e6:g} us" for r in columns), "a node of a CUDA graph")
    yield row("of a product", (f"{r.product_seconds * 1e6:g} us" for r in columns), "prologue, last wave, split sums")


def _tables(rows: Sequence[str], batches: Sequence[int]) -> Iterator[str]:
    for card in CARDS:
        yield f"## {card}\n"
        yield from HEAD
        for net in rows:
            for what, precisions in ((TRAINING, ("bf16", "tf32")), (INFERENCE, ("bf16",))):
                for precision in precisions:
                    yield from (format_row(predict(net, what, precision, batch, card)) for batch in batches)
        yield ""
    yield "`least GB`: each op of the plan, a fused group being one, reads its inputs and writes its outputs once."


def _details(rows: Sequence[str], steps: int) -> Iterator[str]:
    for net in rows:
        if net in DETAILED:
            yield from format_details(predict(net, TRAINING, "bf16", 256), steps)


def page(rows: Sequence[str] = GPU_WORKLOADS, batches: Sequence[int] = (256, 32), steps: int = 15) -> str:
    """The page: `gpu_roofline_page.md` with a table for each card, and where the time of some nets goes."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    parts = {"rates": _rates(), "tables": _tables(rows, batches), "details": _details(rows, steps)}
    for name, lines in parts.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines))
    return text


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join((*GPU_WORKLOADS, "mobilenet_v2")))
    print(page(parser.parse_args().rows.split(",")), end="")


if __name__ == "__main__":
    main()
