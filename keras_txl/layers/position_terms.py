"""What other schemes than W_kR R let a distance add to attention.

Each layer here is called with the context, of which only the length S is
read, and returns the terms that `relative_attention_scores` adds: row `r`
stands for distance `S - 1 - r`.

Axes: S keys, N heads, H head width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.layers.distance_encoding import AS_IN_TRAINING
from keras_txl.layers.learned_distance_encoding import LearnedDistanceEncoding


class PositionTerms(keras.layers.Layer):
    """Base of the schemes.

    Attributes:
        biases: whether the paper's u and v are used with it.
    """

    biases = (False, False)

    def build(self, context_shape: Any = None) -> None:
        for table in self.tables().values():
            table.build()
        self.built = True

    def tables(self) -> dict[str, LearnedDistanceEncoding]:
        """The learned tables by the term that they give."""
        return {}

    def call(
        self, context: Tensor, training: bool | None = None
    ) -> dict[str, Tensor]:
        return {
            name: table(context, training=training)
            for name, table in self.tables().items()
        }


@keras.saving.register_keras_serializable(package="keras_txl")
class NoPositionTerms(PositionTerms):
    """Distances add nothing: plain attention, for absolute positions."""


@keras.saving.register_keras_serializable(package="keras_txl")
class LearnedPositionTerms(PositionTerms):
    """A learned key and bias for each distance and head.

    Args:
        max_distance: int. Rows of the tables.
        num_heads: int.
        head_dim: int.
        clamp_length: see `LearnedDistanceEncoding`.
        eval_clamp_length: see `LearnedDistanceEncoding`.
        initializer: of the tables. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Reference:
        The released code's attn_type 1, after Shaw et al. 2018.
    """

    biases = (True, False)

    def __init__(
        self,
        max_distance: int,
        num_heads: int,
        head_dim: int,
        clamp_length: int | None = None,
        eval_clamp_length: int | str | None = AS_IN_TRAINING,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.arguments = {
            "max_distance": max_distance,
            "num_heads": num_heads,
            "head_dim": head_dim,
            "clamp_length": clamp_length,
            "eval_clamp_length": eval_clamp_length,
        }
        common = {
            "clamp_length": clamp_length,
            "eval_clamp_length": eval_clamp_length,
            "initializer": initializer,
            "dtype": self.dtype_policy,
        }
        self.distance_keys = LearnedDistanceEncoding(
            max_distance, (num_heads, head_dim), name="keys", **common
        )
        self.distance_biases = LearnedDistanceEncoding(
            max_distance, (num_heads,), name="biases", **common
        )

    def tables(self) -> dict[str, LearnedDistanceEncoding]:
        return {
            "relative_key": self.distance_keys,
            "distance_bias": self.distance_biases,
        }

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.arguments}


@keras.saving.register_keras_serializable(package="keras_txl")
class ClippedPositionTerms(PositionTerms):
    """A learned key, and optionally value, for each distance.

    All heads share a row, and layers may share the layer.

    Args:
        max_distance: int. Rows of the tables; larger distances use the last.
        num_heads: int.
        head_dim: int.
        relative_values: bool. Whether distances add to the values as well.
        initializer: of the tables. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Reference:
        Shaw et al. 2018 (arXiv 1803.02155).
    """

    def __init__(
        self,
        max_distance: int,
        num_heads: int,
        head_dim: int,
        relative_values: bool = False,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.arguments = {
            "max_distance": max_distance,
            "num_heads": num_heads,
            "head_dim": head_dim,
            "relative_values": relative_values,
        }
        names = ["relative_key"] + ["relative_value"] * bool(relative_values)
        self.distance_tables = {
            name: LearnedDistanceEncoding(
                max_distance,
                (head_dim,),
                initializer=initializer,
                dtype=self.dtype_policy,
                name=name,
            )
            for name in names
        }

    def tables(self) -> dict[str, LearnedDistanceEncoding]:
        return dict(self.distance_tables)

    def call(
        self, context: Tensor, training: bool | None = None
    ) -> dict[str, Tensor]:
        terms = super().call(context, training)
        terms["relative_key"] = ops.repeat(
            terms["relative_key"][:, None], self.arguments["num_heads"], axis=1
        )  # (S, N, H)
        return terms

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.arguments}
