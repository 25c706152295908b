# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 10 · What a token costs
#
# A chip costs three dollars an hour, whoever uses it. Alone on it you pay 4.26 dollars for a million tokens of an 8B model;
# in a batch with others the same tokens cost 35 cents, and you wait longer for each. This week you compute that trade for any model,
# chip and number of users, find the point where it ends, and check the computation on your own machine. Then the whole
# course comes together: your own engine serves a recorded load, under a goal for waiting and a goal for the price.
#
# **After this week you can**
#
# - write down the time of a decode step and the price of a token on a napkin, for any model and chip;
# - say which batch a goal for the time per token allows, and whether that, the memory or the arithmetic ends it;
# - say why the price falls with the batch, and derive the floor that it never falls below;
# - choose between chips, precisions and batches without being fooled by one number;
# - plan a service, predict it, run it with your own engine, and explain the difference.
#
# **Time:** about three hours and an evening: an hour for the six exercises, an hour for the two written questions (a
# run of the capstone included), an hour and a quarter to read and to measure, and the evening for the capstone.
# **Needs:** that decoding waits for memory ([week 1](../week01_prefill_decode/week01_prefill_decode.ipynb)) and what a
# cache is ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)). No exercise of another week has to be solved; in the
# capstone the reference stands in for whatever you have not written.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function whose body is missing. Write it, run the cell, run the `check(...)` cell
# below it. A check runs the course's own tests on your function alone: everything around it is the reference, so one
# mistake never hides another. Where a test failed, the call of your answer stands in `failing`, and `failing.again()`
# makes it once more. Cells that say `needs` use *your* functions, with the numbers of the exercises; the reference
# stands in for one that is not written yet, and the cell says so. If you prefer an editor, the same functions wait in
# `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, three helpers that are imported for you do the work. Each takes arguments by their names
# and raises an error that names the bad one:
#
# | helper | refuses |
# |---|---|
# | `require_positive(n_params=n_params)` | what is no finite number above 0 |
# | `require_not_negative(kv_bytes=kv_bytes)` | what is no finite number from 0 on |
# | `require_count(1, batch_size=batch_size)` | what is no whole number from 1 on |
#
# Where you see a *Prediction*, write down a number before you run the next cell. A wrong guess that you made is worth more
# than a right one that you read.

# %%
# Set-up for the labs
import math
import random
import statistics
import time

import torch
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import rounds_allowed, take_turns
from course.lab.verdicts import CANNOT_TELL, ROUNDS_TO_TELL, against_prediction
from nanolm import load
from nanolm.budget import A100, H100, H200, LLAMA_3_8B, kv_cache_bytes, max_concurrent_requests
from nanolm.engine import Engine
from nanolm.workload import all_at_once, load_trace, replay_engine, simulate_continuous_batching

torch.set_num_threads(1)  # one core, as in the other weeks
target, tokenizer = load("target")
N_PARAMS, WEIGHTS, CACHE = 7.5e9, 16.06e9, kv_cache_bytes(LLAMA_3_8B, 8192)  # the 8B model of this lesson
for chip in (A100, H100, H200):
    terabytes, dollars = chip.bandwidth_bytes_per_second / 1e12, chip.dollars_per_hour
    print(f"{chip.name}: {chip.memory_bytes / 1e9:.0f} GB, reads {terabytes:.2f} TB/s, ", end="")
    print(f"{chip.peak_flops_per_second / 1e12:.0f} TFLOP/s, {dollars:.2f} dollars an hour")

# %% [markdown]
# The prices are round numbers to compute with. Real ones differ by a factor of three between sellers and between a rented
# hour and a reserved year; put in your own.

# %% [markdown]
# ## The idea in plain words
#
# Think of a bus. A trip costs the same whether one passenger sits in it or forty: driver, fuel, the road. So each new
# passenger makes the trip cheaper for everyone. But every passenger brings a suitcase, and the driver loads each one by
# hand at every stop. With few passengers the road takes the time. With many the suitcases do, and then one more passenger
# saves next to nothing and makes everyone late. When the luggage space is full, nobody else gets in.
#
# The trip is a **decode step**: it reads all weights once, for everybody. The suitcase is a **cache**: it belongs to one
# sequence, and every step reads it from the first token to the last. The luggage space is the memory of the chip. Each step
# writes one token for each passenger.
#
# In the picture: an 8B model on an H100, each user with 8,192 tokens of context.

# %%
WEIGHTS_MS, CACHE_MS = 4.79, 0.32  # reading all weights; reading one user's cache

users = [1, 8, 16, 32, 48, 59]
names = [f"{B}" for B in users]
fig, axes = figures.figure(6.4, 3.2, columns=2)
for ax, share in zip(axes, (False, True), strict=True):
    weights = [WEIGHTS_MS / B if share else WEIGHTS_MS for B in users]
    caches = [CACHE_MS if share else CACHE_MS * B for B in users]
    ax.bar(names, weights, color=figures.BLUE, label="weights: one reading for all")
    ax.bar(names, caches, bottom=weights, color=figures.ORANGE, label="caches: one for each")
    ax.set(xlabel="users in the batch", ylabel="ms a token" if share else "ms a step")
    ax.grid(visible=False, axis="x")
axes[1].legend(fontsize=9)
figures.show(
    fig,
    "Bars of weights and caches for 1 to 59 users. Left, the time of a step: the weights' part stays at 4.79 ms, the caches' "
    "part grows with the users to 18.9 ms. Right, the time a token: the weights' part shrinks from 4.79 ms to 0.08, the "
    "caches' part stays at 0.32 ms for everyone.",
)

# %% [markdown]
# Left is what a user feels: the time between two tokens. Right is what the bill sees: the time of the chip that one
# token takes. Blue is shared, so it shrinks on the right. Orange is not, so it stays. A token costs **4.79 / B + 0.32
# ms**: a fixed cost, divided, and a variable one.
#
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | B | sequences in the batch, users served at once | `batch_size` |
# | n | parameters multiplied for a position | `n_params` |
# | w | bytes of weights | `weight_bytes` |
# | s | bytes of one sequence's cache | `kv_bytes` |
# | W | bytes that the chip reads in a second | `hardware.bandwidth_bytes_per_second` |
# | P | operations that it does in a second | `hardware.peak_flops_per_second` |
# | t | time of a step: the time per output token, TPOT | `step_seconds`, `tpot_seconds` |
# | λ, τ, ρ | requests a second; seconds that one keeps a server busy; the load λ · τ | |
# | γ | tokens drafted for a pass (week 4) | |
#
# GB is 10⁹ bytes. Dollars are for a million written tokens, as price lists have it. TTFT is the time from a request's
# arrival to its first token. The 95th percentile, p95, of a wait is what 95 % of the waits stay within.

# %% [markdown]
# ### Prediction 1
#
# Alone a token costs 4.26 dollars a million. How many users must share the chip until it costs a tenth of that? And with as
# many as you like, memory or not: how many times cheaper than alone can it get at most? Write both down now, for the next
# section has figures that help.

# %%
my_users_for_a_tenth, my_times_cheaper_at_most = 10, 1000  # change both

# %% [markdown]
# ## By hand
#
# Llama-3-8B's shape in 16 bits on an H100. 16.06 GB of weights, 7.5·10⁹ of the 8.03·10⁹ parameters multiplied (of the
# embedding a row is looked up). A cache of 8,192 tokens: 2 · 32 layers · 8 heads · 128 numbers · 2 bytes = 131,072 B a token,
# 1.074 GB.
#
# - **Weights:** 16.06·10⁹ / 3.35·10¹² = 4.79 ms.
# - **One cache:** 1.074·10⁹ / 3.35·10¹² = 0.32 ms.
# - **Arithmetic of one position:** 2 · 7.5·10⁹ / 989·10¹² = 0.015 ms.
#
# Now a batch of 32. Weights 4.79 ms; their arithmetic, 32 · 0.015 = 0.49 ms, is done meanwhile and hides. The caches add
# 32 · 0.3205 = 10.26 ms. The step takes **15.05 ms**. It writes 32 tokens: 32 / 15.05 ms = **2,126 tokens a second**. Three
# dollars an hour are 3 / 3,600 dollars a second, so a million tokens cost 3 / 3,600 / 2,126 · 10⁶ = **0.39 dollars**.
#
# | users | step (TPOT) | tokens/s each | tokens/s in all | dollars a million |
# |---:|---:|---:|---:|---:|
# | 1 | 5.115 ms | 195.5 | 195.5 | 4.26 |
# | 8 | 7.36 ms | 135.9 | 1,087 | 0.77 |
# | 16 | 9.92 ms | 100.8 | 1,613 | 0.52 |
# | 32 | 15.05 ms | 66.4 | 2,126 | 0.39 |
# | 48 | 20.18 ms | 49.6 | 2,379 | 0.35 |
#
# From 1 user to 8 the price falls to less than a fifth. From 32 to 48, half as many again, it falls by a tenth.
#
# Try one yourself: weights *and* cache in int8, so half the bytes of each. How long is a step for one user? How many
# sequences fit into 80 GB, where 59 fitted before ((80 − 16.06) / 1.074 = 59.5)?
#
# <details><summary>Answer</summary>(8.03 + 0.537) GB / 3.35 TB/s = 2.56 ms. (80 − 8.03) / 0.537 = 134.05, so 134: more than
# twice 59, because the weights make room as well.</details>
#
# **Two honest words.** A step does not read the whole embedding, 1.05 GB of the 16.06; week 1 left it out and came to 4.48 ms.
# Here all bytes count, as the usual estimates do, and the difference is 7 %. And these are bounds at full speed of the chip.
# The steps of a good engine take 1.2 to 2 times as long. So trust the ratios, and multiply the dollars by what you measure.

# %% [markdown]
# ## The equations
#
# Reading the weights and multiplying them go on at once, so the longer counts. Attention reads each sequence's own cache
# between those products, with little arithmetic to hide behind, so that comes on top:
#
# $$
# t(B) = B\,\frac{s}{W} + \max\!\left( \frac{w}{W},\; \frac{2\, n\, B}{P} \right)
# $$
#
# $$
# \text{dollars a million} = \frac{\text{dollars an hour}}{3600} \cdot \frac{t(B)}{B} \cdot 10^6
# $$
#
# The first lives in `nanolm/budget/decode_batch.py`, the second in `nanolm/budget/pricing.py`.

