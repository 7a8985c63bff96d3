"""How a base64 text deviates from standard base64 in one line, in a few characters. It decodes nothing.

So that megabytes need not be kept a second time only because somebody broke their lines.
"""

from __future__ import annotations

from typing import Any

Recipe = dict[str, Any]
"""url: the URL-safe alphabet. bare: no padding. last: the last character before the padding, if it has stray bits.
width, line, end: characters per line, what ends a line, and whether the last one has it too.
"""

_SHORTEST = 64
_STANDARD_TO_URL = str.maketrans("+/", "-_")
_URL_TO_STANDARD = str.maketrans("-_", "+/")
_BLANKS = str.maketrans("", "", " \t\r\n")


def describe(canonical: str, given: str) -> Recipe | None:
    """How to get the text that was given from the canonical one; None when that is shorter said with the text."""
    if len(given) < _SHORTEST or not given.isascii():
        return None
    recipe: Recipe = {}
    plain = given.translate(_BLANKS)
    if plain != given:
        first = next(index for index, char in enumerate(given) if char in "\r\n\t ")
        line = "\r\n" if given.startswith("\r\n", first) else given[first]
        recipe = {"width": first, "line": line}
        if given.endswith(line):
            recipe["end"] = True
    if "-" in plain or "_" in plain:
        recipe["url"] = True
    body = plain.rstrip("=")
    if canonical.endswith("=") and body == plain:
        recipe["bare"] = True
    whole = canonical.rstrip("=")
    if body and whole and body[-1].translate(_URL_TO_STANDARD) != whole[-1]:
        recipe["last"] = body[-1].translate(_URL_TO_STANDARD)
    return recipe if recipe and respelled(canonical, recipe) == given else None


def respelled(canonical: str, recipe: Recipe) -> str | None:
    """The text that a recipe makes; None when it is no recipe."""
    match recipe:
        case {"last": str(last)} if len(last) == 1 and canonical.rstrip("="):
            body = canonical.rstrip("=")
            canonical = body[:-1] + last + canonical[len(body) :]
        case {"last": _}:
            return None
    if recipe.get("bare"):
        canonical = canonical.rstrip("=")
    if recipe.get("url"):
        canonical = canonical.translate(_STANDARD_TO_URL)
    match recipe:
        case {"width": int(width), "line": ("\r\n" | "\n" | "\r" | "\t" | " ") as line} if width > 0:
            lines = [canonical[start : start + width] for start in range(0, len(canonical), width)]
            joined: str = line.join(lines)
            return joined + (line if recipe.get("end") else "")
        case {"width": _} | {"line": _} | {"end": _}:
            return None
    return canonical
