# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 1 · Prefill and decode
#
# A language model answers in two phases. It reads your question in one go, and then it writes its answer token by token.
# On a GPU a token of the answer takes about three hundred times as long as one of the question, with the same weights. This
# week you find out why, from two numbers of the chip and two of the model, and you predict how fast a model writes before
# you run it.
#
# **After this week you can**
#
# - say of any pass whether it waits for memory or for arithmetic, and prove it with one division;
# - estimate on a napkin how long a prompt takes, how long a token takes, and how long a user waits;
# - measure your own machine, draw its roofline, and predict tokens per second on it to within some tens of percent;
# - say where the rest of the time goes, as a number;
# - sort every optimisation of this course by what it cuts.
#
# **Time:** a bit more than an hour for the nine exercises, half an hour for the two written questions, an hour to read and
# to measure. **Needs:** that a language model is a stack of matrices, and Python. Nothing of another week.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell below it.
# A check runs the course's own tests on your function alone: everything around it is the reference, so one mistake never
# hides another. Cells that say `needs` use *your* functions, with the numbers of the exercises. If you prefer an editor,
# the same functions wait in `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, three helpers that are imported for you do the work. Each takes arguments by their names
# and raises an error that names the bad one:
#
# | helper | refuses |
# |---|---|
# | `require_positive(n_params=n_params)` | what is no finite number above 0 |
# | `require_not_negative(kv_bytes=kv_bytes)` | what is no finite number from 0 on |
# | `require_count(1, n_tokens=n_tokens)` | what is no whole number from 1 on; another first argument, another least value |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth more
# than a right one that you read.

# %%
import copy
import statistics
import time
from dataclasses import replace
from itertools import pairwise

import torch
from nanolm import load
from nanolm.sampling import Rng
from nanolm.budget import A100, H100, H200
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams, sample_next

from course.lab import figures
from course.lab.timing import side_by_side, take_turns

# One thread: what is measured below is one core, and nothing waits for another.
torch.set_num_threads(1)
target, tokenizer = load("target")
for chip in (A100, H100, H200):
    print(
        f"{chip.name}: {chip.memory_bytes / 1e9:.0f} GB, reads {chip.bandwidth_bytes_per_second / 1e12:.2f} TB/s, "
        f"multiplies {chip.peak_flops_per_second / 1e12:.0f} TFLOP/s"
    )

# %% [markdown]
# ## The idea in plain words
#
# Think of a translator who owns no dictionary of their own. For every job they walk through a library, from the first
# shelf to the last, and take down every volume once. On each page they do a little work for the job at hand.
#
# If the job is one word, nearly all of the time is walking and turning pages. If the job is a list of a hundred words,
# they walk the same way once, and on each page they do the work for all hundred while the next volume is being fetched. It
# takes hardly longer. Only when the list is so long that the work on a page outlasts the fetching of the next volume does
# the list's length begin to count.
#
# The library is the model's weights, and it lies in the chip's memory. The walk is one **pass**. The arithmetic units can
# hold only a few pages at a time, so every pass fetches all of the weights anew.
#
# - **Prefill**: the whole prompt is known, so all of its positions are one list. One pass.
# - **Decode**: the next token is not known until the pass before it has ended. So every token is a list of one word, and
#   for each of them the translator walks through the whole library.
#
# Below is one request to a model of eight billion parameters on a chip like an H100, to scale. Two things go on at the same
# time: fetching weights and multiplying with them.

# %%
READING, ARITHMETIC = 4.48, 0.015  # ms: fetching all weights once; multiplying them for one position


def draw_request(n_prompt, n_written):
    """Both lanes of a request: the prefill, then a decode pass for every further token."""
    fig, ax = figures.figure(8.4, 2.9)
    start = 0.0
    for positions in [n_prompt, *[1] * (n_written - 1)]:
        arithmetic = positions * ARITHMETIC
        ax.broken_barh([(start, READING)], (1.1, 0.8), color=figures.BLUE, edgecolor="white")
        ax.broken_barh([(start, max(arithmetic, 0.06))], (0.1, 0.8), color=figures.ORANGE)
        start += max(READING, arithmetic)
        ax.plot([start, start], [0, 2], ":", color="#555555", linewidth=0.9)
        ax.plot(start, 2.08, "v", color="black", markersize=6)
    first = max(READING, n_prompt * ARITHMETIC)
    ax.text(first / 2, 2.3, f"prefill, {n_prompt:,} positions", ha="center")
    ax.text((first + start) / 2, 2.3, "decode, one position a pass", ha="center")
    ax.text(first - 0.5, 2.02, "the first token", ha="right", fontsize=9, color="#555555")
    ax.set(xlabel="ms", xlim=(0, start * 1.015), ylim=(0, 2.7))
    ax.set_yticks([0.5, 1.5], ["arithmetic", "reading"])
    ax.grid(False)
    return fig


figures.show(
    draw_request(1024, 8),
    "Two lanes over time, reading above and arithmetic below. The prefill of 1,024 positions lasts 15.4 ms: arithmetic fills "
    "it, reading ends after 4.5 ms. Then seven decode passes of 4.5 ms each: reading fills every one, and arithmetic is a "
    "hairline at its beginning. Triangles mark where a token comes out: at the end of every pass.",
)

# %% [markdown]
# Every triangle is a token. In the prefill the arithmetic units are busy from beginning to end. In decode they have
# nothing to do for 99.7 % of the time.
#
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | n | parameters multiplied for a position | `n_params` |
# | T | positions run in this pass | `n_tokens`, `n_prompt_tokens` |
# | B | sequences in the batch | `batch_size` |
# | W | bytes that the chip reads in a second, its bandwidth | `hardware.bandwidth_bytes_per_second` |
# | P | operations that it does in a second, its peak | `hardware.peak_flops_per_second` |
# | L, N, H | layers, query heads, numbers in a head | `n_layers`, `n_heads`, `head_dim` |
# | K | key/value heads | `n_kv_heads` |
#
# GB is 10⁹ bytes; GiB would be 2³⁰. A multiplication and an addition are **two** operations (FLOP), and a chip's data sheet
# counts them so too. Names end in their units: `_bytes`, `_seconds`, `_tokens`.

# %% [markdown]
# ### Prediction 1
#
# A model of 8·10⁹ parameters, 2 bytes each, on an H100. In the time in which it writes *one* token, how many tokens of a
# prompt can it read?

# %%
my_prompt_tokens_per_written_token = 1  # change it

