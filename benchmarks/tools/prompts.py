"""Prompts of the two kinds that the shipped models know; none was in their training.

The plays' openings were made up for this file. The problems are among the held-out ones, nanolm/shipped/problems.json;
after its answer the model goes on with problems of its own.
"""

PLAYS = (
    "ACT I. SCENE I. A hall in the castle.\n\n",
    "Enter the KING, with ATTENDANTS.\n\n",
    "KING\nWhat news hath brought thee from the northern coast?\n\n",
    "FIRST LORD\nThe night is cold, and all the watch asleep.\n\n",
    "QUEEN\nMy heart is heavy, and I know not why.\n\n",
    "FOOL\nNay, nuncle, if a man have but one shoe,\n",
)
PROBLEMS = (
    "71 + 55:",
    "19 + 92:",
    "85 - 69:",
    "Taxi: 7 dollars a km, tip 3. A ride of 11 km costs",
    "Taxi: 8 dollars a km, tip 4. A ride of 16 km costs",
    "Who has more, Tom with 15 cups or Mark with 53?",
)
BY_KIND = {"plays": PLAYS, "problems": PROBLEMS}
