"""Linkage: who is behind the rows of a published table, by what an adversary knows of people."""
