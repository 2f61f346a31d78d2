"""Attribute inversion: a secret column of a person, from the other columns and a model that was trained on
it.

``secret`` names the columns and their values, ``knowledge`` is what public people tell, ``attack`` is the
game. The attacks are in ``classical`` (published ones) and ``imputed`` (what the population tells, alone and
with the model).
"""
