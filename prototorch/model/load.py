"""`load_model`: from a text file, a shipped model's name, or a saved model to a `Model`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from prototorch import train
from prototorch.base.package_files import shipped_models
from prototorch.data.read_limits import Paths, ReadLimits, resolved_paths
from prototorch.engine.storage import checkpoint
from prototorch.engine.storage.container import has_container_header, is_container
from prototorch.errors import FileError, ModelFileError, UsageError, did_you_mean
from prototorch.graph.net import Net
from prototorch.graph.net_imports import read_imports
from prototorch.graph.net_reader import read_net
from prototorch.graph.trace import trace
from prototorch.model.model import Model
from prototorch.model.nested_notes import with_notes
from prototorch.model.text_parts import read_nested_weights, read_vocabularies, saved_document, saved_text
from prototorch.model.weights_block import Weights
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX
from prototorch.schema.block_source import find_span
from prototorch.schema.python_function import custom_objects as use_custom_objects
from prototorch.schema.python_imports import allow_python as python_permission
from prototorch.text.diagnostics import Report, located
from prototorch.text.dialects import ForeignNet, find_dialect
from prototorch.text.loader import load_document, load_text
from prototorch.text.overrides import strings_in
from prototorch.text.reader import read_file
from prototorch.text.syntax_tree import Body, Document
from prototorch.train.argument_checks import check_path
from prototorch.train.config import Compile, Fit
from prototorch.train.state_check import warn_of_loaded
from prototorch.train.state_fields import StateError
from prototorch.train.training_state import check_training_state

if TYPE_CHECKING:
    from prototorch.train.builtin_callbacks import History

__all__ = [
    "check_text_file",
    "find_model_file",
    "is_saved",
    "load_model",
    "load_saved",
    "make_model",
    "model_from_document",
    "model_from_text",
    "open_document",
    "read_blocks",
    "read_foreign_net",
    "run_imports",
]


def load_model(
    source: str | PathLike[str] | None = None,
    *,
    text: str | None = None,
    weights: str | PathLike[str] | Weights | Literal[False] | None = None,
    overrides: Sequence[str] = (),
    allow_read: Paths = (),
    allow_download: bool = False,
    allow_python: bool = False,
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
    **params: Any,
) -> Model:
    """A model from a text file, the name of a shipped model (``"alexnet"``), or a saved .h5, recognized by content.

    A net of Caffe (``deploy.prototxt``) is read as the net that predicts in the phase TEST; its param ``input_shapes``
    gives sizes that only its data files tell, by blob, without axis 0.

    text: a model text in the place of a file: ``load_model(text='input("x", [4])  Dense(2)')``. It includes files of
    the package only.
    params: the text's parameters, ``classes=10``. weights: what the model begins with: the name of a weight set
    ("imagenet"), a file, an address, or a `Weights` block; None: what the text's own ``weights`` block says; False:
    nothing. allow_download: whether addresses that a text names may be opened; those of the sets that come with
    prototorch, and an address given here, always are. overrides: as ``--set`` of the command line, ``"fit.epochs=3"``.
    allow_read: a folder or file, or several, besides the working directory, in which a saved model may name data.
    allow_python: whether a text may run the Python modules that it names (``import: "my_layers"``), which define layers
    of its own; they are looked for beside the file, in the working directory and in sys.path. Only for files you trust.
    custom_objects: the Python functions that the model was compiled with as losses or metrics, by name; without them it
    predicts, and raises UsageError where they are needed.
    compile: False leaves out the compile block, the optimizer's state and the training state. safe_mode: True, since
    nothing in a file runs code but the modules that ``allow_python`` admits. A text's own parameter of one of these
    names is given as an override, ``"compile=3"``.
    Raises TextError with all errors of the text, ModelFileError for a damaged file, FileError where there is no file.
    """
    for name, value in (("compile", compile), ("safe_mode", safe_mode), ("allow_python", allow_python)):
        if not isinstance(value, bool):
            raise UsageError(
                f"load_model: {name} must be True or False, not {value!r:.80}; a text's parameter of this name is "
                f"given by overrides=['{name}=...']"
            )
    if not safe_mode:
        raise UsageError(
            "load_model: safe_mode=False is not possible: a file never runs code; leave it out, and give functions by "
            "custom_objects={name: function}, modules that the file imports by allow_python=True"
        )
    if custom_objects is not None and not isinstance(custom_objects, Mapping):
        raise UsageError(f"load_model: custom_objects must be a dict {{name: function}}, not {custom_objects!r:.80}")
    if text is not None:
        _check_text(source, text)
        path = "<text>"
    else:
        check_path(source, "lenet")
        path = find_model_file(source)  # type: ignore[arg-type]
    foreign = None
    with use_custom_objects(custom_objects), python_permission(allow_python):
        if text is None and is_saved(path):
            if params:
                raise UsageError(
                    f"{path} is a saved model, in which parameters are already substituted ({', '.join(params)})"
                )
            model = load_saved(path, overrides, allow_read, compile)
        else:
            report = Report()
            if text is not None:
                document = load_text(text, None, params, overrides, report)
            else:
                foreign = read_foreign_net(check_text_file(path), params, overrides, report)
                document = load_document(path, params, overrides, report) if foreign is None else foreign.document
            model = model_from_document(document, report)
            model.compile_block = model.compile_block if compile else None
            if weights is not None and weights is not False and not getattr(weights, "except_", ()):
                model.nested_weights = ()  # all weights are those
            for block in model.nested_weights if weights is not False else ():
                with located(find_span(block, "source")):
                    model.load_weights(block, allow_download=allow_download)
            if weights is None and model.weights_block is not None:
                with located(find_span(model.weights_block, "source")):
                    model.load_weights(model.weights_block, allow_download=allow_download)
        match = None
        if foreign is not None and isinstance(weights, str | PathLike) and os.path.isfile(weights):
            match = foreign.match_weights(fspath(weights))
        if weights is not None and weights is not False:
            model.weights_block = Weights.from_source(weights)
        if match is not None:
            match.assign(model.weights)
            warn_of_loaded(model.variables, match.path, slots=False)
        elif weights is not None and weights is not False:
            assert model.weights_block is not None
            model.load_weights(model.weights_block, allow_download=allow_download or None)
        return model


def _check_text(source: object, text: object) -> None:
    """Raise UsageError unless a text, and no file, is given to `load_model`."""
    if source is not None:
        raise UsageError("load_model: give a file, or a text by text=..., not both")
    if not isinstance(text, str):
        raise UsageError(f"load_model: text must be a string, not {text!r:.80}")
    if find_dialect(text) is not None:
        raise UsageError(
            "load_model: text is a text of Caffe, which is loaded from a file: load_model('deploy.prototxt')"
        )


def is_saved(path: str) -> bool:
    """Whether a file was written by `Model.save`."""
    return is_container(path)


def find_model_file(source: str | PathLike[str]) -> str:
    """The path of a model file, or of a shipped model of this name. Raises FileError where there is neither."""
    name = fspath(source)
    if os.path.isfile(name):
        return name
    paths = shipped_models()
    stem = name.removeprefix("models/").removesuffix(".proto")
    if stem in paths:
        return str(paths[stem])
    if os.path.exists(name):
        return name
    hint = did_you_mean(name, _model_files_beside(name)) or did_you_mean(stem, paths)
    raise FileError(f"{name}: no such file, and no model of this name comes with prototorch.{hint}")


def _model_files_beside(name: str) -> list[str]:
    """The model texts and saved models in the folder of a path that does not exist, as they would be written there."""
    folder = os.path.dirname(name)
    try:
        files = os.listdir(folder or os.curdir)
    except OSError:
        return []
    return [os.path.join(folder, file) for file in files if file.endswith((".proto", ".prototxt", ".h5"))]


def check_text_file(path: str) -> str:
    """The path itself if the file may be a model text. Raises FileError for another kind of file, with the kind."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error
    if has_container_header(head):
        raise FileError(f"{path}: is a saved model, not a text; `prototorch show {path}` prints the text inside")
    if not head and path.endswith((".h5", ".hdf5")):
        raise FileError(f"{path}: is empty")
    if head.startswith(b"PK") and path.endswith(".keras"):
        raise FileError(f"{path}: is a Keras model, which is not read yet")
    for magic, kind in _FILE_KINDS.items():
        if head.startswith(magic):
            raise FileError(f"{path}: is {kind}; a model is a UTF-8 text, or a file that prototorch saved")
    if b"\0" in head:
        raise FileError(f"{path}: is not a text: it holds NUL bytes")
    return path


