"""Pictures of nets, by the names of ``caffe.draw``: the text of a graph for graphviz, and what graphviz draws of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

from prototorch.caffe.proto import caffe_pb2
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import UsageError

__all__ = ["DotGraph", "draw_net", "draw_net_to_file", "get_pydot_graph"]

_COLORS = {"Convolution": "#FF5050", "Deconvolution": "#FF5050", "Pooling": "#FF9900", "InnerProduct": "#CC33FF"}
_LAYER_COLOR, _IN_PLACE_COLOR, _BLOB_COLOR = "#6495ED", "#90EE90", "#E0E0E0"
_TEXT_FORMATS = ("raw", "dot", "gv")
_SECONDS = 120  # for graphviz


@dataclass
class DotGraph:
    """A graph as graphviz' text: nodes with their attributes, and edges (from, to, label)."""

    name: str
    rankdir: str
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, str]] = field(default_factory=list)

    def to_string(self) -> str:
        """The text of the graph."""
        lines = [f"digraph {_quote(self.name)} {{", f"rankdir={_quote(self.rankdir)};"]
        for name, attributes in self.nodes.items():
            inside = ", ".join(f"{key}={_quote(value, key == 'label')}" for key, value in attributes.items())
            lines.append(f"{_quote(name)} [{inside}];")
        lines += [f"{_quote(a)} -> {_quote(b)} [label={_quote(label)}];" for a, b, label in self.edges]
        return "\n".join([*lines, "}", ""])

    def create(self, format: str = "png") -> bytes:
        """The picture in a format of graphviz (png, svg, pdf); "raw", "dot" and "gv" are the text.

        Raises UsageError where graphviz' ``dot`` is not installed, or does not draw the graph.
        """
        text = self.to_string().encode()
        if format in _TEXT_FORMATS:
            return text
        program = shutil.which("dot")
        if program is None:
            raise UsageError(
                f"a {format} picture needs graphviz (its program dot is not installed); a file named .dot gets the "
                "text of the graph"
            )
        if not format.isalnum():
            raise UsageError(f"{format!r} is no format of a picture; write png, svg or pdf")
        process = subprocess.run(
            [program, f"-T{format}"], input=text, capture_output=True, timeout=_SECONDS, check=False
        )
        if process.returncode:
            raise UsageError(f"graphviz: {process.stderr.decode(errors='replace').strip()[:500]}")
        return process.stdout


def get_pydot_graph(
    caffe_net: Any, rankdir: str, label_edges: bool = True, phase: int | None = None, display_lrm: bool = False
) -> DotGraph:
    """The graph of a NetParameter: a node for each layer and blob.

    rankdir: "LR", "TB" or "BT". phase: `TRAIN` or `TEST`, the layers of which to show; None: all. display_lrm: show
    the factors of the learning rate. Raises UsageError for a layer with include and exclude rules.
    """
    graph = DotGraph(caffe_net.name or "Net", rankdir)
    for layer in caffe_net.layer:
        if phase is not None and not _is_in_phase(layer, phase):
            continue
        node, is_in_place = f"{layer.name}_{layer.type}", len(layer.bottom) == 1 and layer.bottom == layer.top
        color = _IN_PLACE_COLOR if is_in_place else _COLORS.get(layer.type, _LAYER_COLOR)
        label = _layer_label(layer, " " if rankdir in ("TB", "BT") else "\n", display_lrm)
        graph.nodes[node] = {"label": label, "shape": "record", "fillcolor": color, "style": "filled"}
        for blob in (*layer.bottom, *layer.top):
            attributes = {
                "label": blob.replace("\\", "\\\\"),
                "shape": "octagon",
                "fillcolor": _BLOB_COLOR,
                "style": "filled",
            }
            graph.nodes.setdefault(f"{blob}_blob", attributes)
        graph.edges += [(f"{blob}_blob", node, "") for blob in layer.bottom]
        edge_label = _edge_label(layer) if label_edges else ""
        graph.edges += [(node, f"{blob}_blob", edge_label) for blob in layer.top]
    return graph


def draw_net(
    caffe_net: Any, rankdir: str, ext: str = "png", phase: int | None = None, display_lrm: bool = False
) -> bytes:
    """The picture of a NetParameter in a format of graphviz; see `get_pydot_graph` and `DotGraph.create`."""
    return get_pydot_graph(caffe_net, rankdir, phase=phase, display_lrm=display_lrm).create(ext)


def draw_net_to_file(
    caffe_net: Any,
    filename: str | os.PathLike[str],
    rankdir: str = "LR",
    phase: int | None = None,
    display_lrm: bool = False,
) -> None:
    """Write the picture of a NetParameter into a file; the suffix of its name is the format, ``.dot`` the text."""
    ext = os.path.splitext(os.fspath(filename))[1].removeprefix(".")
    write_bytes(filename, draw_net(caffe_net, rankdir, ext, phase, display_lrm))


def _is_in_phase(layer: Any, phase: int) -> bool:
    if len(layer.include) and len(layer.exclude):
        raise UsageError(f"the layer {layer.name!r} has both include and exclude rules")
    included = not len(layer.include) or any(rule.phase == phase for rule in layer.include)
    return included and not any(rule.phase == phase for rule in layer.exclude)


def _layer_label(layer: Any, separator: str, display_lrm: bool) -> str:
    kind = layer.type
    if kind == "Pooling":
        kind = f"{kind} {caffe_pb2.PoolingParameter.PoolMethod.Name(layer.pooling_param.pool)}"
    parts = [layer.name, f"({kind})"]
    if layer.type == "Pooling":
        window = layer.pooling_param
        parts += [f"kernel size: {window.kernel_size}", f"stride: {window.stride}", f"pad: {window.pad}"]
    elif layer.type in ("Convolution", "Deconvolution"):
        window = layer.convolution_param
        sizes = ((window.kernel_size, 1), (window.stride, 1), (window.pad, 0))
        kernel, stride, pad = (values[0] if len(values) else default for values, default in sizes)
        parts += [f"kernel size: {kernel}", f"stride: {stride}", f"pad: {pad}"]
    if display_lrm and layer.type in ("Convolution", "Deconvolution", "InnerProduct"):
        factors = [param.lr_mult for param in layer.param][:2]
        factors += [1.0] * (2 - len(factors))
        if any(factors):
            parts.append(f"lr mult: {factors[0]:.1f}, {factors[1]:.1f}")
    return separator.join("".join(f"\\{c}" if c in "{}|<>\\" else c for c in part) for part in parts)


def _edge_label(layer: Any) -> str:
    if layer.type == "Data":
        return f"Batch {layer.data_param.batch_size}"
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    return str(layer.inner_product_param.num_output) if layer.type == "InnerProduct" else ""


def _quote(text: str, is_label: bool = False) -> str:
    """A string of graphviz. Those of a label have their backslashes already."""
    text = text if is_label else text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"').replace("\n", "\\n").replace("\r", " ") + '"'
