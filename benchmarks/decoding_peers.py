"""What joins the turns of other implementations in `bench_decoding.py`.

The script of the peers loads this file (`--plugin`) and gives each entry of
`PEERS` its turns: `keras_txl_BACKEND` is this package, and `*_rows` are the
script's own peers with `batch` rows instead of one. A step gives out
`tokens_per_step` tokens, those of all rows.
"""

import os
import sys
from typing import Any

TOKENS_PER_CALL = 16


class GenerateStream:
    """`generate_stream`, greedy, on a full memory."""

    def __init__(self, config: dict[str, Any], backend: str) -> None:
        os.environ["KERAS_BACKEND"] = backend
        import keras
        import numpy as np

        import keras_txl

        rows = config["batch"]
        backbone = keras_txl.models.TransformerXLBackbone(
            vocabulary_size=config["vocab"],
            num_layers=config["n_layer"],
            num_heads=config["n_head"],
            head_dim=config["d_head"],
            hidden_dim=config["d_model"],
            intermediate_dim=config["d_inner"],
            memory_length=config["mem_len"],
            dropout=0.0,
        )
        lm = keras_txl.models.TransformerXLCausalLM(backbone)
        generator = np.random.default_rng(0)
        self.stream = lm.generate_stream(
            generator.integers(config["vocab"], size=(rows, config["mem_len"])),
            sampler="greedy",
            stop_token_ids=None,
            tokens_per_call=TOKENS_PER_CALL,
        )
        self.tokens_per_step = rows * TOKENS_PER_CALL
        self.version = f"keras {keras.__version__} on {backend}"
        self.n_params = backbone.count_params()

    def step(self) -> None:
        next(self.stream)


def torch_rows(base: Any) -> Any:
    """A peer on PyTorch with `batch` rows."""

    class Rows(base):
        state: Any

        def __init__(self, config: dict[str, Any], mode: str) -> None:
            super().__init__(config, mode)
            self.rows_per_step = self.tokens_per_step
            self.tokens_per_step *= config["batch"]

        def prefill(self) -> None:
            rows, slots = self.c["batch"], self.c["mem_len"]
            self.tok = self.t.zeros(rows, 1, dtype=self.t.long)
            if hasattr(self, "wrap"):  # it reads its prompt in each step
                shape = (rows, slots + self.c["tgt_len"])
                self.prompt = self.t.randint(0, self.c["vocab"], shape)
                return
            with self.t.no_grad():
                for _ in range(-(-slots // 64)):
                    ids = self.t.randint(0, self.c["vocab"], (rows, 64))
                    _, self.state = self.logits(ids, self.state)

        def step(self) -> None:
            if not hasattr(self, "wrap"):
                super().step()
                return
            self.wrap.generate(self.prompt, self.rows_per_step, temperature=0.0)

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


def _peers() -> dict[str, tuple[str, Any]]:
    python = os.environ.get("KERAS_TXL_PYTHON", sys.executable)
    peers: dict[str, tuple[str, Any]] = {
        f"keras_txl_{backend}": (
            python,
            lambda config, mode, backend=backend: GenerateStream(
                config, backend
            ),
        )
        for backend in ("tensorflow", "jax", "torch")
    }
    for name, (kind, base) in sys.modules["peers"].PEERS.items():
        if not name.startswith("gem"):  # bounds of other kinds
            rows = torch_rows if kind == "torch" else tensorflow_rows
            peers[f"{name}_rows"] = (kind, rows(base))
    return peers


PEERS = _peers()
