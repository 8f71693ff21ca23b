"""What is wrong with the config of a call by itself, before it becomes a layer: arguments that its class does not have,
values of other types than Keras takes, shapes that it was built with and does not get.

A config that Keras refuses is refused here as well: it may be damaged, and what is left of it is another model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prototorch.interop.counterparts.keras.row import class_of_name, keras_row, row_of_name
from prototorch.interop.keras.config_import.config_fields import (
    IGNORED_ARGUMENTS,
    MASK_ARGUMENTS,
    OBJECT_FAMILIES,
    READ_ELSEWHERE,
    NotImportableError,
    object_of,
    plain_name,
)
from prototorch.layers.base import Layer
from prototorch.schema.neutral_arguments import neutral_arguments

__all__ = [
    "check_arguments",
    "check_built_shape",
    "check_call",
    "check_input",
    "check_operation",
    "is_keras_module",
]

_MODULES = re.compile(
    r"(?:tensorflow\.)?(?:python\.)?(?:tf_keras|tf\.keras|keras)(?:\.src)?(?:\.(?:layers|models|engine|ops|legacy)(?:\.\w+)*)?"
    r"|builtins"
)
_BOOLEANS = ("trainable", "sparse", "ragged", "unroll", "stateful", "optional")
_INPUT_ARGUMENTS = {
    "name", "batch_shape", "batch_input_shape", "shape", "dtype", "input_dtype", "sparse", "ragged", "optional",
    "trainable", "create_by_config", "bounding_box_format",
}  # fmt: skip
_CALL_ARGUMENTS = {"training", "initial_state", "states", "constants", "sequence", "sequences", "inputs", "shape"}
_DATA_FORMATS = (None, "channels_last", "channels_first", "default")
_OBJECT_ENDINGS = ("_initializer", "_regularizer", "_constraint")
_OBJECT_ARGUMENTS = {"seed", "input_axes", "output_axes", "dtype"}
#: element types and policies by name
_DTYPE = re.compile(r"u?int(?:8|16|32|64)|b?float(?:8|16|32|64)|bool|string|mixed_b?float16|(?:int8|float8)_from_\w+")
#: what layers of older versions list without an effect on what they compute
_OLD_ARGUMENTS = frozenset({"weights", "input_length", "batch_size", "activity_regularizer", "renorm", "arguments"})


def check_input(config: Mapping[str, Any], module: str) -> None:
    """Raise NotImportableError for the config of an input that Keras does not take."""
    unknown = config.keys() - _INPUT_ARGUMENTS
    if unknown or not is_keras_module(module or "keras"):
        raise NotImportableError(
            f"is an input with {min(unknown)!r:.60}" if unknown else f"is of the module {module:.60}"
        )
    for name in ("sparse", "ragged", "optional", "trainable"):
        _check_truth_value(name, config.get(name))
    for name in ("batch_shape", "batch_input_shape"):
        shape = config.get(name)
        if shape is not None and not (isinstance(shape, list) and len(list(_sizes(shape))) == len(shape) > 1):
            raise NotImportableError(f"{name}={shape!s:.60} is no shape of a batch")


def check_call(names: Iterable[str], kind: str) -> None:
    """Raise NotImportableError for a named argument of a layer's call that Keras' class does not take."""
    row = row_of_name(kind)
    known_names = {*_CALL_ARGUMENTS, *MASK_ARGUMENTS, *(row.call_arguments if row is not None else ())}
    known_names |= set(row.call_fields) if row is not None else set()
    unknown = set(names) - known_names
    if unknown:
        raise NotImportableError(f"is called with {min(unknown)!r:.60}, which {kind} of Keras does not take")


def check_operation(config: Mapping[str, Any]) -> None:
    """Raise NotImportableError for the config of a function of keras.ops that Keras does not take."""
    if not isinstance(config.get("name"), str):
        raise NotImportableError("is a function of keras.ops without a name")


def _check_truth_value(name: str, value: Any) -> None:
    if value is not None and type(value) is not bool:
        raise NotImportableError(f"{name}={value!r:.60} is no truth value")


def is_keras_module(name: str) -> bool:
    """Whether the module that a config names for a class is one of Keras'."""
    return _MODULES.fullmatch(name) is not None


