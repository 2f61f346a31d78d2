"""Private training: sample, per-example gradients, clip, noise, step; the plan derives its own event."""
