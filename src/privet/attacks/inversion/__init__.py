"""Inversion: what a model or a gradient gives away of the people that it was computed from.

``registry`` lists the attacks by name.
"""
