"""What the contract of a binding is for versions that have no tenants. No tests."""

from __future__ import annotations

from typing import Any

from a2a_bridge.testing.binding_contract import BindingContract


class OlderContract(BindingContract):
    """The contract for a version of 0.x: a tenant is part of the address there, and of no message."""

    tenants = False

    def arriving(self, message: Any) -> Any:
        copy = type(message)()
        copy.CopyFrom(message)
        _forget_tenants(copy)
        return copy


def _forget_tenants(message: Any) -> None:
    for field, value in message.ListFields():
        if field.name == "tenant" and field.containing_type.full_name.startswith("lf.a2a.v1."):
            if field.containing_type.name != "AgentInterface":
                message.ClearField("tenant")
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if _repeated(field) else (value,):
                _forget_tenants(one)


def _repeated(field: Any) -> bool:
    return isinstance(field.default_value, list)
