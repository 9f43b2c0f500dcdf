"""A model over the same weights that evaluates larger batches."""

from typing import Any

import keras

from keras_txl.models.stateful_model import StatefulModelMixin


class EvaluationTwin(StatefulModelMixin, keras.Model):
    """The same weights with banks of another size, for evaluation alone."""

    def __init__(self, owner: Any, inputs: Any, outputs: Any) -> None:
        super().__init__(inputs=inputs, outputs=outputs, name="evaluation_twin")
        # A tuple hides the owner from Keras, which would track it as a layer.
        self.__dict__["_owner"] = (owner,)

    def normalize_inputs(self, inputs: Any) -> Any:
        owner = self.__dict__.get("_owner")
        return inputs if owner is None else owner[0].normalize_inputs(inputs)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = False,
    ) -> Any:
        return self.__dict__["_owner"][0].compute_loss(
            x, y, y_pred, sample_weight, training=training
        )

    @property
    def metrics(self) -> list[Any]:
        owner = self.__dict__["_owner"][0]
        shared = getattr(owner, "token_metrics", None)
        return [*super().metrics, *(shared.metrics if shared else ())]

    def compile_like_owner(self) -> None:
        """Take over loss and metrics as the owner was compiled with them."""
        owner = self.__dict__["_owner"][0]
        config = owner.get_compile_config() or {}
        names: tuple[str, ...] = ("loss", "metrics", "weighted_metrics")
        if getattr(owner, "head", None) and owner.head.deferred:
            names = ()  # the loss feeds the metrics of the owner
        self.compile(
            run_eagerly=owner.run_eagerly,
            jit_compile=owner.jit_compile,
            **keras.saving.deserialize_keras_object(
                {name: config.get(name) for name in names}
            ),
        )
