"""`python -m tests.plans`: see `plan_files`."""

import sys

from tests.plans.plan_files import main

main(sys.argv[1:])
