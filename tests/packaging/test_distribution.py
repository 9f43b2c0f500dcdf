"""What is installed: the files, the metadata, the command."""

from importlib import metadata

import pytest

import keras_txl

pytestmark = pytest.mark.backend("tensorflow")  # no tensor in it


@pytest.fixture(scope="module")
def distribution():
    try:
        return metadata.distribution("keras-txl")
    except metadata.PackageNotFoundError:
        pytest.skip("keras-txl is not installed, only on the import path")


def test_version_is_the_one_of_the_metadata(distribution):
    assert keras_txl.__version__ == distribution.version


def test_nothing_outside_the_package_is_installed(distribution):
    tops = {file.parts[0] for file in distribution.files}
    tops -= {"..", "_keras_txl.pth", "_editable_impl_keras_txl.pth"}
    info = f"keras_txl-{distribution.version}.dist-info"
    assert tops <= {"keras_txl", info}


def test_type_marker_and_licence_are_installed(distribution):
    names = {file.name for file in distribution.files}
    assert "LICENSE" in names
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    package = distribution.locate_file("keras_txl")
    assert package.joinpath("py.typed").exists()


def test_command_is_declared(distribution):
    (command,) = distribution.entry_points
    assert command.name == "keras-txl"
    assert callable(command.load())


def test_extras_are_those_of_the_documentation(distribution):
    extras = set(distribution.metadata.get_all("Provides-Extra"))
    assert extras >= {"jax", "torch", "edge", "plots", "test", "docs"}
