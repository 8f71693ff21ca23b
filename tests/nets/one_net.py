"""``python -m tests.nets.one_net SEED ...``: print a random model, and try it on all levels."""

import sys

from tests.nets.random_nets import random_model
from tests.nets.trained_levels import checked

for _seed in map(int, sys.argv[1:]):
    _made = random_model(_seed)
    print(f"{_made.text}\n# {_made.samples} samples, {_made.batch} at once, {_made.epochs} epochs")
    print("#", checked(_made))
