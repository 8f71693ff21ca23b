"""The nets that a solver names: one to train, and those to test with, each with its state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prototorch.caffe.data.file_search import FileSearch
from prototorch.caffe.interop.named_net import read_named_net
from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.net_state import filter_net
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.errors import DataError

__all__ = ["NetSource", "find_test_nets", "find_train_net"]

MAX_TEST_NETS = 100
_TRAIN_FIELDS = ("net", "net_param", "train_net", "train_net_param")


@dataclass(frozen=True)
class NetSource:
    """A net of a solver. message: its layers, filtered by its state. folders: those of its text and of the solver's, in
    which files are looked for behind the working directory. description: where it comes from, for the log."""

    message: Message
    phase: str
    folders: tuple[str, ...]
    description: str


def find_train_net(solver: Message, search: FileSearch, level: int = 0, stages: Sequence[str] = ()) -> NetSource:
    """The net to train. level, stages: of the command line, which win over the solver's train_state.

    Raises TextError for a solver that names none or several, and for mistakes of the net's text.
    """
    fields = [name for name in _TRAIN_FIELDS if solver.has(name)]
    if len(fields) != 1:
        names = ", ".join(_TRAIN_FIELDS)
        fail_at(
            f"the solver names {' and '.join(fields) if fields else 'no train net'}; it needs one of {names}",
            solver.field_span(fields[1]) if fields else solver.span,
        )
    states = [solver["train_state"]] if solver.has("train_state") else []
    if level or stages:
        states.append(Message("NetState", level=level, stage=list(stages)))
    return _open(solver, fields[0], 0, "TRAIN", states, search)


def find_test_nets(solver: Message, search: FileSearch) -> list[NetSource]:
    """The nets to test with: test_net_param, test_net, then as many of the solver's net as there are further values of
    test_iter. Raises TextError where their numbers do not fit."""
    own = [("test_net_param", i) for i in range(len(solver["test_net_param"]))]
    own += [("test_net", i) for i in range(len(solver["test_net"]))]
    generic = next((name for name in ("net_param", "net") if solver.has(name)), None)
    count = len(solver["test_iter"])
    if count < len(own) or (generic is None and count != len(own)):
        fail_at(
            f"there are {len(own)} test nets and {count} values of test_iter; each test net needs one",
            solver.field_span("test_iter" if count else own[0][0]),
        )
    if generic is not None:
        own += [(generic, 0)] * min(count - len(own), MAX_TEST_NETS + 1)
    if len(own) > MAX_TEST_NETS:
        fail_at(
            f"there are {len(own):,} test nets; at most {MAX_TEST_NETS} can be made",
            solver.field_span("test_iter", MAX_TEST_NETS),
        )
    states = solver["test_state"]
    if states and len(states) != len(own):
        fail_at(
            f"there are {len(states)} values of test_state for {len(own)} test nets; give one for each, or none",
            solver.field_span("test_state"),
        )
    if own and solver["test_interval"] <= 0:
        fail_at("a solver with test nets needs a test_interval of at least 1", solver.field_span("test_iter"))
    return [_open(solver, name, i, "TEST", states[number : number + 1], search) for number, (name, i) in enumerate(own)]


def _open(
    solver: Message, field: str, index: int, phase: str, states: Sequence[Message], search: FileSearch
) -> NetSource:
    value = solver[field][index] if field.startswith("test_net") else solver[field]
    folders = search.folders
    if isinstance(value, Message):
        net, description = upgrade_net(value), field
    else:
        try:
            path = search.find(value, "net")
        except DataError as error:
            fail_at(f"{field}: {error}", solver.field_span(field, index))
        net = read_named_net(path, value, solver.field_span(field, index))
        description = f"{field} file: {value}"
        folders = tuple(dict.fromkeys((os.fspath(Path(path).parent), *folders)))
    state = Message("NetState", phase=phase)
    for other in (net["state"], *states):
        _merge(state, other)
    return NetSource(
        filter_net(net, state["phase"], state["level"], state["stage"]), state["phase"], folders, description
    )


def _merge(state: Message, other: Message) -> None:
    """Take over what another NetState sets; its stages are added."""
    for name in ("phase", "level"):
        if other.has(name):
            state[name] = other[name]
    state["stage"] = [*state["stage"], *other["stage"]]
