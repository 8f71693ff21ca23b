"""`prototorch warmup`: compile the kernels of models before they are needed."""

from __future__ import annotations

from dataclasses import asdict

import click

from prototorch.cli.options import (
    add_device_overrides,
    allow_python_option,
    allow_read_option,
    json_option,
    open_model,
    print_json,
    set_option,
    threads_option,
)
from prototorch.engine.backends.cpu.native import kernel_cache
from prototorch.measure.warmup import PREDICT, TEST, TRAIN, warm_up


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1)
@set_option
@allow_read_option
@allow_python_option
@click.option("--batch", "batches", type=click.IntRange(min=1), multiple=True,
              help="The batch size. Default: the fit block's, else 32. May be repeated.")  # fmt: skip
@click.option("--phase", "phases", type=click.Choice((TRAIN, TEST, PREDICT)), multiple=True,
              help="Default: all. May be repeated.")  # fmt: skip
@click.option("--clear", is_flag=True, help="First remove all kernels that are kept.")
@threads_option
@json_option
def command(files: tuple[str, ...], overrides: tuple[str, ...], batches: tuple[int, ...], phases: tuple[str, ...],
            clear: bool, threads: int | None, as_json: bool) -> None:  # fmt: skip
    """Compile the CPU's kernels for the steps of each FILE and keep them, so that a first step begins at once.

    Kernels are made for the sizes of a step: name the batch sizes that will be used; an epoch's last batch may be a
    smaller one. Without a FILE it says what is kept, and where.

    \b
    Examples:
      prototorch warmup lenet resnet50
      prototorch warmup my.proto --batch 1 --batch 16 --phase predict
      prototorch warmup --clear
    """
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
        click.echo(f"{one.model}, {one.phase}, batch {one.batch}: {one.compiled} kernels compiled, "
                   f"{one.loaded} from disk, {one.seconds:.1f} s")  # fmt: skip
    click.echo(f"kept: {kernel_cache.describe()}")
