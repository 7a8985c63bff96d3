"""Entry points of other distributions: finds them, and loads one or says which of them is broken, and why.

Rules:
1. The module of another distribution may do anything while it is imported, such as `sys.exit`. That ends no
   command by itself, and users get no traceback of a distribution that they have only installed.
2. The error names the entry point, the reason and the distribution.
3. The entry points of a group are looked up once: that reads a file of each distribution.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint, EntryPoints


class BrokenExtensionError(ImportError):
    """The object that an entry point names cannot be used. text: the entry point and the reason. remedy: the
    distributions that have it; empty if they are not known.
    """

    def __init__(self, what: str, reason: str, points: Sequence[EntryPoint]) -> None:
        owners = " and ".join(name for point in points if (name := owner(point)))
        several = len(points) > 1
        self.text = f"{what} cannot be loaded: {reason}"
        self.remedy = owners and f"the distribution{'s' * several} {owners} {'have' if several else 'has'} it"
        super().__init__(f"{self.text}; {self.remedy}" if owners else self.text)


@cache
def entry_points(*, group: str) -> EntryPoints:
    """The entry points of a group, as they are at the first call."""
    from importlib import metadata  # loads the parser of email

    return metadata.entry_points(group=group)


def owner(point: EntryPoint) -> str:
    """The name of the distribution with an entry point; empty if it is not known."""
    # The metadata of a damaged installation has no name.
    return (point.dist and point.dist.name) or ""


def load(point: EntryPoint, what: str) -> Any:
    """The object that an entry point names. what: the entry point in the text of an error. Raises
    BrokenExtensionError.
    """
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # rule 1
        raise BrokenExtensionError(what, f"{type(error).__name__}: {error}", [point]) from error
