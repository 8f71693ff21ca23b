"""First texts for tables and folders: what is read and left out, and that they train as they are."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from prototorch.cli.main import group


def run(*arguments):
    return CliRunner().invoke(group, list(arguments))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def people(count=120):
    """A table with an id, a name, a gap, a category, a constant, a date, a leak and a class."""
    rng = np.random.default_rng(0)
    age, town = rng.integers(18, 80, count), rng.choice(["Oslo", "Rome", "Lima"], count)
    income = np.exp(rng.normal(3, 2.5, count))
    bought = (age + 20 * (town == "Rome") + rng.normal(0, 5, count) > 55).astype(int)
    rows = [
        f"{i + 1},Person {i:04d},{'' if i % 9 == 0 else age[i]},{town[i]},same,{2020 + i % 3}-0{1 + i % 9}-11,"
        f"{income[i]:.2f},{'yes' if bought[i] else 'no'},{'purchase' if bought[i] else 'none'}"
        for i in range(count)
    ]
    return "id,name,age,town,country,since,income,flag,bought\n" + "\n".join(rows) + "\n"


def test_a_table_goes_from_init_to_predictions_unedited(folder):
    (folder / "people.csv").write_text(people())
    result = run("init", "people.csv", "--target", "bought")
    assert result.exit_code == 0, result.output
    for line in (
        "id: left out, it numbers the rows",
        "name: left out, it has 120 different texts",
        "country: left out, it has one value in all rows",
        "flag: left out, each value stands for one value of the target",
        "age: 14 of 120 rows have no value",
    ):
        assert line in result.output
    text = (folder / "people.proto").read_text()
    assert run("fmt", "--check", "people.proto").exit_code == 0
    assert 'column("age", missing: indicator)' in text
    assert 'column("income", scale: log)' in text
    check = run("check", "people.proto")
    assert check.exit_code == 0, check.output
    assert "no mistakes" in check.output
    assert run("run", "people.proto").exit_code == 0
    report = json.loads(run("evaluate", "runs/people/model.h5", "--json").stdout)
    assert report["accuracy"] > 0.75
    assert run("predict", "runs/people/model.h5", "people.csv", "-o", "out.csv").exit_code == 0
    assert (folder / "out.csv").read_text().splitlines()[0] == "name,prediction,p(none),p(purchase)"


def test_the_last_column_is_the_target_and_a_multiple_of_it_is_left_out(folder):
    rng = np.random.default_rng(1)
    size, price = rng.normal(50, 10, 80), rng.lognormal(8, 2, 80)
    rows = "".join(f"{a:.3f},{2 * b + 1:.6f},{b:.6f}\n" for a, b in zip(size, price, strict=True))
    (folder / "houses.csv").write_text("size,tax,price\n" + rows)
    result = run("init", "houses.csv", "-o", "net.proto")
    assert "the target is price, the last column" in result.output
    assert "tax: left out, its correlation with the target is 1.00000" in result.output
    text = (folder / "net.proto").read_text()
    assert 'column("price", scale: log)' in text
    assert "loss: mse" in text
    assert run("check", "net.proto").exit_code == 0


def test_integers_are_classes_where_they_are_few(folder):
    rng = np.random.default_rng(2)
    rows = "".join(f"{a:.3f},{b}\n" for a, b in zip(rng.normal(size=90), rng.integers(3, 9, 90), strict=True))
    (folder / "wine.csv").write_text("acid,quality\n" + rows)
    assert run("init", "wine.csv").exit_code == 0
    text = (folder / "wine.proto").read_text()
    assert 'column("quality", type: category)' in text
    assert "Dense(6)" in text
    assert run("run", "wine.proto", "--set", "fit.epochs=1").exit_code == 0


def test_texts_are_read_by_their_words(folder):
    moods = [("a very good film for all", "good"), ("such a bad and boring film", "bad")] * 30
    rows = "".join(f"{text} number {i},{mood}\n" for i, (text, mood) in enumerate(moods))
    (folder / "films.csv").write_text("review,mood\n" + rows)
    assert run("init", "films.csv").exit_code == 0
    assert 'column("review", type: text)' in (folder / "films.proto").read_text()
    assert run("run", "films.proto", "--set", "fit.epochs=2").exit_code == 0


def test_a_folder_of_images_is_a_convolutional_net(folder):
    rng = np.random.default_rng(3)
    for name in ("cat", "dog"):
        (folder / "pets" / name).mkdir(parents=True)
        for number in range(12):
            image = rng.integers(0, 256, (40, 50, 3)).astype(np.uint8)
            Image.fromarray(image).save(folder / "pets" / name / f"{number}.png")
    result = run("init", "pets")
    assert "24 images of 2 classes: cat 12, dog 12" in result.output
    assert "[3, 32, 32]" in (folder / "pets.proto").read_text()
    assert run("check", "pets.proto").exit_code == 0
    assert run("run", "pets.proto", "--set", "fit.epochs=1").exit_code == 0


def test_a_folder_of_texts_is_a_net_over_words(folder):
    for name in ("good", "bad"):
        (folder / "mails" / name).mkdir(parents=True)
        for number in range(12):
            (folder / "mails" / name / f"{number}.txt").write_text(f"this is a {name} mail {number}")
    assert run("init", "mails").exit_code == 0
    assert run("check", "mails.proto").exit_code == 0
    assert run("run", "mails.proto", "--set", "fit.epochs=1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "there is no such file or folder"),
        (["t.csv", "--target", "pric"], "has no column 'pric'. Did you mean 'price'"),
        (["t.csv", "--ignore", "x"], "has no column 'x'"),
        (["t.csv", "-o", "net.txt"], "the name of a model text ends in .proto"),
        (["t.csv", "-o", "there.proto"], "exists already"),
        (["one.csv"], "a table to learn from has at least two"),
        (["same.csv"], "has 1 different values: nothing can be learned"),
        (["id.csv"], "no column is left to learn 'y' from"),
        (["empty"], "expected a folder for each of at least two classes"),
        (["empty", "--target", "y"], "--target is for tables"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(folder, arguments, message):
    (folder / "t.csv").write_text("size,price\n1,2\n2,3\n3,5\n")
    (folder / "one.csv").write_text("price\n1\n2\n")
    (folder / "same.csv").write_text("size,price\n1,2\n2,2\n3,2\n")
    (folder / "id.csv").write_text("id,y\n" + "".join(f"{i},{i % 7 * 1.5}\n" for i in range(40)))
    (folder / "there.proto").write_text("mine")
    (folder / "empty").mkdir()
    before = sorted(path.name for path in folder.iterdir())
    result = run("init", *arguments)
    assert result.exit_code != 0
    assert message in str(result.exception)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "there.proto").read_text() == "mine"
