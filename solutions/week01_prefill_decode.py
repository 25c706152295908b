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
# A language model answers in two phases. It reads your question in one go, and then it writes its answer token by
# token. On a GPU a token of the answer takes far longer than one of the question, with the same weights. This week you
# find out why, and how much longer, from two numbers of the chip and two of the model, and you predict how fast a model
# writes before you run it.
#
# **After this week you can**
#
# - say of any pass whether it waits for memory or for arithmetic, and prove it with one division;
# - estimate on a napkin how long a prompt takes, how long a token takes, and how long a user waits;
# - measure your own machine, draw its roofline, and predict tokens per second on it;
# - say where the rest of the time goes, as a number;
# - sort the optimisations of this course by what they cut.
#
# **Time:** about two and a half hours: one for the nine exercises, half an hour for the two written questions, the rest
# to read; and up to one more to guess, to measure and for the problems at the end. **Needs:** that a language model is
# a stack of matrices, and Python. Nothing of another week.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell below
# it. A check runs the course's own tests on your function alone: everything around it is the reference, so one mistake
# never hides another. It prints what it found; where a test failed it leaves the call of your answer in `failing`, and
# `failing.again()` makes it once more. Labs, the other cells, use *your* functions: `needs` at the top of such a cell
# names the exercises by their numbers, puts the reference in the place of one that you have not written, and says so.
# If you prefer an editor, the same functions wait in `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, three helpers that are imported for you do the work. Each takes arguments by their
# names and raises an error that names the bad one:
#
# | helper | refuses |
# |---|---|
# | `require_positive(n_params=n_params)` | what is no finite number above 0 |
# | `require_not_negative(kv_bytes=kv_bytes)` | what is no finite number from 0 on |
# | `require_count(1, n_tokens=n_tokens)` | what is no whole number from 1 on; another first argument, another least value |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth
# more than a right one that you read.
#
# Measurements are made in rounds, in which everything that is compared has one turn. What the rounds do not agree
# about, this course does not claim: the line then says "cannot tell on this run". The set-up below takes some seconds.

# %%
# Set-up for the labs
import copy
import statistics
import time
from dataclasses import replace
from itertools import pairwise

import torch
from nanolm import load
from nanolm.budget import A100, H100, H200
from nanolm.config import ModelConfig
from nanolm.machine import decode_step_of, weights_read
from nanolm.model import NanoLM, quantize_model
from nanolm.sampling import Rng, SamplingParams, sample_next
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import rounds_allowed, side_by_side
from course.lab.verdicts import against_prediction, largest, ratio, which_is_faster

# One thread: what is measured below is one core, and nothing waits for another.
torch.set_num_threads(1)
example = replace(H100, peak_flops_per_second=1e15)  # the H100 with its peak rounded, as in the text
unending = SamplingParams(temperature=0.0, end_tokens=())  # let no text end early: equal work for all

# The shipped model, and one with random weights, which writes nonsense at the same speed as if it made sense.
target, tokenizer = load("target")
torch.manual_seed(0)
shape = ModelConfig(1024, d_model=1024, n_layers=6, n_heads=16, n_kv_heads=4, head_dim=64, d_ff=2816, max_positions=512)
models = {"shipped": target, "large": NanoLM(shape).eval().requires_grad_(False)}
n_of = {name: sum(weight.numel() for weight in weights_read(model)) for name, model in models.items()}
bytes_of = {name: sum(weight.nbytes for weight in weights_read(model)) for name, model in models.items()}


def write(model, prompts, n):
    """Seconds from the request to each of its n tokens, of a batch of prompts."""
    clock, start = [], time.perf_counter()
    model.generate(prompts, n, unending, on_token=lambda step: clock.append(time.perf_counter() - start))
    return clock


def gaps(clock):
    """Seconds from each token to the next."""
    return [later - earlier for earlier, later in pairwise(clock)]


def rounds(n):
    """Count the rounds of a measurement, with a bar that shows how far it is."""
    return tqdm(range(rounds_allowed(n)), desc="rounds", leave=False)


for chip in (A100, H100, H200):
    print(
        f"{chip.name}: {chip.memory_bytes / 1e9:.0f} GB, reads {chip.bandwidth_bytes_per_second / 1e12:.2f} TB/s, "
        f"multiplies {chip.peak_flops_per_second / 1e12:.0f} TFLOP/s"
    )
for name, model in models.items():
    print(f"{name} model: {n_of[name] / 1e6:.1f}·10⁶ parameters, {bytes_of[name] / 1e6:.0f} MB, {model.dtype}")

# %% [markdown]
# ## The idea in plain words
#
# A model does not see letters. Its text is cut into **tokens**, pieces of a few letters, each with a number of its own.
# All the pieces that there are make up the **vocabulary**. One run through the model is a **pass**. It takes one token
# or many through all layers, one after the other. A layer multiplies them by matrices whose numbers never change, and
# once in each layer there is **attention**, in which every position looks at those before it. At the end there are, for
# each position, the **logits**: one number for every token of the vocabulary, the larger, the likelier it is to come
# next. One token is chosen by them (week 3) and joins the text.
#
# Now think of a translator who owns no dictionary. For every job they walk through a library, from the first shelf to
# the last, and take down every volume once. On each page they do a little work for the job at hand.
#
# If the job is one word, nearly all of the time is walking and turning pages. If the job is a list of a hundred words,
# they walk the same way once, and on each page they do the work for all hundred while the next volume is being fetched.
# It takes hardly longer. Only when the list is so long that the work on a page outlasts the fetching of the next volume
# does the list's length begin to count.
#
# The library is the model's weights, and it lies in the chip's memory. The walk is one pass. The arithmetic units can
# hold only a few pages at a time, so every pass fetches all of the weights anew.
#
# - **Prefill**: the whole prompt is known, so all of its positions are one list. One pass.
# - **Decode**: the next token is not known until the pass before it has ended. So every token is a list of one word,
#   and for each of them the translator walks through the whole library.
#
# The list may also hold the words of several customers, one each. That is a **batch**.

# %% [markdown]
# ### Prediction 1
#
# A model of 8·10⁹ parameters, 2 bytes each. An H100 reads 3.35·10¹² bytes a second from its memory and does, rounded,
# 10¹⁵ operations a second. In the time in which it writes *one* token, how many tokens of a prompt can it read? Take a
# minute and a piece of paper; the answer stands further down.

