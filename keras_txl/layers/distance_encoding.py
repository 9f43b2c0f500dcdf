"""Encodings of the distance between a query and a key (paper 3.3).

Row `r` of an encoding of `key_length` S stands for distance `S - 1 - r`, the
order that `relative_shift` expects: the newest key comes last.

Axes: S keys (memory and segment), D hidden width.
"""

from typing import Any

import keras
from keras import ops

from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.checks import check_optional_integer

AS_IN_TRAINING = "as_in_training"
"""Value of an `eval_*` argument that repeats the one used in training."""


def descending_distances(
    key_length: int | Tensor, clamp_length: int | None = None
) -> Tensor:
    """Distances `S - 1, ..., 1, 0`, none above `clamp_length`.

    Args:
        key_length: int or scalar int tensor S, in tokens.
        clamp_length: largest distance told apart, in tokens. `None`: all.

    Returns:
        int32 tensor of shape `(key_length,)`.
    """
    distances = key_length - 1 - ops.arange(key_length, dtype="int32")  # (S,)
    if clamp_length is not None:
        distances = ops.minimum(distances, clamp_length)
    return distances


def choose_clamp_length(
    clamp_length: int | None,
    eval_clamp_length: int | str | None,
    training: bool | None,
) -> int | None:
    """The clamp length in use, in tokens."""
    if training or eval_clamp_length == AS_IN_TRAINING:
        return clamp_length
    return None if eval_clamp_length is None else int(eval_clamp_length)


def sinusoid(
    distances: Tensor, hidden_dim: int, dtype: str = "float32"
) -> Tensor:
    """The matrix R: all sines, then all cosines, of each distance.

    Args:
        distances: int tensor of shape `(key_length,)`, in tokens.
        hidden_dim: even width D of a row.
        dtype: `"float32"` or wider. Narrower types cannot hold a distance:
            bfloat16 repeats from 257 tokens and float16 from 2049.

    Returns:
        Tensor of shape `(key_length, hidden_dim)` and the given dtype.

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """
    # A list of floats, as torch.compile cannot trace arrays of NumPy.
    frequencies = ops.convert_to_tensor(
        [10000.0 ** (-index / hidden_dim) for index in range(0, hidden_dim, 2)],
        dtype=dtype,
    )  # (D / 2,)
    angles = ops.cast(distances, dtype)[:, None] * frequencies  # (S, D / 2)
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


@keras.saving.register_keras_serializable(package="keras_txl")
class SinusoidalDistanceEncoding(keras.layers.Layer):
    """Encodes the distance of each key from the newest query by sinusoids.

    Positions are computed in float32 (float64 under a float64 policy),
    whatever the policy, and cast to the compute dtype last.

    Args:
        hidden_dim: int. Even width D of a row.
        clamp_length: int or `None`. Larger distances share the encoding of
            this one, in tokens. `None` tells all distances apart.
        eval_clamp_length: the same outside training. Defaults to
            `"as_in_training"`.
        **kwargs: other arguments of `keras.layers.Layer`.

    Call arguments:
        context: tensor of shape `(batch_size, key_length, ...)`. Only its
            length is read.
        training: bool. Chooses between the two clamp lengths.

    Returns:
        Tensor of shape `(key_length, hidden_dim)`, newest key last.

    Raises:
        ValueError: if `hidden_dim` is odd.

    Example:
    ```python
    encoding = keras_txl.layers.SinusoidalDistanceEncoding(hidden_dim=4)
    encoding(keras.ops.zeros((1, 3, 4))).shape  # (3, 4)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3.
    """

    def __init__(
        self,
        hidden_dim: int,
        clamp_length: int | None = None,
        eval_clamp_length: int | str | None = AS_IN_TRAINING,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.hidden_dim = check_integer("hidden_dim", hidden_dim, 2)
        if hidden_dim % 2:
            raise ValueError(
                "`hidden_dim` must be even: half of the encoding are sines, "
                f"half cosines. Received: hidden_dim={hidden_dim}. "
                f"Use hidden_dim={hidden_dim + 1}."
            )
        self.clamp_length = check_optional_integer(
            "clamp_length", clamp_length, 1
        )
        if eval_clamp_length != AS_IN_TRAINING:
            check_optional_integer("eval_clamp_length", eval_clamp_length, 1)
        self.eval_clamp_length = eval_clamp_length
        self.built = True

    def call(self, context: Tensor, training: bool | None = None) -> Tensor:
        clamp_length = choose_clamp_length(
            self.clamp_length, self.eval_clamp_length, training
        )
        distances = descending_distances(ops.shape(context)[1], clamp_length)
        wide = "float64" if self.compute_dtype == "float64" else "float32"
        rows = sinusoid(distances, self.hidden_dim, wide)  # (S, D)
        return ops.cast(rows, self.compute_dtype)

    def compute_output_spec(
        self, context: Tensor, training: bool | None = None
    ) -> Tensor:
        return keras.KerasTensor(
            (context.shape[1], self.hidden_dim), dtype=self.compute_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "clamp_length": self.clamp_length,
            "eval_clamp_length": self.eval_clamp_length,
        }
