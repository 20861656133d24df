"""Cuts a whole text into the pieces of a stream that the client asked for."""

import re

PIECE_CHARS = 512

_PIECE = re.compile(rf".{{1,{PIECE_CHARS}}}\Z|.{{1,{PIECE_CHARS - 1}}}\s|.{{1,{PIECE_CHARS}}}", re.DOTALL)


def pieces(text: str) -> list[str]:
    """At most `PIECE_CHARS` characters each, cut behind white space where there is any; joined, the text."""
    return _PIECE.findall(text)
