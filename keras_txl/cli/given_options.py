"""Which options stood on the command line, also those equal to a default."""

import argparse
from collections.abc import Mapping
from typing import Any


def record_given(parser: argparse.ArgumentParser) -> None:
    """Keep the options that are given, by name, as the attribute `given`.

    Call it before options are added to the parser.
    """
    parser.set_defaults(given={})
    parser.register("action", None, _Store)
    parser.register("action", "store_true", _StoreTrue)


class _Store(argparse.Action):
    """Stores the value, and remembers that it was given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)
        namespace.given = {**namespace.given, self.dest: option_string}


class _StoreTrue(_Store):
    """A flag."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"nargs": 0, "default": False, **kwargs})

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        super().__call__(parser, namespace, True, option_string)


def differing(
    options: argparse.Namespace, recorded: Mapping[str, Any]
) -> list[str]:
    """Options that were given and are not what was recorded.

    Args:
        options: parsed, of a parser with `record_given`.
        recorded: values by the names of options.

    Returns:
        A text for each of them, with both values.
    """
    return [
        f"{option} {_shown(getattr(options, name))}".rstrip()
        + f" (the run: {_shown(recorded[name]) or 'without'})"
        for name, option in options.given.items()
        if name in recorded and getattr(options, name) != recorded[name]
    ]


def _shown(value: Any) -> str:
    return "" if value is None or isinstance(value, bool) else str(value)
