"""Real data that comes inside of packages from PyPI, so that nothing is downloaded. One module for each
set.
"""
