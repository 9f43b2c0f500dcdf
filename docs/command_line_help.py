"""Writes the help of every verb into its page while the docs are built."""

import contextlib
import io
import os
from typing import Any

from keras_txl.cli.main import VERBS
from keras_txl.cli.main import main

PLACE = "<!-- help of every verb -->"


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Replace `PLACE` by one section a verb."""
    if PLACE not in markdown:
        return markdown
    os.environ.update(COLUMNS="80", NO_COLOR="1")
    sections = [_help()]
    for module in VERBS:
        verb = module.__name__.rpartition(".")[2]
        sections += [f"## {verb}", _help(verb)]
        for target in getattr(module, "TARGETS", ()):
            words = (verb, target.NAME)
            sections += [f"### {' '.join(words)}", _help(*words)]
    return markdown.replace(PLACE, "\n\n".join(sections))


def _help(*words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        with contextlib.suppress(SystemExit):
            main([*words, "--help"])
    return f"```text\n{printed.getvalue()}```"
