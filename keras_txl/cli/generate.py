"""`keras-txl generate`: text that continues a prompt, as it comes."""

import argparse
import sys
from collections.abc import Iterator
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
from keras_txl.cli.model_folder import memory_length_of

HELP = "continue a prompt"

DESCRIPTION = """\
Print the prompt and a text that continues it, as it comes and at a cost that
does not grow with the text. The tokens are drawn from the model's
distribution; --top-k and --top-p cut off its tail, --temperature below 1
sharpens it, and 0 always takes the likeliest token. With --interactive, each
line of standard input is read by the model, which then goes on. Ctrl-C ends
the text, and --save-memory keeps what the model remembers."""

EXAMPLES = """\
examples:
  keras-txl generate my_model --prompt "def main("
  keras-txl generate my_model --prompt-file start.txt --max-length 2000
  keras-txl generate my_model --prompt "Once" --endless --save-memory tale
  keras-txl generate my_model --load-memory tale --max-new-tokens 1000
  keras-txl generate my_model --interactive --stop "." --top-k 5
"""

MORE_TOKENS = 400
TOKENS_PER_CALL = 8
"""Drawn before some text is shown: the fewer, the smoother and slower."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    add_model_folder(parser)
    _add_prompt_options(parser)
    _add_length_options(parser)
    _add_sampling_options(parser)
    _add_memory_options(parser)
    add_seed(parser)
    parser.set_defaults(usage_error=parser.error)


def _add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Where the text to continue comes from."""
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="text to continue")
    prompt.add_argument(
        "--prompt-file",
        type=Path,
        metavar="FILE",
        help="file that holds the text to continue (UTF-8); - is standard "
        "input",
    )
    parser.add_argument(
        "--interactive",
        action="store_true",
        help="read a line of standard input, go on, and again",
    )


def _add_length_options(parser: argparse.ArgumentParser) -> None:
    """Where the text ends."""
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--max-length",
        type=positive_integer,
        metavar="N",
        help="tokens (bytes) of prompt and continuation together",
    )
    length.add_argument(
        "--max-new-tokens",
        type=positive_integer,
        metavar="N",
        help=f"tokens (bytes) of the continuation, with --interactive of each "
        f"(default: {MORE_TOKENS})",
    )
    length.add_argument(
        "--endless", action="store_true", help="go on until Ctrl-C"
    )
    parser.add_argument(
        "--stop",
        metavar="TEXT",
        help="end the text, or the turn, before this token (byte)",
    )


def _add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a token is drawn."""
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


def _add_memory_options(parser: argparse.ArgumentParser) -> None:
    """What is remembered, and files of it."""
    parser.add_argument(
        "--memory-length",
        type=natural_number,
        metavar="N",
        help="tokens (bytes) kept in memory (default: as the model was built)",
    )
    parser.add_argument(
        "--load-memory",
        type=Path,
        metavar="FILE",
        help="go on from the memory in this file; the prompt follows it",
    )
    parser.add_argument(
        "--save-memory",
        type=Path,
        metavar="FILE",
        help="write the memory to this file in the end, and after Ctrl-C",
    )


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot work, before Keras is imported."""
    given = (options.prompt is not None, options.prompt_file is not None)
    if not any((*given, options.interactive, options.load_memory)):
        options.usage_error(
            "one of the arguments --prompt --prompt-file is required, or "
            "--interactive or --load-memory"
        )
    if options.interactive and str(options.prompt_file) == "-":
        options.usage_error("--interactive reads standard input itself")
    find_model(options.model)
    if options.load_memory and not options.load_memory.is_file():
        raise FileNotFoundError(
            "There is no such memory file. Received: "
            f"{str(options.load_memory)!r}. Write one with --save-memory."
        )
    if options.save_memory:
        _check_file_place(options.save_memory)
    options.prompt = _prompt(options) if any(given) else ""


def _check_file_place(path: Path) -> None:
    """A memory that cannot be written is lost: say so at once."""
    if path.is_dir() or not path.parent.is_dir():
        reason = "a folder" if path.is_dir() else "in a folder that is missing"
        raise ValueError(
            "--save-memory must be a file in a folder that exists. Received: "
            f"{str(path)!r}, which is {reason}. Choose another path."
        )


