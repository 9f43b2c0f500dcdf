"""Models with a `compile` of their own that load as they were compiled."""

from typing import Any

import keras


class CompiledAgainMixin:
    """Compiles a loaded model as it was when it was saved."""

    optimizer: Any
    trainable_variables: list[Any]

    def compile(self, *args: Any, **kwargs: Any) -> None:
        base: Any = super()
        base.compile(*args, **kwargs)
        self.given_jit_compile = kwargs.get("jit_compile", "auto")

    def get_compile_config(self) -> dict[str, Any] | None:
        """What `compile_from_config` needs, on any backend.

        Keras writes what it made of `jit_compile="auto"`: what is right for
        JAX makes PyTorch compile each function for minutes. On PyTorch it
        writes optimizers as modules that need PyTorch.
        """
        base: Any = super()
        config: dict[str, Any] | None = base.get_compile_config()
        if not config:
            return config
        config = {**config, "jit_compile": self.given_jit_compile}
        optimizer = config.get("optimizer")
        if optimizer and "torch" in str(optimizer["module"]).split("."):
            public = {"module": "keras.optimizers", "registered_name": None}
            config["optimizer"] = {**optimizer, **public}
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)
