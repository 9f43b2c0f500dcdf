"""Clients of an exported model: two readers at once, answers that get lost.

    python examples/serving_client.py
    python examples/serving_client.py --server http://localhost:8501

The server keeps nothing: memory travels with every request, so a session is
data in the client's hands. Two readers share one server and send their
segments in turn; every fifth answer is lost on its way and asked for again,
and no segment is read twice. A third one forgets after each segment.

Without `--server` the script trains a small byte model, exports it for
TensorFlow Serving and runs the files in its own process: the same requests,
no socket. With `--server` the model there must be one over bytes (gRPC if the
address has no `http://`; it needs `pip install 'keras-txl[serving]'`).

Expected output (TensorFlow; 45 seconds of one CPU core):

    first reader: 3.327 bits per byte
    second reader: 3.138 bits per byte
    first text, forgetful: 3.549 bits per byte
    228 requests, 45 answers lost
    a session is 49,156 bytes
    'def traes(self.her_for(self, ...
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

import keras_txl
from keras_txl.export import serving

SEGMENT_LENGTH = 32
BATCH_SIZE = 16

Arrays = dict[str, np.ndarray]


class LossyServer:
    """A server some of whose answers never arrive."""

    def __init__(self, server: serving.Server) -> None:
        self.server = server
        self.requests = self.lost = 0

    def predict(
        self, signature: str, inputs: Mapping[str, np.ndarray]
    ) -> Arrays:
        """Ask the server; every fifth answer is lost."""
        self.requests += 1
        answer = self.server.predict(signature, inputs)
        if self.requests % 5 == 0:
            self.lost += 1
            raise serving.ServerUnavailableError("the answer was lost")
        return answer


def export_model(
    folder: Path, corpus: keras_txl.data.Corpus, steps: int
) -> Path:
    """Train a small model and write it for a server."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=2,
        num_heads=4,
        hidden_dim=96,
        intermediate_dim=256,
        memory_length=2 * SEGMENT_LENGTH,
        batch_size=BATCH_SIZE,
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
        batch_size=BATCH_SIZE,
        segment_length=SEGMENT_LENGTH,
    )
    lm.fit(stream.repeat(), steps_per_epoch=steps, verbose=2)
    return keras_txl.export.export_saved_model(lm, folder / "model")


def connect(address: str | None, model: str, folder: Path) -> serving.Server:
    """The client for an address, or for files on this machine."""
    if address is None:
        return serving.LocalSavedModel(folder)
    if address.startswith("http"):
        return serving.TensorFlowServingRest(address, model)
    return serving.TensorFlowServingGrpc(address, model)


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--server", help="address, such as localhost:8500")
    parser.add_argument("--model", default="model", help="its name there")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--segments", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train and export, unless there is a server; then read."""
    options = parse_arguments()
    keras.utils.set_random_seed(options.seed)
    corpus = keras_txl.data.load_corpus("stdlib", max_bytes=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        if options.server is None:
            path = export_model(path, corpus, options.steps)
        lossy = LossyServer(connect(options.server, options.model, path))
        read(lossy, corpus, options.segments)


def read(
    server: LossyServer, corpus: keras_txl.data.Corpus, num_segments: int
) -> None:
    """Read held-out text in three sessions and tell what it cost."""
    longest = sorted(corpus.test, key=lambda document: -document.byte_ids.size)
    texts = [document.byte_ids for document in longest[:2]]
    sessions = {
        "first reader": (serving.StreamSession(server, wait=0.01), texts[0]),
        "second reader": (serving.StreamSession(server, wait=0.01), texts[1]),
        "first text, forgetful": (
            serving.StreamSession(server, wait=0.01),
            texts[0],
        ),
    }
    nats: dict[str, list[np.ndarray]] = {name: [] for name in sessions}
    for begin in range(0, num_segments * SEGMENT_LENGTH, SEGMENT_LENGTH):
        for name, (session, text) in sessions.items():
            segment = text[begin : begin + SEGMENT_LENGTH + 1]
            if len(segment) < 2:
                continue
            if "forgetful" in name:
                session.reset()
            nats[name].append(session.score([segment[:-1]], [segment[1:]])[0])
    for name, losses in nats.items():
        bits = np.concatenate(losses).mean() / np.log(2)
        print(f"{name}: {bits:.3f} bits per byte")
    print(f"{server.requests} requests, {server.lost} answers lost")
    size = sum(
        array.nbytes for array in sessions["first reader"][0].memory.values()
    )
    print(f"a session is {size:,} bytes")
    settings = {"max_new_tokens": 40, "temperature": 0.5, "seed": 1}
    print(repr(serving.generate_text(server, ["def "], **settings)[0]))


if __name__ == "__main__":
    main()