# %%
my_prompt_tokens_per_written_token = 1  # change it

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | n | parameters multiplied for a position | `n_params` |
# | T | positions run in this pass | `n_tokens`, `n_prompt_tokens` |
# | B | sequences in the batch | `batch_size` |
# | W | bytes that the chip reads in a second, its bandwidth | `hardware.bandwidth_bytes_per_second` |
# | P | operations that it does in a second, its peak | `hardware.peak_flops_per_second` |
# | I | operations for each byte read, the intensity | `intensity` |
# | L | layers | `n_layers` |
# | N, H | **heads** of attention: copies of it side by side, each with H numbers of its own for every position | `n_heads`, `head_dim` |
# | K | heads whose keys and values are kept; several of the N may share one | `n_kv_heads` |
#
# GB is 10⁹ bytes; GiB would be 2³⁰. A multiplication and an addition are **two** operations (FLOP), and a chip's data
# sheet counts them so too. Names end in their units: `_bytes`, `_seconds`, `_tokens`.
#
# ### What a pass can wait for
#
# A GPU has two kinds of memory. The large one beside the chip, tens of GB, is **HBM** (high-bandwidth memory): weights
# lie there. The small ones on the chip, some tens of MB in all, are faster, and only what lies in them can be
# multiplied. Every weight of every pass takes the way from HBM to the chip. W says how fast that way is, P how fast the
# chip multiplies.
#
# Fetching and multiplying go on at the same time, so a pass takes the longer of the two. If that is the fetching, the
# pass is **memory-bound**: more arithmetic units would do nothing for it. If it is the multiplying, the pass is
# **compute-bound**: a faster memory would do nothing.
#
# Which of the two holds is decided by one number of the pass and one of the chip. The **arithmetic intensity** of a
# pass is how many operations it does for each byte it fetches. The **ridge point** of a chip is the intensity at which
# both take equally long. Below it a pass is memory-bound, above it compute-bound.
#
# Weights are not all that is fetched. For every token of the text so far the model keeps two vectors in each layer, a
# key and a value, so as not to compute them again: the **KV cache**, or cache for short. Attention reads all of it in
# every pass. Everybody in a batch uses the same weights, but each sequence has a cache of its own.
# [Week 2](../week02_kv_cache/week02_kv_cache.ipynb) builds it; here it is a number of bytes.

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
# | intensity, operations a byte | 1 | 1,000 |
#
# The longer of the two times counts. So a decode pass takes 4.78 ms, and no more than 209 tokens a second can come out,
# however good the program is. The prefill takes 16.0 ms for a thousand tokens.
#
# The last line decides without any time in it. This chip does 10¹⁵ operations in the second in which it reads 3.35·10¹²
# bytes: 298.5 for each byte, its ridge point. 1 is far below, so decode is memory-bound; 1,000 is above, so this
# prefill is compute-bound.
#
# **A closer look.** The first matrix of a model, the **embedding**, is not multiplied: one row of it is looked up. In
# this model it has about half a billion parameters, so 7.5·10⁹ are multiplied. That is 15 GB and 4.48 ms of reading,
# and 2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms of arithmetic a position. A prompt of 1,024 tokens takes 15.4 ms of arithmetic
# against 4.48 ms of reading; a decode pass 0.015 against 4.48. A written token takes 4.48 ms and a prompt token, one of
# many, 0.015 ms: **about 300 times less**. That is the answer to the prediction, and it is no accident that it is the
# chip's 298.5.
#
# Try one yourself: the 8·10⁹ parameters again, on a chip that reads only 3.0 TB/s. How many operations a byte does it
# want? How many tokens a second can it write? How long does a prompt of 2,000 tokens take?
#
# <details><summary>Answer</summary>10¹⁵ / 3.0·10¹² = 333.3 operations a byte. 16·10⁹ / 3.0·10¹² = 5.33 ms a token,
# 187.5 tokens/s. The prompt needs 2 · 8·10⁹ · 2,000 = 3.2·10¹³ operations, 32 ms. Reading, 5.33 ms, hides behind that:
# a slower memory does not slow this prefill at all.</details>
#
# Now one whole request to that model, to scale: 1,024 tokens in, 8 out.

# %%
reading_ms, arithmetic_ms = 15e9 / 3.35e12 * 1e3, 2 * 7.5e9 / 1e15 * 1e3  # all weights once; one position
print(f"you said {my_prompt_tokens_per_written_token} prompt tokens; it is {reading_ms / arithmetic_ms:.1f}")


def draw_request(n_prompt, n_written):
    """Both lanes of a request: the prefill, then a decode pass for every further token."""
    fig, ax = figures.figure(6.4, 2.6)
    start = 0.0
    for positions in [n_prompt, *[1] * (n_written - 1)]:
        arithmetic = positions * arithmetic_ms
        ax.broken_barh([(start, reading_ms)], (1.1, 0.8), color=figures.BLUE, edgecolor="white")
        ax.broken_barh([(start, arithmetic)], (0.1, 0.8), facecolor=figures.ORANGE, edgecolor=figures.ORANGE)
        start += max(reading_ms, arithmetic)
        ax.plot([start, start], [0, 2], ":", color="black", linewidth=0.8)
        ax.plot(start, 2.1, "v", color="black", markersize=6)
    first = max(reading_ms, n_prompt * arithmetic_ms)
    ax.text(first / 2, 2.35, f"prefill, {n_prompt:,} positions", ha="center", fontsize=9.5)
    ax.text((first + start) / 2, 2.35, "decode, one position a pass", ha="center", fontsize=9.5)
    ax.set(xlabel="ms", xlim=(0, start * 1.015), ylim=(0, 2.8))
    ax.set_yticks([0.5, 1.5], ["arithmetic", "reading"])
    ax.grid(False)
    return fig


figures.show(
    draw_request(1024, 8),
    "Two lanes over time, reading above and arithmetic below. The prefill of 1,024 positions lasts 15.4 ms: arithmetic fills "
    "it, reading ends after 4.48 ms. Then seven decode passes of 4.48 ms each: reading fills every one, and arithmetic is a "
    "hairline at its beginning. Triangles mark where a token comes out: at the end of every pass.",
)

# %% [markdown]
# Every triangle is a token. In the prefill the arithmetic units are busy from beginning to end. In decode they have
# nothing to do for 99.7 % of the time. (Their 0.015 ms would be thinner than a line can be drawn: only its edge is
# seen.)
#
# ## The equations
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
# They live in [`nanolm/budget/roofline.py`](../../nanolm/budget/roofline.py), and this week you write that file. It has
# no tensor in it, only numbers. Its functions take a chip as `hardware`, with the two fields of the legend.

# %%
from nanolm.budget import matmul_flops  # exercise: matmul_flops
# points: 1
# minutes: 4
# difficulty: 1
# tested: A prefill of 2,000 tokens, one position of two models, no position at all, random passes and larger ones
#   in proportion, and that bad input is refused by name.
# why: Half of every estimate in this course begins with this product.
# hint: A multiplication is not all that happens to a parameter. // A matrix of n numbers times a vector: how often is
#   each number multiplied, and how often is a product added? Then the same for every position.

# %%
from nanolm.budget import arithmetic_intensity  # exercise: arithmetic_intensity
# points: 2
# minutes: 8
# difficulty: 1
# tested: 1 for decode and 1,000 for a prefill of 1,000 tokens; a batch of 32 with a gigabyte of cache each;
#   shorter weights; random passes and larger ones in proportion; bad input.
# why: It is the one number that says what a pass waits for, on any chip.
# hint: Weights are read once, however many positions are multiplied with them, and they are not the only bytes. //
#   Operations over bytes: the operations of all positions, over the weights and the caches together.

# %%
from nanolm.budget import ridge_point  # exercise: ridge_point
# points: 1
# minutes: 3
# difficulty: 1
# tested: The two chips of the example, 298.5 and 333.3 operations a byte. Then random chips.
# why: It is the same for all models, so you compute it once for a chip and keep it in mind.
# hint: It is easy to turn upside down. // Look at the units: operations a second over bytes a second leaves operations
#   a byte.

# %%
from nanolm.budget import bottleneck  # exercise: bottleneck
# points: 1
# minutes: 4
# difficulty: 1
# tested: Decode, prefill and a batch of 32; the ridge point itself; 50 random chips and passes against the two times;
#   a pass that bounds one chip so and another otherwise; no operation at all; bad input.
# why: Memory-bound or compute-bound decides which optimisations can help at all and which are wasted work.
# hint: The ridge point itself has to belong to one side; the docstring says to which. // Compare the intensity with the
#   ridge point and return one of two words.

# %%
print(f"ridge point: {ridge_point(example):.1f} operations a byte, with the data sheet's peak {ridge_point(H100):.1f}")
for positions in (1, 32, 298, 299, 1000):
    intensity = arithmetic_intensity(positions, 8e9, 16e9)
    print(f"{positions:5,} positions: {intensity:7,.1f} operations a byte, bound by {bottleneck(intensity, example)}")

# %% [markdown]
# With 2 bytes a weight the intensity of a pass is just its number of positions. So you can read the ridge point as a
# number of positions: up to the 298th, one more is free.
#
# It does not matter whose positions they are. A thousand of one prompt, 298 users who each wait for one token, 59 users
# with five positions each (week 4 has a use for that): the weights are read once for all of them.
#
# How many sequences can be decoded together before arithmetic takes longer than reading the weights? That is the
# **critical batch** of a chip. A weight of b bytes costs b/W to read and 2B/P to multiply, so it is b/2 · P/W: 298 with
# 2 bytes, 149 with 1, 74 with half a byte.
#
# ## The time of a pass
#
# A decode pass reads the weights, and it reads the cache. Between the products with weights there is attention's turn,
# which reads the cache and does little arithmetic with it; nothing hides that reading. So it is added:
#
# $$
# t_{\text{decode}} = \frac{\text{bytes of cache}}{W} + \max\!\left( \frac{\text{bytes of weights}}{W},\; \frac{2\, n}{P} \right)
# $$

