"""Which cuDNN graphs must run on tensor cores: for some, cuDNN ranks an engine without them first, or for a convolution
with its epilogue has no other (9.19: AlexNet's fifth, in two groups, in bf16)."""

from __future__ import annotations

from prototorch.cuda.cudnn.graph_desc import GraphDesc

__all__ = ["MIN_FLOPS", "needs_tensor_cores"]

#: operations of a graph below which launches cost more than its engine
MIN_FLOPS = 1 << 28
#: channels of a group below which tensor cores compute mostly with the channels that are added
MIN_CHANNELS = 8


def needs_tensor_cores(desc: GraphDesc) -> bool:
    """Whether an engine without tensor cores would be several times slower: a convolution of 16-bit values, or one of
    its gradients, with at least `MIN_FLOPS` and at least `MIN_CHANNELS` channels in each group."""
    if not desc.kind.startswith("conv") or desc.tensors[0][1].dtype not in ("float16", "bfloat16"):
        return False
    weights = desc.tensor("w" if desc.has_tensor("w") else "dw")
    return desc.flops >= MIN_FLOPS and weights.dims[1] >= MIN_CHANNELS
