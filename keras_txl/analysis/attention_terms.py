"""The four terms of attention apart, and W_kR (paper 3.3 and Appendix D).

    (a) q_i . k_j      content addressing
    (b) q_i . r_(i-j)  content-dependent position
    (c) u . k_j        global content bias
    (d) v . r_(i-j)    global position bias

Axes: B rows, T segment, S = M + T keys, L layers, N heads, H head width,
D hidden width.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.checks import check_integer
from keras_txl.layers.distance_encoding import sinusoid
from keras_txl.layers.layer_types import in_type_of
from keras_txl.layers.relative_shift import relative_shift
from keras_txl.models.value_memory import ValueMemory
from keras_txl.models.value_memory import check_memory


def attention_terms(
    lm: Any, token_ids: np.ndarray, memory: Memory | None = None
) -> dict[str, np.ndarray]:
    """The four terms of every score in one segment.

    Args:
        lm: a `TransformerXLCausalLM` with sinusoidal distances.
        token_ids: int array of shape `(batch, segment_length)`.
        memory: the memory before the segment. `None`: an empty one without
            slots.

    Returns:
        Float arrays of shape `(num_layers, batch, num_heads, segment_length,
        key_length)` under "a", "b", "c" and "d", over the root of the head
        width: they add up to the scores. NaN where a query does not see a
        key.

    Raises:
        ValueError: if the model has other positions, or the memory does not
            fit.

    Example:

    ```python
    terms = keras_txl.analysis.attention_terms(lm, ids[None, :8])
    print(np.nanmean(np.abs(terms["d"]), axis=(1, 3, 4)))  # by layer and head
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860), section 3.3 and Appendix D.
    """
    backbone = lm.backbone
    _check_sinusoidal(backbone)
    if memory is None:
        memory = lm.initial_memory(len(token_ids), memory_length=0)
    inputs = lm.normalize_inputs(token_ids)
    memory = check_memory(
        memory, inputs["token_ids"], backbone.num_layers, backbone.hidden_dim
    )
    record = _Record(memory)
    backbone.run(inputs, record, False)
    found: dict[str, list[np.ndarray]] = {name: [] for name in "abcd"}
    context = record.seen[0][1]
    mask = backbone.attention_mask(
        context, inputs["document_ids"], record.length, training=False
    )  # (B, 1, T, S)
    encoding = backbone.distance_encoding(context, training=False)  # (S, D)
    seen = zip(backbone.transformer_layers, record.seen, strict=True)
    for block, (hidden, context) in seen:
        for name, term in _terms(block, hidden, context, encoding).items():
            visible = ops.where(mask, term, float("nan"))
            found[name].append(ops.convert_to_numpy(visible))
    return {name: np.stack(values) for name, values in found.items()}


@dataclass(frozen=True)
class RelativeKeys:
    """What each layer makes of a distance.

    Args:
        kernels: float array W_kR of shape `(num_layers, hidden_dim,
            num_heads, head_dim)`.
        keys: float array W_kR R of shape `(num_layers, num_distances,
            num_heads, head_dim)`, entry d for distance d.
    """

    kernels: np.ndarray
    keys: np.ndarray

    @property
    def wavelengths(self) -> np.ndarray:
        """Of each sine of R with its cosine, in tokens, ascending.

        Returns:
            float64 array of shape `(hidden_dim / 2,)`.
        """
        half = self.kernels.shape[1] // 2
        return 2 * np.pi * 10000.0 ** (np.arange(half) / half)

    @property
    def strengths(self) -> np.ndarray:
        """How strongly each head reads each wavelength.

        Returns:
            float64 array of shape `(num_layers, num_heads, hidden_dim / 2)`:
            root mean square of the entries of W_kR that a sine and its
            cosine are multiplied by.
        """
        layers, width, heads, head_dim = self.kernels.shape
        squares = self.kernels.astype("float64") ** 2
        waves = (layers, 2, width // 2, heads, head_dim)  # sines, cosines
        means = squares.reshape(waves).mean(axis=(1, 4))  # (L, D / 2, N)
        return np.sqrt(means).swapaxes(1, 2)


def relative_keys(lm: Any, num_distances: int) -> RelativeKeys:
    """The matrix W_kR of each layer, and its product with R.

    Args:
        lm: a `TransformerXLCausalLM` with sinusoidal distances.
        num_distances: int. Distances 0, 1, ..., without clamping.

    Returns:
        A `RelativeKeys`.

    Raises:
        ValueError: if the model has other positions.
    """
    _check_sinusoidal(lm.backbone)
    check_integer("num_distances", num_distances, 1)
    distances = ops.arange(num_distances, dtype="int32")
    encoding = sinusoid(distances, lm.backbone.hidden_dim)
    encoding = ops.cast(encoding, lm.backbone.compute_dtype)
    projections = [
        block.attention.relative_key_projection
        for block in lm.backbone.transformer_layers
    ]
    return RelativeKeys(
        np.stack([ops.convert_to_numpy(p.kernel) for p in projections]),
        np.stack([ops.convert_to_numpy(p(encoding)) for p in projections]),
    )


def _terms(
    block: Any, hidden: Tensor, context: Tensor, encoding: Tensor
) -> dict[str, Tensor]:
    attention = block.attention
    slots = context.shape[1] - hidden.shape[1]
    context = block.normalize_context(context)
    if block.normalize_first:
        hidden = context[:, slots:]
    q = attention.query_projection(hidden)  # (B, T, N, H)
    k = attention.key_projection(context)  # (B, S, N, H)
    r = attention.relative_key_projection(encoding)  # (S, N, H)
    u, v = (
        ops.broadcast_to(in_type_of(attention, bias), q.shape)
        for bias in (
            attention.attention_biases.content_bias,
            attention.attention_biases.position_bias,
        )
    )
    terms = {
        "a": ops.einsum("btnh,bsnh->bnts", q, k),
        "b": relative_shift(ops.einsum("btnh,snh->bnts", q, r)),
        "c": ops.einsum("btnh,bsnh->bnts", u, k),
        "d": relative_shift(ops.einsum("btnh,snh->bnts", v, r)),
    }
    return {name: term * q.shape[-1] ** -0.5 for name, term in terms.items()}


class _Record(ValueMemory):
    """A memory that keeps what each block was given."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __call__(
        self, index: int, hidden: Tensor, document_ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        context, length = super().__call__(index, hidden, document_ids)
        self.seen.append((hidden, context))
        return context, length


def _check_sinusoidal(backbone: Any) -> None:
    if backbone.position != "relative_sinusoidal":
        raise ValueError(
            "The four terms are those of sinusoidal distances. Received: a "
            f"model with position={backbone.position!r}. Use "
            "`attention_by_distance`, which any model has."
        )