# %%
from nanolm.budget import decode_seconds_per_token  # exercise: decode_seconds_per_token
# points: 3
# minutes: 10
# difficulty: 2
# tested: 4.78 ms and 5.33 ms on the two chips, other models, shorter weights, a cache that more than doubles the
#   time, a chip whose arithmetic is the slower part, bad input.
# why: One over it is the most tokens per second that a single user can ever see. Vendors' claims are checked with it.
# hint: Two of the three times overlap, and the third does not. On common chips the second term of the maximum never
#   wins; leave it in, a test has a chip where it does. // The formula above, term by term, and no batch.

# %%
from nanolm.budget import prefill_seconds  # exercise: prefill_seconds
# points: 3
# minutes: 8
# difficulty: 2
# tested: Prompts of 1,000, 2,000 and 1,024 tokens that are arithmetic, one of 100 tokens that is reading, the ratio of
#   300, shorter weights, that a longer prompt is never faster, on 50 random chips, and bad input.
# why: It is the part of the waiting for the first token that you can compute.
# hint: A short prompt waits for the weights like any pass, and no prompt reads them twice. // The same maximum with T
#   positions, and no cache: there is nothing before a prompt.

# %%
for n in (1, 16, 100, 298, 1024, 4096):
    whole = prefill_seconds(n, 7.5e9, 15e9, example)
    print(f"{n:5,} positions: {whole * 1e3:6.2f} ms, {whole / n * 1e3:6.3f} ms for each")

# %%
across = sorted([*(2**power for power in range(13)), 298])  # and where it bends
pass_ms = [1e3 * prefill_seconds(n, 7.5e9, 15e9, example) for n in across]
alone_ms = 1e3 * decode_seconds_per_token(7.5e9, 15e9, example)
fig, ax = figures.figure(height=3.8)
ax.loglog(across, [n * 2 * 7.5e9 / 1e15 * 1e3 for n in across], "--", color=figures.ORANGE, label="arithmetic")
ax.axhline(alone_ms, linestyle="--", color=figures.BLUE, label="reading")
ax.loglog(across, pass_ms, color="black", label="the pass")
ax.axvline(ridge_point(example), color=figures.GREY, linewidth=0.8, linestyle=":")
ax.text(ridge_point(example) * 1.1, 0.05, f"{ridge_point(example):.1f}", fontsize=9.5)
ax.set(xlabel="positions in the pass", ylabel="ms", ylim=(0.01, 100))
ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
ax.set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
ax.legend()
figures.show(
    fig,
    "Time of a pass against its positions, both logarithmic. It is flat at 4.48 ms, the reading, up to 298.5 positions, and "
    "from there on rises in proportion, along the line of the arithmetic.",
)

# %% [markdown]
# The two halves of this curve are two different machines. On the left a faster memory or fewer bytes help, and more
# arithmetic units do nothing. On the right it is the other way round. Decode of a single user stands at the far left, a
# long prompt at the right.
#
# **What it costs.** Say a provider asks for 2 dollars a million prompt tokens and 10 dollars a million written ones.
# 1,000 tokens in and 500 out cost 0.002 + 0.005 = 0.007 dollars. A written token costs 5 times as much, but alone it
# takes 300 times as long. How can that be? A provider decodes many users at once. Sixty of them share one reading of
# the weights, 4.48 ms / 60 = 0.075 ms each, and that is 5 times the 0.015 ms. (Their caches add to it.
# [Week 10](../week10_price_of_a_token/week10_price_of_a_token.ipynb) does the whole sum.)

# %% [markdown]
# ## What attention adds
#
# So far only products with weights were counted. In a prefill every position also attends to those before it, and to
# none after it: that is the **causal mask**. Position t sees t positions, itself included. For each of them a layer
# computes a **score** in each of N heads: how much to look there, a product of H numbers with H numbers. And it adds a
# value to a sum, again H numbers in N heads. That is 2·N·H operations and 2·N·H more.
#
# $$
# \text{share} = \frac{4\, L\, N\, H \cdot \overline{t}}{2\, n}
# \qquad
# \overline{t} = \frac{T + 1}{2}
# $$
#
# **By hand**, for 1,024 tokens: the mean of 1 to 1,024 is 512.5. With 32 layers and a width N·H of 32 · 128 = 4,096 it
# is 4 · 32 · 4,096 · 512.5 = 2.69·10⁸ operations a position, against 2 · 7.5·10⁹ with the weights. That is **1.8 %**:
# for a prompt of this length it was right to leave it out.

# %%
from nanolm.budget import attention_share_of_prefill  # exercise: attention_share_of_prefill
# points: 4
# minutes: 15
# difficulty: 3
# tested: The 1.8 % of the example, a small model by hand, a prompt of a single token, random models and
#   larger ones in proportion, and bad input.
# why: It says up to which length "2 n T" is the truth, and from where on prompts grow expensive with their square.
# hint: The causal mask halves the work, but not quite. And heads that share keys and values save cache, not arithmetic.
#   // The mean number of positions seen, itself included; times the operations for one of them, over all layers and all
#   N heads; over the operations with the weights.

# %%
for n in (1024, 8192, 57_220, 131_072):
    share = attention_share_of_prefill(n, 7.5e9, n_layers=32, n_heads=32, head_dim=128)
    print(f"{n:7,} tokens: attention adds {share:6.1%} to the products with the weights")

# %% [markdown]
# The share grows in proportion to the length. At about 57,000 tokens attention is as much work as all weights together,
# and the prefill of a book costs mostly attention. (In decode it appears as the reading of the cache instead.)
#
# ### Your own model
#
# All that these functions ask of a model stands in its `config.json`, which every model on Hugging Face has:
# `num_hidden_layers` is L, `num_attention_heads` N, `num_key_value_heads` K, `hidden_size` the width, `head_dim` H (or
# the width over N), `intermediate_size` the width of the other half of a layer, `vocab_size` the vocabulary.
# `ModelShape.from_config` reads the file and counts parameters: `n_params` all of them, `n_multiplied_params` the n of
# this week. Put in the path of a model that you use.

# %%
from nanolm.budget import LLAMA_3_8B, ModelShape
from nanolm.checkpoint import SHIPPED

my_config = SHIPPED / "target"  # change it: a config.json, or the folder that holds one
for of in (LLAMA_3_8B, ModelShape.from_config(my_config)):
    n, size = of.n_multiplied_params, 2 * of.n_multiplied_params
    token, prefill = decode_seconds_per_token(n, size, H100), prefill_seconds(1024, n, size, H100)
    share = attention_share_of_prefill(1024, n, of.n_layers, of.n_heads, of.head_dim)
    print(f"{of.name}: {of.n_params:,} parameters, {n:,} of them multiplied")
    print(f"  in 16 bits on an H100: a token takes at least {token * 1e3:.4g} ms, ", end="")
    print(f"a prompt of 1,024 {prefill * (1 + share) * 1e3:.4g} ms, in which attention adds {share:.1%}")

# %% [markdown]
# ## Your machine
#
# Now to a chip that you can touch. W and P of this computer are measured, in the way a decoder uses them: W by
# multiplying matrices with one vector, P by multiplying them with many.
#
# ### Prediction 2
#
# One core of your processor: how many GB can it read in a second from main memory, too many bytes for anything nearer
# to hold? How many operations does it do in a second, in float32? (1 GFLOP/s is 10⁹.)

# %%
my_gigabytes_per_second, my_gigaflops = 1.0, 1.0  # change both

# %% [markdown]
# The next cell takes five to twenty seconds, the more, the busier the machine is.

# %%
from nanolm.machine import calibrate

print("measuring …")
machine = calibrate(refresh=True)
if not machine.is_steady:
    machine = calibrate(refresh=True)  # something else ran meanwhile: once more