# %% [markdown]
# ## By hand
#
# 8·10⁹ parameters of 2 bytes, W = 3.35 TB/s, and P rounded to 10¹⁵ operations a second.
#
# | | decode, 1 position | prefill, 1,000 positions |
# |---|---:|---:|
# | bytes of weights to read | 16·10⁹ | 16·10⁹ |
# | reading, bytes / W | **4.78 ms** | 4.78 ms |
# | operations, 2 · 8·10⁹ · positions | 1.6·10¹⁰ | 1.6·10¹³ |
# | arithmetic, operations / P | 0.016 ms | **16.0 ms** |
# | operations a byte | 1 | 1,000 |
#
# The longer of the two times counts, since both go on at once. So a decode pass takes 4.78 ms, and no more than 209 tokens a
# second can come out, however good the program is. The prefill takes 16.0 ms for a thousand tokens.
#
# The last line decides without any time in it. This chip does 10¹⁵ operations in the second in which it reads 3.35·10¹²
# bytes: 298.5 for each byte. A pass that asks for fewer operations a byte leaves the arithmetic idle and is **bound by
# memory**. One that asks for more leaves the memory idle and is **bound by compute**. 1 is far below 298.5, and 1,000 is
# above.
#
# **A closer look.** The first matrix of a model, the embedding, is not multiplied: one row of it is looked up. In this
# model it has about half a billion parameters, so 7.5·10⁹ are multiplied. That is 15 GB and 4.48 ms of reading, and 2 ·
# 7.5·10⁹ / 10¹⁵ = 0.015 ms of arithmetic a position. A prompt of 1,024 tokens takes 15.4 ms of arithmetic against 4.48 ms
# of reading; a decode pass 0.015 against 4.48. A written token takes 4.48 ms and a prompt token, one of many, 0.015 ms:
# **about 300 times less**. That is the answer to the prediction, and it is no accident that it is the chip's 298.5.
#
# Try one yourself: the 8·10⁹ parameters again, on a chip that reads only 3.0 TB/s. How many operations a byte does it want?
# How many tokens a second can it write? How long does a prompt of 2,000 tokens take?
#
# <details><summary>Answer</summary>10¹⁵ / 3.0·10¹² = 333.3 operations a byte. 16·10⁹ / 3.0·10¹² = 5.33 ms a token, 187.5
# tokens/s. The prompt needs 2 · 8·10⁹ · 2,000 = 3.2·10¹³ operations, 32 ms. Reading, 5.33 ms, hides behind that: a slower
# memory does not slow this prefill at all.</details>

# %%
print(f"you said {my_prompt_tokens_per_written_token} prompt tokens; it is {READING / ARITHMETIC:.0f}")

# %% [markdown]
# ## The equations
#
# How many operations for each byte read? That is the **arithmetic intensity** I of a pass. At which intensity do reading and
# arithmetic take equally long? That is the **ridge point** of a chip.
#
# $$
# I = \frac{2\, n\, T}{\text{bytes}}
# \qquad
# I_{\text{ridge}} = \frac{P}{W}
# $$
#
# $$
# t_{\text{pass}} = \max\!\left( \frac{\text{bytes of weights}}{W},\; \frac{2\, n\, T}{P} \right)
# $$
#
# They live in `nanolm/budget/roofline.py`, and this week you write that file. It has no tensor in it, only numbers.

# %%
from nanolm.budget import matmul_flops  # exercise: matmul_flops
# points: 1
# minutes: 5
# difficulty: 1
# tested: A prefill of 2,000 tokens, one position of two models, no position at all, and that bad input is refused by name.
# why: Half of every estimate in this course begins with this product.
# hint: A matrix of n numbers times a vector: how often is each number multiplied, and how often is a product added?

# %%
from nanolm.budget import arithmetic_intensity  # exercise: arithmetic_intensity
# points: 2
# minutes: 8
# difficulty: 1
# tested: 1 for decode and 1,000 for a prefill of 1,000 tokens; a batch of 32 with a gigabyte of cache each; bad input.
# why: It is the one number that says what a pass waits for, on any chip.
# hint: Operations over bytes. The weights are read once, however many positions are multiplied with them. The caches are
#   bytes, too.

# %%
from nanolm.budget import ridge_point  # exercise: ridge_point
# points: 1
# minutes: 4
# difficulty: 1
# tested: The two chips of the example, 298.5 and 333.3 operations a byte.
# why: It is the same for all models, so you compute it once for a chip and keep it in mind.
# hint: Look at the units. Operations a second over bytes a second leaves operations a byte.

# %%
from nanolm.budget import bottleneck  # exercise: bottleneck
# points: 1
# minutes: 4
# difficulty: 1
# tested: Decode, prefill and a batch of 32; the ridge point itself; 50 random chips and passes against the two times.
# why: "Bound by memory" decides which optimisations can help at all and which are wasted work.
# hint: A comparison with the ridge point. Which side does the ridge point itself belong to? The docstring says.

# %%
# needs 1.2 to 1.4
example = replace(H100, peak_flops_per_second=1e15)  # the H100 with its peak rounded, as in the table above
print(f"ridge point: {ridge_point(example):.1f} operations a byte, with the data sheet's peak {ridge_point(H100):.1f}")
for positions in (1, 32, 298, 299, 1000):
    intensity = arithmetic_intensity(positions, 8e9, 16e9)
    print(f"{positions:5,} positions: {intensity:7,.1f} operations a byte, bound by {bottleneck(intensity, example)}")

# %% [markdown]
# With 2 bytes a weight the intensity of a pass is just its number of positions. So you can read the ridge point as a number
# of positions: up to the 298th, one more is free.
#
# It does not matter whose positions they are. A thousand of one prompt, 298 users who each wait for one token, 59 users with
# five positions each, because four tokens were drafted (week 4): the weights are read once for all of them.
#
# ## The time of a pass
#
# A decode pass reads the weights. It also reads the **cache**: keys and values of all tokens so far, which attention looks
# at (week 2 builds it). Weights serve everybody in a batch, while a cache belongs to one sequence and nobody shares it.
# Between the products with weights there is attention's turn, which reads the cache and does little arithmetic with it;
# nothing hides that reading. So it is added:
#
# $$
# t_{\text{decode}} = \frac{\text{bytes of cache}}{W} + \max\!\left( \frac{\text{bytes of weights}}{W},\; \frac{2\, n}{P} \right)
# $$

# %%
from nanolm.budget import decode_seconds_per_token  # exercise: decode_seconds_per_token
# points: 3
# minutes: 10
# difficulty: 2
# tested: 4.78 ms and 5.33 ms on the two chips, three other models, a cache that more than doubles the time, a chip whose
#   arithmetic is the slower part, bad input.
# why: One over it is the most tokens per second that a single user can ever see. Vendors' claims are checked with it.
# hint: The formula above, and no batch. On common chips the second term of the maximum never wins; leave it in, a test
#   has a chip where it does.

# %%
from nanolm.budget import prefill_seconds  # exercise: prefill_seconds
# points: 3
# minutes: 8
# difficulty: 2
# tested: Prompts of 1,000, 2,000 and 1,024 tokens that are arithmetic, one of 100 tokens that is reading, the ratio of 300,
#   and that a longer prompt is never faster, on 50 random chips.
# why: It is the part of the waiting for the first token that you can compute.
# hint: The same maximum with T positions. How often are the weights read?

