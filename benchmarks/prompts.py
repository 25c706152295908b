"""Prompts of the two kinds that the shipped models know: plays and small worked problems. None is in their training."""

PLAYS = (
    "ACT I. SCENE I. A hall in the castle.\n\n",
    "Enter the KING, with ATTENDANTS.\n\n",
    "KING\nWhat news hath brought thee from the northern coast?\n\n",
    "FIRST LORD\nThe night is cold, and all the watch asleep.\n\n",
    "QUEEN\nMy heart is heavy, and I know not why.\n\n",
    "FOOL\nNay, nuncle, if a man have but one shoe,\n",
)
PROBLEMS = (
    "23 + 58 =",
    "71 - 16 =",
    "Taxi: 4 dollars a km, tip 7. A ride of 6 km costs",
    "Anna has 35 nuts and Mark has 53. Who has more?",
    "The boat is green and the hat is gold. What colour is the hat?",
    "40 + 17 = 57.\n62 - 9 =",
)
BY_KIND = {"plays": PLAYS, "problems": PROBLEMS}
