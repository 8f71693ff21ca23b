"""Modules of PyTorch with random weights beside the texts of ours, sizes chosen so that no two axes are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import prototorch as pt
from prototorch.model.load import model_from_text


@dataclass(frozen=True)
class Peer:
    """A layer of ours named ``layer``, its module, the input's shape, and how the module is called."""

    id: str
    text: str
    module: Callable[[], nn.Module | nn.Parameter]
    shape: tuple[int, ...]
    call: Callable[[Any, Tensor], Tensor] = lambda module, x: module(x)
    dtype: str = "float32"

    def model(self, name: str = "layer") -> pt.Model:
        """The net of this one layer."""
        head, _, rest = self.text.partition("{")
        bounds = f'  dtype: "{self.dtype}"' if self.dtype != "float32" else ""
        return model_from_text(
            f'name: "peer" input {{ name: "x" shape: {list(self.shape)}{bounds} }} {head}{{ name: "{name}" {rest}'
        )

    def torch_module(self, seed: int = 0) -> nn.Module:
        """A container with the module as ``layer``, every parameter and running statistic random."""
        torch.manual_seed(seed)
        outer = nn.Module()
        outer.layer = self.module()
        with torch.no_grad():
            for name, value in outer.state_dict().items():
                if name.endswith("running_var"):
                    value.uniform_(0.5, 2.0)
                elif value.is_floating_point():
                    value.normal_(0, 0.7)
        return outer.eval()

    def inputs(self) -> np.ndarray:
        """A batch of 2."""
        rng = np.random.default_rng(3)
        if self.dtype != "float32":
            return rng.integers(0, 7, (2, *self.shape)).astype(self.dtype)
        return rng.normal(size=(2, *self.shape)).astype(np.float32)

    def torch_outputs(self, outer: nn.Module) -> np.ndarray:
        """The module's outputs for `inputs`."""
        with torch.no_grad():
            return self.call(outer.layer, torch.from_numpy(self.inputs())).numpy()


def _rows(module: nn.Module, x: Tensor) -> Tensor:
    """The first output: whole sequences."""
    return module(x)[0]


def _self_attention(module: nn.Module, x: Tensor) -> Tensor:
    return module(x, x, x, need_weights=False)[0]


def _sequential(depthwise: nn.Module, pointwise: nn.Module) -> nn.Module:
    both = nn.Sequential()
    both.add_module("depthwise", depthwise)
    both.add_module("pointwise", pointwise)
    return both


