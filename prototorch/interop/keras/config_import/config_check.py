"""What is wrong with the config of a call by itself, before it becomes a layer: arguments that its class does not have,
values of other types than Keras takes, shapes that it was built with and does not get.

A config that Keras refuses is refused here as well: it may be damaged, and what is left of it is another model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
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
from prototorch.interop.keras.config_json import MODEL_CLASSES
from prototorch.layers.base import Layer
from prototorch.schema.neutral_arguments import neutral_arguments

__all__ = [
    "check_arguments",
    "check_built_shapes",
    "check_call",
    "check_class",
    "check_input",
    "check_model",
    "check_model_call",
    "check_operation",
    "is_dtype",
    "is_keras_module",
]

_MODULES = re.compile(
    r"(?:tensorflow\.)?(?:python\.)?(?:tf_keras|tf\.keras|keras)(?:\.src)?"
    r"(?:\.(?P<part>layers|models|engine|ops|legacy|initializers|regularizers|constraints)(?P<file>(?:\.\w+)*))?"
)
#: the parts of Keras in which layers and functions are, and those in which the classes of models are
_LAYER_PARTS = ("layers", "engine", "ops", "legacy")
_MODEL_PARTS = (None, "models", "engine", "legacy")
#: the last names of the modules in which Keras 1 to 3 declare the classes of models
_MODEL_FILES = ("models", "engine", "sequential", "functional", "model", "training", "training_v1")
Shape = tuple[int | None, ...]
_BOOLEANS = ("trainable", "sparse", "ragged", "unroll", "stateful", "optional", "synchronized")
_INPUT_ARGUMENTS = {
    "name", "batch_shape", "batch_input_shape", "shape", "dtype", "input_dtype", "sparse", "ragged", "optional",
    "trainable", "create_by_config", "bounding_box_format",
}  # fmt: skip
_CALL_ARGUMENTS = {"training", "initial_state", "states", "constants", "sequence", "sequences", "inputs", "shape"}
_DATA_FORMATS = (None, "channels_last", "channels_first", "default")
_OBJECT_ENDINGS = ("_initializer", "_regularizer", "_constraint")
_RANDOM_ARGUMENTS = {"input_axes", "output_axes"}  # of those with a seed
#: element types and policies by name
_DTYPE = re.compile(r"u?int(?:8|16|32|64)|b?float(?:8|16|32|64)|bool|string")
_POLICY_NAME = re.compile(rf"(?:{_DTYPE.pattern})|mixed_b?float16|(?:int8|int4|float8|gptq|awq)\w*_from_\w+")
_POLICY = re.compile(r"(?:\w+>)?(?:Float|Int8|Quantized|QuantizedFloat8)?(?:DType)?Policy(?:V1|Map)?")
_POLICY_MODULE = re.compile(
    r"(?:tf_keras|tf\.keras|keras)(?:\.src)?(?:\.(?:mixed_precision|dtype_policies)(?:\.\w+)*)?"
)
#: initializers of Keras that do not exist here; what they gave is in the weights
_OTHER_INITIALIZERS = ("STFT",)
#: what layers of older versions list without an effect on what they compute
_OLD_ARGUMENTS = frozenset({"weights", "input_length", "batch_size", "activity_regularizer", "renorm", "arguments"})


def check_input(config: Mapping[str, Any]) -> None:
    """Raise NotImportableError for the config of an input that Keras does not take."""
    unknown = config.keys() - _INPUT_ARGUMENTS
    if unknown:
        raise NotImportableError(f"is an input with {min(unknown)!r:.60}")
    if not isinstance(config.get("name"), str | None):
        raise NotImportableError(f"is an input with the name {config['name']!r:.60}")
    for name in ("sparse", "ragged", "optional", "trainable"):
        _check_truth_value(name, config.get(name))
    if config.get("ragged"):
        raise NotImportableError("is an input of ragged tensors, which do not exist here")
    for name in ("dtype", "input_dtype"):
        _check_dtype(config.get(name))
    for name in ("batch_shape", "batch_input_shape"):
        shape = config.get(name)
        if shape is not None and not (isinstance(shape, list) and len(list(_sizes(shape))) == len(shape) > 1):
            raise NotImportableError(f"{name}={shape!s:.60} is no shape of a batch")


def check_model(kind: str, config: Any) -> None:
    """Raise NotImportableError for the config of a model that Keras does not take."""
    if not isinstance(config, dict):
        return  # Keras 1 and 2 list the layers of a Sequential
    name = config.get("name")
    if not isinstance(name, str) and (name is not None or kind == "Sequential"):
        raise NotImportableError(f"is a model whose name is {name!r:.60}")
    _check_truth_value("trainable", config.get("trainable"))
    _check_dtype(config.get("dtype"))


def check_class(declaration: Mapping[str, Any], takes_other_modules: bool = False) -> None:
    """Raise NotImportableError for a class of Keras' own that is registered under another name, as none of them is, for
    one in a module of Keras in which it is not, and for a class of no module, or of another's."""
    kind, module = str(declaration.get("class_name")), declaration.get("module", "")
    registered_name = declaration.get("registered_name")
    is_of_keras = _MODULES.fullmatch(str(module)) is not None
    is_known = module == "" or is_keras_module(str(module), kind) or (takes_other_modules and module)
    if not is_known:
        where = f"where Keras has no {kind:.60}" if is_of_keras else "which is none of Keras'"
        raise NotImportableError(f"is {kind:.60} of the module {module!r:.60}, {where}")
    if registered_name and is_of_keras and registered_name != kind:
        raise NotImportableError(f"is a class of Keras and has the registered_name {registered_name!r:.60}")


