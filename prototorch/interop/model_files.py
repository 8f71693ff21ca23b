"""Other systems' files for a `Model`: weights that are matched with its net, and the writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import WeightsError
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.graph.weight_spec import WeightSpec
from prototorch.interop.weight_sets.assign_to_model import assign_set
from prototorch.interop.weight_sets.opening import OpenedWeights, find_owner, open_weights
from prototorch.interop.writers import write_model
from prototorch.model.foreign_files import ModelWriter, WeightReader
from prototorch.model.loading.assign.checked import assign_match
from prototorch.model.loading.layout.laid_out import check_match, load_report
from prototorch.model.loading.names.named_arrays import Match, match_weights
from prototorch.model.weights_block import Weights
from prototorch.runtime.variables import NamedWeights

__all__ = ["READER", "WRITER", "MatchedFile", "match_file"]


class MatchedFile(NamedTuple):
    """See `prototorch.model.foreign_files.MatchedWeights`."""

    source: OpenedWeights
    match: Match
    block: Weights

    @property
    def path(self) -> str:
        """See `MatchedWeights.path`."""
        return str(self.source.file.path)

    @property
    def changes_preprocessing(self) -> bool:
        """See `MatchedWeights.changes_preprocessing`."""
        return self.source.declared is not None

    @property
    def origin(self) -> dict[str, str]:
        """See `MatchedWeights.origin`."""
        declared = self.source.declared
        return {} if declared is None else {"weights": declared.weights.name, "license": declared.weights.license}

    def assign(self, net: Net, weights: NamedWeights) -> tuple[Net, str, LoadReport]:
        """See `MatchedWeights.assign`."""
        declared = self.source.declared
        net, notes = (net, "") if declared is None else assign_set(net, declared, self.block)
        assign_match(self.match, weights)
        return net, notes, load_report(self.match)


def match_file(
    block: Weights,
    net: Net,
    specs: Mapping[str, WeightSpec] | None,
    *,
    by_name: bool,
    skip_mismatch: bool,
    system: str | None,
    by_order: bool,
    allow_download: bool | None,
    data_format: str | None,
) -> MatchedFile:
    """The file of a block, matched with the weights of a net. Arguments and errors: see `Model.load_weights`."""
    source = open_weights(block, net, allow_download=allow_download, check=not (by_name or skip_mismatch))
    match = match_weights(
        source.file,
        specs or trace_net(net, 1).weights,
        net,
        source.rules,
        system=system or source.system,
        by_order=by_order,
        except_=block.except_,
        data_format=data_format or source.data_format,
    )
    try:
        check_match(match, by_name=by_name, skip_mismatch=skip_mismatch)
    except WeightsError as error:
        raise WeightsError(f"{error}{find_owner(source.file)}") from None
    return MatchedFile(source, match, block)


READER = WeightReader(match_file)
WRITER = ModelWriter(write_model)
