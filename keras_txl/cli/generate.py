"""`keras-txl generate`: text that continues a prompt."""

import argparse
from pathlib import Path
from typing import Any

from keras_txl.cli.arguments import add_model_folder
from keras_txl.cli.arguments import add_seed
from keras_txl.cli.arguments import natural_number
from keras_txl.cli.arguments import positive_integer
from keras_txl.cli.arguments import probability
from keras_txl.cli.arguments import temperature
from keras_txl.cli.model_folder import find_model
from keras_txl.cli.model_folder import load_model

HELP = "continue a prompt"

DESCRIPTION = """\
Print the prompt and a text that continues it. The tokens are drawn from the
model's distribution; --top-k and --top-p cut off its tail, --temperature
below 1 sharpens it, and 0 always takes the likeliest token."""

EXAMPLES = """\
examples:
  keras-txl generate my_model --prompt "def main("
  keras-txl generate my_model --prompt-file start.txt --max-length 2000
"""

MORE_BYTES = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT", help="text to continue")
    prompt.add_argument(
        "--prompt-file",
        type=Path,
        metavar="FILE",
        help="file that holds the text to continue (UTF-8)",
    )
    parser.add_argument(
        "--max-length",
        type=positive_integer,
        metavar="N",
        help="bytes of prompt and continuation together "
        f"(default: {MORE_BYTES} more than the prompt)",
    )
    parser.add_argument(
        "--temperature",
        type=temperature,
        default=1.0,
        metavar="X",
        help="divides the logits; 0 takes the likeliest token",
    )
    parser.add_argument(
        "--top-k",
        type=positive_integer,
        metavar="N",
        help="draw from the N likeliest tokens only",
    )
    parser.add_argument(
        "--top-p",
        type=probability,
        metavar="P",
        help="draw from the likeliest tokens that hold probability P",
    )
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens (bytes) kept in memory (default: as the model was built)",
    )
    add_seed(parser)


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    find_model(options.model)
    size = len(_prompt(options).encode())
    if options.max_length is not None and options.max_length <= size:
        raise ValueError(
            "--max-length counts the prompt and must be longer. Received: "
            f"--max-length {options.max_length} for a prompt of {size} bytes. "
            f"Use --max-length {size + MORE_BYTES} for {MORE_BYTES} more."
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    prompt = _prompt(options)
    max_length = options.max_length or len(prompt.encode()) + MORE_BYTES
    lm = load_model(options.model, options.memory_length)
    sampler = make_sampler(
        options.seed, options.temperature, options.top_k, options.top_p
    )
    print(continue_text(lm, prompt, max_length, sampler))


def make_sampler(
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Any:
    """The KerasHub sampler for the settings of the command line."""
    from keras_hub import samplers

    if temperature == 0 or top_k == 1:
        return samplers.GreedySampler()
    if top_p is not None:
        return samplers.TopPSampler(
            p=top_p, k=top_k, seed=seed, temperature=temperature
        )
    if top_k is not None:
        return samplers.TopKSampler(k=top_k, seed=seed, temperature=temperature)
    return samplers.RandomSampler(seed=seed, temperature=temperature)


def continue_text(lm: Any, prompt: str, max_length: int, sampler: Any) -> str:
    """The prompt and its continuation, `max_length` bytes together."""
    lm.compile(sampler=sampler)
    return lm.generate(prompt, max_length=max_length)


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt_file is None:
        prompt = options.prompt
    else:
        try:
            prompt = options.prompt_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                "--prompt-file must be a readable UTF-8 text. Received: "
                f"{str(options.prompt_file)!r} ({error}). Pass another file "
                "or use --prompt."
            ) from error
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "--prompt must be UTF-8 text. Received: bytes that are not. Check "
            "the encoding of the terminal, or use --prompt-file."
        ) from error
    if not prompt:
        raise ValueError(
            "The prompt must have at least one byte. Received: an empty one. "
            'Pass for example --prompt "The "'
        )
    return prompt
