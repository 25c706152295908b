"""From the lessons in solutions/ to everything that is built: notebooks, exercises/, the registry, the front doors."""
