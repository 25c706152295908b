"""Where the commands speak."""

from rich.console import Console

say = Console(highlight=False, soft_wrap=True)
quiet = Console(highlight=False, soft_wrap=True, stderr=True)  # beside JSON, which has the output for itself
