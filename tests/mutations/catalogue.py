"""Reads and checks the mutations."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutation:
    """A replacement in one file, and the tests of which at least one must fail with it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutate(self, source: str) -> str:
        """The source with the mistake. Raises ValueError if the entry no longer fits it."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {count} times in {self.file}, expected once")
        return source.replace(self.old, self.new)


def load_mutations() -> list[Mutation]:
    """All entries, in the order of the files' names."""
    entries = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutation"]:
            entries.append(Mutation(**entry | {"tests": tuple(entry["tests"])}))
    return entries
