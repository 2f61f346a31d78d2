"""Kernels: loops that numba compiles. Importing a module of this package imports numba.

``layer_loops`` serves embeddings, LSTMs, layer normalisation and windows of convolutions, ``mlp_loops``
linear layers, ``conv_loops`` convolutions, and ``gram_loops`` the Gram form. They share ``arithmetic`` and
``vectors``. The gradient forms call them through ``load_kernels``, and work without numba too, only slower.

To add a kernel, write it here. The form that calls it keeps a path without numba.
"""
