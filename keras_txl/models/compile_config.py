"""Models with a `compile` of their own that load as they were compiled."""

from typing import Any

import keras


class CompiledAgainMixin:
    """Compiles a loaded model as it was when it was saved."""

    compile: Any
    optimizer: Any
    trainable_variables: list[Any]

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)
