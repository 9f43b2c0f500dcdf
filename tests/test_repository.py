"""Rules of docs/style.md that can be read off the sources."""

import ast
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "keras_txl").rglob("*.py"))
OUTSIDE = sorted(
    path
    for folder in ("examples", "export", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
# Imported inside the function that needs them (docs/style.md, section 2).
OPTIONAL = {
    "jax",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pyarrow",
    "sentencepiece",
    "tf2onnx",
    "tokenizers",
    "torch",
}
# Flat lists: what came is checked, made a layer of, and kept by name.
LONG_CONSTRUCTORS = {
    "keras_txl/layers/transformer_xl_block.py:__init__",
    "keras_txl/models/backbone.py:__init__",
    "keras_txl/models/text_classifier.py:__init__",
}


def name_of(path):
    return str(path.relative_to(ROOT))


def imported(path, top_level_only=False):
    """Full dotted names that a file imports."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", LIBRARY + OUTSIDE, ids=name_of)
def test_only_public_names_of_keras_are_imported(path):
    text = path.read_text()
    assert "keras.src" not in text
    assert "keras_hub.src" not in text


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_optional_packages_are_imported_where_they_are_needed(path):
    tops = {name.partition(".")[0] for name in imported(path, True)}
    assert not tops & OPTIONAL


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_library_files_stay_below_400_lines(path):
    assert len(path.read_text().splitlines()) < 400


def long_functions(path):
    """Names of functions beyond a screen, their docstrings not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                length -= docstring.end_lineno - docstring.lineno + 1
            if length > 50:
                yield f"{name_of(path)}:{node.name}"


def test_functions_fit_a_screen():
    """All but the constructors that are named above."""
    found = {
        name for path in LIBRARY + OUTSIDE for name in long_functions(path)
    }
    assert found == LONG_CONSTRUCTORS


@pytest.mark.parametrize("path", OUTSIDE, ids=name_of)
def test_scripts_use_public_names_alone(path):
    """`keras_txl`, `keras_txl.PART` or `from keras_txl.PART import Name`."""
    for name in imported(path):
        top, *rest = name.split(".")
        if top != "keras_txl":
            continue
        assert len(rest) <= 2, f"{name} reaches into a module"
        assert not any(part.startswith("_") for part in rest)


def test_version_is_written_once():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "version"
    ]
    holders = [
        name_of(path) for path in LIBRARY if f'"{version}"' in path.read_text()
    ]
    assert holders == []


def test_scripts_outside_the_package_are_no_package():
    assert not list((ROOT / "export").glob("__init__.py"))
    assert not list((ROOT / "examples").glob("__init__.py"))
