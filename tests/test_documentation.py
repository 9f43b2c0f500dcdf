"""Examples of docstrings and guides are run.

A docstring example may use the names that `names` below provides; a guide
starts from a folder `my_texts/`.
"""

import doctest
import inspect
import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_txl

# What the examples call is tested on every backend.
pytestmark = pytest.mark.backend("tensorflow")

ROOT = Path(__file__).resolve().parent.parent
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))


def documented():
    """Every public object (and method) whose docstring has an example."""
    found = {}
    for part in keras_txl.__all__:
        module = getattr(keras_txl, part)
        if not inspect.ismodule(module):
            continue
        for name in module.__all__:
            value = getattr(module, name)
            members = {name: value}
            if inspect.isclass(value):
                for key, member in inspect.getmembers(value):
                    own = getattr(member, "__module__", "") or ""
                    if inspect.isfunction(member) and own.startswith(
                        "keras_txl"
                    ):
                        members[f"{name}.{key}"] = member
            for key, member in members.items():
                if "Example:" in (getattr(member, "__doc__", None) or ""):
                    found[f"{part}.{key}"] = inspect.getdoc(member)
    return found


def python_blocks(text):
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def evaluations(names):
    """What the example of `bootstrap_difference` calls its two results."""
    results = [
        keras_txl.evaluation.evaluate_stream(
            names["lm"],
            names["documents"],
            segment_length=8,
            batch_size=2,
            memory_length=memory_length,
        )
        for memory_length in (0, 8)
    ]
    return dict(zip(["without_memory", "with_memory"], results, strict=True))


# What must have happened before an example.
BEFORE = {
    "evaluation.bootstrap_difference": evaluations,
}


@pytest.fixture
def names(make_lm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my_texts"
    folder.mkdir()
    for number in range(8):
        text = f"It began in year {number}, and it went on. " * 40
        (folder / f"{number}.txt").write_text(text)
    ids = np.arange(66) % 17
    lm = make_lm(batch_size=4)
    return {
        "__name__": "example",
        "keras": keras,
        "keras_txl": keras_txl,
        "np": np,
        **vars(keras_txl.data),
        **vars(keras_txl.evaluation),
        **vars(keras_txl.generation),
        **vars(keras_txl.metrics),
        **vars(keras_txl.tokenizers),
        **vars(keras_txl.training),
        "backbone": lm.backbone,
        "documents": [ids[:40], ids[40:]],
        "ids": ids,
        "lm": lm,
        "tokenizer": keras_txl.tokenizers.TransformerXLByteTokenizer(),
        "stream": keras_txl.data.SegmentStream(
            ids, batch_size=4, segment_length=8
        ),
    }


@pytest.mark.parametrize("name", sorted(documented()))
def test_docstring_example_runs_and_shows_its_output(name, names):
    text = documented()[name]
    if name in BEFORE:
        names.update(BEFORE[name](names))
    blocks = python_blocks(text)
    tests = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert blocks or tests.examples, "an example without code"
    report = []
    doctest.DocTestRunner().run(tests, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    for block in blocks:
        exec(compile(block, name, "exec"), names)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_guide_runs_from_top_to_bottom(path, names, capsys):
    namespace = {"__name__": "guide"}
    blocks = python_blocks(path.read_text())
    assert blocks
    for block in blocks:
        exec(compile(block, path.name, "exec"), namespace)
    assert capsys.readouterr().out


def test_tests_that_the_faq_names_exist():
    text = (ROOT / "docs" / "faq.md").read_text()
    names = re.findall(r"`(\w+/\w+\.py)::(\w+)`", text)
    assert len(names) == text.count(".py::")
    for path, name in names:
        source = (ROOT / "tests" / path).read_text()
        assert f"\ndef {name}(" in source, f"{path}::{name}"


def test_the_table_of_servers_is_that_of_the_measurement(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from serving_report import table_of

    report = (ROOT / "benchmarks" / "results" / "serving.json").read_text()
    guide = ROOT / "docs" / "guides" / "serve_with_tensorflow_serving.md"
    assert table_of(json.loads(report)) in guide.read_text()


@pytest.mark.parametrize(
    "part", [name for name in keras_txl.__all__ if name != "__version__"]
)
def test_every_part_has_its_reference_page(part):
    page = ROOT / "docs" / "reference" / f"{part}.md"
    assert f"::: keras_txl.{part}\n" in page.read_text()
    assert f"reference/{part}.md" in (ROOT / "mkdocs.yml").read_text()