here = machine.hardware()  # measure_hardware() is both in one call
print(f"{machine.processor}, {machine.threads} thread, {machine.date}")
print(f"the slowest round took {machine.spread:.2f} times as long as the fastest; ", end="")
print("the machine was quiet" if machine.is_steady else "too far apart. Close other programs, run this again")
print(f"reads {here.bandwidth_bytes_per_second / 1e9:.1f} GB/s (you said {my_gigabytes_per_second}), ", end="")
print(f"multiplies {here.peak_flops_per_second / 1e9:.0f} GFLOP/s (you said {my_gigaflops})")
print(f"ridge point {ridge_point(here):.1f} operations a byte: in float32, 4 bytes a weight, ", end="")
print(f"a pass is memory-bound up to about {ridge_point(here) * 4 / 2:.0f} positions")

numbers, copies = torch.ones(2**24), torch.empty(2**24)  # 67 MB each
copying = side_by_side({"copy": lambda: copies.copy_(numbers)}, repeats=7)["copy"]
print(f"a plain copy moves {2 * numbers.nbytes / copying / 1e9:.1f} GB/s, reading and writing counted")
near, far = (machine.bandwidth_at(size) for size in (machine.working_sets[0], machine.working_sets[-1]))
print(
    f"rows of 1,024 numbers: {machine.working_sets[0] / 1e6:.0f} MB of weights are read at {near / 1e9:.1f} GB/s, ",
    end="",
)
print(
    f"{machine.working_sets[-1] / 1e6:.0f} MB at {far / 1e9:.1f} GB/s, {near / far:.1f} times as fast in the small set"
)

# %% [markdown]
# Does "the bandwidth" exist? A processor keeps what it used last in small memories of its own (L1, L2, L3). Weights
# that fit into one of them are read from there in every pass after the first, which is why a small set may be read
# faster than a large one. The length of the rows matters, too: a short row is over before the processor has got going.

# %%
fig, ax = figures.figure(height=3.8)
sizes = [size / 1e6 for size in machine.working_sets]
of_rows = {row: [machine.bandwidth_at(size, row) / 1e9 for size in machine.working_sets] for row in machine.row_lengths}
for (row, rates), colour in zip(of_rows.items(), figures.LINES, strict=False):
    ax.plot(sizes, rates, "o-", color=colour, label=f"rows of {row:,} numbers")
if "int8" in machine.packed_readings:
    longest = max(reading.row_length for reading in machine.packed_readings["int8"])
    of_codes = [reading for reading in machine.packed_readings["int8"] if reading.row_length == longest]
    places = [reading.working_set_bytes / 1e6 for reading in of_codes]
    rates = [reading.bytes_per_second / 1e9 for reading in of_codes]
    ax.plot(places, rates, "s--", color=figures.GREY, label=f"8-bit codes, rows of {longest:,}")
ax.set(xscale="log", xlabel="all matrices together, MB", ylabel="read, GB/s", ylim=(0, None))
ax.set_xticks(sizes, [f"{size:.0f}" for size in sizes])
ax.minorticks_off()
ax.legend(fontsize=9)
each = "; ".join(f"rows of {row:,}: {', '.join(f'{rate:.1f}' for rate in rates)}" for row, rates in of_rows.items())
figures.show(
    fig,
    f"Read rate in GB/s against the size of all matrices, {', '.join(f'{size:.0f}' for size in sizes)} MB, a line for each "
    f"row length. {each}. 8-bit codes are dashed.",
)

# %% [markdown]
# A GPU shows the same two effects, more mildly. What lies on the chip is tens of MB and a model has tens of GB, so for
# decode one number is nearly enough. The shipped model has 10 MB, so *your* processor may well keep it whole.
#
# ## One picture for all chips
#
# It is called the **roofline**. Across: intensity, operations a byte. Upwards: operations a second. A pass of intensity
# I can reach at most I · W, since that is how many operations the arriving bytes are good for, and at most P. Together
# these two limits look like a roof: a slope, then a flat part, with the ridge point at the bend.
#
# How close a pass comes to its roof has two names:
#
# $$
# \text{MBU} = \frac{\text{bytes read} / t}{W}
# \qquad
# \text{MFU} = \frac{2\, n\, T / t}{P}
# $$
#
# **MBU**, model bandwidth utilization, is the share of the bandwidth that the model's own bytes make use of; **MFU**,
# model FLOPs utilization, the share of the peak. Under the slope MBU is the share of the roof, under the flat part MFU
# is.
#
# **By hand.** The 8B of this lesson writes 150 tokens a second for one user of the chip with P = 10¹⁵. It reads 150 ·
# 15 GB = 2.25 TB/s, an MBU of 67 %. It does 150 · 1.5·10¹⁰ = 2.25·10¹² operations a second, an MFU of 0.2 %, which says
# nothing against the program. A prompt of 4,000 tokens takes it 100 ms: 6·10¹³ operations in 0.1 s, an MFU of 60 %.
#
# Now four passes are measured: one decode pass and a prefill of 256 positions, of the shipped model and of the large
# one, which has some 27 times as many bytes. It takes about 10 seconds.


# %%
@torch.inference_mode()
def run(model, tokens):
    return model(tokens)


passes = {}
for name, model in models.items():
    passes[name, 1] = decode_step_of(model)
    passes[name, 256] = lambda model=model: run(model, torch.zeros(1, 256, dtype=torch.long))
seconds = {key: [] for key in passes}
for call in passes.values():
    call()  # to warm up
for _ in rounds(5):
    for key, call in passes.items():
        start = time.perf_counter()
        call()
        seconds[key].append(time.perf_counter() - start)

roof_of = {"shipped": machine.hardware(bytes_of["shipped"]), "large": here}  # W for a set as large as the model
points, missed = {}, {}
for (name, positions), times in seconds.items():
    intensity, chip = arithmetic_intensity(positions, n_of[name], bytes_of[name]), roof_of[name]
    flops = matmul_flops(n_of[name], positions)
    limit = min(intensity * chip.bandwidth_bytes_per_second, chip.peak_flops_per_second)
    low, middle, high = (flops / t / limit for t in (max(times), statistics.median(times), min(times)))
    share = "MBU" if bottleneck(intensity, chip) == "memory" else "MFU"
    points[name, positions], missed[f"{name}, {positions} positions"] = (intensity, flops, middle), 1 / middle
    print(f"{name:7}, {positions:3} positions: intensity {intensity:5}, {middle * limit / 1e9:5.1f} GFLOP/s, ", end="")
    print(f"{share} {middle:.0%} ({low:.0%} to {high:.0%} in {len(times)} rounds)")
print(f"furthest from its roof: {largest(missed)}")

# %%
fig, ax = figures.figure(6.4, 4.6)


def draw_roof(ax, chip, **style):
    W, P = chip.bandwidth_bytes_per_second, chip.peak_flops_per_second
    places = sorted([*(2**power for power in range(-3, 13)), ridge_point(chip)])
    ax.loglog(places, [min(x * W, P) for x in places], **style)


chips = {"this core": here, "A100": A100, "H100": H100, "H200": H200}
for (label, chip), colour in zip(chips.items(), figures.LINES, strict=False):
    draw_roof(ax, chip, color=colour, label=f"{label}, ridge {ridge_point(chip):.3g}")
small = roof_of["shipped"]
draw_roof(ax, small, linestyle="--", color=figures.LINES[0], label=f"this core, 10 MB, ridge {ridge_point(small):.3g}")
for name, marker in (("shipped", "o"), ("large", "s")):
    of_name = {key: point for key, point in points.items() if key[0] == name}
    rates = [flops / statistics.median(seconds[key]) for key, (_, flops, _) in of_name.items()]
    label = f"{name} model, measured"
    ax.plot([intensity for intensity, _, _ in of_name.values()], rates, marker, color="black", label=label)
