"""Writes the files of a SavedModel. Keras runs on TensorFlow here.

Axes: B rows, P prompt.
"""

from collections.abc import Sequence
from typing import Any

from keras_txl.export.generate_signature import GENERATE
from keras_txl.export.generate_signature import GenerateSignature
from keras_txl.export.operations import check_operations
from keras_txl.export.operations import foreign_operations
from keras_txl.export.serving_files import write_warmup
from keras_txl.export.session_signature import SESSION
from keras_txl.export.session_signature import SessionSignature
from keras_txl.export.signatures import StreamSignatures
from keras_txl.export.signatures import graph_function
from keras_txl.export.text_signature import GENERATE_TEXT
from keras_txl.export.text_signature import GenerateTextSignature

PROMPT_LENGTHS = (6, 1, 3)
"""Tokens of the prompts of the check of `generate_text`."""


def write_saved_model(
    lm: Any,
    folder: str,
    memory_length: int,
    memory_format: str,
    num_sessions: int | None,
    stop_token_ids: Sequence[int],
) -> dict[str, Any]:
    """Write an archive that needs TensorFlow's own operations alone.

    Args:
        lm: a `TransformerXLCausalLM`.
        folder: where the files go.
        memory_length: int M. With 0 there is nothing to generate from.
        memory_format: see `memory_format.py`.
        num_sessions: int. `None`: no `session_step`.
        stop_token_ids: ids that end a generated row.

    Returns:
        `signatures` (shape and dtype of each input and output), `texts` (of
        prompts, what `generate_text` answers, if it is there) and
        `foreign_operations` (why it is not there).
    """
    stream = StreamSignatures(lm, memory_length, memory_format)
    functions = stream.functions()
    text = None
    if memory_length > 0:
        generate = GenerateSignature(lm, memory_length, stop_token_ids)
        functions["generate"] = graph_function(generate, GENERATE)
        text = _text_function(lm, generate)
    kept: dict[str, Any] = {}
    if num_sessions is not None:
        session = SessionSignature(stream, num_sessions)
        functions["session_step"] = graph_function(session, SESSION)
        kept["sessions"] = session.slots
    foreign: list[str] = []
    if text is not None:
        foreign = foreign_operations(text.get_concrete_function())
        if foreign:
            text = None
        else:
            functions["generate_text"] = text
            kept["tokenizer"] = lm.preprocessor.tokenizer
    texts = _texts(lm, text)
    return {
        "signatures": _save(functions, folder, "step", kept, texts),
        "texts": texts,
        "foreign_operations": foreign,
    }


def write_text_model(
    lm: Any, folder: str, memory_length: int, stop_token_ids: Sequence[int]
) -> dict[str, Any]:
    """Write an archive of `generate_text` alone, whatever it needs.

    Args:
        lm: a `TransformerXLCausalLM` with a tokenizer.
        folder: where the files go.
        memory_length: int M of at least 1.
        stop_token_ids: ids that end a generated row.

    Returns:
        `signatures` and `texts` as of `write_saved_model`.
    """
    generate = GenerateSignature(lm, memory_length, stop_token_ids)
    text = _text_function(lm, generate)
    kept = {"tokenizer": lm.preprocessor.tokenizer}
    functions = {"generate_text": text}
    texts = _texts(lm, text)
    signatures = _save(functions, folder, "generate_text", kept, texts)
    return {"signatures": signatures, "texts": texts}


def greedy_text_request(prompts: Sequence[str]) -> dict[str, Any]:
    """A request for the likeliest eight tokens behind each prompt."""
    import tensorflow as tf

    rows = len(prompts)
    return {
        "prompts": tf.constant(list(prompts)),
        "max_new_tokens": tf.fill([rows], 8),
        "temperature": tf.zeros([rows]),
        "top_k": tf.zeros([rows], tf.int32),
        "top_p": tf.ones([rows]),
        "seed": tf.zeros([rows], tf.int32),
    }


def _text_function(lm: Any, generate: GenerateSignature) -> Any:
    if getattr(lm.preprocessor, "tokenizer", None) is None:
        return None
    text = GenerateTextSignature(lm, generate)
    return graph_function(text, GENERATE_TEXT)


def _texts(lm: Any, text: Any) -> dict[str, str]:
    """Prompts that the tokenizer can read, and what is answered to them."""
    if text is None:
        return {}
    tokenizer = lm.preprocessor.tokenizer
    size = tokenizer.vocabulary_size()
    rows = [[size * n // 7 for n in range(1, k + 1)] for k in PROMPT_LENGTHS]
    prompts = [_string(tokenizer.detokenize(row)) for row in rows]
    # A special token alone may be no text.
    prompts = [prompt for prompt in prompts if prompt.strip()]
    answers = text(greedy_text_request(prompts))["texts"].numpy().tolist()
    return dict(zip(prompts, map(_string, answers), strict=True))


def _string(text: Any) -> str:
    if hasattr(text, "numpy"):
        text = text.numpy()
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _save(
    functions: dict[str, Any],
    folder: str,
    default: str,
    kept: dict[str, Any],
    texts: dict[str, str],
) -> dict[str, Any]:
    """Write functions and the variables, tables and assets they read."""
    import tensorflow as tf

    concrete = {
        name: function.get_concrete_function()
        for name, function in functions.items()
    }
    for name, function in concrete.items():
        check_operations(name, function, apart=default == "generate_text")
    module = tf.Module()
    captured = (v for function in concrete.values() for v in function.variables)
    module.weights = list({id(v): v for v in captured}.values())
    for name, value in kept.items():
        setattr(module, name, value)
    tf.saved_model.save(
        module,
        folder,
        signatures={**concrete, "serving_default": concrete[default]},
        options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
    )
    signatures = {name: _describe(f) for name, f in concrete.items()}
    write_warmup(folder, signatures, next(iter(texts), ""))
    return signatures


def _describe(function: Any) -> dict[str, Any]:
    (inputs,) = function.structured_input_signature[0]

    def told(specs: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {"shape": spec.shape.as_list(), "dtype": spec.dtype.name}
            for name, spec in sorted(specs.items())
        }

    return {
        "inputs": told(inputs),
        "outputs": told(function.structured_outputs),
    }
