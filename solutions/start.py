# %% [markdown]
# # LLM inference in ten weeks
#
# To write one token, a model reads all of its weights and its whole cache from memory, and memory is far slower than
# arithmetic. Everything in this course follows from that. Each week predicts a number first and then measures it.
#
# {{weeks}}
#
# ## How to work
#
# - **Here.** Open a week, replace the line `raise NotYetWritten` in an answer cell, run it, then run the `check(…)`
#   below it.
# - **In an editor.** Write the same functions in `exercises/` and run the command that stands under each exercise.
#
# Both run the same tests. `course status` in a terminal says what is written, what passes and what to do next.
#
# ## When you are stuck
#
# Open the hint below the exercise. Read the function's docstring again: it is the whole specification. A failed check
# names the mistake that its test looks for. To begin a file anew, `course build --force PATH` gives that notebook or
# exercise file back as it was, without your answers.