# %%
from nanolm.budget import decode_step_time  # exercise: decode_step_time
# points: 4
# minutes: 12
# difficulty: 2
# tested: The table above; 1,024 tokens of context up to 476 users; int8; a 13B; batches so large that arithmetic is the longer
#   part; that a larger batch is never faster and never more expensive a token, for 50 random models; bad input.
# why: Every estimate of a service starts with this line. Who forgets the B in front of s/W promises 32 users 5 ms.
# hint: A batch reads its weights once and its caches B times. Which two of the three times overlap? // All caches,
#   the weights, the arithmetic of the whole batch: the longer of the last two, plus the first.

# %%
from nanolm.budget import cost_per_million  # exercise: cost_per_million
# points: 2
# minutes: 6
# difficulty: 1
# tested: A price in round figures, five batches of the table, the floor with and without arithmetic, random steps, and
#   bad input.
# why: It turns milliseconds into the unit in which somebody decides.
# hint: Dollars an hour are not dollars a second, and a step writes more than one token. // What does a second cost? A
#   step? Then one of its tokens, times a million.

# %%
print("users  step, ms   each, tokens/s   all, tokens/s   dollars a million   4.79/B + 0.32, ms")
for B in (1, 8, 16, 32, 48):
    step = decode_step_time(B, N_PARAMS, WEIGHTS, CACHE, H100)
    dollars = cost_per_million(step, B, H100.dollars_per_hour)
    print(f"{B:5} {step * 1e3:9.3f} {1 / step:14,.1f} {B / step:15,.0f} {dollars:18.2f} {4.79 / B + 0.32:18.3f}")


def price(B, weights=WEIGHTS, cache=CACHE, chip=H100):
    return cost_per_million(decode_step_time(B, N_PARAMS, weights, cache, chip), B, chip.dollars_per_hour)


a_tenth = next(B for B in range(1, 1000) if price(B) <= price(1) / 10)
print(f"a tenth of the price: you said {my_users_for_a_tenth} users, it takes {a_tenth}")
print(f"at most: you said {my_times_cheaper_at_most} times cheaper, it is {price(1) / price(10**6):.1f}")

# %% [markdown]
# A tenth takes 26 users, not 10, and beyond about 15 times cheaper nobody gets. Where does that come from?

# %% [markdown]
# ## The floor
#
# Let B grow without end. The weights' 4.79 ms are divided by more and more, and vanish. What cannot be divided stays: each
# token reads its own cache, 0.3205 ms, and multiplies its own position, 0.0152 ms. (In a batch that large the arithmetic is
# longer than the reading of the weights, so it counts.) Together 0.3357 ms of the chip for each token:
#
# - at most 1 / 0.3357 ms = **2,979 tokens a second**, from a chip of 3 dollars an hour at least **0.28 dollars** a million.
#
# Often only the cache is counted: 1 / 0.3205 ms = **3,120 tokens a second** and **0.27 dollars**. That is the ceiling of the
# memory alone, right for a chip that multiplies in no time. The two differ by the arithmetic, 5 %. Both are good estimates;
# say which one you mean.
#
# Neither is ever reached here, because 59 such caches fill the memory. There the price is 0.33 dollars, and four fifths of
# that are the caches.
#
# Two batches mark the way down:
#
# - **B = w / s**, where all caches together weigh as much as the weights: 16.06 / 1.074 = 14.96, so **from 15 on**. There the
#   price is twice the caches' floor. Up to it, more users are the best lever. Beyond it, smaller caches are.
# - **The critical batch**, where multiplying the weights takes as long as reading them. Of a weight in 16 bits 2 bytes
#   are read, 2 · B operations done: 2 / W = 2 B / P, so B = P / W = 989 / 3.35 = 295.2, **295**. It is the chip's own
#   number, week 1's ridge point, and it is what one remembers. Up to it one more position is free arithmetic. That is
#   also the room for speculation (week 4): B · (γ + 1) up to 295.
#
# The 8B of this lesson switches a little later, since it also reads what it does not multiply, the embedding: w / W = 2
# n B / P at B = w P / (2 n W) = 316.1. So in *its* estimates arithmetic is the longer part from **317** users on. (Both
# move with the peak: for 10¹⁵ operations a second, a round number that is often used, the chip's is 298.)

# %%
from nanolm.budget import crossover_batch  # exercise: crossover_batch
# points: 1
# minutes: 4
# difficulty: 1
# tested: 15 for the 8B, 39 for a 13B, exactly equal weights, random bytes, and bad input.
# why: It says whether to shrink the weights or the cache, before anything is measured.
# hint: Rounded to the wrong side, the weights still weigh more. // The smallest whole number that reaches the
#   quotient.

# %%
from nanolm.budget import critical_batch  # exercise: critical_batch
# points: 2
# minutes: 6
# difficulty: 2
# tested: 295 for an H100, 147 with weights of 8 bits, 298 for a chip of 10¹⁵ operations a second, chips
#   on which both take equally long, random chips, and bad input.
# why: Below it arithmetic is idle, and idle arithmetic is what batching and speculation live on.
# hint: An operation count has a factor 2, and bits are not bytes. // For one parameter: weight_bits / 8 bytes to
#   read, 2 · B operations to do. Solve for B, round down.


# %%
def first_beyond_reading():
    """The smallest batch whose arithmetic takes longer than reading the weights; caches left out."""
    alone = decode_step_time(1, N_PARAMS, WEIGHTS, 0, H100)
    return next(B for B in range(1, 2000) if decode_step_time(B, N_PARAMS, WEIGHTS, 0, H100) > alone)


for context in (1024, 8192, 32_768):
    cache = kv_cache_bytes(LLAMA_3_8B, context)
    most = max_concurrent_requests(H100.memory_bytes, WEIGHTS, cache)
    print(
        f"{context:6,} tokens: caches outweigh the weights from {crossover_batch(WEIGHTS, cache):3} users on, ", end=""
    )
    print(f"memory ends at {most:3}, this model's arithmetic counts from {first_beyond_reading()} on")
for chip in (A100, H100, H200):
    print(
        f"{chip.name}: critical batch {critical_batch(chip)} at 16 bits, {critical_batch(chip, 8)} with 8-bit weights"
    )

# %% [markdown]
# With long contexts the memory is full long before arithmetic counts: **the batch is limited by the cache, not by
# arithmetic**. Only with short contexts does a batch pass 316. Weights of 8 bits whose arithmetic stays 16-bit halve the
# critical batch: the reading got faster and the multiplying did not.

# %% [markdown]
# ## The curve: waiting against price
#
# Each batch is a point: across, what a user waits for a token; upwards, what the token costs. The larger the batch, the
# further right and the lower. A goal for TPOT picks the largest batch that still meets it.

# %%
from nanolm.budget import max_batch_for_tpot  # exercise: max_batch_for_tpot
# points: 4
# minutes: 15
# difficulty: 3
# tested: 16 for a goal of 10 ms, a goal that not even one sequence meets, a batch without caches that only arithmetic ends,
#   caches and arithmetic together, a step of exactly the goal, random models and goals, and bad input.
# why: It is how a promise to users becomes a setting of the engine (`max_running` here, `--max-num-seqs` in vLLM).
# hint: Without a cache only arithmetic ends the search, so it needs an end of its own. // A step never gets shorter
#   with a larger batch. Count up from 1 while the goal is met, or search by halves: `bisect` takes a `key`.
#   Arithmetic alone takes 2 n B / P, so no B above goal · P / (2 n) can meet the goal.

# %% [markdown]
# Two services on this curve. In a **chat** a person reads along. Ten tokens a second are faster than most people read,
# but a fast stream feels alive: say a goal of 20 ms, 50 tokens a second. An **agent** writes step after step, and a program waits
# for each to end: say 10 ms.

# %%
room = max_concurrent_requests(H100.memory_bytes, WEIGHTS, CACHE)
batch = list(range(1, room + 1))
steps_ms = [1e3 * decode_step_time(B, N_PARAMS, WEIGHTS, CACHE, H100) for B in batch]
prices = [price(B) for B in batch]
services = {}
for name, goal in (("agent", 10e-3), ("chat", 20e-3)):
    services[name] = min(room, max_batch_for_tpot(goal, N_PARAMS, WEIGHTS, CACHE, H100))
for name, B in services.items():
    print(f"{name}: {B} users, TPOT {steps_ms[B - 1]:.2f} ms, {prices[B - 1]:.2f} dollars a million")

# %%
fig, ax = figures.figure(6.4, 3.9)
ax.plot(steps_ms, prices, color=figures.BLUE)
ax.axhline(price(10**6), linestyle="--", color=figures.GREY, label="the floor, 0.28 dollars")
for B in (1, 2, 4, 8, 32):
    ax.plot(steps_ms[B - 1], prices[B - 1], "o", color=figures.BLUE, markersize=4)
    ax.annotate(f"B = {B}", (steps_ms[B - 1], prices[B - 1]), (6, 3), textcoords="offset points", fontsize=9)
for (name, B), colour in zip(services.items(), (figures.RED, figures.GREEN), strict=True):
    ax.plot(steps_ms[B - 1], prices[B - 1], "s", color=colour, markersize=8, label=f"{name}: B = {B}")
ax.plot(steps_ms[-1], prices[-1], "D", color="black", markersize=6, label=f"memory is full: B = {room}")
ax.set(xlabel="TPOT, ms", ylabel="dollars a million tokens", yscale="log", xlim=(4, 26), ylim=(0.2, 6))
ax.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
ax.minorticks_off()
ax.legend(fontsize=9)
figures.show(
    fig,
    "Price against time per token for batches of 1 to 59, the price on a logarithmic scale. It falls steeply from 4.26 dollars "
    "at 5.1 ms to 0.77 at 7.4 ms, then flattens towards a dashed floor at 0.28. Squares mark an agent at 10 ms, 16 users and "
    "0.52 dollars, and a chat at 20 ms, 47 users and 0.35 dollars. The curve ends at 59 users, where the memory is full.",
)

# %% [markdown]
# The curve has a steep part and a flat part. On the steep part a little patience buys a lot: from B = 1 to 8 the wait grows
# by 44 % and the price falls by 82 %. On the flat part it buys nothing: from 47 users to 59 everybody waits a fifth longer
# to save 5 %. A sensible service stands near the bend, and leaves room in the memory besides (the end of the curve is where
# requests are turned away or recomputed).
#
# Faster than 5.1 ms or cheaper than 0.28 dollars is not on this curve for any batch. For that the curve itself has to move.

# %% [markdown]
# ## What moves the curve
#
# Three things: how long contexts are, how many bits weights and caches have, and the chip. A tenth of the memory is
# kept free here, the headroom: activations, fragments and a bad minute need room.


