"""`--ui`: the playground of a running server. The page and its server are in the tools, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

import typer

from a2a_bridge.cli.flags import ServerFlags, ServerKind
from a2a_bridge.cli.options import Exit
from a2a_bridge.cli.output import fail

if TYPE_CHECKING:
    from a2a_bridge.bindings.binding import DialOptions
    from a2a_bridge.cards import Candidate
    from a2a_bridge.pb import lf_a2a_v1 as hub

#: of entry points; `page` is called with the flags of the server and its kind, and makes a Launch
GROUP = "a2a_bridge.playground"


class Page(Protocol):
    """A playground."""

    def open(self) -> AbstractAsyncContextManager[str]:
        """Serves the page while the context is open; its value is the URL. Raises OSError."""
        ...


class Launch(Protocol):
    """Makes the playground of a server."""

    def tap(
        self, name: str, card: hub.AgentCard, candidates: Sequence[Candidate], options: DialOptions
    ) -> DialOptions:
        """The options to dial an agent behind a gateway with. name: empty for the only one."""
        ...

    def __call__(self, server: object) -> Page:
        """The playground of a running server."""
        ...


def check_one_process(flags: ServerFlags) -> None:
    """Raises typer.BadParameter if a server with a playground would be more than one process."""
    if flags.ui and (flags.workers > 1 or flags.server is ServerKind.ENVOY):
        text = "the playground needs a server of one process; beside this one: a2a-bridge ui URL"
        raise typer.BadParameter(text, param_hint="--ui")


def launch_of(flags: ServerFlags, kind: str = "agent") -> Launch | None:
    """The playground that the flags ask for. kind: `agent` or `gateway`.

    Raises typer.BadParameter, and typer.Exit if the tools are not installed.
    """
    if not flags.ui:
        return None
    from importlib.metadata import entry_points

    from a2a_bridge.core.extras import MissingExtraError

    for point in entry_points(group=GROUP, name="page"):
        launch: Launch = point.load()(flags, kind)
        return launch
    missing = MissingExtraError("a2a-transport-bridge-tools", "tools")
    raise fail(Exit.USAGE, f"--ui: {missing.text}", missing.remedy)
