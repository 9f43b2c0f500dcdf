"""ONNX at the edge: read and write text with ONNX Runtime and NumPy alone.

    pip install 'keras-txl[edge]'
    python examples/onnx_at_the_edge.py

The script trains a small byte model, exports it, and starts a second process
that knows nothing of Keras: it holds the model file and a ring of keys and
values whose size never changes, and reads one byte after the other. There it
measures a text with the ring and with one that is emptied every 16 bytes, as
a model without memory would have to, and writes a sample.

    python examples/onnx_at_the_edge.py --run FOLDER --text FILE

is that second process by itself.

Expected output (TensorFlow; 50 seconds of one CPU core):

    with the ring: 3.124 bits per byte, 1.27 ms a byte
    forgetful: 3.504 bits per byte, 1.18 ms a byte
    the ring: 98,304 bytes, after one byte or a million
    'def thaction that the def seroy: ...
    frameworks in this process: none

The times are of a busy machine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FORGETFUL = 16


def export_model(folder: Path, steps: int, seed: int) -> None:
    """Train a small model; write it and a text it has not seen."""
    import keras

    import keras_txl

    keras.utils.set_random_seed(seed)
    corpus = keras_txl.data.load_corpus("stdlib", max_bytes=1_000_000)
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=4,
        hidden_dim=96,
        intermediate_dim=256,
        memory_length=64,
        batch_size=16,
        dropout=0.0,
    )
    tokenizer = keras_txl.tokenizers.TransformerXLByteTokenizer()
    lm = keras_txl.models.TransformerXLCausalLM(
        backbone, keras_txl.models.TransformerXLCausalLMPreprocessor(tokenizer)
    )
    schedule = keras_txl.training.warmup_cosine_decay(
        3e-3, total_steps=steps, warmup_steps=steps // 10
    )
    lm.compile(
        optimizer=keras_txl.training.make_optimizer(
            "adam", schedule, global_clipnorm=1.0
        )
    )
    stream = keras_txl.data.SegmentStream(
        [document.byte_ids for document in corpus.train],
        batch_size=16,
        segment_length=64,
    )
    lm.fit(stream.repeat(), steps_per_epoch=steps, verbose=2)
    keras_txl.export.export_onnx(lm, folder / "model", "kv_ring")
    longest = max(corpus.test, key=lambda document: len(document.data))
    (folder / "text").write_bytes(longest.data)


class Stream:
    """A text that is read byte by byte, in a ring that never grows."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        model = json.loads((folder / "manifest.json").read_text())["model"]
        self.slots = model["memory_length"]
        shape = (1, model["num_heads"], self.slots, model["head_dim"])
        self.ring = {
            f"{layer}.{part}": np.zeros(shape, "float32")
            for layer in range(model["num_layers"])
            for part in ("key", "value")
        }
        self.position = self.length = 0

    def forget(self) -> None:
        """Begin anew; what the ring holds is not looked at any more."""
        self.length = 0

    def read(self, byte: int) -> np.ndarray:
        """Read a byte; log-probabilities (256,) of the next one."""
        logits, *new = self.session.run(
            ["logits", *(f"new.{name}" for name in self.ring)],
            {
                "input_ids": np.array([[byte]], "int64"),
                "position": np.array([self.position], "int64"),
                "length": np.array([self.length], "int64"),
                **{f"ring.{name}": rows for name, rows in self.ring.items()},
            },
        )
        for rows, row in zip(self.ring.values(), new, strict=True):
            rows[:, :, self.position % self.slots] = row[:, :, 0]
        self.position += 1
        self.length = min(self.length + 1, self.slots)
        scores = logits[0, 0] - logits.max()
        return np.asarray(scores - np.log(np.exp(scores).sum()))


def run(folder: Path, text: bytes) -> None:
    """What a device does: no Keras, no TensorFlow."""
    stream = Stream(folder)
    for name, every in (("with the ring", None), ("forgetful", FORGETFUL)):
        stream.forget()
        begin, nats = time.perf_counter(), 0.0
        for place in range(len(text) - 1):
            if every and place % every == 0:
                stream.forget()
            nats -= float(stream.read(text[place])[text[place + 1]])
        seconds = time.perf_counter() - begin
        bits = nats / np.log(2) / (len(text) - 1)
        print(
            f"{name}: {bits:.3f} bits per byte, "
            f"{seconds / len(text) * 1e3:.2f} ms a byte"
        )
    size = sum(rows.nbytes for rows in stream.ring.values())
    print(f"the ring: {size:,} bytes, after one byte or a million")

    stream.forget()
    rng = np.random.default_rng(0)
    said = bytearray(b"def ")
    for byte in said[:-1]:
        stream.read(byte)
    for _ in range(60):
        shares = np.exp(2.0 * stream.read(said[-1]))  # temperature 0.5
        said.append(int(rng.choice(256, p=shares / shares.sum())))
    print(repr(said.decode(errors="replace")))
    there = sorted({"keras", "tensorflow", "torch", "jax"} & set(sys.modules))
    print(f"frameworks in this process: {', '.join(there) or 'none'}")


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--bytes", type=int, default=4000, help="to read")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", type=Path, metavar="FOLDER")
    parser.add_argument("--text", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    """Export here, run in another process."""
    options = parse_arguments()
    if options.run is not None:
        run(options.run, options.text.read_bytes()[: options.bytes])
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        export_model(folder, options.steps, options.seed)
        command = [sys.executable, __file__, "--run", str(folder / "model")]
        command += ["--text", str(folder / "text")]
        command += ["--bytes", str(options.bytes)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
