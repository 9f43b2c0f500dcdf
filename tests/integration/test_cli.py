"""The verbs, run as a user runs them, on a small text."""

import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import keras_txl
from keras_txl.cli.main import main
from tests.integration.cli_run import SIZES

CHOICES = [
    *("--optimizer", "adamw", "--weight-decay", "0.01", "--clip-norm", "0.5"),
    *("--schedule", "linear", "--warmup", "0.2", "--accumulate", "2"),
    *("--random-lengths", "--random-starts", "--shuffle-documents"),
]


def environment():
    source = str(Path(keras_txl.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source}


def start(arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "keras_txl.cli.main", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )


def read_rows(output):
    with open(output / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_train_leaves_model_checkpoint_and_history(trained):
    names = {path.name for path in trained.iterdir()}
    assert names == {"model", "checkpoint", "history.csv"}
    assert (trained / "model" / "config.json").is_file()
    rows = read_rows(trained)
    assert rows[-1]["step"] == "24"
    assert float(rows[-1]["val_loss"]) < 5.6
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])


def test_evaluate_prints_a_line_for_each_memory(trained, corpus, capsys):
    code = main(
        ["evaluate", str(trained), str(corpus / "00.txt"), "--json"]
        + ["--memory-length", "0", "--memory-length", "32"]
        + ["--segment-length", "8", "--batch-size", "2"]
    )
    assert code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["documents"] == 1
    assert told["bytes"] == (corpus / "00.txt").stat().st_size
    assert [row["memory_length"] for row in told["results"]] == [0, 32]
    for row in told["results"]:
        assert row["targets"] == told["bytes"] - 1
        assert 0 < row["bits_per_byte"] < 9


def test_evaluate_prints_a_table(trained, corpus, capsys):
    assert main(["evaluate", str(trained), str(corpus / "01.txt")]) == 0
    out = capsys.readouterr().out
    assert "bits per byte" in out and "nats per token" in out
    assert "16" in out  # the memory the model was built with
    # To be copied, so not broken where the screen ends.
    (told,) = (line for line in out.splitlines() if "protocol:" in line)
    assert told.startswith("protocol: segment 64, memory 16,")
    assert told.endswith(", float32")


