"""Tables: where rows come from and what a value means.

``sources`` opens frames, Arrow tables and files. ``text_files`` is the only reader of CSV, over
``text_structure``. ``values`` gives each value one meaning by a declared type. ``schema`` checks the columns
that a plan needs before anything is spent, by the ``column_kind`` of each.

``postgres_table`` names a table of a server.

A new file format or container is a source in ``sources``.
"""
