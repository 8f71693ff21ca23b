"""The test of a Caffe net: what ``prototorch evaluate net.prototxt`` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.net import Net
from prototorch.caffe.solver_log import output_lines
from prototorch.caffe.solver_snapshot import load_weights
from prototorch.caffe.solver_test import run_test
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.reader import read_net_file
from prototorch.cli.json_output import print_json, to_json_types
from prototorch.errors import UsageError

__all__ = ["test_net"]


def test_net(
    net_file: str,
    weights: str | None,
    iterations: int,
    level: int,
    stages: Sequence[str],
    allow_python: bool,
    as_json: bool,
) -> None:
    """Print the means of a net's outputs over a number of batches of its data, in phase TEST.

    weights: files with commas between them. Raises UsageError without weights, or for a net without data.
    """
    if weights is None:
        raise UsageError(f"{net_file}: a net of Caffe is tested with weights: give --weights FILE.caffemodel")
    message = filter_net(read_net_file(net_file), "TEST", level, stages)
    folder = os.fspath(Path(net_file).parent)
    net = Net.from_message(message, "TEST", seed=0, folders=(folder,), allow_python=allow_python)
    try:
        if not net.data_layers and net.caffe_net.inputs:
            raise UsageError(
                f"{net_file}: no data layer feeds {', '.join(net.caffe_net.inputs)}; `prototorch predict` takes "
                "inputs, and a net with data layers for phase TEST can be evaluated"
            )
        load_weights(net, weights, FileSearch((folder,)))

        def show(number: int, outputs: dict[str, np.ndarray]) -> None:
            for name, array in outputs.items():
                for value in array.reshape(-1):
                    click.echo(f"Batch {number}, {name} = {value:.6g}")

        result = run_test(net, iterations, on_batch=None if as_json else show)
    finally:
        net.close()
    assert result is not None
    if as_json:
        print_json(to_json_types({"loss": result.loss, **result.outputs}))
        return
    click.echo(f"Loss: {result.loss:.6g}")
    click.echo("\n".join(output_lines(net.caffe_net, result.outputs)))


test_net.__test__ = False  # type: ignore[attr-defined]  # no test of pytest
