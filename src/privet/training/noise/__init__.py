"""Noise on gradients: from random bits to a flat buffer with noise added.

``distributions`` has the noise distributions and what each is proved to protect. ``gradient_noise`` adds
noise to a buffer. ``correlated`` makes noise that cancels between steps. Random bits come from
``secure_stream`` (a stream cipher), or from ``cipher_loops`` inside of a compiled loop. ``normals`` turns
bits into normal numbers with torch; ``compiled_normals`` does the same with numba, in the loops of
``normal_kernels``.

To add a distribution, write a class in ``distributions`` and its sampler in ``gradient_noise``.
"""
