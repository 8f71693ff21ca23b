"""The weights of a net under the names and in the layouts of another system."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prototorch.errors import UsageError
from prototorch.graph.net import Net
from prototorch.interop.layouts import NotExpressibleError, layout_table

__all__ = ["system_arrays"]


def system_arrays(net: Net, weights: Mapping[str, np.ndarray], system: str) -> dict[str, np.ndarray]:
    """The arrays of a system's own file by their names there; a layer ``stage1/conv`` is ``stage1.conv`` where the
    system divides names by dots.

    weights: all weights of the net by name (``layer/weight``). Raises UsageError for an unknown system, and with all
    layers that the system does not have.
    """
    table = layout_table(system)
    if table is None:
        raise UsageError(f"there is no table of the weights of {system!r}")
    layers = {node.weights_key: node.layer for node in reversed(net.nodes)}
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, array in weights.items():
        key = name
        while key not in layers:
            key = key.rpartition("/")[0]
        groups.setdefault(key, {})[name.removeprefix(f"{key}/")] = array
    arrays: dict[str, np.ndarray] = {}
    reasons = []
    for key, group in groups.items():
        try:
            theirs = table.to_theirs(layers[key], group)
        except NotExpressibleError as error:
            reasons.append(f"{key}: {error}")
            continue
        prefix = key.replace("/", table.separator)
        for name, array in theirs.items():
            full = f"{prefix}{table.separator}{name}"
            if full in arrays:
                raise UsageError(f"{key}: two weights would be called {full!r} in {system}; rename the layer")
            arrays[full] = array
    if reasons:
        raise UsageError(f"weights that {system} cannot hold:\n" + "\n".join(f"  {reason}" for reason in reasons))
    return arrays
