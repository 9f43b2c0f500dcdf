"""A run whose process is killed again and again equals the whole run."""

import json

import pytest

from tests.integration.test_scripts import run_script

KILLS = 10

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    return json.loads(
        run_script("tests/training/killed_run.py", folder, KILLS, 20190109)
    )


def test_every_process_was_killed_where_it_should(told):
    assert len(told["kills"]) == KILLS
    for place in ("between", "within", "byte 1,", "byte 5000", "its name"):
        assert any(place in kill for kill in told["kills"]), place


def test_every_loss_equals_the_run_that_nothing_killed(told):
    expected = {(e, s): loss for e, s, loss in told["whole"]["steps"]}
    assert len(expected) == len(told["whole"]["steps"]) == 35
    assert len(set(expected.values())) == 35
    made = [((e, s), loss) for e, s, loss in told["killed"]["steps"]]
    assert {place for place, _ in made} == set(expected)
    # Steps behind the last checkpoint are made once more: equal as well.
    assert len(made) > 35
    assert [loss for _, loss in made] == [expected[place] for place, _ in made]


def test_history_weights_optimizer_and_memory_are_equal(told):
    assert told["killed"]["end"] == told["whole"]["end"]
