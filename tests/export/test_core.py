"""What every exporter shares: check, manifest, processes, staging."""

import json

import numpy as np
import pytest

from keras_txl.export import ExportMismatchError
from keras_txl.export import read_manifest
from keras_txl.export import verify_manifest
from keras_txl.export.check import INPUTS
from keras_txl.export.check import SEGMENT_LENGTHS
from keras_txl.export.check import SESSIONS
from keras_txl.export.check import expected_values
from keras_txl.export.check import replay
from keras_txl.export.fresh_process import call_in_fresh_process
from keras_txl.export.manifest import describe_model
from keras_txl.export.manifest import write_manifest
from keras_txl.export.staging import staged_folder

M = 6


@pytest.fixture(scope="module")
def checked_lm(make_lm):
    lm = make_lm(batch_size=None)
    return lm, expected_values(lm, M)


def steps(lm, change=lambda outputs: outputs):
    """`start` and `step` of a check, by the model's own methods."""

    def start(rows):
        return lm.initial_memory(rows, M)

    def step(inputs, memory):
        read = np.arange(inputs["token_ids"].shape[1])
        read = read < inputs["token_length"][:, None]
        x = {"token_ids": inputs["token_ids"], "padding_mask": read}
        logits, after = lm.step(x, memory)
        losses, _ = lm.token_losses(x, inputs["targets"], memory)
        outputs = {
            "logits": logits,
            "token_losses": losses,
            "memory": after["states"],
            "memory_length": after["length"],
        }
        outputs = {name: np.array(value) for name, value in outputs.items()}
        return change(outputs), after

    return start, step


@pytest.mark.backend("tensorflow")
def test_the_check_holds_what_it_promises(checked_lm):
    _, expected = checked_lm
    assert SEGMENT_LENGTHS == (1, 7, 16, 16, 3, 1)
    assert sorted(SESSIONS.values()) == [1, 1, 3, 3]
    for name, rows in SESSIONS.items():
        for index, length in enumerate(SEGMENT_LENGTHS):
            assert expected[f"{name}/{index}/token_ids"].shape == (rows, length)
    lengths = expected["unequal_rows/2/token_length"]
    assert len(set(lengths.tolist())) == 3
    assert 0 in expected["unequal_rows/0/token_length"]
    first, second = (expected[f"{n}/2/logits"] for n in ("first", "second"))
    assert np.abs(first - second).max() > 1e-3


def test_the_models_own_steps_pass_the_check(checked_lm):
    lm, expected = checked_lm
    errors = replay(expected, *steps(lm), 1e-5, "model")
    assert set(errors) == {"logits", "token_losses", "memory", "memory_length"}


@pytest.mark.backend("tensorflow")
@pytest.mark.parametrize(
    "name", ["logits", "token_losses", "memory", "memory_length"]
)
@pytest.mark.parametrize("fault", ["small", "nan", "shape"])
def test_a_fault_in_any_output_is_seen(checked_lm, name, fault):
    lm, expected = checked_lm

    def spoil(outputs):
        value = outputs[name].astype("float32")
        if fault == "shape":
            value = value[..., :-1]
        elif value.size > 3:
            value.flat[-1] = np.nan if fault == "nan" else value.flat[-1] + 1e-2
        elif value.size:
            value.flat[0] = np.nan if fault == "nan" else value.flat[0] + 1e-2
        return {**outputs, name: value}

    with pytest.raises(ExportMismatchError, match=name) as caught:
        replay(expected, *steps(lm, spoil), 1e-5, "model")
    assert not caught.value.max_abs_error <= 1e-5


@pytest.mark.backend("tensorflow")
def test_memory_that_is_not_fed_back_is_seen(checked_lm):
    lm, expected = checked_lm
    start, step = steps(lm)

    def forgets(inputs, memory):
        outputs, _ = step(inputs, memory)
        return {"logits": outputs["logits"]}, start(len(inputs["token_ids"]))

    with pytest.raises(ExportMismatchError, match="logits of first/1"):
        replay(expected, start, forgets, 1e-5, "model")


@pytest.mark.backend("tensorflow")
def test_inputs_of_the_check_are_int32(checked_lm):
    _, expected = checked_lm
    for name in INPUTS:
        assert expected[f"three_rows/1/{name}"].dtype == np.int32


@pytest.mark.backend("tensorflow")
def test_manifests_name_files_that_changed(tmp_path, checked_lm):
    lm, _ = checked_lm
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "weights").write_bytes(b"1234")
    told = describe_model(lm, M)
    write_manifest(tmp_path, {"target": "test", **told})
    manifest = verify_manifest(tmp_path)
    assert manifest["target"] == "test"
    assert manifest["model"]["memory_length"] == M
    assert manifest["files"]["sub/weights"]["bytes"] == 4
    (tmp_path / "sub" / "weights").write_bytes(b"1235")
    with pytest.raises(ValueError, match="sub/weights is another file"):
        verify_manifest(tmp_path)
    (tmp_path / "sub" / "weights").unlink()
    with pytest.raises(ValueError, match="sub/weights is missing"):
        verify_manifest(tmp_path)


@pytest.mark.backend("tensorflow")
def test_manifests_of_another_kind_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"manifest\.json"):
        read_manifest(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        read_manifest(tmp_path)
    path.write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        read_manifest(tmp_path)


@pytest.mark.backend("tensorflow")
def test_a_fresh_process_answers_or_says_what_went_wrong():
    answer = call_in_fresh_process(
        "textwrap:shorten", {"text": "a", "width": 9}
    )
    assert answer == "a"
    with pytest.raises(RuntimeError, match="TypeError: .*width"):
        call_in_fresh_process("textwrap:shorten", {"text": "a"})
    with pytest.raises(RuntimeError, match="exit status 7"):
        call_in_fresh_process("os:_exit", {"status": 7})


@pytest.mark.backend("tensorflow")
def test_a_mismatch_passes_through_a_process():
    values = ("file", 0.5, 1e-5, "logits")
    with pytest.raises(ExportMismatchError, match="logits") as caught:
        call_in_fresh_process(
            "tests.export.test_core:mismatch", {"values": values}
        )
    assert caught.value.max_abs_error == 0.5


def mismatch(values):
    raise ExportMismatchError(*values)


@pytest.mark.backend("tensorflow")
def test_a_failure_leaves_no_folder_that_it_made(tmp_path):
    with pytest.raises(KeyError):
        with staged_folder(tmp_path / "a" / "b" / "1") as stage:
            (stage / "file").touch()
            raise KeyError
    assert not list(tmp_path.iterdir())
