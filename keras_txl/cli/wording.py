"""Numbers with their nouns, as verbs print them."""


def counted(number: int, noun: str) -> str:
    """`number` and `noun`, in the plural unless there is one.

    Args:
        number: how many.
        noun: in the singular; its plural ends in s.

    Returns:
        For example `"1 document"` or `"1,024 bytes"`.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
