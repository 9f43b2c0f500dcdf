"""The layers in front of the blocks that the arguments of a backbone ask for.

Axes: B rows, T segment, E embedding width, D hidden width.
"""

from collections.abc import Callable
from typing import Any

from keras_txl.checks import check_cutoffs
from keras_txl.checks import check_div_val
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_tied_projections
from keras_txl.layers.adaptive_embedding import AdaptiveEmbedding
from keras_txl.layers.embedding_projection import EmbeddingProjection
from keras_txl.layers.quantizable import Dense
from keras_txl.layers.quantizable import ReversibleEmbedding


def check_vocabulary(
    vocabulary_size: Any,
    embedding_dim: int,
    cutoffs: Any,
    div_val: int,
    tie_projections: Any,
    loss_chunk: int | None,
    num_sampled: int | None,
    feature_dim: int | None = None,
) -> tuple[int, ...] | None:
    """Check what a backbone is told about its vocabulary, or features.

    Args:
        vocabulary_size: int.
        embedding_dim: int.
        cutoffs: as of `TransformerXLBackbone`, and so are the others.
        div_val: int.
        tie_projections: None, bool or list of bool.
        loss_chunk: int or `None`.
        num_sampled: int or `None`.
        feature_dim: int or `None`.

    Returns:
        The cutoffs as ints, or `None`.

    Raises:
        ValueError: if they do not fit together.
    """
    if feature_dim is not None:
        _check_features(
            feature_dim,
            vocabulary_size=vocabulary_size,
            cutoffs=cutoffs,
            loss_chunk=loss_chunk,
            num_sampled=num_sampled,
        )
        return None
    check_integer("vocabulary_size", vocabulary_size, 1)
    if cutoffs is not None:
        cutoffs = check_cutoffs(cutoffs, vocabulary_size)
    num_tails = 0 if cutoffs is None else len(cutoffs)
    check_div_val(div_val, embedding_dim, num_tails)
    if cutoffs is None and div_val != 1:
        raise ValueError(
            "`div_val` other than 1 needs `cutoffs`: it makes each bin "
            f"narrower than the one before. Received: div_val={div_val}, "
            "cutoffs=None. Pass the first id of each tail as `cutoffs`."
        )
    check_tied_projections(tie_projections, num_tails + 1)
    check_optional_integer("loss_chunk", loss_chunk, 1)
    check_optional_integer("num_sampled", num_sampled, 1)
    if num_sampled is not None and cutoffs is not None:
        raise ValueError(
            "`num_sampled` and `cutoffs` are two ways to the same end, and "
            f"only one can be taken. Received: num_sampled={num_sampled}, "
            f"cutoffs={cutoffs}. Leave one of them out."
        )
    if num_sampled is not None and num_sampled > vocabulary_size:
        raise ValueError(
            "`num_sampled` must be at most `vocabulary_size`: candidates are "
            f"distinct. Received: num_sampled={num_sampled}, vocabulary_size="
            f"{vocabulary_size}. Use num_sampled=None for the exact loss."
        )
    return cutoffs


def _check_features(feature_dim: int, **of_ids: Any) -> None:
    """Check the width of features, which go without what is told of ids."""
    check_integer("feature_dim", feature_dim, 1)
    for name, value in of_ids.items():
        if value is not None:
            raise ValueError(
                f"`{name}` must be None with `feature_dim`: there are no "
                f"token ids. Received: {name}={value}, feature_dim="
                f"{feature_dim}. Leave one of them out."
            )


def make_token_embedding(
    vocabulary_size: Any,
    embedding_dim: int,
    hidden_dim: int,
    cutoffs: tuple[int, ...] | None,
    div_val: int,
    tie_embeddings: bool,
    tie_projections: bool | list[bool] | None,
    initializer: Callable[[], Any],
    dtype: Any,
    feature_dim: int | None = None,
) -> tuple[Any, EmbeddingProjection | None]:
    """The token embedding, and the projection behind it if it needs one.

    Args:
        vocabulary_size: int.
        embedding_dim: int E.
        hidden_dim: int D.
        cutoffs: bins of an adaptive embedding, or `None` for a plain one.
        div_val: int.
        tie_embeddings: bool.
        tie_projections: None, bool or list of bool.
        initializer: makes a new initializer of the weights.
        dtype: Keras dtype policy.
        feature_dim: int C of features in place of ids, or `None`.

    Returns:
        An `AdaptiveEmbedding`, which projects by itself, and `None`; or a
        `ReversibleEmbedding` and a projection where E differs from D; or, for
        features, a `Dense` and `None`.
    """
    if feature_dim is not None:
        return Dense(
            hidden_dim,
            kernel_initializer=initializer(),
            dtype=dtype,
            name="feature_projection",
        ), None
    if cutoffs is not None:
        return AdaptiveEmbedding(
            vocabulary_size,
            embedding_dim,
            hidden_dim,
            cutoffs,
            div_val,
            embeddings_initializer=initializer(),
            dtype=dtype,
            name="token_embedding",
        ), None
    table = ReversibleEmbedding(
        vocabulary_size,
        embedding_dim,
        tie_weights=tie_embeddings,
        embeddings_initializer=initializer(),
        dtype=dtype,
        name="token_embedding",
    )
    if embedding_dim == hidden_dim:
        return table, None
    (tied,) = check_tied_projections(tie_projections, 1)
    return table, EmbeddingProjection(
        embedding_dim,
        hidden_dim,
        tie_weights=tied,
        dtype=dtype,
        name="embedding_projection",
    )
