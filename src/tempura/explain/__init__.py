"""Telling people what a plan does, what it costs, and why it is so and not otherwise."""

from tempura.explain.text import explain, number, size, to_json

__all__ = ["explain", "number", "size", "to_json"]
