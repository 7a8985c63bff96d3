"""What the profile of a caller decides, through a gateway to an agent of the official SDK that has none."""

from collections.abc import Callable

import httpx
import pytest

from a2a_bridge.pb import a2a_v1 as v0
from tests.matrix.bridged import OPTIONS, Peers, Upstream, compared, gateway, upstream
from tests.matrix.versions import (
    AGENTS,
    BINDINGS,
    CELLS,
    CLIENTS,
    DEVIATIONS,
    EXCLUSIONS,
    OURS,
    VERSIONS,
    Side,
    short_cells,
)
from tests.peers.processes import Agent, PeerClient
from tests.transports import grpc_scene

pytestmark = pytest.mark.sdk

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"


@pytest.mark.parametrize("user_agent", ["grpc-go/1.81.1", "grpc-go/1.82.1"])
@pytest.mark.parametrize("binding", ["HTTP+JSON", "GRPC"])
async def test_a_caller_that_sends_raw_files_reaches_an_agent_that_takes_base64_text(
    binding: str,
    user_agent: str,
    peer_agents: Callable[..., Agent],
    peer_clients: Callable[[str], PeerClient],
) -> None:
    file = v0.FilePart(file_with_bytes=PNG, mime_type="image/png")
    message = v0.Message(
        message_id="m", role=v0.ROLE_USER, content=[v0.Part(text="script:copy; done"), v0.Part(file=file)]
    )
    wire = v0.SendMessageRequest(request=message, configuration=v0.SendMessageConfiguration(blocking=True))
    async with upstream(Side("0.3.26", "0.3", binding), Peers(peer_agents, peer_clients)) as there:
        unnamed = Upstream(there.interface, there.origin, there.bare, OPTIONS)
        options = [("grpc.primary_user_agent", user_agent)]
        async with gateway(unnamed) as server, grpc_scene.channel(server.grpc, options) as channel:
            answer = await channel.unary_unary("/a2a.v1.A2AService/SendMessage")(
                wire.SerializeToString(), metadata=[("a2a-version", "0.3")]
            )
    task = v0.SendMessageResponse.FromString(answer).task
    assert [part.file.file_with_bytes for part in task.artifacts[0].parts] == [b"", PNG]


@pytest.mark.parametrize(
    ("agent", "messages"), [("Go-http-client/1.1", 0), ("python-httpx/0.28.1", 1), ("Java-http-client/21", 1)]
)
async def test_a_history_length_of_0_means_what_the_callers_profile_says(
    agent: str, messages: int, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    async with (
        upstream(Side("0.3.26", "0.3", "JSONRPC"), Peers(peer_agents, peer_clients)) as there,
        gateway(there) as server,
        httpx.AsyncClient(
            base_url=f"http://{server.http}", headers={"User-Agent": agent}, timeout=OPTIONS.timeout
        ) as http,
    ):

        async def result(method: str, params: object) -> dict[str, object]:
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer: dict[str, object] = (await http.post("/", json=request)).json()["result"]
            return answer

        parts = [{"kind": "text", "text": "script:open; done"}]
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": parts}
        task = await result("message/send", {"message": message})
        found = await result("tasks/get", {"id": task["id"], "historyLength": 0})
    assert len(found.get("history") or ()) == messages  # type: ignore[arg-type]


# The short form of the version grid: each client and each agent at least once. `make matrix` runs every


@pytest.mark.parametrize(
    ("client", "agent"), [pytest.param(*cell, id=f"{cell[0]} to {cell[1]}") for cell in short_cells()]
)
async def test_the_output_equals_the_agents_answers(
    client: Side, agent: Side, peer_agents: Callable[..., Agent], peer_clients: Callable[[str], PeerClient]
) -> None:
    found = await compared(agent, [client], Peers(peer_agents, peer_clients))
    assert not found[client].lines, "\n".join(found[client].lines)


def test_every_version_and_binding_stands_on_both_sides() -> None:
    for sides in (CLIENTS, AGENTS):
        ours = {(one.version, one.binding) for one in sides if one.who == OURS}
        assert ours == {(version, binding) for version in VERSIONS for binding in BINDINGS}
        assert {one.who for one in sides} >= {OURS, "0.2.16", "0.3.26", "1.3.0"}
        assert len(sides) == len(set(sides))


def test_every_cell_is_tried_or_excluded_for_a_reason() -> None:
    assert len(CELLS) == len(set(CELLS))
    left_out = {(client, agent) for client in CLIENTS for agent in AGENTS} - set(CELLS)
    assert all(any(one.covers(*cell) and one.reason for one in EXCLUSIONS) for cell in left_out)
    assert all(any(one.covers(*cell) for cell in left_out) for one in EXCLUSIONS)


def test_every_deviation_is_of_cells_that_are_tried() -> None:
    assert all(one.reason and any(one.covers(*cell) for cell in CELLS) for one in DEVIATIONS)


def test_the_short_form_has_every_client_and_every_agent() -> None:
    assert {client for client, _ in short_cells()} == set(CLIENTS)
    assert {agent for _, agent in short_cells()} == set(AGENTS)
