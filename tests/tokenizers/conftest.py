"""One tokenizer of each kind, trained on a few lines."""

import pytest

from keras_txl.tokenizers import train_tokenizer

TEXT = (
    "the ship sails and the wind turns ; a storm comes , the ship waits .\n"
    "né 😀 e\u0301 12345 'S x\ty\n"
) * 40


def make_tokenizer(kind):
    size = {"byte-pair": 300, "sentence-piece": 330}.get(kind)
    return train_tokenizer(kind, [TEXT], vocabulary_size=size)


@pytest.fixture(
    scope="session",
    params=["byte", "character", "word", "byte-pair", "sentence-piece"],
)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def tokenizer(kind):
    return make_tokenizer(kind)