# %%
# needs 1.5 and 1.6
n_params, weight_bytes = 7.5e9, 15e9
prompts = sorted([*(2**power for power in range(13)), 298])  # and where it bends
pass_ms = [1e3 * prefill_seconds(n, n_params, weight_bytes, example) for n in prompts]
reading_ms = 1e3 * decode_seconds_per_token(n_params, weight_bytes, example)
fig, ax = figures.figure(height=3.8)
ax.loglog(prompts, [n * ARITHMETIC for n in prompts], "--", color=figures.ORANGE, label="arithmetic")
ax.axhline(reading_ms, linestyle="--", color=figures.BLUE, label="reading")
ax.loglog(prompts, pass_ms, color="black", label="the pass")
ax.axvline(ridge_point(example), color=figures.GREY, linewidth=0.8, linestyle=":")
ax.text(ridge_point(example) * 1.1, 0.05, "298.5", color="#555555", fontsize=9)
ax.set(xlabel="positions in the pass", ylabel="ms", ylim=(0.01, 100))
ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
ax.legend()
figures.show(
    fig,
    "Time of a pass against its positions, both logarithmic. It is flat at 4.48 ms, the reading, up to 298.5 positions, and "
    "from there on rises in proportion, along the line of the arithmetic.",
)
for n in (1, 16, 100, 1024, 4096):
    whole = prefill_seconds(n, n_params, weight_bytes, example)
    print(f"{n:5,} positions: {whole * 1e3:6.2f} ms, {whole / n * 1e3:6.3f} ms for each")

# %% [markdown]
# The two halves of this curve are two different machines. On the left a faster memory or fewer bytes help, and more
# arithmetic units do nothing. On the right it is the other way round. Decode of a single user stands at the far left, a
# long prompt at the right.
#
# **What it costs.** Say a provider asks for 2 dollars a million prompt tokens and 10 dollars a million written ones. 1,000
# tokens in and 500 out cost 0.002 + 0.005 = 0.007 dollars. A written token costs 5 times as much, but alone it takes 300
# times as long. How can that be? A provider decodes many users at once. Sixty of them share one reading of the weights,
# 4.48 ms / 60 = 0.075 ms each, and that is 5 times the 0.015 ms. (Their caches add to it. Week 10 does the whole sum.)

# %% [markdown]
# ## What attention adds
#
# So far only products with weights were counted. In a prefill every position also attends to those before it. Position t sees
# t positions, itself included. For each of them a layer computes a score, which is a product of H numbers in each of N heads,
# and adds a value to a sum, again H numbers in N heads. That is 2·N·H operations and 2·N·H more.
#
# $$
# \text{share} = \frac{4\, L\, N\, H \cdot \overline{t}}{2\, n}
# \qquad
# \overline{t} = \frac{T + 1}{2}
# $$
#
# **By hand**, for 1,024 tokens: the mean of 1 to 1,024 is 512.5. With 32 layers and a width N·H of 32 · 128 = 4,096 it is
# 4 · 32 · 4,096 · 512.5 = 2.69·10⁸ operations a position, against 2 · 7.5·10⁹ with the weights. That is **1.8 %**: for a prompt of
# this length it was right to leave it out.

# %%
from nanolm.budget import attention_share_of_prefill  # exercise: attention_share_of_prefill
# points: 4
# minutes: 15
# difficulty: 3
# tested: The 1.8 % of the example, a prompt of a single token, and bad input.
# why: It says up to which length "2 n T" is the truth, and from where on prompts grow expensive with their square.
# hint: The causal mask halves the work, not quite: position t sees itself. Grouped heads save cache, not arithmetic, so
#   count query heads.

# %%
# needs 1.7
for n in (1024, 8192, 57_220, 131_072):
    share = attention_share_of_prefill(n, 7.5e9, n_layers=32, n_heads=32, head_dim=128)
    print(f"{n:7,} tokens: attention adds {share:6.1%} to the products with the weights")

# %% [markdown]
# The share grows in proportion to the length. At about 57,000 tokens attention is as much work as all weights together, and
# the prefill of a book costs mostly attention. (In decode it appears as the reading of the cache instead.)

# %% [markdown]
# ## Your machine
#
# Now to a chip that you can touch. W and P of this computer are measured, in the way a decoder uses them: W by multiplying
# matrices with one vector, P by multiplying them with many.
#
# ### Prediction 2
#
# One core of your processor: how many GB can it read in a second from memory that no cache holds? How many operations does
# it do in a second, in float32? (1 GFLOP/s is 10⁹.)

# %%
my_gigabytes_per_second, my_gigaflops = 1.0, 1.0  # change both

# %%
from nanolm.machine import calibrate

machine = calibrate(refresh=True)  # some seconds
if not machine.is_steady:
    machine = calibrate(refresh=True)  # something else ran meanwhile: once more
here = machine.hardware()  # measure_hardware() is both in one call
print(f"{machine.processor}, {machine.threads} thread, {machine.date}")
print(f"the slowest round took {machine.spread:.2f} times as long as the fastest; ", end="")
print("the machine was quiet" if machine.is_steady else "too far apart. Close other programs, run this again")
print(f"reads {here.bandwidth_bytes_per_second / 1e9:.1f} GB/s (you said {my_gigabytes_per_second}), ", end="")
print(f"multiplies {here.peak_flops_per_second / 1e9:.0f} GFLOP/s (you said {my_gigaflops})")

numbers, copies = torch.ones(2**24), torch.empty(2**24)  # 67 MB each
copying = side_by_side({"copy": lambda: copies.copy_(numbers)}, repeats=7)["copy"]
print(f"a plain copy moves {2 * numbers.nbytes / copying / 1e9:.1f} GB/s, reading and writing counted")

# %% [markdown]
# Does "the bandwidth" exist? A processor keeps what it used last in caches of its own: small and near, or larger and further
# away. Weights that fit into one of them are read from there in every pass after the first. The length of the rows
# matters, too: a short row is over before the processor has got going.

# %%
fig, ax = figures.figure(height=3.8)
sizes = [size / 1e6 for size in machine.working_sets]
for row, colour in zip(machine.row_lengths, figures.LINES, strict=False):
    rates = [machine.bandwidth_at(size, row) / 1e9 for size in machine.working_sets]
    ax.plot(sizes, rates, "o-", color=colour, label=f"rows of {row:,} numbers")
if machine.code_readings:
    longest = max(reading.row_length for reading in machine.code_readings)
    of_codes = [reading for reading in machine.code_readings if reading.row_length == longest]
    places = [reading.working_set_bytes / 1e6 for reading in of_codes]
    rates = [reading.bytes_per_second / 1e9 for reading in of_codes]
    ax.plot(places, rates, "s--", color=figures.GREY, label=f"8-bit codes, rows of {longest:,}")