ax.text(0.5, here.peak_flops_per_second * 4, "decode", ha="center", fontsize=9.5)
ax.text(128, here.peak_flops_per_second * 4, "prefill of 256", ha="center", fontsize=9.5)
ax.set(xlabel="intensity, operations a byte", ylabel="operations a second", ylim=(1e8, 3e15))
fig.legend(fontsize=9, loc="outside lower left", ncols=2)
times_more = A100.peak_flops_per_second / here.peak_flops_per_second
stand = ", ".join(f"{name} {positions} at {middle:.0%}" for (name, positions), (_, _, middle) in points.items())
figures.show(
    fig,
    "Rooflines on logarithmic axes: each chip rises with slope one and is flat from its ridge point on. The A100 bends at "
    f"{ridge_point(A100):.0f} operations a byte, the H200 at {ridge_point(H200):.0f}, the H100 at {ridge_point(H100):.0f}, "
    f"this core at {ridge_point(here):.0f}; the flat part of the A100 lies "
    f"{times_more:,.0f} times above that of this core. Decode stands at 0.5 operations a byte under its slope, the prefill at "
    f"128. Shares of the roof, by model and positions: {stand}.",
)

# %% [markdown]
# Weights in float32 have 4 bytes, so a decode pass does 2 operations for 4 bytes: an intensity of 0.5, and one position
# more adds 0.5. Your core's critical batch is therefore its ridge point divided by 0.5, the number that was printed
# where the machine was measured; with weights of 2 bytes an H100 has 295. A CPU has little arithmetic for its memory,
# so here a batch stops being free much earlier.
#
# The last line above the picture says which pass is furthest from its roof. If it is the decode of the shipped model,
# as it is on most machines: what is it waiting for, if neither for bytes nor for arithmetic?

# %% [markdown]
# ## Predict, then measure
#
# For a model on the roof, time is bytes over bandwidth. For a small model there is something else. A step of the
# shipped model is a few hundred operations: products, additions, rotations, sums. PyTorch takes microseconds to start
# each of them, even if there is next to nothing to do. A GPU pays the same toll for every kernel that it launches. So a
# fuller prediction is
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
# Both models, at batch 1, with weights in float32 and with weights in 8 bits, which are a quarter of the bytes. How
# many tokens a second will each model write in float32? How many times as fast will it be with 8 bits? You have W, the
# bytes and your own functions. Is a quarter of the bytes a quarter of the time?

# %%
my_rate_shipped, my_rate_large = 0, 0  # tokens per second in float32; change both
my_gain_shipped, my_gain_large = 1.0, 1.0  # times as fast with 8 bits; change both

# %%
from nanolm.machine import count_operations, predicted_decode_seconds

variants = {
    f"{name}, {bits} bits": model if bits == 32 else quantize_model(copy.deepcopy(model), 8, None)
    for name, model in models.items()
    for bits in (32, 8)
}
predicted = {name: predicted_decode_seconds(machine, model) for name, model in variants.items()}
for name, model in variants.items():
    size, n_operations = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    roof = decode_seconds_per_token(n_of[name.split(",")[0]], size, machine.hardware(size))
    print(f"{name:16}: {size / 1e6:5.1f} MB, {n_operations} operations. ", end="")
    print(f"Roofline: at most {1 / roof:5,.0f} tokens/s; with the operations {1 / predicted[name]:5,.0f}")

# %% [markdown]
# And now the real thing: `generate`, with the clock read whenever a token comes out. All four take turns, so that
# whatever else your machine is doing hits all of them. It takes about 10 seconds.

# %%
prompt_tokens = tokenizer.encode("ROMEO\n")
measured = {name: [] for name in variants}  # the usual seconds between two tokens, in each round
for model in variants.values():
    write(model, [prompt_tokens], 4)  # to warm up
for _ in rounds(5):
    for name, model in variants.items():
        clock = write(model, [prompt_tokens], 33 if "shipped" in name else 13)
        measured[name].append(statistics.median(gaps(clock)))

for name, times in measured.items():
    print(f"{name:16}: {against_prediction(times, predicted[name])}; {1 / statistics.median(times):,.0f} tokens/s")
for name, my_rate, my_gain in (("shipped", my_rate_shipped, my_gain_shipped), ("large", my_rate_large, my_gain_large)):
    gain, rate = (
        ratio(measured, f"{name}, 32 bits", f"{name}, 8 bits"),
        1 / statistics.median(measured[f"{name}, 32 bits"]),
    )
    print(f"{name}: you said {my_rate} tokens/s, it is {rate:,.0f}; with 8 bits {my_gain} times as fast, it is {gain}")

# %% [markdown]
# ### Explain the gap
#
# Three parts of a token's time are known now: reading the weights, starting the operations, and choosing the token,
# which we measure apart. What is left over is what nobody has predicted: the Python around the pass, the cache, the
# scatter of your machine.

# %%
from nanolm.machine import reading_seconds

scores = torch.randn(1, target.config.vocab_size)
choosing = side_by_side({"choose": lambda: sample_next(scores, unending, Rng())}, repeats=200)["choose"]
parts = {}
for name, model in variants.items():
    whole, reading = (
        statistics.median(measured[name]),
        reading_seconds(machine.readings, machine.packed_readings, model),
    )
    known = {"reading": reading, "operations": predicted[name] - reading, "choosing": choosing}
    parts[name] = {part: seconds / whole for part, seconds in known.items()}
    rest = 1 - sum(parts[name].values())
    shares = ", ".join(f"{part} {share:.1%}" for part, share in parts[name].items())
    print(f"{name:16}, {whole * 1e3:5.2f} ms: {shares}; ", end="")
    print(f"{rest:.0%} unexplained" if rest >= 0 else f"predicted {-rest:.0%} more than the median", end="")
    print(f". The largest known part: {largest(parts[name])}")

# %%
fig, ax = figures.figure(6.4, 3.4)
left = [0.0] * len(parts)
for part, colour in zip(("reading", "operations", "choosing"), figures.LINES, strict=False):
    widths = [shares[part] for shares in parts.values()]
    ax.barh(list(parts), widths, left=left, color=colour, label=part, height=0.62)
    left = [done + width for done, width in zip(left, widths, strict=True)]
ax.axvline(1, color="black", linestyle="--", linewidth=1, label="measured")
ax.set(xlabel="share of the measured time of a token", xlim=(0, max(1.15, *left)))
ax.invert_yaxis()
ax.grid(visible=False, axis="y")
fig.legend(ncols=4, loc="outside lower left", fontsize=9)
bars = "; ".join(
    f"{name}: {', '.join(f'{part} {share:.0%}' for part, share in of.items())}" for name, of in parts.items()
)
figures.show(
    fig,
    "A bar for each model and number of bits, made of reading, operations and choosing, as shares of the measured time, which "
    f"is a dashed line at 1. {bars}. What is missing to the dashed line is unexplained; a bar beyond it was predicted too long.",
)

# %% [markdown]
# Read the lines above with two things in mind.
#
# - Where **operations** are the largest part, as in a small model, eight bits cut what was the small part, and the gain
#   stays far from four. To speed such a model up you would join operations into fewer and larger ones.
# - Where **reading** is the largest part, fewer bits count, but codes have to be turned into numbers on the way, and
#   most cores do not get through as many bytes of codes in a second: compare the dashed line in the plot of read rates.
#   So the gain may be less than four again, for another reason. On a GPU the conversion hides behind the reading.
#
# If all four bars end far from the dashed line, on the same side, the machine was not equally busy in the two
# measurements. Close what else is running and run again from `calibrate` on.
#
# This is what a roofline is good for: it says how fast it *could* be, and the gap asks a question. The bounds of this
# course hold at full speed of the chip. In practice a good engine's step takes 1.2 to 2 times as long. The *ratios*
# hold better: where reading is what takes the time, twice the bytes take about twice the time on a slow day, too.

# %% [markdown]
# ## What a user waits for
#
# A user sees two things. How long until something appears: **TTFT**, time to first token. And how fast it goes on from
# there: **TPOT**, time per output token, the usual gap between one token and the next. (A single such gap is an
# **inter-token latency**, ITL.)
#
# - TTFT = waiting in the queue + prefill + network. A model that reasons before it answers, and hides its reasoning,
#   adds all of those decode steps.
# - TPOT = one decode step of the batch that the request is in.
#
# **By hand.** TTFT 200 ms, TPOT 25 ms, an answer of 300 tokens. The first token is there after 0.2 s. 299 others follow
# at 25 ms each: 0.2 + 7.475 = 7.675 s. While it runs, the user sees 1 / 0.025 = 40 tokens a second.

