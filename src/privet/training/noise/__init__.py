"""Noise on gradients: from random bits to a flat buffer with noise added.

``distributions`` says which noise a run adds and what it proves; ``gradient_noise`` adds it to a buffer; ``correlated`` makes noise
that cancels between steps. Bits come from ``secure_stream`` (a stream cipher; ``cipher_loops`` on the processor), normal numbers from
``normals`` (by torch) or ``compiled_normals`` (over ``normal_kernels``).

A new distribution is a class in ``distributions`` with its sampler in ``gradient_noise``.
"""
