"""An App."""

from typing import Any


class App:
    __module__ = "google.adk.apps.app"

    def __init__(self, name: str, root_agent: Any) -> None:
        self.name, self.root_agent = name, root_agent
