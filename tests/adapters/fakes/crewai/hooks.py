from typing import Any

HOOKS: list[Any] = []


def get_after_llm_call_hooks() -> list[Any]:
    return HOOKS
