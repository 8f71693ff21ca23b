"""Plans a graph of attention as on a GPU: cuDNN's graph API asks CUDA's runtime library for the device; run in a
process of its own, without PyTorch, which would load that library.

python plan_without_torch.py FOLDER      folder: for the stub driver; prints a line of JSON
"""
# ruff: noqa: E402 - imports of torch are refused first

from __future__ import annotations

import importlib.abc
import json
import sys
from pathlib import Path
from types import SimpleNamespace


class NoTorch(importlib.abc.MetaPathFinder):
    """Refuses every import of torch."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch must not be needed")


sys.meta_path.insert(0, NoTorch())
sys.path.insert(0, str(Path(__file__).parents[3]))

import cupy

import tests.cuda.offline.offline_cudnn as offline
from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.fused_attention import attention_heads, attention_heads_grad
from prototorch.cuda.kernels.launch import use_device
from prototorch.spec import Spec


def main(folder: Path) -> None:
    """Plan, and print what came of it."""
    offline.load_stub_driver(folder)
    cupy.cuda.nvrtc.getVersion()
    device = offline.OfflineDevice("bf16")
    device.compute_stream = SimpleNamespace(ptr=1)
    import cudnn

    cudnn.create_handle, cudnn.set_stream = lambda: None, lambda *_: None  # there is no device for a handle
    q = Spec((2, 64, 4, 32), "bfloat16")
    with use_device(device):
        attention_heads((q, q, q), (q,), {"causal": True})
        attention_heads_grad((q, q, q, q), (q, q, q), {"causal": True})
    context = get_context(device)
    failures = {key[0].kind: f"{type(plan).__name__}: {plan}" for key, plan in context.plans.items()}
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").split()
    cudarts = sorted({path for path in maps if "libcudart.so" in path})
    print(json.dumps({"failures": failures, "cudarts": cudarts, "torch": "torch" in sys.modules}))


main(Path(sys.argv[1]))
