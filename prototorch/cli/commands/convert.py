"""`prototorch convert`: files of other systems to ours, ours to theirs, weights to weights."""

from __future__ import annotations

import os
from typing import Any

import click

from prototorch.cli.options import json_option, print_json, set_option
from prototorch.conversion import convert
from prototorch.conversion.sources import WeightOptions
from prototorch.errors import UsageError


@click.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", metavar="OUT", help="The file to write; its ending says the format.")
@click.option("--to", metavar="FORMAT", help="The format, where the ending does not say it: onnx, torch, keras, ...")
@click.option("--model", metavar="TEXT", help="The text or saved model whose weights IN has.")
@set_option
@click.option("--weights-to", metavar="FILE", help="The .h5 for the weights of a text; default: beside it.")
@click.option("--rules", metavar="FILE", help="Rules that map the names of IN to those of the model.")
@click.option("--write-rules", metavar="FILE", help="Write the pairs of layers that are found as rules, to edit.")
@click.option("--by-order", is_flag=True, help="Pair layers by order, kind and shape, not by name.")
@click.option("--by-name", is_flag=True, help="Weights may be missing in IN or in the model.")
@click.option("--skip-mismatch", is_flag=True, help="Weights of other shapes keep the model's values.")
@click.option("--except", "except_", metavar="PATTERN", multiple=True, help="Weights of the model that stay initial.")
@click.option("--system", metavar="NAME", help="Whose names and layouts IN has: torch, keras or prototorch.")
@click.option("--option", "options", metavar="NAME=VALUE", multiple=True, help="An option of the format: opset=17.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_option
def command(source: str, output: str | None, to: str | None, model: str | None, overrides: tuple[str, ...],
            weights_to: str | None, rules: str | None, write_rules: str | None, by_order: bool, by_name: bool,
            skip_mismatch: bool, except_: tuple[str, ...], system: str | None, options: tuple[str, ...], force: bool,
            as_json: bool) -> None:  # fmt: skip
    """Convert IN to OUT: weights to weights, whole models of other systems to a text with its weights, ours to theirs.

    Nothing in a file is executed, and what is written is there whole or not at all.

    \b
    Examples:
      prototorch convert model.onnx -o net.proto                  a text, and net.h5 with the weights
      prototorch convert model.h5 -o net.onnx --option opset=17   a saved model of ours for ONNX
      prototorch convert resnet18.pth --model resnet18 -o resnet18.h5
      prototorch convert weights.pt --model my.proto --write-rules rules.proto
      prototorch convert weights.pt --model my.proto --rules rules.proto -o my.h5
      prototorch convert weights.pt -o weights.safetensors        names and layouts as they are
    """
    matching = WeightOptions(
        system=system, by_order=by_order, by_name=by_name, skip_mismatch=skip_mismatch, except_=except_
    )
    result = convert(source, output, to=to, model=model, overrides=overrides, rules=rules, write_rules=write_rules,
                     weights_to=weights_to, options=matching, force=force, **_parse(options))  # fmt: skip
    if as_json:
        print_json({"files": list(result.paths), "notes": list(result.notes)})
        return
    for note in result.notes:
        click.echo(note, err=True)
    for path in result.paths:
        click.echo(f"{path}  {os.path.getsize(path):,} bytes")


def _parse(options: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` as keyword arguments: true, false, integers, else text."""
    result: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--option {option!r}: expected NAME=VALUE")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        result[name] = int(text) if text.lstrip("-").isdecimal() else value
    return result
