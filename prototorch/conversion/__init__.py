"""Conversion between files of all systems: what stands behind ``prototorch convert``."""

from prototorch.conversion.convert import Conversion, convert

__all__ = ["Conversion", "convert"]
