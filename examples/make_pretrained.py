"""Train the weights that come with prototorch anew: lenet, mlp and resnet20 on the whole of Fashion-MNIST.

    apt install dataset-fashion-mnist          # or its IDX files in $PROTOTORCH_DATA/fashion-mnist
    python examples/make_pretrained.py

Each is trained by its text in models/weights/fashion_mnist, as `prototorch run` does, in runs/NAME. The file beside the
text gets the weights with their history, and the declaration in models/weights/NAME.proto the file's digest and its
accuracy on the 10,000 test images. The last epoch's weights are taken: the test images choose nothing. A training that
is complete in runs/NAME is taken as it is, an interrupted one goes on. On two cores it takes about ten minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

import prototorch as pt
from prototorch.base.package_files import package_folder
from prototorch.cli import main as prototorch_command


def train(text: Path, run_dir: Path, threads: int | None) -> Path:
    """The trained model of a text, with the state of its training."""
    model, snapshots = run_dir / "model.h5", list(run_dir.glob("snapshot_*.h5"))
    if not model.exists():
        arguments = ["run", str(text), "--run-dir", str(run_dir)]
        arguments += ["--resume"] if snapshots else []
        arguments += ["--threads", str(threads)] if threads else []
        try:
            prototorch_command(arguments)
        except SystemExit as done:  # every command ends with one
            if done.code:
                raise
    return model


def declare(path: Path, digest: str, accuracy: float) -> None:
    """Write the digest and the accuracy of a file into its declaration."""
    text = path.read_text(encoding="utf-8")
    text, digests = re.subn(r'digest: "sha256:[0-9a-f]+"', f'digest: "sha256:{digest}"', text)
    text, accuracies = re.subn(r"top1: [0-9.]+", f"top1: {100 * accuracy:g}", text)
    if digests != 1 or accuracies != 1:
        sys.exit(f"{path}: expected one digest and one top1, found {digests} and {accuracies}")
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Read the command line, and make the files of the models that it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of the models; default: all")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the trainings' folders")
    parser.add_argument("--weights", type=Path, default=package_folder("models") / "weights", help="folder to write to")
    parser.add_argument("--threads", type=int, help="threads that train; default: one for each core")
    args = parser.parse_args()
    texts = sorted((args.weights / "fashion_mnist").glob("*.proto"))
    for name in args.names or [text.stem for text in texts]:
        text = args.weights / "fashion_mnist" / f"{name}.proto"
        trained = pt.load_model(train(text, args.runs / name, args.threads))
        path = text.with_suffix(".h5")
        trained.save_weights(path)
        saved = pt.load_model(path)  # the file as it is shipped
        evaluated = saved.evaluate(pt.Data(source="fashion-mnist", part="test"), verbose=0, return_dict=True)
        accuracy = round(float(evaluated["accuracy"]), 4)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        declare(args.weights / f"{name}.proto", digest, accuracy)
        print(f"{path}: {path.stat().st_size:,} bytes, {accuracy:.2%} of the test images, sha256 {digest}")


if __name__ == "__main__":
    main()
