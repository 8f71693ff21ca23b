"""The parameter blobs of a Caffe net: what ``param`` fields say of them, and which of them share their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from prototorch.caffe.interop.caffe_net import CaffeLayer, CaffeParam
from prototorch.caffe.interop.layer_import import CaffeLayerImport
from prototorch.caffe.interop.layouts import LAYOUTS
from prototorch.caffe.text.message import Message
from prototorch.graph.net import LayerNode
from prototorch.graph.trace import Trace
from prototorch.layers.weight_share import WeightShare
from prototorch.model.loading.layout.transforms import ReshapeArray, Transform, TransposeArray

__all__ = ["ParamReader"]

_MULTS = ("lr_mult", "decay_mult")


@dataclass
class ParamReader:
    """Reads the parameter blobs of layers, in the order of the net. owners: the first blob of each shared name. mults:
    what the ``param`` fields of each shared name state."""

    trace: Trace
    owners: dict[str, CaffeParam] = field(default_factory=dict)
    mults: dict[str, dict[str, float]] = field(default_factory=dict)

    def read(self, site: CaffeLayerImport) -> tuple[CaffeParam, ...]:
        """The parameter blobs of a layer that is translated. Raises TextError for ``param`` fields that do not fit."""
        params: list[CaffeParam] = []
        for node in site.nodes:
            params += self._blobs(site, node, len(params))
        specs = site.layer["param"]
        if len(specs) > len(params):
            site.fail(f"it has {len(specs)} param fields, but {len(params)} parameter blobs", site.layer, "param")
        for i, spec in enumerate(specs):
            params[i] = self._apply_spec(params[i], spec, site)
        return tuple(params)

    def resolve(self, layers: Sequence[CaffeLayer]) -> tuple[CaffeLayer, ...]:
        """The layers; blobs that others share have the factors that any of these states."""
        return tuple(
            replace(layer, params=tuple(self._with_mults(param) for param in layer.params)) for layer in layers
        )

    def _with_mults(self, param: CaffeParam) -> CaffeParam:
        mults = self.mults.get(param.shared_name, {}) if param.owner is None else {}
        lr_mult, decay_mult = mults.get("lr_mult", param.lr_mult), mults.get("decay_mult", param.decay_mult)
        return replace(param, lr_mult=lr_mult, decay_mult=decay_mult)

    def find_shares(self, site: CaffeLayerImport, node: LayerNode) -> tuple[WeightShare, ...]:
        """The weights of a node whose blobs have a name that a blob before them has. Raises TextError for shapes that
        do not fit."""
        first = sum(1 for other in site.nodes for _ in self._blobs(site, other, 0))
        specs = site.layer["param"]
        shares: list[WeightShare] = []
        for param in self._blobs(site, node, first):
            spec = specs[param.index] if param.index < len(specs) else Message("ParamSpec")
            owner = self.owners.get(spec["name"])
            if owner is not None:
                shares += _weight_shares(site, param, owner, spec, len(f"{node.weights_key}/"))
        return tuple(shares)

    def _blobs(self, site: CaffeLayerImport, node: LayerNode, first: int) -> Iterator[CaffeParam]:
        """The blobs that are weights of a node, by its layouts; none for one that repeats another node's weights."""
        if node.weights_key != node.name and any(n.name == node.weights_key for n in site.nodes):
            return
        prefix, used = f"{node.weights_key}/", self.trace.used_weights.get(node.weights_key, {})
        shapes = {name.removeprefix(prefix): self._shape(name) for name in sorted(used.get(node.name, ()))}
        index = first
        for layout in site.layouts.get(node.name) or LAYOUTS.layouts(node.layer, shapes):
            if not layout.ours:
                continue
            (shape,) = layout.their_shapes(shapes)
            weights = tuple(self._source(prefix + name) for name in layout.ours)
            is_trained = all(self.trace.weights[name].trainable for name in weights)
            yield CaffeParam(site.name, index, node.name, layout, weights, shape, float(is_trained))
            index += 1

    def _source(self, name: str) -> str:
        shared = self.trace.shared_weights.get(name)
        return name if shared is None else shared.source

    def _shape(self, name: str) -> tuple[int, ...]:
        shared = self.trace.shared_weights.get(name)
        return self.trace.weights[name].spec.shape if shared is None else shared.shape

    def _apply_spec(self, param: CaffeParam, spec: Message, site: CaffeLayerImport) -> CaffeParam:
        """A parameter blob with its ParamSpec."""
        param = replace(
            param,
            lr_mult=spec["lr_mult"],
            decay_mult=spec["decay_mult"],
            shared_name=spec["name"],
            is_permissive=spec["share_mode"] == "PERMISSIVE",
        )
        if not param.shared_name:
            return param
        owner = self.owners.setdefault(param.shared_name, param)
        mults = self.mults.setdefault(param.shared_name, {})
        for name in _MULTS:
            if spec.has(name) and mults.setdefault(name, spec[name]) != spec[name]:
                site.fail(
                    f"the shared parameter {param.shared_name!r} has the {name} {mults[name]:g} in a layer before it "
                    f"(the values are those of the layer {owner.layer!r}), but {spec[name]:g} here",
                    spec,
                    name,
                )
        return param if owner is param else replace(param, owner=(owner.layer, owner.index))


def _weight_shares(
    site: CaffeLayerImport, param: CaffeParam, owner: CaffeParam, spec: Message, prefix_length: int
) -> list[WeightShare]:
    """How the weights of one blob are those of its owner. Raises TextError where they cannot be."""
    is_permissive = spec["share_mode"] == "PERMISSIVE"
    if param.shape != owner.shape and not (is_permissive and prod(param.shape) == prod(owner.shape)):
        expected = "as many elements" if is_permissive else "the same shape (share_mode: PERMISSIVE: as many elements)"
        site.fail(
            f"the shared parameter {spec['name']!r} has the shape {list(owner.shape)} in the layer {owner.layer!r} and "
            f"{list(param.shape)} here; expected {expected}",
            spec,
            "name",
        )
    transforms = owner.layout.transform, param.layout.transform
    names = [name[prefix_length:] for name in param.weights]
    if transforms[0] == transforms[1] and param.shape == owner.shape and len(names) == len(owner.weights):
        return [WeightShare(weight=n, source=s) for n, s in zip(names, owner.weights, strict=True)]
    if len(names) != 1 or len(owner.weights) != 1 or not all(_is_simple(t) for t in transforms):
        site.fail(
            f"the shared parameter {spec['name']!r} of the layer {owner.layer!r} is stored in another way than that of "
            f"a {site.type} layer; give the two parameters names of their own",
            spec,
            "name",
        )
    return [
        WeightShare(
            weight=names[0],
            source=owner.weights[0],
            reshape=True,
            transpose_source=isinstance(transforms[0], TransposeArray),
            transpose=isinstance(transforms[1], TransposeArray),
        )
    ]


def _is_simple(transform: Transform) -> bool:
    """Whether a transform keeps the order of the elements, or transposes a matrix."""
    return type(transform) in (Transform, ReshapeArray) or transform == TransposeArray((1, 0))
