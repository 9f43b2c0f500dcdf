"""Models. Importing this loads KerasHub and registers every class."""

from keras_txl.models.backbone import TransformerXLBackbone
from keras_txl.models.causal_lm import TransformerXLCausalLM
from keras_txl.models.causal_lm_preprocessor import (
    TransformerXLCausalLMPreprocessor,
)
from keras_txl.models.hub_upload import model_card
from keras_txl.models.hub_upload import upload_to_hub
from keras_txl.models.presets import PublishedConfiguration
from keras_txl.models.presets import published_configuration
from keras_txl.models.stateful_model import StatefulModel
from keras_txl.models.text_classifier import TransformerXLTextClassifier
from keras_txl.models.text_classifier_preprocessor import (
    TransformerXLTextClassifierPreprocessor,
)
from keras_txl.models.token_classifier import TransformerXLTokenClassifier
from keras_txl.tokenizers import TransformerXLBytePairTokenizer
from keras_txl.tokenizers import TransformerXLByteTokenizer
from keras_txl.tokenizers import TransformerXLCharacterTokenizer
from keras_txl.tokenizers import TransformerXLSentencePieceTokenizer
from keras_txl.tokenizers import TransformerXLWordTokenizer

for _tokenizer in (
    TransformerXLByteTokenizer,
    TransformerXLCharacterTokenizer,
    TransformerXLWordTokenizer,
    TransformerXLBytePairTokenizer,
    TransformerXLSentencePieceTokenizer,
):
    _tokenizer.backbone_cls = TransformerXLBackbone

__all__ = [
    "PublishedConfiguration",
    "StatefulModel",
    "TransformerXLBackbone",
    "TransformerXLCausalLM",
    "TransformerXLCausalLMPreprocessor",
    "TransformerXLTextClassifier",
    "TransformerXLTextClassifierPreprocessor",
    "TransformerXLTokenClassifier",
    "model_card",
    "published_configuration",
    "upload_to_hub",
]
