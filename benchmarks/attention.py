"""Measure scaled dot product attention, forward and backward: milliseconds and peak memory, beside PyTorch.

    python -m benchmarks.attention                      all rows
    python -m benchmarks.attention --turns 5 --json
    python -m benchmarks.attention --device cuda --dtype bfloat16

One sample, 4 heads of 64, float32 (in tf32 on a GPU, where a sample is a batch of 16 and memory is what the process has
taken of the GPU's). Each figure is of a process of its own, the sides in alternation: the median of
five passes behind two that warm up, and the peak of anonymous memory (RssAnon, read every 2 ms) beyond what the process
had with the inputs. The sides: ``compiled`` is `prototorch.compile` of
`prototorch.nn.functional.scaled_dot_product_attention`, ``eager`` the same function as it is, ``torch`` PyTorch's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from benchmarks.isolated_process import run_isolated
from benchmarks.weight_loading import AnonymousMemory

SIDES = ("compiled", "eager", "torch")
#: steps, whether causal, dropout
ROWS = [(2048, False, 0.0), (2048, True, 0.0), (2048, True, 0.1), (4096, False, 0.0), (4096, True, 0.0)]
LIMIT = 300.0  # seconds of a process
BATCH_ON_GPU = 16


def run_side(
    side: str, steps: int, causal: bool, dropout: float, device: str = "cpu", dtype: str = "float32"
) -> dict[str, float]:
    """The figures of one side, in this process."""
    if side == "torch":
        import torch as module

        module.backends.cuda.matmul.allow_tf32 = True  # as ours
    else:
        import prototorch as module  # type: ignore[no-redef]
    module.manual_seed(0)
    shape = (1 if device == "cpu" else BATCH_ON_GPU, 4, steps, 64)
    free = 0 if device == "cpu" else module.cuda.mem_get_info()[0]
    inputs = [module.randn(*shape, device=device, dtype=getattr(module, dtype)) for _ in range(3)]
    weight = module.randn(*shape, device=device, dtype=getattr(module, dtype))
    for x in inputs:
        x.requires_grad_()

    def attend(q: Any, k: Any, v: Any) -> Any:
        return module.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)

    function = module.compile(attend) if side == "compiled" else attend
    times = []
    with AnonymousMemory() as memory:
        for _ in range(7):
            begin = time.perf_counter()
            (function(*inputs) * weight).sum().backward()
            if device != "cpu":
                module.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            for x in inputs:
                x.grad = None
    nbytes = memory.peak if device == "cpu" else free - module.cuda.mem_get_info()[0]
    return {"ms": statistics.median(times[2:]) * 1e3, "mib": nbytes / 2**20}


def measure(turns: int, device: str = "cpu", dtype: str = "float32") -> list[dict[str, Any]]:
    """A row for each case: medians of all sides."""
    rows = []
    for case in ROWS:
        figures: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(turns):
            for side in SIDES:
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.attention",
                    "--side",
                    side,
                    "--device",
                    device,
                    "--dtype",
                    dtype,
                    json.dumps(case),
                ]
                result = run_isolated(command, LIMIT)
                assert result.code == 0, result.err[-2000:]
                figures[side].append(json.loads(result.out.splitlines()[-1]))
        row: dict[str, Any] = dict(zip(("steps", "causal", "dropout"), case, strict=True))
        for side, found in figures.items():
            row[side] = {key: statistics.median(f[key] for f in found) for key in ("ms", "mib")}
        rows.append(row)
    return rows


def print_table(rows: list[dict[str, Any]]) -> None:
    """The rows as a table in Markdown."""
    print("| steps | causal | dropout | compiled, ms (MiB) | eager | PyTorch | ratio of compiled |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        cells = [str(row["steps"]), "yes" if row["causal"] else "no", str(row["dropout"])]
        cells += [f"{row[side]['ms']:.0f} ({row[side]['mib']:.0f})" for side in SIDES]
        print(f"| {' | '.join(cells)} | {row['torch']['ms'] / row['compiled']['ms']:.2f} |")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("case", nargs="?", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(run_side(options.side, *json.loads(options.case), options.device, options.dtype)))
    else:
        rows = measure(options.turns, options.device, options.dtype)
        print(json.dumps(rows)) if options.json else print_table(rows)


if __name__ == "__main__":
    main()
