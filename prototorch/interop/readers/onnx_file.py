"""ONNX: the initializers of a model's graph by name. `prototorch.interop.onnx` reads the graph itself."""

from __future__ import annotations

from prototorch.interop.onnx.model_file import open_onnx
from prototorch.model.loading.read.file_format import Format, UnknownFile, check_weight_name
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["FORMAT"]

#: the tags of ModelProto's fields 2 to 8 and 14, one of which follows the ir_version at the beginning of a file
_NEXT_TAGS = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72)


def _recognize(file: UnknownFile) -> bool:
    """A file that begins with ir_version (field 1, a small integer) and another field of ModelProto."""
    head = file.head
    begins = len(head) > 3 and head[0] == 0x08 and 0 < head[1] < 64 and head[2] in _NEXT_TAGS
    return begins or (file.ending == ".onnx" and bool(head))


def _open(path: str) -> WeightFile:
    file = open_onnx(path)
    for name in file.arrays:
        check_weight_name(name, path)
    skipped = {"graph": f"{len(file.graph.node):,} nodes: `prototorch convert` reads a whole model"}
    return WeightFile(path, FORMAT.name, "onnx", dict(file.arrays), metadata=file.metadata, skipped=skipped)


FORMAT = Format("ONNX", _recognize, _open, (".onnx",))
