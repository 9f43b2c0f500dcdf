"""What training on several devices refuses; see also test_several_devices."""

import numpy as np
import pytest


@pytest.mark.backend("torch")
def test_fit_refuses_a_group_of_processes(make_lm, monkeypatch):
    from torch import distributed

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    ids = np.ones((2, 4), "int32")
    with pytest.raises(ValueError, match="a group of 2 processes"):
        make_lm().fit(ids, ids, verbose=0)


def test_layout_map_divides_heads_and_feed_forward(make_lm):
    import keras

    from keras_txl.models import TransformerXLBackbone

    mesh = keras.distribution.DeviceMesh(
        (2, 2), ("batch", "shard"), [f"cpu:{number}" for number in range(4)]
    )
    layout_map = TransformerXLBackbone.get_layout_map(mesh, "shard")
    divided = {
        variable.path.removeprefix("transformer_layer_0/"): layout.axes
        for variable in make_lm(num_layers=1).backbone.variables
        if (layout := layout_map[variable.path]) is not None
    }
    heads = (None, "shard", None)
    assert divided == {
        "token_embedding/embeddings": (None, "shard"),
        "attention/query/kernel": heads,
        "attention/key/kernel": heads,
        "attention/value/kernel": heads,
        "attention/relative_key/kernel": heads,
        "attention/output/kernel": ("shard", None, None),
        "intermediate/kernel": (None, "shard"),
        "intermediate/bias": ("shard",),
        "projection/kernel": ("shard", None),
    }
