"""A language model in NumPy that may have one fault of memory.

It reads token by token and reaches L x M tokens back, with memory as a value
or in two banks, like the models of the library. `faults` names what is wrong.

Axes: B rows, T segment, M memory slots, L layers, D hidden width.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from keras import ops

VOCABULARY, LAYERS, SLOTS, DIM = 11, 2, 3, 4

FAULTS = (
    "another row's memory",
    "one bank",
    "padding is remembered",
    "padding takes a slot",
    "a border is ignored",
    "equal ids reconnect",
    "a reset is missing",
    "memory is ignored",
    "the oldest slot is ignored",
    "memory of the second layer is ignored",
    "a gradient in memory",
    "a random loss",
)


class LeakyModel:
    """What `check_isolation` needs of a model.

    Args:
        fault: one of `FAULTS`, or `""`.
        rows: streams of the banks; `None`: no banks.
    """

    variables: list[Any] = []
    trainable_variables: list[Any] = []
    weights: list[Any] = []
    run_eagerly = True

    def __init__(self, fault: str = "", rows: int | None = 2) -> None:
        if fault and fault not in FAULTS:
            raise ValueError(fault)
        self.fault = fault
        self.memory_batch_size = rows
        self.rng = np.random.default_rng(5)
        self.table = self.rng.normal(size=(VOCABULARY, DIM))
        self.output = self.rng.normal(size=(DIM, VOCABULARY))
        self.mixing = self.rng.normal(size=(LAYERS, SLOTS, DIM, DIM))
        self.banks: dict[str, Any] = {}
        for bank in ("eval", "train"):
            self.banks[bank] = self.initial_memory(rows or 1)
        self.backbone = SimpleNamespace(
            vocabulary_size=VOCABULARY,
            num_layers=LAYERS,
            memory_length=SLOTS,
            attention_window=None,
            memory_layers=[SimpleNamespace(slots=lambda training: SLOTS)],
            attention_mask=SimpleNamespace(window=lambda slots, training: None),
            call_with_memory=self.call_with_memory,
        )

    def initial_memory(self, rows: int, slots: int = SLOTS) -> Any:
        return {
            "states": np.zeros((rows, LAYERS, slots, DIM), "float32"),
            # Of each slot, the run and the id of its document.
            "run": np.full((rows, slots), -1),
            "id": np.full((rows, slots), -2),
        }

    def reset_memory(self, bank: str) -> None:
        if self.fault != "a reset is missing":
            rows = self.memory_batch_size or 1
            self.banks[bank] = self.initial_memory(rows)

    def logits(self, inputs: Any, training: bool) -> Any:
        bank = "train" if training and self.fault != "one bank" else "eval"
        hidden, self.banks[bank] = self.read(inputs, self.banks[bank])
        return hidden @ self.output

    def token_losses(self, inputs: Any, targets: Any, memory: Any) -> Any:
        memory = {key: np.asarray(value) for key, value in memory.items()}
        hidden, memory = self.read(inputs, memory)
        scores = hidden @ self.output
        total = np.log(np.exp(scores).sum(axis=-1))
        chosen = np.take_along_axis(scores, targets[..., None], axis=-1)
        return total - chosen[..., 0], memory

    def call_with_memory(self, inputs: Any, memory: Any, training: bool) -> Any:
        """Only its gradient matters."""
        states = memory["states"]
        if self.fault != "a gradient in memory":
            states = ops.stop_gradient(states)
        return ops.sum(states, axis=(1, 2)), {"states": states}

    def read(self, inputs: Any, memory: Any) -> Any:
        ids, documents = inputs["token_ids"], inputs["document_ids"]
        memory = {key: value.copy() for key, value in memory.items()}
        if self.fault == "another row's memory":
            memory["states"] = np.roll(memory["states"], 1, axis=0)
        hidden = np.zeros((*ids.shape, DIM))
        for row, token in np.ndindex(*ids.shape):
            one = {key: value[row] for key, value in memory.items()}
            hidden[row, token] = self.step(
                int(ids[row, token]), int(documents[row, token]), one
            )
        if self.fault == "a random loss":
            hidden += self.rng.normal(size=hidden.shape)
        return hidden, memory

    def step(self, token: int, document: int, memory: Any) -> Any:
        """Read one token of one row; its memory is changed in place."""
        x = self.table[token]
        if document < 0:
            if self.fault == "padding is remembered":
                remember(memory, np.stack([x] * LAYERS), memory["run"][-1], 0)
            if self.fault == "padding takes a slot":
                zeros = np.zeros((LAYERS, DIM))
                remember(memory, zeros, memory["run"][-1], memory["id"][-1])
            return np.zeros(DIM)
        last = memory["run"][-1]
        border = memory["id"][-1] != document
        run = last + 1 if border else last
        seen = memory["run"] == run
        if self.fault == "a border is ignored":
            seen = memory["run"] >= 0
        if self.fault == "equal ids reconnect":
            seen = memory["id"] == document
        if self.fault == "memory is ignored":
            seen[:] = False
        if self.fault == "the oldest slot is ignored":
            seen[0] = False
        inputs = []
        for layer, states in enumerate(memory["states"]):
            inputs.append(x)
            update = np.einsum("mde,me,m->d", self.mixing[layer], states, seen)
            if self.fault.startswith("memory of the second") and layer == 1:
                update *= 0
            x = np.tanh(x + update)
        remember(memory, np.stack(inputs), run, document)
        return x


def remember(memory: Any, states: Any, run: int, document: int) -> None:
    """Shift one token's inputs `(L, D)` into the memory of a row."""
    for key, value in (("states", states), ("run", run), ("id", document)):
        place = memory[key]
        axis = 1 if key == "states" else 0
        place[:] = np.roll(place, -1, axis=axis)
        place[(slice(None), -1) if axis else -1] = value
