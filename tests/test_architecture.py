"""The package's structure: imports point down and form no circle, importing is light, every public name exists."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "prototorch"

#: The ranks of the core, lowest first. A module belongs to the longest prefix of its name. It may import from lower
#: ranks, and from modules of its own prefix.
CORE: tuple[tuple[str, ...], ...] = (
    ("prototorch.base.confusables", "prototorch.base.terminal", "prototorch.spec"),
    ("prototorch.errors",),
    ("prototorch.base",),
    ("prototorch.text", "prototorch.ops"),
    ("prototorch.schema",),
    ("prototorch.engine",),
    ("prototorch.data.safe_io",),
    ("prototorch.data.label_words", "prototorch.data.words", "prototorch.data.tables.raw_table",
     "prototorch.data.tables.column_block"),
    ("prototorch.data.tables.list_values", "prototorch.data.tables.target_encoding"),
    ("prototorch.data.tables.typed_values",),
    ("prototorch.data.tables.column_encoding",),
    ("prototorch.data.tables.table_encoding",),
    ("prototorch.data.read_limits", "prototorch.data.fingerprint", "prototorch.data.columns",
     "prototorch.data.shuffling", "prototorch.data.table_columns"),
    ("prototorch.data.dataset",),
    ("prototorch.data.token_dataset",),
    ("prototorch.tokenization",),
    # ---- backends: the dispatch core and the CPU's levels
    ("prototorch.engine.backends",),
    ("prototorch.engine.backends.core",),
    ("prototorch.engine.backends.cpu.worker_pool",),
    ("prototorch.engine.backends.cpu.numpy", "prototorch.engine.backends.cpu.native"),
    ("prototorch.engine.backends.cpu.native.kernels.common",),
    ("prototorch.engine.backends.cpu.native.kernels.move", "prototorch.engine.backends.cpu.native.kernels.reduce",
     "prototorch.engine.backends.cpu.native.kernels.conv.conv_geometry"),
    ("prototorch.engine.backends.cpu.native.kernels.conv.input_rows",),
    ("prototorch.engine.backends.cpu.native.kernels.gemm",),
    ("prototorch.engine.backends.cpu.native.kernels.conv", "prototorch.engine.backends.cpu.native.kernels.norm",
     "prototorch.engine.backends.cpu.native.kernels.pool", "prototorch.engine.backends.cpu.native.kernels.rnn"),
    ("prototorch.engine.backends.cpu.native.kernels",),
    ("prototorch.engine.backends.cpu.native.backend",),
    ("prototorch.engine.backends.cpu",),
    ("prototorch.engine.backends.devices",),
    # ----
    ("prototorch.initializers", "prototorch.regularizers", "prototorch.constraints"),
    ("prototorch.layers",),
    # ---- graph: the IR and the front end, passes, the plan
    ("prototorch.graph.net", "prototorch.graph.mixed_precision"),
    ("prototorch.graph.ir",),
    ("prototorch.graph",),
    ("prototorch.graph.liveness", "prototorch.graph.memory_planner"),
    ("prototorch.graph.in_place",),
    ("prototorch.graph.allocation",),
    ("prototorch.graph.passes",),
    ("prototorch.graph.pipeline",),
    ("prototorch.graph.plan",),
    ("prototorch.graph.executable",),
    ("prototorch.graph.plan_printer",),
    ("prototorch.graph.graph_printer",),
    # ----
    ("prototorch.data",),
    ("prototorch.runtime",),
    ("prototorch.runtime.variables",),
    ("prototorch.runtime.executor",),
    ("prototorch.runtime.plan_timing",),
    ("prototorch.eager",),
    ("prototorch.optimizers", "prototorch.losses"),
    ("prototorch.metrics",),
    ("prototorch.engine.storage",),
    # ---- train: declared blocks and parts, the plans of a step, the training loop
    ("prototorch.train",),
    ("prototorch.train.plan_cache",),
    ("prototorch.train.preprocessing", "prototorch.train.nan_diagnosis", "prototorch.train.precompile",
     "prototorch.train.summary", "prototorch.train.synthetic_batch"),
    ("prototorch.train.model_notes", "prototorch.train.input_ranges"),
    ("prototorch.train.data_signature",),
    ("prototorch.train.batch_feeder",),
    ("prototorch.train.step_runner",),
    ("prototorch.train.evaluation",),
    ("prototorch.train.trainer",),
    ("prototorch.train.on_batch",),
    # ---- the Keras-like face
    ("prototorch.model.keras_hints", "prototorch.model.name_rules"),
    # a file's way into the weights: read, names, layout, assign; each knows the next alone
    ("prototorch.model.weights_block", "prototorch.model.loading.weight_file"),
    ("prototorch.model.loading.layout.transforms",), ("prototorch.model.loading.layout.layout_table",),
    ("prototorch.model.loading.net_layers", "prototorch.model.loading.file_layers"),
    ("prototorch.model.loading.assign",),
    ("prototorch.model.loading.layout",),
    ("prototorch.model.loading.names",), ("prototorch.model.loading.read",),
    ("prototorch.model",),
    ("prototorch.model.model",),
    ("prototorch.model.sequential",),
    ("prototorch.model.load",),
    ("prototorch.model.fit_preconditions", "prototorch.model.copying"),
    ("prototorch.model.diagnose", "prototorch.model.prediction", "prototorch.model.docs_pages",
     "prototorch.model.evaluation_report", "prototorch.model.permutation_importance"),
    ("prototorch.model.editor_schema",),
    ("prototorch.model.prediction_table",),
    ("prototorch.model.starter",),
    ("prototorch.model.decoder",), ("prototorch.model.next_logits",), ("prototorch.model.generation",),
    ("prototorch.engine.harness",),
    ("prototorch.testing",),
)  # fmt: skip
#: The wings by name, each with its ranks, and the wings that it may import.
WINGS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "cuda": ((), (("prototorch.cuda",),)),
    "pytorch": (("cuda", "interop"), (
        ("prototorch.autograd", "prototorch.backends", "prototorch.cuda.devices", "prototorch.linalg",
         "prototorch.special"),
        ("prototorch.cuda.memory", "prototorch.cuda.random", "prototorch.cuda.tensor_types"),
        ("prototorch.nn",),
        ("prototorch.utils", "prototorch.optim", "prototorch.func"),
        ("prototorch.compiler",),
        ("prototorch.static",),
    )),
    # words of other systems over the face
    "compat": (("pytorch", "cuda"), (("prototorch.compat",),)),
    # files and nets of other systems: what all share, readers and writers, tables of systems, weight sets
    "interop": ((), (
        ("prototorch.interop.protobuf_reader",),
        ("prototorch.interop.element_types", "prototorch.interop.weight_statistics", "prototorch.interop.downloads"),
        ("prototorch.interop.imported_model", "prototorch.interop.channel_order", "prototorch.interop.text_generation"),
        ("prototorch.interop.counterparts.row",),
        ("prototorch.interop.counterparts.keras.row",),
        ("prototorch.interop.counterparts.keras.weights",),
        ("prototorch.interop.keras", "prototorch.interop.torch.names"),
        ("prototorch.interop.counterparts.torch", "prototorch.interop.counterparts.onnx"),
        ("prototorch.interop.onnx",),
        ("prototorch.interop.onnx.op_pairs", "prototorch.interop.onnx.wire_format"),
        ("prototorch.interop.onnx.recurrent_gates",),
        ("prototorch.interop.onnx.tensors",),
        ("prototorch.interop.onnx.model_file",),
        ("prototorch.interop.readers", "prototorch.interop.writers.output_format"),
        ("prototorch.interop.weight_sets", "prototorch.interop.keras.config_import"),
        ("prototorch.interop.counterparts",),
        ("prototorch.interop.symbolic_batch",),
        ("prototorch.interop.torch",),
        ("prototorch.interop.onnx.export",),
        ("prototorch.interop.onnx.importer",),
        ("prototorch.interop.onnx.importer.model",),
        ("prototorch.interop.writers", "prototorch.interop.importers"),
        ("prototorch.interop",),
        ("prototorch.interop.conversion",),
    )),
    "caffe": (("interop",), (
        ("prototorch.caffe.text",),
        ("prototorch.caffe.interop.wire",),
        ("prototorch.caffe.interop.blob_proto",),
        ("prototorch.caffe.interop.running_statistics", "prototorch.caffe.interop.scale_layers"),
        ("prototorch.caffe.interop.layouts",
         "prototorch.caffe.interop.solver_state", "prototorch.caffe.interop.stored_net",
         "prototorch.caffe.interop.caffe_net"),
        ("prototorch.caffe.data",),  # above storage, which reads HDF5, and the codec of Caffe's messages
        ("prototorch.caffe.interop.layer_import",),
        ("prototorch.caffe.interop.numbers",),
        ("prototorch.caffe.interop.layers",),
        ("prototorch.caffe.interop",),
        ("prototorch.caffe.interop.net_weights",),
        ("prototorch.caffe.interop.snapshot", "prototorch.caffe.interop.prediction_weights"),
        ("prototorch.caffe.interop.model_conversion.import_net",),
        ("prototorch.caffe.interop.formats",),
        ("prototorch.caffe",),
    )),
}  # fmt: skip
#: What uses the core and the wings.
TOP: tuple[tuple[str, ...], ...] = (
    ("prototorch.measure",),
    ("prototorch",),
    ("prototorch.cli",),
    ("prototorch.__main__",),
)
#: What is known to break a rule below and is to go.
KNOWN_CIRCLES: list[list[str]] = []
KNOWN_PRIVATE: set[str] = set()
#: each wing's name and rank, and those of the core ("") and of what uses both ("top"), by the prefix of a module's name
PLACES = {
    prefix: (part, rank)
    for part, ranks in (("", CORE), ("top", TOP), *((wing, ranks) for wing, (_, ranks) in WINGS.items()))
    for rank, prefixes in enumerate(ranks)
    for prefix in prefixes
}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _prefix(module: str) -> str:
    """The longest prefix of a module's name that has a rank."""
    while module not in PLACES:
        module = module.rpartition(".")[0]
    return module


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path: Path) -> list[tuple[int, str]]:
    """Line and full name of every module of the package that a file imports; names become their modules."""
    found = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found += [(node.lineno, name if name in MODULES else str(node.module)) for name in names]
    return [(line, name) for line, name in found if name.partition(".")[0] == "prototorch"]


