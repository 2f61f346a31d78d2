"""Reconstruction."""
