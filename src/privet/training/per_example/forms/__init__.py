"""Forms of per-example gradients: norms and weighted sums that are computed without writing the gradients out.

A tap gives a layer's inputs and output gradients to a form. ``linear_form`` serves matrices, ``embedding_form`` tables, ``conv_form``
convolutions; ``single_token_linear`` and ``mlp`` are faster for models with one row an example. ``products`` says what a form is.

A new form is a module here; a tap chooses it.
"""
