"""pycaffe's face: Caffe's nets, blobs and solvers under the names that scripts use.

    import prototorch.caffe as caffe
    net = caffe.Net("deploy.prototxt", caffe.TEST, weights="x.caffemodel")
    net.forward(data=images)

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from prototorch.errors import did_you_mean

#: public name -> its module, and its name there ("": the module itself)
_PUBLIC = {
    "TEST": ("net", "TEST"),
    "TRAIN": ("net", "TRAIN"),
    "Blob": ("blob", "Blob"),
    "Layer": ("layer", "Layer"),
    "Net": ("net", "Net"),
    "Timer": ("timer", "Timer"),
    "Classifier": ("classifier", "Classifier"),
    "Detector": ("detector", "Detector"),
    **{name: ("net_spec", name) for name in ("NetSpec", "layers", "params", "to_proto")},
    **{name: (name, "") for name in ("coord_map", "draw", "io", "net_spec", "proto")},
    **{
        name: ("solver", name)
        for name in (
            "AdaDeltaSolver", "AdaGradSolver", "AdamSolver", "NesterovSolver", "RMSPropSolver", "SGDSolver", "Solver",
            "get_solver",
        )
    },
    "layer_type_list": ("layer_types", "layer_type_list"),
    **{
        name: ("settings", name)
        for name in (
            "allow_python", "has_nccl", "init_log", "log", "set_device", "set_mode_cpu", "set_mode_gpu",
            "set_multiprocess", "set_random_seed", "set_solver_count", "set_solver_rank", "solver_count", "solver_rank",
        )
    },
}  # fmt: skip

#: of pycaffe, whose names these are
__version__ = "1.0.0"

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"prototorch.caffe has no attribute {name!r}.{did_you_mean(name, _PUBLIC)}")
    module, attribute = _PUBLIC[name]
    loaded = importlib.import_module(f"{__name__}.{module}")
    value = getattr(loaded, attribute) if attribute else loaded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, *(name for name in globals() if name.startswith("__"))])
