"""User agents are read in one place: the recognition of peers. Conditions on them elsewhere become profiles."""

from __future__ import annotations

import re

from tests.architecture.repository import PRODUCT, ROOT, modules

#: code that reads or names the header of a request
NAMES = re.compile(r"user[-_ ]?agent", re.IGNORECASE)
#: headers that this project's own clients send, the count of callers, which keeps the text for people, and
#: requests as commands, which leave the header out
ALLOWED = {
    "tools/a2a_bridge_tools/client/equivalents.py",
    "a2a_bridge/middleware/usage.py",
    "a2a_bridge/cli/profiles.py",
    "transports/a2a_bridge_transports/_http/session.py",
    "transports/a2a_bridge_transports/grpc/client.py",
}


def test_only_the_profiles_and_their_recognition_know_user_agents() -> None:
    product = [path for path in modules() if path.relative_to(ROOT).parts[0] in PRODUCT]
    found = {
        str(path.relative_to(ROOT))
        for path in product
        if path.parent.name != "peers" and NAMES.search(path.read_text("utf-8"))
    }
    assert found == ALLOWED
