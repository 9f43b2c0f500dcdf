"""Requests that no server may answer, sent through any client."""

import numpy as np
import pytest

from keras_txl.export.serving import RequestError

M = 6


def memory(slots=M, rows=1, length=0):
    return {
        "memory": np.zeros([rows, 2, slots, 8], "float32"),
        "memory_length": np.full([rows], length, "int32"),
    }


def segment(ids, length=None):
    ids = np.asarray(ids)
    length = [ids.shape[1]] * len(ids) if length is None else length
    return {"token_ids": ids, "token_length": np.array(length, "int32")}


IDS = np.array([[1, 2]], "int32")
GOOD = {**segment(IDS), **memory()}
BAD_REQUESTS = {
    "slots": ({**GOOD, **memory(slots=5)}, "memory|shape"),
    "length": ({**GOOD, **memory(length=7)}, "`memory_length` must be from"),
    "negative length": (
        {**GOOD, **memory(length=-1)},
        "`memory_length` must be from",
    ),
    "rows": ({**GOOD, **memory(rows=2)}, "as many rows as"),
    "token above": (
        {**GOOD, **segment(IDS + 255)},
        "`token_ids` must be from",
    ),
    "token below": ({**GOOD, **segment(IDS - 2)}, "`token_ids` must be from"),
    "segment": ({**GOOD, **segment(IDS, [3])}, "`token_length` must be from"),
    "no row": (
        {**segment(IDS[:0]), **memory(rows=0)},
        "at least one row|shape",
    ),
    "no token": (
        {**GOOD, **segment(IDS[:, :0])},
        "at least one token a row|shape",
    ),
    "type": (
        {**GOOD, **segment((IDS + 0.5).astype("float32"))},
        "(?i)int32",
    ),
    "no memory": (segment(IDS), "memory"),
}
"""For each the request, and what the answer must tell."""


def assert_bad_requests_are_refused(server, without=()):
    """Each ends in words, and the next good one is right."""
    good = server.predict("step", GOOD)
    assert good["new_memory_length"].tolist() == [2]
    for name, (request, message) in BAD_REQUESTS.items():
        if name not in without:
            with pytest.raises(RequestError, match=message):
                server.predict("step", request)
                pytest.fail(name)
            again = server.predict("step", GOOD)
            np.testing.assert_array_equal(good["logits"], again["logits"])
