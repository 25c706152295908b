# %% [markdown]
# # LLM inference in ten weeks
#
# To write one token, a model reads all of its weights and its whole cache from memory, and memory is far slower than
# arithmetic. Everything in this course follows from that. Each week predicts a number first and then measures it.
#
# {{weeks}}
#
# Not sure whether you know enough of shapes, softmax and indexing? [Week 0](self_test.ipynb) is a self-test of half an
# hour, with a line each on where to catch up. Nothing in it is graded.
#
# The hours are those of the exercises and of reading the text; measuring adds a quarter of an hour or so a week. Every
# term is explained where it first stands; [the glossary](glossary.ipynb) has them all.
#
# ## How to work
#
# - **Here,** in your own copies in `work/`. Open a week, replace the line `raise NotYetWritten` in an answer cell, run
#   it, then run the `check(…)` below it.
# - **In an editor.** Write the same functions in `exercises/` and run the command that stands under each exercise.
#
# Both run the same tests. `course status` in a terminal says what is written, what passes and what to do next.
#
# ## When you are stuck
#
# Open the hint below the exercise. Read the function's docstring again: it is the whole specification. A failed check
# names the mistake that its test looks for. `course reset 2.4` gives you exercise 2.4 as it was at first, and keeps
# your answer in `work/backup/`. `course doctor` says whether this machine is ready.
#
# ## When the course has a new version
#
# `course update --pull` brings it in, with your answers in it. Nothing is thrown away: what has no place any more lies
# in `work/kept/`, and what was there before in `work/backup/`.
