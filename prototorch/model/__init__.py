"""The Keras-like face: models, opening and saving them, prediction, checks of a model text."""
