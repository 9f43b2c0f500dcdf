"""Count what the steps of .ci/run did and say whether all is well.

    python .ci/collect.py STEPS REPORTS ALLOWED_SKIPS

STEPS has a line `name state seconds` for each step, REPORTS is a folder of
JUnit files named for their steps (`torch.xml`, `torch.part.xml`),
ALLOWED_SKIPS lists the skips that may occur, one a line: `test id (or glob) |
reason`. The last line printed is `N passed, N failed, N skipped`; a step
without a JUnit file adds nothing when it passes and one failure when it does
not. Exit status 1 means a failure, a skip that is not listed, or a test step
that ran no test.
"""

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

# These steps must leave JUnit files with at least one test in it.
TEST_STEPS = ("tests", "runtimes", "jax", "torch")


def allowed_skips(path: Path) -> list[str]:
    """Read the globs of allowed skips; each must carry its reason."""
    globs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        glob, bar, reason = line.partition(" | ")
        if not bar or not reason.strip():
            raise SystemExit(f"{path}:{number} gives no reason: {line}")
        globs.append(glob.strip())
    return globs


def read_cases(path: Path) -> list[tuple[str, str, str]]:
    """Return `(test id, outcome, message)` of each test in a JUnit file."""
    cases = []
    for case in ElementTree.parse(path).iter("testcase"):
        file = case.get("file", "")
        module = file.removesuffix(".py").replace("/", ".")
        classes = case.get("classname", "").removeprefix(module)
        names = [*classes.strip(".").split("."), case.get("name", "")]
        test = "::".join([file, *filter(None, names)])
        outcome, message = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, message = "failed", child.get("message", "")
            elif child.tag == "skipped" and outcome == "passed":
                outcome, message = "skipped", child.get("message", "")
        cases.append((test, outcome, message))
    return cases


def main(steps_file: Path, reports: Path, skips_file: Path) -> int:
    allowed = allowed_skips(skips_file)
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    problems = []
    print()
    print(f"{'step':<12}{'state':<10}{'seconds':>8}  tests")
    for line in steps_file.read_text().splitlines():
        step, state, seconds = line.split()
        counts = dict.fromkeys(totals, 0)
        for report in sorted(reports.glob(f"{step}.*xml")):
            for test, outcome, message in read_cases(report):
                counts[outcome] += 1
                if outcome == "failed":
                    problems.append(f"{step}: failed: {test}")
                elif outcome == "skipped" and not any(
                    fnmatchcase(test, glob) for glob in allowed
                ):
                    problems.append(f"{step}: skip not listed: {test}")
                    problems.append(f"    its reason: {message}")
        if step in TEST_STEPS and state == "ok" and not counts["passed"]:
            state = "no-test"
        if state != "ok":
            problems.append(f"{step}: {state}")
            counts["failed"] = max(counts["failed"], 1)
        for outcome, count in counts.items():
            totals[outcome] += count
        tests = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        print(f"{step:<12}{state:<10}{seconds:>8}  {tests}")
    print()
    for problem in problems:
        print(problem)
    print(", ".join(f"{count} {name}" for name, count in totals.items()))
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
