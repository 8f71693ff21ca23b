"""The table of PyTorch's layouts: every layer is in it or refused with a reason, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch.engine.harness.case import Case, cases
from prototorch.interop.counterparts import row
from prototorch.interop.counterparts.torch.row import LAYOUTS
from prototorch.layers import BatchNormalization, Dense
from prototorch.model.loading.layout.layout_table import LayoutTable, NotExpressibleError, layout_table
from prototorch.model.loading.layout.transforms import (
    GateOrder,
    NeutralArray,
    SplitArray,
    SumArrays,
    TransformError,
    TransposeArray,
)

#: examples whose weights no module of PyTorch has
NOT_EXPRESSIBLE = {
    "GRU-1": "resets after",
    "GRU-3": "resets after",
    "GRUCell-1": "resets after",
    **{f"RNN-{i}": "one kind and size" for i in (1, 2)},
    "Bidirectional-4": "no RNN",
    "BatchNormalization-3": "not weighted_sums",
    **{f"{name}-{i}": f"{name} has no counterpart" for name in ("StreamLSTM", "StreamRNN") for i in range(2)},
}


def _weights(case: Case) -> dict[str, np.ndarray]:
    return {name.removeprefix("layer/"): array for name, array in case.weights("float32").items()}


WEIGHTED = [case for case in cases() if _weights(case)]


@pytest.mark.parametrize("case", WEIGHTED, ids=lambda c: c.id)
def test_every_weight_of_every_layer_has_one_place_and_comes_back_exactly(case: Case):
    weights = _weights(case)
    shapes = {name: array.shape for name, array in weights.items()}
    if case.id in NOT_EXPRESSIBLE:
        with pytest.raises(NotExpressibleError, match=NOT_EXPRESSIBLE[case.id]):
            LAYOUTS.layouts(case.instance, shapes)
        return
    for layouts in LAYOUTS.variants(case.instance, shapes):
        assert sorted(n for layout in layouts for n in layout.ours) == sorted(weights)
        theirs = [n for layout in layouts for n in layout.theirs]
        assert len(set(theirs)) == len(theirs)
        for layout in layouts:
            arrays = tuple(weights[n] for n in layout.ours)
            stored = layout.transform.to_theirs(arrays)
            assert layout.their_shapes(shapes) == tuple(a.shape for a in stored)
            for new, old in zip(layout.transform.to_ours(stored), arrays, strict=True):
                np.testing.assert_array_equal(new, old)


def test_a_system_is_found_by_its_name_and_an_unknown_one_is_none():
    assert layout_table("torch") is LAYOUTS
    assert layout_table("no_such_system") is None
    assert layout_table("../torch") is None


def test_a_layer_without_an_entry_is_named():
    with pytest.raises(NotExpressibleError, match="Dense has no counterpart in empty"):
        LayoutTable("empty").layouts(Dense(3), {"kernel": (2, 3)})


def test_a_second_entry_for_a_layer_is_an_error():
    table = LayoutTable("empty")
    table.register(Dense)(lambda layer, shapes: [])
    with pytest.raises(ValueError, match="Dense has a layout in empty already"):
        table.register(Dense)(lambda layer, shapes: [])


def test_a_second_row_for_a_layer_is_an_error(monkeypatch):
    rows = (*row.counterpart_rows("torch"), row.Counterpart(layers=(Dense,)))
    monkeypatch.setattr(row, "counterpart_rows", lambda system: rows)
    with pytest.raises(ValueError, match="Dense has two rows in again"):
        row.counterpart_of("again", Dense)


def test_a_shift_that_the_layer_does_not_have_must_be_zero():
    shapes = {"gamma": (3,), "moving_mean": (3,), "moving_variance": (3,)}
    layouts = LAYOUTS.layouts(BatchNormalization(center=False), shapes)
    constant = next(layout for layout in layouts if layout.theirs == ("bias",))
    assert isinstance(constant.transform, NeutralArray)
    assert constant.ours == ()
    assert constant.transform.to_ours((np.zeros(3, np.float32),)) == ()
    with pytest.raises(TransformError, match="not 0 everywhere"):
        constant.transform.to_ours((np.array([0, 0, 1e-3], np.float32),))


def test_biases_of_16_bits_are_added_in_32():
    parts = (np.array([1.0], np.float16), np.array([0.0005], np.float16))
    (total,) = SumArrays().to_ours(parts)
    assert total.dtype == np.float32
    assert total[0] == np.float32(parts[0][0]) + np.float32(parts[1][0])


def test_arrays_of_another_form_are_refused_with_the_numbers():
    with pytest.raises(TransformError, match="3 axes, expected 2"):
        TransposeArray((1, 0)).to_ours((np.zeros((2, 2, 2)),))
    with pytest.raises(TransformError, match="7 along axis 0, expected 6"):
        SplitArray((3, 3)).to_ours((np.zeros(7),))
    with pytest.raises(TransformError, match="7 rows are not those of 4 gates"):
        GateOrder((0, 1, 2, 3), axis=0).to_ours((np.zeros((7, 2)),))
