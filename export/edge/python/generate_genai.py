"""The same in ONNX Runtime GenAI, whose own loop samples.

    pip install numpy onnxruntime-genai
    python generate_genai.py MODEL_FOLDER --prompt "Once upon a time"

MODEL_FOLDER is what `keras-txl export onnx MODEL --flavour kv` wrote. GenAI
keeps the keys and values of the whole text. What a token depends on reaches
back L x M tokens and no further, so the text starts anew from these before it
gets too long, and they are all that a saved stream holds: the same tokens
follow.
"""

import json
import os
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime_genai
from texts import Text
from transformer_xl import check_sampling
from transformer_xl import parse_arguments
from transformer_xl import read_manifest
from transformer_xl import sampling_of
from transformer_xl import say

SEEDS = 2**31  # to GenAI, -1 means another seed each time


class GenerativeStream:
    """One stream in ONNX Runtime GenAI.

    Args:
        folder: with `model.onnx`, `manifest.json` and `genai_config.json`.
        seed: int. Of GenAI's own random numbers.
        longest: int. Tokens after which the text starts anew. Defaults to
            twice its reach.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        seed: int = 0,
        longest: int | None = None,
    ) -> None:
        self.manifest = read_manifest(Path(folder), "kv")
        self.model = onnxruntime_genai.Model(str(folder))
        told = self.manifest["model"]
        self.vocabulary_size = told["vocabulary_size"]
        self.reach = told["num_layers"] * told["memory_length"] + 1
        self.longest = max(longest or 0, 2 * self.reach)
        self.seed = seed
        self.history: list[int] = []
        self.stops = set(self.manifest["sampling"]["stop_token_ids"])

    def generate_ids(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
    ) -> Iterator[int]:
        """Read a prompt and say one token after the other, for ever."""
        check_sampling(temperature, top_k, top_p)
        self.history = [*self.history, *prompt_ids]
        wrong = [i for i in self.history if not 0 <= i < self.vocabulary_size]
        if wrong or not self.history:
            raise ValueError(
                f"Token ids must be from 0 to {self.vocabulary_size - 1}, and "
                f"at least one. Received: {wrong[:1] or 'none'}."
            )
        settings = {
            "do_sample": temperature > 0,
            "temperature": temperature or 1.0,
            "top_k": min(top_k or self.vocabulary_size, self.vocabulary_size),
            "top_p": top_p,
            "random_seed": self.seed % SEEDS,
        }
        said = 0
        while True:
            self.history = self.history[-self.reach :]
            parameters = onnxruntime_genai.GeneratorParams(self.model)
            parameters.set_search_options(max_length=self.longest, **settings)
            generator = onnxruntime_genai.Generator(self.model, parameters)
            generator.append_tokens(np.array(self.history, "int32"))
            while len(self.history) < self.longest:
                if said == max_new_tokens:
                    return
                generator.generate_next_token()
                token_id = int(generator.get_next_tokens()[0])
                self.history.append(token_id)
                if token_id in self.stops:
                    return
                yield token_id
                said += 1
            self.seed += 1
            settings["random_seed"] = self.seed % SEEDS

    def save_memory(self, path: Path) -> None:
        """Write the state of the stream, whole or not at all."""
        told = {
            "weights": self.manifest["weights"],
            "history": self.history[-self.reach :],
            "seed": self.seed + 1,
        }
        partial = Path(f"{path}.partial")
        partial.write_text(json.dumps(told), "utf-8")
        os.replace(partial, path)

    def load_memory(self, path: Path) -> None:
        """Read what `save_memory` wrote."""
        try:
            told = json.loads(path.read_text("utf-8"))
            weights, seed = told["weights"], int(told["seed"])
            history = [int(token_id) for token_id in told["history"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"The memory file is damaged. Received: {str(path)!r} "
                f"({error}). Save it again, or begin without it."
            ) from error
        if weights != self.manifest["weights"]:
            raise ValueError(
                "The memory belongs to another model. Received: "
                f"{str(path)!r}. Use the model that wrote it."
            )
        self.history, self.seed = history, seed


def main() -> None:
    """What the command line does."""
    options = parse_arguments()
    try:
        stream = GenerativeStream(options.folder, options.seed)
        if options.load_memory:
            stream.load_memory(options.load_memory)
        text = Text(options.folder, stream.manifest)
        ids = text.encode(options.prompt)
        before = [*stream.history, *ids]
        said = stream.generate_ids(ids, **sampling_of(options))
        say(text.decode_stream(said, before))
        if options.save_memory:
            stream.save_memory(options.save_memory)
    except (ValueError, KeyError, OSError, RuntimeError) as error:
        sys.exit(f"generate_genai.py: {error}")


if __name__ == "__main__":
    main()
