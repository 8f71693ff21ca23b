"""Tracing a net whose sizes only the data determine: with sizes that every layer accepts."""

from __future__ import annotations

from prototorch.errors import ShapeError
from prototorch.graph.net import Net
from prototorch.graph.trace import Trace, trace
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report

__all__ = ["PROBE_SIZES", "probe_specs", "trace_net"]

PROBE_SIZES = (32, 64, 128, 224, 256)  # tried for a dimension whose size only the data determine
_MAX_PROBED_LAYERS = 10_000  # of a net for which several are tried


def probe_specs(net: Net, batch: int, size: int = 64) -> dict[str, Spec]:
    """Input specs with ``size`` for each dimension that only the data determine."""
    return {i.name: Spec((batch, *(size if n is None else n for n in i.shape)), i.dtype) for i in net.inputs}


def trace_net(net: Net, batch: int, report: Report | None = None, training: bool = False) -> Trace:
    """The trace of a net; where sizes are unknown, with the first size that every layer accepts.

    Raises TextError with all errors, or adds them to ``report``.
    """
    if not any(net.unknown_sizes()):
        return trace(net, probe_specs(net, batch), training, report=report)
    sizes = PROBE_SIZES if len(net.nodes) <= _MAX_PROBED_LAYERS else PROBE_SIZES[-1:]
    for size in sizes:
        try:
            return trace(net, probe_specs(net, batch, size), training)
        except ShapeError:
            continue
    every_error = Report() if report is None else report
    net_trace = trace(net, probe_specs(net, batch, sizes[-1]), training, report=every_error)
    if report is None:
        every_error.raise_if_any()
    return net_trace
