"""When two answers count as the same."""

import random
from typing import Any

import pytest

from a2a_bridge_tools.client.comparing import canonical, differences, without_generated


def task(task_id: str, context: str, **more: Any) -> dict[str, Any]:
    return {
        "task": {"id": task_id, "contextId": context, "status": {"timestamp": "2026-01-01T00:00:00Z"}} | more
    }


def test_ids_and_times_of_two_runs_do_not_count() -> None:
    other = task("t-2", "c-2")
    other["task"]["status"]["timestamp"] = "2027-02-02T00:00:00Z"
    assert canonical(task("t-1", "c-1")) == canonical(other)


def test_how_ids_relate_does_count() -> None:
    same = [{"taskId": "a"}, {"taskId": "a"}]
    other = [{"taskId": "a"}, {"taskId": "b"}]
    assert canonical(same) == canonical([{"taskId": "x"}, {"taskId": "x"}])
    assert canonical(same) != canonical(other)


def test_an_id_in_a_text_is_still_that_id() -> None:
    def answer(task_id: str) -> list[Any]:
        return [{"taskId": task_id}, {"text": f"no task {task_id}"}]

    assert canonical(answer("11111111-1")) == canonical(answer("22222222-2"))
    assert canonical(answer("11111111-1")) != canonical([{"taskId": "22222222-2"}, {"text": "no task"}])


@pytest.mark.parametrize("seed", range(5))
def test_mentions_of_many_ids_equal_a_scan_of_all(seed: int) -> None:
    """Ids begin alike, contain each other, and are mentioned before and after they appear."""
    choose = random.Random(seed)
    ids = ["01a22409-" + "".join(choose.choices("ab", k=choose.choice([0, 4, 8]))) for _ in range(60)]
    ids += [one[2:] for one in ids[:9]] + ["short", "x" * 8]
    texts = [" ".join(choose.choices([*ids, "no id", "<id 3>", ""], k=3)) for _ in range(120)]
    tree = choose.sample([{"id": one} for one in ids] + [{"text": one} for one in texts], 190)
    names: dict[str, str] = {}
    expected = []
    for one in tree:
        if "id" in one:
            expected.append({"id": names.setdefault(one["id"], f"<id {len(names) + 1}>")})
            continue
        text = one["text"]
        for known, name in names.items():
            text = text.replace(known, name) if len(known) >= 8 else text
        expected.append({"text": text})
    assert canonical(tree) == expected


def test_the_order_of_members_does_not_count_and_that_of_items_does() -> None:
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical([1, 2]) != canonical([2, 1])


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"b": None}, ["b"]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b"]),
        ([1], [1, 2], ["whole"]),
        ({"a": {"b": "x"}, "c": 1}, {"a": {"b": "y"}, "c": 2}, ["a.b", "c"]),
    ],
)
def test_differences_are_named_by_their_path(left: Any, right: Any, where: list[str]) -> None:
    assert [one.path for one in differences(left, right)] == where


def test_a_long_value_is_cut_in_a_difference() -> None:
    (line,) = differences("x" * 1000, "y")
    assert len(str(line)) < 300


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("run 0b0f1c9e-3f0e-4d0a-9b1e-0f6a5b2c7d11", "run 7c1d2e3f-0a1b-4c2d-8e3f-9a0b1c2d3e4f", True),
        ("weather-9f86d081884c", "weather-60303ae22b99", True),
        ("call_7FhQ2mZx91Lk", "call_Qm0vT5rYb2Xp", True),
        ("Oslo: 21", "Oslo: 22", False),
        ("internationalization", "internationalisation", False),
        ("a 9f86d081884c", "b 60303ae22b99", False),
    ],
)
def test_generated_values_are_distinguished_from_other_differences(left: str, right: str, same: bool) -> None:
    one, other = ({"metadata": {"run": text}, "n": [1]} for text in (left, right))
    assert (without_generated(one) == without_generated(other)) is same
    assert without_generated({"n": 12345678}) == {"n": 12345678}
