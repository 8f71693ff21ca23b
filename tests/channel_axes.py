"""``python -m tests.channel_axes``: write the table of the channel axis in docs/language.md from the classes of layers.

Every class of a layer is in it: one that follows `data_format` by the axis of its channels for each rank of a sample,
one that does not by its `channel_axis_note`, and one without either as treating all elements alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from prototorch.engine.harness.parse_example import parse_layer
from prototorch.layers.base import Layer
from prototorch.layers.channels import ChannelAxisLayer, DataFormat

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "language.md"
BEGIN, END = "<!-- channel axes -->\n", "<!-- end of channel axes -->\n"
RANKS = (1, 2, 3, 4, 5)
FORMATS: tuple[DataFormat | None, ...] = (None, "channels_last", "channels_first")


def followers() -> dict[str, list[ChannelAxisLayer]]:
    """The layers that follow data_format: those of the examples of each class, with the default axis and format."""
    layers: dict[str, list[ChannelAxisLayer]] = {}
    for name, cls in package_layers():
        if issubclass(cls, ChannelAxisLayer):
            stated = [parse_layer(one.text) for one in cls.examples]
            defaults = {n: cls.specs()[n].default for n in ("axis", "batch_axes", "data_format") if n in cls.specs()}
            layers[name] = [layer.replace(**defaults) for layer in stated]
    return layers


def package_layers() -> list[tuple[str, type[Layer]]]:
    """The classes of layers of the package."""
    return [(name, cls) for name, cls in Layer.members().items() if cls.__module__.startswith("prototorch.")]


def rows() -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """(layer, rank of a sample, the axis of the channels by default, with them last and with them first)."""
    for name, layers in followers().items():
        for rank in RANKS:
            layer = next((one for one in layers if one.reads_rank(rank)), None)
            if layer is not None:
                yield name, rank, tuple(layer.replace(data_format=f).channel_axis(rank + 1) for f in FORMATS)


def notes() -> dict[str, str]:
    """The notes of the layers that do not follow, by their names."""
    return {name: cls.channel_axis_note for name, cls in package_layers() if cls.channel_axis_note}


def alike() -> list[str]:
    """The layers that treat all elements alike: they name no axis."""
    return [n for n, cls in package_layers() if not issubclass(cls, ChannelAxisLayer) and not cls.channel_axis_note]


def _grouped(pairs: Iterable[tuple[str, object]]) -> dict[object, list[str]]:
    """The names by what they are paired with."""
    groups: dict[object, list[str]] = {}
    for name, key in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def format_table() -> str:
    """The tables as they stand in the page."""
    by_layer: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for name, rank, axes in rows():
        by_layer.setdefault(name, []).append((rank, axes))
    lines = [
        "| layers that follow | axes of a sample | default | `channels_last` | `channels_first` |",
        "|" + " --- |" * 5,
    ]
    for ranks, names in _grouped((name, tuple(ranks)) for name, ranks in by_layer.items()).items():
        for rank, axes in ranks:  # type: ignore[attr-defined]
            lines.append(f"| {_names(names)} | {rank} | {' | '.join(map(str, axes))} |")
    lines += ["", "| layers that stay | because |", "| --- | --- |"]
    stay = [*_grouped(notes().items()).items(), ("all elements are treated alike", alike())]
    lines += [f"| {_names(names)} | {note} |" for note, names in stay]
    return BEGIN + "".join(f"{line}\n" for line in lines) + END


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + format_table() + rest.partition(END)[2], encoding="utf-8")
