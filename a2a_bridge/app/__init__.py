"""Composition: agents and gateways as servers, with their listeners, cards, metrics and worker processes."""
