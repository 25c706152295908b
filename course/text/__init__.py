"""Python files and notebooks as text: cut, compared and written whole, never run."""
