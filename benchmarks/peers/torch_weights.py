"""prototorch's weights into a PyTorch net whose parts come in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.contender import Weights
from benchmarks.peers.torch_nets import Attention, Encoder

_RUNNING = ("_mean", "_variance")


def load(net: nn.Module, weights: Weights) -> None:
    """Write the weights into the net. Raises ValueError where their number or a shape differs."""
    arrays = iter(array for name, array in weights.items() if not name.endswith(_RUNNING))
    with torch.no_grad():
        for module in _leaves(net):
            if isinstance(module, Encoder):
                _write(module.tokens.weight, next(arrays))
                _write(module.places, next(arrays))
            elif isinstance(module, Attention):
                kernels, biases = zip(*((_kernel(next(arrays)), next(arrays).ravel()) for _ in range(3)), strict=True)
                _write(module.into.weight, np.concatenate(kernels))
                _write(module.into.bias, np.concatenate(biases))
                out = next(arrays)
                _write(module.out.weight, out.reshape(-1, out.shape[-1]).T)
                _write(module.out.bias, next(arrays))
            elif isinstance(module, nn.LSTM):
                _write(module.weight_ih_l0, next(arrays).T)
                _write(module.weight_hh_l0, next(arrays).T)
                _write(module.bias_ih_l0, next(arrays))
            else:
                for parameter in module.parameters(recurse=False):
                    array = next(arrays)
                    _write(parameter, array.T if isinstance(module, nn.Linear) and array.ndim == 2 else array)
    if any(True for _ in arrays):
        raise ValueError("the net has fewer weights than prototorch's")


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that own weights, in the order they were made in; an Attention as one."""
    if isinstance(module, Attention):
        yield module
        return
    if isinstance(module, Encoder) or any(True for _ in module.parameters(recurse=False)):
        yield module
    for name, child in module.named_children():
        if not (isinstance(module, Encoder) and name == "tokens"):
            yield from _leaves(child)


def _kernel(array: np.ndarray) -> np.ndarray:
    """[in, heads, size] as [heads * size, in]."""
    return array.reshape(len(array), -1).T


def _write(parameter: Any, array: np.ndarray) -> None:
    if tuple(parameter.shape) != array.shape:
        raise ValueError(f"a weight of shape {list(array.shape)} does not fit into {list(parameter.shape)}")
    parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))