_FILE_KINDS = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file of another program",
    b"\xff\xfe": "a UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "a UTF-16 text: save it as UTF-8",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "a NumPy array",
    b"\x80\x02": "a Python pickle, which is never opened",
    b"\x80\x04": "a Python pickle, which is never opened",
}


def model_from_text(
    text: str, path: str | None = None, overrides: Sequence[str] = (), params: Mapping[str, Any] | None = None
) -> Model:
    """A model from a text. path: its name in messages. Raises TextError with all errors."""
    report = Report()
    return model_from_document(load_text(text, path, params, overrides, report), report)


def open_document(path: str, params: Mapping[str, Any], overrides: Sequence[str], report: Report) -> Document:
    """The expanded document of a text file; of a net or solver of Caffe the net of our layers that predicts.

    Mistakes go to the report; raises FileError for another kind of file.
    """
    foreign = read_foreign_net(check_text_file(path), params, overrides, report, allow_solver=True)
    return load_document(path, params, overrides, report) if foreign is None else foreign.document


def read_foreign_net(
    path: str, params: Mapping[str, Any], overrides: Sequence[str], report: Report, allow_solver: bool = False
) -> ForeignNet | None:
    """The net of a text in another language, see `TextDialect.read_net`; None for a text of ours."""
    dialect_match = find_dialect(read_file(path))
    return None if dialect_match is None else dialect_match[0].read_net(path, params, overrides, report, allow_solver)