def _may_import(source: str, target: str) -> bool:
    """Whether modules of a prefix may import those of another one."""
    (part, rank), (target_part, target_rank) = PLACES[source], PLACES[target]
    if part == target_part:
        return target_rank < rank
    return part == "top" or target_part == "" or (part != "" and target_part in WINGS[part][0])


def test_imports_point_down():
    """In the core and in each wing from lower ranks; no wing is imported by the core or by a wing that must not."""
    upward = []
    for module, path in MODULES.items():
        source = _prefix(module)
        for line, imported in _imports(path):
            target = _prefix(imported)
            if target != source and not _may_import(source, target):
                upward.append(f"{path.relative_to(ROOT)}:{line}: {source} imports {imported}")
    assert upward == []


def test_every_package_has_a_rank():
    unranked = {m for m in MODULES if _prefix(m) == "prototorch" and m != "prototorch"}
    assert unranked == set()


def test_imports_form_no_circle():
    """Imports for types alone are imports as well."""
    graph = {m: {t for _, t in _imports(p) if t in MODULES and t != m} for m, p in MODULES.items()}
    assert [c for c in _circles(graph) if c not in KNOWN_CIRCLES] == []


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan, 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            component = stack[stack.index(module) :]
            del stack[len(stack) - len(component) :]
            if len(component) > 1:
                circles.append(sorted(component))

    for module in graph:
        if module not in number:
            visit(module)
    return circles


