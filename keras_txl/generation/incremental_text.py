"""Token ids to text as they come, without a cut inside a character."""

from collections.abc import Callable
from collections.abc import Sequence

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
CONTEXT = 8
"""Tokens before the new ones that are decoded with them: whether a space
stands between two pieces is known from both."""

LONGEST_REST = 3
"""Tokens that may wait for the end of a character of four bytes."""


class IncrementalText:
    """Gives out the text of token ids as soon as it is certain.

    Bytes at the end that may be the beginning of a character are held back
    until the rest comes, or until it is certain that none will.

    Args:
        detokenize: turns a list of ids into a string, bytes that are no text
            into U+FFFD.
        context: ids before the text.

    Attributes:
        held: ids whose text was not given out yet.

    Example:

    >>> text = IncrementalText(lambda ids: bytes(ids).decode(errors="replace"))
    >>> text.add([110, 195]), text.add([169])
    ('n', 'é')
    """

    def __init__(
        self,
        detokenize: Callable[[list[int]], str],
        context: Sequence[int] = (),
    ) -> None:
        self.detokenize = detokenize
        self.context = list(context)[-CONTEXT:]
        self.held: list[int] = []

    def add(self, ids: Sequence[int]) -> str:
        """The text that is certain now.

        Args:
            ids: the next tokens.

        Returns:
            It follows what was given out before, and may be empty.
        """
        self.held += [int(token) for token in ids]
        text = self._decode(self.held)
        for count in range(len(self.held), 0, -1):
            if self._is_certain(count, text):
                return self._give_out(count)
        return ""

    def flush(self) -> str:
        """The rest: what was held back is no character and ends here."""
        return self._give_out(len(self.held))

    def forget(self, ids: Sequence[int]) -> None:
        """Take other ids for the context, and hold nothing back."""
        self.context, self.held = list(ids)[-CONTEXT:], []

    def _is_certain(self, count: int, text: str) -> bool:
        """Whether no later token can change the text of the first ones."""
        first = self._decode(self.held[:count])
        if not first.endswith(UNKNOWN):
            return text.startswith(first)
        rest = self.held[count:]
        return len(rest) >= LONGEST_REST and first + self.detokenize(rest) == (
            text
        )

    def _give_out(self, count: int) -> str:
        text = self._decode(self.held[:count])
        self.context = (self.context + self.held[:count])[-CONTEXT:]
        self.held = self.held[count:]
        return text

    def _decode(self, ids: list[int]) -> str:
        before = self.detokenize(self.context)
        return self.detokenize(self.context + ids)[len(before) :]
