"""Secrets in push configs: encrypted in the store, masked in answers, and in no log."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions, connect, serve_agent
from a2a_bridge.cards import interface
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.option_classes import StoreOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push.secrets import (
    MASK,
    DecryptionError,
    Vault,
    keys_in,
    new_key,
    redact,
    redact_side_channel,
    unredact,
)
from a2a_bridge.stores import open_store
from a2a_bridge.stores.ports import Store
from a2a_bridge.testing.store_scene import HERE
from tests.agents import ScriptedAgent
from tests.gateway.test_versions import asking
from tests.patience import until
from tests.push.delivery_scene import author, config, delivering, options, receiving
from tests.push.version_scene import hosted
from tests.rejections import rejected

SECRET = "s3cret-of-theirs"  # noqa: S105
TOKEN = "t0ken-of-theirs"  # noqa: S105
LOGIN = {"scheme": "Bearer", "credentials": SECRET}


# --- the vault ---
def test_encrypted_content_is_decrypted_by_its_key_and_with_newer_ones() -> None:
    old, new = new_key(), new_key()
    sealed = Vault([old]).encrypt(b"raw_bytes")
    assert b"raw_bytes" not in sealed
    assert Vault([old]).decrypt(sealed) == b"raw_bytes"
    assert Vault([new, old]).decrypt(sealed) == b"raw_bytes"
    assert Vault([old]).decrypt(Vault([old, new]).encrypt(b"x")) == b"x"
    for keys in ([new], []):
        with pytest.raises(DecryptionError):
            Vault(keys).decrypt(sealed)


def test_without_a_key_nothing_is_sealed_and_stays_readable_with_one() -> None:
    kept = Vault().encrypt(b"raw_bytes")
    assert b"raw_bytes" in kept
    assert Vault().decrypt(kept) == Vault([new_key()]).decrypt(kept) == b"raw_bytes"


@pytest.mark.parametrize("kept", [b"", b"x", b"\x01", b"\x01nonsense"])
def test_content_without_encryption_is_unreadable(kept: bytes) -> None:
    for vault in (Vault(), Vault([new_key()])):
        with pytest.raises(DecryptionError):
            vault.decrypt(kept)


def test_a_bad_key_is_rejected_and_not_printed() -> None:
    with pytest.raises(ValueError, match="URL-safe base64") as caught:
        Vault([SECRET])
    assert SECRET not in str(caught.value)


def test_keys_stand_in_a_text() -> None:
    assert keys_in(" a,b\nc  ,\n") == ["a", "b", "c"]
    assert keys_in("") == []


# --- at rest ---
async def kept(path: Path, keys: list[str], *ids: str) -> None:
    async with open_store(f"sqlite:///{path}", StoreOptions(keys=keys)) as store:
        for config_id in ids:
            registered = config("https://hook.example/", config_id, token=TOKEN, authentication=LOGIN)
            await store.push_configs.put(
                HERE, registered._replace(version="0.3", side_channel=f"said {SECRET}")
            )


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


@pytest.mark.process
async def test_with_a_key_no_secret_is_in_the_files(tmp_path: Path) -> None:
    for name, keys in (("sealed", [new_key()]), ("plain", [])):
        folder = tmp_path / name
        folder.mkdir()
        await kept(folder / "a.db", keys, "p")
        raw_bytes = everything(folder)
        for word in (SECRET, TOKEN, "hook.example"):
            assert (word.encode() in raw_bytes) is (name == "plain")


async def test_one_row_that_cannot_be_opened_is_no_error_of_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old, new = tmp_path / "a.db", new_key(), new_key()
    await kept(path, [old], "a")
    await kept(path, [new], "b")
    async with open_store(f"sqlite:///{path}", StoreOptions(keys=[new])) as store:
        assert [one.config.id for one in await store.push_configs.list(HERE, "t")] == ["b"]
        with rejected(Reason.INTERNAL_ERROR):
            await store.push_configs.get(HERE, "t", "a")
        readable = await store.push_configs.get(HERE, "t", "b")
        assert readable is not None
        assert (readable.config.authentication.credentials, readable.side_channel) == (
            SECRET,
            f"said {SECRET}",
        )
    for record in caplog.records:
        assert SECRET not in record.getMessage()
    assert "cannot be opened" in caplog.text


async def test_mail_whose_key_is_missing_waits_for_it(tmp_path: Path) -> None:
    path, key = tmp_path / "a.db", new_key()
    async with receiving() as receiver:
        async with open_store(f"sqlite:///{path}", StoreOptions(keys=[key])) as store:
            await store.push_configs.put(HERE, config(receiver.url, "sealed"))
            await author(store)
        async with open_store(f"sqlite:///{path}") as store, delivering(store):
            await store.push_configs.put(HERE, config(receiver.url + "/plain", "plain", "u"))
            await author(store, "u")
            (posted,) = await receiver.arrived(1)
            assert posted.path == "/hook/plain"

            async def said() -> bool:
                return any("keys" in one.error for one in await store.outbox.entries())

            await until(said)
        # Its delay does not affect replicas that have the key.
        async with open_store(f"sqlite:///{path}", StoreOptions(keys=[key])) as store, delivering(store):
            await receiver.arrived(2)


# ---------------------------------------------------------------------- in answers

INTERFACES = [interface("JSONRPC"), interface("HTTP+JSON"), interface("GRPC")]


def registering(task_id: str, url: str, **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(
        **({"task_id": task_id, "id": "p", "url": url, "token": TOKEN, "authentication": LOGIN} | members)
    )


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_answers_mask_credentials_and_take_the_mask_back(binding: str) -> None:
    serving = ServeOptions(push_options=options(), grace=0)
    async with (
        receiving() as receiver,
        serve_agent(ScriptedAgent(), INTERFACES, serving) as server,
        connect(server.card, binding=binding) as client,
    ):
        task = (await client.send_message(asking("input what?"))).task
        given = registering(task.id, receiver.url)
        asked = hub.GetTaskPushNotificationConfigRequest(task_id=task.id, id="p")
        listed = hub.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        shown = await client.create_task_push_notification_config(given)
        assert (shown.authentication.credentials, shown.token) == (MASK, TOKEN)
        assert shown == redact(given)
        assert await client.get_task_push_notification_config(asked) == shown
        assert list((await client.list_task_push_notification_configs(listed)).configs) == [shown]
        # Read, changed, written: with another path, and the old credentials.
        shown.url += "/changed"
        assert await client.create_task_push_notification_config(shown) == shown
        # Without an id it is still the same one.
        shown.id = ""
        assert (await client.create_task_push_notification_config(shown)).id == "p"
        for members in ({"url": "http://127.0.0.1:1/"}, {"id": "another"}):
            with rejected(Reason.INVALID_PARAMS, "authentication.credentials"):
                await client.create_task_push_notification_config(
                    registering(
                        task.id,
                        **({"url": receiver.url, "authentication": {**LOGIN, "credentials": MASK}} | members),
                    )
                )
        await client.send_message(asking("done", task_id=task.id))
        for one in await receiver.arrived(2):
            assert (one.headers["authorization"], one.path) == (f"Bearer {SECRET}", "/hook/changed")


async def test_the_mask_within_a_message_is_named_where_it_stands() -> None:
    serving = ServeOptions(push_options=options(), grace=0)
    async with (
        serve_agent(ScriptedAgent(), INTERFACES[:1], serving) as server,
        connect(server.card) as client,
    ):
        request = asking("input what?")
        inline = request.configuration.task_push_notification_config
        inline.url = "http://127.0.0.1:1/"
        inline.authentication.scheme, inline.authentication.credentials = "Bearer", MASK
        with pytest.raises(A2AError) as caught:
            await client.send_message(request)
    field = "configuration.taskPushNotificationConfig.authentication.credentials"
    assert [one.field for one in caught.value.violations] == [field]


def test_masks() -> None:
    plain = hub.TaskPushNotificationConfig(url="https://a.example/", token=TOKEN)
    assert redact(plain) is plain
    assert unredact(plain, None) is None
    whole = hub.TaskPushNotificationConfig(url="https://a.example/", authentication=LOGIN)
    shown = redact(whole)
    assert whole.authentication.credentials == SECRET
    assert unredact(shown, None) is not None
    assert unredact(shown, plain) is not None
    assert unredact(shown, whole) is None
    assert shown == whole


@pytest.mark.parametrize("schemes", [[], ["Digest", "Bearer"]])
async def test_side_content_of_0_3_is_masked_too(schemes: list[str]) -> None:
    """It is beside the config: what 1.0 has no place for."""
    async with receiving() as receiver, hosted(ScriptedAgent()) as front:
        task = await front.call(
            "message/send",
            {
                "message": {
                    "kind": "message",
                    "messageId": "m",
                    "role": "user",
                    "parts": [{"kind": "text", "text": "input"}],
                }
            },
        )
        login = {"schemes": schemes, "credentials": SECRET}
        given = {"url": receiver.url, "id": "p", "authentication": login, "x-own": {"credentials": SECRET}}
        params = {"taskId": task["id"], "pushNotificationConfig": given}
        made = await front.call("tasks/pushNotificationConfig/set", params)
        found = await front.call("tasks/pushNotificationConfig/get", {"id": task["id"]})
        listed = await front.call("tasks/pushNotificationConfig/list", {"id": task["id"]})
    assert SECRET not in json.dumps([made, found, listed])
    for one in (made, found, *listed):
        assert one["pushNotificationConfig"]["authentication"] == {"schemes": schemes, "credentials": MASK}


def test_unknown_side_content_of_a_config_is_not_returned_if_it_may_be_secret() -> None:
    assert redact_side_channel("") == ""
    assert redact_side_channel("said") == "said"
    assert redact_side_channel('{"credentials": "x"}') == ""


async def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with receiving() as receiver, delivering() as (store, _):
            receiver.statuses = [500, 410]
            url = f"{receiver.url}/{SECRET}?key={SECRET}"
            await store.push_configs.put(HERE, config(url, token=TOKEN, authentication=LOGIN))
            writing = await author(store)
            writing.chunk("x")
            await receiver.arrived(3)
            gone: Store = store
            await gone.push_configs.put(HERE, config("http://127.0.0.1:1/" + SECRET, "q"))
            writing.chunk("y")

            async def failed() -> bool:
                return any(one.error == "no connection" for one in await store.outbox.entries())

            await until(failed)
            assert SECRET not in str(await store.outbox.entries())
    for word in (SECRET, TOKEN):
        assert word not in caplog.text
