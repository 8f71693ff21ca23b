"""Whole models of Keras as nets of ours: their configs are read as data; no class that they name is looked up."""

from prototorch.interop.keras.config_import.whole_model import import_config, import_file

__all__ = ["import_config", "import_file"]
