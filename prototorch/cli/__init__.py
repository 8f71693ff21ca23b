"""The command line: one file for each command."""

from prototorch.cli.main import main
from prototorch.cli.process_start import PROCESS_START

__all__ = ["PROCESS_START", "main"]
