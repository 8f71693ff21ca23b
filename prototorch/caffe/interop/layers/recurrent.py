"""Caffe's recurrent layers: time first, [T, N, ...], with an indicator that a sequence goes on."""

from __future__ import annotations

from math import prod

from prototorch.caffe.interop.layer_import import CaffeLayerImport, translator
from prototorch.caffe.interop.layers.fillers import filler_initializer
from prototorch.layers import LSTMUnit, StreamLSTM, StreamRNN


@translator("LSTM", "RNN")
def _recurrent(site: CaffeLayerImport) -> None:
    """Without expose_hidden the state is kept for the next batch. debug_info only prints, and is read."""
    param = site.layer["recurrent_param"]
    is_lstm = site.type == "LSTM"
    exposed = (2 if is_lstm else 1) if param["expose_hidden"] else 0
    site.check_counts((2 + exposed, 3 + exposed), 1 + exposed)
    units = param["num_output"]
    if units < 1:
        site.fail("num_output must be positive", param, "num_output")
    has_static = len(site.bottoms) > 2 + exposed
    _check_shapes(site, units, has_static, exposed)
    x, wide = site.bottom_shapes[0], (4 if is_lstm else 1) * units
    weight, bias = param["weight_filler"], param["bias_filler"]

    def kernel(inputs: int, outputs: int) -> object:
        return filler_initializer(site, weight, (outputs, inputs), (inputs, outputs), 1)

    fields = {
        "units": units,
        "expose_state": bool(exposed),
        "stateful": not exposed,
        "stop_state_gradient": True,
        "kernel_initializer": kernel(prod(x[2:]), wide),
        "recurrent_initializer": kernel(units, wide),
        "bias_initializer": filler_initializer(site, bias, (wide,)),
    }
    if has_static:
        fields["static_initializer"] = kernel(prod(site.bottom_shapes[2][1:]), wide)
    if is_lstm:
        site.add(StreamLSTM(**fields), outputs=1 + exposed)
    else:
        fields["output_initializer"] = kernel(units, units)
        fields["output_bias_initializer"] = filler_initializer(site, bias, (units,))
        site.add(StreamRNN(**fields), outputs=1 + exposed)


def _check_shapes(site: CaffeLayerImport, units: int, has_static: bool, exposed: int) -> None:
    x, cont, *others = site.bottom_shapes
    if len(x) < 3:
        site.fail(
            f"its first bottom must have at least 3 axes (time steps, streams, ...), not {list(x)}",
            site.layer,
            "bottom",
        )
    if cont != x[:2]:
        site.fail(
            f"its second bottom, which says where sequences go on, must have the shape {list(x[:2])} (time "
            f"steps, streams), not {list(cont)}",
            site.layer,
            "bottom",
        )
    if has_static and (len(others[0]) < 2 or others[0][0] != x[1]):
        site.fail(
            f"its static bottom must have the shape [{x[1]}, ...] for {x[1]} streams, not {list(others[0])}",
            site.layer,
            "bottom",
        )
    for shape in others[len(others) - exposed :] if exposed else ():
        if shape != (1, x[1], units):
            site.fail(f"a hidden state must have the shape {[1, x[1], units]}, not {list(shape)}", site.layer, "bottom")


@translator("LSTMUnit")
def _lstm_unit(site: CaffeLayerImport) -> None:
    site.check_counts(3, 2)
    cell, gates, cont = site.bottom_shapes
    if len(cell) != 3 or cell[0] != 1 or gates != (*cell[:2], 4 * cell[2]) or cont != cell[:2]:
        site.fail(
            f"its bottoms must have the shapes [1, N, D], [1, N, 4 D] and [1, N], not {list(cell)}, "
            f"{list(gates)} and {list(cont)}",
            site.layer,
            "bottom",
        )
    site.add(LSTMUnit(), outputs=2)
