"""How a loss was measured: the same weights give another under another.

The published numbers differ from what the same weights give elsewhere mostly
in the lengths of segment and memory, the window and the clamping.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from keras_txl.checks import AS_BUILT
from keras_txl.checks import check_fraction
from keras_txl.checks import check_integer
from keras_txl.checks import check_language_model
from keras_txl.checks import check_optional_integer
from keras_txl.checks import check_weight


@dataclass(frozen=True)
class EvaluationProtocol:
    """What decides the loss of a model on a text.

    Args:
        segment_length: tokens read in one call.
        batch_size: streams, or windows, side by side. Documents are cut where
            a stream ends.
        memory_length: tokens kept in memory. `None`: as the model was built.
        clamp_length: larger distances count as this one. `None`: all are told
            apart.
        attention_window: keys a query may see, as `eval_attention_window` of
            the backbone. `None`: all; so where a window that is told by the
            memory meets a protocol without memory, as each token would see
            itself alone.
        warmup_tokens: tokens of the same document that a stream reads before
            those it counts, so that a cut costs no context.
        stride: instead of streams, windows of `segment_length` tokens without
            memory, each begun this many tokens behind the one before; only
            tokens that no earlier window has counted are counted. `None`:
            streams.
        zero_memory: whether the states in memory are replaced by zeros.
        dynamic_learning_rate: of the step that follows each call, on the
            tokens it has scored. `None`: the weights stay as trained.
        dynamic_decay: share of the way back to the trained weights in a step.

    Raises:
        ValueError: if a number is out of range, `stride` comes with memory
            or warm-up, or a step with warm-up.
    """

    segment_length: int
    batch_size: int = 1
    memory_length: int | None = None
    clamp_length: int | str | None = AS_BUILT
    attention_window: int | str | None = AS_BUILT
    warmup_tokens: int = 0
    stride: int | None = None
    zero_memory: bool = False
    dynamic_learning_rate: float | None = None
    dynamic_decay: float = 0.0

    def __post_init__(self) -> None:
        check_integer("segment_length", self.segment_length, 1)
        check_integer("batch_size", self.batch_size, 1)
        check_optional_integer("memory_length", self.memory_length, 0)
        check_integer("warmup_tokens", self.warmup_tokens, 0)
        self._check_dynamic()
        if self.stride is None:
            return
        check_integer("stride", self.stride, 1)
        if self.stride > self.segment_length:
            raise ValueError(
                "`stride` must be at most `segment_length`, or tokens would "
                f"be left out. Received: stride={self.stride}, segment_length="
                f"{self.segment_length}. Use stride={self.segment_length}."
            )
        if self.memory_length or self.warmup_tokens or self.zero_memory:
            raise ValueError(
                "`stride` is for windows without memory, each on its own. "
                f"Received: stride={self.stride}, memory_length="
                f"{self.memory_length}, warmup_tokens={self.warmup_tokens}, "
                f"zero_memory={self.zero_memory}. Leave the others out."
            )

    def _check_dynamic(self) -> None:
        check_fraction("dynamic_decay", self.dynamic_decay)
        if self.dynamic_learning_rate is None:
            if self.dynamic_decay:
                raise ValueError(
                    "`dynamic_decay` is the way back from the steps of "
                    "`dynamic_learning_rate`. Received: dynamic_decay="
                    f"{self.dynamic_decay} without one. Pass both."
                )
            return
        check_weight("dynamic_learning_rate", self.dynamic_learning_rate)
        if self.warmup_tokens:
            raise ValueError(
                "Dynamic evaluation must not read a token before it is "
                "scored, as the warm-up of a stream does with the end of the "
                "stream before. Received: dynamic_learning_rate="
                f"{self.dynamic_learning_rate}, warmup_tokens="
                f"{self.warmup_tokens}. Use batch_size=1, which cuts no "
                "document, without warm-up."
            )

    def resolved(self, lm: Any) -> "EvaluationProtocol":
        """The same protocol with what it leaves to the model filled in."""
        from keras_txl.models.evaluation_settings import clamped_layers
        from keras_txl.models.evaluation_settings import evaluation_settings

        check_language_model(lm)
        memory = 0 if self.stride is not None else self.memory_length
        if memory is None:
            memory = int(lm.initial_memory(1)["states"].shape[2])
        with evaluation_settings(lm, self.attention_window, self.clamp_length):
            mask = lm.backbone.attention_mask
            told_by_memory = isinstance(mask.window_setting(), str)
            window = None
            if memory or not told_by_memory:
                window = mask.window(memory)
            clamps = {
                layer.clamp_length
                if layer.eval_clamp_length == "as_in_training"
                else layer.eval_clamp_length
                for layer in clamped_layers(lm.backbone)
            }
        return replace(
            self,
            memory_length=memory,
            attention_window=None if window is None else int(window),
            clamp_length=clamps.pop() if clamps else None,
        )

    def told(self) -> str:
        """The settings in one line of words."""
        parts = [
            f"segment {self.segment_length}",
            f"memory {_shown(self.memory_length, AS_BUILT)}"
            + (" (zeroed)" if self.zero_memory else ""),
            f"clamp {_shown(self.clamp_length)}",
            f"window {_shown(self.attention_window)}",
            f"batch {self.batch_size}",
        ]
        if self.stride is None:
            parts.append(f"warm-up {self.warmup_tokens}")
        else:
            parts.append(f"stride {self.stride}")
        if self.dynamic_learning_rate is not None:
            parts.append(
                f"dynamic learning rate {self.dynamic_learning_rate}, decay "
                f"{self.dynamic_decay}"
            )
        return ", ".join(parts)


def published_protocol(name: str, **changes: Any) -> EvaluationProtocol:
    """How the authors evaluated a published configuration.

    One stream unless told otherwise: the released scripts read several, each
    with an empty memory at its start, which costs a little.

    Args:
        name: as in `keras_txl.models.published_configuration`.
        **changes: arguments of `EvaluationProtocol` to be others.

    Returns:
        The protocol.

    Raises:
        ValueError: if there is no configuration of that name.

    Example:

    ```python
    protocol = keras_txl.evaluation.published_protocol("txl_wt103_base")
    print(protocol.told())
    ```
    """
    from keras_txl.models.presets import published_configuration

    published = published_configuration(name)
    backbone: Mapping[str, Any] = published.backbone
    settings: dict[str, Any] = {
        "segment_length": published.evaluation["segment_length"],
        "memory_length": backbone["eval_memory_length"],
        "clamp_length": backbone.get("eval_clamp_length"),
        "attention_window": backbone["eval_attention_window"],
    }
    return EvaluationProtocol(**{**settings, **changes})


def _shown(value: Any, absent: str = "none") -> str:
    return absent if value is None else str(value)
