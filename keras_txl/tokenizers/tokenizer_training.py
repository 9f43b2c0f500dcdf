"""Tokenizers made from a corpus."""

import io
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.tokenizers.byte_pair_tokenizer import (
    TransformerXLBytePairTokenizer,
)
from keras_txl.tokenizers.byte_tokenizer import TransformerXLByteTokenizer
from keras_txl.tokenizers.character_tokenizer import (
    TransformerXLCharacterTokenizer,
)
from keras_txl.tokenizers.sentence_piece_tokenizer import (
    TransformerXLSentencePieceTokenizer,
)
from keras_txl.tokenizers.vocabulary import most_common
from keras_txl.tokenizers.vocabulary_tokenizer import as_strings
from keras_txl.tokenizers.word_tokenizer import TransformerXLWordTokenizer

LONGEST_SENTENCE = 2**14
"""Bytes of a line that the SentencePiece trainer reads; the rest is left."""

SENTENCES = 2_000_000
"""Lines that it draws from a corpus with more."""


def train_tokenizer(
    kind: str,
    texts: Iterable[str | bytes],
    *,
    vocabulary_size: int | None = None,
    min_count: int = 1,
    **options: Any,
) -> Any:
    """Make a tokenizer for texts.

    Args:
        kind: `"byte"`, `"character"`, `"word"`, `"byte-pair"` (needs the
            package tokenizers) or `"sentence-piece"` (needs the package
            sentencepiece).
        texts: strings, or bytes of UTF-8; each is read once, so a generator
            will do for a corpus larger than memory.
        vocabulary_size: largest number of tokens. Needed for `"byte-pair"`
            and `"sentence-piece"`; for characters and words the default is
            all, for bytes there are always 256.
        min_count: for characters and words: leave out what comes less often.
        **options: arguments of the tokenizer: `unknown_token` for characters;
            `unknown_token`, `end_of_line_token`, `start_of_line_token` and
            `lowercase` for words; for pieces `model_type` (`"unigram"` or
            `"bpe"`).

    Returns:
        A tokenizer. Characters and words have ids by falling frequency, which
        the cutoffs of an adaptive softmax rest on; the tokens of line ends
        come first.

    Raises:
        ValueError: if there is no such kind, or the size does not fit.
        ImportError: if a package is missing.

    Example:
    ```python
    tokenizer = train_tokenizer("word", ["the ship and the wind\\n"])
    tokenizer.get_vocabulary()  # ["<eos>", "the", "ship", "and", "wind", ...]
    ```
    """
    if kind not in _TRAINERS:
        raise ValueError(
            f"`kind` must be one of {', '.join(_TRAINERS)}. Received: "
            f"kind={kind!r}."
        )
    check_optional_integer("vocabulary_size", vocabulary_size, 1)
    check_integer("min_count", min_count, 1)
    read = (as_strings(text) for text in texts)
    return _TRAINERS[kind](read, vocabulary_size, min_count, options)


def _train_byte(
    texts: Iterator[str], size: int | None, min_count: int, options: Any
) -> Any:
    return TransformerXLByteTokenizer(**options)


def _train_character(
    texts: Iterator[str], size: int | None, min_count: int, options: Any
) -> Any:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    unknown = options.get("unknown_token")
    dropped = size is not None and len(counts) > size or min_count > 1
    if dropped and unknown is None:
        raise ValueError(
            "`unknown_token` must stand for characters that are left out. "
            f"Received: vocabulary_size={size}, min_count={min_count}, and "
            f"{len(counts)} characters. Pass unknown_token='?', for example."
        )
    vocabulary = most_common(
        counts,
        required=[] if unknown is None else [unknown],
        min_count=min_count,
        max_size=size,
    )
    return TransformerXLCharacterTokenizer(vocabulary, **options)


def _train_word(
    texts: Iterator[str], size: int | None, min_count: int, options: Any
) -> Any:
    untrained = TransformerXLWordTokenizer(**options)
    line_ends = [untrained.end_of_line_token, untrained.start_of_line_token]
    special = [token for token in line_ends if token is not None]
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(untrained.split_words(text))
    if not counts:
        raise ValueError(
            "`texts` must hold a word. Received: no text. Pass other texts."
        )
    vocabulary = most_common(
        counts,
        special=special,
        required=[untrained.unknown_token],
        min_count=min_count,
        max_size=size,
    )
    untrained.set_vocabulary(vocabulary)
    return untrained


def _train_byte_pair(
    texts: Iterator[str], size: int | None, min_count: int, options: Any
) -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise _missing("byte-pair", "tokenizers") from error
    size = _needed_size(size, 256)
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(
        texts,
        vocab_size=size,
        min_frequency=max(2, min_count),
        show_progress=False,
    )
    model = _json_of(trained)["model"]
    merges = [
        merge if isinstance(merge, str) else " ".join(merge)
        for merge in model["merges"]
    ]
    return TransformerXLBytePairTokenizer(model["vocab"], merges, **options)


def _train_sentence_piece(
    texts: Iterator[str], size: int | None, min_count: int, options: Any
) -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise _missing("sentence-piece", "sentencepiece") from error
    size = _needed_size(size, 258)
    writer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sentences(texts),
            model_writer=writer,
            vocab_size=size,
            model_type=options.pop("model_type", "unigram"),
            # Nothing is changed or lost on the way to pieces and back.
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            byte_fallback=True,
            user_defined_symbols=["\n"],
            bos_id=-1,
            eos_id=-1,
            hard_vocab_limit=False,
            input_sentence_size=SENTENCES,
            shuffle_input_sentence=True,
            max_sentence_length=LONGEST_SENTENCE,
            num_threads=1,  # of several, the result depends on their number
            minloglevel=2,
        )
    except RuntimeError as error:
        raise ValueError(
            "SentencePiece must be able to make so many pieces of the texts. "
            f"Received: vocabulary_size={size} ({error}). Use another size, "
            "or more text."
        ) from error
    return TransformerXLSentencePieceTokenizer(writer.getvalue(), **options)


def _sentences(texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        for line in text.split("\n"):
            for start in range(0, len(line), LONGEST_SENTENCE // 4):
                piece = line[start : start + LONGEST_SENTENCE // 4]
                yield piece.replace("\0", "")


def _json_of(trained: Any) -> Any:
    import json

    return json.loads(trained.to_str())


def _needed_size(size: int | None, minimum: int) -> int:
    if size is None or size < minimum:
        raise ValueError(
            f"`vocabulary_size` must be at least {minimum}, which all bytes "
            f"take. Received: vocabulary_size={size}. Usual are 4,000 to "
            "32,000."
        )
    return size


def _missing(kind: str, package: str) -> ImportError:
    return ImportError(
        f"A {kind} tokenizer needs the package {package}. Install it with: "
        "pip install 'keras-txl[tokenizers]'"
    )


_TRAINERS: dict[str, Callable[[Iterator[str], Any, int, Any], Any]] = {
    "byte": _train_byte,
    "character": _train_character,
    "word": _train_word,
    "byte-pair": _train_byte_pair,
    "sentence-piece": _train_sentence_piece,
}

KINDS = tuple(_TRAINERS)
