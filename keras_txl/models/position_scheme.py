"""The layers that each value of `position` stands for.

Axes: L layers, D hidden width, N heads, H head width.
"""

from dataclasses import dataclass
from typing import Any

from keras_txl.layers.absolute_position import AbsolutePosition
from keras_txl.layers.attention_biases import RelativeAttentionBiases
from keras_txl.layers.distance_encoding import SinusoidalDistanceEncoding
from keras_txl.layers.learned_distance_encoding import LearnedDistanceEncoding
from keras_txl.layers.position_terms import ClippedPositionTerms
from keras_txl.layers.position_terms import LearnedPositionTerms
from keras_txl.layers.position_terms import NoPositionTerms
from keras_txl.layers.position_terms import PositionTerms

POSITIONS = (
    "relative_sinusoidal",
    "relative_learned",
    "relative_clipped",
    "absolute_sinusoidal",
    "absolute_learned",
    "none",
)
LEARNED = ("relative_learned", "relative_clipped", "absolute_learned")


@dataclass
class PositionScheme:
    """How a model tells positions apart.

    Args:
        encoding: the matrix R of distances, or `None`.
        terms: for each layer what distances add to attention; `None` where
            it is W_kR R.
        absolute: for each layer what is added to its inputs, or `None`.
        biases: u and v shared by all layers, or `None`.
    """

    encoding: SinusoidalDistanceEncoding | None
    terms: list[PositionTerms | None]
    absolute: list[AbsolutePosition | None]
    biases: RelativeAttentionBiases | None


def check_position(
    position: str,
    max_distance: int | None,
    relative_values: bool,
    clamp_length: int | None,
) -> None:
    """Raise `ValueError` unless the arguments belong together."""
    if position not in POSITIONS:
        raise ValueError(
            f"`position` must be one of {', '.join(map(repr, POSITIONS))}. "
            f"Received: position={position!r}."
        )
    if (position in LEARNED) != (max_distance is not None):
        raise ValueError(
            "`max_distance` is the number of rows of a learned table: "
            f"required with position={', '.join(map(repr, LEARNED))} and "
            f"unused with others. Received: position={position!r}, "
            f"max_distance={max_distance}. "
            + (
                "Leave it out."
                if max_distance is not None
                else "Pass for example the segment and memory length together."
            )
        )
    if clamp_length is not None and position in ("relative_clipped", "none"):
        raise ValueError(
            "`clamp_length` has no effect with position='relative_clipped' or "
            f"'none'. Received: position={position!r}, clamp_length="
            f"{clamp_length}. Leave it out; `max_distance` clips distances."
        )
    if relative_values and position != "relative_clipped":
        raise ValueError(
            "`relative_values` needs position='relative_clipped'. Received: "
            f"position={position!r}, relative_values=True. Leave it out."
        )


def make_position_scheme(
    position: str,
    num_layers: int,
    num_heads: int,
    head_dim: int,
    hidden_dim: int,
    *,
    max_distance: int | None,
    relative_values: bool,
    share_attention_biases: bool,
    initializer: Any,
    dtype: Any,
    **clamp: Any,
) -> PositionScheme:
    """Make the layers of a scheme.

    Args:
        position: one of `POSITIONS`.
        num_layers: int L.
        num_heads: int N.
        head_dim: int H.
        hidden_dim: int D.
        max_distance: int. Rows of a learned table.
        relative_values: bool. Whether clipped distances add to the values.
        share_attention_biases: bool. One u and v for all layers.
        initializer: function without arguments that makes an initializer.
        dtype: Keras dtype policy.
        **clamp: `clamp_length` and `eval_clamp_length`.

    Returns:
        The scheme.
    """
    weights = {"initializer": initializer, "dtype": dtype}
    scheme = PositionScheme(
        None, [None] * num_layers, [None] * num_layers, None
    )
    if position.endswith("_sinusoidal"):
        scheme.encoding = SinusoidalDistanceEncoding(
            hidden_dim, dtype=dtype, name="distance_encoding", **clamp
        )
    if position == "relative_learned":
        scheme.terms = _learned_terms(
            num_layers, max_distance, num_heads, head_dim, **weights, **clamp
        )
    elif position == "relative_clipped":
        scheme.terms = _clipped_terms(
            num_layers,
            max_distance,
            num_heads,
            head_dim,
            relative_values=relative_values,
            **weights,
        )
    elif position != "relative_sinusoidal":
        scheme.terms = [NoPositionTerms(dtype=dtype)] * num_layers
    if position == "absolute_sinusoidal":
        scheme.absolute[0] = AbsolutePosition(
            scheme.encoding, dtype=dtype, name="absolute_position"
        )
    if position == "absolute_learned":
        scheme.absolute = _learned_tables(
            num_layers, max_distance, hidden_dim, **weights, **clamp
        )
    if share_attention_biases:
        scheme.biases = _shared_biases(
            scheme.terms[0], num_heads, head_dim, **weights
        )
    return scheme


def _shared_biases(
    terms: PositionTerms | None,
    num_heads: int,
    head_dim: int,
    *,
    initializer: Any,
    dtype: Any,
) -> RelativeAttentionBiases | None:
    """One u and v for all layers, as far as the terms use them."""
    content, by_position = (True, True) if terms is None else terms.biases
    if not content:
        return None
    biases = RelativeAttentionBiases(
        num_heads,
        head_dim,
        use_position_bias=by_position,
        initializer=initializer(),
        dtype=dtype,
        name="attention_biases",
    )
    biases.build()
    return biases


def _learned_terms(
    num_layers: int,
    max_distance: Any,
    num_heads: int,
    head_dim: int,
    *,
    initializer: Any,
    dtype: Any,
    **clamp: Any,
) -> list[PositionTerms | None]:
    """Tables of distances, one for each layer and head."""
    return [
        LearnedPositionTerms(
            max_distance,
            num_heads,
            head_dim,
            initializer=initializer(),
            dtype=dtype,
            name=f"position_terms_{index}",
            **clamp,
        )
        for index in range(num_layers)
    ]


def _clipped_terms(
    num_layers: int,
    max_distance: Any,
    num_heads: int,
    head_dim: int,
    *,
    relative_values: bool,
    initializer: Any,
    dtype: Any,
) -> list[PositionTerms | None]:
    """A table of clipped distances that all layers share."""
    shared = ClippedPositionTerms(
        max_distance,
        num_heads,
        head_dim,
        relative_values=relative_values,
        initializer=initializer(),
        dtype=dtype,
        name="position_terms",
    )
    return [shared] * num_layers


def _learned_tables(
    num_layers: int,
    max_distance: Any,
    hidden_dim: int,
    *,
    initializer: Any,
    dtype: Any,
    **clamp: Any,
) -> list[AbsolutePosition | None]:
    """Tables of places, one for each layer."""
    return [
        AbsolutePosition(
            LearnedDistanceEncoding(
                max_distance,
                (hidden_dim,),
                initializer=initializer(),
                dtype=dtype,
                **clamp,
            ),
            dtype=dtype,
            name=f"absolute_position_{index}",
        )
        for index in range(num_layers)
    ]
