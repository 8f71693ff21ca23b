"""The weights of a net under the names and in the layouts of another system."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from prototorch.errors import UsageError, did_you_mean
from prototorch.graph.net import Net
from prototorch.interop.weight_sets.registry import sets_of_net
from prototorch.model.loading.file_layers import Parts, split_name
from prototorch.model.loading.layout.layout_table import NotExpressibleError, layout_table
from prototorch.model.loading.names.renaming import Renaming
from prototorch.model.name_rules import MapRule, Rules

__all__ = ["find_system", "system_arrays"]

_SYSTEMS = ("torch", "prototorch")


def system_arrays(net: Net, weights: Mapping[str, np.ndarray], names: str) -> dict[str, np.ndarray]:
    """The arrays of a system's own file by their names there; a layer ``stage1/conv`` is ``stage1.conv`` where the
    system divides names by dots.

    weights: all weights of the net by name (``layer/weight``). names: a system ("torch"), or a weight set of the net's
    model ("torchvision/resnet18") or the source of one ("torchvision"), whose rules are applied backwards. Raises
    UsageError for unknown names, and with all layers that the system does not have.
    """
    system, rename = _find_names(names, net)
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
        prefix = key.replace("/", table.separator) if rename is None else table.separator.join(rename(split_name(key)))
        for name, array in theirs.items():
            full = f"{prefix}{table.separator}{name}" if name else prefix
            if full in arrays:
                raise UsageError(f"{key}: two weights would be called {full!r} in {system}; rename the layer")
            arrays[full] = array
    if reasons:
        raise UsageError(f"weights that {system} cannot hold:\n" + "\n".join(f"  {reason}" for reason in reasons))
    return arrays


def find_system(names: str, net: Net) -> str:
    """The system of names as `system_arrays` takes them. Raises UsageError for unknown ones."""
    return _find_names(names, net)[0]


def _find_names(names: str, net: Net) -> tuple[str, Callable[[Parts], Parts] | None]:
    """The system of names, and for those of a weight set the renaming of our layers' names into its."""
    if names in _SYSTEMS:
        return names, None
    own = [one.weights for one in sets_of_net(net)]
    matching_sets = [one for one in own if names in (one.name, *one.alias, one.name.partition("/")[0])]
    if not matching_sets:
        system_names = [*_SYSTEMS, *(one.name for one in own)]
        raise UsageError(
            f"names must be one of {', '.join(system_names)}, not {names!r:.80}.{did_you_mean(names, system_names)}"
        )
    rules = [MapRule(from_=rule.to, to=rule.from_) for rule in matching_sets[0].rules.map]
    return matching_sets[0].system, Renaming(Rules(map=rules)).under(())
