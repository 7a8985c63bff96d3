"""Behaviour that wraps a service, valid on the server side and on the client side alike."""

from a2a_bridge.core.option_classes import Limits
from a2a_bridge.middleware.limits import deadline, limits
from a2a_bridge.middleware.logging import access_log
from a2a_bridge.middleware.metrics import Metrics
from a2a_bridge.middleware.usage import Usage, usage
from a2a_bridge.middleware.validate import extensions, validate

__all__ = [
    "Limits",
    "Metrics",
    "Usage",
    "access_log",
    "deadline",
    "extensions",
    "limits",
    "usage",
    "validate",
]
