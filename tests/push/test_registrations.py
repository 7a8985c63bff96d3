"""Who registered in which version: remembered within bounds, and only where it is not the newest."""

from __future__ import annotations

import tracemalloc
from typing import Any

from a2a_bridge.core.scope import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations

ALICE, BOB = Scope("", "alice"), Scope("", "bob")


def config(config_id: str = "p", url: str = "http://hook/", **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id=config_id, url=url, **members)


def test_a_version_belongs_to_a_config() -> None:
    known = Registrations()
    known.note(ALICE, config("old"), "0.3", "said")
    known.note(ALICE, config("new", "http://other/"), "")
    assert known.of(ALICE, config("old")).version == "0.3"
    assert known.of(ALICE, config("new", "http://other/")).version == ""
    assert known.of(BOB, config("old")).version == ""
    assert known.of(ALICE, config("old")).aside == "said"
    assert known.of(BOB, config("old")).aside == ""
    known.forget(ALICE, "t", "old")
    known.forget(ALICE, "t", "old")
    assert known.of(ALICE, config("old")).aside == ""


def test_a_receiver_is_known_before_its_config_has_an_id() -> None:
    known = Registrations()
    known.note_receiver(ALICE, config("", token="x"), "0.3", "said")  # noqa: S106
    assert known.of(ALICE, config("later", token="x")) == ("0.3", "said")  # noqa: S106
    assert known.of(ALICE, config("later", token="y")) == ("", "")  # noqa: S106


def test_who_registers_again_in_1_0_gets_1_0() -> None:
    known = Registrations()
    known.note(ALICE, config(), "0.3", "said")
    known.note(ALICE, config(), "")
    assert known.of(ALICE, config()) == ("", "")
    assert len(known) == 0


def test_the_memory_is_bounded() -> None:
    known = Registrations(most=3)
    for number in range(10):
        known.note(ALICE, config(str(number), f"http://hook/{number}"), "0.3", "x" * number)
    assert len(known) == 6
    assert known.of(ALICE, config("9", "http://hook/9")).version == "0.3"
    assert known.of(ALICE, config("0", "http://hook/0")).version == ""


def test_long_words_take_no_more_room_than_short_ones() -> None:
    known = Registrations()
    config = hub.TaskPushNotificationConfig(task_id="t", id="c", url="http://a/" + "x" * 1_000_000, token="y")  # noqa: S106
    tracemalloc.start()
    try:
        for number in range(5):
            config.token = str(number)
            known.note(Scope(), config, "0.3")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert known.of(Scope(), config).version == "0.3"
    assert kept < 1_500_000
