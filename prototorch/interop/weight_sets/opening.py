"""`open_weights`: the file that a name, an address or a path stands for, with the rules for its names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from prototorch.errors import FileError, UsageError
from prototorch.graph.net import Net
from prototorch.interop.downloads import download
from prototorch.interop.matching.rules import Rules
from prototorch.interop.readers import formats, read_weights
from prototorch.interop.weight_file import WeightFile
from prototorch.interop.weight_sets.belonging import check_belongs
from prototorch.interop.weight_sets.registry import DeclaredSet, find_set, sets_of_net, suggest_sets
from prototorch.terminal import escape_line

__all__ = ["OpenedWeights", "open_weights"]

_SUFFIXES = (".pt", ".pth", ".bin", ".safetensors", ".h5", ".hdf5", ".keras", ".npz", ".npy", ".onnx", ".nnp",
             ".caffemodel", ".proto")  # fmt: skip


@dataclass(frozen=True)
class OpenedWeights:
    """A file of weights for a net.

    rules: how the weight set that it belongs to maps its names; None where it belongs to none. declared: that set.
    """

    file: WeightFile
    rules: Rules | None = None
    declared: DeclaredSet | None = None

    @property
    def system(self) -> str | None:
        """The system whose names and layouts the file has, where its weight set tells."""
        return self.declared.weights.system if self.declared is not None else None


def open_weights(
    what: str | PathLike[str],
    net: Net,
    *,
    except_: Sequence[str] = (),
    allow_download: bool = True,
    folder: str | PathLike[str] | None = None,
) -> OpenedWeights:
    """The file that ``what`` stands for, opened and not yet matched with the net.

    what: the name of a weight set or an alias of one of the net's model, the path of a file, or an address. A local
    file gets the rules of a set of the net's model whose names it has.
    except_: patterns of weights of the net that are not taken from the file. allow_download: whether addresses may be
    opened that are not those of sets that come with prototorch. folder: the one that paths are relative to.

    Raises UsageError for a set of another model, with the model it belongs to, and for a name that is nothing;
    FileError and its kinds for files that cannot be had or read.
    """
    name = fspath(what)
    declared = find_set(name, net) if isinstance(what, str) else None
    if declared is not None:
        return _open_set(declared, net, except_, allow_download)
    if "://" in name or name.startswith("file:"):
        _check_allowed(name, allow_download)
        return _open_file(download(name), net)
    path = Path(folder or "", name) if folder is not None and Path(folder, name).exists() else Path(name).expanduser()
    if not path.exists() and not _looks_like_path(name):
        raise UsageError(
            f"{escape_line(name)!r:.200} is neither a file nor the name of a weight set.{suggest_sets(name, net)}"
        )
    return _open_file(path, net)


def _looks_like_path(name: str) -> bool:
    return name.endswith(_SUFFIXES) or (os.sep in name and name.count("/") != 1) or name.startswith((".", "~", "/"))


def _open_set(declared: DeclaredSet, net: Net, except_: Sequence[str], allow_download: bool) -> OpenedWeights:
    weights = declared.weights
    check_belongs(declared, net, except_)
    known = {one.name.partition(" ")[0].lower() for one in formats()}
    if weights.format.partition(" ")[0].lower() not in known:
        others = [one.weights for one in sets_of_net(net) if one is not declared]
        others_text = f"; readable sets are {', '.join(one.name for one in others)}" if others else ""
        raise UsageError(
            f"{weights.name} is a file of {weights.format} ({weights.address}), a format that is not read yet"
            f"{others_text}"
        )
    if not declared.is_shipped:
        _check_allowed(weights.address, allow_download)
    size = None if weights.mebibytes is None else round(weights.mebibytes * 2**20)
    path = download(weights.address, digest=weights.digest, size=size)
    return OpenedWeights(read_weights(path), weights.rules, declared)


def _check_allowed(address: str, allow_download: bool) -> None:
    if not allow_download:
        raise FileError(
            f"the text names the address {escape_line(address)!r:.300}: an address in a text is not opened unless you "
            "allow it, by allow_download=True or --allow-download"
        )


def _open_file(path: Path, net: Net) -> OpenedWeights:
    """A local file, with the rules of the set whose names it has."""
    file = read_weights(path)
    if file.system == "prototorch":
        return OpenedWeights(file)
    sets = [one for one in sets_of_net(net) if file.system in ("", one.weights.system) and one.weights.rules.map]
    for one in sets:
        if path.name == one.weights.address.rpartition("/")[2] and _has_names(file, one.weights.rules):
            return OpenedWeights(file, one.weights.rules, one)
    for one in sets:
        if _has_names(file, one.weights.rules):
            return OpenedWeights(file, one.weights.rules)
    return OpenedWeights(file)


def _has_names(file: WeightFile, rules: Rules) -> bool:
    """Whether at least half of the rules are about names that a file has, behind any prefix ("module.")."""
    parts: set[str] = set()
    for name in file:
        pieces = name.replace("/", ".").split(".")
        parts.update(".".join(pieces[i:j]) for i in range(min(3, len(pieces))) for j in range(i + 1, len(pieces) + 1))
    count = sum(rule.from_.replace("/", ".") in parts for rule in rules.map)
    return count * 2 >= len(rules.map)