def test_imports_have_one_style():
    """``from prototorch.package.module import name``: no relative import, no ``import prototorch.package``."""
    other = []
    for path in MODULES.values():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                other.append(f"{path.relative_to(ROOT)}:{node.lineno}: a relative import")
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.startswith("prototorch.")]
                other += [f"{path.relative_to(ROOT)}:{node.lineno}: import {name}" for name in names]
    assert other == []


def test_private_names_stay_in_their_module():
    """No ``from module import _name``, and no ``module._name``."""
    private = []
    for path in MODULES.values():
        aliases = set()
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "prototorch":
                for alias in node.names:
                    if _is_private(alias.name):
                        private.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.module}.{alias.name}")
                    if f"{node.module}.{alias.name}" in MODULES:
                        aliases.add(alias.asname or alias.name)
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Attribute) and _is_private(node.attr) and ast.unparse(node.value) in aliases:
                private.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert [p for p in private if p.rpartition(" ")[2] not in KNOWN_PRIVATE] == []


#: Private names that somebody else has fixed, with who.
FIXED_PRIVATE = {
    "_replace": "typing.NamedTuple",
    "_asdict": "typing.NamedTuple",
    "_getframe": "sys",
    "_exit": "os",
    "_base": "torch.Tensor",
    "_metadata": "torch.nn.Module.state_dict",
    "_modules": "torch.nn.Module",
    "_parameters": "torch.nn.Module",
    "_buffers": "torch.nn.Module",
}
#: Files with such attributes, each with its reason.
KNOWN_PRIVATE_ATTRIBUTES = {
    "prototorch/interop/readers/torch_pickle.py": "a table of the opcodes' methods, below their class",
}


