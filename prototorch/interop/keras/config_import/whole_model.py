"""A whole model of Keras as an `ImportedModel`: from its config, and from the weights of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from prototorch.data.safe_io import read_head
from prototorch.errors import ModelFileError, WeightsError
from prototorch.interop.counterparts.keras.row import class_of_name, row_of_name
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.keras.config_import.axis_orders import OrderedNetBuilder, OrderedValue, channels_first, identity
from prototorch.interop.keras.config_import.compile_import import compile_section
from prototorch.interop.keras.config_import.config_check import (
    check_arguments,
    check_built_shapes,
    check_call,
    check_operation,
    is_keras_module,
)
from prototorch.interop.keras.config_import.config_fields import MASK_ARGUMENTS, NotImportableError, activation_layer
from prototorch.interop.keras.config_import.config_graph import CallOutput, ConfigGraph, KerasLayerCall, read_graph
from prototorch.interop.keras.config_import.flatten_use import free_flattens
from prototorch.interop.keras.config_import.keras1_config import modern_call
from prototorch.interop.keras.config_import.layer_import import NO_SUCH_LAYER, import_call
from prototorch.interop.keras.config_import.mask_use import mask_calls
from prototorch.interop.keras.config_import.operation_import import import_operation, is_operation
from prototorch.interop.keras.config_import.site import KerasLayerImport
from prototorch.interop.keras.config_json import MAX_CONFIG_BYTES, iter_config_layers, parse_config
from prototorch.interop.keras.vars_tree import check_groups
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.read.source import ReadWeights
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.name_rules import MapRule, Rules
from prototorch.schema.names import to_name

__all__ = ["import_config", "import_file"]


def import_file(path: str) -> ImportedModel:
    """A whole model of a `.keras`, `.h5` or `config.json` file, with its weights where it has some.

    Raises ModelFileError for a file without a model, and one that names every layer that has no counterpart here.
    """
    if path.endswith(".json"):
        return import_config(_read_json(path), None, path)
    file = read_weights(path)
    if file.config is None:
        raise ModelFileError(
            f"{path}: holds weights, and no model's config: give the model's text (--model TEXT) to load them into it"
        )
    return import_config(file.config, file, path)


def _read_json(path: str) -> dict[str, Any]:
    return parse_config(read_head(path, MAX_CONFIG_BYTES + 1), path)


def import_config(config: Mapping[str, Any], file: WeightFile | None, where: str) -> ImportedModel:
    """The model of a config (that of ``model.to_json()``), with the weights of a file of Keras.

    where: begins the messages. Raises ModelFileError, WeightsError.
    """
    graph = read_graph(config, where)
    builder, outputs = _build(graph, file, where)
    net = builder.net(outputs)
    if file is not None:
        check_groups(file, list(iter_config_layers(config, where)))
    sections, notes = compile_section(config, file, net)
    return ImportedModel(
        net,
        {} if file is None else _weights(builder, net, file, where),
        tuple(dict.fromkeys([*builder.notes, *notes])),
        builder.original_names,
        sections=sections,
        has_inner_models=any("/" in call.path for call in graph.calls),
    )


# ---------------------------------------------------------------------- the net


def _build(graph: ConfigGraph, file: WeightFile | None, where: str) -> tuple[OrderedNetBuilder, list[OrderedValue]]:
    builder = OrderedNetBuilder(to_name(graph.name))
    is_last = _is_channels_last(graph)
    is_open = any(None in shape for _, shape, _ in graph.inputs)  # then sizes are not known
    values: dict[CallOutput, OrderedValue] = {}
    problems: dict[str, list[str]] = {}
    for number, (name, shape, dtype) in enumerate(graph.inputs, 1):
        order = _input_order(graph, CallOutput(-number), len(shape), is_last)
        try:
            values[CallOutput(-number)] = builder.input(name, shape, dtype, order)
        except NotImportableError as reason:
            problems.setdefault(str(reason), []).append(name)
        if order != identity(len(shape)):
            builder.notes.append(
                f"the input {name!r} is channels-first here: {[shape[a] for a in order]}, not {list(shape)}"
            )
    calls_of = Counter(call.path for call in graph.calls)
    free, masks = free_flattens(graph), mask_calls(graph)
    layer_weights = {layer.name: layer.weights for layer in file.layers} if file is not None else {}
    for call in graph.calls:
        if call.number in masks:
            continue  # the layers that mask steps say so themselves
        original = call = modern_call(call)

        def array(index: int, path: str = call.path) -> np.ndarray | None:
            weights = layer_weights.get(path, ())
            return file[weights[index]] if file is not None and index < len(weights) else None

        try:
            kwargs = {k: v for k, v in call.kwargs.items() if k not in MASK_ARGUMENTS}
            call = replace(call, kwargs=kwargs)
            has_mask = any(original.kwargs.get(name) is not None for name in MASK_ARGUMENTS)
            missing = [output for output in call.inputs() if output not in values]
            if missing:
                if not problems:
                    raise NotImportableError(f"reads an output that a layer does not have ({missing[0]})")
                check_alone(call)
                continue  # what else is wrong follows from a problem that is noted
            _check_kind(call)
            if is_operation(call.module):
                check_operation(call.config)
            else:
                _check_layer(call, [_known_shape(output, values, graph, is_open) for output in call.inputs()])
            site = KerasLayerImport(
                builder,
                call,
                tuple(_resolve(a, values) for a in call.args),
                {k: _resolve(v, values) for k, v in call.kwargs.items()},
                calls_of[call.path] > 1,
                call.number in free,
                is_last,
                array,
                builder.notes,
            )
            if has_mask and not builder.has_mask(site.values()[0]):
                raise NotImportableError("its mask is given by hand; masks of Embedding and Masking are known here")
            results = import_operation(site) if is_operation(call.module) else import_call(site)
        except NotImportableError as reason:
            problems.setdefault(f"{call.kind}: {reason}", []).append(call.path)
            continue
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
            problems.setdefault(f"{call.kind}: its config cannot be read ({str(error)[:200]})", []).append(call.path)
            continue
        values.update({CallOutput(call.number, index): value for index, value in enumerate(results)})
    if problems:
        descriptions = "; ".join(f"{_display(paths)} ({reason})" for reason, paths in problems.items())
        raise ModelFileError(f"{where}: these layers have no counterpart here: {descriptions}")
    outputs = []
    for output in graph.outputs:
        if output not in values:
            raise ModelFileError(f"{where}: an output of the model is one that its layer does not have")
        value = values[output]
        is_map = value.rank > 2 and value.order == channels_first(value.rank)
        outputs.append(value if is_map else builder.as_keras(value))
        if is_map:
            builder.notes.append(f"the output {value.name!r} is channels-first here: {list(value.shape)}")
    return builder, outputs


def _known_shape(
    output: CallOutput, values: Mapping[CallOutput, OrderedValue], graph: ConfigGraph, is_open: bool
) -> tuple[int | None, ...]:
    """The shape of a value in Keras' order of axes, None for an open size. is_open: whether an input has such a size:
    then those of the values that follow from it are not known."""
    if output.call < 0:
        return graph.inputs[-output.call - 1][1]
    shape = values[output].their_shape
    return (None,) * len(shape) if is_open else shape


def _check_layer(call: KerasLayerCall, shapes: Sequence[tuple[int | None, ...]]) -> None:
    """Raise NotImportableError for a call that Keras would not take."""
    check_arguments(call.kind, call.config)
    check_call(call.args, call.kwargs, call.kind)
    count = len(replace(call, kwargs={}).inputs())  # of the positional ones, which come first
    rest = iter(shapes[count:])
    named_shapes = {
        k: [next(rest) for _ in replace(call, args=(v,), kwargs={}).inputs()] for k, v in call.kwargs.items()
    }
    check_built_shapes(call.kind, call.config, call.build_config, shapes, named_shapes)


def _display(paths: list[str]) -> str:
    first_paths = ", ".join(repr(path)[:80] for path in paths[:4])
    return first_paths + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")


def check_alone(call: KerasLayerCall) -> None:
    """Raise NotImportableError where a call has no counterpart whatever it reads."""
    _check_kind(call)
    if not is_operation(call.module) and row_of_name(call.kind) is None and class_of_name(call.kind) is None:
        raise NotImportableError(NO_SUCH_LAYER)
    for key in ("activation", "recurrent_activation"):
        if call.config.get(key) is not None:
            activation_layer(call.config[key])


def _check_kind(call: KerasLayerCall) -> None:
    """Raise NotImportableError for a program, and for a class that is not Keras' own."""
    row = row_of_name(call.kind)
    if row is not None and not row.layers and row.reason:
        raise NotImportableError(row.reason)
    if call.module and not is_keras_module(call.module, call.kind):
        raise NotImportableError(
            f"a class of somebody's own ({call.module[:60]}), whose program is not in the file: rebuild the model with "
            "Keras' layers"
        )


