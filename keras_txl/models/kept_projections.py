"""Memory as keys and values, for as long as the weights stand still.

A memory of hidden states is projected by each segment that reads it. In an
evaluation no weight changes between segments, so what a token was projected
to is kept in place of its hidden state, and what distances add is computed
once. The number of slots does not change either: memory and segment share one
softmax, which is faster. The losses are those of `token_losses`, up to the
rounding of another order of sums.

Axes: B rows, M memory slots, T segment, S = M + T keys, N heads, H head width,
D hidden width.
"""

from typing import Any

from keras import ops

from keras_txl.aliases import Memory
from keras_txl.aliases import Tensor
from keras_txl.layers.memory_parts import keys_in_one
from keras_txl.layers.relative_attention import project_tokens
from keras_txl.layers.segment_memory import advance
from keras_txl.layers.segment_memory import clear_empty_slots
from keras_txl.layers.segment_memory import join_memory
from keras_txl.layers.segment_memory import recall
from keras_txl.layers.segment_memory import update_memory
from keras_txl.layers.transformer_xl_block import TransformerXLBlock

KeptMemory = dict[str, Any]
"""A tuple `layers` of keys and values (B, M, N H), a tuple `terms` of what
distances add in each layer, `length (B,)` and `document (B,)`."""


class KeptProjections:
    """Reads segments of one length; the weights must not change meanwhile.

    Args:
        lm: a `TransformerXLCausalLM` that `suits`.
        segment_length: int T.
    """

    def __init__(self, lm: Any, segment_length: int) -> None:
        self._lm = lm
        self._segment_length = segment_length

    @staticmethod
    def suits(backbone: Any) -> bool:
        """Whether keys and values stand for the memory of this model.

        Absolute positions, which move with every segment, are added in front
        of the projections; a memory narrower than the computation rounds what
        it stores; and an empty slot that is attended to must be projected to
        zeros, which a norm in front does not do.
        """
        block = backbone.transformer_layers[0]
        normalized = block.normalize_first or block.memory_layer_norm
        stored, computed = backbone.memory_dtype, backbone.compute_dtype
        rounds = stored != computed and (
            stored != "float32" or computed == "float64"
        )
        return (
            not backbone.position.startswith("absolute")
            and not rounds
            and not (backbone.attend_empty_memory and normalized)
        )

    def token_losses(
        self, inputs: Any, targets: Any, memory: Memory | KeptMemory
    ) -> tuple[Tensor, KeptMemory]:
        """As the method of the model.

        Args:
            inputs: as in a call, segments of T tokens.
            targets: int ids of shape `(batch_size, segment_length)`.
            memory: from `initial_memory` or an earlier call of this method.

        Returns:
            Losses `(batch_size, segment_length)` in nats and the memory after
            the segment.
        """
        lm = self._lm
        if "states" in memory:
            start = lm._value_function(
                ("kept_projections", self._segment_length), self._project
            )
            memory = start(memory)
        inputs, targets = lm.check_for_losses(inputs, targets)
        read = lm._value_function(
            ("kept_token_losses", lm.jit_compile),
            self._losses,
            jit_compile=lm.jit_compile,
        )
        return read(inputs, targets, memory)

    def _project(self, memory: Memory) -> KeptMemory:
        """The keys and values of a memory, and the terms of all distances."""
        backbone = self._lm.backbone
        states, length = memory["states"], memory["length"]
        slots = ops.shape(states)[2]
        # Its length is read.
        keys = ops.zeros((1, slots + self._segment_length, 1))
        encoding = None
        if backbone.distance_encoding is not None:
            encoding = backbone.distance_encoding(keys)
        blocks = backbone.transformer_layers
        return {
            "layers": tuple(
                _keys_and_values(
                    block,
                    block.normalize_context(
                        ops.cast(
                            clear_empty_slots(states[:, index], length),
                            block.compute_dtype,
                        )
                    ),
                )
                for index, block in enumerate(blocks)
            ),
            "terms": tuple(
                block.attention.distance_terms(
                    keys, encoding, segment_length=self._segment_length
                )
                for block in blocks
            ),
            "length": length,
            "document": memory["document"],
        }

    def _losses(
        self, inputs: dict[str, Tensor], targets: Tensor, memory: KeptMemory
    ) -> tuple[Tensor, KeptMemory]:
        hidden, memory = self._run(inputs, memory)
        losses = self._lm.head.token_losses(
            hidden, targets, inputs["document_ids"]
        )
        return losses, memory

    def _run(
        self, inputs: dict[str, Tensor], memory: KeptMemory
    ) -> tuple[Tensor, KeptMemory]:
        """`call_with_memory` on keys and values."""
        backbone = self._lm.backbone
        token_ids, document_ids, restore = backbone.pack_tokens(
            inputs["token_ids"], inputs["document_ids"]
        )
        slots = ops.shape(memory["layers"][0][0])[1]
        document = memory["document"]
        length = recall(memory["length"], document, document_ids)
        token_count, new_length, document = advance(
            length, document, document_ids, slots
        )
        hidden = backbone.embed(token_ids)  # (B, T, D)
        mask = None
        layers = []
        for block, kept, terms in zip(
            backbone.transformer_layers,
            memory["layers"],
            memory["terms"],
            strict=True,
        ):
            context = block.normalize_context(hidden)
            keys, values = (
                join_memory(clear_empty_slots(old, length), new)
                for old, new in zip(
                    kept, _keys_and_values(block, context), strict=True
                )
            )  # (B, S, N H)
            if mask is None:  # the same for all blocks
                mask = backbone.attention_mask(keys, document_ids, length)
            hidden = _attend(block, hidden, context, keys, values, terms, mask)
            layers.append(
                tuple(
                    update_memory(rows, token_count, new_length, slots)
                    for rows in (keys, values)
                )
            )
        hidden = backbone.unpack_tokens(hidden, restore, inputs["document_ids"])
        return hidden, {
            "layers": tuple(layers),
            "terms": memory["terms"],
            "length": new_length,
            "document": document,
        }


def _keys_and_values(
    block: TransformerXLBlock, context: Tensor
) -> tuple[Tensor, Tensor]:
    """Two tensors (B, T, N H) of a normalized context (B, T, D)."""
    attention = block.attention
    batch, length = ops.shape(context)[:2]
    shape = (batch, length, attention.num_heads * attention.head_dim)
    return (
        ops.reshape(project_tokens(attention.key_projection, context), shape),
        ops.reshape(project_tokens(attention.value_projection, context), shape),
    )


def _attend(
    block: TransformerXLBlock,
    hidden: Tensor,
    context: Tensor,
    keys: Tensor,
    values: Tensor,
    terms: dict[str, Tensor],
    mask: Tensor,
) -> Tensor:
    """The output (B, T, D) of a block from keys and values (B, S, N H)."""
    attention = block.attention
    query = context if block.normalize_first else hidden
    heads = (attention.num_heads, attention.head_dim)
    keys, values = (
        ops.reshape(rows, (*ops.shape(rows)[:2], *heads))
        for rows in (keys, values)
    )
    query = project_tokens(attention.query_projection, query)
    with keys_in_one():
        attended = attention.attend(query, [keys], [values], terms, mask)
    return block.finish(hidden, attended)
