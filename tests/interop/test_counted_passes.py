"""Official clients before an SDK executor: what passes on the SDK's own server passes on ours, and is counted."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from a2a_bridge.testing.each import each
from tests.equivalence.scenarios import SCENARIOS
from tests.interop.counted import CLIENTS, Cell, Count, counted, lost, table
from tests.interop.executor_servers import SERVERS, Server
from tests.interop.passes import IN_0_3, IN_1_0, Check, Seen
from tests.matrix.bridged import Peers
from tests.matrix.versions import Side
from tests.peers.conversations import CONVERSATIONS
from tests.peers.processes import ALL as BINDINGS
from tests.peers.processes import ROOT, Agent, PeerClient
from tests.peers.transcript import STUCK, Lines

pytestmark = pytest.mark.sdk

PAGE = ROOT / "docs" / "how-to" / "serve-sdk-executors.md"


@pytest.mark.process
@pytest.mark.parametrize("executor", CLIENTS)
async def test_as_many_conversations_pass_as_before_the_sdks_own_server(
    executor: str,
    tmp_path: Path,
    peer_agents: Callable[..., Agent],
    peer_clients: Callable[[str], PeerClient],
) -> None:
    peers = Peers(peer_agents, peer_clients)
    counts: dict[Server, Count] = {}
    for server in (one for one in SERVERS if one.executor == executor):
        folder = tmp_path / server.whose / server.store
        folder.mkdir(parents=True)
        counts[server] = await counted(server, folder, peers)
    assert not lost(counts), "\n".join([*table(counts, executor), *lost(counts)])
    for server, count in counts.items():
        if server.whose == "SDK":
            # Otherwise the comparison would be with a server that is not there.
            assert {cell.client for cell in count.passed} == set(count.unanswered), count.failures
            continue
        assert not count.failures, f"{server}: {count.failures}"
        assert f"| {len(count.passed)} of {len(count.held)} |" in PAGE.read_text(), "the page says otherwise"
        assert {client.binding for client in count.unanswered} == set(BINDINGS)
        assert not any(count.unanswered.values()), f"{server}: {count.unanswered}"


_ERROR = {"error": {"reason": "UNAVAILABLE", "message": ""}}
#: Nothing, a server that does not answer in time, and one that answers everything with the same error
_WRONG: tuple[Lines, ...] = (
    [],
    [(STUCK, None)],
    [
        (label, _ERROR)
        for label in ("send", "stream failed", "ask", "card", "cancel", "token", "get", "nothing")
    ],
)


@each("check, lines", product((*IN_1_0.values(), *IN_0_3.values()), _WRONG))
def test_every_check_can_fail(check: Check, lines: Lines) -> None:
    with pytest.raises((AssertionError, LookupError)):
        check(Seen(lines))


def test_every_conversation_has_a_check() -> None:
    assert set(IN_1_0) == set(SCENARIOS)
    assert set(IN_0_3) == set(CONVERSATIONS)


def test_what_ours_fails_and_the_sdks_server_passes_is_lost() -> None:
    cell, other = (Cell(Side("1.3.0", "1.0", "GRPC"), name) for name in ("cancelled", "lists"))
    theirs = Count(held={cell, other}, failures={other: "no answer"})
    ours = Count(held={cell, other}, failures={cell: "no events", other: "no answer"})
    counts = {Server("1.x", "SDK", "memory"): theirs, Server("1.x", "ours", "sqlite"): ours}
    assert lost(counts) == ["1.x executor, ours, sqlite: 1.3.0 1.0 GRPC: cancelled: no events"]
    assert table(counts, "1.x")[-1].split() == ["all", "1/2", "0/2"]
