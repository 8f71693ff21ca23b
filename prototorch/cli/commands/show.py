"""`prototorch show`: the model as text, as it was written or after all expansion; or the plan of a step."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    json_option,
    model_argument,
    set_option,
    threads_option,
)


@deferred_command("prototorch.cli.actions.show")
@model_argument
@set_option
@click.option("--expanded", is_flag=True, help="After all blocks, repeats and parameters: again a valid file.")
@click.option("--plan", is_flag=True, help="The steps that run instead: kernels, shapes, memory.")
@click.option("--after", metavar="PASS", help="With --plan: the graph as it is after this pass.")
@click.option("--passes", is_flag=True, help="With --plan: the passes instead; what each changed, and its time.")
@click.option("--phase", metavar="NAME", help="With --plan: train, test or predict.")
@click.option("--batch", type=click.IntRange(min=1), help="With --plan: the batch size. Default: the fit block's.")
@threads_option
@json_option
def command() -> None:
    """Print the text of a model: of a file, a shipped model, or the one inside a saved model.

    With --plan print what a step does: each step with its layer, its op or fused group of ops, the kernel that runs it
    (level/family), what it reads (#12 is what step 12 wrote), the shapes it writes (":cl" is channels last in memory),
    and where (@offset+bytes of the arena; "over" an input that nobody reads any more; "in" a weight). Nothing is run.

    A plan is compiled from a graph by passes. With --passes print what each of them changed, with --after NAME the
    graph after one of them: each node with its layer, its op, what it reads (%12 is what node 12 defines) and shapes.

    \b
    Examples:
      prototorch show resnet101
      prototorch show models/resnet101.proto --expanded --set classes=10
      prototorch show runs/lenet/model.h5
      prototorch show deploy.prototxt --expanded
      prototorch show lenet --plan --batch 64 --phase predict
      prototorch show lenet --plan --passes
      prototorch show lenet --plan --after fuse_ops
    """
