"""Recurrent layers, layers of cells, and layers that hold another.

PyTorch's LSTM and RNN add two biases, which become one of ours (`SumArrays`); GRU multiplies one of them by the reset
gate, so both are kept (`StackArrays`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prototorch import layers
from prototorch.interop.counterparts.row import CounterpartRows
from prototorch.interop.counterparts.torch.dense_conv import without_bias
from prototorch.interop.counterparts.torch.row import (
    LAYOUTS,
    ModuleCall,
    TorchLayer,
    TorchLayerExport,
    TorchRow,
    module_call,
    named_weights,
)
from prototorch.layers.recurrent_cell import RecurrentCell
from prototorch.layers.rnn import cell_names, flat_cells
from prototorch.model.loading.layout.layout_table import NotExpressibleError, Shapes, WeightLayout
from prototorch.model.loading.layout.transforms import (
    Chain,
    GateOrder,
    StackArrays,
    SumArrays,
    Transform,
    TransposeArray,
)


def _check_gates(layer: Any, activation: type, recurrent: type | None = None) -> None:
    if type(layer.activation) is not activation:
        raise NotExpressibleError(f"the activation {type(layer.activation).__name__} inside")
    if recurrent is not None and type(layer.recurrent_activation) is not recurrent:
        raise NotExpressibleError(f"the recurrent_activation {type(layer.recurrent_activation).__name__}")
    if layer.dropout or layer.recurrent_dropout:
        raise NotExpressibleError("dropout inside a recurrent layer")


def _kind(layer: Any) -> tuple[str, dict[str, Any]]:
    """The module of a recurrent layer, and the arguments that choose its form. Raises NotExpressibleError."""
    if isinstance(layer, layers.RNN):
        raise NotExpressibleError("cells inside")
    if isinstance(layer, layers.SimpleRNN):
        plain = type(layer.activation) is layers.ReLU and layer.activation == layers.ReLU()
        _check_gates(layer, layers.ReLU if plain else layers.Tanh)
        return "RNN", {"nonlinearity": "relu"} if plain else {}
    _check_gates(layer, layers.Tanh, layers.Sigmoid)
    if isinstance(layer, layers.GRU) and not layer.reset_after:
        raise NotExpressibleError("reset_after: false")
    return type(layer).__name__, {}


def _recurrent_call(export: TorchLayerExport, kind: str, layer: Any, form: dict[str, Any], **more: Any) -> ModuleCall:
    sizes = {"input_size": export.shape[2], "hidden_size": layer.units}
    return module_call(kind, sizes, **form, **without_bias(layer.use_bias), batch_first=True, **more)


def _recurrent(export: TorchLayerExport) -> TorchLayer | None:
    layer = export.layer
    if isinstance(layer, RecurrentCell):
        return None  # modules of cells have no form for a whole net
    kind, options = _kind(layer)
    call = _recurrent_call(export, kind, layer, options)

    def compute(t: Any, m: Any, x: Any, *first: Any) -> Any:
        x = x.flip(1) if layer.go_backwards else x
        whole, last = _run(t, m, x, [s.unsqueeze(0).contiguous() for s in first])
        y = whole if layer.return_sequences else whole[:, -1]
        if not layer.return_state:
            return y
        states = t.unpack(last, 2) if layer.states == 2 else (last,)
        return (y, *(s.squeeze(0) for s in states))

    return TorchLayer(compute, {"": call})


def _run(t: Any, m: Any, x: Any, first: list[Any]) -> tuple[Any, Any]:
    """The module over a sequence: the outputs of all steps, and the last states."""
    states = [tuple(first) if len(first) > 1 else first[0]] if first else []
    whole, last = t.unpack(m("")(x, *states), 2)
    return whole, last


def _bidirectional(export: TorchLayerExport) -> TorchLayer:
    layer = export.layer
    forward, backward = layer.directions()
    if type(forward) is not type(backward) or _kind(forward) != _kind(backward):
        raise NotExpressibleError("two layers of different kinds")
    if forward.go_backwards or (forward.units, forward.use_bias) != (backward.units, backward.use_bias):
        raise NotExpressibleError("two layers of different sizes, or the first of which goes backwards")
    if len(export.shapes) > 1:
        raise NotExpressibleError("first states")
    kind, options = _kind(forward)
    units = forward.units
    call = _recurrent_call(export, kind, forward, options, bidirectional=True)

    def compute(t: Any, m: Any, x: Any) -> Any:
        whole, last = t.unpack(m("")(x), 2)
        states = list(t.unpack(last, 2)) if forward.states == 2 else [last]
        if forward.return_sequences:
            both = (whole,) if layer.merge_mode == "concat" else (whole[..., :units], whole[..., units:])
        elif layer.merge_mode == "concat":
            both = (t.torch.cat([states[0][0], states[0][1]], 1),)
        else:
            both = (states[0][0], states[0][1])
        merged_outputs = both if len(both) == 1 or layer.merge_mode is None else (_merge(layer.merge_mode, *both),)
        if not forward.return_state:
            return merged_outputs if len(merged_outputs) > 1 else merged_outputs[0]
        return (*merged_outputs, *(s[0] for s in states), *(s[1] for s in states))

    return TorchLayer(compute, {"": call})


def _merge(mode: str, a: Any, b: Any) -> Any:
    if mode == "mul":
        return a * b
    return (a + b) / 2 if mode == "ave" else a + b


# ---------------------------------------------------------------- weights


@dataclass(frozen=True, kw_only=True)
class RecurrentRow(TorchRow):
    """A recurrent layer with its cell. gates: the place of each of PyTorch's gates among ours."""

    gates: tuple[int, ...]


