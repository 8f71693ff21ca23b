"""Options of commands that take files of Caffe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["caffe_options", "state_options"]

_EFFECTS = click.Choice(("stop", "snapshot", "none"))


def state_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--level`` and ``--stage``: the state of a Caffe net."""
    stage = click.option(
        "--stage",
        "stages",
        multiple=True,
        metavar="NAME[,...]",
        help="Caffe: a stage of the net's state. May be repeated.",
    )
    level = click.option("--level", type=int, help="Caffe: the level of the net's state.")
    return level(stage(function))


def caffe_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a training by a Caffe solver."""
    options = (
        click.option("--snapshot", metavar="STATE", help="Caffe: go on with this .solverstate or .solverstate.h5."),
        click.option(
            "--caffe-resume", is_flag=True, help="Caffe: with --snapshot, begin the data anew, as Caffe does."
        ),
        click.option("--snapshot-prefix", metavar="PATH", help="Caffe: snapshots are PATH_iter_N..., anywhere."),
        click.option("--sigint-effect", type=_EFFECTS, help="Caffe: what Ctrl-C asks for. Default: stop."),
        click.option("--sighup-effect", type=_EFFECTS, help="Caffe: what SIGHUP asks for. Default: snapshot."),
    )
    for option in reversed(options):
        function = option(function)
    return state_options(function)
