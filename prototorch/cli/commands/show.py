"""`prototorch show`: the model as text, as it was written or after all expansion; or the plan of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.recognition import find_caffe_kind
from prototorch.cli.options import (
    add_device_overrides,
    json_option,
    model_argument,
    open_model,
    print_json,
    set_option,
    threads_option,
)
from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.graph_printer import describe_graph, format_graph, format_passes
from prototorch.graph.ir import Graph
from prototorch.graph.pipeline import PIPELINE, PassRecord, observe_passes
from prototorch.model.diagnose import describe_plan
from prototorch.model.load import check_text_file, find_model_file, is_saved
from prototorch.text.reader import parse, read_file


@click.command()
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
def command(file: str, overrides: tuple[str, ...], expanded: bool, plan: bool, after: str | None, passes: bool,
            phase: str | None, batch: int | None, threads: int | None, as_json: bool) -> None:  # fmt: skip
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
    if plan:
        if expanded:
            raise UsageError("--plan and --expanded show two things: take one of them")
        _check_pass(after)
        records: list[PassRecord] = []
        graphs: dict[str, dict[str, Any]] = {}

        def observe(record: PassRecord, graph: Graph) -> None:
            records.append(record)
            if record.name == after:
                graphs[record.name] = describe_graph(graph)

        with observe_passes(observe):
            described = describe_plan(open_model(file, add_device_overrides(overrides, threads)), phase, batch)
        if after is not None:
            if after not in graphs:
                raise UsageError(f"the pass {after} does not run for {described.title}; see --passes")
            _print(graphs[after], [f"{described.title}, after {after}", *format_graph(graphs[after])], as_json)
        elif passes:
            _print([asdict(r) for r in records], [described.title, *format_passes(records)], as_json)
        else:
            _print(described.as_dict(), described.lines(), as_json)
        return
    for name, given in (
        ("after", after),
        ("passes", passes or None),
        ("phase", phase),
        ("batch", batch),
        ("threads", threads),
        ("json", as_json or None),
    ):
        if given is not None:
            raise UsageError(f"--{name} belongs to --plan")
    path = find_model_file(file)
    if expanded or overrides or is_saved(path):
        click.echo(open_model(file, overrides).to_text(), nl=False)
    else:
        text = read_file(check_text_file(path))
        kind = find_caffe_kind(text)
        if kind is not None:
            read_message(text, {"net": "NetParameter", "solver": "SolverParameter"}[kind], path)
        else:
            parse(text, path)  # raises TextError: what is no model text is not printed
        click.echo(text, nl=False)


def _check_pass(name: str | None) -> None:
    names = [step.name for step in PIPELINE]
    if name is not None and name not in names:
        hint = did_you_mean(name, names) or f" The passes are {', '.join(names)}."
        raise UsageError(f"there is no pass {name!r}.{hint}")


def _print(data: Any, lines: Iterable[str], as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo("\n".join(lines))
