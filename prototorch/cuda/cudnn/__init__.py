"""cuDNN by its graph API: convolution, matrix products, attention.

Importing this registers the kernels at the level "cuda"; cuDNN itself is loaded when the first of them is prepared.
"""

import importlib
import pkgutil

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
