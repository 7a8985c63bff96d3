"""Notifications of a real server: killed and started again, and administered with `a2a-bridge push`."""

import asyncio
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from a2a_bridge.app.runtime import connect
from a2a_bridge.cli import app
from a2a_bridge.core.agent_api import Client
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import MASK
from tests.cli.commands import serving
from tests.gateway.test_versions import asking
from tests.patience import until
from tests.push.delivery_scene import Posted, Receiver, receiving

pytestmark = pytest.mark.process

PROGRAM = """
from tests.agents import ScriptedAgent

scripted = ScriptedAgent()
"""
SECRET = "s3cret-of-theirs"  # noqa: S105


@dataclass(frozen=True)
class Done:
    """A finished command in this process: a new process takes longer than its work."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


async def command(*arguments: str, env: Mapping[str, str] | None = None) -> Done:
    made = await asyncio.to_thread(
        CliRunner().invoke, app, arguments, env={"A2A_BRIDGE_STORE": ""} | dict(env or {})
    )
    assert made.exception is None or isinstance(made.exception, SystemExit), made.exception
    return Done(made.exit_code, made.stdout, made.stderr)


class Place:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "agents.py").write_text(PROGRAM)
        self.agent = str(folder / "agents.py")
        self.store = f"sqlite:///{folder / 'tasks.db'}"

    def flags(self, *more: str) -> tuple[str, ...]:
        where = (
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--store",
            self.store,
            "--push-allow",
            "127.0.0.1",
        )
        return ("serve", self.agent, *where, *more)


async def ended(client: Client, receiver: Receiver, text: str = "task x") -> str:
    """A task that has ended, with notifications of it; returns its id."""
    request = asking(text)
    inline = request.configuration.task_push_notification_config
    inline.url = f"{receiver.url}/{SECRET}"
    inline.authentication.scheme, inline.authentication.credentials = "Bearer", SECRET
    task_id: str = (await client.send_message(request)).task.id
    return task_id


def of(task_id: str, posted: list[Posted]) -> list[str]:
    """The events of a task in short, in the order of their first arrival."""
    found: dict[str, str] = {}
    for one in posted:
        name, event = next(iter(one.tree.items()))
        if task_id in (event.get("id"), event.get("taskId")):
            state = event["status"]["state"] if name == "statusUpdate" else ""
            found.setdefault(one.headers["webhook-id"], state or name)
    return list(found.values())


WHOLE = ["task", "TASK_STATE_WORKING", "artifactUpdate", "TASK_STATE_COMPLETED"]


async def test_notifications_of_a_killed_server_are_delivered_by_the_next_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with receiving() as receiver, receiving() as fine:
        receiver.fault = lambda: "500"
        async with serving(*place.flags()) as server, connect(server.http) as client:
            tasks = [await ended(client, receiver) for _ in range(5)]
            there = await ended(client, fine)
            await fine.arrived(4)
            await receiver.arrived(3)
            server.signal(signal.SIGKILL)
            await server.ended()
        tried = {one.headers["webhook-id"]: one.body for one in receiver.posted}
        receiver.fault = None
        async with serving(*place.flags()) as server, connect(server.http) as client:
            await until(lambda: all(of(task_id, receiver.taken) == WHOLE for task_id in tasks))
            for one in receiver.taken:
                assert one.headers["authorization"] == f"Bearer {SECRET}"
                assert tried.pop(one.headers["webhook-id"], one.body) == one.body
            assert tried == {}  # notifications that were attempted before came again, with the same id
            assert of(there, fine.taken) == WHOLE
            listed = await client.list_task_push_notification_configs(
                hub.ListTaskPushNotificationConfigsRequest(task_id=tasks[0])
            )
            assert [one.authentication.credentials for one in listed.configs] == [MASK]


async def test_dead_letters_are_seen_and_sent_again_while_the_server_runs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    key = (await command("push", "key")).out.strip()
    keyed = {"A2A_BRIDGE_STORE": place.store, "A2A_BRIDGE_STORE_KEY": key}
    async with receiving() as receiver:
        receiver.statuses = [410] * 4
        async with serving(*place.flags("--store-key", key)) as server, connect(server.http) as client:
            assert (
                await command("push", "list", env=keyed)
            ).out == "nothing waits, and nothing was given up\n"
            task_id = await ended(client, receiver)

            async def four_dead() -> list[dict[str, object]]:
                found = (await command("push", "list", "--dead", "-o", "json", env=keyed)).json[
                    "notifications"
                ]
                return found if len(found) == 4 else []

            entries = await until(four_dead)
            assert [one["event"] for one in entries] == [1, 2, 3, 4]
            assert {(one["task"], one["state"], one["error"], one["attempts"]) for one in entries} == {
                (task_id, "dead", "HTTP 410", 1)
            }
            target = receiver.url.removesuffix("/hook")
            assert {one["target"] for one in entries} == {target}
            table = (await command("push", "list", "--task", task_id, env=keyed)).out
            assert table.startswith("NUMBER")
            assert len(table.splitlines()) == 5
            assert SECRET not in table
            assert (await command("push", "list", "--waiting", "-o", "json", env=keyed)).json == {
                "notifications": []
            }
            without = await command("push", "list", "--limit", "1", env=keyed | {"A2A_BRIDGE_STORE_KEY": ""})
            assert target not in without.out  # it is encrypted
            one = await command("push", "retry", str(entries[3]["number"]), env=keyed)
            assert one.out == "1 to be sent again\n"
            again = await command("push", "retry", "999999", env=keyed)
            assert (again.code, again.out) == (1, "0 to be sent again\n")
            assert "not dead letters" in again.err
            await receiver.arrived(5)
            assert (await command("push", "retry", "--all", "-o", "json", env=keyed)).json == {"retried": 3}
            posted = await receiver.arrived(8)
            assert of(task_id, posted[4:]) == [WHOLE[3], *WHOLE[:3]]


@pytest.mark.parametrize("name", ["list", "retry"])
async def test_stores_that_cannot_be_looked_into(name: str, tmp_path: Path) -> None:
    more = ["--all"] if name == "retry" else []
    (tmp_path / "other.db").write_bytes(b"this is no database at all, but it is long enough" * 100)
    for url in ("memory://", f"sqlite:///{tmp_path}/none.db", f"sqlite:///{tmp_path}/other.db", "nonsense"):
        done = await command("push", name, "--store", url, *more)
        assert done.code == 2, done
        assert done.out == ""
        assert "Traceback" not in done.err
    assert not (tmp_path / "none.db").exists()


async def test_a_database_that_does_not_answer() -> None:
    done = await command("push", "list", "--store", "postgresql://127.0.0.1:1/x")
    assert done.code == 3, done
    assert "Traceback" not in done.err


async def test_retry_requires_numbers_or_all() -> None:
    for arguments in ((), ("7", "--all")):
        done = await command("push", "retry", *arguments, "--store", "sqlite:///x.db")
        assert done.code == 2
        assert "--all" in done.err