def _gate_order(layer: layers.Layer) -> tuple[int, ...] | None:
    """The gates of a recurrent layer or cell; None for a layer of another kind."""
    return next((row.gates for row in ROWS.rows if isinstance(row, RecurrentRow) and type(layer) in row.layers), None)


def _gate_weights(layer: Any, shapes: Shapes, end: str) -> list[WeightLayout]:
    """PyTorch's names and orders, with ``end`` behind the names. A bias [2, n] is kept apart, another is the sum of
    theirs."""
    if not getattr(layer, "reset_after", True):
        raise NotExpressibleError("torch.nn.GRU resets after the matrix product; reset_after: false is another layer")
    order = _gate_order(layer)
    assert order is not None
    gates: tuple[Transform, ...] = () if order == tuple(range(len(order))) else (GateOrder(order, axis=0),)
    matrix = Chain((*gates, TransposeArray((1, 0))))
    layouts = [
        WeightLayout(("kernel",), (f"weight_ih{end}",), matrix),
        WeightLayout(("recurrent_kernel",), (f"weight_hh{end}",), matrix),
    ]
    if "bias" in shapes:
        join = StackArrays() if len(shapes["bias"]) == 2 else SumArrays()
        layouts.append(WeightLayout(("bias",), (f"bias_ih{end}", f"bias_hh{end}"), Chain((*gates, join))))
    return layouts


def _recurrent_weights(layer: layers.Layer, shapes: Shapes) -> list[WeightLayout]:
    return _gate_weights(layer, shapes, "" if isinstance(layer, RecurrentCell) else "_l0")


def _stacked_cell_weights(layer: layers.StackedRNNCells, shapes: Shapes) -> list[WeightLayout]:
    """Modules ``cell_0``, ``cell_1``, ..."""
    result: list[WeightLayout] = []
    for name, cell in zip(cell_names(layer.cells, True), flat_cells(layer.cells), strict=True):
        result += [layout.under(f"{name}/", f"{name}.") for layout in LAYOUTS.layouts(cell, _below(shapes, name))]
    return result


def _rnn_weights(layer: layers.RNN, shapes: Shapes) -> list[WeightLayout]:
    """One module with as many layers as there are cells, all of one kind and size."""
    cells = list(flat_cells(layer.cell))
    if _gate_order(cells[0]) is None or any((type(c), c.units) != (type(cells[0]), cells[0].units) for c in cells):
        raise NotExpressibleError("torch.nn's recurrent modules have layers of one kind and size")
    result: list[WeightLayout] = []
    for k, (name, cell) in enumerate(zip(cell_names(layer.cell, len(cells) > 1), cells, strict=True)):
        result += [layout.under(f"{name}/") for layout in _gate_weights(cell, _below(shapes, name), f"_l{k}")]
    return result


def _bidirectional_weights(layer: layers.Bidirectional, shapes: Shapes) -> list[WeightLayout]:
    """One module with ``bidirectional=True``."""
    result: list[WeightLayout] = []
    for name, inner, end in zip(
        ("forward_layer", "backward_layer"), layer.directions(), ("_l0", "_l0_reverse"), strict=True
    ):
        below = _below(shapes, name)
        if any(n.partition("/")[0].endswith("activation") for n in below) or _gate_order(inner) is None:
            raise NotExpressibleError(f"torch.nn has no {type(inner).__name__} with an activation that has weights")
        result += [layout.under(f"{name}/") for layout in _gate_weights(inner, below, end)]
    return result


def _time_distributed_weights(layer: layers.TimeDistributed, shapes: Shapes) -> list[WeightLayout]:
    """The module of the layer inside."""
    below = {n.removeprefix("layer/"): s for n, s in shapes.items()}
    return [layout.under("layer/") for layout in LAYOUTS.layouts(layer.layer, below)]


def _below(shapes: Shapes, name: str) -> dict[str, tuple[int, ...]]:
    return {n.removeprefix(f"{name}/"): s for n, s in shapes.items() if n.startswith(f"{name}/")}


ROWS = CounterpartRows(
    system="torch",
    rows=(
        # i, f, g, o of our i, f, c, o
        RecurrentRow(
            layers=(layers.LSTM, layers.LSTMCell), module=_recurrent, layouts=_recurrent_weights, gates=(0, 1, 2, 3)
        ),
        # r, z, n of our z, r, h
        RecurrentRow(
            layers=(layers.GRU, layers.GRUCell), module=_recurrent, layouts=_recurrent_weights, gates=(1, 0, 2)
        ),
        RecurrentRow(
            layers=(layers.SimpleRNN, layers.SimpleRNNCell), module=_recurrent, layouts=_recurrent_weights, gates=(0,)
        ),
        TorchRow(layers=(layers.Bidirectional,), module=_bidirectional, layouts=_bidirectional_weights),
        TorchRow(layers=(layers.StackedRNNCells,), layouts=_stacked_cell_weights),
        TorchRow(layers=(layers.RNN,), layouts=_rnn_weights),
        TorchRow(layers=(layers.TimeDistributed,), layouts=_time_distributed_weights),
        # parameters of the module that stands for the layer
        TorchRow(
            layers=(layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D),
            weights=named_weights(kernel="weight_ih", recurrent_kernel="weight_hh", bias="bias"),
        ),
    ),
)
