"""The driver in JavaScript, in Node.js; and the same stream in Python."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.export_runtimes.edge_models import PROMPT
from tests.export_runtimes.edge_models import TOKENS

pytestmark = pytest.mark.backend("tensorflow")


@pytest.fixture(scope="module")
def scripts(repository, tmp_path_factory):
    """The driver beside the packages that it imports."""
    folder = tmp_path_factory.mktemp("javascript") / "driver"
    shutil.copytree(repository / "export" / "edge" / "javascript", folder)
    packages = os.environ["EDGE_NODE_MODULES"]
    (folder / "node_modules").symlink_to(packages)
    return folder


def run(*words):
    return subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=300
    )


def node(scripts, *words):
    return run("node", scripts / "generate.mjs", *words)


def text_of(ids):
    return bytes(ids).decode("utf-8", "replace")


def test_a_greedy_stream_is_that_of_keras_token_by_token(trained, scripts):
    _, said, folders = trained
    words = ["--prompt", PROMPT, "--length", TOKENS, "--temperature", 0]
    done = node(scripts, folders["kv_ring"], *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == text_of(said) + "\n"


def test_a_stream_goes_from_python_to_javascript_and_back(
    trained, scripts, repository, tmp_path
):
    _, _, folders = trained
    driver = repository / "export" / "edge" / "python" / "transformer_xl.py"
    python = ("python", lambda *words: run(sys.executable, driver, *words))
    javascript = ("node", lambda *words: node(scripts, *words))
    folder = folders["kv_ring"]
    settings = ["--temperature", 0.7, "--top-k", 50, "--top-p", 0.95]
    start = ["--prompt", PROMPT, "--seed", 9]
    texts = {}
    for name, call in (python, javascript):
        done = call(folder, *start, *settings, "--length", 90)
        assert (done.returncode, done.stderr) == (0, "")
        texts[name] = done.stdout
    assert texts["python"] == texts["node"]
    pieces = []
    for index, (_, call) in enumerate((python, javascript, python)):
        words = ["--load-memory", tmp_path / str(index)] if index else start
        save = ["--save-memory", tmp_path / str(index + 1)]
        done = call(folder, *words, *settings, "--length", 30, *save)
        assert (done.returncode, done.stderr) == (0, "")
        pieces.append(done.stdout[:-1])
    assert "".join(pieces) + "\n" == texts["python"]


@pytest.mark.parametrize("name", ["python", "node"])
def test_a_reader_that_has_enough_ends_a_text_without_end(
    name, trained, scripts, repository, tmp_path
):
    driver = repository / "export" / "edge" / "python" / "transformer_xl.py"
    command = {
        "python": [sys.executable, driver],
        "node": ["node", scripts / "generate.mjs"],
    }[name]
    words = [trained[2]["kv_ring"], "--save-memory", tmp_path / "memory"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(9)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
    assert (tmp_path / "memory").is_file()


def test_what_does_not_fit_is_told(trained, scripts, tmp_path):
    _, _, folders = trained
    folder = shutil.copytree(folders["kv_ring"], tmp_path / "model")
    short = ["--prompt", "A", "--length", 3]
    memory = tmp_path / "memory"
    assert node(scripts, folder, *short, "--save-memory", memory).stderr == ""
    data = memory.read_bytes()
    memory.write_bytes(data[:-1])
    for words, message in (
        ([folder, "--load-memory", memory], "memory file is damaged"),
        ([folder, *short, "--temperature=-1"], "temperature=-1"),
        ([folder, *short, "--seed", "1.5"], "--seed must be a whole number"),
        ([folder, "--save-memory", memory / "in"], "folder of a memory must"),
        ([folders["kv"]], "This driver runs the flavour kv_ring"),
        ([tmp_path], "Export with: keras-txl export onnx"),
        ([], "Pass one model folder"),
    ):
        done = node(scripts, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert message in done.stderr and "    at " not in done.stderr
    memory.write_bytes(data)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["weights"] = "0"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    done = node(scripts, folder, "--load-memory", memory)
    assert "belongs to another model" in done.stderr
    model = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(model[:-1])
    assert "cut short" in node(scripts, folder, *short).stderr


def test_ids_out_of_range_are_refused(trained, scripts, tmp_path):
    _, _, folders = trained
    script = scripts / "ids.mjs"
    script.write_text(
        'import { readFile } from "node:fs/promises";\n'
        'import ort from "onnxruntime-node";\n'
        'import { TransformerXL } from "./transformer_xl.mjs";\n'
        "const folder = process.argv[2];\n"
        "const read = (name) => readFile(`${folder}/${name}`);\n"
        "const model = await TransformerXL.load(ort, read);\n"
        "for (const ids of [[256], [-1], [1.5], []]) {\n"
        "  await model.read(ids, model.newMemory()).catch((error) =>\n"
        "    console.log(error.message));\n"
        "}\n"
    )
    lines = run("node", script, folders["kv_ring"]).stdout.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [
        "256.",
        "-1.",
        "1.5.",
        "none.",
    ]
