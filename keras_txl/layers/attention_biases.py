"""The paper's u and v: what every query adds, whatever it holds (3.3).

Axes: N heads, H head width.
"""

from typing import Any

import keras

from keras_txl.checks import check_integer


@keras.saving.register_keras_serializable(package="keras_txl")
class RelativeAttentionBiases(keras.layers.Layer):
    """Holds the paper's u and v, which several layers may share.

    Args:
        num_heads: int.
        head_dim: int.
        use_position_bias: bool. Whether there is a v.
        initializer: initializer of both. Defaults to N(0, 0.02).
        **kwargs: other arguments of `keras.layers.Layer`.

    Attributes:
        content_bias: variable u of shape `(num_heads, head_dim)`.
        position_bias: variable v of the same shape, or `None`.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        use_position_bias: bool = True,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = check_integer("num_heads", num_heads, 1)
        self.head_dim = check_integer("head_dim", head_dim, 1)
        self.use_position_bias = bool(use_position_bias)
        self.initializer = normal_initializer(initializer)
        self.content_bias = self.position_bias = None

    def build(self, input_shape: Any = None) -> None:
        self.content_bias = self._bias("content_bias")
        if self.use_position_bias:
            self.position_bias = self._bias("position_bias")
        self.built = True

    def _bias(self, name: str) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=(self.num_heads, self.head_dim),
            initializer=copy_initializer(self.initializer),
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "use_position_bias": self.use_position_bias,
            "initializer": keras.initializers.serialize(self.initializer),
        }


def normal_initializer(initializer: Any) -> Any:
    """The given initializer, by default N(0, 0.02)."""
    if initializer is None:
        return keras.initializers.RandomNormal(stddev=0.02)
    return keras.initializers.get(initializer)


def copy_initializer(initializer: Any) -> Any:
    """Another instance, so that two weights never share a seed."""
    return initializer.__class__.from_config(initializer.get_config())
