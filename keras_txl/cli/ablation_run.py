"""One model of an ablation: trained, then evaluated on held-out text."""

import hashlib
import math
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from keras_txl.cli.ablation import Variant
from keras_txl.cli.ablation import evaluated_lengths
from keras_txl.cli.arguments import ModelSize
from keras_txl.cli.encoded_texts import encode_documents
from keras_txl.cli.encoded_texts import target_bytes
from keras_txl.cli.memory_table import hold_out
from keras_txl.cli.model_folder import count_parameters
from keras_txl.cli.progress import progress_bar
from keras_txl.cli.report import versions
from keras_txl.cli.training_choices import TrainingChoices
from keras_txl.cli.training_plan import TrainingPlan
from keras_txl.cli.training_plan import needs_timing
from keras_txl.cli.training_plan import steps_in
from keras_txl.cli.training_run import build_model
from keras_txl.cli.training_run import matched_size
from keras_txl.cli.training_run import measure_step
from keras_txl.cli.training_run import run_plan
from keras_txl.data import SegmentStream
from keras_txl.data import load_corpus
from keras_txl.evaluation import evaluate_stream

HELD_OUT_BYTES = 200_000


class AblationTexts:
    """What models are trained on, and what is held out, as tokens.

    Args:
        source: as in `load_corpus`.
        size: sizes of the comparison.
        tokenizer: makes the tokens.

    Attributes:
        digest: twelve digits that change with the tokens.
        told: the sizes in words.
    """

    def __init__(self, source: str, size: ModelSize, tokenizer: Any) -> None:
        corpus = load_corpus(
            source,
            validation_fraction=0,
            minimum_bytes=size.segment_length + 1,
        )
        self.training = encode_documents(
            tokenizer, [document.data for document in corpus.train]
        )
        held_out, _ = hold_out(
            [document.data for document in corpus.test], HELD_OUT_BYTES
        )
        self.held_out = encode_documents(tokenizer, held_out)
        self.held_out_bytes = target_bytes(tokenizer, held_out, self.held_out)
        digest = hashlib.sha256()
        for ids in (*self.training, *self.held_out):
            digest.update(len(ids).to_bytes(8, "little"))
            digest.update(ids.astype("<i4").tobytes())
        self.digest = digest.hexdigest()[:12]
        self.told = (
            f"{corpus.source}: {corpus.sizes['train']:,} bytes to train on, "
            f"{sum(map(len, held_out)):,} held out"
        )


def run_variant(
    variant: Variant,
    seed: int,
    settings: Mapping[str, Any],
    size: ModelSize,
    tokenizer: Any,
    texts: AblationTexts,
) -> dict[str, Any]:
    """Train and evaluate one model.

    Args:
        variant: what is special about it.
        seed: seed of its weights.
        settings: what all models have in common: `choices`, and `steps` or
            `minutes`.
        size: sizes of the comparison.
        tokenizer: makes the tokens it is over.
        texts: what it is trained on and evaluated with.

    Returns:
        A dict of numbers and texts for JSON.

    Raises:
        ValueError: if training diverged.
    """
    keras.utils.clear_session()
    started = time.monotonic()
    choices = TrainingChoices(**settings["choices"])
    own = matched_size(variant.size(size), size, tokenizer)
    lm, steps = _train(own, seed, choices, settings, tokenizer, texts.training)
    seconds = time.monotonic() - started
    return {
        "position": variant.position,
        "recurrent": variant.recurrent,
        "seed": seed,
        "steps": steps,
        "trained_attention_length": own.segment_length + own.memory_length,
        "parameters": count_parameters(lm),
        "intermediate_dim": own.intermediate_dim,
        "seconds": seconds,
        "evaluations": _evaluate(lm, size, texts, variant.run_name(seed)),
        "made_with": versions(),
    }


def _train(
    size: ModelSize,
    seed: int,
    choices: TrainingChoices,
    settings: Mapping[str, Any],
    tokenizer: Any,
    training: Sequence[Any],
) -> tuple[Any, int]:
    """Train within the budget; returns the model and its steps."""
    stream = SegmentStream(
        training,
        size.batch_size,
        size.segment_length,
        random_lengths=choices.random_lengths,
        random_starts=choices.random_starts,
        shuffle_documents=choices.shuffle_documents,
    )
    started = time.monotonic()
    lm = build_model(size, seed, tokenizer, choices)
    steps, step = settings["steps"], 0
    if needs_timing(steps):
        step, step_seconds = measure_step(lm, stream)
    if steps is None:
        left = settings["minutes"] * 60 - (time.monotonic() - started)
        steps = max(steps_in(left, step_seconds, 0.0), step)
    plan = TrainingPlan(
        steps, size.learning_rate, choices.schedule, choices.warmup
    )
    if step < steps:
        run_plan(lm, stream, step, plan, None)
    return lm, steps


def _evaluate(
    lm: Any, size: ModelSize, texts: AblationTexts, name: str
) -> list[dict[str, Any]]:
    """The loss on held-out text for each attention length."""
    found = []
    for memory_length in evaluated_lengths(size):
        with progress_bar(f"Evaluating, memory {memory_length}") as update:
            result = evaluate_stream(
                lm,
                texts.held_out,
                segment_length=size.segment_length,
                batch_size=size.batch_size,
                memory_length=memory_length,
                document_bytes=texts.held_out_bytes,
                progress=update,
            )
        if not math.isfinite(result.nats):
            raise ValueError(
                f"Training must not diverge. Received: {name}, with a loss "
                "that is no number. Begin anew with --overwrite and a lower "
                "--learning-rate."
            )
        found.append(
            {
                "memory_length": memory_length,
                "attention_length": size.segment_length + memory_length,
                "nats_per_token": result.nats_per_token,
                "bits_per_byte": result.bits_per_byte,
                "protocol_line": result.protocol_line,
            }
        )
    return found
