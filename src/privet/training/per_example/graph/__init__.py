"""The autograd graph of a forward pass, read to prove which rows belong to which example.

``graphs`` lists the nodes of a graph. ``operations`` and ``row_moves`` say what each operation does to rows.
``proofs`` proves the order of rows by a weighted backward pass, and ``row_owners`` finds the example of a row
that is in no order. ``couplings`` tests whether examples depend
on each other. ``graph_parameters`` follows parameters that no tap covers: ``parameter_uses`` and
``layer_uses`` say how an operation uses them, ``shared_steps`` and ``shared_parts`` what was done to them
before.

To add an operation of torch that keeps rows where they are, name it in ``operations``. If it gathers, sorts
or sums along an axis, add it to the table in ``row_moves`` that gives the sizes of those axes. If it takes a
parameter, add how to the table in ``parameter_uses``.
"""
