"""Files that one backend writes give the same numbers on the others.

`tests/oracles/golden/saved` was written on one backend. Each backend reads the
same losses and logits from it, and what each writes has the same content: so
each reads what any other writes. To write the files again, when their format
changes:

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
from keras_txl.models import TransformerXLTextClassifier
from keras_txl.models import TransformerXLTokenClassifier
from tests.oracles.weights import randomize
from tests.tolerances import FLOAT32
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

GOLDEN = Path(__file__).parent.parent / "oracles" / "golden" / "saved"
IDS = np.random.default_rng(2).integers(0, 17, size=(2, 4)).astype("int32")
# Two segments of each text: the second has memory of the first.
HEADS = {
    "texts": (
        TransformerXLTextClassifier,
        {"num_classes": 3, "segment_length": 2, "pooling": "mean"},
    ),
    "tokens": (TransformerXLTokenClassifier, {"num_classes": 3}),
    "lm": (TransformerXLCausalLM, {}),
}


def make(name):
    sizes = (17, 1, 2, 8, 16)
    backbone = TransformerXLBackbone(
        *sizes, memory_length=6, batch_size=2, name="backbone"
    )
    cls, arguments = HEADS[name]
    model = cls(backbone, name=name, **arguments)
    randomize(model, seed=3)
    model.compile(keras.optimizers.SGD(name="sgd"))  # else one of many names
    return model


def write(model, folder):
    model.save_to_preset(folder / model.name)
    model.save(folder / f"{model.name}.keras")
    if model.name == "lm":
        model.save_weights(folder / "lm.weights.h5")


def read(kind):
    """What a preset, a `.keras` file or a file of weights holds."""
    name, _, form = kind.partition(".")
    if form == "keras":
        return keras.saving.load_model(GOLDEN / kind)
    if form:
        model = make(name)
        randomize(model, seed=4)
        model.load_weights(GOLDEN / kind)
        return model
    return HEADS[name][0].from_preset(str(GOLDEN / name))


def answers(model):
    """Token losses of a language model, logits of a classifier."""
    if isinstance(model, TransformerXLTokenClassifier):
        return model.label(IDS[0], segment_length=2)
    if isinstance(model, TransformerXLTextClassifier):
        return to_numpy(model(IDS))
    memory = model.initial_memory(2)
    first, memory = model.token_losses(IDS, IDS, memory)
    second, _ = model.token_losses(IDS, IDS, memory)
    return np.stack([to_numpy(first), to_numpy(second)])


def content(folder, name):
    """Everything in the files of a model but dates and versions."""
    preset = folder / name
    found = {
        file.name: without_addresses(json.loads(file.read_text()))
        for file in preset.glob("*.json")
        if file.name != "metadata.json"
    }
    for file in [*preset.glob("*.h5"), *folder.glob(f"{name}*.h5")]:
        found |= weights(file, f"{file.name} ")
    with zipfile.ZipFile(folder / f"{name}.keras") as archive:
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


def weights(file, prefix):
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


@pytest.mark.parametrize(
    "kind",
    [*HEADS, *(f"{name}.keras" for name in HEADS), "lm.weights.h5"],
)
def test_files_have_the_same_losses_on_every_backend(kind):
    told = np.load(GOLDEN / f"{kind.partition('.')[0]}.npy")
    assert_close(answers(read(kind)), told, FLOAT32, "losses or logits")


def test_a_preset_of_any_task_gives_the_same_hidden_states():
    told = np.load(GOLDEN / "hidden.npy")
    for name in HEADS:
        backbone = TransformerXLBackbone.from_preset(str(GOLDEN / name))
        memory = backbone.initial_memory(2)
        _, memory = backbone.call_with_memory(IDS, memory)
        hidden, _ = backbone.call_with_memory(IDS, memory)
        assert_close(hidden, told, FLOAT32, "hidden states")


@pytest.mark.parametrize("name", HEADS)
def test_every_backend_writes_the_same_files(name, tmp_path):
    write(make(name), tmp_path)
    found, told = content(tmp_path, name), content(GOLDEN, name)
    assert found.keys() == told.keys()
    assert any(key.startswith("model.weights.h5 ") for key in told)
    for key in told:
        np.testing.assert_array_equal(found[key], told[key], key)


if __name__ == "__main__":
    for name in HEADS:
        model = make(name)
        write(model, GOLDEN)
        np.save(GOLDEN / f"{name}.npy", answers(model))
    memory = model.backbone.initial_memory(2)
    _, memory = model.backbone.call_with_memory(IDS, memory)
    hidden, _ = model.backbone.call_with_memory(IDS, memory)
    np.save(GOLDEN / "hidden.npy", to_numpy(hidden))
