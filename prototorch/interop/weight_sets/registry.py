"""The declared weight sets: those that come with prototorch, and those beside a user's own text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from prototorch.base.package_files import package_folder
from prototorch.data.safe_io import printable_path, read_file
from prototorch.errors import DataError, FileError, ResourceError, UsageError, did_you_mean
from prototorch.graph.net import Net
from prototorch.interop.weight_sets.declaration import WeightSet, describe_layers
from prototorch.model.weights_block import Weights
from prototorch.text.diagnostics import Report
from prototorch.text.loader import load_document
from prototorch.text.syntax_tree import Body

__all__ = ["DeclaredSet", "find_set", "list_sets", "model_names", "sets_of_model", "sets_of_net", "text_of_net"]

MAX_CLASSES_BYTES = 1 << 24  # of a list of class names


@dataclass(frozen=True)
class DeclaredSet:
    """A weight set and the text that declares it."""

    weights: WeightSet
    path: Path

    @property
    def is_shipped(self) -> bool:
        """Whether it comes with prototorch, so that its address is trusted."""
        return self.path.parent == _shipped_folder()

    @property
    def is_included(self) -> bool:
        """Whether its file comes with prototorch as well, so that nothing is downloaded."""
        return self.is_shipped and self.weights.address.startswith("file:")

    @property
    def model_path(self) -> Path:
        """The model text that the set belongs to."""
        return self.path.parent.parent / f"{self.weights.model}.proto"

    def class_names(self) -> tuple[str, ...]:
        """The names of its classes in order. Raises FileError where their file cannot be read."""
        name = self.weights.classes
        if name is None:
            return ()
        if name != os.path.basename(name) or name in ("", ".", ".."):
            raise UsageError(f"{self.path}: classes: expected the name of a file in classes/, got {name!r:.80}")
        path = self.path.parent / "classes" / f"{name}.txt"
        try:
            if not self.is_shipped and (path.is_symlink() or path.parent.is_symlink()):
                raise DataError(f"{printable_path(path)}: is a symbolic link, or in a folder that is one")
            return tuple(bytes(read_file(path, MAX_CLASSES_BYTES)).decode("utf-8").splitlines())
        except (DataError, ResourceError, UnicodeDecodeError) as error:
            where = "" if isinstance(error, DataError | ResourceError) else f"{printable_path(path)}: "
            raise FileError(f"the class names of {self.weights.name} cannot be read: {where}{error}") from None

    @property
    def origin(self) -> Mapping[str, str]:
        """See `PublishedSet.origin`."""
        return {"weights": self.weights.name, "license": self.weights.license}

    def take_over(self, net: Net, block: Weights) -> tuple[Net, str]:
        """The net with the preprocessing and the class names of the set, and the lines that say so.

        The names of the classes are left out where weights are, by ``except``: what the outputs mean is then not known.
        """
        weights = self.weights
        notes = [f"weights: {weights.name} ({weights.describe()})"]
        if block.preprocess == "set" and weights.preprocess and tuple(weights.preprocess) != net.preprocess:
            replaced = " replaces that of the text" if net.preprocess else ""
            notes.append(f"preprocess: {describe_layers(tuple(weights.preprocess))}{replaced}")
            net = replace(net, preprocess=tuple(weights.preprocess))
        names = () if block.except_ else self.class_names()
        if names:
            net = replace(net, class_names=names)
        return net, "\n".join(notes)


def list_sets() -> list[DeclaredSet]:
    """All sets that come with prototorch, by model."""
    return [one for path in sorted(_shipped_folder().glob("*.proto")) for one in _read_shipped(path)]


def sets_of_model(model: str) -> list[DeclaredSet]:
    """The shipped sets of a shipped model."""
    path = _shipped_folder() / f"{model}.proto"
    return list(_read_shipped(path)) if model and path.name == f"{model}.proto" and path.is_file() else []


def sets_of_net(net: Net) -> list[DeclaredSet]:
    """The sets of a net's text: those in ``weights/`` beside it, then the shipped ones of a model of its name."""
    sets: list[DeclaredSet] = []
    text = text_of_net(net)
    names = model_names(net)
    if text is not None and text.parent != package_folder("models"):
        for name in names:
            path = text.parent / "weights" / f"{name}.proto"
            if path.is_file():
                sets += read_sets(path)
    for name in names:
        sets += [one for one in sets_of_model(name) if one.weights.model == name]
    return sets


