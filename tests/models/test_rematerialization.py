"""Blocks that are computed anew for the gradients train the same."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_txl.data import SegmentStream
from keras_txl.layers import TransformerXLBlock
from tests import tolerances
from tests.oracles.gradients import gradients_of
from tests.oracles.weights import randomize
from tests.tolerances import assert_close
from tests.tolerances import to_numpy

ARGUMENTS = {
    "dropout": 0.3,
    "attention_dropout": 0.2,
    "memory_dropout": 0.4,
    "head_diversity": 0.5,
}


def trained(make_lm, remat, **arguments):
    """Losses and every variable after two epochs with all dropouts on."""
    keras.utils.set_random_seed(5)  # seeds of the layers
    lm = make_lm(remat=remat, **arguments)
    lm.compile(optimizer=keras.optimizers.SGD(0.1))
    randomize(lm, seed=4)
    ids = np.random.default_rng(0).integers(0, 17, 45)
    stream = SegmentStream([ids[:23], ids[23:]], 2, 5)
    keras.utils.set_random_seed(6)  # PyTorch draws from it
    losses = lm.fit(stream, epochs=2, verbose=0).history["loss"]
    return losses, [(v.path, to_numpy(v)) for v in lm.variables]


def compare(make_lm, **arguments):
    losses, variables = trained(make_lm, False, **arguments)
    again, recomputed = trained(make_lm, True, **arguments)
    assert_close(again, losses, tolerances.REORDERED, "losses")
    # Weights, both banks, and the states of all seeds.
    for (path, value), (_, new) in zip(variables, recomputed, strict=True):
        assert_close(new, value, tolerances.FLOAT32, path)


def test_training_with_every_dropout_is_the_same(make_lm):
    compare(make_lm, **ARGUMENTS)


CONTEXT = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def make_block(remat):
    keras.utils.set_random_seed(5)
    block = TransformerXLBlock(2, 4, 8, remat=remat, **ARGUMENTS)
    block.build((2, 3, 8))
    randomize(block, seed=4)
    return block


@pytest.mark.backend("tensorflow")
def test_gradients_under_xla_are_the_same():
    import tensorflow as tf

    found = []
    for remat in (False, True):
        block = make_block(remat)

        @tf.function(jit_compile=True)
        def gradients(context, block=block):
            weights = [weight.value for weight in block.trainable_weights]
            with tf.GradientTape() as tape:
                tape.watch(context)
                output = block(context[:, 2:], context, training=True)
                loss = tf.reduce_sum(output**2) + sum(block.losses)
            return loss, *tape.gradient(loss, [context, *weights])

        values = gradients(tf.constant(CONTEXT))
        found.append([to_numpy(x) for x in (*values, *block.variables)])
    for new, old in zip(*found, strict=True):
        assert_close(new, old, tolerances.GRADIENT, "loss, gradients, seeds")


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("remat", [False, True])
def test_a_block_is_computed_again_if_asked(remat, training):
    block = make_block(remat)
    calls = []
    finish = block.finish

    def counted(*args):
        calls.append(1)
        return finish(*args)

    block.finish = counted

    def loss(context=CONTEXT):
        return ops.sum(block(context[:, 2:], context, training=training))

    again = remat and training
    if keras.backend.backend() == "jax":  # traces once and notes it
        import jax

        program = str(jax.make_jaxpr(jax.grad(loss))(CONTEXT))
        assert ("remat" in program or "checkpoint" in program) == again
    else:
        gradients_of(loss, block.trainable_variables)
        assert len(calls) == (2 if again else 1)
