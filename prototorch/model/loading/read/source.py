"""The first stage: what names the weights, and the file that it stands for, read as arrays by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from prototorch.base.index import Extension, load_extensions
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.model.loading.names.named_arrays import NamedArrays
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.name_rules import Rules
from prototorch.model.weights_block import Weights

__all__ = ["CheckpointSource", "PublishedSet", "ReadWeights", "SourceOpener"]


class PublishedSet(Protocol):
    """A declared set of published weights, whose preprocessing and class names a model takes over."""

    @property
    def origin(self) -> Mapping[str, str]:
        """The name and the licence of the set, for exports."""

    def take_over(self, net: Net, block: Weights) -> tuple[Net, str]:
        """The net with what it takes over from the set, and the lines that say so."""


@dataclass(frozen=True)
class ReadWeights:
    """A file of weights as arrays by name, with what is known of who wrote it.

    rules: names of the file that are others in the net. system: whose layouts the arrays have, where the caller or a
    weight set tells it; None: the file's own word counts (`WeightFile.system`). data_format: the order of the axes of
    Keras' images, where the caller or a set tells it. published: the weight set that the file is of.
    """

    file: WeightFile
    rules: Rules | None = None
    system: str | None = None
    data_format: str | None = None
    published: PublishedSet | None = None

    def names(
        self,
        net: Net,
        net_weights: Mapping[str, WeightSpec] | None = None,
        *,
        by_order: bool = False,
        except_: Sequence[str] = (),
    ) -> NamedArrays:
        """The arrays by the weights of a net whose names they have; see `NamedArrays.find`. net_weights: the specs of
        its weights by name; None: as the net says."""
        return NamedArrays.find(
            self.file,
            net,
            trace_net(net, 1).weights if net_weights is None else net_weights,
            self.rules,
            system=self.system,
            data_format=self.data_format,
            by_order=by_order,
            except_=except_,
        )


@dataclass(frozen=True)
class SourceOpener(Extension):
    """open: ``(block, net, allow_download=, check=)`` reads what is no path of a saved model: the name of a weight set,
    an address, the path of a file of another system. See `CheckpointSource.read`."""

    open: Callable[..., ReadWeights]


@dataclass(frozen=True)
class CheckpointSource:
    """What names the weights.

    block: the source, its rules and exceptions. system, data_format: what the caller tells of the file, see
    `ReadWeights`. allow_download: whether addresses may be opened that are not those of sets that come with prototorch;
    None: only one that the block itself gives as its source.
    """

    block: Weights
    system: str | None = None
    data_format: str | None = None
    allow_download: bool | None = None

    def read(self, net: Net, check: bool = True) -> ReadWeights:
        """The file, opened and not yet matched with the net. check: whether a weight set must have exactly the net's
        weights.

        Raises UsageError for a set of another model and for a name that is nothing, FileError and its kinds for files
        that cannot be had or read.
        """
        if self.block.is_saved_file and self.block.digest is None:
            weights = ReadWeights(read_weights(self.block.path), self.block.rules)
        else:
            opener: SourceOpener = load_extensions(SourceOpener)[0]
            weights = opener.open(self.block, net, allow_download=self.allow_download, check=check)
        return replace(
            weights,
            system=self.system or self.block.system or weights.system,
            data_format=self.data_format or self.block.data_format or weights.data_format,
        )
