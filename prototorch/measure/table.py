"""A measured step as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prototorch.measure.profile import PHASES, Profile, ProfileEntry
from prototorch.train.memory_estimate import format_bytes

__all__ = ["align_columns", "format_ms", "format_table"]

_LAYER_COLUMNS = ("layer", "type", *(f"{p} ms" for p in PHASES), "share", "GFLOP/s", "GB/s", "of peak", "memory")
_STEP_COLUMNS = ("step", "phase", "layer", "ops", "kernel", "ms", "share", "GFLOP/s", "GB/s", "of peak")
_LEFT_ALIGNED = ("", "layer", "type", "phase", "ops", "kernel")


def format_table(profile: Profile, detail: bool = False) -> Iterator[str]:
    """The lines: the layers in the net's order, their sum, the whole step; with ``detail`` the plan's steps as well."""
    total = profile.total()
    threads = profile.machine.threads
    yield profile.title
    yield (
        f"this machine: {profile.machine.flops / 1e9:.0f} GFLOP/s (a large matrix product), "
        f"{profile.machine.bandwidth / 1e9:.1f} GB/s (a large copy)" + (f", {threads} threads" if threads else "")
    )
    yield ""
    phases = [p for p in PHASES if total.seconds[p]]
    columns = [i for i, name in enumerate(_LAYER_COLUMNS) if name[:-3] not in PHASES or name[:-3] in phases]
    rows = [_format_row(part, profile, total) for part in [*profile.layers, total]]
    yield from align_columns([[row[i] for i in columns] for row in (_LAYER_COLUMNS, *rows)], last=True)
    yield ""
    speed = profile.batch / profile.step_seconds
    yield (
        f"the whole step: {format_ms(profile.step_seconds)} ms, {speed:,.{0 if speed >= 100 else 1}f} samples "
        f"a second (medians of {profile.rounds}; the parts were timed one by one and add up to "
        f"{format_ms(total.total)} ms)"
    )
    if profile.setup_seconds:
        yield f"computed again only when weights have changed: {format_ms(profile.setup_seconds)} ms"
    yield "memory: " + ", ".join(f"{k} {format_bytes(v)}" for k, v in profile.memory.items())
    if detail:
        yield ""
        steps = [
            (
                str(s.number or "-"),
                s.phase,
                s.layer or "-",
                " + ".join(s.members),
                f"{s.level}/{s.kernel}".rstrip("/"),
                format_ms(part.total),
                _format_share(part.total, total.total),
                *_format_rates(part, profile),
            )
            for s, part in profile.steps
        ]
        yield from align_columns([_STEP_COLUMNS, *steps])


def _format_row(part: ProfileEntry, profile: Profile, total: ProfileEntry) -> tuple[str, ...]:
    times = (format_ms(part.seconds[p]) if part.seconds[p] else "" for p in PHASES)
    memory = format_bytes(part.memory) if part.memory else ""
    if part.fused_into and not part.total:
        return (part.name, part.kind, "fused", *list(times)[1:], "", "", "", "", memory)
    return (part.name, part.kind, *times, _format_share(part.total, total.total), *_format_rates(part, profile), memory)


def _format_rates(part: ProfileEntry, profile: Profile) -> tuple[str, str, str]:
    if not part.total:
        return "", "", ""
    rates = part.rates(profile.machine)
    return (
        f"{rates['flops_per_second'] / 1e9:.1f}",
        f"{rates['bytes_per_second'] / 1e9:.1f}",
        f"{rates['of_peak']:.0%}",
    )


def format_ms(seconds: float) -> str:
    """Seconds as milliseconds, without the unit."""
    return f"{seconds * 1e3:.3f}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def _format_share(time: float, total: float) -> str:
    return f"{time / total:.1%}" if time else ""


def align_columns(rows: Sequence[Sequence[str]], last: bool = False) -> Iterator[str]:
    """Rows below a head, in columns; ``last``: the last row is a sum."""
    head = rows[0]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    for n, row in enumerate(rows):
        if n == 1 or (last and n == len(rows) - 1):
            yield rule
        cells = (c.ljust(w) if h in _LEFT_ALIGNED else c.rjust(w) for c, w, h in zip(row, widths, head, strict=True))
        yield "  ".join(cells).rstrip()
