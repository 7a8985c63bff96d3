"""`a2a-bridge conformance`: checks a live agent with A2A's conformance documents."""

from __future__ import annotations

import typer

from a2a_bridge.cli.reading import with_flags
from a2a_bridge_tools.client.flags import ConformanceFlags


@with_flags
def conformance(context: typer.Context, *, flags: ConformanceFlags) -> None:
    """Check a live agent with A2A's conformance documents (ACTS), over each binding of its card.

    Without --suite, a small suite of our own is run, which any agent can pass. Ends with 1 if a test of level
    `must` fails. YAML documents need PyYAML.

    For example:

      a2a-bridge conformance -a :8080

      a2a-bridge conformance -a :8080 --suite A2A/tests/acts --transport GRPC -o json
    """
    from a2a_bridge_tools.client.conforming import check_conformance

    check_conformance(context, flags)