# %%
from nanolm.budget import end_to_end_seconds  # exercise: end_to_end_seconds
# points: 2
# minutes: 5
# difficulty: 1
# tested: 7.675 s for the example, an answer of one token, times of zero, random requests, and bad input.
# why: Goals for a service are set in TTFT and TPOT, and users complain about the sum.
# hint: The first token must not be paid for twice. // TTFT once, TPOT for each of the others. How many others are
#   there?

# %%
from nanolm.budget import tokens_per_second  # exercise: tokens_per_second
# points: 1
# minutes: 4
# difficulty: 1
# tested: A user at 25 ms, a batch of 32, a ceiling that a growing batch approaches, random batches, and bad input.
# why: With batch_size 1 it is what one user sees, with B what the machine earns its money with.
# hint: A step writes more than one token. // One for each sequence in the batch, over the seconds of the step.

# %% [markdown]
# ### Prediction 4
#
# The shipped model serves 1, 8 and 32 requests at once, prompts of 64 tokens, 24 tokens each. In one batch, all prompts
# are run in one pass and all decode steps are shared. At batch 32, how many times slower is each user's text than
# alone? How many times more tokens come out of the machine in all? (About 10 seconds.)

# %%
my_slower_each, my_more_in_all = 1.0, 1.0  # change both

# %%
n_prompt, n_new, batches = 64, 24, (1, 8, 32)
prompt = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 8)[:n_prompt]
clocks = {B: [] for B in batches}
for B in batches:
    write(target, [prompt] * B, n_new)  # to warm up
for _ in rounds(4):
    for B in batches:
        clocks[B].append(write(target, [prompt] * B, n_new))

ttfts = {f"batch {B}": [clock[0] for clock in clocks[B]] for B in batches}
tpots = {f"batch {B}": [statistics.median(gaps(clock)) for clock in clocks[B]] for B in batches}
in_cache = machine.hardware(bytes_of["shipped"])
at_best = {B: prefill_seconds(B * n_prompt, n_of["shipped"], bytes_of["shipped"], in_cache) for B in batches}
served = {}
for B in batches:
    ttft, tpot = statistics.median(ttfts[f"batch {B}"]), statistics.median(tpots[f"batch {B}"])
    whole, worst = (
        statistics.median(clock[-1] for clock in clocks[B]),
        max(gap for clock in clocks[B] for gap in gaps(clock)),
    )
    served[B] = tokens_per_second(tpot), tokens_per_second(tpot, B)
    print(
        f"batch {B:2}: TTFT {ttft * 1e3:6.1f} ms (roofline {at_best[B] * 1e3:6.1f}), TPOT {tpot * 1e3:5.2f} ms, ",
        end="",
    )
    print(f"worst gap {worst * 1e3:5.2f}; end to end {whole * 1e3:6.1f} ms ", end="")
    print(f"(your formula {end_to_end_seconds(ttft, tpot, n_new) * 1e3:6.1f}); ", end="")
    print(f"each user {served[B][0]:4.0f} tokens/s, all together {served[B][1]:6,.0f}")
slower, waiting = (ratio(times, "batch 32", "batch 1") for times in (tpots, ttfts))
print(f"you said {my_slower_each} times slower for each and {my_more_in_all} times more in all; ", end="")
print(f"it is {slower} and {served[32][1] / served[1][1]:.1f}")
print(f"TTFT at batch 32 is {waiting} that of batch 1; the roofline said {at_best[32] / at_best[1]:.1f}×")

# %%
from nanolm.budget import decode_step_time

many = [1, 2, 4, 8, 16, 32, 64, 128, 256]
steps = [decode_step_time(B, 7.5e9, 15e9, 134_217_728, H100) for B in many]  # a cache of 1,024 tokens each
each_user = [steps[0] / step for step in steps]
fig, axes = figures.figure(6.4, 3.6, columns=2)
axes[0].plot(many, each_user, color=figures.ORANGE, label="8B on an H100, computed")
axes[0].plot(
    batches, [served[B][0] / served[1][0] for B in batches], "o-", color=figures.BLUE, label="shipped, measured here"
)
axes[1].plot(many, [B * share for B, share in zip(many, each_user, strict=True)], color=figures.ORANGE)
axes[1].plot(batches, [served[B][1] / served[1][1] for B in batches], "o-", color=figures.BLUE)
axes[1].plot(many, many, "--", color=figures.GREY, label="if a batch were free")
for ax, label in zip(axes, ("each user, as a share of alone", "all together, times one alone"), strict=True):
    ax.set(xscale="log", xlabel="sequences in the batch", ylabel=label)
    ax.set_xticks([1, 8, 32, 256], ["1", "8", "32", "256"])
    ax.minorticks_off()
axes[0].set(ylim=(0, 1.3))
axes[1].set(yscale="log")
axes[1].set_yticks([1, 10, 100], ["1", "10", "100"])
axes[1].minorticks_off()
fig.legend(loc="outside lower left", fontsize=9, ncols=2)
mine = ", ".join(f"{served[B][0] / served[1][0]:.2f} and {served[B][1] / served[1][1]:.1f} at {B}" for B in batches)
figures.show(
    fig,
    f"Speed against the batch, relative to a batch of one. Left: what each user gets, on an H100 {each_user[-1]:.2f} of it at "
    f"256 sequences. Right: what all get together, there {256 * each_user[-1]:.0f} times as much, below the dashed line of a "
    f"free batch. The dots of this machine: {mine}.",
)

# %% [markdown]
# What all get together in a second is the **throughput** of the machine. On any chip the two go in opposite directions:
# a sequence more never makes a step shorter, and it always adds a token. A provider moves to the right, a user wants to
# be at the left, and a service goal ("TPOT at most 30 ms") says where to stop.
#
# Look at TTFT as well. All prompts were run in one pass, so everybody waited for everybody's prompt, and where that
# pass is compute-bound it takes 32 times as long for 32 prompts. The last line printed says what it was here. (Products
# with matrices as narrow as these do not reach P, and attention and all the small operations come on top.)
#
# The H100's line bends because of its caches: every sequence brings bytes of its own. Here the arithmetic of one core
# runs out first. Which limit comes first depends on the chip, and you can compute it.

# %% [markdown]
# ## Five levers
#
# Nearly everything that makes inference faster or cheaper cuts one of five things. This table is a map of the course.
#
# | it cuts | how | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|---|
# | **bytes of weights** | 8 or 4 bits ([week 5](../week05_quantization/week05_quantization.ipynb)), a smaller model | little: a long prompt waits for arithmetic | much, in small batches | up, as memory is freed | less | 8 bits nearly free; measure 4 |
# | **bytes of cache** | fewer heads to keep ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)), other kinds of attention ([week 9](../week09_smaller_cache/week09_smaller_cache.ipynb)), 8 bits ([week 5](../week05_quantization/week05_quantization.ipynb)) | less queueing under load | in long contexts and large batches | up: larger batches fit | less | mostly trained in; 8 bits nearly free |
# | **passes in sequence** | guessing tokens ahead and checking them in one pass ([week 4](../week04_speculative/week04_speculative.ipynb)); shorter answers; less hidden reasoning | hidden reasoning: much; the others nothing | guessing: much, while arithmetic is idle | guessing: nothing in a large batch; fewer tokens: up | what guesses, and its cache | guessing is exact; of fewer tokens measure it |
# | **arithmetic** | a common beginning computed once ([week 7](../week07_prompt_caching/week07_prompt_caching.ipynb)), only a part of the weights for each token ([week 8](../week08_mixture_of_experts/week08_mixture_of_experts.ipynb)), 8-bit arithmetic ([week 5](../week05_quantization/week05_quantization.ipynb)) | much | little; a part of the weights: much in small batches, which then read less | up where prompts dominate | kept beginnings take some; all weights have to be held | a common beginning is exact; measure the others |
# | **waiting** | requests that join a running batch, long prompts in pieces (week 6), sending a request to where its beginning is kept ([week 7](../week07_prompt_caching/week07_prompt_caching.ipynb)) | much, under load | a little worse for each | up, many times | more caches at once | the same |
#
# (Attention in tiles, week 9, fits no row: it does the same arithmetic and spares its scores the way to HBM and back.)
#
# A load with long prompts and short answers (search, classification, extraction) lives in prefill and wants the fourth
# row. A load with short prompts and long answers (chat, code, reasoning) lives in decode and wants the first three. On
# several GPUs the same division shows: in decode every matrix is split over all of them, so that each reads a part, and
# large services give prefill machines of its own.

