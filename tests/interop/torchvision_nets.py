"""Nets of torchvision with random weights, for comparisons: `torchvision_net("resnet18")`.

torchvision's compiled part does not load beside every build of PyTorch; the operators that its modules name when they
are imported are declared here instead, without which nothing of `torchvision.models` could be used.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

_DECLARATIONS = []  # a torch.library.Library undoes its declarations when it is collected


@cache
def torchvision_module() -> ModuleType:
    """The module torchvision; skips the test where it, or PyTorch, is not installed."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARATIONS.append(library)
    return pytest.importorskip("torchvision")


@cache
def torchvision_net(name: str, seed: int = 0, **arguments: Any) -> Any:
    """A net of `torchvision.models` in inference mode, with random weights and random running statistics.

    It is the same object in every call with these arguments: do not change it. The statistics, gammas and betas are
    drawn such that the outputs stay within a few orders of magnitude of 1 and differ between inputs, so that a wrong
    weight, or one in the wrong place, changes them. GoogLeNet has its auxiliary heads and ``transform_input``.
    """
    import torch

    module = torchvision_module()
    if name == "googlenet":
        arguments = {"aux_logits": True, "transform_input": True, "init_weights": False, **arguments}
    torch.manual_seed(seed)
    net = getattr(module.models, name)(weights=None, **arguments)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for part in net.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.uniform_(-0.3, 0.3, generator=generator)
                part.running_var.uniform_(0.5, 1.5, generator=generator)
                part.weight.uniform_(0.2, 0.8, generator=generator)
                part.bias.uniform_(-0.3, 0.3, generator=generator)
                part.num_batches_tracked.fill_(7)
            elif isinstance(part, torch.nn.Conv2d | torch.nn.Linear):
                fan_in = part.weight[0].numel()
                part.weight.normal_(0, (2 / fan_in) ** 0.5, generator=generator)
                if part.bias is not None:
                    part.bias.uniform_(-0.3, 0.3, generator=generator)
    return net.eval()


def save_state(net: Any, path: Path, form: str, prefix: str = "") -> Path:
    """The state of a net of torchvision, saved by PyTorch or safetensors."""
    import torch
    from safetensors.torch import save_file

    state = {prefix + name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    if form == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    return path


def photo() -> np.ndarray:
    """uint8 [1, 3, 233, 301]: smooth, with noise."""
    rows, columns = np.mgrid[:233, :301]
    waves = 127 + 90 * np.sin(rows / 17 + columns / 31)[None] * np.array([1, -1, 0.5])[:, None, None]
    noise = np.random.default_rng(0).integers(-30, 30, (3, 233, 301))
    return np.clip(waves + noise, 0, 255).astype(np.uint8)[None]
