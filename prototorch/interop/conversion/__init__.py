"""Conversion between files of all systems: what stands behind ``prototorch convert``."""

from prototorch.interop.conversion.convert import Conversion, convert

__all__ = ["Conversion", "convert"]
