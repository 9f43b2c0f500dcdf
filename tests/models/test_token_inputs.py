"""Ids alone and every subset of the keys, wherever a model takes inputs."""

import keras
import numpy as np
import pytest

from keras_txl.data import SegmentStream
from keras_txl.evaluation import evaluate_stream
from keras_txl.models.token_inputs import check_vocabulary
from keras_txl.models.token_inputs import normalize_inputs
from tests import tolerances
from tests.oracles.value_losses import mean_loss
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

IDS = np.array([[3, 1, 4, 1], [5, 9, 2, 6]], "int32")
DOCUMENTS = np.array([[0, 0, 7, 7], [2, 2, -1, 2]], "int32")
KEEP = np.array([[1, 1, 1, 0], [1, 0, 1, 1]], bool)


def inputs_of(keys, ids=IDS, documents=DOCUMENTS, keep=KEEP):
    if not keys:
        return ids
    values = {
        "token_ids": ids,
        "document_ids": documents,
        "padding_mask": keep,
    }
    return {key: values[key] for key in keys}


def documents_of(keys, documents=DOCUMENTS, keep=KEEP):
    """The document ids that the inputs stand for."""
    found = documents if "document_ids" in keys else np.zeros_like(documents)
    return np.where(keep, found, -1) if "padding_mask" in keys else found


FORMS = [
    (),
    ("token_ids",),
    ("token_ids", "document_ids"),
    ("token_ids", "padding_mask"),
    ("token_ids", "document_ids", "padding_mask"),
]
every_form = pytest.mark.parametrize(
    "keys", FORMS, ids=lambda keys: "+".join(keys) or "ids_alone"
)


# === The function ===
@every_form
def test_every_form_becomes_ids_and_documents(keys):
    result = normalize_inputs(inputs_of(keys))
    assert set(result) == {"token_ids", "document_ids"}
    for value in result.values():
        assert keras.backend.standardize_dtype(value.dtype) == "int32"
    documents = documents_of(keys)
    ids = np.where(documents < 0, 0, IDS)  # padding holds no token
    assert to_numpy(result["token_ids"]).tolist() == ids.tolist()
    assert to_numpy(result["document_ids"]).tolist() == documents.tolist()


@every_form
def test_symbolic_inputs_keep_their_shape(keys):
    symbolic = keras.tree.map_structure(
        lambda x: keras.Input((None,), dtype=str(x.dtype)), inputs_of(keys)
    )
    for value in normalize_inputs(symbolic).values():
        assert isinstance(value, keras.KerasTensor)
        assert value.shape == (None, None) and value.dtype == "int32"


@pytest.mark.parametrize("dtype", ["uint8", "int64", "uint16", "float32"])
def test_ids_of_other_dtypes_become_int32(dtype):
    result = normalize_inputs({"token_ids": IDS.astype(dtype)})
    for value in result.values():
        assert keras.backend.standardize_dtype(value.dtype) == "int32"
    assert to_numpy(result["token_ids"]).tolist() == IDS.tolist()


def test_documents_beyond_the_dtype_of_the_ids_survive():
    documents = np.full((2, 4), 70000, "int64")
    result = normalize_inputs(
        {"token_ids": IDS.astype("uint8"), "document_ids": documents}
    )
    assert to_numpy(result["document_ids"]).tolist() == documents.tolist()


def test_padding_mask_may_hold_integers():
    result = normalize_inputs(
        {"token_ids": IDS, "padding_mask": KEEP.astype("int32")}
    )
    assert to_numpy(result["document_ids"]).tolist() == (
        np.where(KEEP, 0, -1).tolist()
    )


def test_keys_that_hold_none_are_as_if_missing():
    result = normalize_inputs(
        {"token_ids": IDS, "document_ids": None, "padding_mask": None}
    )
    assert not to_numpy(result["document_ids"]).any()


def without_ids():
    return {"document_ids": DOCUMENTS}


def unknown_key():
    return {"token_ids": IDS, "segment_ids": IDS}


def one_text():
    return IDS[0]


def wrong_documents():
    return {"token_ids": IDS, "document_ids": DOCUMENTS[:, :3]}


def wrong_mask():
    return {"token_ids": IDS, "padding_mask": KEEP[:1]}


def documents_of_a_row():
    return {"token_ids": IDS, "document_ids": DOCUMENTS[:, 0]}