def check_arguments(kind: str, config: Mapping[str, Any]) -> None:
    """Raise NotImportableError for a config that Keras does not take for a class."""
    cls = class_of_name(kind)
    known_names = _known_arguments(kind, cls) if cls is not None else None
    for name, value in config.items():
        if known_names is not None and name not in known_names:
            raise NotImportableError(f"has an argument {name!r:.60}, which {kind} of Keras does not have")
        if name in _BOOLEANS:
            _check_truth_value(name, value)
        if name == "name" and not isinstance(value, str):
            raise NotImportableError(f"name={value!r:.60} is no text")
        if name == "dtype":
            _check_dtype(value)
        if name == "data_format" and value not in _DATA_FORMATS:
            raise NotImportableError(f"data_format={value!r:.60} is neither channels_last nor channels_first")
        if name.endswith(_OBJECT_ENDINGS):
            _check_object(name, value)
        if name in ("layer", "backward_layer") and isinstance(value, dict):
            inner = value.get("config")
            if not isinstance(value.get("class_name"), str) or not isinstance(inner, dict):
                raise NotImportableError(f"{name}={value!s:.60} is no layer")
            check_arguments(value["class_name"], inner)


def _known_arguments(kind: str, cls: type[Layer]) -> set[str]:
    names = {*cls.specs(), *_OLD_ARGUMENTS, *IGNORED_ARGUMENTS, *READ_ELSEWHERE, *neutral_arguments(cls)}
    for row in (keras_row(cls), row_of_name(kind)):
        if row is not None:
            names |= {*row.old_arguments, *row.left_out, *row.fields, *row.call_fields}
    return names | {f"kernel_{name[10:]}" for name in names if name.startswith("depthwise_")}


def _check_dtype(value: Any) -> None:
    if isinstance(value, dict):
        config = value.get("config")
        name = config.get("name", config.get("source_name")) if isinstance(config, dict) else None
        names = {"name", "source_name", "mode", "amax_history_length", "loss_scale"}
        is_policy = "Policy" in str(value.get("class_name")) and is_keras_module(str(value.get("module", "keras")))
        if not is_policy or name is None or not isinstance(config, dict) or not config.keys() <= names:
            raise NotImportableError(f"dtype={value!s:.60} is no policy")
        value = name
    if value is not None and (not isinstance(value, str) or _DTYPE.fullmatch(value) is None):
        raise NotImportableError(f"dtype={value!r:.60} is no element type")


def _check_object(name: str, value: Any) -> None:
    """An initializer, a regularizer or a constraint: its name, or its class with its arguments."""
    family = next(family for ending, family in OBJECT_FAMILIES if name.endswith(ending))
    if value is None:
        return
    if isinstance(value, str):
        object_of(family, value)
        return
    if not isinstance(value, dict) or not isinstance(value.get("class_name"), str):
        raise NotImportableError(f"{name}={value!s:.60} is no class with arguments")
    arguments = value.get("config")
    if not isinstance(arguments, dict | None) and plain_name(value) is None:
        raise NotImportableError(f"{name}: {value['class_name'][:40]} has the arguments {arguments!s:.60}")
    cls = family.members().get(value["class_name"])
    unknown = (
        set(arguments) - {*cls.specs(), *_OBJECT_ARGUMENTS} if cls is not None and isinstance(arguments, dict) else ()
    )
    if unknown:
        raise NotImportableError(f"{name}: {value['class_name']} of Keras has no argument {min(unknown)!r:.60}")


def check_built_shape(
    build_config: Any, shapes: Sequence[tuple[int | None, ...]], has_weights: bool, channel_axis: int = -1
) -> None:
    """Raise NotImportableError where a layer was built for another shape than those of the values that it reads.

    shapes: of the values in Keras' order of axes, without the batch; None for an open size. channel_axis: of the axis
    (the batch is 0) on which the shapes of the layer's weights depend, if it has some.
    """
    if build_config is None:
        return
    if not isinstance(build_config, dict):
        raise NotImportableError(f"build_config={build_config!s:.60} is no object")
    if has_weights and not build_config.keys() & {"input_shape", "shapes_dict"}:
        raise NotImportableError(f"build_config={build_config!s:.60} tells no shape")
    if "input_shape" not in build_config:
        return
    built = build_config["input_shape"]
    built_shapes = [built] if len(shapes) == 1 or not isinstance(built, list) else built
    for one, shape in zip(built_shapes, shapes, strict=False):
        is_known = not has_weights or not isinstance(one, list) or None in shape or one[channel_axis:][:1] != [None]
        if not is_known or not _fits(one, shape):
            raise NotImportableError(f"was built for the shape {one!s:.60} and reads {[None, *shape]!s:.60}")


def _fits(built: Any, shape: tuple[int | None, ...]) -> bool:
    if not isinstance(built, list) or len(built) != len(shape) + 1:
        return False
    sizes = list(_sizes(built))
    return len(sizes) == len(built) and all(
        a is None or b is None or a == b for a, b in zip(sizes[1:], shape, strict=True)
    )


def _sizes(built: Sequence[Any]) -> Iterator[int | None]:
    for size in built:
        if size is None or (type(size) is int and size >= 0):
            yield size
