"""PyTorch's functions on tensors, one module a family; a module that is here is registered.

They are written in `prototorch.ops` and in what a tensor is (shape, dtype), not on arrays, so that they run at once, in
a function that `compile` traces, and in a static graph.
"""

import importlib as _importlib
import pkgutil as _pkgutil

for _info in _pkgutil.iter_modules(__path__):
    _importlib.import_module(f"{__name__}.{_info.name}")
