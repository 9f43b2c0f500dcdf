"""Numbers with their nouns."""

import pytest

from keras_txl.cli.wording import counted

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


def test_one_is_no_plural_and_thousands_are_marked():
    assert counted(1, "document") == "1 document"
    assert counted(0, "document") == "0 documents"
    assert counted(1234, "byte") == "1,234 bytes"
