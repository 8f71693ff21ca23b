"""The package's own CUDA kernels: CUDA C++ in `.cu` files, compiled by NVRTC on the machine, and their launches.

Importing this registers them at the level "cuda", and cuDNN's as well; neither CuPy nor cuDNN is needed for that.
"""

import importlib
import pkgutil

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
importlib.import_module("prototorch.cuda.cudnn")
