"""The limits of the model language. Each has its own message; none ends in a hang or a crash."""

from __future__ import annotations

FILE_BYTES = 16 * 2**20  # of one file, and of a file with all it includes
NESTING = 100  # braces, brackets and parentheses inside each other; parts of an expression likewise
NAME = 1000  # characters of a name
NUMBER = 1000  # characters of a number
STRING = 2**20  # characters of a string
LIST = 100_000  # values of a list that an expression makes
LAYERS = 100_000  # layers after expansion
STEPS = 1_000_000  # steps of the expansion
INCLUDES = 16  # files that include each other in a row
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
ELEMENTS = 2**40  # of a tensor
