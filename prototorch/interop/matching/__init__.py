"""Which weight of a file is which weight of a net: by declared rules, by name, or by order and shape."""

from prototorch.interop.matching.match import Match, match_weights

__all__ = ["Match", "match_weights"]
