"""Trains a small model in processes that are killed, until a run is complete.

    python killed_run.py FOLDER NUMBER_OF_KILLS SEED

prints a JSON object: `whole` and `killed`, each with the running loss of
every step that was ever made, the history, and a checksum of all variables;
and `kills`, how each process died. Keras is imported once; each process is a
fork of that, in which nothing has run yet.
"""

import json
import os
import random
import signal
import sys
import traceback
import zlib
from pathlib import Path

import keras
import numpy as np

from keras_txl.data import SegmentStream
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM
from keras_txl.training import ResumeTraining
from keras_txl.training import checkpoint_file
from keras_txl.training.model_state import training_variables

EPOCHS = 5
STEPS_PER_EPOCH = 7
PLACES = ("byte 1", "byte 5000", "before the file takes its name")
"""Where a process dies while it writes a checkpoint."""


def make_model():
    keras.utils.set_random_seed(3)
    backbone = TransformerXLBackbone(
        vocabulary_size=17,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        memory_length=6,
        batch_size=2,
        dropout=0.3,
    )
    lm = TransformerXLCausalLM(backbone)
    lm.compile(keras.optimizers.Adam(0.01))
    return lm


class Report(keras.callbacks.Callback):
    """A line for each step: epoch, step of the epoch, running loss.

    The process waits for an answer, so that it cannot run ahead of its death.
    """

    def __init__(self, stream, answers):
        super().__init__()
        self.stream = stream
        self.answers = answers

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"]).hex()
        self.stream.write(f"{self.epoch} {batch} {loss}\n")
        self.stream.flush()
        os.read(self.answers, 1)


class DyingFile:
    """A file whose process is killed after some bytes are written."""

    def __init__(self, file, bytes_left):
        self.file = file
        self.bytes_left = bytes_left

    def write(self, data):
        size = memoryview(data).nbytes
        if size < self.bytes_left:
            self.bytes_left -= size
            return self.file.write(data)
        self.file.write(memoryview(data).cast("B")[: self.bytes_left])
        self.file.flush()
        kill_me()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def die_while_writing(place):
    """The first checkpoint of this process dies at `place`."""
    if place == "before the file takes its name":
        checkpoint_file.os = Dying(replace=kill_me)
    else:
        checkpoint_file.open = lambda path, mode: DyingFile(
            open(path, mode), int(place.split()[1])
        )


class Dying:
    """The module `os`, one function of which kills the process."""

    def __init__(self, **deadly):
        for name, deed in deadly.items():
            setattr(self, name, lambda *_, deed=deed: deed())

    def __getattr__(self, name):
        return getattr(os, name)


def train(folder, report, answers):
    rng = np.random.default_rng(0)
    text = [rng.integers(0, 17, size) for size in (23, 9, 41)]
    lm = make_model()
    history = lm.fit(
        SegmentStream(text, batch_size=2, segment_length=4).repeat(),
        steps_per_epoch=STEPS_PER_EPOCH,
        epochs=EPOCHS,
        validation_data=SegmentStream(text[1], 2, 4),
        callbacks=[
            Report(report, answers),
            ResumeTraining(folder, every_steps=2),
        ],
        verbose=0,
    )
    checksum = 0
    for variable in training_variables(lm):
        if not variable.path.endswith("eval_document"):  # counts passes
            value = keras.ops.convert_to_numpy(variable.value)
            checksum = zlib.crc32(value.tobytes(), checksum)
    report.write(json.dumps([history.history, checksum]) + "\n")


def run_process(folder, steps=None, place="between steps"):
    """Train in a process of its own that is killed.

    Args:
        folder: of the checkpoint.
        steps: after how many steps it is killed. None: never.
        place: where it is killed. `"between steps"`; `"within a step"`, the
            next one or the checkpoint before it; or a place in the file that
            the next checkpoint is written to, however many steps that takes.

    Returns:
        The lines that it told, and whether it was killed.
    """
    reading, writing = os.pipe()
    answers, answering = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        os.close(answering)
        status = 1
        try:
            if place in PLACES:
                die_while_writing(place)
            with open(writing, "w") as report:
                train(folder, report, answers)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    os.close(answers)
    lines = []
    with open(reading) as report:
        for line in report:
            lines.append(line)
            dies = len(lines) == steps and place not in PLACES
            if not dies or place == "within a step":
                os.write(answering, b".")
            if dies:
                os.kill(process, signal.SIGKILL)
    os.close(answering)
    _, status = os.waitpid(process, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and status:
        sys.exit(f"a process failed: {status}")
    return lines, killed


def as_losses(lines):
    return [line.split() for line in lines if not line.startswith("[")]


def main(folder, num_kills, seed):
    lines, _ = run_process(folder / "whole")
    whole = {"steps": as_losses(lines), "end": json.loads(lines[-1])}
    rng = random.Random(seed)
    kills, steps = [], []
    for number in range(num_kills):
        place = ("between steps", "within a step", PLACES[number // 3 % 3])[
            number % 3
        ]
        lines, was_killed = run_process(
            folder / "killed", rng.randint(1, 5), place
        )
        if not was_killed:
            sys.exit(f"complete after {number} kills")
        steps += as_losses(lines)
        kills.append(f"{place}, after {len(lines)} steps")
    lines, _ = run_process(folder / "killed")
    steps += as_losses(lines)
    killed = {"steps": steps, "end": json.loads(lines[-1])}
    print(json.dumps({"whole": whole, "killed": killed, "kills": kills}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
