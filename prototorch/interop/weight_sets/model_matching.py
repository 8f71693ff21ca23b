"""Whether a weight set belongs to a net: its weights have the names and shapes of the set's own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from prototorch.errors import ModelError, UsageError
from prototorch.graph.net import Net
from prototorch.graph.net_reader import read_net
from prototorch.graph.trace import trace
from prototorch.graph.weight_spec import WeightSpec
from prototorch.interop.weight_sets.registry import DeclaredSet
from prototorch.schema.patterns import includes
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_document

__all__ = ["check_belongs"]

_MAX_LISTED = 3  # weights that a message names


def check_belongs(declared: DeclaredSet, net: Net, except_: Sequence[str] = (), is_part: bool = False) -> None:
    """Raise UsageError, before anything is downloaded, unless a net has the weights of the set's model.

    except_: patterns of weights of the net that need not be in the set. is_part: whether the net is a part of a model,
    so that the set may have more. The message names the right model, or the
    weights of another shape and how to leave them out.
    """
    expected = _shapes_of_text(declared.model_path)
    actual = _shapes(net)
    if expected is None or actual is None:
        return  # the size of an input is not known yet, or the model has no text: the file itself decides
    actual = {name: shape for name, shape in actual.items() if not includes(except_, name)}
    missing = [name for name in actual if name not in expected]
    unused = [name for name in expected if name not in actual and not includes(except_, name) and not is_part]
    other = [name for name in actual if name in expected and expected[name] != actual[name]]
    if not (missing or unused or other):
        return
    weights = declared.weights
    start = f"the weight set {weights.name} belongs to the model {weights.model!r}"
    if missing or unused or len(other) * 2 > len(actual):
        reason = f"not to {net.name!r}" if net.name != weights.model else "and this net has other layers"
        details = [
            *([f"{_list(missing)} {'is' if len(missing) == 1 else 'are'} not in it"] if missing else []),
            *([f"{_list(unused)} of it {'is' if len(unused) == 1 else 'are'} not here"] if unused else []),
        ]
        raise UsageError(
            f"{start}, {reason}: {'; '.join(details) or 'most weights have other shapes'}. Use load_model("
            f'"{weights.model}", weights="{weights.name}"), or except_ for layers that are initialized anew'
        )
    layers = dict.fromkeys(name.rpartition("/")[0] for name in other)
    shapes = ", ".join(f"{n} {list(expected[n])} there and {list(actual[n])} here" for n in other[:_MAX_LISTED])
    pattern = ", ".join(f'"{layer}/*"' for layer in layers)
    raise UsageError(
        f"{start}, whose weights have other shapes: {shapes}{', ...' * (len(other) > _MAX_LISTED)}. "
        f"To initialize these anew, leave them out: except: [{pattern}]"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (
        f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    )


def _shapes(net: Net) -> dict[str, tuple[int, ...]] | None:
    """The shapes of a net's weights by name; None where its inputs have unknown sizes."""
    if any(net.unknown_sizes()):
        return None
    specs = {i.name: Spec((1, *(n for n in i.shape if n is not None)), i.dtype) for i in net.inputs}
    weights: Mapping[str, WeightSpec] = trace(net, specs, False).weights
    return {name: weight.spec.shape for name, weight in weights.items()}


def _shapes_of_text(path: Path) -> dict[str, tuple[int, ...]] | None:
    try:
        return _read_shapes(path, path.stat().st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=8)
def _read_shapes(path: Path, changed: int) -> dict[str, tuple[int, ...]] | None:
    report = Report()
    net, _ = read_net(load_document(path, report=report), report)
    try:
        return None if net is None else _shapes(net)
    except ModelError:
        return None
