"""What an import loads, seen from a fresh interpreter."""

import json
import subprocess
import sys

import pytest

import keras_txl

pytestmark = pytest.mark.backend("tensorflow")  # Keras loads its own

HEAVY = {
    "jax",
    "keras",
    "keras_hub",
    "matplotlib",
    "numpy",
    "scipy",
    "tensorflow",
    "tensorflow_text",
    "tf2onnx",
    "torch",
}


def modules_after(statement: str, before: str = "pass") -> set[str]:
    """Top-level modules that `statement` loads in a fresh interpreter.

    Those that `before` loads do not count.
    """
    code = (
        f"import json, sys\n{before}\nold = {{*sys.modules}}\n{statement}\n"
        "new = {*sys.modules} - old\n"
        "print(json.dumps([name.partition('.')[0] for name in new]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_alone_loads_no_heavy_package():
    assert not modules_after("import keras_txl") & HEAVY


def test_submodules_load_on_first_use():
    statement = "import keras_txl; assert keras_txl.data.SegmentStream"
    assert "keras" in modules_after(statement)


def test_parts_below_the_models_load_no_keras_hub():
    loaded = modules_after(
        "import keras_txl.layers, keras_txl.data, keras_txl.metrics"
    )
    assert not loaded & {"keras_hub", "tensorflow_text", "tf2onnx"}


def test_all_parts_together_load_nothing_that_keras_hub_does_not():
    """Seconds depend on the machine, packages do not."""
    parts = ", ".join(
        f"keras_txl.{name}"
        for name in keras_txl.__all__
        if name != "__version__"
    )
    own = modules_after(f"import {parts}", before="import keras_hub")
    assert own - sys.stdlib_module_names == {"keras_txl"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'nothing'"):
        keras_txl.nothing  # noqa: B018
