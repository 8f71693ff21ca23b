"""Own kernels of the GPU: CUDA C++ in `.cu` files (compiled by NVRTC on the machine), and what launches them.

Importing this enters them at the level "cuda"; CuPy is not needed for that.
"""

import importlib
import pkgutil

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
