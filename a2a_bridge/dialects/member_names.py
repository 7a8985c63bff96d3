"""Names of members in the errors of an older version. Inside, all errors name members as the hub does.

Rules:
1. An error that is renamed is a new one: the same error may be raised for several callers.
2. Decoders use the names of their wire already: the rules of a version leave these unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from a2a_bridge.core.errors import A2AError, Violation

Rename = Callable[[A2AError], A2AError]
#: (pattern of a path, its replacement); all of them are applied, in their order
Rule = tuple[str, str]


class MemberNames(NamedTuple):
    """The two directions for the errors of one request."""

    #: an error of a service, for a caller of the version
    encode: Rename
    #: an error of an agent of the version
    decode: Rename


def renaming(*rules: Rule) -> Rename:
    """The function that renames the members at fault, also in the text of the error."""
    compiled = [(re.compile(pattern), new) for pattern, new in rules]

    def name_of(path: str) -> str:
        for pattern, new in compiled:
            path = pattern.sub(new, path)
        return path

    def rename(error: A2AError) -> A2AError:
        names = {one.field: name_of(one.field) for one in error.violations}
        changed = {old: new for old, new in names.items() if new != old}
        if not changed:
            return error
        message = error.message
        for old, new in changed.items():
            # Texts begin with the paths, each of them before a comma or a colon.
            text = new.replace("\\", r"\\")
            message = re.sub(rf"(?<![\w.]){re.escape(old)}(?=[,:])", text, message, count=1)
        renamed = A2AError(
            error.reason,
            message,
            violations=[Violation(names[one.field], one.description) for one in error.violations],
            metadata=error.metadata,
            details=error.details,
            code=error.code,
            name=error.name,
            blame=error.blame,
            retry_after=error.retry_after,
        )
        for note in getattr(error, "__notes__", ()):
            renamed.add_note(note)
        return renamed

    return rename
