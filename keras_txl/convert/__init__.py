"""Models of other code: read, and written back."""

from keras_txl.convert.huggingface import from_huggingface
from keras_txl.convert.original_pytorch import from_original_pytorch
from keras_txl.convert.original_pytorch import to_original_pytorch
from keras_txl.convert.original_tensorflow import from_original_tensorflow

__all__ = [
    "from_huggingface",
    "from_original_pytorch",
    "from_original_tensorflow",
    "to_original_pytorch",
]