# %%
def curve(context=8192, weight_bits=16, kv_bits=16, chip=H100, every=True):
    """TPOT in ms, dollars a million and the batch, for the batches that fit: every one, or some to draw."""
    weights, cache = WEIGHTS * weight_bits / 16, kv_cache_bytes(LLAMA_3_8B, context, 1, kv_bits)
    most = max_concurrent_requests(chip.memory_bytes, weights, cache, 0.1 * chip.memory_bytes)
    some = {*(round(1.15**i) for i in range(60) if 1.15**i < most), most}
    sizes = range(1, most + 1) if every else sorted(some)
    seconds = [decode_step_time(B, N_PARAMS, weights, cache, chip) for B in sizes]
    dollars = [cost_per_million(s, B, chip.dollars_per_hour) for s, B in zip(seconds, sizes, strict=True)]
    return [1e3 * s for s in seconds], dollars, list(sizes)


variants = {
    "context": {f"{n:,} tokens": {"context": n} for n in (2048, 8192, 32_768)},
    "chip": {chip.name: {"chip": chip} for chip in (A100, H100, H200)},
    "bits of weights / cache": {
        "16 / 16": {},
        "8 / 16": {"weight_bits": 8},
        "16 / 8": {"kv_bits": 8},
        "8 / 8": {"weight_bits": 8, "kv_bits": 8},
        "4 / 4": {"weight_bits": 4.125, "kv_bits": 4},
    },
}
for title, options in variants.items():
    for label, chosen in options.items():
        waits, costs, sizes = curve(**chosen)
        print(f"{title}, {label}: from {waits[0]:4.1f} ms and {costs[0]:.2f} dollars ", end="")
        print(f"to {waits[-1]:4.1f} ms and {costs[-1]:.3f} dollars at {sizes[-1]} users")


# %%
def draw_curves(ax, title):
    for (label, chosen), colour in zip(variants[title].items(), figures.LINES, strict=False):
        waits, costs, _ = curve(**chosen, every=False)
        ax.plot(waits, costs, color=colour, label=label)
        ax.plot(waits[-1], costs[-1], "o", color=colour, markersize=5)
    ax.set(title=title, xlabel="TPOT, ms", xscale="log", yscale="log", xlim=(1, 60))
    ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
    ax.minorticks_off()
    ax.legend(fontsize=9)


fig, axes = figures.figure(6.4, 3.6, columns=2, sharey=True)
for ax, title in zip(axes, ("context", "chip"), strict=True):
    draw_curves(ax, title)
axes[0].set(ylabel="dollars a million tokens")
figures.show(
    fig,
    "Price against time per token in two panels, both logarithmic; a dot ends each curve where memory is full. Left: with "
    "2,048 tokens the curve runs far below that of 8,192, with 32,768 far above. Right: the H200 is left of and below the H100, "
    "the A100 right of and above it.",
)
fig, ax = figures.figure(6.4, 3.6)
draw_curves(ax, "bits of weights / cache")
ax.set(ylabel="dollars a million tokens")
figures.show(
    fig,
    "Price against time per token, both logarithmic, for five choices of bits. 8-bit weights move the upper end left, an 8-bit "
    "cache moves the lower end down, both together do both, and 4 bits of both do it twice and end flat.",
)

# %% [markdown]
# Read the ends of the curves.
#
# - **Context.** Alone, a long context costs little, since the weights outweigh it: 4.9 ms with 2,048 tokens, 6.1 ms with
#   32,768. Where memory ends it costs in proportion, since there nearly everything is cache: 16 times the tokens, 16 times
#   the price (0.086 and 1.38 dollars). That is why price lists have a step at long contexts.
# - **Bits of the weights** move the upper end: they make a small batch fast. At the lower end they do little.
# - **Bits of the cache** move the lower end: they make a large batch cheap, and twice as many fit. Alone they do little. With 4
#   bits of everything the curve ends flat: there arithmetic has become the longer part, and waiting longer buys nothing at all.
# - **Chips** differ here by their bandwidth, its price, and the memory that ends the curve. Dollars an hour over TB/s: 0.98
#   for the A100, 0.90 for the H100, 0.83 for the H200. For work that waits for memory a token's price is in proportion to
#   this quotient.
#
# The same, by numbers, at three places of the curve:

# %%
changes = {
    "as it was": (1, 1),
    "int8 weights": (1 / 2, 1),
    "int8 cache": (1, 1 / 2),
    "int8 both": (1 / 2, 1 / 2),
    "int4 weights": (4.125 / 16, 1),
    "4 times the KV heads": (1, 4),
}
print("TPOT in ms and dollars a million     B = 1         B = 16          B = 48     fit into 80 GB")
for name, (of_weights, of_cache) in changes.items():
    weights, cache = of_weights * WEIGHTS, of_cache * CACHE
    most = max_concurrent_requests(H100.memory_bytes, weights, cache)
    cells = [
        f"{1e3 * decode_step_time(B, N_PARAMS, weights, cache, H100):6.2f} {price(B, weights, cache):5.2f}"
        if most >= B
        else f"{'does not fit':>12}"
        for B in (1, 16, 48)
    ]
    print(f"{name:28} {'    '.join(f'{cell:>12}' for cell in cells)} {most:12}")

# %% [markdown]
# At 16 users int8 weights and an int8 cache save nearly the same, since 16 is just above the crossover of 15. Left of it you would
# take the weights first, right of it the cache. And look at the last line: with a key/value head for every query head
# not even 16 users would fit. Grouped heads were decided when the model was trained; you choose them when you choose the model.

# %% [markdown]
# ## Many settings, one front
#
# Now all at once: three chips, three precisions, every batch that fits. Most of these are simply bad: another setting is
# faster *and* cheaper. Those that nothing beats in both form the **Pareto front**. Only there is a choice to make.

# %%
from nanolm.budget import pareto_front  # exercise: pareto_front
# points: 4
# minutes: 15
# difficulty: 2
# tested: Points that are beaten, ties in one number, equal points, labels that cannot be compared, 50 random sets against
#   comparing every pair, points that can be read once, zeros, and bad input.
# why: A hundred settings become a handful, and an argument about taste becomes one about a goal.
# hint: What about a point that equals the one before? And labels may be of any kind: sort by the two numbers alone.
#   // Sort by the first number, then the second. Going along, a point is beaten unless its second number is below all
#   before it. To refuse a number of a point, `require_not_negative(points=number)` will do.

# %%
settings = []  # (ms, dollars, (bits, chip, batch))
for chip in (A100, H100, H200):
    for weight_bits, kv_bits in ((16, 16), (8, 8), (4.125, 4)):
        waits, costs, sizes = curve(1024, weight_bits, kv_bits, chip)
        labels = [(kv_bits, chip.name, B) for B in sizes]
        settings += zip(waits, [round(cost, 5) for cost in costs], labels, strict=True)
fronts = {bits: pareto_front([point for point in settings if point[2][0] >= bits]) for bits in (16, 8, 4)}
sizes = ", ".join(f"{len(front)} with {bits} bits or more" for bits, front in fronts.items())
print(f"{len(settings):,} settings; on the fronts {sizes}")
for bits, front in fronts.items():
    ends = {name: max((p[2][2] for p in front if p[2][1] == name), default=0) for name in ("A100", "H100", "H200")}
    print(f"{bits:2} bits or more, largest batch on the front: " + ", ".join(f"{name} {B}" for name, B in ends.items()))
for goal in (2, 5, 10):
    for bits, front in fronts.items():
        meeting = [point for point in front if point[0] <= goal]
        if not meeting:
            print(f"TPOT up to {goal:2} ms, {bits:2} bits or more: none")
            continue
        wait, cost, (_, name, B) = meeting[-1]
        print(f"TPOT up to {goal:2} ms, {bits:2} bits or more: {name}, B = {B:3}, {wait:4.1f} ms, {cost:.3f} dollars")

# %%
fig, ax = figures.figure(6.4, 4.4)
markers = {"A100": "^", "H100": "o", "H200": "s"}
for name, marker in markers.items():
    others = [point for point in settings if point[2][1] == name][::7]  # every seventh, to see something
    ax.plot([p[0] for p in others], [p[1] for p in others], marker, color=figures.GREY, markersize=2, alpha=0.5)
for (bits, front), colour in zip(fronts.items(), figures.LINES, strict=False):
    ax.plot([p[0] for p in front], [p[1] for p in front], color=colour, linewidth=1, label=f"{bits} bits or more")
    for wait, cost, (_, name, _) in front[::5]:
        ax.plot(wait, cost, markers[name], color=colour, markersize=5)
for name, marker in markers.items():
    ax.plot([], [], marker, color="black", label=name)
ax.set(xlabel="TPOT, ms", ylabel="dollars a million tokens", xscale="log", yscale="log", xlim=(0.8, 40))
ax.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
ax.minorticks_off()
ax.legend(fontsize=9, loc="upper right")
figures.show(
    fig,
    "Settings in grey, price against time per token, both logarithmic; three fronts in colour, for at least 16, 8 and 4 "
    "bits, each further left and lower than the one before. Squares, the H200, make up most of each front; circles, the H100, "
    "take its lower right end; no triangle, the A100, lies on any front.",
)

# %% [markdown]
# With 1,024 tokens of context batches get large, and something new appears: the H200, best at everything that waits for
# memory, loses the cheap end to the H100. Both have the same arithmetic, and the H100's is a quarter cheaper. Past the
# critical batch arithmetic is what you pay for.
#
# So each chip's part of a front ends where its arithmetic begins to count: with 16 bits at 221 users for the H200 and
# at 316 for the H100. Beyond it everybody waits longer and nobody pays less. That is why a goal of 10 ms is met on the
# front with 221 users, in 9.5 ms, though as many as 231 would stay within 10 ms on that chip, as `max_batch_for_tpot`
# says: for the same price.
#
# The A100 is on no front at these prices. At 0.83 · 2.04 = 1.70 dollars an hour its bandwidth would cost as much as the
# H200's, and still it would be beaten: it reads more slowly, and it does a third of the arithmetic. Only at about 1.45
# dollars does it reach a front, the one of 16 bits (`dataclasses.replace(A100, dollars_per_hour=1.45)` in the cell
# shows it).
#
# A front knows only the numbers you gave it. **Quality is not in it**: that is why there are three. Whether you may
# stand on the second or third is decided by your own evaluation (week 5), not by a plot.

