"""Charts of a report, each with a text alternative and the numbers behind it.

A chart module turns facts into a figure (``figures``); ``plotting`` alone knows the plotting library.
``roc``, ``epsilon``, ``scores`` and ``frontier`` are the charts; ``proved_curve`` is the curve that a proof
allows.

A new chart is a module here, called by a section of the page.
"""
