"""Endless text from an exported Transformer-XL, without Keras or TensorFlow.

    pip install numpy onnxruntime
    python transformer_xl.py MODEL_FOLDER --prompt "Once upon a time"

MODEL_FOLDER is what `keras-txl export onnx MODEL --flavour kv_ring` wrote.
Every token costs the same, and the memory of a stream has one size for ever.
A stream saved by this driver goes on in the JavaScript driver, and back.

Axes: B = 1 row, V vocabulary, M memory slots, N heads, H head width.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from texts import Text

FORMAT = 1
MAGIC = b"keras_txl memory\n"

Array = np.ndarray[Any, Any]


class Random:
    """Numbers that are the same in every driver (mulberry32).

    Attributes:
        random: the state, 32 bits.
    """

    def __init__(self, seed: int) -> None:
        self.random = seed & 0xFFFFFFFF

    def next_random(self) -> float:
        """A number from [0, 1)."""
        self.random = (self.random + 0x6D2B79F5) & 0xFFFFFFFF
        mixed = self.random
        mixed = ((mixed ^ (mixed >> 15)) * (mixed | 1)) & 0xFFFFFFFF
        inner = ((mixed ^ (mixed >> 7)) * (mixed | 61)) & 0xFFFFFFFF
        mixed ^= (mixed + inner) & 0xFFFFFFFF
        return (mixed ^ (mixed >> 14)) / 2**32


class Memory(Random):
    """What a stream remembers: a ring of keys and values, and where it is.

    Attributes:
        position: tokens read so far.
        length: slots of the ring that hold a token.
        ring: float32 arrays (1, N, M, H): key and value of each layer.
        unread: ids that were said but not read yet.
    """

    def __init__(self, shape: Sequence[int], count: int, seed: int) -> None:
        super().__init__(seed)
        self.position = self.length = 0
        self.ring = [np.zeros(shape, "float32") for _ in range(count)]
        self.unread: list[int] = []


class TransformerXL:
    """A model in ONNX Runtime.

    Args:
        folder: with `model.onnx` and `manifest.json`.
        num_threads: int. 0: as many as there are cores.

    Raises:
        ValueError: if the folder does not hold such a model, or not all of it.
    """

    def __init__(
        self, folder: str | os.PathLike[str], num_threads: int = 0
    ) -> None:
        import onnxruntime

        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder, "kv_ring")
        model = self.manifest["model"]
        self.vocabulary_size: int = model["vocabulary_size"]
        self.memory_length: int = model["memory_length"]
        self.slots = (1, model["num_heads"], self.memory_length)
        self.slots += (model["head_dim"],)
        self.names = [
            f"{layer}.{part}"
            for layer in range(model["num_layers"])
            for part in ("key", "value")
        ]
        self.stops = set(self.manifest["sampling"]["stop_token_ids"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        self.session = onnxruntime.InferenceSession(
            str(self.folder / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )

    def new_memory(self, seed: int = 0) -> Memory:
        """The memory of a stream that has read nothing."""
        return Memory(self.slots, len(self.names), seed)

    def read(self, token_ids: Sequence[int], memory: Memory) -> Array:
        """Read tokens, one after the other.

        Args:
            token_ids: ids, at least one.
            memory: advances.

        Returns:
            Logits (V,) of the token that follows.

        Raises:
            ValueError: if an id is out of range or there is none.
        """
        wrong = [i for i in token_ids if not 0 <= i < self.vocabulary_size]
        if wrong or not len(token_ids):
            raise ValueError(
                f"Token ids must be from 0 to {self.vocabulary_size - 1}, and "
                f"at least one. Received: {wrong[:1] or 'none'}."
            )
        for token_id in token_ids:
            logits, *new = self.session.run(
                ["logits", *(f"new.{name}" for name in self.names)],
                {
                    "input_ids": np.array([[token_id]], "int64"),
                    "position": np.array([memory.position], "int64"),
                    "length": np.array([memory.length], "int64"),
                    **{
                        f"ring.{name}": rows
                        for name, rows in zip(
                            self.names, memory.ring, strict=True
                        )
                    },
                },
            )
            slot = memory.position % self.memory_length
            for rows, row in zip(memory.ring, new, strict=True):
                rows[:, :, slot] = row[:, :, 0]
            memory.position += 1
            memory.length = min(memory.length + 1, self.memory_length)
        return np.asarray(logits[0, 0])

    def generate_ids(
        self,
        prompt_ids: Sequence[int],
        memory: Memory,
        max_new_tokens: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
    ) -> Iterator[int]:
        """Read a prompt and say one token after the other, for ever.

        Args:
            prompt_ids: may be empty if the memory has an unread token.
            memory: advances; it may be saved between any two tokens.
            max_new_tokens: int. `None`: no end.
            temperature: float. 0 takes the most likely token each time.
            top_k: int. Draw from this many tokens. 0: from all.
            top_p: float. Draw from the fewest tokens that have this share.

        Yields:
            Token ids, until a stop token.
        """
        memory.unread = [*memory.unread, *prompt_ids]
        said = 0
        while max_new_tokens is None or said < max_new_tokens:
            logits = self.read(memory.unread, memory)
            token_id = draw(logits, memory, temperature, top_k, top_p)
            memory.unread = [token_id]
            if token_id in self.stops:
                return
            yield token_id
            said += 1

    def generate(
        self, prompt: str, memory: Memory, **sampling: Any
    ) -> Iterator[str]:
        """The same with text; arguments as of `generate_ids`."""
        text = Text(self.folder, self.manifest)
        ids = text.encode(prompt)
        before = [*memory.unread, *ids]
        said = self.generate_ids(ids, memory, **sampling)
        yield from text.decode_stream(said, before)

    def save_memory(self, path: str | os.PathLike[str], memory: Memory) -> None:
        """Write a memory, whole or not at all."""
        header = {
            "format": FORMAT,
            "weights": self.manifest["weights"],
            "shape": self.slots,
            "count": len(self.names),
            "position": memory.position,
            "length": memory.length,
            "unread": [int(token_id) for token_id in memory.unread],
            "random": memory.random,
        }
        partial = Path(f"{os.fspath(path)}.partial")
        with partial.open("wb") as file:
            file.write(MAGIC + json.dumps(header).encode() + b"\n")
            for rows in memory.ring:
                file.write(rows.astype("<f4").tobytes())
        os.replace(partial, path)

    def load_memory(self, path: str | os.PathLike[str]) -> Memory:
        """Read a memory of this model.

        Raises:
            ValueError: if the file is damaged or of another model.
        """
        data = Path(path).read_bytes()
        try:
            if not data.startswith(MAGIC):
                raise ValueError("no memory file")
            end = data.index(b"\n", len(MAGIC))
            header = json.loads(data[len(MAGIC) : end])
            shape, count = tuple(header["shape"]), header["count"]
            size = int(np.prod(shape))
            values = np.frombuffer(data[end + 1 :], "<f4")
            if header["format"] != FORMAT or values.size != size * count:
                raise ValueError("cut short or of another format")
            weights, memory = (
                header["weights"],
                self.new_memory(header["random"]),
            )
            memory.position = int(header["position"])
            memory.length = int(header["length"])
            memory.unread = [int(token_id) for token_id in header["unread"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"The memory file is damaged. Received: {str(path)!r} "
                f"({error}). Save it again, or begin without it."
            ) from error
        wanted = (self.manifest["weights"], self.slots, len(self.names))
        if (weights, shape, count) != wanted:
            raise ValueError(
                "The memory belongs to another model. Received: "
                f"{str(path)!r} with weights {weights}. Use the "
                "model that wrote it, or begin without it."
            )
        memory.ring = [
            rows.copy() for rows in values.reshape(count, *shape).astype("f4")
        ]
        return memory


def check_sampling(temperature: float, top_k: int, top_p: float) -> None:
    """Refuse settings that mean nothing."""
    if not (temperature >= 0 and top_k >= 0 and 0 < top_p <= 1):
        raise ValueError(
            "temperature and top_k must be at least 0, top_p from (0, 1]. "
            f"Received: temperature={temperature}, top_k={top_k}, "
            f"top_p={top_p}."
        )


def draw(
    logits: Array, random: Random, temperature: float, top_k: int, top_p: float
) -> int:
    """One token id by the rules of `generate_ids`."""
    check_sampling(temperature, top_k, top_p)
    if temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")[: top_k or None]
    shares = logits[order].astype("float64") / temperature
    shares = np.exp(shares - shares[0])
    sums = np.cumsum(shares)
    kept = int(np.searchsorted(sums, top_p * sums[-1])) + 1
    sums = sums[:kept]
    place = np.searchsorted(sums, random.next_random() * sums[-1], "right")
    return int(order[min(int(place), len(sums) - 1)])


def read_manifest(folder: Path, flavour: str) -> dict[str, Any]:
    """The manifest of a model of this flavour, all its files whole."""
    try:
        manifest: dict[str, Any] = json.loads(
            (folder / "manifest.json").read_text("utf-8")
        )
        found = (manifest["format"], manifest["target"], manifest["flavour"])
        files = {
            name: told["sha256"] for name, told in manifest["files"].items()
        }
        files["model.onnx"]  # must be told
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            "The model folder must hold a manifest.json. Received: "
            f"{str(folder)!r} ({type(error).__name__}: {error}). Export with: "
            f"keras-txl export onnx MODEL --flavour {flavour} --output FOLDER"
        ) from error
    if found != (FORMAT, "onnx", flavour):
        raise ValueError(
            f"This driver runs the flavour {flavour} of format 1. Received: "
            f"{found}. Export with --flavour {flavour}."
        )
    for name, wanted in files.items():
        if not name.startswith("model.onnx"):
            continue
        digest = None
        if (folder / name).is_file():
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != wanted:
            raise ValueError(
                f"{name} must be as it was exported. Received: a file that is "
                "missing, cut short or another. Copy the folder again."
            )
    return manifest


def main() -> None:
    """What the command line does."""
    options = parse_arguments()
    try:
        model = TransformerXL(options.folder, options.threads)
        memory = model.new_memory(options.seed)
        if options.load_memory:
            memory = model.load_memory(options.load_memory)
        say(model.generate(options.prompt, memory, **sampling_of(options)))
        if options.save_memory:
            model.save_memory(options.save_memory, memory)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"transformer_xl.py: {error}")


def parse_arguments() -> argparse.Namespace:
    """The command line of every driver in Python."""
    parser = argparse.ArgumentParser(description="Text from an exported model.")
    parser.add_argument("folder", type=Path, metavar="MODEL_FOLDER")
    parser.add_argument("--prompt", help="(default: a new line)")
    parser.add_argument(
        "--length", type=natural_number, help="tokens (default: no end)"
    )
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument(
        "--top-k", type=natural_number, default=0, help="0: all"
    )
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument(
        "--seed", type=int, default=0, help="of a new memory (default: 0)"
    )
    parser.add_argument("--load-memory", type=Path, metavar="FILE")
    parser.add_argument("--save-memory", type=Path, metavar="FILE")
    parser.add_argument(
        "--threads", type=natural_number, default=0, help="0: all"
    )
    options = parser.parse_args()
    for path in (options.load_memory, options.save_memory):
        if path and not path.absolute().parent.is_dir():
            parser.error(f"the folder of a memory must exist: {path}")
    if options.prompt is None:
        options.prompt = "" if options.load_memory else "\n"
    return options


def natural_number(text: str) -> int:
    """A number on the command line that is not below 0."""
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0: {text}")
    return int(text)


def sampling_of(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of `generate_ids` on a command line."""
    return {
        "max_new_tokens": options.length,
        "temperature": options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
    }


def say(pieces: Iterator[str]) -> None:
    """Print text as it comes, until it ends, Ctrl-C, or nobody reads."""
    try:
        for text in pieces:
            print(text, end="", flush=True)
        print()
    except KeyboardInterrupt:
        print()
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