def check_model_call(names: Iterable[str]) -> None:
    """Raise NotImportableError for a named argument that a call of a model does not take."""
    unknown = set(names) - {"training", "inputs", *MASK_ARGUMENTS}
    if unknown:
        raise NotImportableError(f"is called with {min(unknown)!r:.60}, which a model does not take")


def check_call(args: Iterable[Any], names: Iterable[str], kind: str) -> None:
    """Raise NotImportableError for a call of a layer that Keras' class does not take: positional arguments other than
    values, or named ones that it does not have."""
    args, row = list(args), row_of_name(kind)
    for value in _items(args):
        if isinstance(value, str | int | float | dict):
            raise NotImportableError(f"is called on {value!r:.60}, which is no value of a layer")
    max_count = row.positional_arguments if row is not None else 1
    if sum(value is not None for value in args) > max_count:
        raise NotImportableError(f"is called with {len(args)} positional arguments; {kind} of Keras takes {max_count}")
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


def is_dtype(value: Any) -> bool:
    """Whether the value is the name of an element type in Keras."""
    return isinstance(value, str) and _DTYPE.fullmatch(value) is not None


def is_keras_module(name: str, kind: str) -> bool:
    """Whether the module that a config names for a class is one in which Keras has layers or, for the class of a model,
    models. Layers are not in ``keras`` itself, and Functional is in no module but its own."""
    match = _MODULES.fullmatch(name)
    if match is None:
        return False
    if kind not in MODEL_CLASSES:
        return match["part"] in _LAYER_PARTS
    if match["file"]:
        return match["part"] in _MODEL_PARTS and name.rpartition(".")[2] in _MODEL_FILES
    return match["part"] in _MODEL_PARTS and kind != "Functional"


