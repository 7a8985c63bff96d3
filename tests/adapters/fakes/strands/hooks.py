from typing import Any


class AfterModelCallEvent:
    def __init__(self, agent: Any) -> None:
        self.agent = agent


class MessageAddedEvent:
    def __init__(self, agent: Any, message: Any) -> None:
        self.agent, self.message = agent, message
