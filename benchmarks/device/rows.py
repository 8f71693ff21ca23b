"""Part 3: the cells of the GPU's table as steps, the most telling first, and the table that they make together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.device.step import Step, output_of
from benchmarks.gpu_table import COLUMNS, PREDICTED, RULE, format_row, merge_results

MARK = "CELL "
SOBER = "sober ms"
BATCH = 256
NETS = ("resnet50", "transformer", "alexnet", "lenet")
#: seconds at most: of ours with PyTorch's quick modes and then ours by autotune, of PyTorch's compiler. The first of
#: all nets in both precisions fit into the part whatever they take.
LIMITS = {"resnet50": (85, 110), "transformer": (60, 80), "alexnet": (50, 60), "lenet": (35, 50)}
#: what is measured of PyTorch in the first step of a row
QUICK = {
    "resnet50": ("torch channels_last", "torch graph"), "alexnet": ("torch channels_last", "torch graph"),
    "transformer": ("torch eager", "torch graph"), "lenet": ("torch eager", "torch channels_last", "torch graph"),
}  # fmt: skip


def _row(suffix: str, net: str, precision: str, contenders: tuple[str, ...], limit: float, least: float) -> Step:
    cell = {"name": net, "precision": precision, "batch": BATCH, "what": "train", "contenders": list(contenders),
            "rounds": 5, "min_seconds": 0.2}  # fmt: skip
    command = ("-m", "benchmarks.gpu", "--cell", json.dumps(cell))
    title = f"{net}, training in {precision}, batch {BATCH}: {', '.join(contenders)}"
    return Step(f"row-{net}-{precision}{suffix}", 3, title, limit, command, least=least, describe=describe_row)


def _rows() -> Iterator[Step]:
    for precision in ("bf16", "tf32"):
        for net in NETS:
            contenders = ("prototorch", *QUICK[net], "prototorch autotune")  # autotune may take longest
            yield _row("", net, precision, contenders, LIMITS[net][0], 20)
    yield _row("-candidates", "transformer", "bf16", ("prototorch candidates",), 50, 30)
    for precision in ("bf16", "tf32"):
        for net in NETS:
            yield _row("-compile", net, precision, ("torch compile",), LIMITS[net][1], 40)


def read_cell(folder: Path) -> dict[str, Any] | None:
    """What a row's step has found so far."""
    reports = [line[len(MARK) :] for line in output_of(folder) if line.startswith(MARK)]
    try:
        result: dict[str, Any] | None = json.loads(reports[-1]) if reports else None
    except ValueError:  # the process was ended while it wrote
        result = json.loads(reports[-2]) if len(reports) > 1 else None
    return result


def describe_row(folder: Path) -> list[str]:
    """Samples a second by contender, and the remarks; the end of the output where nothing was found."""
    found = read_cell(folder)
    if found is None or not found["seconds"]:
        return [*(found or {}).get("remarks", []), *output_of(folder)[-8:]]
    rates = ", ".join(f"{name} {BATCH / seconds:,.0f}/s" for name, seconds in found["seconds"].items())
    return [rates, *found["remarks"]]


def table_lines(
    steps: Iterable[Step], folder_of: Callable[[str], Path], predictions: Mapping[tuple[str, str, str, int], float]
) -> list[str]:
    """The table of all rows' steps: those of one cell are one line. predictions: seconds of a step by cell."""
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for step in steps:
        found = read_cell(folder_of(step.name))
        if step.name.startswith("row-") and found is not None:
            _, net, precision, *_ = step.name.split("-")
            cells.setdefault((net, precision), []).append(found)
    lines = []
    for (net, precision), results in cells.items():
        merged = merge_results(results)
        seconds = predictions.get((net, "train", precision, BATCH))
        if seconds is not None:
            merged["seconds"][PREDICTED] = seconds
        lines.append(format_row(net, "train", precision, BATCH, merged))
    return [COLUMNS, RULE, *lines] if lines else []


def read_predictions(results: Path, device: str) -> dict[tuple[str, str, str, int], float]:
    """Seconds of a step by net, phase, precision and batch, from the newest page of
    `benchmarks.gpu_roofline_page`: the sober milliseconds of the section "## CARD" whose card is part of the device's
    name; none where there is no such section."""
    pages = sorted(results.glob("gpu-predicted-*.md"))
    if not pages:
        return {}
    columns: list[str] = []
    is_device = False
    found: dict[tuple[str, str, str, int], float] = {}
    for line in pages[-1].read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            is_device = line[3:].strip().upper() in device.upper()
        if not is_device:
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "net" in cells and SOBER in cells:
            columns = cells
        elif columns and len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            try:
                key = row["net"], row["what"], row["precision"], int(row["batch"])
                found[key] = float(row[SOBER].replace(",", "")) / 1e3
            except (KeyError, ValueError):
                continue
        else:
            columns = []
    return found


ROWS = tuple(_rows())
