"""The session of a replica: the end of a statement that takes too long."""

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from a2a_bridge.cluster.session import PostgresSession

pytest.importorskip("psycopg")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_statement_that_is_cut_off_ends_its_own_connection_only(is_open: bool) -> None:
    """Its thread may close the connection at the same time, and the number is then that of another one."""
    ours, theirs = socket.socketpair()

    class Closed:
        """What a connection of libpq says: its number, and once it is closed no number."""

        numbers = [theirs.fileno(), theirs.fileno() if is_open else -1]  # noqa: RUF012

        @property
        def socket(self) -> int:
            return self.numbers.pop(0)

    session: Any = PostgresSession("")
    session._connection = SimpleNamespace(pgconn=Closed())
    with ours, theirs:
        theirs.sendall(b"x")
        session._cut()
        assert ours.recv(1) == b"x"
        ours.settimeout(0)
        if is_open:
            assert ours.recv(1) == b""
        else:
            with pytest.raises(BlockingIOError):
                ours.recv(1)
