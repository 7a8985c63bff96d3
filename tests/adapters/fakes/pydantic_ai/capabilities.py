"""Hooks."""


class Hooks: ...
