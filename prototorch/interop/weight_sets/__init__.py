"""Published weights: sets declared in texts beside the models, found by name, alias or address."""