ax.set(xscale="log", xlabel="all matrices together, MB", ylabel="read, GB/s", ylim=(0, None))
ax.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
ax.minorticks_off()
ax.legend(fontsize=9)
figures.show(
    fig,
    "Read rate against the size of all matrices, a line for each row length. Small sets, which a cache holds, should be read "
    "several times as fast as large ones, and long rows faster than short ones. 8-bit codes are dashed.",
)
near, far = (machine.bandwidth_at(size) for size in (machine.working_sets[0], machine.working_sets[-1]))
print(f"rows of 1,024: {near / 1e9:.1f} GB/s in the cache, {far / 1e9:.1f} GB/s out of it, {near / far:.1f} times less")

# %% [markdown]
# A GPU's memory shows the same two effects, more mildly. Its caches hold tens of MB and a model has tens of GB, so for decode
# one number is nearly enough. The shipped model has 10 MB, so *your* processor may well keep it whole.
#
# ## The roofline
#
# One picture for all chips. Across: intensity, operations a byte. Upwards: operations a second. A pass of intensity I can
# reach at most I · W, since that is how many operations the arriving bytes are good for, and at most P. Together these two
# limits look like a roof: a slope, then a flat part, with the ridge point at the bend.
#
# On it stand four passes, measured: one decode pass and a prefill of 256 positions, of the shipped model and of a model with
# random weights that is some 27 times as large. (Random weights write nonsense at the same speed.)

# %%
from nanolm.config import ModelConfig
from nanolm.machine import decode_step_of, weights_read

torch.manual_seed(0)
shape = ModelConfig(1024, d_model=1024, n_layers=6, n_heads=16, n_kv_heads=4, head_dim=64, d_ff=2816, max_positions=512)
large = NanoLM(shape).eval().requires_grad_(False)
models = {"shipped": target, "large": large}
n_of = {name: sum(weight.numel() for weight in weights_read(model)) for name, model in models.items()}
bytes_of = {name: sum(weight.nbytes for weight in weights_read(model)) for name, model in models.items()}
for name in models:
    print(f"{name}: {n_of[name] / 1e6:.1f}·10⁶ parameters, {bytes_of[name] / 1e6:.0f} MB, {models[name].dtype}")


@torch.inference_mode()
def run(model, tokens):
    return model(tokens)


ids = torch.zeros(1, 256, dtype=torch.long)
passes = {}
for name, model in models.items():
    passes[name, 1] = decode_step_of(model)
    passes[name, 256] = lambda model=model: run(model, ids)
pass_seconds = side_by_side(passes, repeats=5)

# %%
# needs 1.1 to 1.3
fig, ax = figures.figure(8.4, 4.6)
across = [2**power for power in range(-3, 13)]


def draw_roof(ax, chip, **style):
    W, P = chip.bandwidth_bytes_per_second, chip.peak_flops_per_second
    places = sorted([*across, ridge_point(chip)])
    ax.loglog(places, [min(x * W, P) for x in places], **style)


flat = {"this core": figures.BLUE, "A100": "#56B4E9", "H100": figures.ORANGE, "H200": figures.GREEN}
for chip, (label, colour) in zip((here, A100, H100, H200), flat.items(), strict=True):
    draw_roof(ax, chip, color=colour, label=f"{label}, ridge {ridge_point(chip):.3g}")
cached = machine.hardware(bytes_of["shipped"])  # the read rate of a set as large as the shipped model
draw_roof(ax, cached, linestyle="--", color=figures.BLUE, label=f"this core, 10 MB, ridge {ridge_point(cached):.3g}")
reached = {}
for (name, positions), seconds in pass_seconds.items():
    intensity = arithmetic_intensity(positions, n_of[name], bytes_of[name])
    rate = matmul_flops(n_of[name], positions) / seconds
    roof = here if name == "large" else cached
    limit = min(intensity * roof.bandwidth_bytes_per_second, roof.peak_flops_per_second)
    reached[name, positions] = f"intensity {intensity:5}, {rate / 1e9:5.1f} GFLOP/s, {rate / limit:.0%} of the roof"
    ax.plot(intensity, rate, "o" if name == "shipped" else "s", color="black", markersize=6)
ax.plot([], [], "o", color="black", label="shipped model, measured")
ax.plot([], [], "s", color="black", label="large model, measured")
for intensity, word in ((0.5, "decode"), (128, "prefill of 256")):
    ax.text(intensity, here.peak_flops_per_second * 4, word, ha="center", fontsize=9.5)
ax.set(xlabel="intensity, operations a byte", ylabel="operations a second", ylim=(1e8, 3e15))
ax.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1, 0.5))
figures.show(
    fig,
    "Rooflines on logarithmic axes: each chip rises with slope one and is flat from its ridge point on. Those of A100, H100 and "
    "H200 bend between 150 and 310 operations a byte, thousands of times above that of this core, which bends far to the left "
    "of them. Decode stands at 0.5 operations a byte under its slope, the prefill at 128 under the flat part.",
)
for (name, positions), words in reached.items():
    print(f"{name}, {positions:3} positions: {words}")

# %% [markdown]
# Weights in float32 have 4 bytes, so a decode pass does 2 operations for 4 bytes: an intensity of 0.5, and one position more
# adds 0.5. The bend of your core's roof therefore lies at P/W divided by 0.5 positions, a handful or a few dozen where an H100
# has 295. A CPU has little arithmetic for its memory, so here a batch stops being free much earlier.
#
# The large model should come close to its roof, in decode and in prefill. The shipped model's decode stays far below it.
# What is it waiting for?

# %%
# needs 1.3
print(f"on this core, in float32, a pass is bound by memory up to about {ridge_point(here) / 0.5:.0f} positions")

# %% [markdown]
# ## Predict, then measure
#
# For a model on the roof, time is bytes over bandwidth. For a small model there is something else. A step of the shipped model
# is a few hundred operations: norms, products, rotations, sums. PyTorch takes microseconds to start each of them, even
# if there is next to nothing to do. A GPU pays the same toll for every kernel that it launches. So a fuller prediction is
#
# $$
# t \approx \sum_{\text{matrices}} \frac{\text{bytes}}{W(\text{size}, \text{row})} + \text{operations} \cdot t_{\text{operation}}
# $$
#
# That is `predicted_decode_seconds(machine, model)`: both W and the cost of an operation were measured above, and the
# operations of a pass are counted. Choosing the token from the logits is not in it.
#
# ### Prediction 3
#
# Both models, at batch 1, with weights in float32 and with weights in 8 bits, which are a quarter of the bytes. How many
# tokens a second will each model write in float32? How many times as fast will it be with 8 bits? You have W, the bytes and
# your own functions. Is a quarter of the bytes a quarter of the time?

# %%
my_rate_shipped, my_rate_large = 0, 0  # tokens per second in float32; change both
my_gain_shipped, my_gain_large = 1.0, 1.0  # times as fast with 8 bits; change both

