"""Text as words between white space, line by line, as the paper's corpora.

WikiText-103, WikiText-2 and Penn Treebank end each line with `<eos>`; the One
Billion Word benchmark puts `<S>` at both ends.
"""

import os
import re
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_txl.tokenizers.vocabulary import Vocabulary
from keras_txl.tokenizers.vocabulary_tokenizer import VocabularyTokenizer

# What `str.split` splits at; `\s` of RE2 knows ASCII alone.
WHITE_SPACE = (
    r"[\t\n\v\f\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}"
    r"\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLWordTokenizer(VocabularyTokenizer):
    r"""Turns text into the ids of its words.

    A word is what stands between white space; nothing is split from it. The
    end of a line, `\n`, is the token `end_of_line_token`, so that a file gets
    the ids that the released code gives it. With `start_of_line_token` each
    line that has begun starts with that token. What is not in the vocabulary
    becomes `unknown_token`.

    White space other than line ends, and unknown words, are lost.
    `detokenize(tokenize(text)) == text` where all words are in the vocabulary
    (the tokens of line ends not among them), there is one space between
    words, none at the ends of a line, and, with a start token, no empty line.

    There is no start or end token for a whole text: `<eos>` ends a line, and
    generation goes on behind it. Ids are the same outside and inside of
    `tf.data`, `tf.function` and exported signatures, where core TensorFlow
    operations are all that is needed. (With `lowercase`, TensorFlow's tables
    of letters are older than Python's, and it drops NUL.)

    Args:
        vocabulary: words in the order of their ids, or the path of a
            `vocabulary.json`. `None`: set later, as by loading a preset.
            `read_vocabulary` reads the formats of other programs.
        unknown_token: word of the vocabulary for all that are not in it.
        end_of_line_token: word of the vocabulary for `\n`. `None`: a line end
            is white space as any other.
        start_of_line_token: word of the vocabulary that begins a line.
            `None`: none.
        lowercase: bool. Whether text is lower-cased first, as for PTB.
        dtype: integer dtype of the ids.
        **kwargs: other keyword arguments of `keras.layers.Layer`.

    Raises:
        ValueError: if a special token is not in the vocabulary, or a word
            holds white space.

    Example:

    >>> words = ["<eos>", "<unk>", "the", "ship", "sails"]
    >>> tokenizer = TransformerXLWordTokenizer(words)
    >>> np.array(tokenizer(" the ship sank \n"))
    array([2, 3, 1, 0], dtype=int32)
    >>> tokenizer.detokenize([2, 3, 4, 0, 2, 3])
    'the ship sails\nthe ship'
    """

    def __init__(
        self,
        vocabulary: Iterable[str] | str | os.PathLike[str] | None = None,
        unknown_token: str = "<unk>",
        end_of_line_token: str | None = "<eos>",
        start_of_line_token: str | None = None,
        lowercase: bool = False,
        dtype: Any = "int32",
        **kwargs: Any,
    ) -> None:
        if start_of_line_token is not None and end_of_line_token is None:
            raise ValueError(
                "`start_of_line_token` needs an `end_of_line_token`, which "
                f"may be the same. Received: {start_of_line_token!r} and None."
            )
        self.unknown_token = unknown_token
        self.end_of_line_token = end_of_line_token
        self.start_of_line_token = start_of_line_token
        self.lowercase = bool(lowercase)
        super().__init__(vocabulary, dtype, **kwargs)

    def prepare(self, vocabulary: Vocabulary) -> None:
        import tensorflow as tf

        for name in (
            "unknown_token",
            "end_of_line_token",
            "start_of_line_token",
        ):
            token = getattr(self, name)
            if token is not None and token not in vocabulary.ids:
                raise ValueError(
                    f"`{name}` must be in the vocabulary. Received: {token!r}, "
                    f"and {len(vocabulary)} other words. Add it, or name the "
                    "token that the vocabulary has."
                )
        for word in vocabulary.tokens:
            if len(word.split()) != 1 or word != word.strip():
                raise ValueError(
                    "A word must hold no white space. Received: "
                    f"{word!r} at id {vocabulary.ids[word]}."
                )
        self._unknown_id = vocabulary.ids[self.unknown_token]
        shown = list(vocabulary.tokens)
        # Line ends are shown as such, starts of lines not at all; words hold
        # neither character.
        if self.start_of_line_token is not None:
            shown[vocabulary.ids[self.start_of_line_token]] = "\r"
        if self.end_of_line_token is not None:
            shown[vocabulary.ids[self.end_of_line_token]] = "\n"
        self._shown = tuple(shown)
        with tf.init_scope():  # a table outlives the graph it is used in
            self._table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    list(vocabulary.tokens),
                    list(range(len(vocabulary))),
                    key_dtype=tf.string,
                    value_dtype=tf.int64,
                ),
                default_value=self._unknown_id,
            )

    def split_words(self, text: str) -> list[str]:
        """The words of a text, tokens of line ends among them."""
        if self.lowercase:
            text = text.lower()
        if self.end_of_line_token is not None:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            end, start = self.end_of_line_token, self.start_of_line_token
            if start is None:
                text = text.replace("\n", f" {end} ")
            elif text:
                last = f" {end} " if text.endswith("\n") else ""
                text = text[:-1] if last else text
                text = text.replace("\n", f" {end} {start} ")
                text = f"{start} {text}{last}"
        return text.split()

    def encode_text(self, text: str) -> np.ndarray:
        ids, unknown = self.known().ids, self._unknown_id
        return np.array(
            [ids.get(word, unknown) for word in self.split_words(text)], "int32"
        )

    def decode_ids(self, ids: Sequence[int]) -> str:
        text = " ".join([self._shown[token] for token in ids])
        for pattern, new in self.line_patterns():
            text = re.sub(pattern, new, text)
        return text

    def encode_strings(self, texts: Any) -> Any:
        import tensorflow as tf

        replace = tf.strings.regex_replace
        if self.lowercase:
            texts = tf.strings.lower(texts, encoding="utf-8")
        if self.end_of_line_token is not None:
            texts = replace(texts, r"\r\n?", "\n")
            end = _escaped(self.end_of_line_token)
            if self.start_of_line_token is None:
                texts = replace(texts, "\n", f" {end} ")
            else:
                start = _escaped(self.start_of_line_token)
                begun = tf.strings.length(texts) > 0
                # The last one first, for which nothing starts any more.
                lines = replace(texts, r"\n\z", f" {end} ")
                lines = replace(lines, "\n", f" {end} {start} ")
                lines = tf.strings.join([f"{self.start_of_line_token} ", lines])
                texts = tf.where(begun, lines, texts)
        words = tf.strings.split(replace(texts, WHITE_SPACE, " "))
        return words.with_values(self._table.lookup(words.values))

    def decode_tensor(self, ids: Any) -> Any:
        import tensorflow as tf

        texts = tf.strings.reduce_join(
            tf.gather(tf.constant(self._shown), ids), axis=-1, separator=" "
        )
        for pattern, new in self.line_patterns():
            texts = tf.strings.regex_replace(texts, pattern, new)
        return texts

    def line_patterns(self) -> list[tuple[str, str]]:
        """Replacements that turn words between spaces into lines."""
        if self.end_of_line_token is None:
            return []
        patterns = [("\r ?", ""), (" ?\n ?", "\n")]
        if self.start_of_line_token == self.end_of_line_token:
            # One token for both: a pair of them is one line end.
            patterns += [("\n\n", "\n"), (r"\A\n", "")]
        return patterns

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "unknown_token": self.unknown_token,
            "end_of_line_token": self.end_of_line_token,
            "start_of_line_token": self.start_of_line_token,
            "lowercase": self.lowercase,
        }


def _escaped(token: str) -> str:
    """The token as replacement of a pattern."""
    return token.replace("\\", "\\\\")
