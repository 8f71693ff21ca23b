"""The pairs of a match as a rules file, to look at and to edit."""

from __future__ import annotations

from prototorch.model.loading.file_layers import split_name
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.rules_file import format_rules

__all__ = ["rules_text"]


def rules_text(match: LaidOutWeights) -> str:
    """A rules file with the pairs of layers that were found: by name where names match, else by order and shape.

    What has no partner stands in comments behind it.
    """
    proposal = match.proposal
    if proposal is not None and (len(proposal.pairs) >= len(_layers(match)) or proposal.is_complete):
        pairs = dict(proposal.names())
        partners = set(proposal.pairs.values())
        theirs = [layer.name for j, layer in enumerate(proposal.file_layers) if j not in partners]
        ours = [layer.key for i, layer in enumerate(proposal.layers) if i not in proposal.pairs]
    else:
        pairs = _layers(match)
        theirs, ours = list(match.unexpected), list(match.missing)
    lines = [format_rules({theirs: ours for theirs, ours in pairs.items() if split_name(theirs) != split_name(ours)})]
    lines += [f"# in the file, without a partner: {_comment(name)}\n" for name in theirs]
    lines += [f"# in the net, without a partner: {_comment(name)}\n" for name in ours]
    return "".join(lines)


def _layers(match: LaidOutWeights) -> dict[str, str]:
    """The layers of the file and of the net whose weights were found by name."""
    arrays: dict[str, list[tuple[str, ...]]] = {}
    for assignment in match.assignments:
        key = assignment.ours[0].rpartition("/")[0]
        arrays.setdefault(key, []).extend(split_name(name) for name in assignment.theirs)
    result = {}
    for key, names in arrays.items():
        common = names[0][:-1]
        while any(name[: len(common)] != common for name in names):
            common = common[:-1]
        result[".".join(common)] = key
    return result


def _comment(text: str) -> str:
    return text.encode("unicode_escape").decode()
