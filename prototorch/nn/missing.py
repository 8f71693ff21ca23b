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
    "CTCLoss": "there is no loss of connectionist temporal classification",
    "FractionalMaxPool2d": "there is no pooling of random windows; use MaxPool2d or AdaptiveMaxPool2d",
    "FractionalMaxPool3d": "there is no pooling of random windows; use MaxPool3d or AdaptiveMaxPool3d",
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
