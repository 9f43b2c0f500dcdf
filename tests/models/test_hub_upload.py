"""Presets go to a hub and come from it; the hub is a folder here."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import kagglehub
import keras_hub
import numpy as np
import pytest

from keras_txl.models import TransformerXLCausalLM
from keras_txl.models import TransformerXLTextClassifier
from keras_txl.models import TransformerXLTokenClassifier
from keras_txl.models import model_card
from keras_txl.models import upload_to_hub
from tests import tolerances
from tests.tolerances import assert_close

# Files are the same on every backend.
pytestmark = pytest.mark.backend("tensorflow")

IDS = np.arange(8).reshape(2, 4)


@pytest.fixture(scope="module")
def lm(make_lm):
    return make_lm(num_layers=1)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """What the clients of the hubs do, within a folder."""

    def download(repo_id, filename):
        path = tmp_path / repo_id / filename
        if not path.is_file():
            raise huggingface_hub.errors.EntryNotFoundError("none")
        return str(path)

    def upload_file(path_or_fileobj, path_in_repo, repo_id):
        shutil.copy(path_or_fileobj, tmp_path / repo_id / path_in_repo)

    def upload_folder(repo_id, folder_path):
        shutil.copytree(folder_path, tmp_path / repo_id, dirs_exist_ok=True)

    def create_repo(repo_id, exist_ok):
        (tmp_path / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        return SimpleNamespace(repo_id=repo_id)

    replaced = {
        "create_repo": create_repo,
        "file_exists": lambda repo_id, filename: (
            tmp_path / repo_id / filename
        ).exists(),
        "upload_file": upload_file,
        "upload_folder": upload_folder,
        "hf_hub_download": download,
    }
    for name, function in replaced.items():
        monkeypatch.setattr(huggingface_hub, name, function)

    def kaggle_download(handle, path):
        found = tmp_path / handle / path
        if not found.is_file():
            raise ValueError(f"{path} is not present in the model files")
        return str(found)

    monkeypatch.setattr(kagglehub, "model_upload", upload_folder)
    monkeypatch.setattr(kagglehub, "model_download", kaggle_download)
    return tmp_path


@pytest.mark.parametrize("uri", ["hf://me/sea", "kaggle://me/sea/keras/small"])
def test_a_model_comes_back_from_a_hub(lm, hub, uri):
    upload_to_hub(lm, uri, results="1.9 bits", licence="mit")
    card = Path(hub, uri.partition("://")[2], "README.md").read_text()
    assert card == model_card(lm, uri, "1.9 bits", "mit")
    for loader in (TransformerXLCausalLM, keras_hub.models.CausalLM):
        loaded = loader.from_preset(uri)
        assert_close(
            loaded.step(IDS, loaded.initial_memory(2))[0],
            lm.step(IDS, lm.initial_memory(2))[0],
            tolerances.EXACT,
            "logits",
        )


def test_a_card_on_the_hub_stays(lm, hub):
    (hub / "me" / "sea").mkdir(parents=True)
    card = hub / "me" / "sea" / "README.md"
    card.write_text("by hand")
    upload_to_hub(lm, "hf://me/sea")
    assert card.read_text() == "by hand"
    assert (hub / "me" / "sea" / "config.json").exists()


def test_a_card_says_what_is_open(lm):
    card = model_card(lm, "hf://me/sea")
    assert 'from_preset("hf://me/sea")' in card
    assert f"| parameters | {lm.count_params():,} |" in card
    assert "| tokenizer | none: token ids |" in card
    assert "license: other\n" in card
    assert card.count("filled in by the author") == 2
    assert "Nothing was measured." in card


def test_a_classifier_says_in_its_card_what_it_does(lm, hub):
    classifier = TransformerXLTokenClassifier(lm.backbone, 3)
    upload_to_hub(classifier, "hf://me/labels")
    card = (hub / "me" / "labels" / "README.md").read_text()
    assert "pipeline_tag: token-classification\n" in card
    assert 'TransformerXLTokenClassifier.from_preset("hf://me/labels")' in card
    assert "| num_classes | 3 |" in card
    loaded = TransformerXLTokenClassifier.from_preset("hf://me/labels")
    wanted = classifier.label(IDS[0])
    assert_close(loaded.label(IDS[0]), wanted, tolerances.EXACT, "labels")
    card = model_card(TransformerXLTextClassifier(lm.backbone, 2), "sea")
    assert "pipeline_tag: text-classification\n" in card
    with pytest.raises(ValueError, match="must be a task.*Backbone. Put"):
        upload_to_hub(lm.backbone, "hf://me/sea")


def test_another_address_is_refused(lm):
    with pytest.raises(ValueError, match="must begin with hf:// or kaggle"):
        upload_to_hub(lm, "s3://me/sea")
