"""Gradient forms: norms and weighted sums of per-example gradients that are never written out.

A tap gives the inputs and the output gradient of a layer to a form. ``gradient_form`` says what a form is.
``linear_form`` serves matrices, ``grouped_matrix_form`` and ``experts_form`` several of them,
``embedding_form`` tables, ``conv_form`` convolutions and ``bilinear_form`` bilinear layers.
``rearranged_form`` serves parts and transposes of parameters, ``sum_form`` parameters with several uses.
``single_token_linear`` and ``mlp`` are faster for models with one row per example.

To add a form, write a module here with a subclass of ``GradientForm``, and let a tap build it.
"""
