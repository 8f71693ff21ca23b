"""Upgrade of a solver: its deprecated enum ``solver_type`` to ``type``, and the nets inside it."""

from __future__ import annotations

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.message import Message

__all__ = ["upgrade_solver"]

_TYPES = {
    "SGD": "SGD",
    "NESTEROV": "Nesterov",
    "ADAGRAD": "AdaGrad",
    "RMSPROP": "RMSProp",
    "ADADELTA": "AdaDelta",
    "ADAM": "Adam",
}


def upgrade_solver(solver: Message) -> Message:
    """A SolverParameter with ``type`` instead of ``solver_type``; the message itself is not changed.

    Raises TextError where it has both. Nets inside it (net_param, train_net_param, test_net_param) stay as they are:
    `upgrade_net` is for them.
    """
    solver = solver.copy()
    if solver.has("solver_type"):
        if solver.has("type"):
            fail_at(
                "A solver has type or solver_type, not both: solver_type is the older form.",
                solver.field_span("solver_type"),
            )
        solver.set("type", _TYPES[solver["solver_type"]], solver.field_span("solver_type"))
        solver.clear("solver_type")
    return solver
