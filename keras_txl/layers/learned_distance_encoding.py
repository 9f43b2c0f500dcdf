"""Learned tables with one row a distance.

Row order is that of the released code: the last row stands for distance 0.
Distances beyond a table use its first row.

Axes: S keys, R rows of the table (`max_distance`).
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer
from keras_txl.layers.attention_biases import normal_initializer
from keras_txl.layers.distance_encoding import AS_IN_TRAINING
from keras_txl.layers.distance_encoding import choose_clamp_length
from keras_txl.layers.distance_encoding import descending_distances


@keras.saving.register_keras_serializable(package="keras_txl")
class LearnedDistanceEncoding(keras.layers.Layer):
    """A learned row for each distance of a key from the newest query.

    Args:
        max_distance: int. Rows R of the table: distances 0 to R - 1.
        row_shape: tuple of int. Shape of a row.
        clamp_length: int. Uses the newest `clamp_length` rows alone, so the
            largest distance told apart is `clamp_length - 1`. `None`: all.
        eval_clamp_length: the same outside training. Defaults to
            `"as_in_training"`.
        initializer: of the table. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        context: tensor of shape `(batch_size, key_length, ...)`. Only its
            length is read.
        training: bool. Chooses between the two clamp lengths.

    Returns:
        Tensor of shape `(key_length, *row_shape)`, newest key last.
    """

    def __init__(
        self,
        max_distance: int,
        row_shape: tuple[int, ...],
        clamp_length: int | None = None,
        eval_clamp_length: int | str | None = AS_IN_TRAINING,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_distance = check_integer("max_distance", max_distance, 1)
        self.row_shape = tuple(row_shape)
        self.clamp_length = check_optional_integer(
            "clamp_length", clamp_length, 1
        )
        if eval_clamp_length != AS_IN_TRAINING:
            check_optional_integer("eval_clamp_length", eval_clamp_length, 1)
        self.eval_clamp_length = eval_clamp_length
        self.initializer = normal_initializer(initializer)

    def build(self, context_shape: Any = None) -> None:
        self.table = self.add_weight(
            name="table",
            shape=(self.max_distance, *self.row_shape),
            initializer=self.initializer,
        )
        self.built = True

    def call(self, context: Tensor, training: bool | None = None) -> Tensor:
        clamp_length = choose_clamp_length(
            self.clamp_length, self.eval_clamp_length, training
        )
        rows = min(self.max_distance, clamp_length or self.max_distance)
        distances = descending_distances(ops.shape(context)[1], rows - 1)
        return ops.take(
            ops.convert_to_tensor(self.table),
            self.max_distance - 1 - distances,
            axis=0,
        )  # (S, ...)

    def compute_output_spec(
        self, context: Tensor, training: bool | None = None
    ) -> Tensor:
        return keras.KerasTensor(
            (context.shape[1], *self.row_shape), dtype=self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "row_shape": self.row_shape,
            "clamp_length": self.clamp_length,
            "eval_clamp_length": self.eval_clamp_length,
            "initializer": keras.initializers.serialize(self.initializer),
        }
