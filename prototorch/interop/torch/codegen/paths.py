"""Where a layer's module is in a tree of modules: the parts of its name, as names that Python and PyTorch take."""

from __future__ import annotations

from collections.abc import Iterable

from prototorch.interop.torch.codegen.identifiers import attribute_name, unique_name

__all__ = ["ModulePaths"]


class ModulePaths:
    """The paths of layers by their names. Different names have different paths, and no layer lies below another."""

    def __init__(self, names: Iterable[str]):
        names = list(dict.fromkeys(names))
        layers = set(names)
        self._paths: dict[str, tuple[str, ...]] = {}
        parts: dict[str, tuple[str, ...]] = {"": ()}  # by the beginning of a name that ends before a "/"
        below: dict[tuple[str, ...], set[str]] = {}
        for name in names:
            prefix = ""
            pieces = name.split("/")
            for i, piece in enumerate(pieces):
                whole = f"{prefix}/{piece}" if prefix or i else piece
                is_layer = i == len(pieces) - 1
                key = f"layer {whole}" if is_layer else whole
                if key not in parts:
                    parent = parts[prefix]
                    preferred = attribute_name(piece)
                    if not is_layer and whole in layers:
                        preferred += "_"  # the name is a layer's own
                    others = below.setdefault(parent, set())
                    attribute = unique_name(preferred, others)
                    others.add(attribute)
                    parts[key] = (*parent, attribute)
                prefix = whole
            self._paths[name] = parts[f"layer {name}"]

    def path(self, name: str) -> tuple[str, ...]:
        """The path of a layer."""
        return self._paths[name]
