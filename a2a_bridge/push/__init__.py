"""Push notifications: their content by version, the policy for webhook addresses, and their delivery."""

from a2a_bridge.push.delivery_worker import JWKS_PATH, DeliveryWorker, PushOptions, PushService, push_service
from a2a_bridge.push.notification import Notification, notification
from a2a_bridge.push.side_channel import Registrations, push_memory
from a2a_bridge.push.webhook import Webhook, WebhookResolver

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
