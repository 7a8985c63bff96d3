from typing import Any


class HumanFeedbackPending(Exception):  # noqa: N818  the name of CrewAI
    pass


class ConsoleProvider:
    def request_input(self, message: str, flow: Any, metadata: Any = None) -> str:
        return f"console: {message}"

    def request_feedback(self, context: Any, flow: Any) -> str:
        return f"console: {context.message}"
