"""The count at the end of .ci/run, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

COLLECT = Path(__file__).resolve().parent.parent / ".ci" / "collect.py"
JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a.test_b" name="test_good" file="tests/a/test_b.py"/>
<testcase classname="tests.a.test_b.TestC" name="test_d[x]"
  file="tests/a/test_b.py">{}</testcase>
</testsuite></testsuites>"""
SKIPPED = '<skipped message="no such device"/>'
FAILED = '<failure message="wrong">trace</failure>'


@pytest.fixture
def collect(tmp_path):
    def run(steps, allowed="", **reports):
        (tmp_path / "steps.txt").write_text(steps)
        (tmp_path / "allowed.txt").write_text(allowed)
        for name, inner in reports.items():
            (tmp_path / f"{name}.xml").write_text(JUNIT.format(inner))
        done = subprocess.run(
            [
                sys.executable,
                COLLECT,
                tmp_path / "steps.txt",
                tmp_path,
                tmp_path / "allowed.txt",
            ],
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def last_line(output):
    return output.splitlines()[-1]


def test_all_runs_are_added_up(collect):
    reports = {"jax": "", "torch": "", "torch.checkout": ""}
    status, output = collect("jax ok 5\ntorch ok 7\n", **reports)
    assert status == 0
    assert last_line(output) == "6 passed, 0 failed, 0 skipped"


def test_a_failed_test_is_named(collect):
    status, output = collect("jax failed 5\n", jax=FAILED)
    assert status == 1
    assert "tests/a/test_b.py::TestC::test_d[x]" in output
    assert last_line(output) == "1 passed, 1 failed, 0 skipped"


def test_a_skip_that_is_not_listed_fails_the_run(collect):
    status, output = collect("jax ok 5\n", jax=SKIPPED)
    assert status == 1
    assert "no such device" in output
    assert last_line(output) == "1 passed, 0 failed, 1 skipped"


def test_a_listed_skip_passes(collect):
    allowed = "# comment\ntests/a/*::TestC::* | needs a device\n"
    status, output = collect("jax ok 5\n", allowed, jax=SKIPPED)
    assert status == 0, output


def test_a_listed_skip_needs_its_reason(collect):
    status, output = collect("jax ok 5\n", "tests/a/*\n", jax="")
    assert status == 1
    assert "gives no reason" in output


def test_a_failed_step_without_tests_counts_as_one_failure(collect):
    status, output = collect("jax ok 5\nlint failed 1\n", jax="")
    assert status == 1
    assert last_line(output) == "2 passed, 1 failed, 0 skipped"


def test_a_test_step_that_ran_nothing_fails(collect):
    status, output = collect("tests ok 5\n")
    assert status == 1
    assert "tests: no-test" in output
