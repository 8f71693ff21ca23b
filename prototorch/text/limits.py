"""The limits of the model language. Each has its own message; none ends in a hang or a crash."""

from __future__ import annotations

MAX_FILE_BYTES = 16 * 2**20  # of one file, and of a file with all it includes
MAX_NESTING = 100  # braces, brackets and parentheses inside each other; parts of an expression likewise
MAX_NAME_LENGTH = 1000  # characters of a name
MAX_NUMBER_LENGTH = 1000  # characters of a number
MAX_STRING_LENGTH = 2**20  # characters of a string
MAX_LIST_LENGTH = 100_000  # values of a list that an expression makes
MAX_LAYERS = 100_000  # layers after expansion
MAX_STEPS = 1_000_000  # steps of the expansion
INCLUDE_SUFFIX = ".proto"  # of the files that may be included
MAX_INCLUDE_DEPTH = 16  # files that include each other in a row
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_ELEMENTS = 2**40  # of a tensor
