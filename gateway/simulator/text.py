"""Words: the simulator's tokens. One piece of text is one streamed event and one token of usage.

Must not import: Django, aiohttp.
"""

import re
from itertools import cycle, islice

# Scripts without spaces: each character is a piece of its own, so that they too stream one by one.
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_PIECE = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)")


def split_pieces(text: str) -> tuple[str, ...]:
    """Split into words that keep the white space before them; joined they give the text again."""
    pieces = _PIECE.findall(text)
    if not pieces:
        return (text,) if text else ()
    pieces[-1] += text[sum(map(len, pieces)) :]
    return tuple(pieces)


def count_tokens(text: str) -> int:
    """How many pieces the text has: the deterministic stand-in for a tokeniser."""
    return len(split_pieces(text))


def repeat_to(pieces: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Exactly `count` pieces: the given ones over and over."""
    spaced = (pieces[0] if pieces[0][:1].isspace() else f" {pieces[0]}", *pieces[1:])
    return tuple(islice((*pieces, *islice(cycle(spaced), max(0, count - len(pieces)))), count))