# %% [markdown]
# ## What a request costs, and what a price list adds
#
# A request is a prompt and an answer. Take 8,000 tokens in and 200 out, on the chat server above, 47 users at 19.86 ms:
#
# - **The prompt** is arithmetic: 8,000 · 0.0152 ms = 121 ms of the chip, and attention adds about 14 % (week 1).
# - **The answer** is 200 tokens of 19.86 / 47 = 0.42 ms of the chip: 84 ms. The user waits 200 · 19.86 ms = 4 s for it.
#
# So a written token costs the provider 0.42 / 0.0152 = 28 times a prompt token. Price lists ask 4 to 5 times as much for
# it, say 2 and 10 dollars a million; so long prompts with short answers pay for the others. This request would cost
# 0.016 + 0.002 dollars by that list. Of this chip it takes 0.22 s, 0.0002 dollars. What lies between?
#
# - **Speed.** Steps take 1.2 to 2 times the bound, and prompts share the chip with steps.
# - **Idle time.** The hour is paid at night as well. At 30 % load a token costs more than three times as much. This is the
#   largest term in most services, and the reason why batch jobs at night are sold at half the price.
# - **A larger model.** The list's model has more parameters than eight billion.
# - **Headroom, spare machines, people, profit.**

# %% [markdown]
# ## TTFT under load: a queue
#
# **TTFT** is a sum of its own: queue + prefill + network, and if a model reasons before it answers, all of those hidden
# decode steps: 2,000 hidden tokens at 20 ms are 40 seconds. A reasoning model is therefore planned by its output
# tokens.
#
# The queue is the part that nobody sees when testing alone. Take a machine that only runs prompts, one after the other,
# of 8,000 tokens: τ = 121 ms · 1.14 = 138 ms each, so at most 1/τ = 7.2 requests a second. Requests come by chance, λ a
# second. The **load** is ρ = λ · τ, the share of the time in which it is busy. How long does a request wait before its
# turn? On average
#
# $$\text{wait} = \frac{\rho}{1 - \rho} \cdot \tau \cdot \frac{1 + v^2}{2}$$
#
# where v is how much τ scatters: its standard deviation over its mean. With prompts of one length v = 0 (in books
# *M/D/1*); with lengths as irregular as the arrivals v = 1 (*M/M/1*), and waits are twice as long. TTFT is that wait
# and τ.
#
# | load | requests/s | wait, all prompts alike | wait, lengths by chance |
# |---:|---:|---:|---:|
# | 50 % | 3.6 | 69 ms | 138 ms |
# | 80 % | 5.8 | 277 ms | 553 ms |
# | 90 % | 6.5 | 622 ms | 1,245 ms |
# | 95 % | 6.9 | 1,314 ms | 2,628 ms |
#
# From 80 % to 95 % a fifth more requests wait nearly five times as long. That is the reason for the rule to stay below
# 80 %. The mean flatters besides: with v = 1 one in twenty TTFTs is longer than ln 20 = 3.0 means, at 80 % 2.07 s.
#
# **Goodput** is the number of requests a second that *met their goals*. With v = 1 a TTFT stays within a goal g with
# probability 1 − e^(−(1/τ − λ) · g), so
#
# $$\text{goodput} = \lambda \cdot \bigl(1 - e^{-(1/\tau - \lambda)\, g}\bigr)$$
#
# ### Prediction 2
#
# For g = 1 s: at which load is goodput largest, and how large is it at a load of 95 %? (Throughput there is 6.9
# requests a second.)

# %%
my_best_load, my_goodput_at_95 = 0.95, 6.9  # change both

# %% [markdown]
# The cell plays a queue with 300,000 requests, by nothing but the clock of each: a request begins when it has come and
# the one before it is done. A few seconds.

# %%
PROMPT_SECONDS, GOAL = 0.1383, 1.0


def first_tokens(rho, scattered, n_requests=300_000, seed=0):
    """The TTFT of every request, network left out."""
    rng, now, free, waits = random.Random(seed), 0.0, 0.0, []
    for _ in range(n_requests):
        now += rng.expovariate(rho / PROMPT_SECONDS)
        busy = rng.expovariate(1 / PROMPT_SECONDS) if scattered else PROMPT_SECONDS
        free = max(now, free) + busy
        waits.append(free - now)
    return waits


def goodput(rho):
    """By the formula, lengths by chance."""
    rate = rho / PROMPT_SECONDS
    return rate * (1 - math.exp(-(1 / PROMPT_SECONDS - rate) * GOAL))


print("load   alike: formula  played   by chance: formula  played   p95   goodput: formula  played")
for rho in (0.5, 0.8, 0.9, 0.95):
    alike, by_chance = first_tokens(rho, False), first_tokens(rho, True)
    mean = PROMPT_SECONDS * (1 + rho / (1 - rho) / 2), PROMPT_SECONDS / (1 - rho)
    p95 = statistics.quantiles(by_chance, n=20)[-1]
    played = rho / PROMPT_SECONDS * sum(wait <= GOAL for wait in by_chance) / len(by_chance)
    print(f"{rho:4.0%} {mean[0]:14.2f} s {statistics.fmean(alike):6.2f} s {mean[1]:16.2f} s ", end="")
    print(f"{statistics.fmean(by_chance):6.2f} s {p95:5.2f} s {goodput(rho):10.2f}/s {played:8.2f}/s")
best_load = max((i / 1000 for i in range(1, 1000)), key=goodput)
print(f"goodput is largest at a load of {best_load:.0%}, {goodput(best_load):.1f} a second; at 95 % it is ", end="")
print(f"{goodput(0.95):.1f}; you said {my_best_load:.0%} and {my_goodput_at_95}")

# %% [markdown]
# Throughput still grows at 95 %, goodput has fallen to less than half of its best. A server that is judged by its
# throughput is driven there. What helps, in this order: fewer seconds a prompt (a prefix cache lowers τ *and* with it
# the load), a second machine (half the load on each), and refusing early what would miss its goal anyway.

# %% [markdown]
# ## Measure: the engine on this machine
#
# Now a server that you can touch. The engine of week 6 replays 16 requests of the recorded trace, those with short answers,
# all at once, with 1, 2, 4, 8 and 16 **slots**: the most requests that it serves at a time. What does a token cost on this
# machine?
#
# The same two costs must be at work. Each pass of the model costs something however many requests take part (week 1: mostly
# starting a few hundred operations). Each token costs something of its own (its arithmetic, its share of the prompts, the
# engine's bookkeeping). Two unknowns, so two measurements are enough:
#
# $$
# \text{seconds} = \text{fixed} \cdot \text{passes} + \text{variable} \cdot \text{tokens}
# $$
#
# How many passes each number of slots takes is known beforehand: week 6's simulator counts them. Measured are 1 slot and 8, in about ten
# seconds.

# %%
trace = load_trace()
requests = all_at_once([request for request in trace if request.n_output_tokens <= 32][:16])
needs_tokens = [request.n_output_tokens for request in requests]
n_tokens, slots_tried = sum(needs_tokens), [1, 2, 4, 8, 16]
passes = {slots: simulate_continuous_batching(needs_tokens, slots).n_steps for slots in slots_tried}


def serve(slots, n_requests=None):
    """Replay the requests with so many slots; return the replay and the engine's records of its passes."""
    engine = Engine(target, max_running=slots, prefix_cache=False)
    return replay_engine(f"{slots} slots", engine, requests[:n_requests]), list(engine.records)


def in_rounds(tried, seconds=3):
    """Every run, slots in turns: as many rounds of each as a verdict takes, of the quick ones more."""
    found = {slots: [] for slots in tried}
    for round_number in tqdm(range(rounds_allowed(6)), leave=False):
        for slots, runs in found.items():
            if round_number < ROUNDS_TO_TELL or sum(run.seconds for run, _ in runs) < seconds:
                runs.append(serve(slots))
    return found


def shortest(runs):
    """Of each the shortest: other work on the machine can only add."""
    return {slots: min(of_one, key=lambda run: run[0].seconds) for slots, of_one in runs.items()}


serve(8, 8)  # to warm up
runs = in_rounds([1, 8])
for slots, (run, _) in shortest(runs).items():
    print(f"{slots} slot{'s' if slots > 1 else ' '}: {run.tokens_per_second:6,.0f} tokens/s, {passes[slots]:3} passes")

# %% [markdown]
# ### Prediction 3
#
# How many tokens a second with 16 slots, a place for everybody? And what will a million tokens cost there, if an hour of this
# machine costs 10 cents? (At 1 token a second it would be 27.78 dollars.)

# %%
my_rate_at_16, my_price_at_16 = 0, 0.0  # change both

# %%
DOLLARS_PER_HOUR = 0.10  # of this machine; put in your own
# Two equations with the two unknowns. At 1 slot every pass writes one token.
alone, eight = (shortest(runs)[slots][0].seconds / n_tokens for slots in (1, 8))
fixed = max(1e-6, (alone - eight) / (passes[1] - passes[8]) * n_tokens)
variable = max(1e-6, alone - fixed)
print(f"fixed {fixed * 1e3:.2f} ms a pass, variable {variable * 1e3:.2f} ms a token")
predicted = {slots: (fixed * passes[slots] + variable * n_tokens) / n_tokens for slots in slots_tried}


def dollars_of(seconds_per_token):
    return DOLLARS_PER_HOUR / 3600 * seconds_per_token * 1e6


all_runs = runs | in_rounds([2, 4, 16])  # some ten seconds
served = shortest(all_runs)
print("slots  tokens a pass   predicted, tokens/s   measured   dollars a million   TPOT, median ms")
for slots in slots_tried:
    run, _ = served[slots]
    print(f"{slots:5} {n_tokens / passes[slots]:14.2f} {1 / predicted[slots]:21,.0f} ", end="")
    print(f"{run.tokens_per_second:10,.0f} ", end="")
    print(f"{dollars_of(1 / run.tokens_per_second):19.3f} {1e3 * run.inter_token_seconds():17.2f}")
aside = {}
for slots in (2, 4, 16):
    each = [run.seconds for run, _ in all_runs[slots]]
    aside[slots] = min(each) / (predicted[slots] * n_tokens)
    print(f"{slots:2} slots, seconds in all: {against_prediction(each, predicted[slots] * n_tokens, 's', 1)}")
worst = max(aside, key=lambda slots: abs(math.log(aside[slots])))
n_rounds = min(map(len, all_runs.values()))
if n_rounds < ROUNDS_TO_TELL:
    print(f"{CANNOT_TELL}: {n_rounds} round{'s' * (n_rounds > 1)} of each, and it takes {ROUNDS_TO_TELL}")
elif max(aside[worst], 1 / aside[worst]) < 1.25:
    print(f"two measurements gave the other three: the shortest runs are {min(aside.values()):.2f} to ", end="")
    print(f"{max(aside.values()):.2f} of the prediction")
