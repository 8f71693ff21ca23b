"""`prototorch convert`: files of other systems to ours, ours to theirs, weights to weights."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import allow_python_option, json_option, set_option


@deferred_command("prototorch.cli.actions.convert")
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
def command() -> None:
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
