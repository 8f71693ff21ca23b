"""`prototorch convert`: files of other systems to ours, ours to theirs, weights to weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click

from prototorch.cli.messages import with_shell_options
from prototorch.cli.options import allow_python_option, json_option, print_json, set_option
from prototorch.errors import UsageError, WeightsError
from prototorch.interop.conversion import convert
from prototorch.interop.conversion.sources import WeightOptions


@click.command()
@click.argument("source", metavar="IN")
@click.option("-o", "--output", metavar="OUT", help="The file to write; its ending says the format.")
@click.option("--to", metavar="FORMAT", help="The format, where the ending does not say it: onnx, torch, keras, ...")
@click.option("--model", metavar="TEXT", help="The text or saved model whose weights IN has.")
@click.option("--weights", metavar="FILE", help="The .caffemodel or .caffemodel.h5 of IN, a net of Caffe.")
@set_option
@allow_python_option
@click.option("--weights-to", metavar="FILE", help="The .h5 for the weights of a text; default: beside it.")
@click.option("--rules", metavar="FILE", help="Rules that map the names of IN to those of the model.")
@click.option("--write-rules", metavar="FILE", help="Write the pairs of layers that are found as rules, to edit.")
@click.option("--by-order", is_flag=True, help="Pair layers by order, kind and shape, not by name.")
@click.option("--by-name", is_flag=True, help="Weights may be missing in IN or in the model.")
@click.option("--skip-mismatch", is_flag=True, help="Weights of other shapes keep the model's values.")
@click.option("--except", "except_", metavar="PATTERN", multiple=True, help="Weights of the model that stay initial.")
@click.option("--system", metavar="NAME", help="Whose names and layouts IN has: torch, keras or prototorch.")
@click.option("--data-format", metavar="ORDER", help="Axes of Keras' images: channels_last or channels_first.")
@click.option("--input-shape", "shapes", metavar="NAME=N,N", multiple=True, help="Sizes that IN leaves open, no batch.")
@click.option("--fixed-input", "fixed", metavar="NAME=X", multiple=True, help="An input of IN that becomes a constant.")
@click.option("--batch-axis", type=click.IntRange(min=0), help="The axis of IN's inputs that is the batch; default 0.")
@click.option("--allow-download", is_flag=True, help="Open the address of a weight set beside the model's text.")
@click.option("--option", "options", metavar="NAME=VALUE", multiple=True, help="An option of the format: opset=17.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_option
def command(source: str, output: str | None, to: str | None, model: str | None, weights: str | None,
            overrides: tuple[str, ...], weights_to: str | None, rules: str | None, write_rules: str | None,
            by_order: bool, by_name: bool, skip_mismatch: bool, except_: tuple[str, ...], system: str | None,
            data_format: str | None, shapes: tuple[str, ...], fixed: tuple[str, ...], batch_axis: int | None,
            allow_download: bool, options: tuple[str, ...], force: bool, as_json: bool) -> None:  # fmt: skip
    """Convert IN to OUT: weights to weights, whole models of other systems to a text with its weights, ours to theirs.

    Nothing in a file is executed, and what is written is there whole or not at all. Modules that a text of ours imports
    run with --allow-python only.

    \b
    Examples:
      prototorch convert model.onnx -o net.proto                  a text, and net.h5 with the weights
      prototorch convert deploy.prototxt --weights x.caffemodel -o net.proto
      prototorch convert model.h5 --to caffe -o net.prototxt      and net.caffemodel
      prototorch convert model.h5 -o net.onnx --option opset=17   a saved model of ours for ONNX
      prototorch convert resnet18.pth --model resnet18 -o resnet18.h5
      prototorch convert weights.pt --model my.proto --write-rules rules.proto
      prototorch convert weights.pt --model my.proto --rules rules.proto -o my.h5
      prototorch convert weights.pt -o weights.safetensors        names and layouts as they are
    """
    matching = WeightOptions(
        system=system,
        by_order=by_order,
        by_name=by_name,
        skip_mismatch=skip_mismatch,
        except_=except_,
        allow_download=allow_download or None,
        data_format=data_format,
    )
    importing = _import_options(shapes, fixed, batch_axis, weights)
    try:
        result = convert(source, output, to=to, model=model, overrides=overrides, rules=rules, write_rules=write_rules,
                         weights_to=weights_to, matching=matching, import_options=importing, force=force,
                         **_parse(options))  # fmt: skip
    except WeightsError as error:
        raise WeightsError(with_shell_options(str(error))) from None
    if as_json:
        print_json({"files": list(result.paths), "notes": list(result.notes)})
        return
    for note in result.notes:
        click.echo(with_shell_options(note), err=True)
    for path in result.paths:
        click.echo(f"{path}  {os.path.getsize(path):,} bytes")


def _import_options(shapes: tuple[str, ...], fixed: tuple[str, ...], batch_axis: int | None,
                    weights: str | None) -> dict[str, Any]:  # fmt: skip
    """What the importer of a whole model gets; what is not given is left out."""
    given = {
        "input_shapes": {name: [int(n) for n in numbers] for name, numbers in _numbers("--input-shape", shapes)},
        "fixed_inputs": {
            name: numbers[0] if len(numbers) == 1 else numbers for name, numbers in _numbers("--fixed-input", fixed)
        },
        "batch_axis": batch_axis,
        "weights": weights,
    }
    return {name: value for name, value in given.items() if value not in (None, {})}


def _numbers(flag: str, options: tuple[str, ...]) -> Iterator[tuple[str, list[float]]]:
    """The numbers of ``NAME=N,N`` by name."""
    for option in options:
        name, equals, text = option.rpartition("=")
        try:
            numbers = [float(n) if flag == "--fixed-input" else int(n) for n in text.split(",")]
        except ValueError:
            numbers = []
        if not equals or not name or not numbers:
            raise UsageError(f"{flag} {option!r}: expected NAME=NUMBER,NUMBER")
        yield name, numbers


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
