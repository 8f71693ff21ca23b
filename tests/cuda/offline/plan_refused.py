"""Plans graphs that cuDNN refuses, in a process of its own, whose stderr is then looked at.

python plan_refused.py FOLDER      folder: for the stub driver; prints the number of refusals
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.graph_desc import GraphDesc, tensor_desc
from prototorch.spec import Spec
from tests.cuda.offline.offline_cudnn import load_stub_driver, make_offline_device

WINDOW = (("pads", ((1, 1), (1, 1))), ("strides", (1, 1)), ("dilation", (1, 1)))
ATTENTION = (("scale", 0.1), ("causal", "top_left"), ("deterministic", False))


def attention(dtype: str, depth: int) -> GraphDesc:
    """A graph of attention's gradient."""
    heads = tensor_desc(Spec((2, 4, 24, depth), dtype))
    stats = tensor_desc(Spec((2, 4, 24, 1)))
    tensors = [*((name, heads) for name in ("q", "k", "v", "o", "g")), ("stats", stats)]
    return GraphDesc(
        "sdpa_backward", (*tensors, *((n, heads) for n in ("dq", "dk", "dv"))), ("dq", "dk", "dv"), ATTENTION
    )


def conv(dtype: str) -> GraphDesc:
    """A graph of a convolution."""
    x, w = tensor_desc(Spec((4, 16, 8, 8), dtype)), tensor_desc(Spec((16, 16, 3, 3), dtype))
    return GraphDesc("conv", (("x", x), ("w", w), ("y", x)), ("y",), WINDOW)


def matmul(dtype: str) -> GraphDesc:
    """A graph of a product."""
    x = tensor_desc(Spec((1, 64, 64), dtype))
    return GraphDesc("matmul", (("a", x), ("b", x), ("y", x)), ("y",))


REFUSED = [attention("float32", 32), attention("bfloat16", 33), attention("bfloat16", 512), conv("int32"),
           matmul("float64"), matmul("float32")]  # fmt: skip

load_stub_driver(Path(sys.argv[1]))
device = make_offline_device("fp32")  # alive for as long as plans are made for it
context = get_context(device)
print(sum(context.get_plan(desc) is None for desc in REFUSED), "of", len(REFUSED))