ERRORS = [
    (without_ids, r"keys=\['document_ids'\].*add token_ids"),
    (unknown_key, r"keys=\['segment_ids', 'token_ids'\]. Rename or remove"),
    (one_text, r"`token_ids` must have shape .*\(4,\).*ids\[None\]"),
    (wrong_documents, r"`document_ids` must .*\(2, 3\).*\(2, 4\)"),
    (wrong_mask, r"`padding_mask` must .*\(1, 4\).*\(2, 4\)"),
    (documents_of_a_row, r"document_ids.shape=\(2,\)"),
]


@pytest.mark.parametrize("make, message", ERRORS)
def test_wrong_inputs_are_an_error_that_says_what_came(make, message):
    with pytest.raises(ValueError, match=message):
        normalize_inputs(make())


# === The model ===
@pytest.fixture(scope="module")
def small_lm(make_lm):
    """Learns nothing, so that training reports what evaluation does."""
    lm = make_lm(num_layers=1, hidden_dim=4, intermediate_dim=4)
    lm.compile(optimizer=keras.optimizers.SGD(0.0), weighted_metrics=[])
    randomize(lm, seed=5)
    return lm


@pytest.mark.parametrize("make, message", ERRORS)
def test_models_refuse_wrong_inputs_everywhere(small_lm, make, message):
    memory = small_lm.initial_memory(2)
    for use in (
        small_lm,
        small_lm.backbone,
        lambda inputs: small_lm.step(inputs, memory),
        lambda inputs: small_lm.token_losses(inputs, IDS, memory),
        lambda inputs: small_lm.backbone.call_with_memory(inputs, memory),
    ):
        with pytest.raises(ValueError, match=message):
            use(make())


@every_form
def test_every_form_gives_the_same_in_calls_and_with_values(small_lm, keys):
    full = {"token_ids": IDS, "document_ids": documents_of(keys)}
    inputs = inputs_of(keys)
    small_lm.reset_memory()
    expected = small_lm(full)
    small_lm.reset_memory()
    assert_close(small_lm(inputs), expected, tolerances.EXACT, "call")
    small_lm.reset_memory()
    hidden = small_lm.backbone(full)
    small_lm.reset_memory()
    assert_close(
        small_lm.backbone(inputs), hidden, tolerances.EXACT, "backbone"
    )
    memory = small_lm.initial_memory(2)
    logits, _ = small_lm.step(inputs, memory)
    assert_close(logits, expected, tolerances.FLOAT32, "step")
    losses, _ = small_lm.token_losses(inputs, IDS, memory)
    again, _ = small_lm.token_losses(full, IDS, memory)
    assert_close(losses, again, tolerances.EXACT, "token losses")
    assert to_numpy(losses)[documents_of(keys) < 0].tolist() == (
        [0.0] * int((documents_of(keys) < 0).sum())
    )


@every_form
def test_every_form_works_symbolically(small_lm, keys):
    symbolic = keras.tree.map_structure(
        lambda x: keras.Input((None,), dtype=str(x.dtype)), inputs_of(keys)
    )
    assert small_lm(symbolic).shape == (None, None, 17)
    assert small_lm.compute_output_spec(symbolic).shape == (None, None, 17)


