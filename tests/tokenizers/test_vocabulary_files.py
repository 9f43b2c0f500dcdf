"""Vocabularies of other programs, and files that are none."""

import collections
import io
import json
import os
import pickle
import zipfile

import pytest

from keras_txl.tokenizers import TransformerXLWordTokenizer
from keras_txl.tokenizers import read_vocabulary
from keras_txl.tokenizers.vocabulary import Vocabulary

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

WORDS = ["<eos>", "the", "<unk>", "né"]


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def huggingface_state(**more):
    """What `TransfoXLTokenizer` pickles, its foreign objects included."""
    return {
        "counter": collections.Counter({"the": 2}),
        "special": ["<eos>"],
        "min_freq": 0,
        "lower_case": False,
        "idx2sym": WORDS,
        "sym2idx": collections.OrderedDict(
            (word, number) for number, word in enumerate(WORDS)
        ),
        "pattern": __import__("re").compile("a+"),
        "path": __import__("pathlib").PurePosixPath("a"),
        **more,
    }


def test_json_of_both_forms(tmp_path):
    path = tmp_path / "words.json"
    path.write_text(json.dumps(WORDS))
    assert read_vocabulary(path) == WORDS
    ids = {word: number for number, word in enumerate(WORDS)}
    path.write_text(json.dumps(dict(reversed(ids.items()))))
    assert read_vocabulary(path) == WORDS
    tokenizer = TransformerXLWordTokenizer(read_vocabulary(path))
    assert tokenizer.tokenize("né the\n").tolist() == [3, 1, 0]


def test_text_of_the_released_code(tmp_path):
    path = tmp_path / "1b_word_vocab.txt"
    path.write_text("<S>\nthe 123\n\n  <UNK>\t7 \nthe 5\n")
    assert read_vocabulary(path) == ["<S>", "the", "<UNK>"]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickle_of_hugging_face(tmp_path, protocol):
    path = tmp_path / "vocab.pkl"
    path.write_bytes(pickle.dumps(huggingface_state(), protocol))
    assert read_vocabulary(path) == WORDS


def test_pytorch_files_of_hugging_face(tmp_path):
    path = tmp_path / "vocab.bin"
    data = pickle.dumps(huggingface_state(), 2)
    # Before PyTorch 1.6: magic number, protocol and system, each a pickle.
    path.write_bytes(b"".join(map(pickle.dumps, (119, 1001, {}))) + data)
    assert read_vocabulary(path) == WORDS
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("vocab/data.pkl", data)
    path.write_bytes(buffer.getvalue())
    assert read_vocabulary(path) == WORDS


def test_no_code_of_a_pickle_is_run(tmp_path):
    trap = tmp_path / "trap"
    path = tmp_path / "vocab.pkl"
    path.write_bytes(pickle.dumps(huggingface_state(evil=Evil(str(trap)))))
    pickle.loads(path.read_bytes())
    assert trap.is_dir()  # it bites
    trap.rmdir()
    assert read_vocabulary(path) == WORDS
    assert not trap.exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b"{", "must hold a vocabulary"),
        ("a.json", b"3", "an? int instead of a list"),
        ("a.json", b'{"a": 1}', "do not count up"),
        ("a.pkl", b"nothing", "must hold a vocabulary"),
        ("a.pkl", pickle.dumps({"a": 1}), "no idx2sym"),
        ("a.pkl", pickle.dumps({"idx2sym": ["a", 1]}), "1 among the words"),
        ("a.bin", b"PK\x05\x06" + bytes(18), "zip file without data.pkl"),
        ("a.txt", b"\n \n", "no word"),
        ("a.txt", b"\xff\xfe", "must hold a vocabulary"),
    ],
)
def test_files_that_hold_none_are_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_vocabulary(tmp_path / name)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a file that exists"):
        read_vocabulary(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"[", "Read other formats with"), (b'{"a": 0}', "which holds a dict")],
)
def test_saved_vocabulary_must_be_a_list(tmp_path, data, message):
    (tmp_path / "vocabulary.json").write_bytes(data)
    with pytest.raises(ValueError, match=f"vocabulary.json.*{message}"):
        Vocabulary.read(tmp_path / "vocabulary.json")


def test_ids_in_the_place_of_words_are_named():
    with pytest.raises(TypeError, match=r"7 at id 1.*sorted\(ids"):
        TransformerXLWordTokenizer(["<unk>", 7])