# %% [markdown]
# ## The same with the library
#
# transformers has the same two phases inside `generate`. A *streamer* is called with the prompt and then with every
# token, so a clock in it shows TTFT and TPOT. The shipped checkpoint is an ordinary Llama folder, so transformers opens
# it. (About 20 seconds, most of them to import it.)

# %%
import importlib.util


class Clock:
    """A streamer that only looks at the time."""

    def __init__(self):
        self.seconds, self.start = [], time.perf_counter()

    def put(self, tokens):
        self.seconds.append(time.perf_counter() - self.start)

    def end(self):
        pass


def write_theirs(theirs, prompt, n):
    """The text of transformers, and the seconds at which its tokens came."""
    watch, ids = Clock(), torch.tensor([prompt])
    options = {"max_new_tokens": n, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    text = theirs.generate(ids, attention_mask=torch.ones_like(ids), streamer=watch, **options)
    return text[0, len(prompt) :].tolist(), watch.seconds[1:]  # the first call only hands over the prompt


if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)
    long_prompt = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 8)[:64]
    text, _ = write_theirs(theirs, long_prompt, 24)  # to warm up, too
    print("transformers writes our text:", text == target.generate(long_prompt, 24, unending))
    first, later = {"transformers": [], "nanolm": []}, {"transformers": [], "nanolm": []}
    for _ in rounds(5):
        clocks_of = {
            "transformers": write_theirs(theirs, long_prompt, 24)[1],
            "nanolm": write(target, [long_prompt], 24),
        }
        for name, clock in clocks_of.items():
            first[name].append(clock[0])
            later[name].append(statistics.median(gaps(clock)))
    for name in first:
        print(f"{name:12}: TTFT {statistics.median(first[name]) * 1e3:5.1f} ms, ", end="")
        print(f"TPOT {statistics.median(later[name]) * 1e3:5.2f} ms")
    print(f"TTFT: {which_is_faster(first, 'nanolm', 'transformers')}")
    print(f"TPOT: {which_is_faster(later, 'nanolm', 'transformers')}")
else:
    print("transformers is not installed here; with it, this cell takes its TTFT and TPOT")

# %% [markdown]
# Both read the same weights with the same products. What differs is the number of small operations and the Python
# between them, which counts for most of the time in a model of this size. With an 8B on a GPU it would count for
# little.
#
# A vLLM server is measured from outside (not run here; options change between versions, `--help` lists them):
#
# ```
# vllm serve MODEL
# vllm bench serve --model MODEL --dataset-name random --random-input-len 1024 --random-output-len 300 --max-concurrency 8
# ```
#
# It reports mean, median and 99th percentile of TTFT, of TPOT and of ITL. There TPOT is the mean gap of a request, and
# ITL takes every gap by itself. Raise `--max-concurrency` and watch output tokens per second rise and TPOT with it.
#
# ## The same on a real model
#
# SmolLM2 has 135 million parameters and writes English. One core, float32: predict its decode and its prefill with your
# own functions and this machine's W and P, then measure. (About 20 seconds, and 0.5 GB of memory; one line where the
# model is not installed.)

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, words = real
    of_smol = weights_read(smol)
    n, size = sum(weight.numel() for weight in of_smol), sum(weight.nbytes for weight in of_smol)
    chip = machine.hardware(size)
    question = words.encode("The capital of France is Paris, and the capital of Italy is Rome. " * 10)[:128]
    guesses = {
        "one token after another": decode_seconds_per_token(n, size, chip),
        f"a prompt of {len(question)}": prefill_seconds(len(question), n, size, chip),
    }
    smol_times = {name: [] for name in guesses}
    for _ in rounds(3):
        clock = write(smol, [question], 9)
        smol_times["one token after another"].append(statistics.median(gaps(clock)))
        smol_times[f"a prompt of {len(question)}"].append(clock[0])
    print(
        f"{n / 1e6:.0f}·10⁶ parameters multiplied, {size / 1e6:.0f} MB; critical batch {ridge_point(chip) * 4 / 2:.0f}"
    )
    for name, times in smol_times.items():
        print(f"{name}: {against_prediction(times, guesses[name], unit='s', scale=1)}")
    tpot = statistics.median(smol_times["one token after another"])
    ttft = statistics.median(smol_times[f"a prompt of {len(question)}"])
    print(f"MBU of decode {size / tpot / chip.bandwidth_bytes_per_second:.0%}, ", end="")
    print(f"MFU of prefill {matmul_flops(n, len(question)) / ttft / chip.peak_flops_per_second:.0%}; ", end="")
    print(f"a written token takes {tpot / (ttft / len(question)):.0f} times as long as one of the prompt")

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
# **1.** 13·10⁹ parameters at 2 bytes. At most how many tokens a second for one user on an H100 (3.35 TB/s)? On an H200
# (4.8 TB/s, the same peak)? By how much is a prompt of 1,000 tokens faster there?
#
# <details><summary>Answer</summary>26 GB / 3.35 TB/s = 7.76 ms, 129 tokens/s. On the H200 5.42 ms, 185. The prompt is
# bound by compute (26 ms of arithmetic) and is not faster at all.</details>
#
# **2.** The 8B of this lesson (7.5·10⁹ multiplied, 15 GB) gets weights of one byte; the arithmetic stays as it was,
# 10¹⁵ a second. What happens to TPOT? To the prefill of 1,024 tokens? To the number of positions at which compute takes
# over?
#
# <details><summary>Answer</summary>TPOT halves: 7.5 GB / 3.35 TB/s = 2.24 ms. The prefill stays at 15.4 ms. Reading
# takes half as long while the arithmetic is unchanged, so compute takes over from 150 positions on instead of 299: a
# batch fills the chip sooner.</details>
#
# **3.** TTFT 200 ms, TPOT 25 ms, 300 tokens: 7.675 s. You may halve one of the two. Which?
#
# <details><summary>Answer</summary>TPOT: 0.2 + 299 · 0.0125 = 3.94 s, against 7.575 s. For an answer of 300 tokens TTFT
# is 2.6 % of the whole. With 8 tokens it would be more than half, and TTFT the one to halve. Users also forgive a slow
# stream that has begun more easily than an empty screen, so ask what the goal is.</details>
#
# **4.** The 8B (all of its 8·10⁹ parameters, 16 GB) answers prompts of 4,000 tokens with 200 tokens, one user at a
# time, W = 3.35 TB/s, P = 10¹⁵. Which phase takes the time?
#
# <details><summary>Answer</summary>Prefill 2 · 8·10⁹ · 4,000 / 10¹⁵ = 64 ms (attention adds 7 %). Decode 199 · 4.78 =
# 950 ms, 15 times as long for a twentieth of the tokens. The chip's arithmetic is idle for nearly all of it: batch
# other users into it.</details>
#
# **5.** At 2 dollars a million input tokens and 10 dollars a million output tokens: what does that request cost, and
# which part of it is the prompt?
#
# <details><summary>Answer</summary>4,000 · 2·10⁻⁶ + 200 · 10·10⁻⁶ = 0.008 + 0.002 = 0.01 dollars. The prompt is 80 % of
# the price and 6 % of the time at batch 1. Prices follow a machine with a full batch.</details>
#
# **6.** A colleague shows 400 tokens a second for a single user of the 8B in 16 bits on an H100. What do you ask?
#
# <details><summary>Answer</summary>Reading 15 GB takes 4.48 ms, so 223 passes a second is the end. Do the weights have
# fewer bits after all? Do several GPUs share the reading? Do several tokens come out of a pass (week 4)? Is it the sum
# over users?</details>
#
# **7.** The 8B (15 GB, 7.5·10⁹ multiplied) prefills 2,048 tokens in 50 ms and writes 180 tokens a second for one user;
# W = 3.35 TB/s, P = 10¹⁵. MFU of the prefill, MBU of decode? Which of the two would you work on?
#
# <details><summary>Answer</summary>2 · 7.5·10⁹ · 2,048 = 3.07·10¹³ operations in 0.05 s are 6.1·10¹⁴ a second, an MFU
# of 61 %. 180 · 15 GB = 2.7 TB/s, an MBU of 81 %. There is more to be gained in the prefill, if prompts are what users
# wait for.</details>

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
# <details><summary>Short answers</summary> All its tokens are known; a written token is the input of the pass for the
# next. · 2 operations for half a byte: 4. Still far below the ridge, so the time falls with the bytes. · Those with
# long prompts: prefill halves, decode stays. · It is read between the products with weights, each sequence its own,
# with little arithmetic to hide behind; weights and the arithmetic with them overlap. · Many small operations, each
# with a fixed cost to start; short rows; choosing the token; Python in between. · A larger batch shares one reading of
# the weights among more tokens, and each step takes longer, by the caches and, later, the arithmetic.
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
# 2. **Compute what is possible.** TPOT: 15 GB / 3.35 TB/s = 4.5 ms and the caches, so about 5 ms for one user. TTFT:
#    0.015 ms a prompt token. If you are within a factor of two, the program is fine and the numbers have to change (30
#    seconds).
# 3. **TTFT is bad:** is it the queue (more capacity, or requests that join a running batch), the prompt's length
#    (shorten it; run other people's long prompts in pieces), or the same long beginning every time (compute it once)?
#    (40 seconds)
# 4. **TPOT is bad:** fewer bytes (8-bit weights; an 8-bit cache if contexts are long), more tokens a reading (guess and
#    check, week 4, if the batch is small). Is the batch too large for the goal? (40 seconds)
# 5. **After every step** measure again, and check quality on your own tasks: arithmetic and long recall break before
#    chat does (40 seconds).

