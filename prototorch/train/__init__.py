"""Training: what compile and fit declare, the step as one plan, the loop, callbacks."""
