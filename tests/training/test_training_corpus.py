"""Markdown to plain play text."""

from training.texts.corpus import HELD_OUT_PLAYS, clean_line, load_plays, scenes

MARKDOWN = """# A Play

## ACT I

### SCENE I. Venice. A street.

_Enter ANNA and BEN_

**ANNA**  
_\\[Aside]_  
What, ho! — who's there?  
*Exit.*

**BEN**  
None but I.

### SCENE II. The same.

**BEN**  
One.  
Two.  

## ACT II

### SCENE I. A wood.

**ANNA**  
Three.  
Four.
"""


def test_each_scene_is_a_document_that_starts_with_its_act():
    starts = [scene.splitlines()[0] for scene in scenes(MARKDOWN)]
    assert starts == ["ACT I. SCENE I. Venice. A street.", "ACT I. SCENE II. The same.", "ACT II. SCENE I. A wood."]


def test_a_scene_is_plain_text():
    expected = (
        "ACT I. SCENE I. Venice. A street.\n\nEnter ANNA and BEN\n\nANNA\n[Aside]\nWhat, ho! -- who's there?\nExit.\n\n"
        "BEN\nNone but I.\n"
    )
    assert scenes(MARKDOWN)[0] == expected


def test_an_apostrophe_and_a_hyphen_survive_the_cleaning():
    assert clean_line("'Tis  well-nigh o'er  ") == "'Tis  well-nigh o'er"


def test_no_markdown_is_left_in_any_play():
    text = "".join(scene for held_out in (False, True) for play in load_plays(held_out).values() for scene in play)
    assert not set("*_#\\—") & set(text), "marks are left"
    assert len(text) > 4_900_000, "much of the plays is missing"


def test_held_out_plays_are_not_among_the_training_plays():
    training, held_out = load_plays(held_out=False), load_plays(held_out=True)
    assert sorted(held_out) == sorted(HELD_OUT_PLAYS)
    assert not set(training) & set(held_out) and len(training) == 36