SEQUENCE = "return_sequences: true"
PEERS = [
    Peer("linear", "Dense { units: 5 }", lambda: nn.Linear(3, 5), (3,)),
    Peer("linear-square", "Dense { units: 4 }", lambda: nn.Linear(4, 4), (4,)),
    Peer("linear-steps", "Dense { units: 5  use_bias: false }", lambda: nn.Linear(3, 5, bias=False), (7, 3)),
    Peer("time-distributed", "TimeDistributed { Dense { units: 5 } }", lambda: nn.Linear(3, 5), (7, 3)),
    Peer("conv1", "Conv1D { filters: 5  kernel_size: 3  data_format: channels_first }",
         lambda: nn.Conv1d(2, 5, 3), (2, 7)),
    Peer("conv2-groups", "Conv2D { filters: 6  kernel_size: [2, 3]  groups: 2 }",
         lambda: nn.Conv2d(4, 6, (2, 3), groups=2), (4, 5, 7)),
    Peer("conv2-square", "Conv2D { filters: 3  kernel_size: 3  use_bias: false }",
         lambda: nn.Conv2d(3, 3, 3, bias=False), (3, 5, 7)),
    Peer("conv3", "Conv3D { filters: 3  kernel_size: [1, 2, 3] }", lambda: nn.Conv3d(2, 3, (1, 2, 3)), (2, 3, 4, 5)),
    Peer("conv-prelu", "Conv2D { filters: 3  kernel_size: 2  activation: PReLU { shared_axes: [2, 3] } }",
         lambda: _named(nn.Conv2d(2, 3, 2), activation=nn.PReLU(3)), (2, 4, 5),
         lambda module, x: module.activation(module(x))),
    Peer("transposed2", "Conv2DTranspose { filters: 4  kernel_size: [2, 3]  strides: [1, 2]  groups: 2  padding: 0 }",
         lambda: nn.ConvTranspose2d(6, 4, (2, 3), stride=(1, 2), groups=2), (6, 3, 4)),
    Peer("transposed1", "Conv1DTranspose { filters: 4  kernel_size: 3  strides: 2  padding: 1  output_padding: 1  "
         "data_format: channels_first }",
         lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), (3, 5)),
    Peer("depthwise", "DepthwiseConv2D { kernel_size: [3, 2]  depth_multiplier: 2 }",
         lambda: nn.Conv2d(3, 6, (3, 2), groups=3), (3, 5, 6)),
    Peer("separable", "SeparableConv2D { filters: 5  kernel_size: [2, 3]  depth_multiplier: 2 }",
         lambda: _sequential(nn.Conv2d(3, 6, (2, 3), groups=3, bias=False), nn.Conv2d(6, 5, 1)), (3, 4, 6)),
    Peer("separable-sequential", "SeparableConv1D { filters: 5  kernel_size: 3  data_format: channels_first }",
         lambda: nn.Sequential(nn.Conv1d(3, 3, 3, groups=3, bias=False), nn.Conv1d(3, 5, 1)), (3, 6)),
    Peer("batch-norm", "BatchNormalization { epsilon: 1e-5 }", lambda: nn.BatchNorm2d(5), (5, 3, 2)),
    Peer("batch-norm-plain", "BatchNormalization { epsilon: 1e-5  scale: false  center: false }",
         lambda: nn.BatchNorm1d(5, affine=False), (5,)),
    Peer("layer-norm", "LayerNormalization { epsilon: 1e-5  axis: [1, 2] }", lambda: nn.LayerNorm((3, 5)), (3, 5)),
    Peer("rms-norm", "RMSNormalization { epsilon: 1e-5  axis: [1, 2] }",
         lambda: nn.RMSNorm((3, 5), eps=1e-5), (3, 5)),
    Peer("parameter", "Parameter { shape: [2, 3] }", lambda: nn.Parameter(torch.zeros(2, 3)), (4,),
         lambda parameter, x: parameter[None].expand(len(x), 2, 3)),
    Peer("group-norm", "GroupNormalization { epsilon: 1e-5  groups: 3 }", lambda: nn.GroupNorm(3, 6), (6, 2, 5)),
    Peer("embedding", "Embedding { input_dim: 7  output_dim: 3 }", lambda: nn.Embedding(7, 3), (5,), dtype="int32"),
    Peer("prelu", "PReLU { shared_axes: [2, 3] }", lambda: nn.PReLU(4), (4, 2, 3)),
    Peer("prelu-one", "PReLU { shared_axes: [1, 2, 3] }", lambda: nn.PReLU(), (4, 2, 3)),
    Peer("lstm", f"LSTM {{ units: 5  {SEQUENCE} }}", lambda: nn.LSTM(3, 5, batch_first=True), (7, 3), _rows),
    Peer("lstm-no-bias", f"LSTM {{ units: 3  use_bias: false  {SEQUENCE} }}",
         lambda: nn.LSTM(3, 3, batch_first=True, bias=False), (4, 3), _rows),
    Peer("gru", f"GRU {{ units: 5  {SEQUENCE} }}", lambda: nn.GRU(3, 5, batch_first=True), (7, 3), _rows),
    Peer("rnn-relu", f"SimpleRNN {{ units: 5  activation: relu  {SEQUENCE} }}",
         lambda: nn.RNN(3, 5, nonlinearity="relu", batch_first=True), (4, 3), _rows),
    Peer("bidirectional-lstm", f"Bidirectional {{ LSTM {{ units: 5  {SEQUENCE} }} }}",
         lambda: nn.LSTM(3, 5, batch_first=True, bidirectional=True), (7, 3), _rows),
    Peer("bidirectional-gru", f"Bidirectional {{ GRU {{ units: 4  {SEQUENCE} }} }}",
         lambda: nn.GRU(4, 4, batch_first=True, bidirectional=True), (5, 4), _rows),
    Peer("attention", "MultiHeadAttention { num_heads: 3  key_dim: 2 }",
         lambda: nn.MultiheadAttention(6, 3, batch_first=True), (5, 6), _self_attention),
    Peer("attention-no-bias", "MultiHeadAttention { num_heads: 2  key_dim: 2  use_bias: false }",
         lambda: nn.MultiheadAttention(4, 2, bias=False, batch_first=True), (4, 4), _self_attention),
]  # fmt: skip


def _named(module: nn.Module, **children: nn.Module) -> nn.Module:
    for name, child in children.items():
        module.add_module(name, child)
    return module