def run_imports(path: str) -> tuple[str, ...]:
    """Import the Python modules that a model text, or the text in a saved model, names; their names.

    Raises TextError where it is not allowed (`schema.python_imports.allow_python`) or fails.
    """
    report = Report()
    if is_saved(path):
        document = load_text(saved_text(checkpoint.load(path)), path, None, (), report)
    else:
        document = open_document(path, {}, (), report)
    names = read_imports(document, report)
    report.raise_if_any()
    return names or ()


def read_blocks(document: Document, report: Report, is_saved_model: bool = False) -> tuple[Net | None, dict[str, Any]]:
    """The net of an expanded document, and its blocks compile and fit by name; None, or missing, after mistakes.

    The vocabularies that a text names are read; one in a saved model is a mistake.
    """
    net, sections = read_net(document, report, may_be_unread=is_saved_model)
    if net is not None:
        read_vocabularies(net, report, is_saved_model)
    blocks: dict[str, Any] = {}
    blocks["nested_weights"] = read_nested_weights(document, report)
    if net is not None and document.nets:
        net = with_notes(net, document.nets)
    for name, block in (("weights", Weights), ("compile", Compile), ("fit", Fit)):
        field = sections.get(name)
        if field is not None and isinstance(field.value, Body):
            blocks[name] = block.from_fields(field.value.fields, report, field.name_span)
    if isinstance(fit := blocks.get("fit"), Fit):
        data = {
            name: block.beside_text() for name in ("data", "validation") if (block := getattr(fit, name)) is not None
        }
        blocks["fit"] = fit.replace(**data) if any(data[name] is not getattr(fit, name) for name in data) else fit
    return net, blocks


def model_from_document(document: Document, report: Report, is_saved_model: bool = False) -> Model:
    """The model of an expanded document. Raises TextError with the mistakes in the report."""
    net, blocks = read_blocks(document, report, is_saved_model)
    report.raise_if_any()
    assert net is not None
    return make_model(net, blocks)


def make_model(net: Net, blocks: Mapping[str, Any]) -> Model:
    """The model of a net and its blocks compile and fit, see `read_blocks`."""
    model = Model(net)
    model.compile_block, model.fit_block = blocks.get("compile"), blocks.get("fit")
    model.weights_block, model.nested_weights = blocks.get("weights"), blocks.get("nested_weights", ())
    return model


