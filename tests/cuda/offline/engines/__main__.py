"""`python -m tests.cuda.offline.engines`: see `engine_files`."""

import sys

from tests.cuda.offline.engines.engine_files import main

main(sys.argv[1:])
