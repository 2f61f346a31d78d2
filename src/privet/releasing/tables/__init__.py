"""Tables: where rows come from and what a value means.

``sources`` opens frames, Arrow tables and files, ``text_files`` is the only reader of CSV, ``values`` gives each value one meaning by a declared
type, ``schema`` checks the columns that a plan needs before anything is spent.

A new file format or container is a source in ``sources``.
"""
