"""Content of older callers beside their configs is kept within bounds, and only if there is any."""

import tracemalloc
from typing import Any

from a2a_bridge.core.callers import Scope
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.push import Registrations

ALICE, BOB = Scope("", "alice"), Scope("", "bob")


def config(config_id: str = "p", url: str = "http://hook/", **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id=config_id, url=url, **members)


def test_side_content_belongs_to_a_config() -> None:
    known = Registrations()
    known.note(ALICE, config("old"), "said")
    known.note(ALICE, config("new", "http://other/"), "")
    assert known.of(ALICE, config("old")) == "said"
    assert known.of(ALICE, config("new", "http://other/")) == ""
    assert known.of(BOB, config("old")) == ""
    assert len(known) == 1
    known.forget(ALICE, "t", "old")
    known.forget(ALICE, "t", "old")
    assert known.of(ALICE, config("old")) == ""
    assert len(known) == 0


def test_a_receiver_is_known_before_its_config_has_an_id() -> None:
    known = Registrations()
    known.note_receiver(ALICE, config("", token="x"), "said")  # noqa: S106
    assert known.of(ALICE, config("later", token="x")) == "said"  # noqa: S106
    assert known.of(ALICE, config("later", token="y")) == ""  # noqa: S106


def test_the_last_side_content_counts() -> None:
    known = Registrations()
    known.note(ALICE, config(), "said")
    known.note(ALICE, config(), "")
    assert known.of(ALICE, config()) == ""
    known.note_receiver(ALICE, config(""), "of another one at the same receiver")
    known.note(ALICE, config(), "")
    assert known.of(ALICE, config()) == ""
    assert len(known) == 0


def test_the_memory_is_bounded() -> None:
    known = Registrations(most=3)
    for number in range(1, 10):
        known.note(ALICE, config(str(number), f"http://hook/{number}"), "x" * number)
        known.note_receiver(ALICE, config("", f"http://other/{number}"), "x" * number)
    assert len(known) == 6
    assert known.of(ALICE, config("9", "http://hook/9")) == "x" * 9
    assert known.of(ALICE, config("1", "http://hook/1")) == ""


def test_long_words_take_no_more_room_than_short_ones() -> None:
    known = Registrations()
    config = hub.TaskPushNotificationConfig(task_id="t", id="c", url="http://a/" + "x" * 1_000_000, token="y")  # noqa: S106
    tracemalloc.start()
    try:
        for number in range(5):
            config.token = str(number)
            known.note(Scope(), config, "said")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert known.of(Scope(), config) == "said"
    assert kept < 1_500_000