# %%
# needs 1.5
from nanolm.machine import predicted_decode_seconds
from nanolm.machine import count_operations, reading_seconds
from nanolm.model import quantize_model

variants = {
    (name, bits): model if bits == 32 else quantize_model(copy.deepcopy(model), 8, None)
    for name, model in models.items()
    for bits in (32, 8)
}
predicted = {key: predicted_decode_seconds(machine, model) for key, model in variants.items()}
for (name, bits), model in variants.items():
    size, n_operations = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    roof = decode_seconds_per_token(n_of[name], size, machine.hardware(size))
    print(f"{name:7} {bits:2} bits: {size / 1e6:5.1f} MB, {n_operations} operations. ", end="")
    print(f"Roofline: at most {1 / roof:5,.0f} tokens/s; with the operations {1 / predicted[name, bits]:5,.0f}")

# %% [markdown]
# And now the real thing: `generate`, with the clock read whenever a token comes out. All four take turns, so that whatever
# else your machine is doing hits all of them.

# %%
unending = SamplingParams(temperature=0.0, end_tokens=())  # let no text end early: equal work for all


def write(model, prompts, n):
    """Seconds from the request to each of its n tokens, of a batch of prompts."""
    clock, start = [], time.perf_counter()
    model.generate(prompts, n, unending, on_token=lambda step: clock.append(time.perf_counter() - start))
    return clock


def gaps(clock):
    """Seconds from each token to the next."""
    return [later - earlier for earlier, later in pairwise(clock)]


start = tokenizer.encode("ROMEO\n")
runs = {key: [] for key in variants}
for _ in range(4):
    for key, model in variants.items():
        runs[key] += gaps(write(model, [start], 33 if key[0] == "shipped" else 17))
measured = {key: statistics.median(seconds) for key, seconds in runs.items()}

print("model   bits   predicted    measured   measured/predicted   tokens/s")
for (name, bits), seconds in measured.items():
    guess = predicted[name, bits]
    print(f"{name:7} {bits:4} {guess * 1e3:8.2f} ms {seconds * 1e3:8.2f} ms {seconds / guess:20.2f} ", end="")
    print(f"{1 / seconds:10,.0f}")
for name, my_rate, my_gain in (("shipped", my_rate_shipped, my_gain_shipped), ("large", my_rate_large, my_gain_large)):
    gain = measured[name, 32] / measured[name, 8]
    print(f"{name}: you said {my_rate} tokens/s, it is {1 / measured[name, 32]:,.0f}; ", end="")
    print(f"with 8 bits {my_gain} times as fast, it is {gain:.2f}")

# %% [markdown]
# ### Explain the gap
#
# Three parts of a token's time are known now: reading the weights, starting the operations, and choosing the token, which
# we measure apart. What is left over is what nobody has predicted: the Python around the pass, the cache, the scatter of
# your machine.

# %%
scores = torch.randn(1, target.config.vocab_size)
choosing = side_by_side({"choose": lambda: sample_next(scores, unending, Rng())}, repeats=200)["choose"]
parts = {}
for (name, bits), model in variants.items():
    reading = reading_seconds(model, machine.readings, machine.code_readings)
    operations = predicted[name, bits] - reading
    known = {"reading": reading, "operations": operations, "choosing": choosing}
    parts[name, bits] = {part: seconds / measured[name, bits] for part, seconds in known.items()}
    rest = 1 - sum(parts[name, bits].values())
    shares = ", ".join(f"{part} {share:.1%}" for part, share in parts[name, bits].items())
    print(f"{name:7} {bits:2} bits, {measured[name, bits] * 1e3:5.2f} ms: {shares}; ", end="")
    print(f"{rest:.0%} unexplained" if rest >= 0 else f"predicted {-rest:.0%} too much")

# %%
fig, ax = figures.figure(8.4, 3.2)
labels = [f"{name}, {bits} bits" for name, bits in parts]
left = [0.0] * len(parts)
for part, colour in zip(("reading", "operations", "choosing"), figures.LINES, strict=False):
    widths = [shares[part] for shares in parts.values()]
    ax.barh(labels, widths, left=left, color=colour, label=part, height=0.62)
    left = [done + width for done, width in zip(left, widths, strict=True)]
ax.axvline(1, color="black", linestyle="--", linewidth=1, label="measured")
ax.set(xlabel="share of the measured time of a token", xlim=(0, max(1.15, *left)))
ax.invert_yaxis()
ax.grid(visible=False, axis="y")
ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.45, 1.0))
figures.show(
    fig,
    "A bar for each model and number of bits, made of reading, operations and choosing, as shares of the measured time, which is "
    "a dashed line at 1. In the shipped model operations should be the largest part, in the large one reading. What is missing "
    "to the dashed line is unexplained; a bar beyond it was predicted too long.",
)

# %% [markdown]
# Read the bars from top to bottom.
#
# - **The shipped model** mostly pays for operations. Eight bits cut the reading, which was the small part, and the gain stays
#   far from four. To speed it up you would join operations into fewer and larger ones.
# - **The large model** mostly pays for reading. Here fewer bits count, but codes have to be turned into numbers on the way,
#   and most cores do not get through as many bytes of codes in a second: compare the dashed line in the plot of read rates.
#   So the gain is less than four again, for another reason. On a GPU the conversion hides behind the reading, and the gain
#   comes close to the ratio of the bytes.
# - **Choosing the token** is small here. With a vocabulary of 128,000 and top-p it is not always.
#
# If all four bars end far from the dashed line, on the same side, the machine was not equally busy in the two measurements.
# Close what else is running and run again from `calibrate` on.
#
# This is what a roofline is good for: it says how fast it *could* be, and the gap asks a question. The bounds of this
# course hold at full speed of the chip. In practice a good engine's step takes 1.2 to 2 times as long. The *ratios* hold
# much better: twice the bytes take twice the time on a bad day, too.

# %% [markdown]
# ## What a user waits for
#
# A user sees two things. How long until something appears: **TTFT**, time to first token. And how fast it goes on from
# there: **TPOT**, time per output token, the usual gap between one token and the next. (A single such gap is an inter-token
# latency, ITL.)
#
# - TTFT = waiting in the queue + prefill + network. A model that reasons before it answers, and hides its reasoning, adds
#   all of those decode steps.
# - TPOT = one decode step of the batch that the request is in.
#
# **By hand.** TTFT 200 ms, TPOT 25 ms, an answer of 300 tokens. The first token is there after 0.2 s. 299 others follow at
# 25 ms each: 0.2 + 7.475 = 7.675 s. While it runs, the user sees 1 / 0.025 = 40 tokens a second.

# %%
from nanolm.budget import end_to_end_seconds  # exercise: end_to_end_seconds
# points: 2
# minutes: 6
# difficulty: 1
# tested: 7.675 s for the example, an answer of one token, and bad input.
# why: Goals for a service are set in TTFT and TPOT, and users complain about the sum.
# hint: The first token is paid for by TTFT. How many others are there?

