"""Media types: those that an agent accepts and those of its responses, and whether they fit (spec 3.2.2).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.pb import lf_a2a_v1 as hub


def deliverable(card: hub.AgentCard) -> frozenset[str]:
    """Media types that the card declares for responses, of all skills together: a message does not name its
    skill.
    """
    modes = set(card.default_output_modes)
    for skill in card.skills:
        modes.update(skill.output_modes)
    return frozenset(modes)


def check_parts(message: hub.Message, accepted: frozenset[str]) -> None:
    """Raises CONTENT_TYPE_NOT_SUPPORTED for a part that names a media type which is not accepted. Parts
    without one are not judged.
    """
    for at, part in enumerate(message.parts):
        if part.media_type and not overlap(accepted, (part.media_type,)):
            field = f"message.parts[{at}].mediaType"
            raise A2AError(
                Reason.CONTENT_TYPE_NOT_SUPPORTED,
                f"{field}: the agent accepts {', '.join(sorted(accepted))}",
                violations=[Violation(field, "is not accepted by the agent")],
            )


def overlap(accepted: Iterable[str], offered: Iterable[str]) -> bool:
    """True if any offered type is accepted.

    A value that is no media type, on either side (old peers say "text"), cannot be judged: no rejection.
    """
    wanted, available = (_media_ranges(modes) for modes in (accepted, offered))
    if wanted is None or available is None:
        return True
    return any(
        main in ("*", other) and minor in ("*", detail)
        for main, minor in wanted
        for other, detail in available
    )


def _media_ranges(modes: Iterable[str]) -> list[tuple[str, str]] | None:
    ranges = []
    for mode in modes:
        main, slash, minor = mode.partition(";")[0].strip().lower().partition("/")
        if not slash or not main or not minor:
            return None
        ranges.append((main, minor))
    return ranges
