"""The start time of this process: imported before everything else of the command line."""

import time

PROCESS_START = time.perf_counter()
