"""Text as byte pairs, merged bytes of UTF-8, run by KerasHub."""

from typing import Any

import keras
import keras_hub

from keras_txl.tokenizers.vocabulary import fingerprint
from keras_txl.tokenizers.vocabulary_tokenizer import as_strings
from keras_txl.tokenizers.vocabulary_tokenizer import ids_as_lists


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLBytePairTokenizer(keras_hub.tokenizers.BytePairTokenizer):
    """Turns text into the ids of byte pairs.

    With all 256 bytes in the vocabulary, as `train_tokenizer` makes it,
    `detokenize(tokenize(text)) == text` for every string. Bytes that are no
    UTF-8 are read as U+FFFD. There is no start or end token.

    Text is cut before merging as GPT-2 does, inside of `tf.data` and
    `tf.function` as well as outside. Inside, KerasHub runs other code, which
    needs TensorFlow Text and drops NUL and `६` (U+096C); other texts get the
    same ids.

    Args:
        vocabulary: dict of ids by token, or the path of a JSON file.
        merges: list of merges, or the path of a text file.
        **kwargs: other arguments of `keras_hub.tokenizers.BytePairTokenizer`.

    Example:
    ```python
    tokenizer = train_tokenizer(
        "byte-pair", ["the ship sails, the wind turns"] * 9, vocabulary_size=270
    )
    tokenizer.detokenize(tokenizer("the wind"))  # "the wind"
    ```
    """

    def __init__(
        self, vocabulary: Any = None, merges: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(vocabulary=vocabulary, merges=merges, **kwargs)
        self.start_token_id = None
        self.end_token_id = None
        self.pad_token_id = 0

    def set_vocabulary_and_merges(self, vocabulary: Any, merges: Any) -> None:
        """Take another vocabulary, as the arguments of the constructor."""
        super().set_vocabulary_and_merges(vocabulary, merges)
        if self._tokenizer is not None:
            from tokenizers import pre_tokenizers

            # KerasHub's own is that of Llama 3 here, of GPT-2 in graphs.
            self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
                add_prefix_space=self.add_prefix_space
            )

    def tokenize(self, inputs: Any) -> Any:
        """Turn text into ids, as the other tokenizers do."""
        return super().tokenize(as_strings(inputs))

    def detokenize(self, inputs: Any) -> Any:
        """Turn ids into text, as the other tokenizers do."""
        return super().detokenize(plain_ids(inputs))

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides about ids, the same in each process."""
        return fingerprint(
            [
                type(self).__name__,
                dict(self.vocabulary),
                list(self.merges),
                self.add_prefix_space,
            ]
        )


def plain_ids(ids: Any) -> Any:
    """Ids in a form that KerasHub takes; tensors in graphs as they are."""
    import tensorflow as tf

    return ids_as_lists(ids) if tf.executing_eagerly() else ids
