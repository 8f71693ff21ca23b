"""Weights of PyTorch's modules in each of its formats give PyTorch's outputs here, and ours give the same there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prototorch.errors import WeightsError
from prototorch.interop.counterparts.torch.row import LAYOUTS
from prototorch.model.load import model_from_text
from tests.model.loading.torch_modules import PEERS, Peer

#: float32 sums of at most a few dozen products
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def _save(form: str, state: dict[str, torch.Tensor], folder: Path) -> Path:
    path = folder / f"weights.{'safetensors' if form == 'safetensors' else 'pt'}"
    if form == "safetensors":
        save_file({name: value.contiguous() for name, value in state.items()}, path, {"format": "pt"})
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    return path


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
@pytest.mark.parametrize("peer", PEERS, ids=lambda p: p.id)
def test_outputs_are_pytorchs(peer: Peer, form: str, tmp_path: Path):
    module = peer.torch_module()
    model = peer.model()
    report = model.load_weights(_save(form, module.state_dict(), tmp_path))
    assert not report.missing
    assert not report.unexpected
    np.testing.assert_allclose(model.predict(peer.inputs()), peer.torch_outputs(module), **TOLERANCE)


@pytest.mark.parametrize("peer", PEERS, ids=lambda p: p.id)
def test_pytorch_takes_ours_strictly_and_gives_the_same_outputs(peer: Peer):
    if peer.id == "separable-sequential":
        pytest.skip("a further form, which is only read")
    model, module = peer.model(), peer.torch_module(seed=5)
    model.build()
    rng = np.random.default_rng(1)
    for name, array in model.weights.items():
        array[...] = rng.uniform(0.5, 2, array.shape) if "variance" in name else rng.normal(size=array.shape)
    weights = {name.removeprefix("layer/"): array for name, array in model.weights.items()}
    theirs = LAYOUTS.to_theirs(model.net.node("layer").layer, weights)
    module.load_state_dict(
        {f"layer.{n}".rstrip("."): torch.from_numpy(np.array(a)) for n, a in theirs.items()}, strict=True
    )
    np.testing.assert_allclose(model.predict(peer.inputs()), peer.torch_outputs(module), **TOLERANCE)


def test_a_gru_that_resets_before_the_product_has_no_module_in_pytorch(tmp_path: Path):
    peer = next(p for p in PEERS if p.id == "gru")
    before = Peer("gru", peer.text.replace("units: 5", "units: 5  reset_after: false"), peer.module, peer.shape)
    path = _save("zip", peer.torch_module().state_dict(), tmp_path)
    with pytest.raises(WeightsError, match=r"torch\.nn\.GRU resets after the matrix product"):
        before.model().load_weights(path)


def test_the_levels_of_a_stacked_lstm_are_layers(tmp_path: Path):
    torch.manual_seed(0)
    outer = torch.nn.Module()
    outer.lstm = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True)
    path = _save("zip", outer.state_dict(), tmp_path)
    model = model_from_text(
        'name: "two" input { name: "x" shape: [4, 3] } LSTM { name: "first"  units: 5  return_sequences: true }'
        'LSTM { name: "second"  units: 5  return_sequences: true }'
    )
    model.load_weights(path, rules={"lstm": "first", "lstm.l1": "second"})
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(model.predict(x), outer.lstm(torch.from_numpy(x))[0].numpy(), **TOLERANCE)
