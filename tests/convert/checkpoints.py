"""Golden files as checkpoints: the configuration and weights they hold."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_txl import convert
from tests import tolerances
from tests.oracles import golden
from tests.tolerances import assert_close
from tests.tolerances import to_numpy


@dataclass(frozen=True)
class Segment:
    """Ids and losses of one segment, `(B, T)`, and M from here on."""

    inputs: np.ndarray
    targets: np.ndarray
    losses: np.ndarray
    memory_length: int


@dataclass(frozen=True)
class Checkpoint:
    """What a golden file says about the model it was made with."""

    name: str
    config: dict[str, Any]
    weights: dict[str, np.ndarray]
    segments: list[Segment]

    @property
    def is_original(self) -> bool:
        return self.name.startswith("kim_")

    @property
    def batch_size(self) -> int:
        return self.segments[0].inputs.shape[0]

    def convert(self, config: Any = None, weights: Any = None, **overrides):
        """The model, by the converter for its kind."""
        converter = (
            convert.from_original_pytorch
            if self.is_original
            else convert.from_huggingface
        )
        config = self.config if config is None else config
        return converter(
            config, self.weights if weights is None else weights, **overrides
        )


def read_checkpoint(name: str) -> Checkpoint:
    """The checkpoint that a golden file holds."""
    path = golden.FOLDER / f"{name}.npz"
    with np.load(path, allow_pickle=False) as archive:
        raw = {key: archive[key] for key in archive.files}
    config = json.loads(str(raw["config"]))
    time_major = config["kind"] == "kimiyoung_pytorch"

    def rows(key: str) -> np.ndarray:
        return raw[key].T if time_major else raw[key]

    segments = []
    memory_length = config["ctor"]["mem_len"]
    for k in range(len(config["tgt_lens"])):
        changed = config.get("reset_length", {}).get(str(k))
        memory_length = changed[2] if changed else memory_length
        segments.append(
            Segment(
                inputs=rows(f"s{k}/input"),
                targets=rows(f"s{k}/target"),
                losses=rows(f"s{k}/nll"),
                memory_length=memory_length,
            )
        )
    return Checkpoint(
        name=name,
        config=config["ctor"],
        weights={
            key.removeprefix("w/"): array
            for key, array in raw.items()
            if key.startswith("w/")
        },
        segments=segments,
    )


def assert_losses(lm: Any, segments: list[Segment], what: str) -> None:
    """Fail unless the model has the losses of every segment."""
    memory = lm.initial_memory(
        segments[0].inputs.shape[0], memory_length=segments[0].memory_length
    )
    for number, segment in enumerate(segments):
        memory = _with_slots(lm, memory, segment.memory_length)
        losses, memory = lm.token_losses(
            segment.inputs, segment.targets, memory
        )
        assert_close(
            losses,
            segment.losses,
            tolerances.FLOAT32,
            f"{what}, segment {number}: losses",
        )


def _with_slots(lm, memory, memory_length):
    """The same memory with more slots, as `reset_length` makes it."""
    states = to_numpy(memory["states"])
    if states.shape[2] == memory_length:
        return memory
    slots = to_numpy(
        lm.initial_memory(len(states), memory_length=memory_length)["states"]
    ).copy()
    slots[:, :, memory_length - states.shape[2] :] = states
    return {**memory, "states": ops.convert_to_tensor(slots)}
