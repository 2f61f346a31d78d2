"""The autograd graph of a forward pass, read to prove which rows belong to which example.

``graphs`` lists the nodes, ``operations`` and ``row_moves`` say what each operation does to rows, ``proofs`` proves the layout of rows by a
weighted backward pass, ``graph_parameters`` finds parameters that no tap covers, ``couplings`` finds examples that depend on each other.

An operation of torch that moves rows in a new way goes into ``operations`` or ``row_moves``.
"""
