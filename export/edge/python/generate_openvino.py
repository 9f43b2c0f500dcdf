"""The same in OpenVINO, which keeps the memory itself (a stateful model).

    pip install numpy openvino
    python generate_openvino.py MODEL_FOLDER --prompt "Once upon a time"

MODEL_FOLDER is what `keras-txl export onnx MODEL --flavour hidden` wrote. The
memory is no input any more: it stays in the device until it is saved.
"""

import os
import sys
import zipfile
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import _offline_transformations as transformations
from texts import Text
from transformer_xl import Random
from transformer_xl import draw
from transformer_xl import parse_arguments
from transformer_xl import read_manifest
from transformer_xl import sampling_of
from transformer_xl import say

STATES = {"memory": "new_memory", "memory_length": "new_memory_length"}


class StatefulModel:
    """One stream in OpenVINO.

    Args:
        folder: with `model.onnx` and `manifest.json`.
        seed: int. Of the random numbers.
        num_threads: int. 0: as OpenVINO likes.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        seed: int = 0,
        num_threads: int = 0,
    ) -> None:
        self.manifest = read_manifest(Path(folder), "hidden")
        told = self.manifest["model"]
        self.vocabulary_size = told["vocabulary_size"]
        model = openvino.Core().read_model(str(Path(folder, "model.onnx")))
        slots = [1, told["num_layers"], told["memory_length"]]
        model.reshape(
            {
                "token_ids": [1, -1],
                "token_length": [1],
                "memory": [*slots, told["hidden_dim"]],
                "memory_length": [1],
            }
        )
        transformations.apply_make_stateful_transformation(model, STATES)
        settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
        if num_threads:
            settings["INFERENCE_NUM_THREADS"] = num_threads
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        self.request = compiled.create_infer_request()
        self.random = Random(seed)
        self.unread: list[int] = []
        self.stops = set(self.manifest["sampling"]["stop_token_ids"])

    def read(self, token_ids: Sequence[int]) -> np.ndarray[Any, Any]:
        """Read a segment; the logits (V,) of the token that follows."""
        wrong = [i for i in token_ids if not 0 <= i < self.vocabulary_size]
        if wrong or not len(token_ids):
            raise ValueError(
                f"Token ids must be from 0 to {self.vocabulary_size - 1}, and "
                f"at least one. Received: {wrong[:1] or 'none'}."
            )
        self.request.infer(
            {
                "token_ids": np.array([token_ids], "int32"),
                "token_length": np.array([len(token_ids)], "int32"),
            }
        )
        return np.array(self.request.get_tensor("logits").data[0, -1])

    def generate_ids(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int | None = None,
        **sampling: Any,
    ) -> Iterator[int]:
        """Read a prompt, one token at a time, and say tokens for ever."""
        self.unread += prompt_ids
        said = 0
        while max_new_tokens is None or said < max_new_tokens:
            for token_id in self.unread or [-1]:
                logits = self.read([token_id])
            token_id = draw(logits, self.random, **sampling)
            self.unread = [token_id]
            if token_id in self.stops:
                return
            yield token_id
            said += 1

    def save_memory(self, path: Path) -> None:
        """Write the state of the stream, whole or not at all."""
        states = {
            f"state_{index}": state.state.data
            for index, state in enumerate(self.request.query_state())
        }
        partial = Path(f"{path}.partial")
        with partial.open("wb") as file:
            np.savez(
                file,
                weights=self.manifest["weights"],
                unread=self.unread,
                random=self.random.random,
                **states,
            )
        os.replace(partial, path)

    def load_memory(self, path: Path) -> None:
        """Read what `save_memory` wrote."""
        try:
            with zipfile.ZipFile(path):  # what is none, NumPy takes for pickle
                saved = dict(np.load(path, allow_pickle=False))
            weights, seed = str(saved["weights"]), int(saved["random"])
            unread = [int(token_id) for token_id in saved["unread"]]
            states = self.request.query_state()
            held = [saved[f"state_{index}"] for index in range(len(states))]
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"The memory file is damaged. Received: {str(path)!r} "
                f"({error}). Save it again, or begin without it."
            ) from error
        if weights != self.manifest["weights"]:
            raise ValueError(
                "The memory belongs to another model. Received: "
                f"{str(path)!r}. Use the model that wrote it."
            )
        for state, values in zip(states, held, strict=True):
            state.state = openvino.Tensor(values)
        self.unread, self.random = unread, Random(seed)


def main() -> None:
    """What the command line does."""
    options = parse_arguments()
    try:
        model = StatefulModel(options.folder, options.seed, options.threads)
        if options.load_memory:
            model.load_memory(options.load_memory)
        text = Text(options.folder, model.manifest)
        ids = text.encode(options.prompt)
        before = [*model.unread, *ids]
        said = model.generate_ids(ids, **sampling_of(options))
        say(text.decode_stream(said, before))
        if options.save_memory:
            model.save_memory(options.save_memory)
    except (ValueError, KeyError, OSError) as error:
        sys.exit(f"generate_openvino.py: {error}")


if __name__ == "__main__":
    main()