def _private_attributes(tree: ast.AST, names: frozenset[str] = frozenset()) -> Iterator[ast.Attribute]:
    """The private attributes that are read or set of an object of which the code around is no method: of something else
    than ``self``, ``cls`` and ``super()``, and not defined by the class in which it stands."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _private_attributes(node, names | _own_names(node))
            continue
        is_foreign = isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()")
        if is_foreign and _is_private(node.attr) and node.attr not in names:
            yield node
        yield from _private_attributes(node, names)


def _own_names(definition: ast.ClassDef) -> set[str]:
    """The names that a class defines: its functions, class attributes and the attributes of ``self``."""
    names = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.update([node.attr] if ast.unparse(node.value) in ("self", "cls") else [])
    return names


def test_private_attributes_stay_in_their_class():
    """What another class or function needs of an object is its interface, and has a public name."""
    private = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES.values()
        if str(path.relative_to(ROOT)) not in KNOWN_PRIVATE_ATTRIBUTES
        for node in _private_attributes(_tree(path))
        if node.attr not in FIXED_PRIVATE
    ]
    assert private == []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_no_import_is_hidden_in_a_function():
    hidden = []
    for path in MODULES.values():
        for function in ast.walk(_tree(path)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prototorch"):
                        hidden.append(f"{path.relative_to(ROOT)}:{node.lineno}: an import inside {function.name}")
    assert hidden == []


def test_helpers_of_tests_are_imported_by_their_full_names():
    """``from tests.layers.peers import ours``: a bare name depends on the folder that pytest put first."""
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    helpers = {path.stem for path in files if path.is_relative_to(ROOT / "tests")}
    bare = []
    for path in files:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = ["."] if node.level else [str(node.module)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            bare += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in names if name in {*helpers, "."}]
    assert bare == []


def test_importing_is_light():
    code = (
        "import sys, numpy; before = set(sys.modules); import prototorch; "
        "heavy = {'lark', 'h5py', 'PIL', 'rich', 'click', 'cupy'} & (set(sys.modules) - before); print(sorted(heavy))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_exists():
    import prototorch as pt

    for name in pt._PUBLIC:
        assert getattr(pt, name) is not None
