"""Make the data of wgan.proto: ``python make_points.py points.npz`` writes 6,000 points around a circle of radius 2."""

import sys

import numpy as np


def make_points(count: int = 6000, seed: int = 0) -> np.ndarray:
    """Points [count, 2], float32, at a distance of 2 from the origin, give or take 0.05."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, count)
    circle = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (circle + rng.normal(scale=0.05, size=circle.shape)).astype(np.float32)


if __name__ == "__main__":
    np.savez(sys.argv[1] if len(sys.argv) > 1 else "points.npz", point=make_points())
