"""How the weights of a model are shared between devices of JAX.

Axes: B rows, D hidden width, N heads, H head width, F intermediate width, V
vocabulary.
"""

from typing import Any

import keras

MODEL = "model"
LAYOUTS = {
    "token_embedding/embeddings": (None, MODEL),  # (V, D)
    "attention/(query|key|value|relative_key)/kernel": (None, MODEL, None),
    "attention/output/kernel": (MODEL, None, None),  # (N, H, D)
    "intermediate/kernel": (None, MODEL),  # (D, F)
    "intermediate/bias": (MODEL,),  # (F,)
    "projection/kernel": (MODEL, None),  # (F, D)
}


def get_layout_map(
    device_mesh: Any, model_parallel_dim_name: str = "model"
) -> Any:
    """The layout of the weights for `keras.distribution.ModelParallel`.

    Heads, and the width of the feed-forward network, are divided between the
    devices of one axis of the mesh; whatever is not named here stands on every
    device. Memory is no weight: it lies where its rows of the batch lie.

    Args:
        device_mesh: a `keras.distribution.DeviceMesh`.
        model_parallel_dim_name: the axis of the mesh that shares weights. Its
            size must divide `num_heads`, `embedding_dim` and
            `intermediate_dim`.

    Returns:
        A `keras.distribution.LayoutMap`.

    Example:
    ```python
    mesh = keras.distribution.DeviceMesh(
        (1, 1), ("batch", "model"), ["cpu:0"]
    )
    layout = keras_txl.models.TransformerXLBackbone.get_layout_map(mesh)
    ```
    """
    layout_map = keras.distribution.LayoutMap(device_mesh)
    for path, axes in LAYOUTS.items():
        layout_map[f"(.*/)?{path}"] = tuple(
            model_parallel_dim_name if axis == MODEL else axis for axis in axes
        )
    return layout_map