def model_names(net: Net) -> list[str]:
    """The names by which sets may call a net: its own, and that of its text's file."""
    text = text_of_net(net)
    names = [net.name, *([text.stem] if text is not None else [])]
    return [name for name in dict.fromkeys(names) if name and name == os.path.basename(name)]


def text_of_net(net: Net) -> Path | None:
    """The file of the text that a net was read from; None for a saved model, and for one made in Python."""
    spans = [node.span for node in net.inputs if node.span is not None]
    path = spans[0].path if spans else None
    return Path(path).absolute() if path and path.endswith(".proto") and os.path.isfile(path) else None


def find_set(name: str, net: Net) -> DeclaredSet | None:
    """The set that a name, an alias or an address stands for; None where it is the name of no set.

    Raises UsageError for an alias that the net's model does not have, and for a name that only looks like one of a set.
    """
    own = sets_of_net(net)
    for one in own:
        if name in (one.weights.name, one.weights.address, *one.weights.alias):
            return one
    shipped = list_sets()
    for one in shipped:
        if name in (one.weights.name, one.weights.address):
            return one
    others = [one for one in shipped if name in one.weights.alias]
    if others:
        raise UsageError(_no_such_alias(name, net, own, others))
    return None


def _no_such_alias(alias: str, net: Net, own: Sequence[DeclaredSet], others: Sequence[DeclaredSet]) -> str:
    names = model_names(net)
    where = f"; models with {alias!r} are {', '.join(sorted({one.weights.model for one in others}))}"
    replacing = [one for one in others if one.weights.replaces in names]
    if replacing:
        one = replacing[0].weights
        where = f'; {one.name} belongs to another text: load_model("{one.model}", weights="{alias}")'
    elif own:
        where = f"; it has {', '.join(one.weights.name for one in own)}{where}"
    return f"the model {net.name!r} has no weights {alias!r}{where}"


def suggest_sets(name: str, net: Net) -> str:
    """A hint for a name that is neither a file nor a set."""
    own = [n for one in sets_of_net(net) for n in (one.weights.name, *one.weights.alias)]
    return did_you_mean(name, [*own, *(one.weights.name for one in list_sets())]) or (
        f" The model {net.name!r} has {', '.join(own)}." if own else " `prototorch weights` lists all sets."
    )


def read_sets(path: Path) -> tuple[DeclaredSet, ...]:
    """The sets that a file declares. Raises TextError with all its mistakes, FileError."""
    report = Report()
    document = load_document(path, report=report)
    sets: list[DeclaredSet] = []
    for f in document.fields:
        if f.name != "weight_set" or not isinstance(f.value, Body):
            report.add(f"Only weight_set {{ }} blocks are declared here, not {f.name!r}.", f.name_span, f.chain)
            continue
        weights = WeightSet.from_fields(f.value.fields, report.with_chain(f.chain), f.name_span)
        if weights is not None:
            sets.append(DeclaredSet(_with_absolute_address(weights, path.parent), path))
    for first, second in _duplicates(sets):
        report.add(f"{first!r} names two weight sets of this file ({second}).", None)
    report.raise_if_any()
    return tuple(sets)


def _with_absolute_address(weights: WeightSet, folder: Path) -> WeightSet:
    """The set, the relative path of whose ``file:`` address is one from the folder of its declaration."""
    place = weights.address.removeprefix("file:")
    if place == weights.address or place.startswith("/"):
        return weights
    return weights.replace(address=(folder / unquote(place)).absolute().as_uri())


def _duplicates(sets: Iterable[DeclaredSet]) -> list[tuple[str, str]]:
    owners: dict[str, str] = {}
    twice = []
    for one in sets:
        for name in (one.weights.name, *one.weights.alias):
            if name in owners:
                twice.append((name, one.weights.name))
            owners[name] = one.weights.name
    return twice


@cache
def _read_shipped(path: Path) -> tuple[DeclaredSet, ...]:
    return read_sets(path)


def _shipped_folder() -> Path:
    return package_folder("models") / "weights"
