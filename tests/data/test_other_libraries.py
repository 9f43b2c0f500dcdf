"""Data sets and readers of others, the libraries themselves.

`.ci/run` installs none of them, as that takes longer than these tests; it runs
the tests of `test_text_sources.py` and `test_stream_readers.py`, where rows and
readers of the same form stand in.
"""

import datasets
import grain.python
import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_txl.data import SegmentStream
from keras_txl.data import load_corpus

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

ROWS = [f"row {number} é" for number in range(300)]


def texts(corpus):
    parts = (corpus.train, corpus.validation, corpus.test)
    return [[document.data.decode() for document in part] for part in parts]


@pytest.mark.parametrize(
    "change",
    [lambda d: d, lambda d: d.with_format("tensorflow"),
     lambda d: d.to_iterable_dataset()],
    ids=["arrow", "tensors", "iterable"],
)  # fmt: skip
def test_hugging_face_datasets(change):
    rows = {"text": ROWS, "id": range(300)}
    dataset = datasets.Dataset.from_dict(rows)
    corpus = load_corpus(change(dataset))
    assert sorted(sum(texts(corpus), [])) == sorted(ROWS)
    parts = datasets.DatasetDict(
        train=dataset.select(range(200)), test=dataset.select(range(200, 300))
    )
    assert texts(load_corpus(parts)) == [ROWS[:200], [], ROWS[200:]]
    with pytest.raises(ValueError, match="must be one of text, id"):
        load_corpus(dataset, text_column="body")


class Rows(tfds.core.GeneratorBasedBuilder):
    """A data set of this machine."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"text": tfds.features.Text(), "label": np.int64}
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, manager):
        places = {"train": (0, 200), "validation": (200, 250),
                  "test": (250, 300)}  # fmt: skip
        return {part: self._generate_examples(*places[part]) for part in places}

    def _generate_examples(self, start, stop):
        for number in range(start, stop):
            yield number, {"text": ROWS[number], "label": number}


def test_tensorflow_datasets(tmp_path):
    builder = Rows(data_dir=tmp_path)
    builder.download_and_prepare()
    parts = builder.as_dataset()
    for given in (parts, tfds.as_numpy(parts)):
        found = texts(load_corpus(given))
        assert [sorted(part) for part in found] == [
            sorted(ROWS[:200]), sorted(ROWS[200:250]), sorted(ROWS[250:]),
        ]  # fmt: skip


def test_grain_reads_a_pass_in_order_and_goes_on_where_it_was():
    documents = [np.arange(50) % 17, np.arange(33) % 17]
    stream = SegmentStream(documents, 2, 4, shuffle_documents=True, seed=1)
    source = stream.one_pass(2)
    expected = [stream.segment(i, 2)[1] for i in range(len(stream))]

    def segments():
        return iter(grain.MapDataset.source(source).to_iter_dataset())

    first = segments()
    begun = [next(first)[1] for _ in range(4)]
    again = segments()
    again.set_state(first.get_state())
    rest = [targets for _, targets, _ in again]
    np.testing.assert_array_equal(begun + rest, expected)
    loader = grain.python.DataLoader(
        data_source=source,
        sampler=grain.python.SequentialSampler(len(source)),
    )
    found = [targets for _, targets, _ in loader]
    np.testing.assert_array_equal(found, expected)
