"""Real datasets that other packages contain, so that nothing is downloaded. One module for each dataset."""
