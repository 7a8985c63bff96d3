"""Whether the members of the card are those of its versions: of 1.0, of 0.x, or of both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from a2a_bridge.codec.required import missing_required
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import V1_0, by_version
from a2a_bridge_tools.check.inspection import Finding, Inspection

#: members that are named, at most
_MOST = 5


async def schema(inspection: Inspection) -> AsyncGenerator[Finding, None]:
    """One finding for each version whose members the card has."""
    tree = inspection.tree
    if tree is None:
        return
    if tree.get("supportedInterfaces"):
        yield _build_finding("1.0", _faults_of_1_0(tree))
    if isinstance(tree.get("url"), str):
        declared = tree.get("protocolVersion")
        dialect = by_version(declared) if isinstance(declared, str) else None
        if dialect is V1_0:
            if not tree.get("supportedInterfaces"):
                # The members are those of 0.3, whatever they are called.
                fault = f"protocolVersion is {declared}, and the members are those of 0.3"
                yield Finding("card schema 1.0", False, fault, _REWRITE)
            return
        older = dialect is not None and dialect.version < "0.3"
        yield _build_finding("0.2.5" if older else "0.3", _faults_of_0_x(tree, older=older))


_REWRITE = (
    "list the interfaces in supportedInterfaces, each with url, protocolBinding and protocolVersion, or write"
    ' "protocolVersion": "0.3.0"'
)


def _build_finding(version: str, faults: list[str]) -> Finding:
    if not faults:
        return Finding(f"card schema {version}", True, "every required member is there")
    shown = "; ".join(faults[:_MOST])
    more = f"; and {len(faults) - _MOST} more" if len(faults) > _MOST else ""
    return Finding(
        f"card schema {version}",
        False,
        shown + more,
        "correct these members: strict clients reject the whole card",
    )


def _faults_of_1_0(tree: Mapping[str, Any]) -> list[str]:
    try:
        card = V1_0.card.decode(dict(tree))
    except A2AError as error:
        return [f"{one.field}: {one.description}" for one in error.violations] or [error.message]
    return [f"{path} is missing" for path in missing_required(card) if not _is_there(tree, path)]


def _is_there(tree: Mapping[str, Any], path: str) -> bool:
    """Whether JSON has a member that protobuf cannot tell from an absent one: an empty list or text."""
    found: Any = tree
    for name in path.replace("[", ".[").split("."):
        if name.startswith("["):
            index = int(name[1:-1])
            found = found[index] if isinstance(found, list) and index < len(found) else None
        else:
            found = found.get(name) if isinstance(found, Mapping) else None
    return found is not None


def _faults_of_0_x(tree: Mapping[str, Any], *, older: bool) -> list[str]:
    if older:
        from a2a_bridge.dialects.v0_2_5 import models as models_0_2

        found = models_0_2.check(models_0_2.AgentCard, dict(tree))
    else:
        from a2a_bridge.dialects.v0_3 import models

        found = models.check(models.AgentCard, dict(tree))
    return [f"{one.field}: {one.description}" for one in found]