class Batches(keras.utils.PyDataset):
    def __init__(self, arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return len(keras.tree.flatten(self.arrays)[0]) // 2

    def __getitem__(self, index):
        return keras.tree.map_structure(
            lambda x: x[2 * index : 2 * index + 2], self.arrays
        )


def from_arrays(*arrays):
    return dict(zip(("x", "y"), arrays, strict=False))


def from_tf_data(*arrays):
    import tensorflow as tf

    data = arrays if len(arrays) > 1 else arrays[0]
    return {"x": tf.data.Dataset.from_tensor_slices(data).batch(2)}


def from_py_dataset(*arrays):
    # A bare dict would be read as one array of inputs a key.
    return {"x": Batches(arrays)}


@pytest.mark.parametrize("source", [from_arrays, from_tf_data, from_py_dataset])
@every_form
def test_every_form_trains_evaluates_and_predicts(small_lm, keys, source):
    rng = np.random.default_rng(3)
    ids, targets = rng.integers(0, 17, size=(2, 6, 4)).astype("int32")
    documents = np.repeat([[0, 0, 1, 1]], 6, axis=0).astype("int32")
    documents[1::2, 2] = -1
    keep = rng.random((6, 4)) < 0.8
    inputs = inputs_of(keys, ids, documents, keep)
    full = documents_of(keys, documents, keep)
    batches = [
        (
            {"token_ids": ids[k : k + 2], "document_ids": full[k : k + 2]},
            targets[k : k + 2],
            full[k : k + 2] >= 0,
        )
        for k in range(0, 6, 2)
    ]
    expected = mean_loss(small_lm, batches)
    history = small_lm.fit(**source(inputs, targets), verbose=0).history
    assert_close(history["loss"], [expected], tolerances.FLOAT32, "fit")
    loss = small_lm.evaluate(**source(inputs, targets), verbose=0)
    assert_close(loss, expected, tolerances.FLOAT32, "evaluate")
    logits = small_lm.predict(**source(inputs), verbose=0)
    memory = small_lm.initial_memory(2)
    for number, (batch, _, _) in enumerate(batches):
        values, memory = small_lm.step(batch, memory)
        assert_close(
            logits[2 * number : 2 * number + 2],
            values,
            tolerances.FLOAT32,
            f"predict, batch {number}",
        )


# === Ids that the vocabulary has not: JAX would answer with NaN ===
@pytest.mark.parametrize("bad", [17, -1])
def test_ids_outside_the_vocabulary_are_told(small_lm, bad):
    lm, memory = small_lm, small_lm.initial_memory(2)
    wrong = IDS.copy()
    wrong[1, 2] = bad
    prompt = {"token_ids": wrong, "padding_mask": np.ones_like(KEEP)}
    for name, use in (
        ("token_ids", lambda: lm.step(wrong, memory)),
        ("token_ids", lambda: lm.token_losses(prompt, IDS, memory)),
        ("targets", lambda: lm.token_losses(IDS, wrong, memory)),
        ("token_ids", lambda: lm.generate(prompt, stop_token_ids=None)),
    ):
        message = rf"`{name}` must lie in \[0, 17\).* Received: {bad}\. Use"
        with pytest.raises(ValueError, match=message):
            use()


def test_a_stream_of_another_vocabulary_is_told(small_lm):
    stream = SegmentStream([[3, 4, 99, 1, 2]], batch_size=2, segment_length=2)
    assert stream.largest_id == 99
    for use in (
        lambda: small_lm.fit(stream),
        lambda: small_lm.fit(stream.repeat(), steps_per_epoch=1),
        lambda: small_lm.evaluate(stream),
        lambda: evaluate_stream(
            small_lm, [[3, 4, 99]], segment_length=2, batch_size=1
        ),
    ):
        with pytest.raises(ValueError, match=r"lie in \[0, 17\).* Rec.*: 99"):
            use()


# === Documents that int32 would mix up, or take for padding ===
@pytest.mark.parametrize("bad", [2**32, 2**31, -(2**32), 0.5])
def test_documents_that_int32_mixes_up_are_told(small_lm, bad):
    documents = np.array([[0, 0, bad, bad]] * 2)
    inputs = {"token_ids": IDS, "document_ids": documents}
    for use in (
        lambda: small_lm(inputs),
        lambda: small_lm.step(inputs, small_lm.initial_memory(2)),
        lambda: small_lm.fit(inputs, IDS),
        lambda: small_lm.fit(Batches((inputs, IDS))),
        lambda: small_lm.fit(x for x in [(inputs, IDS)]),
        lambda: small_lm.evaluate(inputs, IDS),
        lambda: small_lm.predict(inputs),
    ):
        with pytest.raises(ValueError, match=rf"int32 .* Rec.*: {bad}.* Num"):
            use()
    small_lm({"token_ids": IDS, "document_ids": documents * 0.0})


def test_padding_and_tensors_are_not_looked_into(small_lm):
    wrong = np.where(documents_of(("padding_mask",)) < 0, 99, IDS)
    check_vocabulary({"token_ids": wrong, "padding_mask": KEEP}, 17, wrong)
    documents = np.where(KEEP, 0, -1)
    check_vocabulary({"token_ids": wrong, "document_ids": documents}, 17, wrong)
    check_vocabulary(keras.ops.convert_to_tensor(wrong), 17)
    with pytest.raises(ValueError, match="Received: 99"):
        check_vocabulary(wrong, 17)
