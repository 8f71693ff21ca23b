"""Functions of keras.ops in functional models (``x + y``, ``keras.ops.relu(x)``) as layers of ours."""

from __future__ import annotations

from prototorch.interop.counterparts.keras.row import row_of_operation
from prototorch.interop.keras.config_import.config_fields import NotImportableError, activation_layer
from prototorch.interop.keras.config_import.site import KerasLayerImport, Values

__all__ = ["import_operation", "is_operation"]


def is_operation(module: str) -> bool:
    """Whether a config's class is a function of keras.ops."""
    return module.startswith(("keras.src.ops", "keras.ops"))


def import_operation(site: KerasLayerImport) -> Values:
    """The outputs of an operation. Raises NotImportableError where no layer does the same."""
    row = row_of_operation(site.call.kind)
    if row is None:
        raise NotImportableError("a function of keras.ops that no importer here knows: rebuild it from Keras' layers")
    if row.operate is not None:
        return row.operate(site)
    value = site.one()
    return site.add(activation_layer(row.function), [value], value.order)
