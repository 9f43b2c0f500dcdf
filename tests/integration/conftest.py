"""A small text, and what `keras-txl train` made of it."""

import pytest

from keras_txl.cli.main import main
from tests.integration.cli_run import SIZES
from tests.integration.cli_run import WORDS


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(30):
        text = f"{number}: " + WORDS[number % 7 :] * (2 + number % 4)
        (folder / f"{number:02d}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """Output of one `train`."""
    output = tmp_path_factory.mktemp("trained") / "run"
    code = main(
        ["train", str(corpus), "--output", str(output), "--steps", "24", *SIZES]
    )
    assert code == 0
    return output
