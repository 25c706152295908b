"""Where the commands speak."""

from rich.console import Console

say = Console(highlight=False, soft_wrap=True)
