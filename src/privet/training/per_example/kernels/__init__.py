"""Kernels: loops that numba compiles. Importing a module of this package imports numba.

``loops`` serves tables, recurrence and norms, ``mlp_loops`` chains of linear layers, ``conv_loops`` convolutions, ``gram_loops`` products of tokens;
``arithmetic`` and ``vectors`` are the pieces that they share. The package works without them, only slower.

A new kernel goes here, and the form that calls it keeps a path without it.
"""