def load_saved(
    path: str | PathLike[str], overrides: Sequence[str] = (), allow_read: Paths = (), with_training: bool = True
) -> Model:
    """A saved model with its weights, and with its training state where the file has one.

    The data that its text names are read inside the working directory of now, or ``allow_read``, only. The next `fit`
    of a model that was saved during training resumes it. Raises ModelFileError for a file whose weights are not those
    of its own text, or whose training state cannot be one; values that are not finite are a RuntimeWarning.
    """
    saved = checkpoint.load(path)
    report = Report()
    document = saved_document(saved, fspath(path), overrides, report)
    model = model_from_document(document, report, is_saved_model=True)
    model.read_limits = _read_limits(model, fspath(path), overrides, allow_read)
    _check_weights(model, saved, fspath(path))
    _check_training_state(model, saved, overrides, fspath(path))
    model.history = _read_history(model, saved, fspath(path))
    if not with_training:
        model.compile_block = None
    model.input_ranges.training_ranges = {
        i.name: saved.input_ranges[i.name] for i in model.net.inputs if i.name in saved.input_ranges
    }
    model.table_columns = saved.table_columns
    for name, array in saved.arrays.items():
        if with_training or not name.startswith((SLOT_PREFIX, METRIC_PREFIX)):
            model.variables.create(name, array, own=True)
    if saved.training is not None and model.compile_block is not None:
        trainer = model.trainer
        for name, array in saved.arrays.items():  # compiling has dropped the optimizer's slots
            model.variables.create(name, array, own=True)
        trainer.load_state(saved.training)
    warn_of_loaded(model.variables, fspath(path), slots=True)
    return model


def _read_history(model: Model, saved: checkpoint.Checkpoint, path: str) -> History | None:
    """The history of the epochs in which a saved model was trained; None where the file does not tell it.

    Files of older versions tell it in the state of the training alone.
    """
    state = saved.history
    if state is None and saved.training is not None and model.compile_block is not None:  # then it has been checked
        callbacks = (saved.training["fit"] or {"callbacks": []})["callbacks"]
        state = next((one["state"] for one in callbacks if one["class"] == "History"), None)
    if state is None:
        return None
    try:
        return train.History.from_json(state)
    except StateError as error:
        raise ModelFileError(f"{path}: its history is wrong: {error}") from error


def _read_limits(model: Model, path: str, overrides: Sequence[str], allow_read: Paths) -> ReadLimits:
    """The limits on the data that a saved model names, which are those that no override names."""
    fit = model.fit_block
    blocks = () if fit is None else (fit.data, fit.validation)
    names = {name for block in blocks if block is not None for name in (block.source, block.folder) if name is not None}
    folders = (os.path.realpath(os.curdir), *resolved_paths(allow_read))
    return ReadLimits(path, frozenset(names.difference(strings_in(overrides))), folders)


def _check_training_state(model: Model, saved: checkpoint.Checkpoint, overrides: Sequence[str], path: str) -> None:
    if saved.training is None or model.compile_block is None:
        return
    weights = {name: array for name, array in saved.arrays.items() if not name.startswith((SLOT_PREFIX, METRIC_PREFIX))}
    try:
        check_training_state(saved.training, weights, None if overrides else model.compile_block.seed)
    except StateError as error:
        raise ModelFileError(f"{path}: its training state is wrong: {error}") from error


def _check_weights(model: Model, saved: checkpoint.Checkpoint, path: str) -> None:
    """Raise ModelFileError unless the weights are those of the text, where it determines the sizes of the inputs."""
    if any(None in node.shape for node in model.net.inputs):
        return  # checked when the data determine the sizes
    expected = {name: weight.spec for name, weight in trace(model.net, model.input_specs(1), False).weights.items()}
    weights = {name: array for name, array in saved.arrays.items() if not name.startswith((SLOT_PREFIX, METRIC_PREFIX))}
    report = checkpoint.compare_weights(expected, weights)
    if report.missing or report.unexpected or report.mismatched:
        raise ModelFileError(f"{path}: its weights are not those of its own text:\n{report}")
    for name, spec in expected.items():
        if weights[name].dtype.name != spec.dtype:
            raise ModelFileError(f"{path}: {name} is {weights[name].dtype}, its own text makes it {spec.dtype}")
