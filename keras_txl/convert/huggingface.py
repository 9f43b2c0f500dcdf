"""TransfoXL models of Hugging Face transformers.

The code is `TransfoXLLMHeadModel`, in that package until its version 4.57.
"""

from typing import Any

from keras_txl.convert.model_building import build_model
from keras_txl.convert.source_config import bin_arguments
from keras_txl.convert.source_config import read_keys
from keras_txl.convert.source_config import refuse_extended_context
from keras_txl.convert.source_config import refuse_sampled_softmax
from keras_txl.convert.source_config import refuse_square_projection
from keras_txl.convert.source_config import shared_arguments
from keras_txl.convert.weight_files import read_source
from keras_txl.convert.weight_layout import assign_weights
from keras_txl.convert.weight_names import pytorch_names
from keras_txl.models import TransformerXLCausalLM

# The arguments of TransfoXLConfig and their defaults there.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 267735,
    "cutoffs": [20000, 40000, 200000],
    "d_model": 1024,
    "d_embed": 1024,
    "n_head": 16,
    "d_head": 64,
    "d_inner": 4096,
    "div_val": 4,
    "pre_lnorm": False,
    "n_layer": 18,
    "mem_len": 1600,
    "ext_len": 0,
    "clamp_len": 1000,
    "same_length": True,
    "proj_share_all_but_first": True,
    "tie_projs": None,  # written from proj_share_all_but_first, and over it
    "attn_type": 0,
    "sample_softmax": -1,
    "dropout": 0.1,
    "dropatt": 0.0,
    "untie_r": True,
    "init_std": 0.02,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}

# Keys of the same file that do not change what the model computes: training
# and initial values, generation, labels of classifiers, bookkeeping.
_IGNORED = frozenset(
    "adaptive init init_range proj_init_std tgt_len n_token tie_weight "
    "eos_token_id bos_token_id pad_token_id sep_token_id "
    "_attn_implementation_autoset _attn_implementation "
    "decoder_start_token_id architectures model_type torch_dtype dtype "
    "transformers_version _name_or_path _commit_hash task_specific_params "
    "problem_type tokenizer_class prefix id2label label2id num_labels "
    "finetuning_task gradient_checkpointing return_dict "
    "return_dict_in_generate output_hidden_states output_attentions "
    "output_scores output_past "
    "use_cache torchscript use_bfloat16 tf_legacy_loss pruned_heads "
    "chunk_size_feed_forward is_decoder is_encoder_decoder "
    "add_cross_attention cross_attention_hidden_size tie_encoder_decoder "
    "max_length min_length do_sample early_stopping num_beams "
    "num_beam_groups diversity_penalty temperature top_k top_p typical_p "
    "repetition_penalty length_penalty no_repeat_ngram_size "
    "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "keys_to_ignore_at_inference".split()
)


def from_huggingface(
    config: Any, weights: Any = None, **backbone_overrides: Any
) -> TransformerXLCausalLM:
    """Build a TransfoXL model of Hugging Face with its weights.

    The conventions of that code are set: a new memory is zeros that are
    attended to, `same_length` shows each query `mem_len` keys (the paper's
    TensorFlow code shows one more), and the clusters come first to last.

    Args:
        config: dict of the keys of `TransfoXLConfig`, path of a JSON file
            with them, or a folder with `config.json` and weights.
        weights: mapping of state_dict names to arrays, path of a
            `.safetensors`, `.bin`, `.pt` or `.npz` file, or a folder with
            one. `None`: the folder given as `config`.
        **backbone_overrides: arguments of `TransformerXLBackbone` that
            replace the source's, for example `batch_size`, `dtype`,
            `memory_length`.

    Returns:
        A `TransformerXLCausalLM` without a preprocessor.

    Raises:
        ValueError: if a key of `config` is unknown or asks for what we do not
            have, or if weights do not fit.
    """
    config, arrays, source = read_source(config, weights)
    arguments = _backbone_arguments(config)
    lm = build_model(arguments, backbone_overrides)
    assign_weights(lm, pytorch_names(lm, "transformer."), arrays, source)
    return lm


def _backbone_arguments(config: dict[str, Any]) -> dict[str, Any]:
    keys = read_keys(config, _DEFAULTS, _IGNORED)
    refuse_extended_context(keys)
    refuse_sampled_softmax(keys)
    refuse_square_projection(keys)
    if keys["attn_type"] != 0:
        raise ValueError(
            "`attn_type` must be 0: Hugging Face has no other. Received: "
            f"attn_type={keys['attn_type']}. If the weights come from the "
            "original code, use keras_txl.convert.from_original_pytorch."
        )
    tied = keys["tie_projs"]
    if tied is None:
        tails = len(keys["cutoffs"] or ())
        tied = [False] + [keys["proj_share_all_but_first"]] * tails
    return {
        **shared_arguments(keys),
        **bin_arguments(keys["cutoffs"], keys["div_val"], tied),
        "vocabulary_size": keys["vocab_size"],
        "attention_window": "memory_length" if keys["same_length"] else None,
        "share_attention_biases": not keys["untie_r"],
        "normalize_first": keys["pre_lnorm"],
        "layer_norm_epsilon": keys["layer_norm_epsilon"],
        "tie_embeddings": keys["tie_word_embeddings"],
        "attend_empty_memory": True,
    }
