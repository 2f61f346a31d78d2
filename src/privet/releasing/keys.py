"""Types of keys, and of numbers by key, which statistics, tables and answers share."""

__all__ = ["Category", "Key", "Number", "Values"]

Category = str | int | float | bool
Key = Category | tuple[Category, ...]
Number = int | float
Values = Number | tuple[tuple[Key, Number], ...]
"""An answer: one number, or a number for each key."""