else:
    print(f"{CANNOT_TELL}: the shortest of {worst} slots took {aside[worst]:.2f} of the prediction; ", end="")
    print("once more, when nothing else runs")
at_16 = served[16][0].tokens_per_second
print(f"16 slots: you said {my_rate_at_16} tokens/s and {my_price_at_16} dollars; ", end="")
print(f"it is {at_16:,.0f} and {dollars_of(1 / at_16):.3f}")

# %%
fig, axes = figures.figure(6.4, 3.7, columns=2, sharey=True)
found = [dollars_of(1 / served[slots][0].tokens_per_second) for slots in slots_tried]
axes[0].plot(
    slots_tried, [dollars_of(predicted[n]) for n in slots_tried], color=figures.BLUE, label="predicted from two"
)
axes[0].plot(slots_tried, found, "o", color=figures.ORANGE, label="measured")
axes[0].plot([1, 8], [found[0], found[3]], "o", color="black", label="the two measured first")
axes[0].axhline(dollars_of(variable), linestyle="--", color=figures.GREY, label="variable cost alone")
axes[0].set(xscale="log", xlabel="slots", ylabel="dollars a million tokens", ylim=(0, None))
axes[0].set_xticks(slots_tried, [f"{slots}" for slots in slots_tried])
axes[0].legend(fontsize=9)
waits = [1e3 * served[slots][0].inter_token_seconds() for slots in slots_tried]
axes[1].plot(waits, found, "o-", color=figures.ORANGE)
for slots, wait, dollars in zip(slots_tried, waits, found, strict=True):
    axes[1].annotate(f"{slots}", (wait, dollars), (4, 5), textcoords="offset points", fontsize=9)
axes[1].set(xlabel="TPOT, median, ms", xlim=(0, 1.12 * max(waits)), ylim=(0, 1.12 * max(found)))
axes[0].minorticks_off()
figures.show(
    fig,
    "Left: price against slots on this machine, as predicted from 1 and 8 slots and as measured: "
    + ", ".join(
        f"{slots} slots {dollars_of(predicted[slots]):.3f} and {dollars:.3f}"
        for slots, dollars in zip(slots_tried, found, strict=True)
    )
    + f" dollars a million; a dashed line marks the variable cost, {dollars_of(variable):.3f}. Right: the measured price against "
    "the median time per token, numbered by slots: "
    + ", ".join(f"{wait:.1f} ms with {slots}" for slots, wait in zip(slots_tried, waits, strict=True))
    + ".",
)

# %% [markdown]
# If the last lines do not say "cannot tell": the curve of the H100 again, from a machine that reads some hundred times
# more slowly, and for other reasons. The fixed cost is not reading weights but starting operations, and the variable
# cost is not the cache but arithmetic and bookkeeping. **Fixed and variable is what every shared machine has.** Two
# measurements give you both, and with them the whole curve.
#
# Two things to look for:
#
# - **With 16 slots** nobody waits for a place, and yet a pass writes 10.4 tokens and not 16. The longest answer has 30 tokens,
#   so 30 passes are the least, and in the last of them the long answers run nearly alone. A service with requests that keep
#   coming has no such end, and would gain more.
# - **Dots off the line.** Dots above it on the right mean that the variable cost grew: a batch's arithmetic, or prompts that
#   filled passes. If 1 and 8 themselves were disturbed, the whole line is off: run the cells of this section again.
#
# ## A plan, worked
#
# This is how the capstone is meant to be done: first numbers on paper, then one run. The load: all 64 requests of the
# trace, 16 a second. The goal here is a TPOT of three times a pass alone; prompts may lengthen a pass to twice that. The
# engine has kept a record of every pass, so what a pass costs with one request more, or with a prompt in it, can be read off.

# %%
by_running = {}  # seconds of the passes that only write, by the requests in them
for _, records in served.values():
    for record in records:
        if record.n_prefill_tokens == 0:
            by_running.setdefault(record.n_running, []).append(record.seconds)
medians = {B: statistics.median(seconds) for B, seconds in by_running.items() if len(seconds) >= 5}
line = statistics.linear_regression(list(medians), list(medians.values()))
growth, one = max(1e-6, line.slope), max(1e-6, line.slope + line.intercept)


def writing_seconds(B):
    """A pass that only writes, for B requests."""
    return one + growth * (B - 1)


with_prompts = [r for r in served[8][1] if r.n_prefill_tokens >= 16]
a_prompt_token = max(
    1e-6, statistics.median((r.seconds - writing_seconds(r.n_running)) / r.n_prefill_tokens for r in with_prompts)
)
print(f"a pass that only writes: {one * 1e3:.2f} ms, {growth * 1e3:.2f} ms more for each further request; ", end="")
print(f"a prompt token in it {a_prompt_token * 1e3:.3f} ms")

goal = 3 * one
my_slots = max(1, min(32, 1 + int((goal - one) / growth)))
my_tokens_per_step = my_slots + max(16, int(goal / a_prompt_token))
full_pass = writing_seconds(my_slots)
n_prompt = statistics.fmean(request.n_prompt_tokens for request in trace)
n_answer = statistics.fmean(request.n_output_tokens for request in trace)
wanted = 16 * n_answer
room = 1 / (full_pass / my_slots + a_prompt_token * n_prompt / n_answer)
print(f"goal: TPOT {goal * 1e3:.1f} ms, so {my_slots} slots (a full pass {full_pass * 1e3:.1f} ms)")
print(f"a pass with prompts up to {2 * goal * 1e3:.1f} ms, so at most {my_tokens_per_step} tokens in it")
print(
    f"wanted: {wanted:.0f} tokens/s; all slots full, prompts paid for: {room:,.0f} tokens/s, load {wanted / room:.0%}"
)
print("the queue will grow" if wanted > 0.8 * room else "little queue", end="; ")
print(f"TTFT about {1e3 * (1.5 * full_pass + n_prompt * a_prompt_token):.0f} ms without one, ", end="")
print(f"price {dollars_of(1 / min(wanted, room)):.3f} dollars a million")
held = int(640 / (n_prompt + n_answer))  # average requests that the capstone's cache holds, as floats
my_cache = "float" if min(my_slots, wanted * full_pass) <= held else "int8"
print(f"its cache holds {held} average requests as floats, so --cache-kind {my_cache}")
print(
    f"course capstone --rate 16 --slots {my_slots} --max-tokens-per-step {my_tokens_per_step} --cache-kind {my_cache}"
)

# %% [markdown]
# Line by line:
#
# 1. **Slots from TPOT.** Fixed plus variable, solved for the batch, as `max_batch_for_tpot` does for a chip.
# 2. **Tokens a step from the worst gap.** A pass that runs somebody's prompt makes everybody wait. Fewer tokens a step: smaller
#    gaps, and a longer prefill in more chunks. This is where TTFT and TPOT are traded.
# 3. **The load.** If more is asked for than all slots can write, the queue grows as long as the load lasts, and TTFT with it,
#    whatever else you do. Near the limit it grows too, since requests come in bursts. 80 % is a common limit.
# 4. **TTFT without a queue:** half a pass until the next one begins, then one with your prompt in it.
# 5. **The price** is that of the hour over the tokens really written. A machine that waits for requests costs the same, so
#    below full load the load sets the price and not the engine.
# 6. **The cache.** As many requests run at a time as are wanted a second, times the seconds that each runs (Little's
#   law: tokens wanted a second times the seconds of a pass). If they need more places than there are, codes give more.
#
# ## The capstone
#
# Your own engine serves the recorded load, under goals for TTFT, TPOT and price. `course capstone` in a terminal does
# it in four steps, all of them in processes of their own.
#
# **1. The machine sets the goals.** Three bare passes are timed, without an engine and without your choices: for one
# request, for sixteen, and over a prompt of 128 tokens. Sixteen in a pass, prompts paid for, would write
#
# $$\text{capacity} = \frac{1}{t_{16} / 16 + t_p \cdot \text{prompt} / \text{answer}}$$
#
# tokens a second, where $t_{16}$ is the pass of sixteen, $t_p$ the time of a prompt token, and *prompt* and *answer*
# are the average lengths of both, 68 and 38 tokens. The load is half of that capacity (`--load 50`). The goals:
#
# | goal | formula | why |
# |---|---|---|
# | next token, 95 % within | $3\,t_{16}$ | your own pass, and others' prompts in it |
# | first token, 95 % within | $10\,t_{16}$ | a place, the prompt in a few chunks, and the pass that writes |
# | price | hour's price · (until the last arrival + TTFT goal + 2 answers · TPOT goal) / tokens | the queue must not grow |
#
# The clock is the processor's: it stands while other programs have their turns, and waits for the next request are
# jumped over. So a busy machine disturbs the figures little, and what comes out is what an idle one would do. (With
# `--threads 2` and on Windows it is the clock on the wall.)
#
# No goal comes from the reference with the same choices, so a plan that overloads the engine misses them, whoever wrote
# it. `course capstone --goals` prints goals and load and serves nothing. Do that first: you need them for your plan.
#
# **2. Your functions plan, and your parts write.** Every exercise that you have written, of all weeks, takes the
# reference's place. The functions of weeks 1, 2, 6, 7, 9 and 10 compute a plan for this load. Then 16 requests are
# written in three ways:
#
# - *alone*, one by one, by your own `generate`: these texts must equal the reference's;
# - *tight*, all at once in a cache that holds the longest request and no more, by the engine that computes with the
#   functions of the lessons only, `Engine(plain=True)`. Requests lose their places and get them back, forks share
#   blocks and copy them, drafts are verified. These texts must equal your own, written alone, and every block must be
#   given back;
# - *as chosen*: by the fast engine with your choices. These must equal your own too.
#
# With the same seeds the texts are the same, near ties aside. If more than a tenth differ, a part is wrong, and the
# speed counts for nothing. What changes no text, such as whose turn it is, this cannot see: `course status` tests that.
#
# **3. Rounds.** The whole load is served three times by your engine and three times by the reference, in turns.
#
# **4. The verdict.** A goal is *met* if it is met in every round, *missed* if it is missed in every round and other
# work on the machine does not explain it; else the line says *cannot tell on this run*. To know about other work, the
# matrix products of a pass are timed between the engine's passes, off the clock. With nothing written there is no
# verdict: then it was the reference with your choices.
#
# ### What you choose
#
# The cache has room for 640 positions (`--cache-mb` gives it another size), which is 3.93 MB of the shipped model's
# floats and not quite six average requests. More want to run, so what happens to blocks decides.
#
# | option | what you trade |
# |---|---|
# | `--slots 8` | more slots: more tokens a pass, longer passes |
# | `--max-tokens-per-step 64` | fewer: shorter gaps for those who write, longer prefills |
# | `--cache-kind int8` | 3.8 times the places, and time to decode codes |
# | `--reserve 0` | newcomers may take the last blocks: a shorter queue, more preemptions (default 0.25) |
# | `--no-prefix-cache` | nothing is kept for those who begin alike, so nothing has to be evicted |
# | `--weight-bits 8` | fewer bytes to read, more work to decode them |
# | `--draft prompt-lookup`, `--draft draft` | tokens guessed ahead; a draft model's keys and values lie in the same cache |
#
# Given, and not yours to choose: the model (`--model mixture` serves week 8's), the trace, the rate and the cache's
# size. Change them to try other problems, `--rate 0` for all requests at once; compare results only under the same
# ones. Where two runs are to be compared, give both the rate that the first one printed.
#
# It takes answers from `exercises/`. If you worked in notebooks, take them over first (they are read, never run):
#
# ```
# course collect notebooks/*/*.ipynb --into exercises
# course status
# course capstone --goals
# course capstone
# course capstone --slots 12 --max-tokens-per-step 96 --cache-kind int8
# course capstone --reserve 0 --draft draft --plot capstone.png
# course capstone --cache-mb 2 --rate 20 --ttft-ms 500 --tpot-ms 20
# ```
#
# The score is what the hour costs, over the tokens of the requests that came in time: first token and mean wait for the
# next within the goals. That is the price of goodput. `--hand-in NAME.json` writes choices, answers, hashes of the
# texts and the machine into one file. `course leaderboard FOLDER` serves all files of a class again on one machine,
# under one load, and ranks them by score; what a file claims counts for nothing, and those whose rounds overlap share a
# place.
#
# A quick form here: 8 requests, one round, half a minute to two. It works whether or not you have written anything.

