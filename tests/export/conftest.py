"""One exported model for all tests that only look at it."""

import pytest


@pytest.fixture(scope="session")
def exported(make_lm, tmp_path_factory):
    """A tiny model and its version folder."""
    from keras_txl.export import export_saved_model

    lm = make_lm()
    path = tmp_path_factory.mktemp("served") / "tiny"
    return lm, export_saved_model(lm, path)
