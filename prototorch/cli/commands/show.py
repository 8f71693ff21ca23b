"""`prototorch show`: the model as text, as it was written or after all expansion; or the plan of a step."""

from __future__ import annotations

import click

from prototorch.checking import describe_plan
from prototorch.cli.options import (
    add_device_overrides,
    json_option,
    model_argument,
    open_model,
    print_json,
    set_option,
    threads_option,
)
from prototorch.errors import UsageError
from prototorch.load import check_text_file, find_model_file, is_saved
from prototorch.text.reader import read_file


@click.command()
@model_argument
@set_option
@click.option("--expanded", is_flag=True, help="After all blocks, repeats and parameters: again a valid file.")
@click.option("--plan", is_flag=True, help="The steps that run instead: kernels, shapes, memory.")
@click.option("--phase", metavar="NAME", help="With --plan: train, test or predict.")
@click.option("--batch", type=click.IntRange(min=1), help="With --plan: the batch size. Default: the fit block's.")
@threads_option
@json_option
def command(file: str, overrides: tuple[str, ...], expanded: bool, plan: bool, phase: str | None, batch: int | None,
            threads: int | None, as_json: bool) -> None:  # fmt: skip
    """Print the text of a model: of a file, a shipped model, or the one inside a saved model.

    With --plan print what a step does: each step with its layer, its op or fused group of ops, the kernel that runs it
    (level/family), what it reads (#12 is what step 12 wrote), the shapes it writes (":cl" is channels last in memory),
    and where (@offset+bytes of the arena; "over" an input that nobody reads any more; "in" a weight). Nothing is run.

    \b
    Examples:
      prototorch show resnet101
      prototorch show models/resnet101.proto --expanded --set classes=10
      prototorch show runs/lenet/model.h5
      prototorch show lenet --plan --batch 64 --phase predict
    """
    if plan:
        if expanded:
            raise UsageError("--plan and --expanded show two things: take one of them")
        found = describe_plan(open_model(file, add_device_overrides(overrides, threads)), phase, batch)
        if as_json:
            print_json(found.as_dict())
        else:
            click.echo(str(found))
        return
    for name, given in (("phase", phase), ("batch", batch), ("threads", threads), ("json", as_json or None)):
        if given is not None:
            raise UsageError(f"--{name} belongs to --plan")
    path = find_model_file(file)
    if expanded or overrides or is_saved(path):
        click.echo(open_model(file, overrides).to_text(), nl=False)
    else:
        click.echo(read_file(check_text_file(path)), nl=False)