# %%
import os
import subprocess
import sys

from course.paths import ROOT

my_choices = ["--slots", "8", "--max-tokens-per-step", "256"]  # change them
quick = ["--requests", "8", "--rounds", "1", "--check", "4"]
try:
    done = subprocess.run(
        [sys.executable, "-m", "course", "capstone", *quick, *my_choices],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    )
    print(done.stdout.strip() or done.stderr.strip())
except subprocess.TimeoutExpired:
    print(
        "not done after 240 seconds: the machine is busy, or an answer of yours never ends. `course status` says which"
    )

# %% [markdown]
# ### How to read the report
#
# - **The parts that did the work.** Every exercise that was called, with the number of calls in the plan and in each of
#   the three ways to write. *Yours* is your code, *reference, not written* a stub. The list changes with your choices:
#   rounds of week 4 are run only with `--draft`, codes of week 5 only with int8, `route` only with `--model mixture`. A
#   line below the tables names your exercises that had no work. Choose so that what you are proud of has some.
# - **The plan.** Where a function of yours says something else than the reference's, both stand there. Goals do not
#   depend on yours.
# - **Goals.** *Within 95 %* means that of a hundred waits five may be longer. A mean would hide just the waits that
#   people complain about. Each figure is the median of the rounds, with the smallest and the largest. Both columns were
#   measured in turns on the same machine.
# - **Cache.** How many blocks there are and were in use, how often a request lost its place, how many blocks the prefix
#   cache gave up, and how much of the prompts it spared. If preemptions and evictions are many, memory is your limit.
# - **The last lines.** Whose work it was, whether the texts are equal, the goals, the score, your speed against the
#   reference's. If an answer breaks, its file and line are named. With a single round and eight requests the times
#   scatter by tens of percent. Take the full trace and three rounds for numbers that you want to show to somebody.
#
# The written question at the end asks for your plan and what came of it. The exit code is 0 only if parts of yours did
# work, the texts are right and every goal is met in all rounds, so a script can rely on it.
#
# **On a real model.** `course capstone --model smollm2 --requests 6 --rate 0 --rounds 1 --check 3 --threads 2` serves
# SmolLM2, 135·10⁶ parameters, with the same parts of yours, in two to seven minutes; the README names the packages that
# it needs. The cache again has 640 positions, here 29.5 MB. It has 54 times the shipped model's parameters, so on a CPU
# it reads weights most of the time. Predict before you run: which of your choices matter more there than here?
#
# <details><summary>Answer</summary>The fixed cost is now mostly reading weights, and <code>--weight-bits 8</code> reads
# a quarter of the bytes. More slots pay for longer, and speculation (<code>--draft prompt-lookup</code>) pays where a
# pass over five positions takes less than twice a pass of one.</details>

# %% [markdown]
# ## The same with libraries
#
# transformers has one lever against TPOT that needs no server: assisted generation, week 4's speculation. The shipped pair are
# ordinary Llama folders, so it opens them. (Their weights lie on disk in 16 bits; `dtype` says to compute in 32, as we do.)

# %%
import importlib.util
import time

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED
    from nanolm.sampling import SamplingParams

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    big, small = (
        transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / name, dtype=torch.float32)
        for name in ("target", "draft")
    )
    start = tokenizer.encode("BRUTUS\n")
    ids = torch.tensor([start])
    options = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    seconds = {}
    for name, extra in (
        ("alone", {}),
        ("with a draft", {"assistant_model": small}),
        ("look-up", {"prompt_lookup_num_tokens": 4}),
    ):
        begun = time.perf_counter()
        text = big.generate(ids, attention_mask=torch.ones_like(ids), **options, **extra)[0, len(start) :].tolist()
        seconds[name] = time.perf_counter() - begun
        same = text == target.generate(start, 40, SamplingParams(0.0, end_tokens=()))
        print(f"transformers, {name:12}: {40 / seconds[name]:4.0f} tokens/s; our greedy text: {same}")
else:
    print("transformers is not installed here; with it, this cell lets it speculate")

# %% [markdown]
# At temperature 0 speculation changes nothing but the time: each line says whether the text is ours. Whether it *saves*
# time here is another matter (the first call also warms up). For models this small the library's own work around each
# round and each pass counts beside that of the models, and a draft of one layer pays it too. With a large target on a
# GPU it hardly counts.
#
# On a GPU server, the settings of this week are options of vLLM (not run here):
#
# ```
# vllm serve MODEL \
#   --max-num-seqs 47 --max-num-batched-tokens 2048 \
#   --max-model-len 8192 --gpu-memory-utilization 0.90 \
#   --quantization fp8 --kv-cache-dtype fp8 --enable-prefix-caching \
#   --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}'
# vllm bench serve --model MODEL --dataset-name random --random-input-len 7000 --random-output-len 300 \
#   --request-rate 4 --goodput ttft:1000 tpot:20
# ```
#
# `--max-num-seqs` are the slots, `--max-num-batched-tokens` the tokens a step, `--gpu-memory-utilization` one minus the
# headroom. `--goodput` counts the requests that met *both* goals: throughput alone rewards a server that makes everyone
# wait. (Options change from release to release; `vllm serve --help` has those of yours.)

# %% [markdown]
# ## The same on a real model
#
# SmolLM2 has 135·10⁶ parameters: 0.54 GB in 32 bits that a step has to read. So here a large part of the fixed cost
# *is* reading weights. The cell measures one decode step with 1 and with 8 sequences, computes fixed and variable from
# them, predicts 16, and measures that. Will the price fall by more from 1 to 8 than the shipped model's did, or by
# less? (Half a minute; without the package one line.)

# %%
from course.lab.real_model import real_model
from nanolm.cache import KVCache

real = real_model()
if real:
    smol, _ = real

    @torch.inference_mode()
    def step_of(B, context=64):
        """One decode step of B sequences after a prompt each, as a call to be timed; the cache stays where it is."""
        cache = KVCache(smol.config, B, context + 1)
        smol(torch.randint(smol.config.vocab_size, (B, context)), cache, last=1)
        cache.advance(context)
        token = torch.randint(smol.config.vocab_size, (B, 1))
        return torch.inference_mode()(lambda: smol(token, cache, last=1))

    seconds = take_turns({B: step_of(B) for B in tqdm((1, 8, 16), leave=False)}, 5)
    one, eight = (min(seconds[B]) for B in (1, 8))
    variable_each = max(1e-6, (eight - one) / 7)
    fixed_each = max(1e-6, one - variable_each)
    print(f"fixed {fixed_each * 1e3:.0f} ms a step, variable {variable_each * 1e3:.1f} ms a token")
    for B, rounds in seconds.items():
        print(
            f"{B:2} sequences: {min(rounds) * 1e3:4.0f} ms, {0.10 / 3600 * min(rounds) / B * 1e6:.2f} dollars a million"
        )
    print("16: " + against_prediction(seconds[16], fixed_each + 16 * variable_each))
    print(f"from 1 to 8 the price falls {one * 8 / eight:.1f} times")

# %% [markdown]
# ## How one goes about it
#
# **Size first.** Take the 95th percentile of context lengths and not the mean, the batch that your goal allows, and
# leave 10 to 20 % of the memory free as headroom. For TTFT, plan for a load below 80 %.
#
# **Know the load.** Long prompts with short answers (retrieval, classification) live in prefill: prefix caching, 8-bit
# *arithmetic*, chunked prefill. Short prompts with long answers (chat, code, reasoning) live in decode: fewer bytes,
# more tokens a reading. Reasoning models are planned by their output tokens.
#
# **Then, for decode, in this order**, and measure after each step:
#
# 1. a model with grouped key/value heads: decided when you choose it, and worth a factor of four in cache;
# 2. 8-bit weights: half of the fixed cost, nearly free in quality;
# 3. continuous batching: the largest factor of all in price, and every engine has it;
# 4. a cache of 8 bits, when it is memory that caps the batch;
# 5. last, and only if measured: 4-bit weights and speculation. One costs quality on some tasks, the other costs
#    throughput when the server is busy.
#
# **What breaks, and when:**
#
# - Memory runs out only when several long requests meet: on a Tuesday, in production, never in the test. (Size by p95
#   and headroom; preemption instead of a crash.)
# - A quantized model passes every chat test and fails in mathematics. (Evaluate the hard tasks; averages hide them.)
# - Speculation makes a busy server slower. (Its gain needs idle arithmetic; lower γ or switch it off above a load.)
# - A mixture of experts fits the arithmetic and not the memory. (All experts must be held, whichever are active.)
# - A prefix cache that never hits, since a timestamp stands at the front of every prompt. (Stable parts first.)
#
# **Across GPUs**, in words. When a model does not fit on one chip, or a step must be shorter than one chip can read,
# every matrix is split over several (*tensor parallelism*): each reads a part of the weights and caches, and after each
# block they exchange sums, which needs fast links. A step on two chips takes a little more than half as long, at twice
# the price an hour. Prefill waits for arithmetic and decode for memory, so large services give them separate machines
# and send the cache from one to the other: then nobody's prompt lengthens anybody's step. Copies of a whole server
# multiply throughput without any exchange, and then requests must find the copy that holds their prefix (week 7).

