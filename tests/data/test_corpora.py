"""load_corpus: the split, its sizes, and the messages."""

import random

import pytest

from keras_txl.data import load_corpus
from keras_txl.data import text_files
from keras_txl.data.corpora import PARTS

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def text(size, seed):
    return random.Random(seed).randbytes(size).hex()[:size].encode()


@pytest.fixture
def folder(tmp_path):
    """60 files of about 100 bytes in two folders."""
    for number in range(60):
        place = tmp_path / ("a" if number % 2 else "b")
        place.mkdir(exist_ok=True)
        (place / f"{number:02}.txt").write_bytes(text(90 + number % 20, number))
    return tmp_path


def names(part):
    return [document.name for document in part]


def test_every_file_is_in_one_part(folder):
    corpus = load_corpus(folder)
    parts = [names(getattr(corpus, part)) for part in PARTS]
    assert sorted(sum(parts, [])) == sorted(
        path.relative_to(folder).as_posix() for path in folder.glob("*/*.txt")
    )
    for part in parts:
        assert part == sorted(part)
    for document in corpus.test:
        assert document.data == (folder / document.name).read_bytes()


def test_parts_have_the_wanted_sizes(folder):
    corpus = load_corpus(folder, validation_fraction=0.2, test_fraction=0.3)
    total = sum(corpus.sizes.values())
    assert 0.3 * total <= corpus.sizes["test"] <= 0.35 * total
    assert 0.2 * total <= corpus.sizes["validation"] <= 0.25 * total


def test_test_part_of_a_small_corpus_is_a_tenth(folder):
    corpus = load_corpus(folder)
    total = sum(corpus.sizes.values())
    assert 0.1 * total <= corpus.sizes["test"] <= 0.15 * total
    assert 0.05 * total <= corpus.sizes["validation"] <= 0.1 * total


def test_test_part_reaches_200_kb_where_that_is_a_tenth(tmp_path):
    for number in range(100):
        (tmp_path / f"{number}.txt").write_bytes(text(25_000, number))
    sizes = load_corpus(tmp_path).sizes
    assert 200_000 <= sizes["test"] <= 225_000


def test_fraction_of_zero_leaves_a_part_empty(folder):
    corpus = load_corpus(folder, validation_fraction=0, test_fraction=0)
    assert corpus.validation == corpus.test == ()
    assert len(corpus.train) == 60


def test_seed_draws_the_parts(folder):
    first, second = load_corpus(folder), load_corpus(folder)
    assert first == second
    assert names(load_corpus(folder, seed=1).test) != names(first.test)


def test_parts_do_not_depend_on_the_order_of_the_disk(folder, monkeypatch):
    expected = load_corpus(folder)
    find = text_files._folder_files

    def backwards(*args):
        return reversed(list(find(*args)))

    monkeypatch.setattr(text_files, "_folder_files", backwards)
    assert load_corpus(folder) == expected


def test_one_file_is_cut_in_contiguous_parts(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(text(1000, 0))
    corpus = load_corpus(path, test_fraction=0.1)
    parts = [getattr(corpus, part) for part in PARTS]
    assert [len(part) for part in parts] == [1, 1, 1]
    assert corpus.sizes == {"train": 850, "validation": 50, "test": 100}
    joined = b"".join(part[0].data for part in parts)
    assert joined == path.read_bytes()


def test_few_large_files_are_each_cut(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_bytes(text(1000, number))
    corpus = load_corpus(tmp_path)
    for part in PARTS:
        assert names(getattr(corpus, part)) == ["0.txt", "1.txt", "2.txt"]
    for number in range(3):
        pieces = [getattr(corpus, part)[number].data for part in PARTS]
        assert b"".join(pieces) == (tmp_path / f"{number}.txt").read_bytes()


def test_max_bytes_limits_what_is_read(folder):
    corpus = load_corpus(folder, max_bytes=3000)
    assert sum(corpus.sizes.values()) == 3000


def test_document_gives_its_bytes_as_ids(folder):
    (document, *_) = load_corpus(folder).test
    assert document.byte_ids.tolist() == list(document.data)


def test_printing_a_corpus_does_not_print_its_text(folder):
    corpus = load_corpus(folder)
    assert len(repr(corpus)) < 300
    assert len(repr(corpus.test[0])) < 300


def test_standard_library_has_enough_text_in_every_part():
    corpus = load_corpus()
    sizes = corpus.sizes
    assert sum(sizes.values()) > 5_000_000
    assert sizes["test"] >= 200_000
    assert sizes["validation"] >= 200_000
    assert len(corpus.test) > 10
    every = {name for part in PARTS for name in names(getattr(corpus, part))}
    assert "argparse.py" in every
    assert all(name.endswith(".py") for name in every)
    for ignored in ("site-packages/", "test/", "encodings/"):
        assert not any(name.startswith(ignored) for name in every)


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_short_part_says_which_and_what_to_do(tmp_path, part):
    (tmp_path / "short.txt").write_bytes(text(1000, 0))
    fractions = {
        "train": (0.5, 0.49),
        "validation": (0.01, 0.5),
        "test": (0.5, 0.1),
    }[part]
    minimum = {"train": 100, "validation": 100, "test": 101}[part]
    with pytest.raises(ValueError, match=f"The {part} part .* too short") as e:
        load_corpus(
            tmp_path / "short.txt",
            validation_fraction=fractions[0],
            test_fraction=fractions[1],
            minimum_bytes=minimum,
        )
    assert f"minimum_bytes={minimum}" in str(e.value)
    assert "shorter segments" in str(e.value)


def test_fractions_must_leave_text_to_train_on(folder):
    with pytest.raises(ValueError, match="sum below 1"):
        load_corpus(folder, validation_fraction=0.5, test_fraction=0.5)


@pytest.mark.parametrize(
    "argument",
    [
        {"validation_fraction": 1.0},
        {"test_fraction": -0.1},
        {"max_bytes": 0},
        {"minimum_bytes": 0},
    ],
)
def test_numbers_out_of_range_are_named(folder, argument):
    with pytest.raises(ValueError, match=f"`{next(iter(argument))}` must be"):
        load_corpus(folder, **argument)
