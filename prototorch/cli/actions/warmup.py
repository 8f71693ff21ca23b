"""What `prototorch warmup` does."""

from __future__ import annotations

from dataclasses import asdict

import click

from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model
from prototorch.engine.backends.cpu.native import kernel_cache
from prototorch.measure.warmup import warm_up


def run(
    files: tuple[str, ...],
    overrides: tuple[str, ...],
    batches: tuple[int, ...],
    phases: tuple[str, ...],
    clear: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.warmup`."""
    if files:
        kernel_cache.check_writable()
    removed_count = kernel_cache.clear() if clear else 0
    reports = [
        one
        for file in files
        for one in warm_up(open_model(file, add_device_overrides(overrides, threads)), phases, batches)
    ]
    if as_json:
        plans = [asdict(report) for report in reports]
        print_json({"removed": removed_count, "plans": plans, "kept": kernel_cache.describe()})
        return
    if clear:
        click.echo(f"removed {removed_count} kernels")
    for one in reports:
        click.echo(
            f"{one.model}, {one.phase}, batch {one.batch}: {one.compiled} kernels compiled, "
            f"{one.loaded} from disk, {one.seconds:.1f} s"
        )
    click.echo(f"kept: {kernel_cache.describe()}")
