"""Slow, independent, high-precision reference values for the accountant's tests."""
