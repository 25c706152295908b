"""Mistakes that people make, one replacement in the engine each, and the test that must catch it by name.

Each week has a file beside this one with a list MISTAKES of dictionaries:
name: a few words, unique · week · file: in nanolm/ · old: occurs there exactly once · new: what stands there instead ·
test: the test function meant for it · says: a part of the message that names the mistake.
"""

from importlib import import_module
from pathlib import Path

MISTAKES = [
    mistake
    for path in sorted(Path(__file__).parent.glob("week*.py"))
    for mistake in import_module(f"{__package__}.{path.stem}").MISTAKES
]
