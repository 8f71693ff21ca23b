"""The first model texts for folders of images and of text files, a folder for each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prototorch.data.image_folder import find_image_files, find_splits, list_class_names
from prototorch.data.image_io import ImageReader
from prototorch.data.safe_io import printable_path
from prototorch.data.text_files import TEXT_SUFFIXES
from prototorch.errors import DataError
from prototorch.text.string_literals import quote

__all__ = ["image_folder_text", "text_folder_text"]

SAMPLED_IMAGES = 50
SIZES = (28, 32, 64, 96, 128, 160)  # of images, from which the one that fits is taken
MIN_FILE_CLASSES = 2


def image_folder_text(folder: Path, name: str, source: str) -> tuple[str, list[str]]:
    """The text of a convolutional net for a folder of images, and the notes that are printed, a line each.

    Raises DataError for a folder that has no class folders with images.
    """
    classes, counts, has_validation = _count_classes(folder, None)
    files = find_image_files(find_splits(folder).get("train", folder))
    reader, sizes, has_colors = ImageReader(), list[int](), False
    for file in files[:: len(files) // SAMPLED_IMAGES + 1]:
        try:
            image = reader.read(file)
        except DataError:
            continue
        sizes.append(min(image.shape[1:]))
        has_colors = has_colors or bool((image != image[:1]).any())
    if not sizes:
        raise DataError(f"{printable_path(folder)}: none of the first images can be read")
    wanted_size = int(np.median(sizes))
    size = max((s for s in SIZES if s <= wanted_size), default=SIZES[0])
    channels = 3 if has_colors else 1
    blocks = max(2, min(4, int(np.log2(size / 4))))
    total = sum(counts.values())
    notes = [f"{total:,} images of {len(classes)} classes: " + _list_counts(counts)]
    notes.append(f"images have about {wanted_size} pixels a side; the net reads {size} x {size}")
    lines = [
        f"# A first model for {folder.name}: {total:,} images of {len(classes)} classes.",
        f"name: {quote(name)}",
        "",
        f'input {{ name: "image"  shape: [{channels}, {size}, {size}] }}',
        "",
        "preprocess { Rescaling { scale: $(1 / 255) } }",
        "",
        "augment { RandomFlip { mode: horizontal } RandomTranslation { height_factor: 0.1  width_factor: 0.1 } }",
        "",
        "block conv(filters) {",
        "  Conv2D { filters: $filters  kernel_size: 3  padding: same  use_bias: false }",
        "  BatchNormalization { }",
        "  ReLU { }",
        "}",
        "",
        f"repeat i in $range({blocks}) {{",
        "  conv { filters: $(32 * 2 ** i) }",
        "  conv { filters: $(32 * 2 ** i) }",
        "  MaxPooling2D { pool_size: 2 }",
        "}",
        "",
        "GlobalAveragePooling2D { }",
        "Dropout { rate: 0.3 }",
        f'Dense {{ name: "logits"  units: {len(classes)} }}',
        "",
        *_compile("1e-3"),
        "fit {",
        f"  data {{ source: {quote(source)}  size: {size}  resize: crop }}",
        *_end(total, has_validation),
    ]
    return "\n".join(lines) + "\n", notes


def text_folder_text(folder: Path, name: str, source: str) -> tuple[str, list[str]]:
    """The text of a net for a folder of text files, and the notes that are printed, a line each.

    The net reads the words of a text as a set, by the mean of their vectors, a strong simple model of short and long
    texts alike. Raises DataError for a folder that has no class folders with text files.
    """
    classes, counts, has_validation = _count_classes(folder, frozenset(TEXT_SUFFIXES))
    total = sum(counts.values())
    lines = [
        f"# A first model for {folder.name}: {total:,} texts of {len(classes)} classes.",
        f"name: {quote(name)}",
        "",
        'input { name: "text"  shape: [256]  dtype: int32 }',
        "",
        "preprocess { TextVectorization { max_tokens: 20000 } }",
        "",
        "Embedding { input_dim: 20000  output_dim: 64  mask_zero: true }",
        "Dropout { rate: 0.3 }",
        "GlobalAveragePooling1D { }",
        "Dense { units: 64  activation: relu }",
        "Dropout { rate: 0.3 }",
        f'Dense {{ name: "logits"  units: {len(classes)} }}',
        "",
        *_compile("2e-3"),
        "fit {",
        f"  data {{ source: {quote(source)} }}",
        *_end(total, has_validation),
    ]
    return "\n".join(lines) + "\n", [f"{total:,} texts of {len(classes)} classes: " + _list_counts(counts)]


def _compile(rate: str) -> list[str]:
    return [
        "compile {",
        "  loss: sparse_categorical_crossentropy { from_logits: true }",
        f"  optimizer: AdamW {{ learning_rate: {rate}  weight_decay: 0.01 }}",
        "  metrics: [accuracy]",
        "}",
        "",
    ]


def _end(samples: int, has_validation: bool) -> list[str]:
    return [
        *([] if has_validation else ["  validation_split: 0.2"]),
        f"  epochs: {60 if samples < 2000 else 20}",
        "  batch_size: 32",
        "  callbacks: [EarlyStopping { patience: 8  restore_best_weights: true }]",
        "}",
    ]


def _count_classes(folder: Path, suffixes: frozenset[str] | None) -> tuple[tuple[str, ...], dict[str, int], bool]:
    """The class names, the number of training files of each, and whether there are validation or test files."""
    splits = find_splits(folder)
    training = splits.get("train", folder)
    names = list_class_names(training)
    find = find_image_files if suffixes is None else lambda path: find_image_files(path, suffixes)
    counts = {name: len(find(training / name)) for name in names}
    if sum(count > 0 for count in counts.values()) < MIN_FILE_CLASSES:
        kind = "images" if suffixes is None else f"text files ({', '.join(sorted(suffixes))})"
        raise DataError(
            f"{printable_path(folder)}: expected a folder for each of at least two classes, with {kind} in it; found "
            f"{_list_counts({name: count for name, count in counts.items() if count}) or 'none'}"
        )
    return names, counts, len(splits) > 1


def _list_counts(counts: dict[str, int], limit: int = 12) -> str:
    parts = [f"{name} {count:,}" for name, count in list(counts.items())[:limit]]
    return ", ".join(parts) + (", ..." if len(counts) > limit else "")
