"""Text of others without what a terminal, a log or a shell takes for control. Pure.

A card, a caller and an agent choose names, addresses and messages. Control characters in them move the cursor
of a terminal, begin a line of a log, or end the quotes of a command that is pasted; a word that begins with a
dash is an option, and brackets of a URL are a pattern of curl's.
"""

import re
from urllib.parse import quote

#: all control characters but tab and line feed; marks that turn the direction of text; surrogates
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_IN_A_WORD = re.compile(rf"{_CONTROL.pattern[:-1]}\t\n]")
#: colours and fonts of a terminal, but for text that nobody sees
_COLOUR = re.compile("(\x1b\\[(?!(?:\\d*;)*0*8(?:;|m))[\\d;]*m)")
#: what is a pattern of curl's, unless it is told otherwise
_PATTERN = frozenset("[]{}")


def clean(text: str) -> str:
    """A text without control characters."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r\n", "\n"))


def clean_but_colours(text: str) -> str:
    """A text without control characters but those for colours, which end with it."""
    pieces = _COLOUR.split(text)
    pieces[::2] = map(clean, pieces[::2])
    return "".join([*pieces, "\x1b[0m"] if len(pieces) > 1 else pieces)


def clean_json(text: str) -> str:
    """JSON text without control characters: they are escaped."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def url_word(text: str) -> str:
    """A URL or an address as one word of a command, without control characters: they are percent-encoded."""
    return _IN_A_WORD.sub(lambda found: quote(found[0], errors="replace"), text)


def curl_words(url: str) -> list[str]:
    """The first words of a command of curl's for a URL: it is one address, whatever is in it."""
    return ["curl", "-g"] if _PATTERN & set(url) else ["curl"]


def address_words(address: str) -> list[str]:
    """An address as an argument that is no option."""
    return ["--", address] if address.startswith("-") else [address]
