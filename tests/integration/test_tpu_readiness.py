"""The training step of TensorFlow is one XLA program that needs no host.

XLA writes down every program that it compiles in a process; the training runs
in one of its own.
"""

import os
import re
import subprocess
import sys

import pytest

TRAINING = """
import keras
import numpy as np

from keras_txl.data import SegmentStream
from keras_txl.models import TransformerXLBackbone
from keras_txl.models import TransformerXLCausalLM

backbone = TransformerXLBackbone(
    40, 1, 2, 8, 16, memory_length=6, batch_size=2, cutoffs=[8, 20], div_val=2,
    dropout=0.1, attention_dropout=0.1, memory_dropout=0.1,
    attention_logit_cap=30.0, memory_layer_norm=True, head_diversity=0.1,
)
lm = TransformerXLCausalLM(backbone)
lm.compile(
    optimizer=keras.optimizers.AdamW(1e-3, global_clipnorm=0.25),
    jit_compile=True,
)
ids = np.random.default_rng(0).integers(0, 40, 1000)
# Documents begin in mid-segment, and both rows end in padding.
documents = np.split(ids, [150, 190, 193, 400, 777])
stream = SegmentStream(documents, batch_size=2, segment_length=8)
assert len(stream) > 50
history = lm.fit(stream, epochs=1, verbose=0).history
assert np.isfinite(history["loss"][0])
print(int(lm.optimizer.iterations), "steps")
"""

# What would move numbers between the device and its host in mid-step.
HOST = re.compile(r" (?:custom-call|infeed|outfeed|send|recv)(?:-done)?\(")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The HLO text of all programs of a training, by name."""
    folder = tmp_path_factory.mktemp("xla")
    flags = [
        f"--xla_dump_to={folder}",
        "--xla_dump_hlo_as_text",
        "--xla_backend_optimization_level=0",  # compiles faster
        "--xla_llvm_disable_expensive_passes=true",
    ]
    environment = {**os.environ, "XLA_FLAGS": " ".join(flags)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", TRAINING],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 50
    paths = folder.glob("*.before_optimizations.txt")
    return {path.name: path.read_text() for path in paths}


@pytest.mark.backend("tensorflow")
def test_more_than_fifty_steps_compile_one_program(programs):
    (name,) = programs
    assert "one_step_on_data" in name


@pytest.mark.backend("tensorflow")
def test_the_program_needs_no_host_and_has_static_shapes(programs):
    (text,) = programs.values()
    assert HOST.findall(text) == []
    assert "<=" not in text  # as in f32[<=8], a bound of a size
    # It is the whole step: memory, the largest table, its momenta.
    entry = text[text.index("ENTRY") :]
    parameters = re.findall(r"= (\S+?)(?:\{\S*\})? parameter\(", entry)
    assert parameters.count("f32[2,6,8]") == 1
    assert parameters.count("f32[20,2]") == 3


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('%c = f32[2]{0} custom-call(%x), custom_call_target="py"', 1),
        ("%o = token[] outfeed(%x, %token)", 1),
        ("%s = (f32[2]{0}, u32[]) send(%x, %token), channel_id=1", 1),
        ("%a = f32[2]{0} add(%send, %recv)", 0),
    ],
)
def test_the_search_finds_what_needs_a_host(line, found):
    assert len(HOST.findall(line)) == found
