"""What joins `keras_txl` to a script that measures other implementations.

Such a script starts each implementation in a process of its own and lets them
take turns. It loads this file (`--plugin`) and finds `PEERS`: a name, the
Python to run it with (`KERAS_TXL_PYTHON`, or this one) and a function of a
configuration and a mode, whose result has `tokens_per_step` and `step()`.

`keras_txl_*` are this package, on each backend and with each compiler;
`*_rows` are the script's own peers with `batch` rows in generation instead of
one.

A step of `train` is one `train_on_batch`: forward, backward and Adam, memory
carried, the loss back as a number; one of `eval` a segment as `evaluate_stream`
reads it, the losses back as numbers; one of `generate` a call of the stream
behind a full memory.
"""

import itertools
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

TOKENS_PER_CALL = 16
TOKENS_PER_STEP = 2  # of peers with rows, whose tokens can take seconds
BACKENDS = {
    "tensorflow": ("tensorflow", False),
    "tensorflow_xla": ("tensorflow", True),
    "jax": ("jax", True),
    "torch": ("torch", False),
    "torch_compile": ("torch", True),
}
"""Backend of Keras and `jit_compile`, by the name behind `keras_txl_`."""


class KerasTXL:
    """The model of a configuration, and one step in one of three modes.

    Args:
        config: of the script, and optionally `dtype`, a Keras policy.
        mode: `"train"`, `"eval"` or `"generate"`.
        variant: a name of `BACKENDS`.
    """

    def __init__(self, config: dict[str, Any], mode: str, variant: str) -> None:
        backend, jit_compile = BACKENDS[variant]
        os.environ["KERAS_BACKEND"] = backend
        use_threads(backend, int(os.environ.get("PEER_THREADS", "0")))
        import keras

        self.config, self.mode = config, mode
        self.version = f"keras {keras.__version__} on {variant}"
        keras.utils.set_random_seed(0)
        self.lm = make_model(config, mode)
        self.n_params = self.lm.count_params()
        self.lm.compile(
            keras.optimizers.Adam(1e-4),
            weighted_metrics=None,
            jit_compile=jit_compile,
        )
        modes = {
            "train": self.training,
            "eval": self.evaluation,
            "generate": self.generation,
        }
        self.step = modes[mode]()

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets of a batch, the next segment each time."""
        ids = self.config["data"]().astype("int32")  # (steps, B, T + 1)
        self.tokens_per_step = ids.shape[1] * (ids.shape[2] - 1)
        return itertools.cycle([(x[:, :-1], x[:, 1:]) for x in ids])

    def training(self) -> Callable[[], float]:
        """A step on a batch."""
        batches, run = self.batches(), self.lm.train_on_batch
        return lambda: float(run(*next(batches), return_dict=True)["loss"])

    def evaluation(self) -> Callable[[], float]:
        """The losses of a batch, as `evaluate_stream` computes them."""
        from keras import ops

        from keras_txl.evaluation import EvaluationProtocol
        from keras_txl.evaluation import segment_reader

        protocol = EvaluationProtocol(self.config["tgt_len"])
        read = segment_reader(self.lm, protocol)
        memory = self.lm.initial_memory(self.config["batch"])
        batches = self.batches()

        def step() -> float:
            nonlocal memory
            losses, memory = read(*next(batches), None, memory)
            return float(ops.convert_to_numpy(losses).mean())

        return step

    def generation(self) -> Callable[[], Any]:
        """A call of the stream, greedy, on a full memory."""
        import numpy as np

        rows, config = self.config.get("rows", 1), self.config
        stream = self.lm.generate_stream(
            np.random.default_rng(0).integers(
                config["vocab"], size=(rows, config["mem_len"])
            ),
            sampler="greedy",
            stop_token_ids=None,
            tokens_per_call=TOKENS_PER_CALL,
        )
        self.tokens_per_step = rows * TOKENS_PER_CALL
        return lambda: next(stream)


def make_model(config: dict[str, Any], mode: str) -> Any:
    """A language model of a configuration, with random weights."""
    import keras_txl

    return keras_txl.models.TransformerXLCausalLM(
        keras_txl.models.TransformerXLBackbone(
            vocabulary_size=config["vocab"],
            num_layers=config["n_layer"],
            num_heads=config["n_head"],
            head_dim=config["d_head"],
            hidden_dim=config["d_model"],
            intermediate_dim=config["d_inner"],
            memory_length=config["mem_len"],
            batch_size=None if mode == "generate" else config["batch"],
            cutoffs=config["cutoffs"] or None,
            dropout=config.get("dropout", 0.0),
            dtype=config.get("dtype"),
        )
    )


def use_threads(backend: str, count: int) -> None:
    """Let a backend use `count` threads; 0 leaves the choice to it."""
    if not count:
        return
    if backend == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(count)
        tf.config.threading.set_inter_op_parallelism_threads(count)
    elif backend == "torch":
        import torch

        torch.set_num_threads(count)


def torch_rows(base: Any) -> Any:
    """A peer on PyTorch with `batch` rows, a few tokens a step."""

    class Rows(base):
        state: Any
        tok: Any

        def __init__(self, config: dict[str, Any], mode: str) -> None:
            super().__init__(config, mode)
            self.tokens_per_step = TOKENS_PER_STEP * config["batch"]

        def prefill(self) -> None:
            rows, slots = self.c["batch"], self.c["mem_len"]
            self.tok = self.t.zeros(rows, 1, dtype=self.t.long)
            with self.t.no_grad():
                for _ in range(-(-slots // 64)):
                    ids = self.t.randint(0, self.c["vocab"], (rows, 64))
                    _, self.state = self.logits(ids, self.state)

        def step(self) -> None:
            with self.t.no_grad():
                for _ in range(TOKENS_PER_STEP):
                    logits, self.state = self.logits(self.tok, self.state)
                    self.tok = logits[:, -1].argmax(-1, keepdim=True)

    return Rows


def torch_rows_with_cache(base: Any) -> Any:
    """The peer that keeps keys and values of the segment it is in.

    This is the loop of the package's own `generate`, which reads its prompt in
    each call and a full segment once more; neither is counted here.
    """

    joined: Any = torch_rows(base)

    class Rows(joined):
        tok: Any
        segment: Any = None
        kept: Any = None

        def step(self) -> None:
            with self.t.no_grad():
                for _ in range(TOKENS_PER_STEP):
                    self.one_token()

        def one_token(self) -> None:
            length = 0 if self.segment is None else self.segment.shape[1]
            if length % self.c["tgt_len"]:
                self.segment = self.t.cat([self.segment, self.tok], dim=-1)
            else:
                if self.kept is not None:
                    self.state = self.kept.mems
                self.segment, self.kept = self.tok, None
            logits, self.kept = self.model(
                self.segment,
                mems=self.state,
                cache=self.kept,
                return_mems=True,
                return_intermediates=True,
            )
            self.tok = logits[:, -1].argmax(-1, keepdim=True)

    return Rows


def tensorflow_rows(base: Any) -> Any:
    """A peer on TensorFlow with `batch` rows.

    Its generation has one row; its evaluation of segments of one token does
    the same work and has any number.
    """

    class Rows(base):
        def __init__(self, config: dict[str, Any], mode: str) -> None:
            super().__init__({**config, "tgt_len": 1}, "eval")

    return Rows


def keras_txl_rows(variant: str) -> Callable[[dict[str, Any], str], Any]:
    """This package with `batch` rows in generation."""
    return lambda config, mode: KerasTXL(
        {**config, "rows": config["batch"]}, mode, variant
    )


def _peers() -> dict[str, tuple[str, Any]]:
    python = os.environ.get("KERAS_TXL_PYTHON", sys.executable)
    peers: dict[str, tuple[str, Any]] = {}
    for variant in BACKENDS:
        peers[f"keras_txl_{variant}"] = (
            python,
            lambda config, mode, variant=variant: KerasTXL(
                config, mode, variant
            ),
        )
        peers[f"keras_txl_{variant}_rows"] = (python, keras_txl_rows(variant))
    script = sys.modules.get("peers")  # none where only we are asked for
    for name, (kind, base) in getattr(script, "PEERS", {}).items():
        if not name.startswith("gem"):  # bounds of other kinds
            rows = torch_rows if kind == "torch" else tensorflow_rows
            if name == "x_transformers_kvcache":
                rows = torch_rows_with_cache
            peers[f"{name}_rows"] = (kind, rows(base))
    return peers


PEERS = _peers()
