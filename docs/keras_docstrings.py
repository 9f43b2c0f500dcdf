"""Lets the docs builder read docstrings in the form that Keras uses.

`Call arguments:` are parameters of a class that is called. What follows
`Example:` is not indented; doctest lines in it need a fence to be shown as
code.
"""

import re
from typing import Any

import griffe

REWRITES = [
    (r"^Call arguments:$", "Other parameters: Call arguments"),
    (r"^Example:$", "**Example**\n"),
    (r"^>>> .*\n(?:.+\n?)*", lambda found: f"```pycon\n{found[0]}\n```\n"),
]


class KerasDocstrings(griffe.Extension):
    """Rewrites a docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None:
            return
        text = obj.docstring.value
        for pattern, replacement in REWRITES:
            text = re.sub(pattern, replacement, text, flags=re.M)
        obj.docstring.value = text
