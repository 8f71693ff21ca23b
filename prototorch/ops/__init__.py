"""The ops: what a network is said in.

Each is called with values (of the recorder or of the eager tape) or numbers positional, and attributes by keyword.
Every public function and op of the modules in this folder is a name of this package; presence is registration.
"""

import importlib
import pkgutil
from typing import Any

from prototorch.ops.core import Op

for _info in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_info.name}")
    for _name, _thing in list(vars(_module).items()):
        _home = getattr(type(_thing) if isinstance(_thing, Op) else _thing, "__module__", None)
        if not _name.startswith("_") and _home == _module.__name__ and not isinstance(_thing, type):
            globals()[_name.rstrip("_")] = _thing  # `sum_` is `ops.sum`


def __getattr__(name: str) -> Any:  # for type checkers: the names above are found by looking
    raise AttributeError(f"there is no op {name!r}")