def run(options: argparse.Namespace) -> None:
    """Run the verb."""
    lm = load_model(options.model, options.memory_length)
    size = lm.backbone.vocabulary_size
    if options.top_k is not None and options.top_k > size:
        raise ValueError(
            f"--top-k must be at most {size}, the tokens of the model. "
            f"Received: --top-k {options.top_k}. Leave it out to draw from all."
        )
    sampler = make_sampler(
        options.seed, options.temperature, options.top_k, options.top_p
    )
    if not memory_length_of(lm) and not options.load_memory:
        _write_without_memory(lm, sampler, options)
        return
    past = None
    if options.load_memory:
        from keras_txl.generation import load_memory

        past = load_memory(options.load_memory, lm)
    stream = None
    try:
        for text in _turns(options):
            if stream is None:
                stream = lm.generate_stream(
                    text,
                    past,
                    sampler,
                    max_new_tokens=_max_new_tokens(lm, options),
                    stop_token_ids=_stop_token_ids(lm, options.stop),
                    tokens_per_call=TOKENS_PER_CALL,
                )
            else:
                stream.send_text(text)
            _show("" if options.interactive else text, stream)
    finally:
        if options.save_memory and stream is not None:
            from keras_txl.generation import save_memory

            save_memory(options.save_memory, stream.memory, lm)


def _turns(options: argparse.Namespace) -> Iterator[str]:
    """The prompt, and the lines of a dialogue."""
    if options.prompt or not options.interactive:
        yield options.prompt
    while options.interactive:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line


def _show(prompt: str, stream: Any) -> None:
    """Print a text as it comes; Ctrl-C waits for the end of a call."""
    from keras_txl.training.interrupts import DeferredSignals

    signals = DeferredSignals()
    signals.hold()
    try:
        print(prompt, end="", flush=True)
        for text in stream:
            print(text, end="", flush=True)
            if signals.received:
                break
        print(flush=True)
    finally:
        signals.release()
    signals.deliver()


def _max_new_tokens(lm: Any, options: argparse.Namespace) -> int | None:
    if options.endless:
        return None
    if options.max_length is None:
        return int(options.max_new_tokens or MORE_TOKENS)
    size = _length(lm, options.prompt)
    if options.max_length <= size:
        raise ValueError(
            "--max-length counts the prompt and must be longer. Received: "
            f"--max-length {options.max_length} for a prompt of {size} tokens "
            f"(bytes). Use --max-length {size + MORE_TOKENS} for "
            f"{MORE_TOKENS} more."
        )
    return int(options.max_length) - size


def _length(lm: Any, text: str) -> int:
    from keras_txl.cli.encoded_texts import tokenizer_of

    return len(tokenizer_of(lm).tokenize(text))


def _stop_token_ids(lm: Any, stop: str | None) -> Any:
    if stop is None:
        return "auto"
    ids = [int(token) for token in lm.preprocessor.tokenizer(stop)]
    if len(ids) != 1:
        raise ValueError(
            "--stop must be one token of the model. Received: "
            f"{stop!r}, which is {len(ids)} tokens. Pass one byte, such as "
            '--stop "."'
        )
    return ids


def _write_without_memory(
    lm: Any, sampler: Any, options: argparse.Namespace
) -> None:
    """A model that remembers nothing sees the whole text, up to its end."""
    if options.interactive or options.endless or options.save_memory:
        raise ValueError(
            "--interactive, --endless and --save-memory need memory. "
            "Received: a model that keeps none. Pass --memory-length N, in "
            "tokens (bytes)."
        )
    more = _max_new_tokens(lm, options) or 0
    length = _length(lm, options.prompt) + more
    print(continue_text(lm, options.prompt, length, sampler))


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
    """The prompt and its continuation, `max_length` tokens together."""
    lm.compile(sampler=sampler)
    return lm.generate(prompt, max_length=max_length)


def _prompt(options: argparse.Namespace) -> str:
    if options.prompt_file is None:
        prompt = options.prompt
    else:
        try:
            prompt = (
                sys.stdin.buffer.read().decode("utf-8")
                if str(options.prompt_file) == "-"
                else options.prompt_file.read_text(encoding="utf-8")
            )
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
    if not prompt and not options.load_memory:
        raise ValueError(
            "The prompt must have at least one byte. Received: an empty one. "
            'Pass for example --prompt "The "'
        )
    return prompt
