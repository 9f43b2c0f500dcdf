"""The exporter of SavedModel: what it writes, refuses and leaves behind.

On JAX and PyTorch that of ONNX as well.
"""

import pytest

from keras_txl.export import ExportMismatchError
from keras_txl.export import export_onnx
from keras_txl.export import export_saved_model
from keras_txl.export import signatures
from keras_txl.export import verify_manifest
from tests.oracles.weights import randomize


@pytest.mark.backend("tensorflow")
def test_a_version_folder_appears_with_its_manifest(exported):
    _, folder = exported
    assert folder.name == "1"
    assert sorted(entry.name for entry in folder.parent.iterdir()) == [
        "1",
        "batching.config",
        "models.config",
    ]
    manifest = verify_manifest(folder)
    assert set(manifest["signatures"]) == {
        "generate",
        "generate_text",
        "initial_memory",
        "score",
        "session_step",
        "step",
    }
    errors = manifest["check"]["max_abs_error"]
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}
    assert max(errors.values()) <= 1e-5


@pytest.mark.backend("tensorflow")
def test_versions_are_never_replaced(exported, tmp_path):
    lm, folder = exported
    with pytest.raises(FileExistsError, match=r"holds \[1\]"):
        export_saved_model(lm, folder.parent, version=1)
    with pytest.raises(ValueError, match="`version`"):
        export_saved_model(lm, tmp_path, version=0)


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize("export", [export_saved_model, export_onnx])
def test_what_is_no_language_model_is_refused(make_lm, tmp_path, export):
    with pytest.raises(TypeError, match="TransformerXLCausalLM"):
        export(make_lm(num_layers=1).backbone, tmp_path / "model")


@pytest.mark.backend("tensorflow")
def test_a_mismatch_leaves_nothing_behind(make_lm, tmp_path, monkeypatch):
    """A graph that reads memory in the wrong order is found out."""
    lm = make_lm(num_layers=1)
    randomize(lm, seed=7)
    decode_states = signatures.decode_states
    monkeypatch.setattr(
        signatures,
        "decode_states",
        lambda *arguments: decode_states(*arguments)[:, :, ::-1],
    )
    with pytest.raises(ExportMismatchError, match="Nothing was written"):
        export_saved_model(lm, tmp_path / "new" / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.backend("jax", "torch")
@pytest.mark.parametrize(
    ("export", "error"), [(export_saved_model, 1e-5), (export_onnx, 1e-4)]
)
def test_other_backends_export_through_a_process_of_tensorflow(
    make_lm, tmp_path, export, error
):
    lm = make_lm(num_layers=1)
    randomize(lm, seed=7)
    manifest = verify_manifest(export(lm, tmp_path / "tiny"))
    assert manifest["versions"]["backend"] in ("jax", "torch")
    assert 0 < max(manifest["check"]["max_abs_error"].values()) <= error
    assert "step" in manifest["signatures"]