def test_evaluate_follows_a_protocol_that_its_line_repeats(
    trained, corpus, capsys
):
    texts = [str(corpus / "00.txt"), str(corpus / "02.txt")]
    options = ["--preset-protocol", "txl_enwik8_base", "--memory-length", "7"]
    assert main(["evaluate", str(trained), *texts, *options, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["results"][0]
    assert row["protocol"] == {
        "segment_length": 80,
        "batch_size": 1,
        "memory_length": 7,
        "clamp_length": 820,
        "attention_window": 7,
        "warmup_tokens": 0,
        "stride": None,
        "zero_memory": False,
        "dynamic_learning_rate": None,
        "dynamic_decay": 0.0,
    }
    interval = row["interval"]
    assert interval["low"] <= row["bits_per_byte"] <= interval["high"]
    assert row["words"] == sum(
        len(Path(text).read_text()[1:].split()) for text in texts
    )
    assert row["word_perplexity"] == pytest.approx(
        math.exp(row["nats"] / row["words"])
    )
    told = "segment 80, memory 7, clamp 820, window 7, batch 1, warm-up 0"
    assert row["protocol_line"].startswith(told)


def test_evaluate_reads_windows_with_a_stride(trained, corpus, capsys):
    text = str(corpus / "00.txt")
    options = ["--segment-length", "8", "--stride", "4", "--clamp-length"]
    options += ["none", "--attention-window", "5"]
    assert main(["evaluate", str(trained), text, *options]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "one document: no interval" in out  # of which there is no interval
    assert "segment 8, memory 0, clamp none, window 5," in out
    assert "batch 16, stride 4" in out


@pytest.mark.backend("tensorflow")
def test_evaluate_steps_on_what_it_has_scored(trained, corpus, capsys):
    text = str(corpus / "00.txt")
    sizes = ["--segment-length", "8", "--json"]
    dynamic = ["--dynamic-learning-rate", "1e-3", "--dynamic-decay", "0.01"]
    scales = ["--dynamic-scales", text]

    def evaluate(*more):
        assert main(["evaluate", str(trained), text, *sizes, *more]) == 0
        return json.loads(capsys.readouterr().out)["results"][0]

    still = evaluate("--batch-size", "1")
    row = evaluate(*dynamic, *scales)
    assert row["nats"] < 0.99 * still["nats"]
    assert row["protocol"]["batch_size"] == 1
    told = "dynamic learning rate 0.001, decay 0.01;"
    assert told in row["protocol_line"]
    assert "divided by 1e-05 + root mean squares" in row["protocol_line"]
    assert evaluate("--batch-size", "1")["nats"] == still["nats"]


def test_score_rates_each_text_with_an_empty_memory(trained, capsys):
    texts = ["the ship", "a storm comes", "the ship", "x", ""]
    assert main(["score", str(trained), *texts, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["text"] for row in rows] == texts
    assert rows[0]["nats"] == pytest.approx(rows[2]["nats"], rel=1e-5)
    assert rows[3]["bits_per_byte"] is rows[4]["bits_per_word"] is None
    assert rows[3]["nats"] == rows[4]["nats"] == 0
    assert rows[1]["nats"] > 0


def test_score_says_that_a_file_name_is_scored_as_words(trained, capsys):
    assert main(["score", str(trained), __file__]) == 0
    assert "to score the file, pass --file" in " ".join(
        capsys.readouterr().err.split()
    )


def test_score_reads_one_text_a_line(trained, tmp_path, capsys):
    path = tmp_path / "lines.txt"
    path.write_text("the ship\n\na storm\n")
    assert main(["score", str(trained), "--file", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "nats\tbits per byte\tbits per word\tbytes\ttext"
    assert [line.split("\t")[4] for line in lines[1:]] == [
        "the ship",
        "a storm",
    ]


def test_score_ranks_candidates_after_a_context(trained, tmp_path, capsys):
    path = tmp_path / "candidates.txt"
    path.write_text("zq\n\nship\nship waits\n")
    arguments = ["score", str(trained), "--candidates", str(path), "--json"]
    assert main([*arguments, "--context", "a storm comes, the "]) == 0
    rows = json.loads(capsys.readouterr().out)
    nats = [row["nats"] for row in rows]
    assert nats == sorted(nats)
    assert {row["line"]: row["text"] for row in rows} == {
        1: "zq",
        3: "ship",
        4: "ship waits",
    }
    by_line = {row["line"]: row for row in rows}
    assert by_line[3]["bytes"] == by_line[3]["tokens"] == 4
    assert by_line[4]["words"] == 2
    assert by_line[4]["nats"] > by_line[3]["nats"]  # the same and more
    bits = by_line[4]["bits_per_word"]
    assert bits == pytest.approx(by_line[4]["bits_per_byte"] * 10 / 2)


def test_score_reads_standard_input_as_one_text(
    trained, tmp_path, capsys, monkeypatch
):
    text = b"the ship sails\nand \xff the wind turns\n"
    path = tmp_path / "text.txt"
    path.write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    arguments = ["--whole", "--file", "-", "--file", str(path), "--json"]
    assert main(["score", str(trained), *arguments]) == 0
    piped, read = json.loads(capsys.readouterr().out)
    assert (piped.pop("file"), read.pop("file")) == ("-", str(path))
    assert piped.pop("nats") == pytest.approx(read.pop("nats"), rel=1e-5)
    assert piped["bytes"] == read["bytes"] == len(text) - 1
    assert piped["words"] == read["words"] == 8


def test_generate_continues_the_prompt(trained, capsys):
    arguments = ["generate", str(trained), "--prompt", "the ", "--seed", "3"]
    arguments += ["--max-length", "24", "--top-k", "5"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert first.startswith("the ")
    assert len(first) > len("the \n")
    assert main(arguments) == 0
    assert capsys.readouterr().out == first


def test_generate_goes_on_from_a_saved_memory(trained, tmp_path, capsys):
    def generate(*more):
        words = ["generate", str(trained), "--temperature", "0", *more]
        assert main(words) == 0
        return capsys.readouterr().out.removesuffix("\n")

    memory = str(tmp_path / "memory")
    whole = generate("--prompt", "the ", "--max-new-tokens", "30")
    first = generate(
        *("--prompt", "the ", "--max-length", "14", "--save-memory", memory)
    )
    second = generate("--load-memory", memory, "--max-new-tokens", "20")
    assert first + second == whole
    assert len(whole) > 20


def test_generate_answers_line_by_line(trained, tmp_path, capsys, monkeypatch):
    memory = tmp_path / "memory"
    lines = "the ship\na storm comes\n"
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode()))
    )
    words = ["generate", str(trained), "--interactive", "--temperature", "0"]
    words += ["--max-new-tokens", "6", "--save-memory", str(memory)]
    assert main(words) == 0
    assert capsys.readouterr().out.count("\n") >= 2
    assert memory.is_file()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the ")))
    words = ["generate", str(trained), "--prompt-file", "-", "--stop", "e"]
    assert main(words) == 0
    assert "e" not in capsys.readouterr().out.removeprefix("the ")


@pytest.mark.slow
def test_ctrl_c_ends_a_text_without_end_and_keeps_memory(trained, tmp_path):
    memory = tmp_path / "memory"
    process = start(
        ["generate", trained, "--prompt", "the ", "--endless"]
        + ["--save-memory", memory]
    )
    assert process.stdout.read(40)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert memory.is_file()


def test_inspect_tells_sizes(trained, capsys):
    assert main(["inspect", str(trained), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["memory_length"] == 16
    assert told["receptive_field"] == 16  # one layer
    assert told["memory_bytes_per_stream"] == 16 * 16 * 4
    assert told["tokenizer"] == "TransformerXLByteTokenizer"
    assert told["configuration"]["hidden_dim"] == 16


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_that_resume_finishes(corpus, tmp_path):
    output = tmp_path / "run"
    arguments = ["train", corpus, "--output", output, "--steps", 600, *SIZES]
    process = start([*arguments, *CHOICES])  # the resumed run keeps them
    deadline = time.monotonic() + 240
    while not (output / "history.csv").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == ""
    assert "--resume" in err
    assert "Traceback" not in err
    assert (output / "model" / "config.json").is_file()
    done = int(read_rows(output)[-1]["step"])
    assert 0 < done < 600
    resumed = start([*arguments, "--resume"])
    out, err = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, err
    rows = read_rows(output)
    assert rows[-1]["step"] == "600"
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted(set(steps))
    assert float(rows[-1]["val_loss"]) < float(rows[0]["loss"])
    # The last of 40 slices, the first 8 of which are the warm-up.
    rate = 4e-3 * (0.05 + 0.95 * (1 - 31 / 32))
    assert float(rows[-1]["learning_rate"]) == pytest.approx(rate, rel=1e-4)


def test_resuming_a_finished_run_changes_nothing(trained, corpus, capsys):
    before = (trained / "history.csv").read_bytes()
    arguments = ["train", str(corpus), "--output", str(trained), "--resume"]
    for same in ([], ["--steps", "24", *SIZES, "--seed", "0"]):
        assert main([*arguments, *same]) == 0
        assert "steps: 24" in capsys.readouterr().out
        assert (trained / "history.csv").read_bytes() == before


# What follows depends on no backend.
@pytest.fixture(scope="module")
def train_constantly(corpus, tmp_path_factory):
    """Returns `train(name, *more)`: the folder of a run at one rate."""
    folder = tmp_path_factory.mktemp("constant")

    def train(name, *more):
        arguments = ["train", str(corpus), "--output", str(folder / name)]
        choices = ["--schedule", "constant", "--warmup", "0"]
        assert main([*arguments, *SIZES, *choices, *more]) == 0
        return folder / name

    return train


def columns(output, *names):
    return [[row[name] for name in names] for row in read_rows(output)]


@pytest.mark.backend("tensorflow")
def test_a_run_can_be_made_longer(train_constantly, corpus, capsys):
    short = train_constantly("longer", "--steps", "3")
    told = capsys.readouterr().out
    assert "steps: 3" in told  # a run of few steps tells everything, too
    assert "training loss: " in told and "validation loss: " in told
    first = read_rows(short)
    assert [row["step"] for row in first] == ["1", "2", "3"]
    assert first[-1]["val_loss"]
    for _ in range(2):  # once it is as long, nothing more happens
        train_constantly("longer", "--resume", "--steps", "6")
        assert "steps: 6" in capsys.readouterr().out
        assert read_rows(short)[:3] == first
        assert len(read_rows(short)) == 6
    whole = train_constantly("whole", "--steps", "6")
    names = ("step", "learning_rate", "loss", "val_loss")
    assert columns(short, *names) == columns(whole, *names)
    arguments = ["train", str(corpus), "--output", str(short), "--resume"]
    assert main([*arguments, "--steps", "3"]) == 1
    assert "A run cannot be made shorter" in capsys.readouterr().err


@pytest.mark.backend("tensorflow")
def test_a_resumed_run_keeps_its_own_options(trained, corpus, capsys):
    before = (trained / "history.csv").read_bytes()
    arguments = ["train", str(corpus), "--output", str(trained), "--resume"]
    for words, told in (
        (
            ["--hidden-dim", "128", "--random-starts", "--num-heads", "2"],
            "Received: --hidden-dim 128 (the run: 16), --random-starts (the "
            "run: without). Leave these options out",
        ),
        (["--minutes", "10"], "--minutes 10.0 (the run: without)"),
        (["--validation", str(corpus)], "(the run: without)"),
        (["--steps", "30"], "a run of 24 steps with --schedule cosine."),
    ):
        assert main([*arguments, *words]) == 1
        assert told in capsys.readouterr().err
    assert (trained / "history.csv").read_bytes() == before
