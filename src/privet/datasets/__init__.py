"""Real data that ships inside packages which people install anyway: nothing is downloaded. One module for each set."""