# %%
from nanolm.budget import tokens_per_second  # exercise: tokens_per_second
# points: 1
# minutes: 5
# difficulty: 1
# tested: A user at 25 ms, a batch of 32, a ceiling that a growing batch approaches, and bad input.
# why: With batch_size 1 it is what one user sees, with B what the machine earns its money with.
# hint: A step writes one token for each sequence in the batch.

# %% [markdown]
# ### Prediction 4
#
# The shipped model serves 1, 8 and 32 requests at once, prompts of 64 tokens, 24 tokens each. In one batch, all prompts are
# run in one pass and all decode steps are shared. At batch 32, how many times slower is each user's text than alone? How
# many times more tokens come out of the machine in all?

# %%
my_slower_each, my_more_in_all = 1.0, 1.0  # change both

# %%
# needs 1.6, 1.8 and 1.9
n_prompt, n_new, batches = 64, 24, (1, 8, 32)
prompt = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 8)[:n_prompt]
clocks = {B: [] for B in batches}
take_turns({B: lambda B=B: clocks[B].append(write(target, [prompt] * B, n_new)) for B in batches}, repeats=4)
served = {}
for B in batches:
    kept = clocks[B][-4:]  # the one before them was to warm up
    ttft = statistics.median(clock[0] for clock in kept)
    tpot = statistics.median(gap for clock in kept for gap in gaps(clock))
    whole = statistics.median(clock[-1] for clock in kept)
    served[B] = {"ttft": ttft, "tpot": tpot, "whole": whole, "worst": max(gap for clock in kept for gap in gaps(clock))}
    at_best = prefill_seconds(B * n_prompt, n_of["shipped"], bytes_of["shipped"], cached)
    print(f"batch {B:2}: TTFT {ttft * 1e3:6.1f} ms (roofline {at_best * 1e3:6.1f}), ", end="")
    print(f"TPOT {tpot * 1e3:5.2f} ms, worst gap {served[B]['worst'] * 1e3:5.2f}, ", end="")
    print(f"end to end {whole * 1e3:6.1f} ms (your formula {end_to_end_seconds(ttft, tpot, n_new) * 1e3:6.1f})")
each = {B: tokens_per_second(served[B]["tpot"]) for B in batches}
together = {B: tokens_per_second(served[B]["tpot"], B) for B in batches}
for B in batches:
    print(f"batch {B:2}: each user {each[B]:4.0f} tokens/s, all together {together[B]:6,.0f}")
print(f"you said {my_slower_each} times slower for each and {my_more_in_all} times more in all; ", end="")
print(f"it is {each[1] / each[32]:.1f} and {together[32] / together[1]:.1f}")

# %%
from nanolm.budget import decode_step_time

many = [1, 2, 4, 8, 16, 32, 64, 128, 256]
steps = [decode_step_time(B, 7.5e9, 15e9, 134_217_728, H100) for B in many]  # a cache of 1,024 tokens each
fig, axes = figures.figure(8.4, 3.6, columns=2)
axes[0].plot(many, [steps[0] / step for step in steps], color=figures.ORANGE, label="8B on an H100, computed")
axes[0].plot(batches, [each[B] / each[1] for B in batches], "o-", color=figures.BLUE, label="measured here, shipped")
axes[1].plot(many, [B * steps[0] / step for B, step in zip(many, steps, strict=True)], color=figures.ORANGE)
axes[1].plot(batches, [together[B] / together[1] for B in batches], "o-", color=figures.BLUE)
axes[1].plot(many, many, "--", color=figures.GREY, label="if a batch were free")
for ax, label in zip(axes, ("each user, as a share of alone", "all together, times one alone"), strict=True):
    ax.set(xscale="log", xlabel="sequences in the batch", ylabel=label)
    ax.set_xticks([1, 8, 32, 256], ["1", "8", "32", "256"])
    ax.minorticks_off()
    ax.legend(fontsize=8.5)
axes[0].set(ylim=(0, 1.3))
axes[1].set(yscale="log")
axes[1].set_yticks([1, 10, 100], ["1", "10", "100"])
axes[1].minorticks_off()
figures.show(
    fig,
    "Speed against the batch, relative to a batch of one. Left: what each user gets falls, on an H100 to less than a third "
    "at 256 sequences. Right: what all get together rises, there to about 80 times, and ever more slowly, below the dashed "
    "line of a free batch. The dots of this machine go the same two ways.",
)

# %% [markdown]
# The two go in opposite directions, always. A provider moves to the right, a user wants to be at the left, and a service goal
# ("TPOT at most 30 ms") says where to stop.
#
# Look at TTFT as well. All prompts were run in one pass, so everybody waited for everybody's prompt. That pass is bound by
# compute, so it grows about in proportion to the batch. (It takes longer than the roofline says: products with matrices as
# narrow as these do not reach P, and attention, norms and rotations come on top.)
#
# The H100's line bends for another reason, its caches: every sequence brings bytes of its own. Here the arithmetic of one core
# runs out early. Which limit comes first depends on the chip, and you can compute it.

# %% [markdown]
# ## Five levers
#
# Everything that makes inference faster or cheaper cuts one of five things. This table is a map of the course.
#
# | it cuts | how, and in which week | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|---|
# | **bytes of weights** | 8 or 4 bits (5), a smaller model | little: a long prompt waits for arithmetic | much, in small batches | up, as memory is freed | less | 8 bits nearly free; measure 4 |
# | **bytes of cache** | grouped heads (2), latent attention, windows (9), 8 bits (5) | – | in long contexts and large batches | up: larger batches fit | less | mostly trained in; 8 bits nearly free |
# | **passes in sequence** | speculation (4), shorter answers, less reasoning | – | much, while arithmetic is idle | none in a large batch | a draft and its cache | speculation exact |
# | **arithmetic** | reused prefixes (7), mixtures of experts (8), tiled attention (9), 8-bit arithmetic | much | little, until the batch is large | up where prompts dominate | prefixes and experts take some | prefixes and tiling exact |
# | **waiting** | continuous batching and chunked prefill (6), routing (7) | much, under load | a little worse for each | up, many times | more caches at once | the same |
#
# A load with long prompts and short answers (search, classification, extraction) lives in prefill and wants the fourth row.
# A load with short prompts and long answers (chat, code, reasoning) lives in decode and wants the first three. On several
# GPUs the same division shows: decode splits every matrix over all of them, so that each reads a part (tensor parallelism),
# and large services give prefill machines of its own.

# %% [markdown]
# ## The same with the library
#
# transformers has the same two phases inside `generate`. A *streamer* is called with the prompt and then with every token,
# so a clock in it shows TTFT and TPOT. The shipped checkpoint is an ordinary Llama folder, so transformers opens it.

