"""`open_weights`: the file that a name, an address or a path stands for, with the rules for its names."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from prototorch.base.terminal import escape_line
from prototorch.errors import FileError, UsageError, WeightsError
from prototorch.graph.net import Net
from prototorch.interop.downloads import download
from prototorch.interop.downloads.digests import digests_of_file, parse_digest
from prototorch.interop.weight_sets.declaration import WeightSet
from prototorch.interop.weight_sets.model_matching import check_belongs
from prototorch.interop.weight_sets.registry import DeclaredSet, find_set, list_sets, sets_of_net, suggest_sets
from prototorch.model.loading.layout.laid_out import OwnerFinder
from prototorch.model.loading.layout.layout_table import layout_table
from prototorch.model.loading.read.read_file import formats, read_weights
from prototorch.model.loading.read.source import ReadWeights, SourceOpener
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.weights_block import Weights

__all__ = ["OPENER", "OWNER", "find_owner", "open_weights"]

_SUFFIXES = (".pt", ".pth", ".bin", ".safetensors", ".h5", ".hdf5", ".keras", ".npz", ".npy", ".onnx", ".nnp",
             ".caffemodel", ".proto")  # fmt: skip


def open_weights(block: Weights, net: Net, *, allow_download: bool | None = None, check: bool = True) -> ReadWeights:
    """The file that a block names, opened and not yet matched with the net.

    Its source is the name of a weight set or an alias of one of the net's model, the path of a file, or an address. A
    local file gets the rules of a set of the net's model whose names it has, where the block has none.
    allow_download: whether addresses may be opened that are not those of sets that come with prototorch; None: only one
    that the block itself gives as its source.
    check: whether a set must have exactly the net's weights.

    Raises UsageError for a set of another model, with the model it belongs to, and for a name that is nothing;
    FileError and its kinds for files that cannot be had or read.
    """
    name = block.source
    declared = find_set(name, net)
    if declared is not None:
        if block.digest is not None:
            raise UsageError(f"{name!r:.100} is a weight set, which declares its own digest: leave out digest")
        if check:
            check_belongs(declared, net, block.except_, is_part=block.partial)
        is_allowed = allow_download or (allow_download is None and name == declared.weights.address)
        source_weights = _open_set(declared, net, is_allowed)
    elif "://" in name or name.startswith("file:"):
        _check_allowed("the text", name, allow_download is not False)
        source_weights = _open_file(download(name, digest=block.digest), net)
    else:
        path = _find_file(block, net)
        _check_digest(path, block.digest)
        source_weights = _open_file(path, net)
    return source_weights if block.rules is None else replace(source_weights, rules=block.rules)


def _find_file(block: Weights, net: Net) -> Path:
    """The path that a source stands for: beside the text that names it, else as it is."""
    path = block.path
    if not path.exists() and not _looks_like_path(block.source):
        raise UsageError(
            f"{escape_line(block.source)!r:.200} is neither a file nor the name of a weight set."
            f"{suggest_sets(block.source, net)}"
        )
    return path


def _check_digest(path: Path, text: str | None) -> None:
    """Raises WeightsError for a file with another digest than that of the text."""
    digest = parse_digest(text)
    if digest is None:
        return
    digests = digests_of_file(path)
    if not digest.matches(digests):
        raise WeightsError(
            f"{path}: these are not the weights that the text was written for: the text states the digest {text}, and "
            f"the file's is sha256:{digests.sha256}; name the right file, or leave out digest to take this one"
        )


def _looks_like_path(name: str) -> bool:
    return name.endswith(_SUFFIXES) or (os.sep in name and name.count("/") != 1) or name.startswith((".", "~", "/"))


def _open_set(declared: DeclaredSet, net: Net, allow_download: bool) -> ReadWeights:
    weights = declared.weights
    format_names = {one.name.partition(" ")[0].lower() for one in formats()}
    if weights.format.partition(" ")[0].lower() not in format_names:
        others = [one.weights for one in list_sets() if one.weights.replaces == weights.model]
        instead = "".join(f'; instead: load_model("{one.model}", weights="{one.name}")' for one in others)
        raise UsageError(
            f"{weights.name} is a file of {weights.format} ({weights.address}), a format that is not read yet{instead}"
        )
    if not declared.is_shipped:
        owner = f"the weight set {escape_line(weights.name)!r:.100} (in {escape_line(str(declared.path)):.300})"
        _check_allowed(owner, weights.address, allow_download)
    size = None if weights.mebibytes is None else f"{weights.mebibytes:g} MiB"
    path = download(weights.address, digest=weights.digest, size=size)
    return _of_set(read_weights(path), declared)


def _check_allowed(owner: str, address: str, is_allowed: bool) -> None:
    if not is_allowed:
        raise FileError(
            f"{owner} names the address {escape_line(address)!r:.300}: an address in a text is not opened unless you "
            "allow it, by allow_download=True or --allow-download"
        )


def _open_file(path: Path, net: Net) -> ReadWeights:
    """A local file, with the rules of the set whose names it has."""
    file = read_weights(path)
    if file.system == "prototorch":
        return ReadWeights(file)
    sets = [one for one in sets_of_net(net) if one.weights.rules.map]
    for one in sets:
        if path.name == one.weights.address.rpartition("/")[2] and _has_names(file, one.weights):
            return _of_set(file, one)
    for one in sets:
        if _has_names(file, one.weights):
            return ReadWeights(file, one.weights.rules)
    return ReadWeights(file)


def _of_set(file: WeightFile, declared: DeclaredSet) -> ReadWeights:
    """A file of a set, which tells its system; the images of a set of Keras are channels-last, as in Keras' own models,
    where the file does not tell it."""
    system = declared.weights.system
    data_format = "channels_last" if system == "keras" and "data_format" not in file.metadata else None
    return ReadWeights(file, declared.weights.rules, system, data_format, declared)


def _has_names(file: WeightFile, weights: WeightSet, share: float = 0.5) -> bool:
    """Whether this share of a set's rules are about names that a file has, behind any prefix ("module.")."""
    if file.system not in ("", weights.system):
        return False
    table = layout_table(weights.system)
    parts: set[str] = set()
    for name in file:
        pieces = table.split_name(name) if table is not None else tuple(name.replace("/", ".").split("."))
        parts.update(".".join(pieces[i:j]) for i in range(min(3, len(pieces))) for j in range(i + 1, len(pieces) + 1))
    count = sum(rule.from_.replace("/", ".") in parts for rule in weights.rules.map)
    return count >= share * len(weights.rules.map)


def find_owner(file: WeightFile) -> str:
    """A line that names the shipped model whose weight set has all the names of a file; "" where there is none."""
    fitting = [one.weights for one in list_sets() if one.weights.rules.map and _has_names(file, one.weights, 1)]
    if not fitting:
        return ""
    best = max(fitting, key=lambda one: len(one.rules.map))
    return f"\nits names are those of the weight set {best.name}, which belongs to the model {best.model!r}"


OPENER = SourceOpener(open_weights)
OWNER = OwnerFinder(find_owner)
