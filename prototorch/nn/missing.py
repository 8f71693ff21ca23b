"""The names of ``torch.nn`` that do not exist here, each with what to use in its place."""

from __future__ import annotations

__all__ = ["MISSING"]

_UNINITIALIZED = "a module whose sizes follow from its first input is a layer of prototorch.layers (Dense, Conv2D, ...)"

MISSING: dict[str, str] = {
    "AdaptiveLogSoftmaxWithLoss": "use CrossEntropyLoss; the classes are not clustered here",
    "Container": "PyTorch has removed it; use Module",
    "DataParallel": "one process computes on one device here",
    "SyncBatchNorm": "one process computes on one device here; use BatchNorm2d",
    "LinearCrossEntropyLoss": "use Linear and CrossEntropyLoss",
    "LinearCrossEntropyOptions": "use Linear and CrossEntropyLoss",
    "CrossMapLRN2d": "use LocalResponseNorm",
    "CTCLoss": "connectionist temporal classification is not written yet",
    "FractionalMaxPool2d": "pooling of random windows is not written yet; use MaxPool2d or AdaptiveMaxPool2d",
    "FractionalMaxPool3d": "pooling of random windows is not written yet; use MaxPool3d or AdaptiveMaxPool3d",
    **{
        f"Lazy{name}": _UNINITIALIZED
        for name in (
            "Linear",
            *(
                f"{kind}{rank}d"
                for kind in ("BatchNorm", "Conv", "ConvTranspose", "InstanceNorm")
                for rank in (1, 2, 3)
            ),
        )
    },
    "UninitializedBuffer": _UNINITIALIZED,
    "UninitializedParameter": _UNINITIALIZED,
}
