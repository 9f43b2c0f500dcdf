"""What `keras-txl compare` refuses."""

import pytest

from keras_txl.cli.main import main

pytestmark = pytest.mark.backend("tensorflow")


def test_what_cannot_be_compared_is_told(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("x" * 999)
    words = ["compare", str(text), "--output", str(tmp_path / "out")]
    assert main([*words, "--resume"]) == 1
    assert "needs a comparison that was begun" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*words, "--memory-length", "0"])
    assert "must be at least 1 to compare" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
