"""`python -m tests.cuda_offline.engines`: see `engine_files`."""

import sys

from tests.cuda_offline.engines.engine_files import main

main(sys.argv[1:])
