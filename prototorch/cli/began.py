"""When this process began: imported before everything else of the command line."""

import time

BEGAN = time.perf_counter()
