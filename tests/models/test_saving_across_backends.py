"""Files that one backend writes have the same losses on the others.

`tests/oracles/golden/saved` was written on one backend. Each backend reads the
same losses from it, and what each writes has the same content: so each reads
what any other writes. To write the files again, when their format changes:

    KERAS_BACKEND=jax python -m tests.models.test_saving_across_backends
"""

import json
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

GOLDEN = Path(__file__).parent.parent / "oracles" / "golden" / "saved"
IDS = np.random.default_rng(2).integers(0, 17, size=(2, 4)).astype("int32")


def make():
    sizes = (17, 1, 2, 8, 16)
    backbone = TransformerXLBackbone(
        *sizes, memory_length=6, batch_size=2, name="backbone"
    )
    lm = TransformerXLCausalLM(backbone, name="lm")
    randomize(lm, seed=3)
    lm.compile(keras.optimizers.SGD(name="sgd"))  # else one of many names
    return lm


def write(lm, folder):
    lm.save_to_preset(folder / "preset")
    lm.save(folder / "lm.keras")


def losses(lm):
    """Of the tokens of two segments, the second behind memory of the first."""
    memory = lm.initial_memory(2)
    first, memory = lm.token_losses(IDS, IDS, memory)
    second, _ = lm.token_losses(IDS, IDS, memory)
    return np.stack([to_numpy(first), to_numpy(second)])


def content(folder):
    """Everything in the files but dates and versions."""
    preset = folder / "preset"
    found = {
        name: without_addresses(json.loads((preset / name).read_text()))
        for name in ("config.json", "task.json")
    }
    found |= weights(preset / "model.weights.h5")
    with zipfile.ZipFile(folder / "lm.keras") as archive:
        config = json.loads(archive.read("config.json"))
        found[".keras"] = without_addresses(config)
        with archive.open("model.weights.h5") as file:
            found |= weights(file, ".keras ")
    return found


def without_addresses(config):
    """Keras writes where shared objects stood in the memory of the process."""
    if isinstance(config, list):
        return [without_addresses(value) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        name: without_addresses(value)
        for name, value in config.items()
        if name != "shared_object_id"
    }


def weights(file, prefix=""):
    found = {}
    with h5py.File(file) as opened:
        opened.visititems(
            lambda name, value: (
                found.update({prefix + name: value[()]})
                if isinstance(value, h5py.Dataset)
                else None
            )
        )
    return found


@pytest.mark.parametrize("kind", ["preset", "lm.keras"])
def test_files_have_the_same_losses_on_every_backend(kind):
    if kind == "preset":
        lm = TransformerXLCausalLM.from_preset(str(GOLDEN / kind))
    else:
        lm = keras.saving.load_model(GOLDEN / kind)
    told = np.load(GOLDEN / "losses.npy")
    assert_close(losses(lm), told, FLOAT32, "losses")


def test_every_backend_writes_the_same_files(tmp_path):
    write(make(), tmp_path)
    found, told = content(tmp_path), content(GOLDEN)
    assert found.keys() == told.keys()
    for name in told:
        np.testing.assert_array_equal(found[name], told[name], name)


if __name__ == "__main__":
    lm = make()
    write(lm, GOLDEN)
    np.save(GOLDEN / "losses.npy", losses(lm))
