"""A2A 0.2.5, told as what differs from 0.3."""
