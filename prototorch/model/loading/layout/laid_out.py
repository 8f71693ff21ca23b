"""The third stage: arrays in the layouts of the system that wrote them, with the report and the errors of a match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from prototorch.base.index import Extension, load_extensions
from prototorch.engine.storage.load_report import LoadReport
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.model.loading.assign.checked import Assignment, CheckedWeights
from prototorch.model.loading.file_layers import split_name
from prototorch.model.loading.layout.order_match import OrderMatch
from prototorch.model.loading.layout.pairing import Mismatch
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.name_rules import MapRule
from prototorch.schema.patterns import check_patterns, includes

__all__ = ["LaidOutWeights", "OwnerFinder"]

_MAX_LINES = 40  # of a proposal in a message


@dataclass(frozen=True)
class OwnerFinder(Extension):
    """find: a line that names the model that the names of a file belong to; "" where none is known."""

    find: Callable[[WeightFile], str]


@dataclass(frozen=True)
class LaidOutWeights:
    """Which arrays of a file are which weights of a net, and in which layouts; nothing has been read or changed yet.

    system: whose layouts the arrays have. missing: weights of the net that the file does not have. unexpected: arrays
    of the file that the net does not have. mismatched: weights whose arrays have other shapes. rejected: arrays that
    the layer they are named after cannot have, with the reason. excluded: weights that ``except`` leaves out.
    notes: what was assumed, a sentence each. proposal: the pairs by order and shape, where names do not match the
    whole net. has_stated_system: whether the caller told the system, so that the file's own word does not count.
    """

    file: WeightFile
    system: str
    assignments: tuple[Assignment, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[Mismatch, ...]
    rejected: Mapping[str, str]
    excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unused_rules: tuple[MapRule, ...] = ()
    proposal: OrderMatch | None = None
    has_stated_system: bool = False

    @property
    def weight_names(self) -> tuple[str, ...]:
        """The names of the weights that are read from the file."""
        return tuple(name for assignment in self.assignments for name in assignment.ours)

    @property
    def transposed(self) -> dict[str, str]:
        """What changes the arrays on their way, by the names of the weights ("transposed (1, 0)")."""
        return {name: text for a in self.assignments if (text := str(a.transform)) for name in a.ours}

    @property
    def is_complete(self) -> bool:
        """Whether every weight has its array, and every array its weight."""
        return not (self.missing or self.unexpected or self.mismatched or self.rejected or self.unused_rules)

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The weights by name, in our layouts, one after the other; the element types are those of the file."""
        for assignment in self.assignments:
            yield from zip(assignment.ours, assignment.read(self.file), strict=True)

    def excluding(self, patterns: Sequence[str]) -> LaidOutWeights:
        """The match without the weights that patterns of names include (``except``): they keep their values.

        Raises UsageError for a pattern that matches no weight of the net.
        """
        if not patterns:
            return self
        names = [*self.weight_names, *self.missing, *(m.name for m in self.mismatched)]
        check_patterns(patterns, names, "weight of the net")
        out = {name for name in names if includes(patterns, name)}
        assignments = []
        for assignment in self.assignments:
            if out.isdisjoint(assignment.ours):
                assignments.append(assignment)
            elif not out.issuperset(assignment.ours):
                raise UsageError(
                    f"{', '.join(assignment.ours)} are one array in the file ({', '.join(assignment.theirs)}); except "
                    "must name all of them or none"
                )
        arrays = {m.array for m in self.mismatched if m.name in out}
        return replace(
            self,
            assignments=tuple(assignments),
            missing=tuple(n for n in self.missing if n not in out),
            mismatched=tuple(m for m in self.mismatched if m.name not in out),
            rejected={name: reason for name, reason in self.rejected.items() if name not in arrays},
            excluded=(*self.excluded, *(n for n in names if n in out)),
        )

    def less_unexpected(self) -> LaidOutWeights:
        """The match without the arrays that the net has no weights for: the file is of a larger net."""
        return replace(self, unexpected=())

    def report(self) -> LoadReport:
        """The report of these weights after they have been loaded."""
        expected = {m.name: (m.array, m.expected) for m in self.mismatched}
        return LoadReport(
            self.weight_names,
            self.missing,
            self.unexpected,
            tuple((m.name, m.shape, m.current) for m in self.mismatched),
            system=self.system,
            transposed=self.transposed,
            file_shapes=expected,
            excluded=self.excluded,
            notes=(*self.notes, *_unused_blocks(self), *(f"{n}: {r}" for n, r in self.rejected.items())),
        )

    def accept(self) -> CheckedWeights:
        """The weights that the file has, without a check of those that it lacks."""
        return CheckedWeights(self.file, self.assignments, self.report())

    def check(self, *, by_name: bool = False, skip_mismatch: bool = False) -> CheckedWeights:
        """The weights to be loaded. Raises WeightsError, with the whole report and what to try, unless they may be.

        by_name: weights may be missing in the file or in the net. skip_mismatch: shapes may differ as well.
        """
        path = self.file.path
        report = self.report()
        reasons = []
        if not by_name and (self.missing or self.unexpected):
            reasons.append("by_name=True loads those that do")
        if self.mismatched and not skip_mismatch:
            reasons.append("skip_mismatch=True leaves these out")
        if self.rejected and not by_name:
            reasons.append("by_name=True loads without them")
        if reasons and self.system != "prototorch" and not self.weight_names:
            reasons = []
        if self.unused_rules and not by_name:
            rules = ", ".join(f'map {{ from: "{r.from_}"  to: "{r.to}" }}' for r in self.unused_rules[:5])
            raise WeightsError(f"{path}: no name in the file is that of these rules: {rules}\n{report}")
        unfit = self.missing or self.unexpected or (self.mismatched and not skip_mismatch)
        if not reasons and (self.weight_names or not unfit):
            _check_axis_orders(self)
            return self.accept()
        option = f" ({', '.join(reasons)})" if reasons else ""
        hint = _axis_order_hint(self) or _head_hint(self) or _proposal_text(self.proposal, self)
        if self.system == "prototorch" and self.missing and self.unexpected:
            hint = did_you_mean(self.missing[0], self.unexpected) + hint
        hint += "".join(finder.find(self.file) for finder in load_extensions(OwnerFinder))
        raise WeightsError(f"the weights of {path} do not fit the model{option}:\n{report}{hint}")


def _reordered(match: LaidOutWeights) -> list[Mismatch]:
    """Weights whose arrays have the model's own order of axes, where those of the file's system have another."""
    return [m for m in match.mismatched if m.shape == m.current != m.expected]


def _axis_order_hint(match: LaidOutWeights) -> str:
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


def _check_axis_orders(match: LaidOutWeights) -> None:
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


def _head_hint(match: LaidOutWeights) -> str:
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


def _proposal_text(proposal: OrderMatch | None, match: LaidOutWeights) -> str:
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


def _unused_blocks(match: LaidOutWeights) -> list[str]:
    """A sentence for each whole block of the file that is not used, where other parts of it are."""
    if not match.unexpected or not match.weight_names:
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
