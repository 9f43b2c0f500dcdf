"""Requests of several clients as one call (`export/serving/`)."""

import importlib.util
import threading
from itertools import accumulate

import numpy as np
import pytest

pytestmark = pytest.mark.backend("tensorflow")


@pytest.fixture(scope="module")
def joined_requests(repository):
    path = repository / "export" / "serving" / "joined_requests.py"
    spec = importlib.util.spec_from_file_location("joined_requests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_joined(joined_requests):
    return joined_requests.run_joined


class RunningSum:
    """A signature whose rows add up what they read; it refuses 9."""

    def __init__(self):
        self.rows = []

    def __call__(self, inputs):
        ids, memory = inputs["token_ids"], inputs["memory"]
        self.rows.append(len(ids))
        if (ids == 9).any():
            raise ValueError("nine")
        used = np.arange(ids.shape[1]) < inputs["token_length"][:, None]
        sums = memory + np.cumsum(ids * used, axis=1)
        return {"logits": sums, "new_memory": sums[:, -1:]}


def request(*rows, memory=0):
    width = max(map(len, rows))
    return {
        "token_ids": np.array(
            [[*row] + [0] * (width - len(row)) for row in rows]
        ),
        "token_length": np.array([len(row) for row in rows]),
        "memory": np.full([len(rows), 1], memory),
    }


def test_each_gets_its_own_rows_as_wide_as_it_asked(run_joined):
    run = RunningSum()
    requests = [request([1, 2, 3]), request([4], [5, 6], memory=10)]
    requests.append(request([7], memory=20))
    answers = run_joined(run, requests, (ValueError,))
    assert run.rows == [4]
    for asked, answer in zip(requests, answers, strict=True):
        rows = zip(asked["token_ids"], asked["memory"][:, 0], strict=True)
        sums = [list(accumulate(row, initial=m))[1:] for row, m in rows]
        assert answer["logits"].tolist() == sums
        assert answer["new_memory"].tolist() == [[row[-1]] for row in sums]


def test_requests_whose_parts_differ_in_rows_meet_no_other(run_joined):
    """Together their rows would add up, and be those of somebody else."""

    class CountedRows(RunningSum):
        def __call__(self, inputs):
            if len({len(value) for value in inputs.values()}) > 1:
                raise ValueError("rows")
            return super().__call__(inputs)

    more, less = request([1], [2]), request([5])
    more["memory"], less["memory"] = less["memory"], more["memory"]
    flat = {**request([3]), "token_ids": np.array([3])}
    answers = run_joined(
        CountedRows(),
        [more, request([4], memory=100), less, flat],
        (ValueError, LookupError, TypeError),
    )
    assert answers[1]["logits"].tolist() == [[104]]
    for index in (0, 2, 3):
        assert isinstance(answers[index], Exception)


def test_nobody_is_refused_for_another(run_joined):
    run = RunningSum()
    answers = run_joined(
        run, [request([1]), request([9]), request([2])], (ValueError,)
    )
    assert str(answers[1]) == "nine"
    assert [answers[0]["logits"][0, 0], answers[2]["logits"][0, 0]] == [1, 2]
    assert run.rows == [3, 1, 1, 1]


def test_those_that_wait_meanwhile_run_together(joined_requests):
    """Of one signature, and no more than may be."""
    run, calls = RunningSum(), []
    arrived, go_on = threading.Event(), threading.Event()

    def call(name, inputs):
        calls.append((name, len(inputs["token_ids"])))
        arrived.set()
        assert go_on.wait(60)
        return run(inputs)

    waiting = joined_requests.RequestQueue(call, (ValueError,), 3)
    answers = [waiting.put("step", request([1]))]
    assert arrived.wait(60)
    for name in ("step", "score", "step", "step", "step"):
        answers.append(waiting.put(name, request([len(answers)] * 2)))
    go_on.set()
    found = [answer.result(60)["new_memory"].item() for answer in answers]
    assert found == [1, 2, 4, 6, 8, 10]
    assert calls == [("step", 1), ("step", 3), ("score", 1), ("step", 1)]
