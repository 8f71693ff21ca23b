"""The command line: one file for each command."""

from prototorch.cli.began import BEGAN
from prototorch.cli.main import main

__all__ = ["BEGAN", "main"]
