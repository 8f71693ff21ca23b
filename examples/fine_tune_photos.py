"""Fine-tune MobileNetV2, pretrained on ImageNet, on 279 pictures of eight kinds, and compare with a net from scratch.

The pictures are stamps of Tux Paint (Debian's package tuxpaint-stamps-default, GPL-2) in /usr/share/tuxpaint/stamps;
half of them train, the others validate. --photos takes a folder of your own: train and test, each with a folder per
class.

python examples/fine_tune_photos.py                                   # downloads the weights once
python examples/fine_tune_photos.py --weights mobilenet_v2-b0353104.pth --epochs 10 --compare
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image

import prototorch as pt

STAMPS = {
    "birds": "animals/birds",
    "flowers": "plants/flowers",
    "fruit": "food/fruit",
    "houses": "town/houses",
    "insects": "animals/insects",
    "mammals": "animals/mammals",
    "vegetables": "food/vegetables",
    "vehicles": "vehicles",
}


def make_photos(stamps: Path, folder: Path) -> Path:
    """A folder of images by split and class: the stamps on white, every other one to test."""
    for name, part in STAMPS.items():
        for i, path in enumerate(sorted((stamps / part).rglob("*.png"))):
            stamp = Image.open(path).convert("RGBA")
            stamp.thumbnail((320, 320))
            image = Image.new("RGB", stamp.size, "white")
            image.paste(stamp, mask=stamp.getchannel("A"))
            target = folder / ("test" if i % 2 else "train") / name
            target.mkdir(parents=True, exist_ok=True)
            image.save(target / f"{i:03}.png")
    return folder


def train(
    model: pt.Model, photos: Path, epochs: int, rate: float, freeze: list[str], stages: list[pt.Callback]
) -> float:
    """The accuracy on the pictures of test after the last epoch."""
    model.compile(
        optimizer=pt.optimizers.Adam(rate),
        loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        freeze=freeze,
    )
    history = model.fit(str(photos), batch_size=16, epochs=epochs, callbacks=stages)
    return history.history["val_accuracy"][-1]


def main() -> None:
    """Train the head alone, then the last stages as well; save the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder with train and test, in each a folder per class")
    parser.add_argument("--stamps", type=Path, default=Path("/usr/share/tuxpaint/stamps"))
    parser.add_argument("--weights", default="torchvision/mobilenet_v2-v1", help="a weight set, a file, an address")
    parser.add_argument("--model", default="mobilenet_v2", help="a text with the param `classes`, and a layer `logits`")
    parser.add_argument("--stages", nargs="*", default=["stage[567]", "last"], help="what is trained after a third")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--compare", action="store_true", help="also train the same net from scratch")
    parser.add_argument("--save", help="where the model is written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photos = args.photos or make_photos(args.stamps, Path(folder))
        classes = len([path for path in (photos / "train").iterdir() if path.is_dir()])
        model = pt.load_model(args.model, classes=classes, weights=pt.Weights(args.weights, except_=["logits"]))
        stage = pt.callbacks.Unfreeze(args.epochs // 3, args.stages, learning_rate=1e-4, verbose=1)
        accuracy = train(model, photos, args.epochs, 1e-3, ["**", "!logits"], [stage])
        print(f"accuracy with pretrained weights: {accuracy:.3f}")
        if args.save:
            model.save(args.save)  # with the preprocessing and the names of the classes; it needs the set no more
        if args.compare:
            fresh = pt.load_model(args.model, classes=classes, weights=False)
            fresh = pt.Model(replace(fresh.net, preprocess=model.net.preprocess))
            accuracy = train(fresh, photos, args.epochs, 1e-3, [], [])
            print(f"accuracy from scratch: {accuracy:.3f}")


if __name__ == "__main__":
    main()
