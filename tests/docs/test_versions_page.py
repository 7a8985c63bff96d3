"""docs/explanation/versions.md matches the code: versions, bindings, card paths, the key of unmapped content."""

from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.dialects import GRPC, HTTP_JSON, JSONRPC, KNOWN, unmapped
from a2a_bridge.dialects.annotation import SYNTHESISED
from tests.docs.pages import DOCS, prose, table

PAGE = DOCS / "explanation/versions.md"


def test_the_versions_and_their_bindings() -> None:
    said = {
        row[0]: row[1:] for row in table(PAGE.read_text(), "version", "JSONRPC", "HTTP+JSON", "GRPC", "card")
    }
    assert list(said) == [dialect.version for dialect in KNOWN]
    for dialect in KNOWN:
        has = [dialect.form(kind) is not None for kind in (JSONRPC, HTTP_JSON, GRPC)]
        assert [bool(cell) for cell in said[dialect.version][:3]] == has
        assert said[dialect.version][3] in dialect.card.paths


def test_names_and_sizes() -> None:
    text = prose(PAGE) + prose(DOCS / "explanation/gateways.md")
    assert f"`{unmapped.KEY}`" in text
    assert f"`{SYNTHESISED}`" in text
    assert f"`{SIDE_CHANNEL}`" in text
