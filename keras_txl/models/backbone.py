"""The Transformer-XL without a head: ids or features in, hidden states out.

The functional graph (memory in `SegmentMemory` layers) and
`call_with_memory` (memory as a value, see `value_memory.py`) take the same
layers through one function, `run`; they differ only in where a block's context
comes from.

Axes: B rows, T segment, M memory slots, L layers, D hidden width.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import keras_hub

from keras_txl.aliases import Tensor
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_keywords
from keras_txl.checks import check_weight
from keras_txl.checks import resolve_head_dim
from keras_txl.layers.attention_mask import SegmentAttentionMask
from keras_txl.layers.distance_encoding import AS_IN_TRAINING
from keras_txl.layers.segment_memory import SegmentMemory
from keras_txl.layers.token_packing import PackTokens
from keras_txl.layers.token_packing import UnpackTokens
from keras_txl.layers.transformer_xl_block import TransformerXLBlock
from keras_txl.models.layer_memory import LayerMemoryMixin
from keras_txl.models.layout_map import get_layout_map
from keras_txl.models.position_scheme import check_position
from keras_txl.models.position_scheme import make_position_scheme
from keras_txl.models.preset_files import PresetFilesMixin
from keras_txl.models.stateful_model import StatefulModelMixin
from keras_txl.models.token_embedding import check_vocabulary
from keras_txl.models.token_embedding import make_token_embedding
from keras_txl.models.token_inputs import FEATURES
from keras_txl.models.token_inputs import TOKEN_IDS
from keras_txl.models.token_inputs import normalize_inputs
from keras_txl.models.value_memory import ValueMemoryMixin

# Constructor arguments that are attributes and configuration of the same name.
CONFIG = """
vocabulary_size num_layers num_heads hidden_dim intermediate_dim head_dim
embedding_dim memory_length eval_memory_length batch_size attention_window
clamp_length eval_attention_window eval_clamp_length position max_distance
relative_values share_attention_biases normalize_first activation
layer_norm_epsilon initializer_range attention_logit_cap dropout
attention_dropout memory_dropout memory_layer_norm head_diversity
tie_embeddings cutoffs div_val tie_projections loss_chunk num_sampled
remat attend_empty_memory memory_dtype feature_dim
""".split()

Remember = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]


@keras.saving.register_keras_serializable(package="keras_txl")
class TransformerXLBackbone(
    PresetFilesMixin,
    ValueMemoryMixin,
    LayerMemoryMixin,
    StatefulModelMixin,
    keras_hub.models.Backbone,
):
    """A Transformer-XL: blocks with relative positions and segment memory.

    Args:
        vocabulary_size: int. Number of token ids. `None` with `feature_dim`.
        num_layers: int.
        num_heads: int.
        hidden_dim: int. Even residual width D.
        intermediate_dim: int. Width of the feed-forward networks.
        head_dim: int. Defaults to `hidden_dim // num_heads`.
        embedding_dim: int. Width of the token embedding, projected to
            `hidden_dim` if it differs. Defaults to `hidden_dim`.
        memory_length: int. Hidden states of the last M tokens that each layer
            keeps, in tokens.
        eval_memory_length: int. The same outside training. Defaults to
            `memory_length`.
        batch_size: int. Streams whose memory the model carries from call to
            call. `None` carries nothing.
        attention_window: keys a query may see, itself included: an int,
            `"memory_length+1"` (the published `same_length`),
            `"memory_length"` (its PyTorch ports), or `None` for all.
        clamp_length: int. Larger distances count as this one, in tokens.
        eval_attention_window: outside training. Defaults to
            `"as_in_training"`.
        eval_clamp_length: outside training. Defaults to `"as_in_training"`.
        position: `"relative_sinusoidal"` (the paper), `"relative_learned"`
            (a table per layer and head, the released attn_type 1),
            `"relative_clipped"` (Shaw et al.: one table for all layers),
            `"absolute_sinusoidal"`, `"absolute_learned"` (attn_type 2 and 3;
            never added into memory) or `"none"`.
        max_distance: int. Rows of a learned table; required there.
        relative_values: bool. Whether clipped distances add to the values.
        share_attention_biases: bool. One u and v for all layers.
        normalize_first: bool. Pre-norm blocks.
        activation: of the feed-forward networks.
        layer_norm_epsilon: float.
        initializer_range: float. Standard deviation of the initial weights.
        attention_logit_cap: float. Keeps attention scores within this, see
            `keras_txl.layers.attention_softmax.cap_logits`. `None`: no cap.
        dropout: float. Of embedding, distance encoding, outputs.
        attention_dropout: float. Of attention weights.
        memory_dropout: float. Share of memory slots that each layer reads as
            zeros in training, drawn for each row and layer; the others are
            scaled up. What memory stores is not dropped.
        memory_layer_norm: bool. A layer norm on memory before reuse, and on
            the segment where keys and values are made of it; what memory
            stores is raw. Pre-norm does so anyway.
        head_diversity: float. Weight of the mean similarity of the heads of
            a layer in the training loss. It is no part of any metric.
        tie_embeddings: bool. One table for input and logits.
        cutoffs: ascending ints, the first id of each tail of an adaptive
            embedding and softmax. Frequent tokens must have low ids.
        div_val: int. Rows of each bin are narrower by this factor.
        tie_projections: whether the map from `hidden_dim` back to
            `embedding_dim` is the transpose of the one in front: a bool, or
            a list of one for each bin. `None`, as in the released runs: a
            matrix of its own in the first bin, tied in the tails.
        loss_chunk: int. Tokens whose logits exist at once in the loss.
        num_sampled: int. Candidates that stand for the vocabulary in the
            training loss; evaluation is exact.
        remat: bool. Keep of each block its inputs alone in training and
            compute it anew for the gradients: less memory, more time. JAX
            on a CPU saves nothing.
        attend_empty_memory: bool. Attend to memory slots that hold nothing,
            as zeros (the released TensorFlow code and Hugging Face).
        memory_dtype: dtype in which memory is kept.
        feature_dim: int. Width C of the vectors (sensors, audio frames,
            events) that the model reads instead of token ids; a projection
            stands for the token embedding.
        dtype: Keras dtype policy of the computation.
        **kwargs: `name` and `trainable`.

    Call arguments:
        inputs: int ids of shape `(batch_size, segment_length)`, or a dict
            with `token_ids` and optionally `document_ids` (-1 is padding) and
            `padding_mask`, each of that shape. With `feature_dim` a float
            tensor `features` of shape `(batch_size, segment_length,
            feature_dim)` takes the place of the ids.
        training: bool. Chooses the memory bank and turns dropout on.

    Returns:
        Float tensor of shape `(batch_size, segment_length, hidden_dim)`,
        zeros on padding.

    Raises:
        ValueError: if an argument is out of range.

    Example:
    ```python
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256, num_layers=2, num_heads=2, hidden_dim=16,
        intermediate_dim=32, memory_length=8, batch_size=1)
    backbone(np.array([[1, 2, 3]])).shape  # (1, 3, 16)
    ```

    Reference:
        Dai et al. 2019 (arXiv 1901.02860).
    """

    def __init__(
        self,
        vocabulary_size: int | None,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        intermediate_dim: int,
        head_dim: int | None = None,
        embedding_dim: int | None = None,
        memory_length: int = 0,
        eval_memory_length: int | None = None,
        batch_size: int | None = None,
        attention_window: int | str | None = None,
        clamp_length: int | None = None,
        eval_attention_window: int | str | None = AS_IN_TRAINING,
        eval_clamp_length: int | str | None = AS_IN_TRAINING,
        position: str = "relative_sinusoidal",
        max_distance: int | None = None,
        relative_values: bool = False,
        share_attention_biases: bool = True,
        normalize_first: bool = False,
        activation: Any = "relu",
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        attention_logit_cap: float | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        memory_dropout: float = 0.0,
        memory_layer_norm: bool = False,
        head_diversity: float = 0.0,
        tie_embeddings: bool = True,
        cutoffs: Sequence[int] | None = None,
        div_val: int = 1,
        tie_projections: bool | list[bool] | None = None,
        loss_chunk: int | None = None,
        num_sampled: int | None = None,
        remat: bool = False,
        attend_empty_memory: bool = False,
        memory_dtype: str = "float32",
        feature_dim: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_keywords(type(self).__name__, kwargs, ("name", "trainable"))
        check_integer("num_layers", num_layers, 1)
        check_integer("hidden_dim", hidden_dim, 2)
        check_integer("num_heads", num_heads, 1)
        check_fraction("dropout", dropout)
        check_weight("head_diversity", head_diversity)
        check_position(position, max_distance, relative_values, clamp_length)
        head_dim = resolve_head_dim(head_dim, hidden_dim, num_heads)
        if embedding_dim is None:
            embedding_dim = hidden_dim
        check_integer("embedding_dim", embedding_dim, 1)
        cutoffs = check_vocabulary(
            vocabulary_size,
            embedding_dim,
            cutoffs,
            div_val,
            tie_projections,
            loss_chunk,
            num_sampled,
            feature_dim,
        )

        # === Layers ===
        def initializer() -> Any:
            return keras.initializers.RandomNormal(stddev=initializer_range)

        self.pack_tokens = PackTokens(name="pack_tokens", dtype=dtype)
        self.unpack_tokens = UnpackTokens(name="unpack_tokens", dtype=dtype)
        self.token_embedding, self.embedding_projection = make_token_embedding(
            vocabulary_size,
            embedding_dim,
            hidden_dim,
            cutoffs,
            div_val,
            tie_embeddings,
            tie_projections,
            initializer,
            dtype,
            feature_dim,
        )
        self.embedding_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="embedding_dropout"
        )
        scheme = make_position_scheme(
            position,
            num_layers,
            num_heads,
            head_dim,
            hidden_dim,
            max_distance=max_distance,
            relative_values=relative_values,
            share_attention_biases=share_attention_biases,
            initializer=initializer,
            dtype=dtype,
            clamp_length=clamp_length,
            eval_clamp_length=eval_clamp_length,
        )
        self.distance_encoding: Any = scheme.encoding
        self.absolute_positions = scheme.absolute
        self.distance_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="distance_dropout"
        )
        self.attention_mask = SegmentAttentionMask(
            attention_window=attention_window,
            eval_attention_window=eval_attention_window,
            attend_empty_memory=attend_empty_memory,
            dtype=dtype,
            name="attention_mask",
        )
        self.attention_biases = scheme.biases
        self.memory_layers = [
            SegmentMemory(
                memory_length,
                batch_size=batch_size,
                eval_memory_length=eval_memory_length,
                attend_empty_memory=attend_empty_memory,
                memory_dtype=memory_dtype,
                dtype=dtype,
                name=f"segment_memory_{index}",
            )
            for index in range(num_layers)
        ]
        self.transformer_layers = [
            TransformerXLBlock(
                num_heads,
                head_dim,
                intermediate_dim,
                normalize_first=normalize_first,
                activation=activation,
                dropout=dropout,
                attention_dropout=attention_dropout,
                attention_logit_cap=attention_logit_cap,
                memory_dropout=memory_dropout,
                memory_layer_norm=memory_layer_norm,
                head_diversity=head_diversity / num_layers,
                remat=remat,
                layer_norm_epsilon=layer_norm_epsilon,
                attention_biases=scheme.biases,
                position_terms=scheme.terms[index],
                kernel_initializer=initializer(),
                dtype=dtype,
                name=f"transformer_layer_{index}",
            )
            for index in range(num_layers)
        ]
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=dtype, name="output_dropout"
        )

        # === Config ===
        activation = keras.activations.get(activation)
        memory_dtype = self.memory_layers[0].memory_dtype
        arguments = locals()
        for name in CONFIG:
            setattr(self, name, arguments[name])

        # === Functional Model ===
        inputs, outputs = self.build_graph(self.memory_layers)
        super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)

    get_layout_map = staticmethod(get_layout_map)

    def normalize_inputs(self, inputs: Any) -> dict[str, Tensor]:
        return normalize_inputs(inputs, self.feature_dim)

    def embed(self, values: Tensor, training: bool | None = None) -> Tensor:
        """Scaled embeddings (B, T, D) of ids (B, T) or features (B, T, C)."""
        hidden = self.token_embedding(values)  # (B, T, E)
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden)  # (B, T, D)
        return self.embedding_dropout(
            hidden * self.hidden_dim**0.5, training=training
        )

    def unembed(self, hidden: Tensor) -> Tensor:
        """Scores of all tokens without bias: (B, T, D) to (B, T, V)."""
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden, reverse=True)
        return self.token_embedding(hidden, reverse=True)

    def run(
        self,
        inputs: dict[str, Tensor],
        remember: Remember,
        training: bool | None,
        attention_window: int | None = None,
    ) -> Tensor:
        """All layers; `remember` gives the context of each block."""
        name = TOKEN_IDS if self.feature_dim is None else FEATURES
        values, document_ids, restore = self.pack_tokens(
            inputs[name], inputs["document_ids"]
        )
        hidden = self.embed(values, training)  # (B, T, D)
        relative_encoding = attention_mask = None
        for index, block in enumerate(self.transformer_layers):
            context, length = remember(index, hidden, document_ids)
            # Blocks read the segment from `hidden`, and memory is a constant.
            context = keras.ops.stop_gradient(context)
            if index == 0:  # the same for all blocks
                attention_mask = self.attention_mask(
                    context,
                    document_ids,
                    length,
                    training=training,
                    at_most=attention_window,
                )
                if self.position == "relative_sinusoidal":
                    relative_encoding = self.distance_dropout(
                        self.distance_encoding(context, training=training),
                        training=training,
                    )
            add_positions = self.absolute_positions[index]
            if add_positions is not None:
                hidden, context = add_positions(
                    hidden, context, document_ids, training=training
                )
            hidden = block(
                hidden,
                context,
                relative_encoding,
                attention_mask,
                training=training,
            )
        hidden = self.output_dropout(hidden, training=training)
        return self.unpack_tokens(hidden, restore, inputs["document_ids"])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in CONFIG},
            "activation": keras.activations.serialize(self.activation),
        }
