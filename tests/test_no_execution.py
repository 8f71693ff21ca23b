"""Nothing in the package can run what a file says: a check of its source, call by call and import by import.

Each rule is a name that must not be used, or only in the modules listed with a reason.
"""

import ast
from pathlib import Path

import pytest

import prototorch

PACKAGE = Path(prototorch.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

MODULES = {
    "pickle", "cPickle", "_pickle", "marshal", "shelve", "dbm", "dill", "cloudpickle", "joblib", "yaml", "runpy",
    "code", "codeop", "imp", "xmlrpc", "tarfile", "shutil.unpack_archive", "copyreg", "multiprocessing.connection",
}  # fmt: skip
CALLS = {
    "eval", "exec", "compile", "__import__", "execfile", "os.system", "os.popen", "torch.load", "numpy.fromregex",
    "types.FunctionType", "types.CodeType", "builtins.eval", "builtins.exec", "builtins.compile", "ast.literal_eval",
    "pandas.read_pickle", "getpass.getpass", "webbrowser.open",
}  # fmt: skip
IMPORTS = {"importlib.import_module", "importlib.util.spec_from_file_location"}
METHODS = {"extractall", "unpack_archive", "exec_module", "load_module", "LoadLibrary", "read_pickle", "load_dynamic"}

# What is allowed in some modules: (rule, module path) -> why.
ALLOWED = {
    (
        "subprocess",
        "engine/backends/cpu/native/compile_workers.py",
    ): "starts this package's own compiling process, without a shell",
    ("ctypes library", "engine/backends/cpu/native/elf_loader.py"): "asks this process for memset, pow and their like",
    ("ctypes library", "cuda/driver.py"): "asks NVIDIA's driver, under its fixed name, for its version",
    ("ctypes library", "cuda/cudart.py"): "loads CUDA's runtime, of a fixed name or of pip's package",
    ("load_module", "cuda/cupy_device.py"): "compiles this package's own CUDA sources",
    ("load_module", "cuda/dry_run_device.py"): "hands that on, where a plan's memory is counted",
    ("load_module", "cuda/fake_device.py"): "stands in for that in tests",
    ("subprocess", "engine/storage/reading_process.py"): "starts this package's own reading processes, without a shell",
    ("subprocess", "caffe/draw.py"): "starts graphviz' dot, without a shell, where the caller asks for a picture",
    ("compile", "model/load.py"): "Keras' argument of load_model, which is never called",
    ("types.FunctionType", "compiler/guards.py"): "asks of which type a value of the user's program is",
    ("types.CodeType", "compiler/own_code.py"): "names the type of an argument, and asks for it",
    ("h5py.File", "engine/storage/hdf5_encoder.py"): "writes into memory",
    ("h5py.File", "engine/storage/hdf5_validator.py"): "names the type of an argument",
    ("h5py.File", "engine/storage/hdf5_sandbox.py"): "runs in the sandboxed process alone",
    ("import by name", "schema/python_imports.py"): "runs what a text names, where the caller allows it",
    ("import by name", "__init__.py"): "a table in that file",
    ("import by name", "interop/onnx/__init__.py"): "the two modules that callers in this package name",
    ("import by name", "nn/__init__.py"): "a table in that file",
    ("import by name", "base/index.py"): "a module that the index names: one of the package's own files",
    ("import by name", "base/public_names.py"): "a table of the package that calls it",
    ("import by name", "cli/deferred.py"): "the modules that commands of this package name",
    ("import by name", "cli/main.py"): "a module that the index names: one of the package's own files",
    ("import by name", "engine/backends/registry.py"): "the modules that lie in a package's own folder",
    ("import by name", "schema/family.py"): "a module that the index names: one of the package's own files",
    ("ast.literal_eval", "base/index_reader.py"): "reads literals of this package's own source",
    ("import by name", "nn/collect.py"): "the modules that lie in a package's own folder",
}


def dotted(node):
    """``np.lib.format`` as it is written, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := dotted(node.value)) is not None:
        return f"{left}.{node.attr}"
    return None


class Names(ast.NodeVisitor):
    """What each imported name means, so that ``import numpy as np`` hides nothing."""

    def __init__(self):
        self.meaning = {}
        self.imports = []

    def visit_Import(self, node):
        for alias in node.names:
            self.imports.append((alias.name, node.lineno))
            self.meaning[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )

    def visit_ImportFrom(self, node):
        for alias in node.names:
            whole = f"{node.module or ''}.{alias.name}"
            self.imports += [(node.module or "", node.lineno), (whole, node.lineno)]
            if not node.level:
                self.meaning[alias.asname or alias.name] = whole


def is_fixed_name(node):
    """Whether a module's name is written in the source: a constant, or below the module's own package."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0]
        node = node.value if isinstance(node, ast.FormattedValue) else node
        return dotted(node) in ("__name__", "__package__") or (dotted(node) or "").endswith(".__name__")
    return isinstance(node, ast.Constant)


def faults(source, module=""):
    """``(line, rule)`` of everything in a source that is not allowed there."""
    tree = ast.parse(source)
    names = Names()
    names.visit(tree)
    found = []

    def note(line, rule):
        if (rule, module) not in ALLOWED:
            found.append((line, rule))

    for name, line in names.imports:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            if ".".join(parts[:end]) in MODULES:
                note(line, ".".join(parts[:end]))
        if parts[0] == "subprocess":
            note(line, "subprocess")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(getattr(node, "ctx", None), ast.Load):
            written = dotted(node)
            if written is None:
                continue
            first, _, rest = written.partition(".")
            whole = names.meaning.get(first, first) + (f".{rest}" if rest else "")
            if whole in CALLS or (rest and whole.rpartition(".")[0] in MODULES):
                note(node.lineno, whole)
            if whole.startswith("ctypes.") and whole.rpartition(".")[2] in (
                "CDLL",
                "PyDLL",
                "WinDLL",
                "cdll",
                "windll",
            ):
                note(node.lineno, "ctypes library")
            if whole == "h5py.File":
                note(node.lineno, whole)
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            note(node.lineno, node.attr)
        if isinstance(node, ast.Call):
            written = dotted(node.func) or ""
            first, _, rest = written.partition(".")
            whole = names.meaning.get(first, first) + (f".{rest}" if rest else "")
            keywords = {word.arg: word.value for word in node.keywords}
            pickles = keywords.get("allow_pickle")
            if pickles is not None and not (isinstance(pickles, ast.Constant) and pickles.value is False):
                note(node.lineno, "allow_pickle")
            if whole in ("numpy.load", "numpy.lib.format.read_array", "numpy.lib.npyio.NpzFile") and pickles is None:
                note(node.lineno, f"{whole} without allow_pickle=False")
            if whole in IMPORTS and not (node.args and is_fixed_name(node.args[0])):
                note(node.lineno, "import by name")
            shell = keywords.get("shell")
            if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
                note(node.lineno, "shell")
    return found


PLANTS = [
    ("import pickle", "pickle"),
    ("from pickle import loads", "pickle"),
    ("import pickle as p\np.loads(b'')", "pickle.loads"),
    ("import _pickle", "_pickle"),
    ("import marshal", "marshal"),
    ("from yaml import load", "yaml"),
    ("eval('1')", "eval"),
    ("run = exec", "exec"),
    ("compile('1', '', 'eval')", "compile"),
    ("import builtins\nbuiltins.exec('')", "builtins.exec"),
    ("from builtins import eval as e\ne('')", "builtins.eval"),
    ("__import__('os')", "__import__"),
    ("import numpy as np\nnp.load('x')", "numpy.load without allow_pickle=False"),
    ("import numpy as np\nnp.load('x', allow_pickle=True)", "allow_pickle"),
    ("import numpy as np\nnp.load('x', allow_pickle=flag)", "allow_pickle"),
    ("from numpy import load\nload('x')", "numpy.load without allow_pickle=False"),
    ("import os\nos.system('x')", "os.system"),
    ("from os import popen as p\np('x')", "os.popen"),
    ("import subprocess", "subprocess"),
    ("f(x, shell=True)", "shell"),
    ("import ctypes\nctypes.CDLL('x')", "ctypes library"),
    ("from ctypes import CDLL as C\nC('x')", "ctypes library"),
    ("import torch\ntorch.load('x')", "torch.load"),
    ("archive.extractall()", "extractall"),
    ("spec.loader.exec_module(m)", "exec_module"),
    ("import h5py\nh5py.File('x')", "h5py.File"),
    ("import importlib\nimportlib.import_module(name)", "import by name"),
    ("from importlib import import_module as i\ni(name)", "import by name"),
    ("import importlib\nimportlib.import_module(f'{name}.x')", "import by name"),
    ("from h5py import File\nFile('x')", "h5py.File"),
]


@pytest.mark.parametrize(("source", "rule"), PLANTS)
def test_the_check_finds_what_it_looks_for(source, rule):
    assert rule in [found for _, found in faults(source)]


def test_the_check_leaves_harmless_code_alone():
    source = """
import re, json, numpy as np
from prototorch.model.model import Model
pattern = re.compile("x")
Model().compile(loss="mse")
np.load(path, allow_pickle=False)
model.evaluate(x)
json.load(file)
import importlib
importlib.import_module("cupy")
importlib.import_module(f"{__name__}.{info.name}")
"""
    assert faults(source) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nothing_is_executed(path):
    module = path.relative_to(PACKAGE).as_posix()
    found = faults(path.read_text(encoding="utf-8"), module)
    assert not found, "\n".join(f"{module}:{line}: {rule}" for line, rule in found)


def test_each_exception_is_needed():
    for rule, module in ALLOWED:
        source = (PACKAGE / module).read_text(encoding="utf-8")
        assert rule in [found for _, found in faults(source, "nowhere")], f"{rule} is not used in {module} any more"
