"""What a user reads of a match: the report, the and errors that say how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import WeightsError
from prototorch.model.loading.file_layers import split_name
from prototorch.model.loading.layout.pairing import Mismatch
from prototorch.model.loading.names.by_order import OrderMatch
from prototorch.model.loading.names.named_arrays import Match
from prototorch.model.loading.weight_file import WeightFile

__all__ = ["check_match", "load_report"]

_MAX_LINES = 40  # of a proposal in a message


def load_report(match: Match) -> LoadReport:
    """The report of a match whose weights have been loaded."""
    expected = {m.name: (m.array, m.expected) for m in match.mismatched}
    return LoadReport(
        match.loaded,
        match.missing,
        match.unexpected,
        tuple((m.name, m.shape, m.current) for m in match.mismatched),
        system=match.system,
        transposed=match.transposed,
        file_shapes=expected,
        excluded=match.excluded,
        notes=(*match.notes, *_unused_blocks(match), *(f"{n}: {r}" for n, r in match.rejected.items())),
    )


def check_match(match: Match, *, by_name: bool = False, skip_mismatch: bool = False) -> None:
    """Raise WeightsError, with the whole report and what to try, unless the weights may be loaded.

    by_name: weights may be missing in the file or in the net. skip_mismatch: shapes may differ as well.
    """
    path = match.file.path
    report = load_report(match)
    reasons = []
    if not by_name and (match.missing or match.unexpected):
        reasons.append("by_name=True loads those that do")
    if match.mismatched and not skip_mismatch:
        reasons.append("skip_mismatch=True leaves these out")
    if match.rejected and not by_name:
        reasons.append("by_name=True loads without them")
    if reasons and match.system != "prototorch" and not match.loaded:
        reasons = []
    if match.unused_rules and not by_name:
        rules = ", ".join(f'map {{ from: "{r.from_}"  to: "{r.to}" }}' for r in match.unused_rules[:5])
        raise WeightsError(f"{path}: no name in the file is that of these rules: {rules}\n{report}")
    unfit = match.missing or match.unexpected or (match.mismatched and not skip_mismatch)
    if not reasons and (match.loaded or not unfit):
        _check_axis_orders(match)
        return
    option = f" ({', '.join(reasons)})" if reasons else ""
    hint = _axis_order_hint(match) or _head_hint(match) or _proposal_text(match.proposal, match)
    raise WeightsError(f"the weights of {path} do not fit the model{option}:\n{report}{hint}")


def _reordered(match: Match) -> list[Mismatch]:
    """Weights whose arrays have the model's own order of axes, where those of the file's system have another."""
    return [m for m in match.mismatched if m.shape == m.current != m.expected]


def _axis_order_hint(match: Match) -> str:
    """For a file that says it is of a system whose kernels have another order of axes than its own kernels have."""
    reordered = _reordered(match)
    if not reordered or match.has_stated_system or match.system == "prototorch":
        return ""
    one = reordered[0]
    return (
        f"\n{one.array} has the axes {list(one.shape)} in the model's own order, not in that of {match.system}: where "
        "another system wrote the kernels so ([inputs, outputs], as the Conv1D of GPT-2), say it by "
        'system="prototorch" (--system prototorch; in a text weights { system: "prototorch" })'
    )


def _check_axis_orders(match: Match) -> None:
    """Refuse square arrays whose order of axes the file contradicts by others, left out because their shapes differ."""
    hint = _axis_order_hint(match)
    if not hint:
        return
    for assignment in match.assignments:
        shape = match.file.arrays[assignment.theirs[0]].shape
        if str(assignment.transform) and len(shape) > 1 and len(set(shape)) == 1:
            raise WeightsError(
                f"{match.file.path}: the order of the axes of {assignment.theirs[0]} {list(shape)} is not "
                f"certain:{hint}; system={match.system!r} takes it as it is there"
            )


def _head_hint(match: Match) -> str:
    """For a classifier of another number of classes: the pattern that keeps the new layer."""
    layers = dict.fromkeys(m.name.rpartition("/")[0] for m in match.mismatched)
    if not layers or len(layers) > 2 or match.missing or match.unexpected:
        return ""
    numbers = [(m.shape, m.expected) for m in match.mismatched]
    if any(sum(a != b for a, b in zip(s, e, strict=False)) != 1 or len(s) != len(e) for s, e in numbers):
        return ""
    patterns = ", ".join(f'"{name}/*"' for name in layers)
    return (
        f"\nfor other classes than the file's, except_=[{patterns}] keeps the layer of the model as it is (in a text "
        f"weights {{ except: [{patterns}] }}, on the command line --except {patterns.replace(',', ' --except')})"
    )


def _proposal_text(proposal: OrderMatch | None, match: Match) -> str:
    if proposal is None or not proposal.pairs:
        return ""
    if not proposal.is_complete:
        ours, theirs = len(proposal.layers), len(proposal.file_layers)
        return (
            f"\nby order and shape {len(proposal.pairs)} of the model's {ours} layers and the file's {theirs} fit "
            "each other; rules say which is which (--write-rules FILE begins such a file)"
        )
    lines = [f"  {theirs or '(top)'} -> {ours}" for theirs, ours in proposal.names()]
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 1], f"  and {len(lines) - _MAX_LINES + 1} more"]
    text = "\nby order, kind and shape all layers have a partner; by_order=True (--by-order) takes them so:\n"
    text += "\n".join(lines)
    ambiguous = proposal.ambiguous()
    if ambiguous:
        groups = "; ".join(", ".join(names[:6]) + (" ..." if len(names) > 6 else "") for names in ambiguous[:5])
        text += f"\nonly their order tells these apart, which have the same shapes: {groups}"
    if proposal.crossing:
        text += "\nthe pairs do not come in the same order in the file as in the model: look at them closely"
    return text


def _unused_blocks(match: Match) -> list[str]:
    """A sentence for each whole block of the file that is not used, where other parts of it are."""
    if not match.unexpected or not match.loaded:
        return []
    unused = {split_name(name): name for name in match.unexpected}
    used = {split_name(name) for a in match.assignments for name in a.theirs}
    inner = {parts[:end] for parts in used for end in range(len(parts))}
    blocks: dict[tuple[str, ...], list[str]] = {}
    for parts, name in unused.items():
        end = next((end for end in range(1, len(parts)) if parts[:end] not in inner), len(parts))
        blocks.setdefault(parts[:end], []).append(name)
    return [
        f"not used: {'.'.join(parts)} of the file, {len(names)} arrays with {_elements(match.file, names):,} elements"
        for parts, names in blocks.items()
        if len(names) > 1
    ]


def _elements(file: WeightFile, names: Sequence[str]) -> int:
    return sum(prod(file.arrays[name].shape) for name in names)
