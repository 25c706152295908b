"""The texts of a training run: plays, problems, their tokens, and the windows that a model is shown."""
