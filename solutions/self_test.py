# %% [markdown]
# # Week 0 · A self-test
#
# The course uses three skills everywhere: reading the **shape** of an array, **softmax**, and **indexing**. This page
# shows in half an hour whether you have them. Sixteen small questions; each cell says whether the answer is right, or what
# the mistake probably is. Nothing is graded and nothing is kept.
#
# It needs NumPy alone. The weeks use PyTorch, whose shapes, `@`, slices and broadcasting work in the same way.
#
# Think first, then type: put your answer in the place of `...` and run the cell. Where a shape or some numbers are asked,
# type a tuple such as `(2, 3)`. Do not let NumPy compute it for you; that comes after.

# %%
import math

import numpy as np

from course.lab.self_test import answer, result

# %% [markdown]
# ## Shapes
#
# **1.** `A` has shape (4, 3) and `B` has shape (3, 5). What is the shape of `A @ B`?

# %%
my_shape = ...
answer(1, my_shape)

# %% [markdown]
# **2.** Queries have shape (2, 8, 16, 64): 2 texts, 8 heads, 16 positions, 64 numbers. Keys, their last two axes exchanged, have
# shape (2, 8, 64, 16). What is the shape of `queries @ keys`?

# %%
my_scores_shape = ...
answer(2, my_scores_shape)

# %% [markdown]
# **3.** Broadcasting: a column of shape (4, 1) plus a vector of shape (3,). What is the shape of the sum?

# %%
my_sum_shape = ...
answer(3, my_sum_shape)

# %% [markdown]
# **4.** `x` holds 2 texts of 4 positions, each a vector of 6 numbers. Each vector consists of 2 heads of 3 numbers, side by side.
# Make of it an array (2, 2, 4, 3): texts, heads, positions, numbers. Write an expression with `reshape` and `transpose`.

# %%
x = np.arange(2 * 4 * 6).reshape(2, 4, 6)
my_heads = ...
answer(4, my_heads)

# %% [markdown]
# **5.** How many bytes does an array of 16 rows and 512 columns take in float32?

# %%
my_bytes = ...
answer(5, my_bytes)

# %% [markdown]
# ## Softmax
#
# Softmax makes shares of scores: each score's exponential, divided by the sum of all exponentials. Type numbers to two
# decimals.
#
# **6.** The scores are 0 and ln 3. Which two shares does softmax give?

# %%
my_shares = ...
answer(6, my_shares)

# %% [markdown]
# **7.** The same after 100 is added to both scores: 100 and 100 + ln 3. Which shares now?

# %%
my_shifted_shares = ...
answer(7, my_shifted_shares)

# %% [markdown]
# **8.** Write softmax over the last axis of an array, two lines, so that scores of 1,000 do no harm. It is tried on the rows
# (1, 2, 3) and (1000, 1001, 1002).


# %%
def my_softmax(scores):
    return ...


answer(8, my_softmax)

# %% [markdown]
# **9.** Temperature: scores are divided by T before softmax. The scores are 2 and 0, and T is 0.5. What is the share of the first?
# (`math.exp` helps.)

# %%
my_share = ...
answer(9, my_share)

# %% [markdown]
# **10.** The scores are 1, 1 and −∞. Which three shares?

# %%
my_masked_shares = ...
answer(10, my_masked_shares)

# %% [markdown]
# ## Indexing
#
# **11.** `a = np.arange(24).reshape(2, 3, 4)`. Which numbers are `a[1, :, -1]`?

# %%
my_numbers = ...
answer(11, my_numbers)

# %% [markdown]
# **12.** `tokens = [10, 20, 30, 40, 50, 60]`. Which are `tokens[2:5]`?

# %%
my_tokens = ...
answer(12, my_tokens)

# %% [markdown]
# **13.** Positions 0, 1, 2, … lie in blocks of 16, one block behind the other, the first is block 0. In which block is position
# 37, and at which place in it, counted from 0? Type (block, place).

# %%
my_place = ...
answer(13, my_place)

# %% [markdown]
# **14.** `probs` has a row of 5 numbers for each of 3 texts, and `tokens` says which of the 5 each text chose. Write an expression
# for the three numbers of the chosen ones.

# %%
probs = np.arange(15).reshape(3, 5) / 10
tokens = np.array([4, 0, 2])
my_chosen = ...
answer(14, my_chosen)

# %% [markdown]
# **15.** A causal mask for 4 positions: an array (4, 4) of booleans, True where the position of the row may see the position of the
# column, which are itself and all before it. Write an expression.

# %%
my_mask = ...
answer(15, my_mask)

# %% [markdown]
# **16.** Where in (0.1, 0.5, 0.05, 0.35) stand the two largest numbers? Type their indices, the larger number's first.

# %%
my_top_two = ...
answer(16, my_top_two)

# %% [markdown]
# ## The result

# %%
result()

# %% [markdown]
# With at most one wrong in each topic you are ready for [week 1](week01_prefill_decode/week01_prefill_decode.ipynb). Otherwise an
# evening with one of these is well spent; all of them are free.
#
# - **Shapes.** NumPy's own guide: [the absolute basics](https://numpy.org/doc/stable/user/absolute_beginners.html), then
#   [broadcasting](https://numpy.org/doc/stable/user/basics.broadcasting.html). What a matrix product means:
#   [Essence of linear algebra](https://www.3blue1brown.com/topics/linear-algebra) by 3Blue1Brown, chapters 3 and 4.
# - **Softmax.** *Dive into Deep Learning* (d2l.ai), the chapter on softmax regression. Where it stands in a language model: 3Blue1Brown's
#   video "Attention in transformers, step-by-step", or [The Illustrated Transformer](https://jalammar.github.io/illustrated-transformer/)
#   by Jay Alammar.
# - **Indexing.** NumPy's guide to [indexing](https://numpy.org/doc/stable/user/basics.indexing.html): slices, then arrays of indices.
# - **Python itself.** [The official tutorial](https://docs.python.org/3/tutorial/), chapters 3 to 5 and 9.
# - **PyTorch**, if you have never used it: its own tutorial "Learn the Basics", the part on tensors.
