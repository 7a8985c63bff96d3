"""From a running server, or from the target of `ui`, to a playground. The page reads the card over HTTP, as
other clients do; it takes the card of the process itself only where it cannot check who serves it: at an
address of this machine, which no certificate names.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from a2a_bridge import __version__
from a2a_bridge.agents import PATH
from a2a_bridge.app import runtime
from a2a_bridge.app.process import stop_signals
from a2a_bridge.bindings.binding import DialOptions, ListenAddress, TlsFiles
from a2a_bridge.cards import Candidate
from a2a_bridge.cli.connect import dial_options
from a2a_bridge.cli.flags import DialFlags
from a2a_bridge.cli.output import cannot_listen, data
from a2a_bridge.cli.server_flags import ServerFlags
from a2a_bridge.cli.target import Target, TargetKind, load
from a2a_bridge.cli.values import listen_address
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.credentials import secrets_of
from a2a_bridge_tools.playground.exchange import UpstreamTap
from a2a_bridge_tools.playground.page import Playground, reachable
from a2a_bridge_tools.playground.subject import Subject, Upstream

PROGRAM = f"a2a-bridge {__version__}"


@dataclass(slots=True)
class Launch:
    """Makes the playground of a running server, by the flags of its command. kind: `agent` or `gateway`.
    Raises typer.BadParameter.
    """

    flags: ServerFlags
    kind: str
    listen: ListenAddress = field(init=False)
    _tap: UpstreamTap = field(default_factory=UpstreamTap)
    #: the agents behind a gateway, by the names that it serves them under
    _upstreams: dict[str, Upstream] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listen = ListenAddress(*listen_address(self.flags.ui_listen, "--ui-listen"))

    def tap(
        self, name: str, card: hub.AgentCard, candidates: Sequence[Candidate], options: DialOptions
    ) -> DialOptions:
        """The options to dial an agent behind a gateway with. name: empty for the only one."""
        self._upstreams[name] = Upstream(card, candidates[0], self._tap, secrets_of(card, options))
        return self._tap.tap(options)

    def __call__(self, server: Any) -> AbstractAsyncContextManager[str]:
        return Playground(
            PROGRAM, self.kind, lambda: self._subjects(server), self.listen, server.admin
        ).open()

    def _subjects(self, server: Any) -> list[Subject]:
        """The agents of a server, as they are now."""
        return [self._subject(server, name, card) for name, card in server.cards.items()]

    def _subject(self, server: Any, name: str, card: hub.AgentCard) -> Subject:
        certificate = self.flags.ssl_certfile
        tls = TlsFiles(str(certificate)) if certificate is not None else None
        options = DialOptions(trust_card_urls=True, tls=tls)
        if server.http is None:
            target = Target(TargetKind.GRPC, str(reachable(server.grpc)))
        else:
            scheme = "https" if server.secure else "http"
            path = f"{PATH}/{name}" if name else ""
            target = Target(TargetKind.URL, f"{scheme}://{reachable(server.http)}{path}")
        over_http = target.sort is TargetKind.URL
        return Subject(
            name or card.name,
            target,
            options,
            self._upstreams.get(name),
            None if over_http and not server.secure else card,
            server.fronts.addresses(target.place) if over_http else (),
        )


async def serve_playground(target: Target, flags: DialFlags, listen: str) -> None:
    """Serves the playground of a target until a signal. Raises typer.BadParameter, typer.Exit, A2AError."""
    address = ListenAddress(*listen_address(listen, "--listen"))
    options = dial_options(flags)
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_signals(0))
        if target.is_code:
            # An agent in code has no address: it gets one while it is looked at.
            server = await stack.enter_async_context(runtime.serve_agent(load(target)))
            target = Target(TargetKind.URL, f"http://{server.http}")
        # A card that cannot be read now is a mistake in the command line.
        found = await Subject("", target, options).found()
        subject = Subject(found.card.name or target.place, target, options)
        playground = Playground(PROGRAM, "client", lambda: [subject], address)
        try:
            place = await stack.enter_async_context(playground.open())
        except OSError as error:
            raise cannot_listen(error) from error
        data(f"ready ui={place}")
        await stop.wait()
