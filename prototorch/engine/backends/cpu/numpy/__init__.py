"""The NumPy level: kernels for eager calls, and the fallback of plans where no native kernel applies.

Importing the package registers the kernels of every module in it.
"""

import importlib
import pkgutil

for _info in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_info.name}")