# %% [markdown]
# ## The levers, and what each week has shown
#
# Week 1 sorted every optimisation by what it cuts. Now each has a number that you computed, and most of them one that you
# measured.
#
# | lever (week) | it cuts | the number | TTFT | TPOT | throughput, price | memory | quality |
# |---|---|---|---|---|---|---|---|
# | many positions in a pass (1) | waiting for memory | a written token costs about 300 prompt tokens | – | – | the reason for all below | – | same |
# | KV cache (2) | arithmetic | 248 positions down to 23 | – | many times | many times | a cache for each | same |
# | grouped heads (2) | bytes of cache | a quarter | – | long contexts | 4 times the batch | less | trained in |
# | sampling (3) | – | a draw costs little; equal only in equal batches | – | little | little | – | yours to choose |
# | speculation (4) | passes in sequence | 3.36 tokens a pass at α = 0.8, γ = 4 | – | 2 to 3 times, small batch | none in a large one | a draft | exact |
# | 8 and 4 bits (5) | bytes of weights | 2.56 ms instead of 5.115, with the cache | little | up to 2 and 4 times | 134 users instead of 59 | a half, a quarter | 8 nearly free; measure 4 |
# | continuous batching, paging (6) | waiting, waste | 70 % to 87.5 % of the slots at work | much, under load | a little worse | the largest of all | no reservation, no gaps | near ties |
# | prompt caching (7) | arithmetic of prompts | 85 % of the prompt's price | much | – | where prompts dominate | blocks that stay | same |
# | mixture of experts (8) | arithmetic, bytes in small batches | 37 of 671·10⁹ active | much | in small batches | needs a large batch | all experts | trained in |
# | tiled attention, latent cache, windows (9) | scores in memory; bytes of cache | 3.6 times less than grouped heads | long prompts | long contexts | larger batches | less | tiling exact, the rest trained in |
# | choosing the batch (10) | dollars | 4.26 down to 0.35 | a shorter queue | 5.1 up to 20 ms | 12 times | caches | same |
#
# Read a column, not a row: a service has *one* complaint at a time. And note how few rows cost quality. Most of what makes
# inference cheap is not reading the same thing twice.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **The cache read once for the whole batch.** Then a batch would be free, and 32 users would see 5 ms.
#   `test_decode_step_llama3_h100_batch_32_numbers`
# - **Arithmetic added to the reading.** Both go on at once; the longer counts. The same test.
# - **Weights read once per sequence.** Then batching would save nothing. The same test.
# - **Caches hidden behind the arithmetic**, or **reading only.** Past the critical batch arithmetic takes the weights' place,
#   and the caches still come on top. `test_decode_step_time_of_1000_sequences_is_arithmetic_plus_caches`
# - **The embedding counted.** A row of it is looked up; nothing is multiplied.
#   `test_model_shape_multiplies_all_but_the_embedding_and_the_norms`
# - **The factor 2 forgotten.** The critical batch comes out at 590.
#   `test_critical_batch_of_an_h100_is_295_at_16_bits`
# - **Rounded the wrong way.** The crossover is up, the critical batch down.
#   `test_crossover_batch_is_where_the_caches_outweigh_the_weights`
# - **One too many.** 17 users take 10.24 ms. `test_max_batch_for_tpot_of_10_ms_is_16`
# - **The price of a step instead of a token**, or an hour taken for a second.
#   `test_cost_per_million_shares_the_hour_among_all_tokens_of_the_batch`
# - **A front that keeps what is beaten**, or forgets that a tie in one number is no excuse.
#   `test_pareto_front_drops_what_is_beaten_and_sorts_the_rest`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. **The first six are about one model:** 13·10⁹ parameters in 16 bits (26 GB, count all as multiplied), 40
# layers, 8 key/value heads of 128 numbers; an H100 (80 GB, 3.35 TB/s, 989 TFLOP/s, 3 dollars an hour); 4,096 tokens of context;
# 6 GB of memory kept free.
#
# **1.** How many bytes is the cache of a token, and of a sequence?
#
# <details><summary>Answer</summary>2 · 40 · 8 · 128 · 2 B = 163,840 B a token. 4,096 · 163,840 = 0.671 GB.</details>
#
# **2.** How many sequences fit?
#
# <details><summary>Answer</summary>(80 − 26 − 6) / 0.671 = 71.5, so 71.</details>
#
# **3.** At most how many tokens a second does a single user see?
#
# <details><summary>Answer</summary>26 GB / 3.35 TB/s = 7.76 ms: 129 tokens/s. (With 4,096 tokens of cache 7.96 ms, 126.)</details>
#
# **4.** Batch 32: step, tokens a second, price? Which resource does it wait for?
#
# <details><summary>Answer</summary>7.76 + 32 · 0.2003 = 7.76 + 6.41 = 14.2 ms. 32 / 14.17 ms = 2,258 tokens/s. 3 / 3,600 /
# 2,258 · 10⁶ = 0.37 dollars. Arithmetic is 2 · 13·10⁹ · 32 / 989·10¹² = 0.84 ms, far below the reading of the weights: memory.
# </details>
#
# **5.** You may have int8 weights or an int8 cache. Which, at batch 32? From which batch on the other?
#
# <details><summary>Answer</summary>Weights: 3.88 + 6.41 = 10.3 ms. Cache: 7.76 + 3.20 = 11.0 ms. So the weights, by little.
# The cache outweighs the weights from 26 / 0.671 = 38.7, B = 39, and from there on the cache is the better half.</details>
#
# **6.** All 71 slots full: TPOT and price? What do you tell somebody who wants a TPOT of 15 ms?
#
# <details><summary>Answer</summary>7.76 + 71 · 0.2003 = 22.0 ms; 71 / 21.98 ms = 3,230 tokens/s; 0.26 dollars. 15 ms allows
# (15 − 7.76) / 0.2003 = 36 users at 0.35 dollars: a third more a token for a third less waiting.</details>
#
# **7.** The 8B of this lesson, 8,192 tokens, B = 32, prompt-lookup with γ = 4 that gives 1.8 tokens a pass and costs nothing.
# New TPOT and price?
#
# <details><summary>Answer</summary>32 · 5 = 160 positions, below 295, so arithmetic still hides; a cache is read once a pass
# whatever γ is. The step stays 15.05 ms and writes 57.6 tokens: 8.4 ms and 0.22 dollars. In a long context speculation pays in
# large batches too, as caches fill the step. With 1,024 tokens and 200 users it would run 1,000 positions: (15.2 + 8.0) / 1.8
# = 12.9 ms against 12.8 without. Nothing is gained.</details>
#
# **8.** The same 8B split over two H100s (no time for the exchange). How many sequences, which step, which price?
#
# <details><summary>Answer</summary>(160 − 16.06) / 1.074 = 134, more than 2 · 59, since the weights are held once. Step: (16.06 +
# 134 · 1.074) / 6.7 = 23.9 ms. 6 dollars an hour: 0.30 dollars a million, against 0.33. At B = 16 the step would be 4.96
# ms and the price the same as on one, 0.52: twice as fast for the same dollars, if the links keep up.</details>
#
# **9.** Your service runs at B = 32 by day (10 hours) and nearly empty at night, B = 2. What does a token cost on average?
#
# <details><summary>Answer</summary>Per second 2,126 by day; at night 2 / (4.79 + 0.64 ms) = 368. In 24 hours 10 · 3,600 · 2,126 +
# 14 · 3,600 · 368 = 7.65·10⁷ + 1.85·10⁷ = 9.5·10⁷ tokens for 72 dollars: 0.76 a million, twice the day's price. Night work at half
# price still earns something: the hour is paid anyway.</details>

# %% [markdown]
# ## Check yourself
#
# The whole course in ten questions.
#
# - Why does the average price of a token fall with the batch, and where is its floor?
# - Why does continuous batching beat static batching for chat?
# - Which problem of memory does paging solve?
# - What does the gain of speculation depend on, and when is there none?
# - By which factor do grouped heads shrink the cache, and what else shrinks it?
# - Which of TTFT and TPOT does a prefix cache help? Weights of 4 bits? More users?
# - Two engines have the same throughput. Which one do your users want?
# - At a load of 80 %, how many prefills long is the wait of a request, if all prompts are alike?
# - Why is the batch limited by the cache and not by arithmetic, and when is it the other way round?
# - What does a Pareto front not tell you?
#
# <details><summary>Short answers</summary>
# One reading of the weights is shared by all; each token's own cache and arithmetic are not, and they are the floor. · Answers
# differ in length; a slot that is free is filled at once and does not wait for the longest. · Nobody reserves room for the
# longest possible answer, no gaps are left between reservations, and equal prefixes are held once. · On acceptance, γ, the
# draft's cost and idle arithmetic; none in a batch that fills the arithmetic, or with a poor or slow draft. · By N / K, 4 for
# 32 and 8 heads; latent attention, windows, layers that share, 8 and 4 bits, off-loading. · TTFT; TPOT, in small batches; neither.
# · The one with the better 95th percentile of TTFT and TPOT; count the requests that meet both goals. · Two: 0.8 / 0.2 / 2.
# · With 8,192 tokens 59
# caches fill the memory and arithmetic would allow 316; with 1,024 tokens 476 would fit, and it turns. · Anything that
# is no axis of it: quality, above all.
# </details>

# %% [markdown]
# ## In an interview
#
# *"We serve an 8B model on one H100 for 4 dollars a million tokens. Finance wants it below 50 cents, and the product team says
# that it must not feel slower. What do you do?"*
#
# A structure for three minutes:
#
# 1. **Recognise the number.** 3 dollars an hour over 200 tokens a second is 4.2 dollars a million: this is batch 1. Somebody
#    serves one request at a time (20 seconds).
# 2. **Split the promise.** "Feel" is TTFT and TPOT. Ask for the goal at the 95th percentile, the p95 context, requests a
#    second, and prompt and answer lengths (30 seconds).
# 3. **Compute the curve.** 4.79 / B + 0.32 ms with 8,192 tokens. Continuous batching at 16 users: 10 ms, 100 tokens a second
#    each, 52 cents. 32: 15 ms, 39 cents. Nobody reads 66 tokens a second (40 seconds).
# 4. **Move the curve** if the goal is tight: 8-bit weights and cache, 16 users at 5 ms and 26 cents: as fast as today and a
#    sixteenth of the price. Check quality on your own tasks, mathematics and long recall first (30 seconds).
# 5. **TTFT separately:** queue (headroom, load below 80 %), prompt length, prefix cache, chunked prefill (30 seconds).
# 6. **Say what is not in it:** bounds are 1.2 to 2 times better than steps; idle hours are the largest term; measure with a
#    recorded load before and after (30 seconds).
#
# The shorter form of the question, *"an 8B service answers slowly, what do you do?"*, has its structure in week 1: split TTFT
# from TPOT, compute what is possible, then queue, prompt and prefix for the one, fewer bytes and more tokens a reading for
# the other; the ceiling of the batch is the cache; check quality after each step.

