"""Index files of weights in several files (``model.safetensors.index.json``, ``pytorch_model.bin.index.json``)."""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

from prototorch.data.safe_io import printable_path, read_file
from prototorch.engine.storage.tree_paths import find_name_error
from prototorch.errors import DataError, ModelFileError
from prototorch.model.loading.read.file_format import Format, UnknownFile, check_weight_name
from prototorch.model.loading.read.read_file import find_format
from prototorch.model.loading.weight_file import StoredArray, WeightFile

__all__ = ["FORMAT"]

MAX_INDEX_BYTES = 32 << 20
MAX_SHARDS = 1000


def _recognize(file: UnknownFile) -> bool:
    return file.path.lower().endswith(".index.json") or (
        file.head.lstrip()[:1] == b"{" and b'"weight_map"' in file.head and b".weights.h5" not in file.head
    )


def _open(path: str) -> WeightFile:
    weight_map = _read_index(path)
    shards = {}
    for shard in sorted(set(weight_map.values())):
        shards[shard] = _open_shard(path, shard)
    arrays: dict[str, StoredArray] = {}
    skipped: dict[str, str] = {}
    for name, shard in weight_map.items():
        check_weight_name(name, path)
        if name not in shards[shard].arrays:
            _refuse(path, f"{shard} has no weight {name[:100]!r}")
        arrays[name] = shards[shard].arrays[name]
    for shard, file in shards.items():
        skipped |= {name: f"not in the index, but in {shard}" for name in file if weight_map.get(name) != shard}
        skipped |= file.skipped
    systems = {file.system for file in shards.values()}
    formats = sorted({file.format for file in shards.values()})
    system = systems.pop() if len(systems) == 1 else ""
    return WeightFile(path, f"{' and '.join(formats)} in {len(shards)} files", system, arrays, skipped=skipped)


def _read_index(path: str) -> dict[str, str]:
    """Weight -> file name."""
    try:
        content = json.loads(bytes(read_file(path, MAX_INDEX_BYTES)).decode("utf-8"), object_pairs_hook=_unique_keys)
    except DataError as error:
        raise ModelFileError(str(error)) from None
    except (ValueError, RecursionError) as error:
        _refuse(path, f"damaged: {error!s:.200}")
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        _refuse(path, 'expected {"weight_map": {name: file}}')
    if not all(isinstance(shard, str) for shard in weight_map.values()):
        _refuse(path, "each weight must have the name of a file")
    if len(set(weight_map.values())) > MAX_SHARDS:
        _refuse(path, f"more than {MAX_SHARDS:,} files")
    return weight_map


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name occurs twice")
    return entries


def _shard_path(path: str, shard: str) -> str:
    """The path of a file beside the index. A link may lead to where the index itself is linked from, as in the cache of
    a hub, and nowhere else."""
    problem = find_name_error(shard) or ("has a part with a '\\'" if "\\" in shard or ":" in shard else None)
    if problem or shard.lower().endswith(".json"):
        _refuse(path, f"the file name {shard[:100]!r} {problem or 'is that of an index'}")
    folder = os.path.dirname(path)
    shard_path = os.path.join(folder, shard)
    if os.path.dirname(os.path.realpath(shard_path)) not in (
        os.path.realpath(folder),
        os.path.dirname(os.path.realpath(path)),
    ):
        _refuse(path, f"{shard[:100]!r} is a link that leads out of the folder")
    return shard_path


def _open_shard(path: str, shard: str) -> WeightFile:
    """A file that the index lists. An index that lists an index is refused: they could open each other for ever."""
    shard_path = _shard_path(path, shard)
    shard_format = find_format(UnknownFile(shard_path))
    if any(ending.endswith(".json") for ending in shard_format.endings):
        _refuse(path, f"lists {shard[:100]!r}, which is itself an index, not a file of weights")
    return shard_format.open(shard_path)


def _refuse(path: str, reason: str) -> NoReturn:
    raise ModelFileError(f"{printable_path(path)}: {reason}")


FORMAT = Format("sharded index", _recognize, _open, (".index.json",))
