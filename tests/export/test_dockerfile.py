"""The Dockerfile for TensorFlow Serving, read but not built: no Docker here.

What its lines and the commands in its comments name must be what an export
writes, where the image's entry point looks for it.
"""

import json
import shlex

import pytest

from keras_txl.cli.main import build_parser

pytestmark = pytest.mark.backend("tensorflow")


def test_its_paths_are_those_of_an_export(exported, repository, tmp_path):
    recipe = repository / "export" / "serving" / "Dockerfile"
    text = recipe.read_text().replace("\\\n", " ")
    comments = [line[1:] for line in text.splitlines() if line[:1] == "#"]
    words = [shlex.split(line) for line in comments if line.startswith("    ")]
    export, build, run = words
    options = build_parser().parse_args(export[1:])
    folder = options.output  # the build's context is the folder above
    assert build[:2] == ["docker", "build"] and run[:2] == ["docker", "run"]
    assert build[build.index("-f") + 1] == "export/serving/Dockerfile"
    assert (build[-1], build[build.index("-t") + 1]) == (
        str(folder.parent),
        run[-1],
    )
    ports = [run[i + 1] for i, word in enumerate(run) if word == "-p"]
    assert ports == ["8500:8500", "8501:8501"]

    lines = [line for line in text.splitlines() if line[:1] not in ("#", "")]
    told = dict(line.split(None, 1) for line in lines)
    assert told["FROM"] == "tensorflow/serving:${VERSION}"
    assert told["ARG"].startswith("VERSION=")
    source, place = told["COPY"].split()
    assert source == folder.name
    # The entry point serves /models/$MODEL_NAME and hands on the words of CMD.
    assert place == "/models/" + told["ENV"].removeprefix("MODEL_NAME=")
    flags = dict(word.partition("=")[::2] for word in json.loads(told["CMD"]))
    assert set(flags) == {"--enable_batching", "--batching_parameters_file"}
    path = flags["--batching_parameters_file"]
    assert path.startswith(f"{place}/")
    served = exported[1].parent
    assert (served / path.removeprefix(f"{place}/")).is_file()
    assert (served / "1" / "saved_model.pb").is_file()