# %% [markdown] written="intensity of a batched decode step" points=8 minutes=20 difficulty=3
# **Derive the intensity of a batched decode step.** A model multiplies n parameters of b bytes a position. B sequences
# are decoded together, each with a cache of c bytes. (a) Derive the intensity I(B) of the products with the weights
# over all bytes read, and sketch it. (b) What is its limit for large B, and at which B is half of it reached? (c) Take
# n = 7.5·10⁹, b = 2 and a cache of 131,072 bytes for each of S tokens. Show that at S = 8,192 no batch, however large,
# reaches a ridge point of 298.5. Below which S does some batch reach it? (d) Attention itself was left out. For each
# cached token a layer reads K keys and K values of H numbers, 2 bytes each, and each of the N query heads takes the
# product of its query with a key, and adds a value to a sum. What is *its* intensity over the cache, and how does it
# depend on B and S? What follows?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) Every sequence runs one position, and a position costs 2n operations: 2nB. Weights are read once
# for all, nb bytes. Each sequence reads its own cache: Bc. So I(B) = 2nB / (nb + Bc). It starts in proportion to B,
# with slope 2/b while the caches are small, and bends towards a ceiling.
#
# (b) Divide by B: I = 2n / (nb/B + c), which rises with B towards 2n/c. Half of the limit means nb/B + c = 2c, so B =
# nb/c: the batch whose caches weigh as much as the weights. From there on a larger batch gains less than a factor of
# two, for ever.
#
# (c) c = 8,192 · 131,072 = 1.074·10⁹ bytes, so the limit is 1.5·10¹⁰ / 1.074·10⁹ = 14.0, far below 298.5: such a batch
# stays bound by memory. The limit exceeds the ridge if 1.5·10¹⁰ / (131,072 S) > 298.5, so S < 383.4: up to 383 tokens.
#
# (d) For each cached token and layer there are 2K·H numbers of 2 bytes, 4KH bytes, and 4NH operations (2NH for the
# scores, 2NH for the sum of values). The intensity is N/K: 4 for 32 and 8 heads, 1 with a head of its own for each
# query. B and S cancel, since every sequence brings its own cache: no batch makes attention less bound by memory. What
# helps is fewer bytes: more query heads to a key/value head, or fewer bits.
#
# **Mark scheme (8).** (a) 2nB with a reason, 1; weights once and caches B times, 1. (b) limit, 1; B = nb/c, 1. (c) 14 <
# 298.5, 1; S up to about 383, 1. (d) N/K with operations and bytes, 1; independent of B and S, and a consequence, 1.
# ### END SOLUTION

# %% [markdown] written="two services" points=5 minutes=10 difficulty=2
# **Two services, one chip.** The 8B of this lesson (15 GB, 0.015 ms of arithmetic a position, 4.48 ms of reading)
# serves, one request at a time: *A* sorts documents: 8,000 tokens in, 5 out. *B* chats: 200 in, 800 out. For each: how
# long are prefill and decode, and what is each bound by? Name one lever that helps A and hardly B, one that helps B and
# hardly A, and say why.
#
# ### BEGIN SOLUTION
# **Model answer.** *A*: prefill 8,000 · 0.015 = 120 ms, bound by compute (attention adds another 14 %); the first token
# comes out of it, 4 more take 4 · 4.48 = 18 ms, bound by memory. Prefill is about 87 % of the time. *B*: 200 positions
# need 3 ms of arithmetic, less than the 4.48 ms of reading, so even the prefill is bound by memory, 4.48 ms; decode 799
# · 4.48 = 3.58 s, bound by memory, nearly everything.
#
# For A and not for B: computing a common beginning once (if the instructions are long and shared), arithmetic in 8
# bits, a chip with more operations a second. They cut arithmetic, of which B has next to none. For B and not for A:
# weights of fewer bits with the arithmetic unchanged, several tokens a pass, a faster memory. They cut bytes or passes
# in sequence, which are a small part of A. (Batching helps B greatly and A hardly, since A's prefill fills the
# arithmetic already.)
#
# **Mark scheme (5).** A's times and bounds, 1. B's times, 1. B's prefill is bound by memory, 1. A lever for A with the
# reason, 1. A lever for B with the reason, 1. 5 and 800 decode passes instead of 4 and 799: no deduction.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can say what a pass waits for and prove it by intensity; estimate prefill, decode and a user's waiting on a
# napkin; measure a machine, draw its roofline and explain a gap to it in numbers. Later weeks pull one of the five
# levers each and measure what it gives; the next is [week 2](../week02_kv_cache/week02_kv_cache.ipynb). `course status`
# in a terminal says what is left.
#
# ## Sources
#
# - Williams, Waterman, Patterson (2009), *Roofline: an insightful visual performance model for multicore
#   architectures*, [doi:10.1145/1498765.1498785](https://doi.org/10.1145/1498765.1498785).
# - Pope et al. (2022), *Efficiently scaling transformer inference*,
#   [arXiv:2211.05102](https://arxiv.org/abs/2211.05102), section 2: the cost of prefill and decode.
# - Kaplan et al. (2020), *Scaling laws for neural language models*,
#   [arXiv:2001.08361](https://arxiv.org/abs/2001.08361), section 2.1: 2 operations a parameter and token.
# - Chowdhery et al. (2022), *PaLM*, [arXiv:2204.02311](https://arxiv.org/abs/2204.02311), appendix B: MFU, and why it
#   counts only what the model needs.
# - Shazeer (2019), *Fast transformer decoding: one write-head is all you need*,
#   [arXiv:1911.02150](https://arxiv.org/abs/1911.02150): why decoding waits for memory.
# - Ainslie et al. (2023), *Training generalized multi-query transformer models from multi-head checkpoints*,
#   [arXiv:2305.13245](https://arxiv.org/abs/2305.13245): more operations for each byte of the cache.
# - NVIDIA's data sheets of A100, H100 and H200 (SXM): bandwidth and dense 16-bit rates.
