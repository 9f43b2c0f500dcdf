"""Token embedding with narrower rows for rarer tokens.

Ids are sorted by frequency and cut into bins: `[0, c_1)` is the shortlist,
`[c_1, c_2)`, ..., `[c_k, V)` are the tails. Bin i has rows of width
`embedding_dim // div_val**i`.

Axes: B rows, T segment, D hidden width, E_i width and V_i tokens of bin i.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_cutoffs
from keras_txl.checks import check_div_val
from keras_txl.checks import check_integer
from keras_txl.layers.quantizable import Embedding


@keras.saving.register_keras_serializable(package="keras_txl")
class AdaptiveEmbedding(keras.layers.Layer):
    """Embeds tokens by bins of frequency and projects them to one width.

    With `div_val=1` there is one table, and a projection only where the two
    widths differ; else each bin has a table and a projection. Nothing is
    scaled here.

    Args:
        vocabulary_size: int V.
        embedding_dim: int. Width of the rows of the shortlist.
        hidden_dim: int D.
        cutoffs: ascending ints inside (0, V), the first id of each tail.
        div_val: int. Each bin is narrower than the one before by this factor.
        embeddings_initializer: of the tables. Defaults to N(0, 0.02).
        projection_initializer: of the projections. Defaults to N(0, 0.01).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        token_ids: int tensor of shape `(batch_size, segment_length)`.

    Returns:
        Float tensor of shape `(batch_size, segment_length, hidden_dim)`.

    Raises:
        ValueError: if the cutoffs are no bins of the vocabulary, or a bin
            would have no width.

    Example:
    ```python
    layer = keras_txl.layers.AdaptiveEmbedding(
        100, 16, 8, cutoffs=[20, 50], div_val=2)
    layer(np.array([[0, 99]])).shape  # (1, 2, 8)
    ```

    Reference:
        Baevski and Auli 2018 (arXiv 1809.10853).
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        hidden_dim: int,
        cutoffs: Sequence[int],
        div_val: int = 1,
        embeddings_initializer: Any = None,
        projection_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = check_integer(
            "vocabulary_size", vocabulary_size, 1
        )
        self.embedding_dim = check_integer("embedding_dim", embedding_dim, 1)
        self.hidden_dim = check_integer("hidden_dim", hidden_dim, 1)
        self.cutoffs = check_cutoffs(cutoffs, vocabulary_size)
        self.div_val = check_div_val(div_val, embedding_dim, len(self.cutoffs))
        self.embeddings_initializer = _initializer(embeddings_initializer, 0.02)
        self.projection_initializer = _initializer(projection_initializer, 0.01)

    @property
    def bins(self) -> list[tuple[int, int]]:
        """First and last id (not included) of each bin."""
        edges = [0, *self.cutoffs, self.vocabulary_size]
        return list(zip(edges[:-1], edges[1:], strict=True))

    @property
    def widths(self) -> list[int]:
        """Width of the rows of each bin."""
        return [
            self.embedding_dim // self.div_val**index
            for index in range(len(self.bins))
        ]

    def build(self, token_ids_shape: Any = None) -> None:
        sizes = [last - first for first, last in self.bins]
        if self.div_val == 1:
            sizes = [self.vocabulary_size]
        # Layers, which Keras can quantize and adapt.
        self.table_layers = [
            make_table(
                index,
                (size, width),
                self.embeddings_initializer,
                self.dtype_policy,
            )
            for index, (size, width) in enumerate(
                zip(sizes, self.widths, strict=False)
            )
        ]
        for table in self.table_layers:
            table.answer_in(self.compute_dtype)
        # Without autocast, low precision would sum gradients in it.
        self.projections = []
        if self.div_val > 1 or self.embedding_dim != self.hidden_dim:
            self.projections = [
                self.add_weight(
                    name=f"projection_{index}",
                    shape=(table.shape[1], self.hidden_dim),
                    initializer=_copy(self.projection_initializer),
                    autocast=False,
                )
                for index, table in enumerate(self.tables)
            ]
        self.built = True

    @property
    def tables(self) -> list[Any]:
        """Rows of each bin (V_i, E_i); computed, if they are quantized."""
        return [table_rows(layer) for layer in self.table_layers]

    def call(self, token_ids: Tensor) -> Tensor:
        token_ids = ops.cast(token_ids, "int32")
        if self.div_val == 1:
            return self._project(self.table_layers[0](token_ids), 0)
        total = None
        for index, (first, last) in enumerate(self.bins):
            inside = ops.logical_and(token_ids >= first, token_ids < last)
            rows = ops.where(inside, token_ids - first, 0)
            embedded = self.table_layers[index](rows)
            embedded = ops.where(inside[..., None], embedded, 0)
            embedded = self._project(embedded, index)  # (B, T, D)
            total = embedded if total is None else total + embedded
        return total

    def _project(self, embedded: Tensor, index: int) -> Tensor:
        if not self.projections:
            return embedded
        kernel = ops.cast(self.projections[index], self.compute_dtype)
        return ops.matmul(embedded, kernel)

    def compute_output_spec(self, token_ids: Tensor) -> Tensor:
        return keras.KerasTensor(
            (*token_ids.shape, self.hidden_dim), dtype=self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "hidden_dim": self.hidden_dim,
            "cutoffs": list(self.cutoffs),
            "div_val": self.div_val,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
            "projection_initializer": keras.initializers.serialize(
                self.projection_initializer
            ),
        }


def make_table(
    index: int, shape: tuple[int, int], initializer: Any, dtype: Any
) -> Embedding:
    """A built layer that holds the rows of one bin.

    Args:
        index: int. Which bin.
        shape: `(V_i, E_i)`.
        initializer: of the rows.
        dtype: Keras dtype policy.

    Returns:
        A layer whose rows `table_rows` gives.
    """
    layer = Embedding(
        *shape,
        embeddings_initializer=_copy(initializer),
        dtype=dtype,
        name=f"table_{index}",
    )
    layer.build()
    return layer


def table_rows(layer: Embedding) -> Any:
    """All rows (V_i, E_i) of a table; computed, if they are quantized."""
    if layer.quantization_mode is None:
        return layer.embeddings
    return layer(ops.arange(layer.input_dim, dtype="int32"))


def _initializer(initializer: Any, stddev: float) -> Any:
    if initializer is None:
        initializer = keras.initializers.RandomNormal(stddev=stddev)
    return keras.initializers.get(initializer)


def _copy(initializer: Any) -> Any:
    """An initializer of the same kind with draws of its own."""
    return initializer.__class__.from_config(initializer.get_config())