def _resolve(value: Any, values: Mapping[CallOutput, OrderedValue]) -> Any:
    if isinstance(value, CallOutput):
        return values[value]
    if isinstance(value, list | tuple):
        return [_resolve(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _resolve(item, values) for key, item in value.items()}
    return value


def _is_channels_last(graph: ConfigGraph) -> bool:
    formats = [str(c.config.get("data_format", c.config.get("dim_ordering", ""))) for c in graph.calls]
    first = sum(f in ("channels_first", "th") for f in formats)
    last = sum(f in ("channels_last", "tf") for f in formats)
    return last >= first or not first


def _input_order(graph: ConfigGraph, output: CallOutput, rank: int, is_last: bool) -> tuple[int, ...]:
    """Images are channels-first; a sequence is where the first layers that read it are over its steps."""
    if not is_last or rank < 2:
        return identity(rank)
    if rank > 2:
        return channels_first(rank)
    pending, seen = [output], set()
    while pending:
        current = pending.pop()
        for call in graph.calls:
            if current in call.inputs() and call.number not in seen:
                seen.add(call.number)
                if call.kind.endswith(("Conv1D", "Pooling1D")):
                    return channels_first(rank)
                row = row_of_name(call.kind)
                if row is not None and row.passes_order:
                    pending.append(CallOutput(call.number))
    return identity(rank)


# ---------------------------------------------------------------------- the weights


def _weights(builder: OrderedNetBuilder, net: Any, file: WeightFile, where: str) -> dict[str, np.ndarray]:
    """The weights of the file in our layouts."""
    specs = builder.trace.weights
    keys = {node.weights_key for node in net.nodes}
    new_names = {name: path for name, path in builder.original_names.items() if name in keys}
    rules = Rules(map=[MapRule(from_=path, to=name) for name, path in new_names.items()]) if new_names else None
    match = ReadWeights(file, rules, "keras").names(net, specs).lay_out()
    if match.missing or match.mismatched:
        lines = [f"{name} is not in the file" for name in match.missing[:5]]
        lines += [str(mismatch) for mismatch in match.mismatched[:5]]
        raise WeightsError(f"{where}: the weights do not fit the config: {'; '.join(lines)}")
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in match.arrays()}
