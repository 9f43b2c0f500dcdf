"""Requests of several clients as one call (`export/serving/`)."""

import importlib.util
from itertools import accumulate

import numpy as np
import pytest

pytestmark = pytest.mark.backend("tensorflow")


@pytest.fixture(scope="module")
def run_joined(repository):
    path = repository / "export" / "serving" / "joined_requests.py"
    spec = importlib.util.spec_from_file_location("joined_requests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run_joined


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
