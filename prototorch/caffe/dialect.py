"""Caffe's nets and solvers as model texts; what reads them is imported when there is one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from prototorch.text.diagnostics import Report
from prototorch.text.dialects import ForeignNet, TextDialect

__all__ = ["DIALECT", "CaffeDialect"]


class CaffeDialect(TextDialect):
    """The texts of Caffe: prototxt of a NetParameter ("net") or a SolverParameter ("solver")."""

    def recognize(self, text: str) -> str | None:
        """See `TextDialect.recognize` and `prototorch.caffe.text.detect_caffe.find_caffe_kind`."""
        kind: str | None = importlib.import_module("prototorch.caffe.text.detect_caffe").find_caffe_kind(text)
        return kind

    def check_syntax(self, text: str, kind: str, path: str) -> None:
        """See `TextDialect.check_syntax`."""
        message_type = {"net": "NetParameter", "solver": "SolverParameter"}[kind]
        importlib.import_module("prototorch.caffe.text.reader").read_message(text, message_type, path)

    def read_net(
        self, path: str, params: Mapping[str, Any], overrides: Sequence[str], report: Report, allow_solver: bool
    ) -> ForeignNet:
        """See `TextDialect.read_net` and `prototorch.caffe.interop.net_text.caffe_document`."""
        net_text = importlib.import_module("prototorch.caffe.interop.net_text")
        document, net = net_text.caffe_document(path, params, overrides, report, allow_solver)
        return ForeignNet(document, partial(_match_weights, net), net)


def _match_weights(net: Any, path: str) -> Any:
    return importlib.import_module("prototorch.caffe.interop.prediction_weights").match_weights(net, path)


#: words: the fields of NetParameter that texts of ours do not have, and those that SolverParameter has beside them
DIALECT = CaffeDialect(
    name="caffe",
    words=(
        "average_loss", "base_lr", "clip_gradients", "delta", "device_id", "display", "force_backward", "gamma",
        "input_dim", "input_shape", "iter_size", "layer", "layer_wise_reduce", "layers", "lr_policy", "max_iter",
        "momentum", "momentum2", "net", "net_param", "power", "random_seed", "regularization_type", "rms_decay",
        "snapshot", "snapshot_after_train", "snapshot_diff", "snapshot_format", "snapshot_prefix", "solver_mode",
        "solver_type", "state", "stepsize", "stepvalue", "test_compute_loss", "test_initialization", "test_interval",
        "test_iter", "test_net", "test_net_param", "test_state", "train_net", "train_net_param", "train_state",
        "weight_decay", "weights",
    ),
)  # fmt: skip
