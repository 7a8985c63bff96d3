"""What an agent of a framework says about itself, as members of its card."""

from types import SimpleNamespace
from typing import Any

from a2a_bridge.testing.each import each
from a2a_bridge_adapters.card_members import members


def look(city: str) -> str:
    """Looks outside.

    More is not for the card.
    """
    return city


def bare() -> None: ...


TOOLS = [
    SimpleNamespace(name="find_it", description="Finds it."),
    look,
    bare,
    SimpleNamespace(name="x"),
    object(),
]


@each(
    "name, given, expected",
    [
        (None, {}, {}),
        ("", {"description": None, "instructions": lambda: "made for each run"}, {}),
        ("desk", {"instructions": " You keep the desk.\nNever tell."}, {"name": "desk", "description": "You keep the desk."}),
        ("desk", {"description": "Keeps it.\nWell.", "instructions": "You"}, {"name": "desk", "description": "Keeps it.\nWell."}),
    ],
)  # fmt: skip
def test_a_description_outweighs_the_first_line_of_the_instructions(
    name: str | None, given: dict[str, Any], expected: dict[str, str]
) -> None:
    assert members(name, **given) == expected


def test_tools_with_a_text_are_skills() -> None:
    skills = members("desk", tools=TOOLS)["skills"]
    assert [(one.id, one.description, list(one.tags)) for one in skills] == [
        ("find_it", "Finds it.", ["find-it"]),
        ("look", "Looks outside.", ["look"]),
    ]
