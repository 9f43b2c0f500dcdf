"""Continue to train a model that the authors' PyTorch code has trained.

    python examples/continue_from_checkpoint.py
    python examples/continue_from_checkpoint.py --checkpoint my_run/ \\
        --text my_texts/

A checkpoint is a folder with the arguments of the original's constructor
(`config.json`) and its weights under the original's names (`weights.npz`,
`model.safetensors` or `pytorch_model.bin`). Without `--checkpoint` the script
writes a small one itself, of a byte model that it trains on half of the
steps: the released models are gigabytes. Its losses before and after the
conversion are equal; then training goes on.

Expected output (TensorFlow; 55 seconds of one CPU core):

    there: 3.5857 bits per byte, 3.6550 without memory
    wrote crit.out_layers.0.bias, crit.out_layers.0.weight, ...
    here: 3.5857 bits per byte, 3.6550 without memory
    continued: 3.2329 bits per byte, 3.3235 without memory
"""

import argparse
import json
import tempfile
from pathlib import Path

import keras
import numpy as np

import keras_txl
from keras_txl.models import TransformerXLCausalLM

SEGMENT_LENGTH = 64
BATCH_SIZE = 16
# The constructor of `MemTransformerLM` names them so.
CONFIG = {
    "n_token": 256,
    "n_layer": 2,
    "n_head": 4,
    "d_model": 96,
    "d_head": 24,
    "d_inner": 256,
    "mem_len": 64,
}

Documents = list[np.ndarray]


def train(lm: TransformerXLCausalLM, documents: Documents, steps: int) -> None:
    """Train with a learning rate that rises and falls."""
    schedule = keras_txl.training.warmup_cosine_decay(
        2e-3, total_steps=steps, warmup_steps=steps // 10
    )
    lm.compile(
        optimizer=keras_txl.training.make_optimizer(
            "adam", schedule, global_clipnorm=1.0
        )
    )
    stream = keras_txl.data.SegmentStream(documents, BATCH_SIZE, SEGMENT_LENGTH)
    lm.fit(stream.repeat(), steps_per_epoch=steps, verbose=2)


def tell(what: str, lm: TransformerXLCausalLM, documents: Documents) -> None:
    """Print the bits per byte of held-out text with and without memory."""
    with_memory, without = (
        keras_txl.evaluation.evaluate_stream(
            lm,
            documents,
            segment_length=SEGMENT_LENGTH,
            batch_size=BATCH_SIZE,
            memory_length=memory_length,
        ).bits_per_byte
        for memory_length in (CONFIG["mem_len"], 0)
    )
    print(
        f"{what}: {with_memory:.4f} bits per byte, {without:.4f} without memory"
    )


def write_checkpoint(
    folder: Path, documents: Documents, held_out: Documents, steps: int
) -> None:
    """A trained model in the form of the authors' PyTorch code."""
    backbone = keras_txl.models.TransformerXLBackbone(
        vocabulary_size=256,
        num_layers=CONFIG["n_layer"],
        num_heads=CONFIG["n_head"],
        hidden_dim=CONFIG["d_model"],
        intermediate_dim=CONFIG["d_inner"],
        memory_length=CONFIG["mem_len"],
        batch_size=BATCH_SIZE,
        dropout=0.0,
    )
    lm = TransformerXLCausalLM(backbone)
    train(lm, documents, steps)
    tell("there", lm, held_out)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    weights = keras_txl.convert.to_original_pytorch(lm)
    np.savez(folder / "weights.npz", **weights)
    print(f"wrote {', '.join(sorted(weights)[:3])}, ...")


def parse_arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, help="of a byte model")
    parser.add_argument("--text", default="stdlib")
    parser.add_argument("--max-bytes", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="folder to save the model in")
    return parser.parse_args()


def main() -> None:
    """Write a checkpoint, convert it, go on."""
    options = parse_arguments()
    keras.utils.set_random_seed(options.seed)
    corpus = keras_txl.data.load_corpus(
        options.text, max_bytes=options.max_bytes
    )
    documents = [document.byte_ids for document in corpus.train]
    held_out = [document.byte_ids for document in corpus.test]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.checkpoint or Path(temporary)
        if options.checkpoint is None:
            write_checkpoint(folder, documents, held_out, options.steps // 2)
        lm = keras_txl.convert.from_original_pytorch(
            folder, batch_size=BATCH_SIZE
        )
    tell("here", lm, held_out)
    train(lm, documents, options.steps // 2)
    tell("continued", lm, held_out)
    if options.save:
        lm.save_to_preset(options.save)


if __name__ == "__main__":
    main()
