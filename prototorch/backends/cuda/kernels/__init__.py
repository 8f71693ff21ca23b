"""Own kernels of the GPU: CUDA C++ in `.cu` files (compiled by NVRTC on the machine), and what launches them.

Importing this enters them at the level "cuda", and cuDNN's beside them; neither CuPy nor cuDNN is needed for that.
"""

import importlib
import pkgutil

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
importlib.import_module("prototorch.backends.cuda.cudnn")
