"""Push notifications: their content by version, the policy for webhook addresses, and their delivery."""

from a2a_bridge.push.delivery_worker import DeliveryWorker
from a2a_bridge.push.notification import Notification, notification
from a2a_bridge.push.options import PushOptions
from a2a_bridge.push.service import JWKS_PATH, PushService, push_service
from a2a_bridge.push.side_channel import Registrations, push_memory
from a2a_bridge.push.webhook import Webhook
from a2a_bridge.push.webhook_resolver import WebhookResolver

__all__ = [
    "JWKS_PATH",
    "DeliveryWorker",
    "Notification",
    "PushOptions",
    "PushService",
    "Registrations",
    "Webhook",
    "WebhookResolver",
    "notification",
    "push_memory",
    "push_service",
]
