"""Files of systems whose formats are not read: each is refused with one sentence that says what to save instead."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NoReturn

from prototorch.data.safe_io import printable_path
from prototorch.errors import ModelFileError
from prototorch.model.loading.read.file_format import Format, UnknownFile

__all__ = ["FORMAT"]

_STATE_DICT = "load it in PyTorch if you trust its author, and save torch.save(model.state_dict(), path)"
_KERAS = 'load it in TensorFlow and save model.save_weights("name.weights.h5"), or convert it to ONNX with tf2onnx'
_PICKLE_START = re.compile(rb"\x80[\x02-\x05]|[ci][\w.]+\n[\w.]+\n|\((?:dp|lp|S'|[ci])|[\]}]\x94|[\]}]q\x00")

#: (whether a file is one, what it is, what to do instead)
_KINDS: list[tuple[Callable[[UnknownFile], bool], str, str]] = [
    (lambda f: f.is_folder and _has(f, "saved_model.pb", "saved_model.pbtxt", "keras_metadata.pb"),
     "a TensorFlow SavedModel, which is a program", _KERAS),
    (lambda f: os.path.basename(f.path).lower() in ("saved_model.pb", "keras_metadata.pb"),
     "a part of a TensorFlow SavedModel, which is a program", _KERAS),
    (lambda f: f.head[4:8] == b"TFL3" or f.ending == ".tflite",
     "a TensorFlow Lite model, whose weights are fused and often quantized",
     "take the Keras or ONNX model that it was converted from, or convert it to ONNX with tf2onnx --tflite"),
    (lambda f: (f.is_folder and (_has(f, "Manifest.json") or f.ending in (".mlpackage", ".mlmodelc")))
     or f.ending in (".mlmodel", ".mlpackage"),
     "a Core ML model", "take the PyTorch, Keras or ONNX model that it was converted from"),
    (lambda f: f.head[:4] in (b"GGUF", b"ggml", b"ggjt", b"ggla", b"ggmf"),
     "a GGUF (llama.cpp) file, whose weights are quantized in blocks", "take the safetensors files of the same model"),
    (lambda f: bool(re.search(r"\.(data-\d{5}-of-\d{5}|index|meta)$", f.path)) and not f.path.endswith(".json"),
     "a part of a TensorFlow checkpoint", _KERAS),
    (lambda f: f.is_zip and (f.has_member("archive_format") or f.has_member("serialized_exported_program.json")),
     "a program of torch.export", "save torch.save(program.state_dict, path), or export the module to ONNX"),
    (lambda f: f.head[4:8] in (b"ET12", b"ET13"), "an ExecuTorch program", "take the PyTorch model it was made from"),
    (lambda f: f.head[257:262] == b"ustar", "a tar archive, as PyTorch before 0.1.10 wrote", _STATE_DICT),
    (lambda f: _PICKLE_START.match(f.head) is not None,
     "a Python pickle, which is a program that is never run",
     "load it where it was written if you trust its author, and save the weights as safetensors or npz"),
    (lambda f: f.ending == ".msgpack", "a Flax file",
     "save its parameters with safetensors.flax.save_file, or numpy.savez"),
    (lambda f: f.is_folder and (_has(f, "_METADATA", "_CHECKPOINT_METADATA") or _has(f, "checkpoint")),
     "a folder of an Orbax or TensorFlow checkpoint",
     "restore it where it was written and save the weights as safetensors or npz"),
    (lambda f: f.head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")),
     "an HTML page, not a file of weights", "look at it in a browser: the address may need a login, or have moved"),
    (lambda f: f.head.startswith(b"version https://git-lfs.github.com/spec/"),
     "a pointer of Git LFS, not the file itself", "fetch the file with git lfs pull"),
    (lambda f: f.head[:2] == b"\x1f\x8b", "a gzip file", "unpack it first"),
    (lambda f: f.head[:6] in (b"7z\xbc\xaf\x27\x1c", b"\xfd7zXZ\x00"), "a compressed archive", "unpack it first"),
]  # fmt: skip


def _has(file: UnknownFile, *names: str) -> bool:
    """Whether a folder has one of these entries."""
    return any(os.path.lexists(os.path.join(file.path, name)) for name in names)


def _recognize(file: UnknownFile) -> bool:
    return any(is_one(file) for is_one, _, _ in _KINDS)


def _refuse(path: str) -> NoReturn:
    file = UnknownFile(path)
    kind, remedy = next((kind, remedy) for is_one, kind, remedy in _KINDS if is_one(file))
    raise ModelFileError(f"{printable_path(path)}: is {kind}; {remedy}")


FORMAT = Format("", _recognize, _refuse)
