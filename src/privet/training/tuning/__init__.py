"""Private choice of hyperparameters: the best of a random number of runs, or the best of paid models."""