# %%
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)

    class Clock:
        """A streamer that only looks at the time."""

        def put(self, tokens):
            self.seconds.append(time.perf_counter() - self.start)

        def end(self):
            pass

    def write_theirs():
        watch = Clock()
        watch.seconds, watch.start = [], time.perf_counter()
        options = {"max_new_tokens": n_new, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        ids = torch.tensor([prompt])
        text = theirs.generate(ids, attention_mask=torch.ones_like(ids), streamer=watch, **options)
        return text[0, n_prompt:].tolist(), watch.seconds[1:]  # the first call only hands over the prompt

    text, _ = write_theirs()
    clock = write_theirs()[1]
    print("transformers writes our text:", text == target.generate(prompt, n_new, unending))
    print(f"TTFT {clock[0] * 1e3:.1f} ms, TPOT {statistics.median(gaps(clock)) * 1e3:.2f} ms there; ", end="")
    print(f"{served[1]['ttft'] * 1e3:.1f} ms and {served[1]['tpot'] * 1e3:.2f} ms here")
else:
    print("transformers is not installed here; with it, this cell takes its TTFT and TPOT")

# %% [markdown]
# Both read the same weights with the same products. What differs is the number of small operations and the Python between
# them, and for a model of this size that is most of the time. With an 8B on a GPU the two would be much closer.
#
# A vLLM server is measured from outside (not run here):
#
# ```
# vllm serve MODEL
# vllm bench serve --model MODEL --dataset-name random --random-input-len 1024 --random-output-len 300 --max-concurrency 8
# ```
#
# It reports mean, median and 99th percentile of TTFT, of TPOT and of ITL. There TPOT is the mean gap of a request, and ITL
# takes every gap by itself. Raise `--max-concurrency` and watch output tokens per second rise and TPOT with it.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **The factor 2 forgotten.** A multiplication *and* an addition for each parameter; data sheets count both.
#   `test_matmul_flops_counts_a_multiplication_and_an_addition_for_each_parameter_and_position`
# - **Weights read once per position.** Then nothing would ever be bound by compute.
#   `test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens`,
#   `test_prefill_seconds_of_a_long_prompt_are_its_arithmetic`
# - **The cache left out.** In a long context it is most of what is read.
#   `test_arithmetic_intensity_of_a_batch_falls_with_the_bytes_of_its_caches`
# - **The ridge point upside down.** `test_ridge_point_is_operations_per_second_over_bytes_per_second`
# - **The two bounds the wrong way round.** Low intensity waits for memory.
#   `test_bottleneck_is_memory_for_decode_and_compute_for_a_long_prefill`
# - **Reading and arithmetic added.** They go on at once; the longer counts.
#   `test_decode_seconds_per_token_is_the_time_to_read_all_weights_once`
# - **The cache hidden behind the weights.** It has no arithmetic to hide behind; it is added.
#   `test_decode_seconds_per_token_adds_the_reading_of_the_cache`
# - **A prompt's time as arithmetic only.** A short prompt waits for the weights like any pass.
#   `test_prefill_seconds_of_a_short_prompt_are_the_reading_of_the_weights`
# - **The causal mask forgotten.** On average a position sees half of the prompt.
#   `test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens`
# - **The current token left out.** It sees itself. `test_attention_share_of_prefill_counts_the_current_token`
# - **The first token paid twice.** After TTFT it is there already.
#   `test_end_to_end_seconds_waits_once_for_the_first_token_and_then_for_each_other`
# - **The batch forgotten.** `test_tokens_per_second_count_one_token_for_each_sequence_and_step`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** 13·10⁹ parameters at 2 bytes. At most how many tokens a second for one user on an H100 (3.35 TB/s)? On an H200 (4.8
# TB/s, the same peak)? By how much is a prompt of 1,000 tokens faster there?
#
# <details><summary>Answer</summary>26 GB / 3.35 TB/s = 7.76 ms, 129 tokens/s. On the H200 5.42 ms, 185. The prompt is bound
# by compute (26 ms of arithmetic) and is not faster at all.</details>
#
# **2.** The 8B of this lesson (7.5·10⁹ multiplied, 15 GB) gets weights of one byte; the arithmetic stays as it was, 10¹⁵ a
# second. What happens to TPOT? To the prefill of 1,024 tokens? To the number of positions at which compute takes over?
#
# <details><summary>Answer</summary>TPOT halves: 7.5 GB / 3.35 TB/s = 2.24 ms. The prefill stays at 15.4 ms. Reading takes
# half as long while the arithmetic is unchanged, so compute takes over from 150 positions on instead of 299: a batch fills
# the chip sooner.</details>
#
# **3.** TTFT 200 ms, TPOT 25 ms, 300 tokens: 7.675 s. You may halve one of the two. Which?
#
# <details><summary>Answer</summary>TPOT: 0.2 + 299 · 0.0125 = 3.94 s, against 7.575 s. For an answer of 300 tokens TTFT is
# 2.6 % of the whole. With 8 tokens it would be more than half, and TTFT the one to halve. Users also forgive a slow stream
# that has begun more easily than an empty screen, so ask what the goal is.</details>
#
# **4.** The 8B (16 GB) answers prompts of 4,000 tokens with 200 tokens, one user at a time, W = 3.35 TB/s, P = 10¹⁵. Which
# phase takes the time?
#
# <details><summary>Answer</summary>Prefill 2 · 8·10⁹ · 4,000 / 10¹⁵ = 64 ms (attention adds 7 %). Decode 199 · 4.78 = 950
# ms, 15 times as long for a twentieth of the tokens. The chip's arithmetic is idle for nearly all of it: batch other users
# into it.</details>
#
# **5.** At 2 dollars a million input tokens and 10 dollars a million output tokens: what does that request cost, and which
# part of it is the prompt?
#
# <details><summary>Answer</summary>4,000 · 2·10⁻⁶ + 200 · 10·10⁻⁶ = 0.008 + 0.002 = 0.01 dollars. The prompt is 80 % of the
# price and 6 % of the time at batch 1. Prices follow a machine with a full batch.</details>
#
# **6.** A colleague shows 400 tokens a second for a single user of the 8B in 16 bits on an H100, without speculation. What
# do you say?
#
# <details><summary>Answer</summary>Reading 15 GB takes 4.48 ms, so 223 a second is the end. Either the weights have fewer
# bits, or several GPUs share the reading, or several tokens come out of a pass, or it is the sum over users.</details>

# %% [markdown]
# ## Check yourself
#
# - Why can a prompt be run in one pass, and an answer not?
# - What is the intensity of decode with weights of 4 bits, batch 1? What does that say about the gain?
# - You buy a chip with twice the arithmetic and the same memory. Which of your users notice?
# - Why is the cache's reading added and the weights' reading not?
# - Your small model runs at a fifth of its roofline. Name two causes other than bandwidth.
# - Why do a user's and a provider's tokens per second move in opposite directions?
#
# <details><summary>Short answers</summary>
# All its tokens are known; a written token is the input of the pass for the next.
# · 2 operations for half a byte: 4. Still far below the ridge, so the time falls with the bytes. · Those with long prompts:
# prefill halves, decode stays. · It is read between the products with weights, each sequence its own, with little
# arithmetic to hide behind; weights and the arithmetic with them overlap. · Many small operations, each with a fixed cost
# to start; short rows; choosing the token; Python in between. · A larger batch shares one reading of the weights among more
# tokens, and each step takes longer, by the caches and, later, the arithmetic.
# </details>

# %% [markdown]
# ## In an interview
#
# *"An 8B service answers slowly. What do you do?"*
#
# A structure for three minutes:
#
# 1. **Split it.** TTFT or TPOT? They have different causes, so measure both, median and 99th percentile, at the load at
#    which people complain (30 seconds).
# 2. **Compute what is possible.** TPOT: 15 GB / 3.35 TB/s = 4.5 ms and the caches, so about 5 ms for one user. TTFT: 0.015
#    ms a prompt token. If you are within a factor of two, the program is fine and the numbers have to change (30 seconds).
# 3. **TTFT is bad:** is it the queue (continuous batching, more capacity), the prompt's length (shorten it, run other
#    people's long prompts in chunks), or the same long prefix every time (reuse it)? (40 seconds)
# 4. **TPOT is bad:** fewer bytes (8-bit weights; an 8-bit cache if contexts are long), more tokens a reading (speculation,
#    if the batch is small). Is the batch too large for the goal? Its ceiling is the memory that caches take (40 seconds).
# 5. **After every step** measure again, and check quality on your own tasks: arithmetic and long recall break before chat
#    does (40 seconds).

# %% [markdown] written="intensity of a batched decode step" points=8 minutes=20 difficulty=3
# **Derive the intensity of a batched decode step.** A model multiplies n parameters of b bytes a position. B sequences are
# decoded together, each with a cache of c bytes. (a) Derive the intensity I(B) of the products with the weights over all
# bytes read, and sketch it. (b) What is its limit for large B, and at which B is half of it reached? (c) Take n = 7.5·10⁹,
# b = 2 and a cache of 131,072 bytes for each of S tokens. Show that at S = 8,192 no batch, however large, reaches a ridge
# point of 298.5. Below which S does some batch reach it? (d) Attention itself was left out: with N query heads, K key/value
# heads and 2 bytes a number, what is *its* intensity over the cache, and how does it depend on B and S? What follows?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) Every sequence runs one position, and a position costs 2n operations: 2nB. Weights are read once for
# all, nb bytes. Each sequence reads its own cache: Bc. So I(B) = 2nB / (nb + Bc). It starts in proportion to B, with slope
# 2/b while the caches are small, and bends towards a ceiling.
#
# (b) Divide by B: I = 2n / (nb/B + c), which rises with B towards 2n/c. Half of the limit means nb/B + c = 2c, so B = nb/c:
# the batch whose caches weigh as much as the weights. From there on a larger batch gains less than a factor of two, for
# ever.
#
# (c) c = 8,192 · 131,072 = 1.074·10⁹ bytes, so the limit is 1.5·10¹⁰ / 1.074·10⁹ = 14.0, far below 298.5: such a batch
# stays bound by memory. The limit exceeds the ridge if 1.5·10¹⁰ / (131,072 S) > 298.5, so S < 383.4: up to 383 tokens.
#
# (d) For each cached token and layer there are 2K·H numbers of 2 bytes, 4KH bytes, and 4NH operations (2NH for the scores,
# 2NH for the sum of values). The intensity is N/K: 4 for 32 and 8 heads, 1 with a head of its own for each query. B and S
# cancel, since every sequence brings its own cache: no batch makes attention less bound by memory. What helps is fewer
# bytes: more query heads to a key/value head, or fewer bits.
#
# **Mark scheme (8).** (a) 2nB with a reason, 1; weights once and caches B times, 1. (b) limit, 1; B = nb/c, 1. (c) 14 <
# 298.5, 1; S up to about 383, 1. (d) N/K with operations and bytes, 1; independent of B and S, and a consequence, 1.
# ### END SOLUTION

# %% [markdown] written="two services" points=5 minutes=10 difficulty=2
# **Two services, one chip.** The 8B of this lesson (15 GB, 0.015 ms of arithmetic a position, 4.48 ms of reading) serves,
# one request at a time: *A* sorts documents: 8,000 tokens in, 5 out. *B* chats: 200 in, 800 out. For each: how long are
# prefill and decode, and what is each bound by? Name one lever that helps A and hardly B, one that helps B and hardly A,
# and say why.
#
# ### BEGIN SOLUTION
# **Model answer.** *A*: prefill 8,000 · 0.015 = 120 ms, bound by compute (attention adds another 14 %); the first token
# comes out of it, 4 more take 4 · 4.48 = 18 ms, bound by memory. Prefill is about 87 % of the time. *B*: 200 positions need
# 3 ms of arithmetic, less than the 4.48 ms of reading, so even the prefill is bound by memory, 4.48 ms; decode 799 · 4.48 =
# 3.58 s, bound by memory, nearly everything.
#
# For A and not for B: a reused prefix (if the instructions are long and shared), arithmetic in 8 bits, a chip with more
# operations a second. They cut arithmetic, of which B has next to none. For B and not for A: weights of fewer bits with the
# arithmetic unchanged, speculation, a faster memory. They cut bytes or passes in sequence, which are a small part of A.
# (Batching helps B greatly and A hardly, since A's prefill fills the arithmetic already.)
#
# **Mark scheme (5).** A's times and bounds, 1. B's times, 1. B's prefill is bound by memory, 1. A lever for A with the
# reason, 1. A lever for B with the reason, 1. 5 and 800 decode passes instead of 4 and 799: no deduction.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can say what a pass waits for and prove it by intensity; estimate prefill, decode and a user's waiting on a napkin;
# measure a machine, draw its roofline and explain a gap to it in numbers. All later weeks use this: each pulls one of the
# five levers and measures what it gives. `course status` in a terminal says what is left.
#
# ## Sources
#
# - Williams, Waterman, Patterson 2009, *Roofline: an insightful visual performance model for multicore architectures*.
# - Pope et al. 2022, *Efficiently scaling transformer inference*: the cost of prefill and decode, section 2.
# - Kaplan et al. 2020, *Scaling laws for neural language models*, section 2.1: 2 operations a parameter and token.
# - Shazeer 2019, *Fast transformer decoding: one write-head is all you need*: why decoding waits for memory.
# - Ainslie et al. 2023, *GQA*: more operations for each byte of the cache.
# - Yu et al. 2022, *Orca*: batching of requests at different places of their texts.
# - NVIDIA's data sheets of A100, H100 and H200 (SXM): bandwidth and dense 16-bit rates.
