"""pycaffe's face: Caffe's nets, blobs and solvers under the names that scripts use.

    import prototorch.caffe as caffe
    net = caffe.Net("deploy.prototxt", caffe.TEST, weights="x.caffemodel")
    net.forward(data=images)

Names are loaded when they are first used.
"""

from typing import Any

from prototorch.base.public_names import PublicNames

#: of pycaffe, whose names these are
__version__ = "1.0.0"

_NAMES = PublicNames(
    __name__,
    {
        "net": "Net TEST TRAIN",
        "blob": "Blob",
        "layer": "Layer",
        "timer": "Timer",
        "classifier": "Classifier",
        "detector": "Detector",
        "net_spec": "NetSpec layers net_spec params to_proto",
        **{module: module for module in ("coord_map", "draw", "io", "proto")},
        "solver": "AdaDeltaSolver AdaGradSolver AdamSolver NesterovSolver RMSPropSolver SGDSolver Solver get_solver",
        "layer_types": "layer_type_list",
        "settings": "allow_python has_nccl init_log log set_device set_mode_cpu set_mode_gpu set_multiprocess "
        "set_random_seed set_solver_count set_solver_rank solver_count solver_rank",
    },
)
__all__ = _NAMES.names()


def __getattr__(name: str) -> Any:
    return _NAMES.get(name)


def __dir__() -> list[str]:
    return _NAMES.names()
