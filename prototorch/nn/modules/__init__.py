"""The modules by PyTorch's names, one file a family; classes in a file's ``__all__`` are names of `prototorch.nn`."""

from prototorch.nn.collect import collect_names as _collect_names

MODULES = {name: value for name, value in _collect_names(__name__, __path__).items() if isinstance(value, type)}
globals().update(MODULES)
__all__ = sorted(MODULES)