def check_arguments(kind: str, config: Mapping[str, Any]) -> None:
    """Raise NotImportableError for a config that Keras does not take for a class."""
    cls = class_of_name(kind)
    known_names = _known_arguments(kind, cls) if cls is not None else None
    for name, value in config.items():
        if known_names is not None and name not in known_names:
            raise NotImportableError(f"has an argument {name!r:.60}, which {kind} of Keras does not have")
        if name in _BOOLEANS:
            _check_truth_value(name, value)
        if name == "stateful" and value:
            raise NotImportableError("stateful=True has no counterpart: each batch begins anew")
        if name == "trainable" and value is None:
            raise NotImportableError("trainable=None is no truth value")
        if name == "name" and not isinstance(value, str):
            raise NotImportableError(f"name={value!r:.60} is no text")
        if name == "dtype":
            _check_dtype(value)
        if name == "seed":
            _check_seed(value)
        if name == "data_format" and value not in _DATA_FORMATS:
            raise NotImportableError(f"data_format={value!r:.60} is neither channels_last nor channels_first")
        if name.endswith(_OBJECT_ENDINGS):
            _check_object(name, value)
        if name in ("layer", "backward_layer") and isinstance(value, dict):
            inner = value.get("config")
            if not isinstance(value.get("class_name"), str) or not isinstance(inner, dict):
                raise NotImportableError(f"{name}={value!s:.60} is no layer")
            check_class(value)
            check_arguments(value["class_name"], inner)


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """The elements of lists of lists."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _items(value)
        else:
            yield value


def _known_arguments(kind: str, cls: type[Layer]) -> set[str]:
    names = {*cls.specs(), *_OLD_ARGUMENTS, *IGNORED_ARGUMENTS, *READ_ELSEWHERE, *neutral_arguments(cls)}
    for row in (keras_row(cls), row_of_name(kind)):
        if row is not None:
            names |= {*row.old_arguments, *row.left_out, *row.fields, *row.call_fields}
    return names | {f"kernel_{name[10:]}" for name in names if name.startswith("depthwise_")}


def _check_seed(value: Any) -> None:
    is_generator = isinstance(value, dict) and value.get("class_name") == "SeedGenerator"
    if not is_generator and not isinstance(value, int | float | None):
        raise NotImportableError(f"seed={value!r:.60} is no seed")


def _check_dtype(value: Any) -> None:
    if isinstance(value, dict):
        config = value.get("config")
        name = config.get("name", config.get("source_name")) if isinstance(config, dict) else None
        names = {"name", "source_name", "mode", "amax_history_length", "loss_scale"}
        is_policy = _POLICY.fullmatch(str(value.get("class_name"))) and _POLICY_MODULE.fullmatch(
            str(value.get("module", "keras"))
        )

        if not is_policy or name is None or not isinstance(config, dict) or not config.keys() <= names:
            raise NotImportableError(f"dtype={value!s:.60} is no policy")
        value = name
    if value is not None and (not isinstance(value, str) or _POLICY_NAME.fullmatch(value) is None):
        raise NotImportableError(f"dtype={value!r:.60} is no element type")


def _check_object(name: str, value: Any) -> None:
    """An initializer, a regularizer or a constraint: its name, or its class with its arguments."""
    family = next(family for ending, family in OBJECT_FAMILIES if name.endswith(ending))
    if value is None:
        return
    if isinstance(value, str):
        object_of(family, value)
        return
    is_unlocated = isinstance(value, dict) and value.get("module", "") is None
    if is_unlocated and value.get("class_name") in family.members():
        raise NotImportableError(f"{name}={value!s:.60} has no module")
    module = str(value.get("module")) if isinstance(value, dict) else ""
    if (module == "builtins" or _MODULES.fullmatch(module)) and value.get("class_name") not in _OTHER_INITIALIZERS:
        object_of(family, {**value, "config": {}})  # a class of Keras' own
    if not isinstance(value, dict) or not isinstance(value.get("class_name"), str):
        raise NotImportableError(f"{name}={value!s:.60} is no class with arguments")
    arguments = value.get("config")
    if not isinstance(arguments, dict | None) and plain_name(value) is None:
        raise NotImportableError(f"{name}: {value['class_name'][:40]} has the arguments {arguments!s:.60}")
    if isinstance(arguments, dict):
        _check_seed(arguments.get("seed"))
    cls = family.members().get(value["class_name"])
    unknown = set(arguments or ()) if cls is not None and isinstance(arguments, dict | None) else set()
    if unknown and cls is not None:
        more_names = _RANDOM_ARGUMENTS if "seed" in cls.specs() else set()
        unknown -= {*cls.specs(), "dtype", *more_names}
    if unknown:
        raise NotImportableError(f"{name}: {value['class_name']} of Keras has no argument {min(unknown)!r:.60}")


def check_built_shapes(
    kind: str,
    config: Mapping[str, Any],
    build_config: Any,
    shapes: Sequence[Shape],
    named_shapes: Mapping[str, Sequence[Shape]],
) -> None:
    """Raise NotImportableError where a layer, or the layer in a wrapper, was built for another shape than those of the
    values that it reads.

    shapes: of the values in Keras' order of axes, without the batch; None for an open size. named_shapes: of those that
    are named arguments of the call.
    """
    cls = class_of_name(kind)
    has_weights = cls is not None and any("initializer" in name for name in cls.specs())
    if build_config is not None:
        if not isinstance(build_config, dict):
            raise NotImportableError(f"build_config={build_config!s:.60} is no object")
        if has_weights and not build_config.keys() & {"input_shape", "shapes_dict"}:
            raise NotImportableError(f"build_config={build_config!s:.60} tells no shape")
        channel_axis = 1 if config.get("data_format") == "channels_first" else -1
        high = None if cls is None else cls.input_range()[1]
        for built, shape in _built_shapes(build_config, shapes, named_shapes, high):
            is_known = not has_weights or not isinstance(built, list) or built[channel_axis:][:1] != [None]
            if not is_known or not _fits(built, shape):
                raise NotImportableError(f"was built for the shape {built!s:.60} and reads {[None, *shape]!s:.60}")
    inner_shapes = [shape[1:] for shape in shapes] if kind == "TimeDistributed" else shapes
    for name in ("layer", "backward_layer"):
        inner = config.get(name)
        if isinstance(inner, dict):
            check_built_shapes(inner["class_name"], inner["config"], inner.get("build_config"), inner_shapes, {})


def _built_shapes(
    build_config: Mapping[str, Any],
    shapes: Sequence[Shape],
    named_shapes: Mapping[str, Sequence[Shape]],
    max_count: int | None,
) -> Iterator[tuple[Any, Shape]]:
    """What a layer was built for, each beside the shape that it reads. max_count: of the values of its class."""
    if "input_shape" in build_config:
        built = _shapes_in(build_config["input_shape"])
        if max_count is not None and len(built) > max_count:
            raise NotImportableError(f"was built for {len(built)} values; it reads {max_count} at most")
        yield from zip(built, shapes, strict=False)
    elif "shapes_dict" in build_config:
        if not isinstance(build_config["shapes_dict"], dict):
            raise NotImportableError(f"build_config={build_config!s:.60} tells no shapes")
        others = iter(shapes[: len(shapes) - sum(map(len, named_shapes.values()))])
        for name, built in build_config["shapes_dict"].items():
            values = named_shapes.get(name.removesuffix("_shape")) or [*islice(others, 1)]
            if not name.endswith("_shape") or (not values and built is not None):
                raise NotImportableError(f"was built for {name}={built!s:.60}, which it does not read")
            yield from zip(_shapes_in(built), values, strict=False)


def _shapes_in(built: Any) -> list[Any]:
    """The shapes of several values, or that of one."""
    is_list_of_shapes = isinstance(built, list) and any(isinstance(one, list) for one in built)
    return built if is_list_of_shapes else [built]


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
