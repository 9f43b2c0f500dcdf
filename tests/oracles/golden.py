"""Golden vectors of two public implementations, in the oracle's terms.

A file holds a small random model (weights, configuration) and one stream cut
into segments with everything the model returned. `load_golden` puts all of
it batch first and under the names of `model_oracle.py`. Where the files come
from is told in `golden/README.md`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracles.golden_names import SCHEMES
from tests.oracles.golden_names import named_weights
from tests.oracles.model_oracle import Memory
from tests.oracles.model_oracle import OracleConfig
from tests.oracles.model_oracle import Weights
from tests.oracles.position_oracle import add_positions

FOLDER = Path(__file__).parent / "golden"

# Every file of the folder, by what a test can do with it.
NAMED = ("kim_default", "kim_nomem", "kim_prelnorm_memlong", "hf_default")
OTHERS = (
    "kim_clamp",
    "kim_headdim",
    "kim_memshort",
    "kim_onetoken",
    "kim_proj_tied_noadapt",
    "kim_reset_length_eval",
    "kim_same_length",
    "kim_same_length_memlong",
    "kim_same_length_memshort",
    "kim_untied_proj",
    "kim_varlen",
    "hf_empty_mems",
    "hf_nomem",
    "hf_same_length_clamp",
    "hf_same_length_memshort",
    "hf_untie_r",
    "hf_varlen_ignore",
)
POSITIONS = (
    "kim_attn1",
    "kim_attn1_clamp",
    "kim_attn1_longer_than_table",
    "kim_attn2_nomem",
    "kim_attn3_nomem",
)
ALL = NAMED + OTHERS + POSITIONS
# The original adds positions into its memory: see `golden/README.md`.
FIRST_SEGMENT = ("kim_attn2_mem", "kim_attn3_mem")
CURVES = ("curve_kim", "curve_hf")
# Blocks without a model around them: `tests/layers/test_block_golden.py`.
GARDEN = ("tfm_transformer_xl", "tfm_transformer_xl_untied")
ADAPTIVE = (
    "kim_adaptive_div1",
    "kim_adaptive_div1_proj",
    "kim_adaptive_div2",
    "kim_adaptive_div2_alltied",
    "kim_adaptive_div2_untied",
    "hf_adaptive_div1",
    "hf_adaptive_div1_proj",
    "hf_adaptive_div2",
    "hf_adaptive_div2_untied",
)
WITH_GRADIENTS = (
    "kim_default",
    "kim_nomem",
    "kim_prelnorm_memlong",
    "kim_clamp",
    "kim_headdim",
    "kim_same_length",
    "kim_untied_proj",
    "kim_attn1",
    "kim_attn2_nomem",
    "kim_attn3_nomem",
    "hf_default",
    "hf_untie_r",
)


@dataclass(frozen=True)
class GoldenSegment:
    """One segment: ids `(B, T)`, hidden `(B, T, D)`, losses `(B, T)` nats.

    `states` `(B, L, m, D)` is the memory after it, `attentions`
    `(B, L, N, T, m + T)` the attention probabilities, `log_probabilities`
    `(B, T, V)`; None where the file does not have it at this precision.
    `memory_length` is M from here on.
    """

    inputs: np.ndarray
    targets: np.ndarray
    hidden: np.ndarray
    losses: np.ndarray
    log_probabilities: np.ndarray | None
    attentions: np.ndarray | None
    states: np.ndarray | None
    memory_length: int


@dataclass(frozen=True)
class Golden:
    """A golden model. `first_states` is the memory before segment 0."""

    name: str
    arguments: dict[str, Any]
    config: OracleConfig
    weights: Weights
    segments: list[GoldenSegment]
    first_states: np.ndarray
    gradients: Weights
    gradient_segment: int | None

    @property
    def batch_size(self) -> int:
        return int(self.segments[0].inputs.shape[0])

    @property
    def memory_length(self) -> int:
        return self.segments[0].memory_length

    @property
    def max_distance(self) -> int | None:
        """Rows of a learned table, if there is one."""
        for name in ("layer_0.distance_keys", "layer_0.positions"):
            if name in self.weights:
                return len(self.weights[name])
        return None

    def initial_memory(self) -> Memory:
        """The memory before segment 0 as a value of M slots."""
        return to_memory(self.first_states, self.memory_length)


@dataclass(frozen=True)
class Curve:
    """A model trained for some steps, memory carried from step to step.

    `inputs` and `targets` are `(steps, B, T)`; `losses` holds the mean loss
    of each step before its update, in float64, by the optimizer's name.
    """

    arguments: dict[str, Any]
    config: OracleConfig
    weights: Weights
    memory_length: int
    inputs: np.ndarray
    targets: np.ndarray
    optimizers: dict[str, dict[str, Any]]
    losses: dict[str, np.ndarray]


def with_positions(model: Golden, states: np.ndarray) -> np.ndarray:
    """Memory `(B, L, M, D)` as attn_type 2 and 3 of the original hold it.

    It stores what a layer reads, positions of the segment included.
    """
    stored = states.astype(np.float64)
    for layer in range(model.config.num_layers):
        for row in stored[:, layer]:
            _, row[:] = add_positions(
                model.config.position,
                model.config.clamp_length,
                lambda name, layer=layer: model.weights[
                    f"layer_{layer}.{name}"
                ].astype(np.float64),
                layer,
                [],
                list(row),
            )
    return stored


def load_curve(name: str) -> Curve:
    """Read a training curve: start weights, data and losses."""
    raw = _read(name)
    config = json.loads(str(raw["config"]))
    arguments = config["ctor"]
    shape = (config["steps"], config["tgt_len"], config["batch"])
    stream = raw["stream"]  # time-major, (steps * T + 1, B)
    optimizers = {entry.pop("name"): entry for entry in config["optimizers"]}
    return Curve(
        arguments=arguments,
        config=_oracle_config(config),
        weights=named_weights(_below("w/", raw), arguments),
        memory_length=arguments["mem_len"],
        inputs=stream[:-1].reshape(shape).swapaxes(1, 2),
        targets=stream[1:].reshape(shape).swapaxes(1, 2),
        optimizers=optimizers,
        losses={key: raw[f"{key}/losses_f64"] for key in optimizers},
    )


def to_memory(states: np.ndarray, memory_length: int) -> Memory:
    """A memory value of M slots from the `(B, L, m, D)` that is known.

    The slots are on the right and all valid; a file's zeros that were
    attended are valid slots as well. All belong to document 0.
    """
    batch_size, num_layers, known, hidden_dim = states.shape
    slots = np.zeros((batch_size, num_layers, memory_length, hidden_dim))
    slots[:, :, memory_length - known :] = states
    document = 0 if known else -1
    return {
        "states": slots,
        "length": np.full(batch_size, known, dtype=np.int32),
        "document": np.full(batch_size, document, dtype=np.int32),
    }


def load_golden(name: str, precision: str = "float32") -> Golden:
    """Read one file.

    Args:
        name: name of the file without its ending.
        precision: "float32", or "float64" for the arrays of the second run.
    """
    raw = _read(name)
    config = json.loads(str(raw["config"]))
    arguments = config["ctor"]
    is_kim = _is_kim(config)
    prefix = "f64/" if precision == "float64" else ""
    num_layers = arguments["n_layer"]

    def rows(key: str) -> np.ndarray | None:
        array = raw.get(key)
        # The original is time-major.
        return array.swapaxes(0, 1) if array is not None and is_kim else array

    def states(key: str) -> np.ndarray | None:
        array = raw.get(key)
        # (L or L + 1, m, B, D); the original's last entry is never read.
        return (
            None if array is None else array[:num_layers].transpose(2, 0, 1, 3)
        )

    segments = []
    memory_length = arguments["mem_len"]
    for k in range(len(config["tgt_lens"])):
        changed = config.get("reset_length", {}).get(str(k))
        if changed:
            memory_length = changed[2]
        segments.append(
            GoldenSegment(
                inputs=rows(f"s{k}/input"),
                targets=rows(f"s{k}/target"),
                hidden=rows(f"{prefix}s{k}/hidden"),
                losses=rows(f"{prefix}s{k}/nll"),
                log_probabilities=rows(f"{prefix}s{k}/logprobs"),
                attentions=_batch_first(raw.get(f"s{k}/attentions")),
                states=states(f"{prefix}s{k}/mems_out"),
                memory_length=memory_length,
            )
        )
    weights = named_weights(_below("w/", raw), arguments)
    return Golden(
        name=name,
        arguments=arguments,
        config=_oracle_config(config),
        weights=weights,
        segments=segments,
        first_states=states(f"{prefix}s0/mems_in"),
        gradients=named_weights(_below("grad/", raw), arguments),
        gradient_segment=config.get("grads", {}).get("segment"),
    )


def _read(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _is_kim(config: dict[str, Any]) -> bool:
    return config["kind"] in ("kimiyoung_pytorch", "training_curve_kim")


def _oracle_config(config: dict[str, Any]) -> OracleConfig:
    arguments = config["ctor"]
    return OracleConfig(
        num_layers=arguments["n_layer"],
        attention_window=(
            "memory_length" if arguments["same_length"] else None
        ),
        clamp_length=(
            arguments["clamp_len"] if arguments["clamp_len"] > 0 else None
        ),
        normalize_first=arguments["pre_lnorm"],
        attend_empty_memory=(
            not _is_kim(config) and not config.get("explicit_empty_mems", False)
        ),
        layer_norm_epsilon=arguments.get("layer_norm_epsilon", 1e-5),
        position=SCHEMES[arguments.get("attn_type", 0)],
    )


def _batch_first(attentions: np.ndarray | None) -> np.ndarray | None:
    return None if attentions is None else attentions.swapaxes(0, 1)


def _below(prefix: str, raw: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        key.removeprefix(prefix).removeprefix("transformer."): array
        for key, array in raw.items()
        if key.startswith(prefix)
    }
