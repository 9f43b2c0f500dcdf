"""What an import loads, seen from a fresh interpreter."""

import json
import subprocess
import sys

import pytest

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


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after `statement`."""
    code = (
        f"{statement}\nimport json, sys\n"
        "print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
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


@pytest.mark.parametrize("name", ["layers", "data", "metrics"])
def test_parts_below_the_models_load_no_keras_hub(name):
    loaded = modules_after(f"import keras_txl.{name}")
    assert not loaded & {"keras_hub", "tensorflow_text", "tf2onnx"}


def test_an_unknown_name_is_an_attribute_error():
    import keras_txl

    with pytest.raises(AttributeError, match="'nothing'"):
        keras_txl.nothing  # noqa: B018
