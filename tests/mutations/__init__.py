"""Mistakes that are put into the code on purpose, each with the tests that must find it.

A mutation is an entry of one of the ``*.toml`` files beside this one::

    [[mutation]]
    name = "dropout: the same mask in every step"
    file = "prototorch/train/step_runner.py"
    old = "random_key(self.plan_cache.seed, self.step, number)"
    new = "random_key(self.plan_cache.seed, 0, number)"
    tests = ["tests/train/test_randomness.py::test_every_step_draws_anew"]

``old`` must stand exactly once in the file: tests/test_mutations.py notices an entry whose code has changed.
``python -m tests.mutations`` applies one after the other to a copy of the repository and runs the tests.
"""
