"""Train from Python on NumPy arrays: three spirals in a plane, told apart by a small net, which is saved.

python examples/train_on_arrays.py --save spirals.h5
"""

from __future__ import annotations

import argparse

import numpy as np

import prototorch as pt


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on three spirals: x [count, 2] and the number of each one's spiral [count]."""
    rng = np.random.default_rng(seed)
    label = np.arange(count) % 3
    radius = np.sqrt(rng.uniform(0.01, 1.0, size=count))
    angle = 5 * radius + label * 2 * np.pi / 3 + rng.normal(scale=0.15, size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32), label


def net() -> pt.Model:
    """Two numbers in, three scores out."""
    x = pt.Input((2,), name="point")
    y = pt.layers.Dense(64, activation="relu")(x)
    y = pt.layers.Dense(64, activation="relu")(y)
    return pt.Model(x, pt.layers.Dense(3, name="spiral")(y), name="spirals")


def main() -> None:
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--save", help="where the trained model is written")
    args = parser.parse_args()
    model = net()
    model.compile(
        optimizer=pt.optimizers.Adam(learning_rate=pt.schedules.CosineDecay(0.01, decay_steps=32 * args.epochs)),
        loss=pt.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    x, y = spirals(1200, seed=0)
    history = model.fit(x, y, batch_size=32, epochs=args.epochs, validation_split=0.15)
    print(f"loss {history.history['loss'][0]:.3f} -> {history.history['loss'][-1]:.3f}")
    _, accuracy = model.evaluate(*spirals(600, seed=1))
    print(f"accuracy on new points: {accuracy:.3f}")
    if args.save:
        model.save(args.save)
        print(f"saved {args.save}; its text is:\n{model.to_text()}")


if __name__ == "__main__":
    main()
