"""The golden files as checkpoints."""

import pytest

from tests.convert.checkpoints import read_checkpoint


@pytest.fixture
def checkpoint():
    """Returns `read_checkpoint(name)`."""
    return read_checkpoint
