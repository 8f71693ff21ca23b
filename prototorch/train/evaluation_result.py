"""The values of an evaluation, in order and by name."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Mapping
from typing import Any, overload

from prototorch.errors import did_you_mean

__all__ = ["EvaluationResult"]


class EvaluationResult(tuple[Any, ...]):
    """Loss and metrics of an evaluation: a tuple of the values in the order of ``metrics_names``, which also gives them
    by name.

        loss, accuracy = model.evaluate(x, y)
        model.evaluate(x, y)["accuracy"]

    Indices, slices, unpacking, ``len`` and iteration are those of a tuple; ``result["loss"]``, ``"loss" in result``,
    ``keys``, ``items``, ``get`` and ``asdict`` go by names. ``float(result)`` is the value where there is one alone. As
    JSON: ``json.dumps(result.asdict())``. Values are floats, or lists of metrics that are arrays.
    """

    metrics_names: tuple[str, ...]

    def __new__(cls, values: Mapping[str, Any]) -> EvaluationResult:
        result = super().__new__(cls, values.values())
        result.metrics_names = tuple(values)
        return result

    def __getnewargs__(self) -> tuple[dict[str, Any]]:
        return (self.asdict(),)

    @overload  # type: ignore[override]
    def __getitem__(self, key: str | int) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, key: str | int | slice) -> Any:
        """The value of a name or at an index; the values of a slice. Raises KeyError for an unknown name."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.metrics_names:
            raise KeyError(
                f"the result has no {key!r}, its names are {', '.join(self.metrics_names)}."
                f"{did_you_mean(key, self.metrics_names)}"
            )
        return super().__getitem__(self.metrics_names.index(key))

    def __contains__(self, item: object) -> bool:
        """Whether a string is one of the names, anything else one of the values."""
        return item in self.metrics_names if isinstance(item, str) else super().__contains__(item)

    def __float__(self) -> float:
        """The value, where there is one alone. Raises TypeError where there are several."""
        if len(self) != 1:
            names = ", ".join(self.metrics_names)
            example = f": take one, float(result[{self.metrics_names[0]!r}])" if names else ""
            raise TypeError(f"the result has {len(self)} values ({names}), not one{example}")
        return float(super().__getitem__(0))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def asdict(self) -> dict[str, Any]:
        """A new dict of the values by name."""
        return dict(zip(self.metrics_names, self, strict=True))

    def keys(self) -> KeysView[str]:
        """The names, in order."""
        return self.asdict().keys()

    def values(self) -> tuple[Any, ...]:
        """The values, in order, as a plain tuple."""
        return tuple(self)

    def items(self) -> ItemsView[str, Any]:
        """Pairs of name and value, in order."""
        return self.asdict().items()

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default where there is none."""
        return self[name] if name in self.metrics_names else default
