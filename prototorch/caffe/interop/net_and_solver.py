"""The net of a file of Caffe: of a net itself, of a solver the one that it names."""

from __future__ import annotations

import os

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.interop.named_net import read_named_net
from prototorch.caffe.interop.solver_fields import check_solver
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.detect_caffe import find_caffe_kind
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.reader import read_net_file, read_solver_file
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.text.diagnostics import located
from prototorch.text.reader import read_file

__all__ = ["read_net_and_solver"]

_MAX_PARENTS = 4  # folders above the solver's in which its net is looked for


def read_net_and_solver(path: str | os.PathLike[str]) -> tuple[Message, Message | None, tuple[str, ...]]:
    """The net of a file, its solver where the file is one, and the folders in which its files are looked for.

    The fields of a solver are checked (see `check_solver`). Raises FileError and TextError.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if find_caffe_kind(read_file(path)) != "solver":
        return read_net_file(path), None, (folder,)
    solver = read_solver_file(path)
    check_solver(solver)
    inline = next((name for name in ("net_param", "train_net_param") if solver.has(name)), None)
    if inline is not None:
        return _with_state(upgrade_net(solver[inline]), solver), solver, (folder,)
    name = next((name for name in ("net", "train_net") if solver.has(name)), None)
    if name is None:
        fail_at("The solver names no net: it needs one of net, train_net, net_param, train_net_param.", solver.span)
    with located(solver.field_span(name)):
        net_path = FileSearch((folder, *_parents(folder))).find(solver[name], "net")
    net = _with_state(read_named_net(net_path, solver[name], solver.field_span(name)), solver)
    return net, solver, (str(net_path.parent), folder)


def _with_state(net: Message, solver: Message) -> Message:
    """A net with the state of the solver's first test."""
    if solver["test_state"]:
        net["state"] = solver["test_state"][0]
    return net


def _parents(folder: str) -> list[str]:
    """The folders above one: Caffe's solvers name their nets from the folder that Caffe was started in."""
    parents: list[str] = []
    while os.path.dirname(folder) != folder and len(parents) < _MAX_PARENTS:
        folder = os.path.dirname(folder)
        parents.append(folder)
    return parents