# %% [markdown] written="the floor of the price" points=8 minutes=20 difficulty=3
# **Derive the floor of the price.** A model multiplies n parameters a position and has w bytes of weights and s bytes of cache a
# sequence. The chip reads W bytes and does P operations a second and costs d dollars an hour. (a) From the time of a step,
# derive the chip's time per token as a function of B, below and above the critical batch, and its limit for large B.
# (b) Write the floor of the price for a million tokens, and say in words which two things it pays for and why no batch can
# share them. (c) Give the batch at which the price is twice the floor, where B stays below the critical batch and arithmetic may be
# neglected in the floor. Evaluate it for w = 16.06 GB, s = 1.074 GB. (d) Memory holds M bytes. Show that the floor of (c) can be
# approached to within a fraction w / (M − w), and evaluate it for 80 GB. Which change to the model or the number formats lowers
# the *floor*, which only this fraction?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) t(B) = B s/W + max(w/W, 2nB/P). Per token, t/B = s/W + max(w/(W B), 2n/P). Below the critical batch,
# where w/W ≥ 2nB/P, it is s/W + w/(W B), falling as 1/B. Above it is s/W + 2n/P, constant. The limit is s/W + 2n/P, reached at
# the critical batch w P/(2 n W).
#
# (b) Floor = d/3600 · (s/W + 2n/P) · 10⁶. It pays for reading the sequence's own cache and for multiplying its own position.
# The weights are the same for all, so one reading serves everybody; a cache holds one sequence's keys and values, which nobody
# else can use, and each position has another input, so its products are its own. (For 3 dollars: 0.3205 + 0.0152 = 0.3357 ms, 0.28
# dollars; with the cache alone 0.27.)
#
# (c) Neglecting 2n/P the floor is s/W a token. Twice that: s/W + w/(W B) = 2s/W, so B = w/s = 14.96: the batch whose caches weigh
# as much as the weights. From 15 on the price is at most twice the floor.
#
# (d) At most B = (M − w)/s sequences fit. There the weights' part is w/(W B) = (s/W) · w/(M − w): the price lies above the floor by
# the fraction w/(M − w) = 16.06 / 63.94 = 25 %. Fewer bytes of cache (fewer key/value heads, latent attention, 8 bits, shorter
# context) and a faster or cheaper chip lower the floor. Fewer bytes of weights or more memory lower only the fraction.
#
# **Mark scheme (8).** (a) the two branches, 1; the limit with both terms, 1. (b) formula, 1; which two things and why they cannot
# be shared, 1. (c) B = w/s with derivation, 1; 15 (or 14.96), 1. (d) the fraction derived, 1; cache against weights told apart,
# 1. The cache's term alone in (b), if said to be an approximation: no deduction.
# ### END SOLUTION

# %% [markdown] written="a plan and what came of it" points=10 minutes=40 difficulty=3
# **Your capstone, on a page.** Before you run it: the load, your goals for TTFT, TPOT and price and whom they serve, your
# choices, and a predicted number for each goal with its arithmetic. Then one full run (`course capstone` with your choices, the
# whole trace, three rounds). Put the report's lines here. For each goal: predicted, measured, and where the difference comes
# from. At last one choice that you changed your mind about, or would, and why.
#
# ### BEGIN SOLUTION
# **Model answer** (an example; numbers differ from machine to machine).
#
# *Load and goals.* `--goals` printed: passes of one 3.82 ms, of sixteen 6.63 ms, a prompt token 0.104 ms; 22 requests a
# second, 68 prompt and 38 written tokens on average, so 840 tokens/s wanted, 50 % of the capacity. A chat, so I take
# its goals: first token within 66 ms, next within 20 ms, both for 95 %, and 0.048 dollars a million at 10 cents an
# hour.
#
# *Choices and prediction.* A pass for B requests takes 3.82 + (B − 1) · 0.19 ms, and the engine's own work a fifth of
# it besides. About 840 · 5.5 ms = 4.6 requests run at a time, which need 490 of the 640 positions. Bursts will need
# more, so `--cache-kind int8`: 2,400 positions. Decoding codes costs time, perhaps half a pass more: 1.5 · 5.4 ms = 8
# ms for 5 requests. TPOT: a pass with 128 prompt tokens in it takes 8 + 128 · 0.104 = 21 ms. So at most 128 tokens a
# step, and 8-bit weights to save the rest: 20 ms, just met. TTFT: 95 % of the prompts have up to 148 tokens. Half a
# pass, somebody else's chunk, then mine in two passes: 4 + 20 + 20 + 10 = 54 ms. Price: the load sets it, 0.10 / 3,600
# / 840 · 10⁶ = 0.033 dollars, and a sixth more for the last answers, 0.039. Prefix cache on, as half of the prompt
# tokens stand at another's beginning; no draft, as text sampled at 0.8 is guessed less well.
#
# *Result.* `--cache-kind int8 --weight-bits 8 --max-tokens-per-step 128`: first token 46 ms (45 to 47), next 19 ms (17
# to 19), 0.039 dollars; all goals met; all texts equal; score 0.039 (63 to 64 of 64 in time); against the reference:
# cannot tell. TTFT was shorter than predicted: many prompts find their beginning in the cache, and need one chunk. 7.8
# requests ran at a time, not 4.6: passes took longer than I took them, so every request stayed longer. The price is as
# predicted.
#
# *Changed my mind.* I had begun with floats, to save the time of decoding codes. At 20 requests a second the first
# token came after 683 ms: 241 blocks were evicted, and newcomers waited for room. With `--reserve 0` it was 329 ms and
# 15 preemptions. Memory was the limit, and no order of the queue replaces it.
#
# **Mark scheme (10).** Load in tokens a second, 1. Goals with a user in mind, as percentiles, 1. Each of the three predictions with
# arithmetic from measured costs, 3 (a number without arithmetic: 0). Full report of a real run, texts equal, 1. Each difference
# explained by something that can be checked, 3 ("noise" alone: 0). A choice reconsidered with a reason, 1. Missed goals cost nothing
# if they are explained. Which parts were the student's own is graded in the other weeks, not here.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# **From this week.** Step time and price on a napkin; the batch that a goal allows; the floor and why it is there; a front instead
# of an opinion; a plan that was checked.
#
# **From the course.** You can
#
# - explain by intensity what waits for memory and what for arithmetic (week 1; its written question derives the intensity of a
#   batched decode step);
# - compute the largest batch and the longest context for a memory (week 2);
# - prove in ten minutes on paper that speculation is exact, derive its gain, and have written a `speculative_generate` that
#   passes a test which follows every outcome (week 4); sample from a stream fairly and prove it by induction (week 3);
# - read a claim about 4 bits and ask the right three questions (week 5);
# - build the books of a serving engine: batches, blocks, prefixes (weeks 6 and 7);
# - say what experts and smaller caches cost and save (weeks 8 and 9);
# - and put a price on all of it.
#
# One sentence carries it all. *To write one token, the model reads all of its weights and its whole cache, and memory is far
# slower than arithmetic.* When you meet an optimisation that is not in this course, ask which of the two it makes smaller, with
# whom it shares the reading, or how many tokens it gets from one. `course status` in a terminal says what is left.
#
# ## Sources
#
# - Pope et al. 2022, *Efficiently scaling transformer inference*, [arXiv:2211.05102](https://arxiv.org/abs/2211.05102):
#   the time of a step, and latency against cost as a front.
# - Kwon et al. 2023, *PagedAttention*, [arXiv:2309.06180](https://arxiv.org/abs/2309.06180); Yu et al. 2022,
#   [*Orca*](https://www.usenix.org/conference/osdi22/presentation/yu); Zheng et al. 2024, *SGLang*,
#   [arXiv:2312.07104](https://arxiv.org/abs/2312.07104): batching, paging, shared prefixes.
# - Shazeer 2019 (MQA), [arXiv:1911.02150](https://arxiv.org/abs/1911.02150); Ainslie et al. 2023 (GQA),
#   [arXiv:2305.13245](https://arxiv.org/abs/2305.13245); DeepSeek-AI 2024, V2 and V3 (latent attention, multi-token
#   prediction), [arXiv:2405.04434](https://arxiv.org/abs/2405.04434) and
#   [arXiv:2412.19437](https://arxiv.org/abs/2412.19437): fewer bytes of cache.
# - Leviathan et al. 2022, [arXiv:2211.17192](https://arxiv.org/abs/2211.17192); Chen et al. 2023,
#   [arXiv:2302.01318](https://arxiv.org/abs/2302.01318): speculation. Cai et al. 2024, *Medusa*,
#   [arXiv:2401.10774](https://arxiv.org/abs/2401.10774); Li et al. 2024, *EAGLE*,
#   [arXiv:2401.15077](https://arxiv.org/abs/2401.15077).
# - Frantar et al. 2022, *GPTQ*, [arXiv:2210.17323](https://arxiv.org/abs/2210.17323); Lin et al. 2023, *AWQ*,
#   [arXiv:2306.00978](https://arxiv.org/abs/2306.00978). Dao et al. 2022, *FlashAttention*,
#   [arXiv:2205.14135](https://arxiv.org/abs/2205.14135).
# - Fedus et al. 2021, *Switch transformers*, [arXiv:2101.03961](https://arxiv.org/abs/2101.03961); Jiang et al. 2024,
#   *Mixtral*, [arXiv:2401.04088](https://arxiv.org/abs/2401.04088).
# - Zhong et al. 2024, *DistServe*, [arXiv:2401.09670](https://arxiv.org/abs/2401.09670): prefill and decode on machines
#   of their own, and goodput.
# - Kleinrock 1975, *Queueing systems*, volume 1: the wait of M/M/1 and M/D/1 (the formula of Pollaczek and Khinchine).
# - NVIDIA's data sheets of A100, H100 and H200 (SXM).
