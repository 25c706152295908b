# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 6 · Batching and paging
#
# A pass loads all weights whether it writes one token or fifty. So a server that writes for one user at a time wastes
# almost everything it pays for. This week you share each pass among as many requests as there are, let them come and go
# at every step, and store their caches in small blocks, so that more of them fit. At the end your own scheduler
# serves a recorded trace, and you watch it do so.
#
# **After this week you can**
#
# - say what static, dynamic and continuous batching waste, and compute it from the lengths of the answers;
# - write the simulators, the block allocator, the block table with copy on write, and the two decisions of a scheduler:
#   whom to admit, and what preemption means;
# - compute how many requests fit in a memory, with and without paging, and how long a pass with all of them takes;
# - read a server's waits: queue, prefill, time per token, and say which knob moves which.
#
# **Time:** about two hours for the six exercises, forty minutes for the two written questions, an hour and a half of
# reading and measuring. **Needs:** the idea of a KV cache (week 2). No exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold functions or methods whose bodies are missing. Write them, run the cell, run the
# `check(...)` below it. A check runs the course's own tests on your answer alone and takes everything around it from the
# reference, so one mistake never hides another. Of an exercise with several methods you can test one at a time:
# `check("BlockTable.append")`, in a cell of your own. If you prefer an editor, the same functions wait in `exercises/`, with
# the same tests.
#
# Cells that measure use *your* functions where they say `needs`, with the numbers of the exercises. Where you see a
# *Prediction*, write a number down before you run the next cell.
#
# Where a docstring says *Raises*, the message has to name the argument, or use the word that the docstring gives.
# `require_count(0, n=n)`, which is imported for you, refuses what is no whole number of at least 0, and words it so.

# %%
import copy
import random
import statistics
import time

import torch
from nanolm.workload import simulation as batching
from nanolm import load
from nanolm.budget import decode_step_time
from nanolm.engine import Engine
from nanolm.budget import Hardware
from nanolm.paging import PagedKVCache
from nanolm.paging import RadixCache
from nanolm.workload import EXACTLY, nanolm_batch, replay_batches, replay_engine
from nanolm.sampling import SamplingParams
from nanolm.workload import all_at_once, heavy_tailed_lengths, load_trace, poisson

from course.lab import figures
from course.lab.timing import side_by_side

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
config = target.config
small = load("draft")[0]  # a smaller model, for measurements that depend on lengths and not on what is written
exact = copy.deepcopy(small).double()  # in float64 no rounding decides between two tokens
trace = load_trace()  # requests with prompts, answer lengths and arrival times, the same for everybody
token_bytes = 2 * config.n_layers * config.n_kv_heads * config.head_dim * 4  # keys and values, float32
n_prompt, n_output = sum(a.n_prompt_tokens for a in trace), sum(a.n_output_tokens for a in trace)
print(
    f"the trace: {len(trace)} requests in {trace[-1].seconds:.1f} s, {n_prompt:,} prompt tokens, {n_output:,} to write"
)
print(f"the target keeps {token_bytes:,} bytes a token")

# %% [markdown]
# ## The idea in plain words
#
# **The bus and the ski lift.** A bus waits at the stop, takes whoever is there, and lets nobody on until the last
# passenger has got off at the terminus. Most seats are empty most of the way. A ski lift never stops: a chair that comes
# down empty is taken by the next in the queue. The lift does not run faster. It just carries somebody on every chair.
#
# A batch of requests works like one or the other. A **slot** is a seat: one sequence in the batch. **Static batching** is
# the bus: a batch runs until its longest answer is written. **Continuous batching** is the lift: after each pass, whoever
# has finished leaves and somebody from the queue takes the slot.

# %%
answers = [9, 3, 5, 2, 4, 6, 3, 8, 2, 5]
static = batching.simulate_static_batching(answers, n_slots=4)
continuous = batching.simulate_continuous_batching(answers, n_slots=4)
for name, run in (("static", static), ("continuous", continuous)):
    fig = figures.draw_timeline(run, f"{name}: {run.n_steps} passes", n_steps=static.n_steps)
    how = "long hatched stretches after each short request" if name == "static" else "hatching only at the very end"
    figures.show(fig, f"{name.capitalize()} batching of ten requests in four slots: {run.n_steps} passes, {how}.")

# %% [markdown]
# Each box is a decoding request, one token a pass; hatched slots are empty. The hatching costs as much as the
# boxes: the weights are loaded for the pass either way.
#
# **Loose sheets.** The second half of the week is about memory. Nobody knows how long an answer will be. A clerk who gives
# every visitor a bound notebook of 300 pages, because one of them might fill it, soon runs out of shelf. Give out loose
# sheets instead, one at a time, from one stack, and write on an index card which sheets belong to whom, in order. That is
# **paging**: the sheets are *blocks* of the cache, the index card is a *block table*. Two visitors whose notes begin alike
# can even share sheets, until one of them wants to write on a shared one and copies it first.
#
# Batching went through three stages:
#
# | | who is in a pass | who waits |
# |---|---|---|
# | static | a fixed group, until its longest answer is done | everybody else, and all who are done but cannot leave |
# | dynamic | whoever has come when the server is free, or within a few milliseconds | the same: the group is formed late, but then fixed |
# | continuous (Yu 2022) | decided anew before *every* pass | only those for whom there is no slot or no memory |
#
# The first two differ in how a group is formed, not in how it ends. Below, "static" forms a group of those who have arrived
# and does not wait for more.

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | B | sequences in the batch | `n_slots`, `max_running` |
# | S | positions in the cache of a sequence | `table.length` |
# | T | positions of one sequence run in this pass: 1 when it writes, more in prefill | `n_tokens` of `Work` |
# | g | positions in a block (say "granularity") | `block_size` |
# | p | a position of a sequence, from 0 | |
# | w | bytes of the weights that a pass reads | `weight_bytes` |
# | s | bytes of one sequence's cache | `kv_bytes` |
# | n | parameters multiplied at each position | `n_params` |
# | W, P | the chip's bandwidth (bytes a second) and peak arithmetic (operations a second) | `Hardware` |
# | L, K, H | layers, key/value heads, numbers in a head: a token's cache is 2 · L · K · H numbers | |
#
# GB is 10⁹ bytes. A **step** or **pass** is one run of the model. **Prefill** is what runs the tokens of a prompt, many in
# a pass; **decode** is what writes, one token of each request a pass. **TTFT** is the time to the first token, **TPOT** the
# time per output token after it.

# %% [markdown]
# ### Prediction 1
#
# On your machine: how many times as long as a decode pass for one request does a pass for 16 take? And so, how many times
# as many tokens a second does it write?

# %%
my_guess_for_16 = 16.0  # times as long as a pass for one; change it

# %%
batches, context = [1, 2, 4, 8, 16, 32], 64


def decode_pass(n_rows):
    """A pass that adds one token to each of n_rows sequences of `context` tokens."""
    cache = target.new_cache(n_rows, context + 1)
    cache.advance(context)  # what is in the cache does not matter for the time
    new = torch.ones(n_rows, 1, dtype=torch.long)

    @torch.inference_mode()
    def run():
        target(new, cache)  # the cache is not advanced, so every run is the same one

    return run


seconds = side_by_side({n: decode_pass(n) for n in batches}, repeats=25)
for n in batches:
    print(f"{n:2} requests: {seconds[n] * 1e3:6.2f} ms a pass, {n / seconds[n]:7,.0f} tokens/s")
print(f"16 requests take {seconds[16] / seconds[1]:.1f} times as long as one; you said {my_guess_for_16:.1f}")
print(f"so together they get {16 * seconds[1] / seconds[16]:.1f} times the tokens a second")

# %%
fig, axes = figures.figure(8.4, 3.4, columns=2)
axes[0].plot(batches, [seconds[n] / seconds[1] for n in batches], "o-", color=figures.BLUE, label="measured here")
axes[0].plot(batches, batches, "--", color=figures.GREY, label="if each request cost a pass")
axes[1].plot(batches, [n / seconds[n] for n in batches], "o-", color=figures.BLUE)
axes[0].set(xlabel="requests in the pass, B", ylabel="time, in passes for one", ylim=(0, 16))
axes[1].set(xlabel="requests in the pass, B", ylabel="tokens a second, all together", ylim=(0, None))
axes[0].legend(fontsize=8.5)
figures.show(
    fig,
    "Left: the time of a pass against the requests in it rises far more slowly than the dashed diagonal. Right: the "
    "tokens written a second rise with the number of requests.",
)

# %% [markdown]
# Each user gets their tokens somewhat more slowly, all together get many more. These two always move in opposite
# directions: the batch is the knob between them. (On a CPU much of a small pass is the fixed cost of starting a few
# hundred operations; on a GPU it is loading the weights. The shape is the same.)

# %% [markdown]
# ## Batching by hand
#
# Four requests need **4, 1, 1, 1** tokens, and there are two slots.
#
# | step | static | | continuous | |
# |---|---|---|---|---|
# | | slot 0 | slot 1 | slot 0 | slot 1 |
# | 1 | 0 | 1 | 0 | 1 |
# | 2 | 0 | – | 0 | 2 |
# | 3 | 0 | – | 0 | 3 |
# | 4 | 0 | – | 0 | – |
# | 5 | 2 | 3 | | |
#
# Static: 5 steps of 2 slots are 10 seats, of which 4 + 1 + 1 + 1 = 7 are taken: **70 %**. Continuous: 4 steps, 8 seats,
# 7 taken: **87.5 %**. The requests end after 4, 1, 5, 5 steps (mean 3.75) or after 4, 1, 2, 3 (mean 2.5).
#
# Now 64 requests at once, one of which wants **500** tokens and the others **50**. In one static batch of 64, all but one
# are done after 50 passes; the server then makes 500 − 50 = **450 passes for a single request**. Seats: 500 · 64 = 32,000.
# Taken: 500 + 63 · 50 = 3,650, which is 11.4 %.
#
# Try one yourself: the same 64 requests, but 8 slots, with the long one first. How many steps does each kind take?
#
# <details><summary>Answer</summary>Static: the first batch of eight takes 500, each of the other seven batches 50: 850
# steps. Continuous: the long one keeps a slot for 500 steps; the other seven slots share 63 requests, nine each, 450
# steps. So 500, all of it hidden behind the long one. (If the long one comes <em>last</em>, both take 850: nobody can
# foresee it.)</details>
#
# ### As equations
#
# $$\text{utilisation} = \frac{\sum_i \text{need}_i}{\text{steps} \cdot \text{slots}}$$
#
# For one full static batch the steps are the largest need, so its utilisation is **mean over maximum**:
#
# $$\frac{\sum_i \text{need}_i}{B \cdot \max_i \text{need}_i} = \frac{\overline{\text{need}}}{\max_i \text{need}_i}$$
#
# The more unequal the answers, the worse. Answers of chat models are very unequal.
#
# It lives in `nanolm/workload/simulation.py`. First the record of a run: a *timeline* with one row a step, in each row a request number
# or None for each slot. `_steps_at_work`, which is given, maps a request to the list of steps in which it ran.

# %%
from nanolm.workload import ServingRun  # exercise: utilisation, finished_at, waited, latencies
# points: 4
# minutes: 12
# difficulty: 1
# tested: Request 0 in a slot, steps in which nothing runs, a run without a step, and ends, waits and latencies of
#   requests that arrive at step 1.
# why: These four numbers are what a scheduler is judged by. Two benchmarks that count them in different ways cannot be
#   compared.
# hint: An empty slot is None; request 0 is not empty. Steps are numbered from 0, so a request whose last step is number 2
#   had ended when 3 steps had been run. A request that never ran is not in `_steps_at_work`: `get` with a default.

# %% [markdown]
# Now the two simulators. Two helpers are imported for you, and both simulators begin alike:
#
# | helper | what it does |
# |---|---|
# | `waiting_line(needs, n_slots, arrivals)` | checks everything; returns a deque of the requests that need a step, in order, and the arrivals as a tuple |
# | `take_arrived(waiting, arrivals, step, most)` | takes requests that have arrived by this step off the front of the line, at most `most` |

# %%
from nanolm.workload import simulate_static_batching  # exercise: simulate_static_batching
# points: 4
# minutes: 15
# difficulty: 2
# tested: 4, 1, 1, 1 in two slots; 64 requests with one long; a batch formed of those who have arrived, full or not; order
#   and slots; random loads against an independent count, batch by batch; no requests, requests for nothing, and refusal of bad input.
# why: It is how most first attempts at a model server work, and you should know its price before you pay it.
# hint: An outer loop while somebody waits: form a batch. An inner loop over the steps of that batch, as many as its
#   largest need; in step `done` a request is at work if it needs more than that. If nobody has arrived, one empty step
#   passes: `max(..., default=1)` does that without an `if`.

# %%
from nanolm.workload import simulate_continuous_batching  # exercise: simulate_continuous_batching
# points: 5
# minutes: 20
# difficulty: 2
# tested: 4, 1, 1, 1 in two slots; a long request first and last; joining while others run; the lowest free slot first;
#   random loads against an independent count, request by request; no requests, requests for nothing, and refusal of bad input.
# why: It is the idea that raised the throughput of servers several times over, in fifteen lines.
# hint: Keep two lists: who sits in each slot, and how many steps each request has left (a copy: `needs` is the caller's).
#   A step has three parts: fill the free slots, note the row, count down and empty the slots whose request is done. What
#   is appended to the timeline must not change later.

# %% [markdown]
# The worked example and the long request, in *your* simulators.

# %%
# needs 6.1 to 6.3
loads = {"4, 1, 1, 1 in two slots": ([4, 1, 1, 1], 2), "one of 500 first, 63 of 50, 8 slots": ([500] + 63 * [50], 8)}
loads["63 of 50, one of 500 last, 8 slots"] = (63 * [50] + [500], 8)
loads["one of 500, 63 of 50, 64 slots"] = ([500] + 63 * [50], 64)
simulators = {"static": simulate_static_batching, "continuous": simulate_continuous_batching}
for load_name, (needs, n_slots) in loads.items():
    runs = {name: simulate(needs, n_slots) for name, simulate in simulators.items()}
    print(f"{load_name:36}", end="")
    for name, run in runs.items():
        print(f"  {name}: {run.n_steps:3} steps, {run.utilisation:6.1%}, latency {run.mean_latency:6.2f}", end="")
    print()

# %%
needs = [500] + 63 * [50]
for name, simulate in simulators.items():
    run = simulate(needs, 8)
    fig = figures.draw_timeline(
        run, f"{name}: {run.n_steps} steps, {run.utilisation:.0%} of the slots at work", n_steps=850
    )
    shape = (
        "seven of eight slots hatched for 450 steps" if name == "static" else "seven slots full beside the long request"
    )
    figures.show(fig, f"{name.capitalize()} batching of one request of 500 steps and 63 of 50 in eight slots: {shape}.")

# %% [markdown]
# ### Prediction 2
#
# Requests arrive by chance, and answers have lengths as in the trace: 16 to 149 tokens, 38 on average. 32 slots. The load
# rises until it is nearly all that the slots could ever do. At a load of 20 % of that, how many steps does a request wait
# for its slot on average, with static and with continuous batching?

# %%
my_static_wait, my_continuous_wait = 0.0, 0.0  # steps; change both

# %%
# needs 6.1 to 6.3
many = poisson(1.0, 900, seed=6, requests=list(trace))
needs, n_slots = [a.n_output_tokens for a in many], 32
shares = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
waits = {name: [] for name in simulators}
for share in shares:
    # A load of 1 brings n_slots / mean need requests a step; `many` brings one a second.
    arrivals = many.steps(share * n_slots / statistics.fmean(needs))
    for name, simulate in simulators.items():
        waits[name].append(statistics.fmean(simulate(needs, n_slots, arrivals).waited))
fig, ax = figures.figure()
for (name, line), colour in zip(waits.items(), (figures.RED, figures.BLUE), strict=True):
    ax.plot(shares, line, "o-", color=colour, label=name)
ax.set(xlabel="load, as a share of what the slots can do", ylabel="mean wait for a slot, steps", ylim=(-5, 400))
ax.legend()
figures.show(
    fig,
    "Mean wait for a slot against the load. Static batching waits tens of steps at every load, and beyond a load of "
    "about 30 % the wait leaves the picture. Continuous batching waits for next to nothing until the load is "
    "close to what the slots can do.",
)
at = shares.index(0.2)
print(f"at 20 %: static {waits['static'][at]:.0f} steps, you said {my_static_wait:g};", end=" ")
print(f"continuous {waits['continuous'][at]:.1f}, you said {my_continuous_wait:g}")

# %% [markdown]
# The blue line stays on the floor until the slots are nearly full. The red one starts high, because a newcomer waits for
# a whole batch to end even when most slots are empty. And beyond a load of about 30 % the bus is too slow. Of its seats it
# fills mean over maximum. The longest of 32 answers has 116 tokens on average, so that is 38/116, a third at best. The
# queue then grows for as long as requests come. (Its height there says only how long we looked.) That is why chat servers batch continuously: the same machine, three times
# the load, and no wait for strangers.

# %% [markdown]
# ## What limits the batch
#
# If a larger batch is cheaper per token, why not 10,000? Let us compute a decode pass of an 8B model (15 GB of weights
# read, n = 7.5·10⁹ parameters multiplied; the embedding is looked up) on a chip with W = 3.35 TB/s and P = 10¹⁵
# operations a second. Every request has 1,024 tokens in its cache: s = 1,024 · 131,072 B = 134,217,728 B.
#
# $$t(B) = \frac{B\,s}{W} + \max\!\left(\frac{w}{W},\; \frac{2\,n\,B}{P}\right)$$
#
# The weights are loaded once for all, 15·10⁹ / 3.35·10¹² = 4.48 ms. Each cache is read by its owner alone: 0.134·10⁹ /
# 3.35·10¹² = 0.0401 ms a request. The arithmetic takes 2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms a request, and overlaps with the
# loading of the weights.
#
# | B | weights | caches | reading | tokens/s | arithmetic |
# |---:|---:|---:|---:|---:|---:|
# | 1 | 4.48 ms | 0.04 ms | **4.52 ms** | 1 / 4.52 ms = **221** | 0.02 ms |
# | 16 | 4.48 | 16 · 0.0401 = 0.64 | **5.12** | **3,126** | 0.24 |
# | 64 | 4.48 | 2.56 | **7.04** | **9,089** | 0.96 |
# | 256 | 4.48 | 10.26 | **14.73** | **17,374** | 3.84 |
# | 476 | 4.48 | 19.07 | **23.55** | **20,214** | 7.14, more than 4.48 |
#
# The last line needs care. Up to 4.48 / 0.015 = 298 requests the arithmetic hides behind the loading of the weights, and
# reading is the whole time. With 476 the arithmetic takes 7.14 ms, and the pass 19.07 + 7.14 = **26.2 ms**, which is
# **18,160 tokens/s**. The 23.55 ms are what reading alone takes: the bound for a chip whose arithmetic is free. Real
# passes take 1.2 to 2 times as long as such bounds; ratios hold better than values.
#
# At B = 256 the pass reads 256 · 0.1342 = **34.4 GB of caches** and 15 GB of weights: 34.4 of 49.4 GB are caches. The
# throughput levels off at W/s = 25,000 tokens/s, since each token has to read its own cache, and nobody shares that.
#
# And 476 is where memory ends. It holds 16 GB of weights, for the embedding has to be there too: 80 − 16 = 64 GB are left,
# and 64·10⁹ / 134,217,728 = 476.8. **The batch is limited by the
# cache, not by the arithmetic.** To serve more requests, waste less cache.

# %%
chip = Hardware("round numbers", 80e9, 3.35e12, 1e15, 3.0)
model_numbers = {"n_params": 7.5e9, "weight_bytes": 15e9, "hardware": chip}
sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 298, 360, 420, 476]
cache = 1024 * 131_072
total = [decode_step_time(B, kv_bytes=cache, **model_numbers) for B in sizes]
reading = [(15e9 + B * cache) / 3.35e12 for B in sizes]
for B in (1, 16, 64, 256, 476):
    i = sizes.index(B)
    print(f"B = {B:3}: reading {reading[i] * 1e3:5.2f} ms, {B / reading[i]:7,.0f} tokens/s;", end=" ")
    print(f"with arithmetic {total[i] * 1e3:5.2f} ms, {B / total[i]:7,.0f} tokens/s")

# %%
fig, axes = figures.figure(8.4, 3.6, columns=2)
axes[0].stackplot(
    sizes,
    [
        [15e9 / 3.35e9] * len(sizes),
        [B * cache / 3.35e9 for B in sizes],
        [1e3 * (t - r) for t, r in zip(total, reading, strict=True)],
    ],
    labels=["weights", "caches", "arithmetic not hidden"],
    colors=[figures.BLUE + "90", figures.ORANGE + "90", figures.RED + "90"],
)
axes[1].plot(
    sizes, [B / r for B, r in zip(sizes, reading, strict=True)], "--", color=figures.GREY, label="reading alone"
)
axes[1].plot(sizes, [B / t for B, t in zip(sizes, total, strict=True)], color=figures.BLUE, label="with arithmetic")
axes[1].axhline(3.35e12 / cache, color=figures.ORANGE, linewidth=1, label="ceiling W/s: every token reads its cache")
axes[0].set(xlabel="requests in the batch, B", ylabel="time of a pass, ms", xlim=(0, 476))
axes[1].set(xlabel="requests in the batch, B", ylabel="tokens a second", xlim=(0, 476), ylim=(0, 26_500))
axes[0].legend(loc="upper left", fontsize=8.5)
axes[1].legend(loc="lower right", fontsize=8.5)
figures.show(
    fig,
    "Left: the time of a pass, stacked. The weights are a constant band, the caches a wedge that outgrows it from "
    "about 110 requests on, and from 298 on a thin wedge of arithmetic is added. Right: tokens a second rise "
    "steeply at first. The dashed line of reading alone bends towards a ceiling of 25,000, the solid one is flat "
    "from 298 on, at 18,160.",
)

# %% [markdown]
# Left, the blue band is what all share, the orange wedge what nobody shares. Right, the solid line is flat from 298
# requests on. There a request more adds 0.04007 ms of reading and 0.01500 ms of arithmetic to the pass, and 1 / 0.05507 ms
# is about 18,160 a second.
#
# ## Two ways to keep a cache
#
# **Reservation.** When a request starts, nobody knows how long it gets. A tensor wants its place in one piece, so early
# servers reserved room for the longest text allowed. Three things are lost: what is *reserved* for tokens not yet
# written; what is reserved for tokens that are *never* written; and the holes *between* reservations that are too small for
# another (external fragmentation).
#
# With an average of 1,000 tokens and reservations for 8,192, the share in use is at most 1,000/8,192 = 12 %.
#
# **Paging.** The memory is cut into blocks of g positions. A request gets a block when its last one is full. Blocks of
# one request can lie anywhere. What is lost is the empty part of each request's last block: at most g − 1 positions, and
# about (g − 1)/2 on average. Holes between blocks cannot be too small, since all blocks are equal.
#
# $$\text{blocks}(S) = \left\lceil \frac{S}{g} \right\rceil \qquad \text{slot}(p) = g \cdot \text{table}\!\left[\left\lfloor \frac{p}{g} \right\rfloor\right] + p \bmod g$$
#
# (The word *slot* has a second meaning here: the place of one position in the pool. The pool's slots are numbered through,
# block after block.)
#
# **By hand.** Blocks of g = 4. A request holds the blocks 7, 2, 5, in this order, and has 10 positions. Where is position
# 9? 9 // 4 = 2, the third block, which is block 5; 9 mod 4 = 1, the second place in it. Slot 4 · 5 + 1 = **21**. Position
# 0 is in slot 28, position 5 in slot 9. The table is what keeps the order; the numbers need none.
#
# How does attention find its way? It reads the table. On a GPU a kernel follows it block by block (`nanolm/kernels/` has
# one); here `PagedKVCache` in `nanolm/paging/paged_cache.py` gathers the blocks first. Masks and positions are as before: paging
# moves numbers, it changes none.
#
# The books are in `nanolm/paging/blocks.py`, without a single tensor. First the stack of free sheets. A block may have several
# **holders** (you will soon see who), so each has a count of references. 0 references: it is free.

# %%
from nanolm.paging import BlockAllocator  # exercise: allocate, share, free
# points: 4
# minutes: 12
# difficulty: 1
# tested: Each block is given once, one holder at first, an empty pool, the block freed last is taken first, a shared
#   block survives its first holder, a free block can be neither shared nor freed, and a refusal changes nothing.
# why: A block given to two requests mixes their texts, without any error. A block never given back is memory lost until
#   restart.
# hint: `self._free` is a list used as a stack, `self._references` counts the holders of each block.
#   `self.references(block)` also refuses a number outside the pool, which `self._references[-1]` would not. A block
#   returns to the stack when its count reaches 0, not before.

# %% [markdown]
# Now the index card. `append(n)` reserves n more positions, and there is one subtlety.
#
# **Forks.** Sometimes a text is to be continued in several ways: four answers to one question, an attempt and its retry,
# or a *beam search*, which writes several candidates on and keeps the likeliest. `fork` gives a second table over the *same* blocks; each has one more holder. Nothing is copied, as long as both
# only read. What happens when they write? Take blocks of 4, and two tables of 6 positions over blocks 0 and 1:
#
# | | twin's table | original's table | references of 0, 1, 2 |
# |---|---|---|---|
# | after the fork | 0, 1 | 0, 1 | 2, 2, 0 |
# | the twin appends position 6: it falls into block 1, which others read | 0, **2** (block 1 is copied to 2) | 0, 1 | 2, 1, 1 |
# | the original appends position 6: block 1 has one holder again | 0, 2 | 0, 1 (no copy) | 2, 1, 1 |
#
# This is **copy on write**. Block 0 is full, so nobody will write into it, and it stays shared to the end. Only a *partly
# filled last* block is ever copied. `append` returns the copies to make, as pairs (from, to); whoever has the tensors makes
# them.
#
# Given: `blocks_needed(n)`, the free blocks that `append(n)` takes in all, that for a copy included; `_must_copy(n)`,
# whether the first of n new positions falls into a block that others hold too.

# %%
from nanolm.paging import BlockTable  # exercise: slot_mapping, append, fork
# points: 8
# minutes: 30
# difficulty: 3
# tested: Slots of a scattered table, of blocks of one, and positions that are not reserved. Append: a block when the last
#   one is full and not before, many positions at once, copy on write and who keeps which block, no copy behind a full
#   block or for nothing, and a table unchanged when there is no room. Fork: every block shared, none copied, a list of
#   its own.
# why: This is the page table of PagedAttention. `append` runs for every request in every pass.
# hint: In append, ask before you take: compare `blocks_needed(n)` with what is free. Then the copy: a block of your own
#   in the place of the last one, whose reference you give back. Then as many new blocks as the new length needs. In fork,
#   `share` each block and copy the list.

# %% [markdown]
# Two requests, a fork and a copy, in *your* tables. Below, a box is a block, a bar in it how much of it is filled.


# %%
# needs 6.4 and 6.5
def draw_pool(allocator, tables, block_size, title=""):
    """A pool's blocks in order, each with the names of the tables that hold it and its filled part."""
    fig, ax = figures.figure(7.2, 1.5)
    for block in range(allocator.n_blocks):
        holders = [name for name, table in tables.items() if block in table.blocks]
        ax.add_patch(figures.plt.Rectangle((block, 0), 0.9, 1, fill=False, edgecolor=figures.GREY))
        if holders:
            table = tables[holders[0]]
            filled = min(block_size, table.length - table.blocks.index(block) * block_size) / block_size
            colour = (
                figures.ORANGE if len(holders) > 1 else figures.LINES[(0, 2, 4)[list(tables).index(holders[0]) % 3]]
            )
            ax.add_patch(figures.plt.Rectangle((block, 0), 0.9 * filled, 1, facecolor=colour + "50"))
        ax.text(block + 0.45, 0.5, ", ".join(holders) or "free", ha="center", va="center", fontsize=9)
        ax.text(block + 0.45, -0.3, str(block), ha="center", fontsize=8.5, color="#555555")
    ax.set(xlim=(-0.1, allocator.n_blocks), ylim=(-0.45, 1.1), title=title)
    ax.set_axis_off()
    return fig


pool = BlockAllocator(8)
a, b = BlockTable(pool, 4), BlockTable(pool, 4)
for n_a, n_b in ((3, 2), (3, 5), (0, 2)):  # they grow in turns, so their blocks lie mixed
    a.append(n_a)
    b.append(n_b)
twin = a.fork()
tables = {"a": a, "b": b, "twin": twin}
figures.show(
    draw_pool(pool, tables, 4, "after the fork"),
    "Eight blocks. a and twin share two blocks, orange, the second half full. b has three blocks of its own, one "
    "partly filled. The blocks of a and b lie mixed. Three are free.",
)
print(f"positions 0 to 5 of a are in slots {a.slot_mapping(0, 6)}")
print(f"the twin appends one position; to copy: {twin.append(1)}")
print(f"a appends one position; to copy: {a.append(1)}")
figures.show(
    draw_pool(pool, tables, 4, "after both have written"),
    "a and twin still share their first block; each now has a second block of its own, three quarters full. Two "
    "blocks are free.",
)

# %% [markdown]
# And the tensors. Below, keys and values of two sequences are written through your slots into one pool and read back
# through your tables.

# %%
# needs 6.4 and 6.5
pool, store = BlockAllocator(12), PagedKVCache(config, n_blocks=12, block_size=4)
first, second = BlockTable(pool, 4), BlockTable(pool, 4)
written = {0: [], 1: []}
for n in (3, 5, 1, 4):
    for which, table in enumerate((first, second)):
        start = table.length
        table.append(n)
        k, v = torch.randn(2, config.n_kv_heads, n, config.head_dim)
        store.write(0, k, v, torch.tensor(table.slot_mapping(start, table.length)))
        written[which].append(k)
rows = torch.tensor([first.blocks, second.blocks])
keys, _ = store.read(0, rows)  # (B, K, S, H)
for which, table in enumerate((first, second)):
    same = torch.equal(keys[which, :, : table.length], torch.cat(written[which], dim=1))
    print(f"blocks {table.blocks}: {table.length} positions come back in order: {same}")

# %% [markdown]
# ## Sizing: by the mean or by the tail?
#
# How many requests may run at once? Suppose the pool has room for 20,000 positions, and texts have lengths as users'
# texts do: many short ones and a few very long. If you divide by the mean length, the pool is just full *on average*. In
# every group of requests that is longer than average, it is too small.
#
# ### Prediction 3
#
# You let as many run as fit at the mean length. How often is the pool too small?

# %%
my_overflow_at_the_mean = 0.5  # as a share of the time; change it

# %%
lengths = heavy_tailed_lengths(20_000, 100, 8000, seed=6)
room, chance = 20_000, random.Random(6)
mean, p95 = statistics.fmean(lengths), statistics.quantiles(lengths, n=20)[-1]
at_mean, at_p95 = int(room // mean), int(room // p95)
print(f"mean {mean:.0f} tokens, 95 % have at most {p95:.0f}, the longest {max(lengths):,}")
print(f"by the longest {room // max(lengths)} requests fit, by the 95 % {at_p95}, by the mean {at_mean}")


def overflows(n, groups=800):
    """How often n requests that meet by chance need more than the room."""
    return sum(sum(chance.choices(lengths, k=n)) > room for _ in range(groups)) / groups


counts = sorted({*range(2, at_mean + 20, 4), at_p95, at_mean})
share = {n: overflows(n) for n in counts}
fig, ax = figures.figure()
ax.plot(counts, [100 * share[n] for n in counts], "o-", color=figures.BLUE, markersize=4)
for at, text in ((at_p95, "by the 95 %"), (at_mean, "by the mean")):
    ax.axvline(at, color=figures.GREY, linestyle="--", linewidth=1)
    ax.text(at + 0.5, 92, text, fontsize=8.5, color="#555555")
ax.set(xlabel="requests that run at once", ylabel="pool too small, % of the time", ylim=(-2, 100))
figures.show(
    fig,
    "How often the pool is too small against the number of requests. Almost never at the number computed from the "
    "95 % length; about four times in ten at the number computed from the mean; nearly always beyond it.",
)
print(f"sized by the mean, it is too small {share[at_mean]:.0%} of the time; you said {my_overflow_at_the_mean:.0%}")

# %% [markdown]
# This is the classical failure: **out of memory only when several long requests meet.** No test with typical prompts
# finds it. So size with the length that 95 % stay below (p95), the batch that you want, and 10 to 20 % headroom, and let
# the server do something sensible in the remaining cases. What is sensible? Nobody's work should be lost, and nobody
# should wait for ever. That is the scheduler's business.

# %% [markdown]
# ## The scheduler
#
# Every request is the same thing at every time: a list of tokens of which the first `n_computed` are in the cache. The
# others are *pending*. A prompt has many pending tokens, a decoding request has one. So prefill, prefill in chunks,
# decoding and "begin again after a loss" are **one rule: run pending tokens, as many as the budget of the pass allows.**
#
# The budget, `max_tokens_per_step`, bounds the length of a pass, since everybody in it waits for all of it. Decoding
# requests come first, with one token each. What is left goes to prompts, in chunks if need be (Agrawal 2023). All tokens
# of a pass lie one behind the other in one row (`nanolm/varlen/varlen_batch.py`: a batch of variable lengths), so a prompt's chunk
# and others' single tokens share one loading of the weights.
#
# **By hand.** A budget of 8 tokens a pass. a has a prompt of 5, b one of 9, both want 3 tokens.
#
# | pass | a runs | b runs | what happens |
# |---|---|---|---|
# | 1 | 5 | 3 | a's whole prompt: its first token. b's first chunk |
# | 2 | 1 | 6 | a's second token. b's prompt is complete: its first token |
# | 3 | 1 | 1 | a's third token: done. b's second |
# | 4 | | 1 | b's third: done |
#
# a needed 5 + 2 = 7 positions, not 8: the last token is written and never run. TTFT of b: two passes. Had b been admitted
# only when a was done, it would have been five: three of a's, one for 8 tokens of b's prompt, one for the last.
#
# **Admission.** Strictly in the order of the queue. If the first in the queue does not fit, nobody behind it overtakes, or a
# long request would wait for ever on a busy server. It fits if there are blocks for *all* its pending tokens, although
# only a chunk runs in this pass: half a prompt is of no use to anybody. Nothing is reserved for the answer. That is the
# bet of paging: not all will be long at once.
#
# **Preemption.** Sometimes the bet is lost: a decoding request needs a block and none is free. Then the one that *came
# last* is preempted. Its blocks are taken, its tokens are kept, and it waits *before* everybody else. When there is room, it
# runs all its tokens again as if they were a prompt, the tokens of its own answer among them. Its text goes on as if
# nothing had happened.
#
# Given, in the class below:
#
# | helper | what it does |
# |---|---|
# | `self._may_fit(request)` | whether there may be room for a waiting request; quick, changes nothing |
# | `self._take_prefix(request)` | lets its table begin with what the prefix cache (week 7) has of its beginning; without one, nothing |
# | `self._free_up(n)` | whether n blocks are free, after evicting from the prefix cache if that helps |
# | `request.table.blocks_needed(n)`, `request.table.append(n)` | this week's table |
# | `self._forget_blocks(request)` | gives all its blocks back and counts nothing as computed |
# | `request.n_pending`, `request.n_computed` | its tokens that have to run; its tokens that are in the cache |
# | `request.draft` | a list of drafted tokens (week 4); empty where nothing drafts |
# | `request.n_prefix_tokens`, `request.n_preemptions` | two counts that you keep: tokens that the prefix cache spared it, and how often it was preempted |
# | `plan.work`, `plan.admitted` | the lists that `admit` adds to |
# | `Work(request, n)` | one entry of `plan.work` |

# %%
from nanolm.engine import Scheduler  # exercise: admit, preempt
# points: 8
# minutes: 35
# difficulty: 3
# tested: Admit: order, no overtaking, room for the whole prompt to the last block, blocks taken earlier in the same pass,
#   the budget for all newcomers together, max_running, what the prefix cache spares, one token left to run, the prefix
#   given back if there is no room, eviction only if it helps. Preempt: blocks and tokens, the place in the queue, the
#   draft, shared blocks.
# why: These two decide who waits. A mistake here is a server that hangs under load, or serves one user twice and another
#   never.
# hint: admit is a loop with four conditions in its head and body: somebody waits, a place is free, budget is left, the
#   first one fits. Take its prefix before you count the blocks it needs, and give the prefix back if there are too few.
#   Only then move it from `waiting` to `running`. It runs `min(request.n_pending, budget)` tokens, whose positions you
#   reserve, and you lower the budget. preempt is five lines; `appendleft` is the important one.

# %% [markdown]
# ## Your parts in the engine
#
# `nanolm/engine/engine.py` is the whole server in one method: `step` schedules a pass (`scheduler.schedule`), lets
# `nanolm/engine/model_runner.py` compute it, and gives every request its tokens. It looks into neither the scheduler nor the tables,
# so yours can take their place. From here on every token is served by *your* `admit`, on *your* tables, out of *your* pool.


# %%
# needs 6.4 to 6.6
def new_engine(
    n_blocks=2048,
    block_size=16,
    max_running=32,
    max_tokens_per_step=512,
    model=target,
    prefix=False,
    reserve=0,
    **options,
):
    """An engine with your scheduler, tables and allocator in it."""
    engine = Engine(model, n_blocks=n_blocks, block_size=block_size, prefix_cache=False, **options)
    pool = BlockAllocator(n_blocks)
    tree = RadixCache(pool, block_size) if prefix else None
    engine.scheduler = Scheduler(pool, block_size, max_running, max_tokens_per_step, tree, reserve)
    return engine


# The schedule from above: prompts of 5 and 9 tokens, three new ones each, 8 tokens a pass.
engine = new_engine(max_tokens_per_step=8)
for length in (5, 9):
    engine.add_request(trace[0].prompt[:length], 3, EXACTLY)
while engine.has_work:
    outputs = engine.step()
    record = engine.records[-1]
    told = ", ".join(
        f"{'ab'[output.id]} gets a token{' and ends' if output.finish_reason else ''}" for output in outputs
    )
    print(f"prompt tokens run: {record.n_prefill_tokens}, for decoding: {record.n_decode_tokens}; {told}")

# %% [markdown]
# ### The same request alone and with others
#
# What a request gets must not depend on who else is served. To see it, make life hard: a pool of 24 blocks for ten
# requests, chunks of at most 48 tokens a pass, a prefix cache. In float64, so that no rounding can decide between two
# tokens, and with the smaller model: the scheduler never looks at the model, and it is done sooner.

# %%
# needs 6.4 to 6.6
ten = trace[:10]
company = new_engine(model=exact, n_blocks=24, max_running=8, max_tokens_per_step=48, prefix=True)
together = replay_engine("with others", company, all_at_once(ten)).texts
alone = [exact.generate(list(a.prompt), a.n_output_tokens, EXACTLY) for a in ten]
metrics = company.metrics
print(f"{metrics.n_steps} passes, {metrics.n_preemptions} preemptions; ", end="")
print(f"{sum(x == y for x, y in zip(together, alone, strict=True))} of {len(ten)} texts as written alone")

# %% [markdown]
# In float32 or 16 bits, the promise has a small print. A larger matrix is multiplied in other pieces, so its sums are
# added up in another order, and the last bits of the logits can differ. Where two tokens are nearly equally probable,
# that decides.


# %%
@torch.inference_mode()
def scores(model, n_rows):
    """The logits after one prompt whose last token is run in a pass with n_rows - 1 others like it."""
    rows = torch.tensor([trace[0].prompt] * n_rows)
    cache = model.new_cache(n_rows, rows.shape[1])
    model(rows[:, :-1], cache)
    cache.advance(rows.shape[1] - 1)
    return model(rows[:, -1:], cache)[0, -1].double()


for name, model in (("float32", target), ("float64", copy.deepcopy(target).double())):
    off = max((scores(model, n) - scores(model, 1)).abs().max().item() for n in (2, 7, 16, 32))
    print(f"{name}: logits of one request in larger batches differ by at most {off:.1e}")

# %% [markdown]
# (0 is possible: it depends on the processor and its library.) Week 3 shows what such bits do to a text at temperature 0,
# and what it costs to rule them out.

# %% [markdown]
# ## Reservation against paging: how many fit?
#
# A pool of 128 blocks of 16 positions, 2,048 positions. The longest prompt of the trace has 193 tokens, the longest
# answer 149. Who reserves has to be ready for both: 342 positions, 22 blocks a request, whatever it needs.
#
# ### Prediction 4
#
# All 64 requests come at once. How many run at the same time, with reservation and with paging? For paging, compute with
# the mean text at half of its answer.

# %%
my_running_reserved, my_running_paged = 0, 0  # change both

# %%
# needs 6.4 to 6.6
n_blocks, block_size = 128, 16
longest = max(a.n_prompt_tokens for a in trace) + max(a.n_output_tokens for a in trace)
reserved_blocks = -(-longest // block_size)
fit_reserved = n_blocks // reserved_blocks
half_written = [-(-(a.n_prompt_tokens + a.n_output_tokens // 2) // block_size) for a in trace]
fit_paged = n_blocks / statistics.fmean(half_written)


def serve_in_pool(max_running):
    """Serve the trace at once; return the replay, the engine, and (running, positions in use) while somebody waited."""
    engine, seen = new_engine(n_blocks=n_blocks, max_running=max_running, model=small), []

    def look(n_new):
        running = engine.scheduler.running
        if engine.scheduler.waiting:
            seen.append((len(running), sum(request.table.length for request in running)))

    return replay_engine("", engine, all_at_once(trace), on_token=look), engine, seen


pools = {"reserved": serve_in_pool(fit_reserved), "paged": serve_in_pool(64)}
print(f"predicted: {fit_reserved} with reservation, {fit_paged:.1f} with paging; ", end="")
print(f"you said {my_running_reserved} and {my_running_paged}")
for name, (replay, engine, seen) in pools.items():
    running, used = (statistics.fmean(values) for values in zip(*seen, strict=True))
    print(
        f"{name:9} {running:4.1f} ran while others waited, {used / (n_blocks * block_size):4.0%} of the positions used,",
        end=" ",
    )
    print(
        f"{engine.metrics.n_steps} passes, {replay.tokens_per_second:5,.0f} tokens/s, "
        f"{engine.metrics.n_preemptions} preemptions"
    )

# %%
fig, axes = figures.figure(8.4, 3.4, columns=2, sharex=True)
for (name, (_, _, seen)), colour in zip(pools.items(), (figures.RED, figures.BLUE), strict=True):
    running, used = zip(*seen, strict=True)
    axes[0].plot(running, color=colour, label=name)
    axes[1].plot([100 * u / (n_blocks * block_size) for u in used], color=colour)
axes[0].set(xlabel="pass", ylabel="requests that run", ylim=(0, None))
axes[1].set(xlabel="pass", ylabel="pool in use, %", ylim=(0, 100))
axes[0].legend()
figures.show(
    fig,
    "Two panels over the passes while requests wait. With reservation five requests run and a fifth of the pool is in "
    "use on average, never more than a third. With paging some twenty run, most of the pool is in use, and the queue "
    "is empty much sooner.",
)

# %% [markdown]
# The same memory, more than four times the requests in a pass, a third of the passes, and about twice the tokens a second
# (more, where a pass is longer than the engine's own work, as with a larger model). What is left unused with paging are
# the ends of last blocks and now and then a few blocks, too few for the next in the queue. And there is a price in the
# last column: admission fills the pool with fresh, short texts, and then they all grow. So blocks run out, and some
# request is preempted.

# %% [markdown]
# ## What preemption costs
#
# A preempted request runs its tokens twice. Nothing else is lost. A request needs prompt + answer − 1 positions; what is
# run beyond that is the price. How high is it?
#
# ### Prediction 5
#
# The sixteen requests of the trace with the longest answers come at once. Complete, they need 127 blocks. With 48 blocks,
# what share of the positions is run twice? And how many more passes does it take than with enough blocks?

# %%
my_share_run_twice, my_share_more_passes = 0.0, 0.0  # change both

# %%
# needs 6.4 to 6.6
sixteen = all_at_once(sorted(trace, key=lambda a: -a.n_output_tokens)[:16])
all_blocks = sum(-(-(a.n_tokens - 1) // 16) for a in sixteen)  # the last token is written and never run
sizes = [24, 32, 40, 48, 64, 96, all_blocks]
again = {False: [], True: []}  # positions run, without and with a prefix cache
passes, preemptions, texts = [], [], []
for n_blocks in sizes:
    for prefix in (False, True):
        engine = new_engine(n_blocks=n_blocks, model=exact, prefix=prefix)
        texts.append(replay_engine("", engine, sixteen).texts)
        again[prefix].append(sum(record.n_prefill_tokens + record.n_decode_tokens for record in engine.records))
        if not prefix:
            passes.append(engine.metrics.n_steps)
            preemptions.append(engine.metrics.n_preemptions)
twice = {prefix: [n / line[-1] - 1 for n in line] for prefix, line in again.items()}  # the last size holds everything
longer = [n / passes[-1] - 1 for n in passes]
for i, n_blocks in enumerate(sizes):
    print(f"{n_blocks:3} blocks: {preemptions[i]:2} preemptions, {twice[False][i]:4.0%} run twice,", end=" ")
    print(f"{passes[i]:3} passes ({longer[i]:+.0%}); with a prefix cache {twice[True][i]:4.0%} run twice")
print(f"all {len(texts)} runs wrote the same texts: {all(t == texts[0] for t in texts)}")
at = sizes.index(48)
print(f"48 blocks: {twice[False][at]:.0%} run twice, you said {my_share_run_twice:.0%};", end=" ")
print(f"{longer[at]:.0%} more passes, you said {my_share_more_passes:.0%}")

# %%
fig, ax = figures.figure()
for line, style, colour, label in (
    (twice[False], "o-", figures.RED, "positions run twice"),
    (twice[True], "s--", figures.GREEN, "the same, with a prefix cache"),
    (longer, "^-", figures.BLUE, "passes more than with enough"),
):
    ax.plot(sizes, [100 * share for share in line], style, color=colour, label=label)
ax.axvline(all_blocks, color=figures.GREY, linewidth=1)
ax.text(all_blocks - 1.5, 75, "everything fits", ha="right", fontsize=8.5, color="#555555")
ax.set(xlabel="blocks in the pool", ylabel="% of what is needed", ylim=(-3, None))
ax.legend(fontsize=8.5)
figures.show(
    fig,
    "Against the size of the pool: a third to a half of the positions are run twice in every pool of up to 64 "
    "blocks, somewhat fewer with a prefix cache in most of them, and none where all fits. The passes are the same "
    "in number down to 48 blocks and more than double at 24.",
)

# %% [markdown]
# Two things to see. With anything from 24 to 64 blocks a third to a half of the positions (red) are run twice: admission
# fills the pool with fresh, short texts, all of them grow, and the last to come is preempted, often more than once. And
# still, with 48 blocks it takes hardly more passes (blue) than with enough: what has to run again runs *as a prompt*,
# many tokens in a pass that loads the weights anyway. Only below that the wait grows, and for another reason: fewer
# requests run side by side. With a prefix cache (green) the blocks that somebody gave up stay known until they are
# needed, so some are found again; few, where blocks are this scarce.
#
# Each preemption is a gap in somebody's text, though. A server that preempts all the time has admitted too many. It can
# keep some blocks back: newcomers leave a *reserve* free, as far as those who run may still need it for their answers.
# **Predict:** with a quarter of the blocks in reserve, how much is run twice in the pool of 48?

# %%
# needs 6.4 to 6.6
kept = []
for n_blocks in sizes:
    engine = new_engine(n_blocks=n_blocks, model=exact, reserve=n_blocks // 4)
    texts.append(replay_engine("", engine, sixteen).texts)
    n_run = sum(record.n_prefill_tokens + record.n_decode_tokens for record in engine.records)
    kept.append((n_run / again[False][-1] - 1, engine.metrics.n_steps))
for i, n_blocks in enumerate(sizes):
    print(
        f"{n_blocks:3} blocks: {twice[False][i]:4.0%} run twice without a reserve, {kept[i][0]:4.0%} with one;", end=" "
    )
    print(f"{passes[i]} and {kept[i][1]} passes")
print(f"all {len(texts)} runs wrote the same texts: {all(t == texts[0] for t in texts)}")

# %% [markdown]
# What the reserve costs is company: fewer run at a time, so that a pass serves fewer. `Engine` keeps a quarter back unless
# told otherwise (`reserve`); vLLM calls its share a *watermark* and keeps one hundredth, SGLang estimates how long answers
# will get and corrects itself.
#
# Instead of computing again, a server can also copy the
# blocks to CPU memory and back (*swapping*). Which is faster is a matter of two numbers, and week 7 measures them.

# %% [markdown]
# ## Chunked prefill: who waits for a long prompt?
#
# Eight requests decode. Then a prompt of 1,000 tokens arrives. If it may run in one pass, all eight wait for that pass. In
# chunks of 64 tokens a pass (8 of which go to the decoding requests), everybody's passes are short, but the newcomer needs
# eighteen of them.
#
# ### Prediction 6
#
# By what factor is the longest wait between two tokens of the decoding requests longer with a budget of 1,024 than with 64?

# %%
my_factor_of_longest_wait = 1.0  # change it


# %%
# needs 6.4 to 6.6
def long_prompt_arrives(budget):
    """Return the passes' times and lengths from the arrival of a long prompt on, and its TTFT, in seconds."""
    engine = new_engine(max_tokens_per_step=budget)
    for arrival in trace[:8]:
        engine.add_request(arrival.prompt, 60, EXACTLY)
    while engine.scheduler.waiting or any(not request.is_decoding for request in engine.scheduler.running):
        engine.step()
    for _ in range(5):
        engine.step()
    reading = [token for arrival in trace for token in arrival.prompt][:1000]
    before, newcomer = len(engine.records), engine.add_request(reading, 1, EXACTLY)
    ttft = None
    while ttft is None or len(engine.records) < before + 22:
        for output in engine.step():
            if output.id == newcomer and output.metrics is not None:
                ttft = output.metrics.ttft_seconds
    records = list(engine.records)[before:]
    return [r.at - records[0].at for r in records], [r.seconds for r in records], ttft


budgets = (64, 256, 1024)
long_prompt_arrives(1024)  # the first run is slower and does not count
tries = {budget: [] for budget in budgets}
for _ in range(2):
    for budget in budgets:
        tries[budget].append(long_prompt_arrives(budget))
shown = {budget: min(tries[budget], key=lambda t: max(t[1])) for budget in budgets}  # the one less disturbed
for budget, (_, waits, ttft) in shown.items():
    print(f"{budget:4} tokens a pass: decoding requests wait at most {max(waits) * 1e3:5.0f} ms for a token,", end=" ")
    print(f"the newcomer {ttft * 1e3:4.0f} ms for its first")
factor = max(shown[1024][1]) / max(shown[64][1])
print(f"the longest wait is {factor:.0f} times as long with 1,024; you said {my_factor_of_longest_wait:.0f}")

# %%
fig, ax = figures.figure(height=3.8)
for (budget, (at, waits, ttft)), colour in zip(shown.items(), (figures.BLUE, figures.ORANGE, figures.RED), strict=True):
    ax.plot(
        [1e3 * t for t in at],
        [1e3 * w for w in waits],
        "o-",
        color=colour,
        markersize=4,
        label=f"{budget:,} tokens a pass",
    )
    ax.plot(1e3 * ttft, 0, "v", color=colour, markersize=9, clip_on=False)
ax.set(xlabel="ms since the long prompt arrived", ylabel="length of the pass, ms", ylim=(0, None))
ax.legend(fontsize=8.5)
figures.show(
    fig,
    "Length of each pass after a long prompt has arrived. With 1,024 tokens a pass there is one very long pass, "
    "then short ones. With 64 all passes are short, and slightly longer while the prompt is read. Triangles on the "
    "axis mark when the newcomer gets its first token; with 64 that is latest.",
)

# %% [markdown]
# A dot is a pass, and its height is the wait for a token of every decoding request. Triangles mark the newcomer's first
# token. In red a text that was flowing stops for a moment, in blue it flows on, a little slower. The price is the
# newcomer's: with small chunks each pass loads the weights (here: starts its operations) for few tokens. In between there
# is a budget that gives nearly all of both. On a GPU it lies near the ridge, a few hundred to a few thousand tokens,
# where a pass just begins to be bound by arithmetic.

# %% [markdown]
# ## One beginning, several endings
#
# Four continuations of one text: for a choice, a vote, or a beam. With `Engine.fork` all four stand on the same blocks.
# (They share the token written so far; what comes next each draws with an rng of its own.)
#
# **By hand.** The longest prompt of the trace has 193 tokens; each continuation has 40 new ones, of which the last is
# never run: 232 positions, 15 blocks of 16. Four separate requests: 60 blocks. Forked: the 12 full blocks of the prompt
# are shared. The 13th holds a single position when they part, so each gets its own copy to write in. At the end each has
# 15 − 12 = 3 blocks of its own: 12 + 4 · 3 = **24**.

# %%
# needs 6.4 to 6.6
prompt = max((a.prompt for a in trace), key=len)
drawn = SamplingParams(1.0, end_tokens=())


def run_to_end(engine, answers):
    while engine.has_work:
        for output in engine.step():
            answers.setdefault(output.id, []).extend(output.tokens)
    return [record.n_blocks_used for record in engine.records]


forked, answers = new_engine(n_blocks=100), {}
original = forked.add_request(prompt, 40, drawn, seed=0)
answers[original] = forked.step()[0].tokens
for seed in (1, 2, 3):
    answers[forked.fork(original, seed)] = list(answers[original])
apart = new_engine(n_blocks=100, max_tokens_per_step=1024)  # room for all four prompts in the first pass
for seed in range(4):
    apart.add_request(prompt, 40, drawn, seed)
used = {"four forks": run_to_end(forked, answers), "four requests": run_to_end(apart, {})}
print(", ".join(f"{name}: at most {max(line)} blocks" for name, line in used.items()))
for tokens in answers.values():
    print(repr(tokenizer.decode(tokens)[:70]))

# %%
fig, ax = figures.figure(height=3.2)
for (name, line), colour in zip(used.items(), (figures.BLUE, figures.RED), strict=True):
    ax.step(range(len(line)), line, where="post", color=colour, label=name)
ax.set(xlabel="pass", ylabel="blocks in use", ylim=(0, 65))
ax.legend(loc="center right")
figures.show(
    fig,
    "Blocks in use over the passes. Four forks start with 13 blocks, take a step to 16 when they part, and end with "
    "24. Four separate requests start with 52 and end with 60.",
)

# %% [markdown]
# The distance between the lines is 12 full blocks, three times over: the prompt's, which four requests on their own keep
# four times. Each step upwards is the pass in which all four need a new block.
#
# ## Watch it serve
#
# After each pass the engine keeps a record: how many ran and waited, how many blocks were held. Below, the requests of
# the trace arrive by chance, sixty a second, and a pool of 128 blocks serves them. The picture is redrawn while it
# happens; the engine's clock stands still meanwhile, so that drawing costs it nothing.

# %%
# needs 6.4 to 6.6
from IPython.display import display


class Stopwatch:
    """Seconds that pass while the engine works and not while we draw."""

    def __init__(self):
        self.stood_still, self.drawn_at, self.handle = 0.0, time.perf_counter(), None

    def __call__(self):
        return time.perf_counter() - self.stood_still

    def show(self, engine, every_seconds=1.5):
        """Draw the engine's records, unless that was done a moment ago."""
        if self() - self.drawn_at < every_seconds:
            return
        began, self.drawn_at = time.perf_counter(), self()
        fig, alt = draw_records(engine)
        content = {"text/html": figures.image_html(fig, alt), "text/plain": alt}
        figures.plt.close(fig)
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)
        self.stood_still += time.perf_counter() - began


def draw_records(engine):
    """Running, waiting and blocks over time; the figure, and in words what it shows."""
    records, n_blocks = list(engine.records), engine.scheduler.allocator.n_blocks
    at = [r.at - records[0].at for r in records]
    fig, axes = figures.figure(8.4, 3.2, columns=2)
    axes[0].plot(at, [r.n_running for r in records], color=figures.BLUE, label="running")
    axes[0].plot(at, [r.n_waiting for r in records], color=figures.ORANGE, label="waiting")
    axes[1].fill_between(at, [r.n_blocks_used for r in records], color=figures.GREEN, alpha=0.4)
    lost = [(t, r.n_blocks_used) for t, r in zip(at, records, strict=True) if r.n_preempted]
    if lost:
        axes[1].plot(*zip(*lost, strict=True), "v", color=figures.RED, markersize=5, label="preemption")
        axes[1].legend(loc="lower center", fontsize=8.5)
    axes[0].set(xlabel="seconds", ylabel="requests", ylim=(0, None))
    axes[1].set(xlabel="seconds", ylabel="blocks in use", ylim=(0, 1.08 * n_blocks))
    axes[0].legend(loc="upper right", fontsize=8.5)
    most = max(r.n_waiting for r in records)
    alt = (
        f"After {at[-1]:.1f} seconds: {records[-1].n_running} requests run and {records[-1].n_waiting} wait, at most "
        f"{most} so far. Right, blocks in use: they climb to the pool's {n_blocks} while requests wait, and fall at the end."
    )
    return fig, alt


clock = Stopwatch()
engine = new_engine(n_blocks=128, clock=clock)
rush = poisson(60, len(trace), seed=1, requests=list(trace))
live = replay_engine("live", engine, rush, on_token=lambda n_new: clock.show(engine))
figures.show(*draw_records(engine))
m = engine.metrics
print(
    f"{m.n_steps} passes, {m.mean_running:.1f} requests in each on average ({m.utilisation:.0%} of the places), ",
    end="",
)
print(f"{m.n_preemptions} preemptions, {m.own_share:.0%} of the time outside the model")

# %% [markdown]
# The upper picture was drawn while the engine ran, the lower one is the last. While orange is above zero the pool
# should be full, or nearly: what makes requests wait is memory, not places (32 may run). A red mark is a preemption.
#
# ## TTFT, in parts
#
# **TTFT = queue + prefill + network** (and, for models that think first, their hidden reasoning). The engine keeps the
# first two apart for each request. The waiting of *this* load, in order of arrival:

# %%
# needs 6.4 to 6.6
queue = [1e3 * r.queue_seconds for r in live.requests]
rest = [1e3 * (r.ttft_seconds - r.queue_seconds) for r in live.requests]
places = range(len(queue))
fig, ax = figures.figure()
ax.bar(places, queue, color=figures.ORANGE, label="queue", width=0.9)
ax.bar(places, rest, bottom=queue, color=figures.BLUE, label="prefill", width=0.9)
ax.set(xlabel="request, in order of arrival", ylabel="time to the first token, ms")
ax.legend(loc="upper left")
figures.show(
    fig,
    "Time to the first token of 64 requests as stacked bars. The first requests wait for prefill only; from the "
    "moment when the pool is full the queue makes up most of it.",
)
print(f"median: queue {statistics.median(queue):.0f} ms, prefill {statistics.median(rest):.0f} ms")

# %% [markdown]
# A user who complains of a slow start may suffer from either, and the remedies have nothing in common: for the queue more
# memory, smaller caches or more machines; for prefill shorter prompts or a prefix cache (week 7).
#
# ## Three ways to serve one trace
#
# Now the question of the first page: your engine, static batches, and one request at a time, on the first 24 requests of
# the trace with their own arrival times (within 0.9 seconds), 16 slots.
#
# ### Prediction 7
#
# How many times the tokens per second of static batches will the engine reach? And in how many milliseconds does half of the
# requests get its first token, with the engine and with static batches?

# %%
my_times_the_tokens, my_ttft_engine, my_ttft_static = 1.0, 0.0, 0.0  # change all three

# %% [markdown]
# First, what the simulators say. A step takes as long as a pass for 8 (measured at the top), a slot stands for a place in
# the batch, and prefill is left out.

# %%
# needs 6.1 to 6.3
served = trace[:24]
needs = [a.n_output_tokens for a in served]
guesses = {}
for name, simulate, n_slots, step_seconds in (
    ("engine", simulate_continuous_batching, 16, seconds[8]),
    ("static batches", simulate_static_batching, 16, seconds[8]),
    ("one at a time", simulate_continuous_batching, 1, seconds[1]),
):
    run = simulate(needs, n_slots, served.steps(step_seconds))
    guesses[name] = statistics.median(run.latencies) * step_seconds
    print(f"{name:15} {run.n_steps:5} steps, half of the answers are whole after {guesses[name]:5.2f} s")

# %%
# needs 6.4 to 6.6; the slowest cell, about ten seconds
ways = {
    "engine": lambda requests: replay_engine("engine", new_engine(max_running=16), requests),
    "static batches": lambda requests: replay_batches("static batches", nanolm_batch(target), requests, 16),
    "one at a time": lambda requests: replay_batches("one at a time", nanolm_batch(target), requests, 1),
}
replays = {}
for name, way in ways.items():
    way(all_at_once(trace[:2]))  # warms up and does not count
    replays[name] = way(served)

# %%
print("                          first token, s     between tokens, ms   whole answer, s")
print("                tokens/s  half   95 %        half   95 %          half   95 %    simulated")
for name, r in replays.items():
    print(f"{name:15} {r.tokens_per_second:8,.0f} {r.ttft_seconds():6.2f} {r.ttft_seconds(95):6.2f}", end="")
    print(f"      {1e3 * r.inter_token_seconds():6.1f} {1e3 * r.inter_token_seconds(95):6.1f}", end="")
    print(f"        {r.end_to_end_seconds():6.2f} {r.end_to_end_seconds(95):6.2f} {guesses[name]:9.2f}")
mine, fixed = replays["engine"], replays["static batches"]
print(
    f"the engine writes {mine.tokens_per_second / fixed.tokens_per_second:.1f} times the tokens of static batches; ",
    end="",
)
print(f"you said {my_times_the_tokens:.1f}")
print(f"first token: {1e3 * mine.ttft_seconds():.0f} and {1e3 * fixed.ttft_seconds():,.0f} ms; ", end="")
print(f"you said {my_ttft_engine:.0f} and {my_ttft_static:.0f}")
same = [name for name, r in replays.items() if r.texts == mine.texts]
print(f"the same texts: {', '.join(same)}")

# %%
fig, axes = figures.figure(8.8, 3.2, columns=3)
colours = (figures.BLUE, figures.RED, figures.GREEN)
axes[0].bar(range(3), [r.tokens_per_second for r in replays.values()], color=colours)
for ax, wait in ((axes[1], "ttft_seconds"), (axes[2], "end_to_end_seconds")):
    for place, (r, colour) in enumerate(zip(replays.values(), colours, strict=True)):
        half, most = getattr(r, wait)(50), getattr(r, wait)(95)
        ax.plot([place, place], [half, most], "-", color=colour, linewidth=3)
        ax.plot(place, half, "o", color=colour, markersize=8)
        ax.plot(place, most, "_", color=colour, markersize=14, markeredgewidth=3)
    ax.set(yscale="log", ylim=(0.01, 20))
    ax.set_yticks((0.01, 0.1, 1, 10), ("0.01", "0.1", "1", "10"))
for ax, label in zip(axes, ("tokens a second", "first token, s", "whole answer, s"), strict=True):
    ax.set_title(label, fontsize=10)
    ax.set_xticks(range(3), ["engine", "static", "alone"])
    ax.set_xlim(-0.6, 2.6)
figures.show(
    fig,
    "Three panels for engine, static batches and one at a time. Tokens a second: the engine highest. First token "
    "and whole answer, on logarithmic scales, a dot for the half and a bar for the 95 %: the engine's are lowest by "
    "far, for the first token by a factor of ten and more.",
)

# %% [markdown]
# The simulators, which know nothing but lengths and arrivals, get the order right. What they leave out makes all times
# longer, and those of static batches most of all: prompts take time too, and in a batch they are padded to the longest,
# and so are the caches.
#
# In the picture a dot is what half of the requests stay within, the bar above it what 95 % do; ten times is one step of
# the scale. Look at the columns of the table one by one. **First token:** in the engine a newcomer joins the next pass.
# In a static batch it waits for the end of a batch that began before it came. **Between tokens:** one at a time is
# *fastest* here, since nobody shares the pass. So whoever has just one user should not batch; and whoever quotes only
# this number hides the queue. **Whole answer:** what a user feels; it contains all.
#
# One caution about the tokens a second. The engine keeps up with the trace: it ends soon after the last request has come,
# and cannot write more than was asked. If requests came faster, it would write more, and its lead would grow.
#
# | lever | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|
# | larger batch | queue shorter | longer | rises until caches dominate | a cache each | last bits |
# | continuous instead of static | far shorter | a little longer when a newcomer's prompt joins the pass | rises, more so with unequal answers | the same | last bits |
# | paging instead of reservation | queue shorter | longer, as the batch grows | rises with the batch | a few per cent wasted instead of most | none |
# | chunked prefill | newcomer's longer | no long gaps | about the same | the same | last bits |
# | preemption | for the preempted: longer | a gap for the preempted | a little less | lets the pool be full | none |

# %% [markdown]
# ## Depth: what else a scheduler may do
#
# **Order.** First come, first served is fair and blind. *Shortest first* would lower the mean wait, but the length of an
# answer is unknown, and long ones starve. Priorities, or a fair share for each customer, are common in practice: the
# queue is then sorted by something other than arrival, and everything else stays.
#
# **Little's law.** In a steady state, requests in the system = arrivals a second × seconds in the system. It holds for
# every server and every order. If 20 requests come a second and each stays 6 s, then 120 are inside; with 100 places the
# queue grows for ever.
#
# **Machines of their own for prefill.** Instead of mixing chunks into passes, some servers run prompts on some machines
# and writing on others, and send the caches across (*disaggregation*). Then no decoding request ever waits for a prompt.
# Chunks are the remedy within one machine.
#
# **Tensor parallelism.** A model that is too large for one GPU is split across several, every matrix in parts. Of four
# GPUs each then reads a quarter of the weights *and* of the caches, so TPOT falls, and the pools add up to one. Two
# exchanges a layer are the price.
#
# **Block size.** Small blocks waste less at the end and share more finely; large ones need shorter tables and are read in
# longer stretches. 16 is a usual choice.

# %% [markdown]
# ## The same with libraries
#
# transformers' `generate` runs a static batch: a rectangle of prompts, filled up on the left, until the longest answer is
# done.

# %%
# needs 6.4 to 6.6
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)
    eight = trace[:8]
    widest = max(a.n_prompt_tokens for a in eight)
    ids = torch.tensor([[0] * (widest - a.n_prompt_tokens) + list(a.prompt) for a in eight])
    mask = torch.tensor([[0] * (widest - a.n_prompt_tokens) + [1] * a.n_prompt_tokens for a in eight])
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    n_new = max(a.n_output_tokens for a in eight)
    written = model.generate(ids, attention_mask=mask, max_new_tokens=n_new, **options)[:, widest:]
    theirs = [row[: a.n_output_tokens].tolist() for row, a in zip(written, eight, strict=True)]
    ours = replay_engine("", new_engine(), all_at_once(eight)).texts
    print(
        f"transformers writes our engine's text in {sum(a == b for a, b in zip(theirs, ours, strict=True))} of 8 cases"
    )
    useful = sum(a.n_output_tokens for a in eight)
    print(f"padding: {1 - mask.float().mean():.0%} of its prompt positions; ", end="")
    print(f"{1 - useful / written.numel():.0%} of the tokens it wrote were thrown away")
else:
    print("transformers is not installed here; with it, this cell serves a static batch")

# %% [markdown]
# (At a near tie a text may part, as in week 3.) transformers also has a `generate_batch` that batches continuously, for
# offline work. On a GPU server you would start vLLM, whose scheduler does what yours does (not run here):
#
# ```
# vllm serve MODEL --max-num-seqs 256 --max-num-batched-tokens 2048 --block-size 16 --gpu-memory-utilization 0.9
# ```
#
# | vLLM | here |
# |---|---|
# | `--max-num-seqs` | `max_running` |
# | `--max-num-batched-tokens` | `max_tokens_per_step` |
# | `--block-size` | `block_size` |
# | `--gpu-memory-utilization 0.9` | the pool is what is left of 90 % of the memory beside the weights |
#
# Its log counts running and waiting requests, the share of the cache in use, and preemptions: your `engine.records`.

# %% [markdown]
# ## Talk to your engine
#
# `nanolm serve` puts the engine behind an endpoint that speaks OpenAI's API. Start it in a terminal (it stays in the
# foreground):
#
# ```
# nanolm serve --port 8000 --max-running 32
# ```
#
# In another terminal, ask. `-N` shows tokens as they come:
#
# ```
# curl -N http://127.0.0.1:8000/v1/completions -d '{"model": "target", "prompt": "ROMEO\n", "max_tokens": 60, "stream": true}'
# curl http://127.0.0.1:8000/metrics
# ```
#
# Or with the library that everybody has; run several of these at once and watch `/metrics`:
#
# ```python
# from openai import OpenAI
#
# client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
# answer = client.completions.create(model="target", prompt="ROMEO\n", max_tokens=60)
# print(answer.choices[0].text)
# ```
#
# And `nanolm bench` replays the trace at several rates, in all ways that you have met and with transformers, and draws
# throughput against waits:
#
# ```
# nanolm bench --rate 8 --rate 16 --rate 32 --slots 32 --plot serving.png
# ```
#
# Look for the rate at which the waits of each way turn upwards. That is its capacity, and the only honest single number
# about a server.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **A batch that ends with its shortest request.** `test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps`
# - **"Continuous" batching that refills when all are done, or one step late.**
#   `test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps`
# - **One list for all rows of the timeline.** The past changes with the present. The same test.
# - **`needs` counted down in place.** The caller's list is empty afterwards.
#   `test_simulate_batching_leaves_its_arguments_as_they_were`
# - **Waiting for a full batch.** The last requests of the day wait for ever.
#   `test_simulate_static_batching_does_not_wait_for_a_full_batch`
# - **Request 0 taken for an empty slot.** `test_utilisation_is_slots_at_work_over_steps_times_slots`
# - **Waits counted from step 0 instead of from the arrival.** `test_waited_counts_from_a_request_s_own_arrival`
# - **A block given out twice.** Two requests write into each other's text, without any error.
#   `test_allocate_gives_every_block_once_and_then_says_that_none_is_left`, `test_free_refuses_a_block_that_is_free`
# - **Freed although others hold it.** `test_free_keeps_a_block_that_others_hold`
# - **`//` and `%` swapped, or a position taken for a slot.** `test_slot_mapping_of_a_scattered_table`
# - **A block one position early.** Each request holds one block too many half of the time.
#   `test_append_allocates_a_block_when_the_last_one_is_full_and_not_earlier`
# - **Copy on write forgotten, or the copied block's reference kept.** The twin's words in your text; or a leak.
#   `test_append_into_a_shared_block_copies_it_first`
# - **Blocks taken before all are known to be there.** After a refusal they belong to nobody.
#   `test_append_that_does_not_fit_changes_nothing`
# - **A fork that counts no references.** The first to end frees the other's blocks.
#   `test_fork_shares_every_block_and_copies_none`
# - **Somebody overtakes one that does not fit.** `test_admit_lets_nobody_overtake_one_that_does_not_fit`
# - **Admitted for a first chunk.** It is preempted in the middle of its prompt.
#   `test_admit_asks_for_room_for_the_whole_prompt_and_not_for_a_chunk`
# - **The prefix of one who has to wait kept.** Blocks that can never be evicted.
#   `test_admit_gives_back_the_prefix_of_one_that_does_not_fit`
# - **`n_computed` not reset by a preemption.** The engine believes in keys that are no longer there.
#   `test_preempt_takes_the_blocks_and_keeps_the_tokens`
# - **Preempted to the end of the queue.** Whoever had bad luck once has it again.
#   `test_preempt_puts_the_request_before_everybody_who_waits`
# - **Arithmetic or caches left out of a large batch's pass.** (A test of `budget`.)
#   `test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards. The model is the 8B one from above: 131,072 B a token, 4.48 ms to load
# the weights, 15 µs of arithmetic a position.
#
# **1.** Static batches of 8. Seven answers have 50 tokens, one has 400. Utilisation? How many times the throughput would
# continuous batching have if the queue never ran empty?
#
# <details><summary>Answer</summary>(7 · 50 + 400) / (8 · 400) = 750/3,200 = 23.4 %. Continuous batching keeps all slots
# at work, so 1/0.234 = 4.3 times.</details>
#
# **2.** 80 GB, 16 GB of weights, 10 % of the rest kept free. How many requests run at once with reservations for 8,192
# tokens, and how many with paging, if texts have 1,000 tokens on average? What share of the reservations is wasted, and
# what share of the blocks of 16?
#
# <details><summary>Answer</summary>57.6 GB. Reserved: 8,192 · 131,072 B = 1.074 GB each, 53 requests. Paged: 131 MB each,
# 439 on average. Wasted: 1 − 1,000/8,192 = 88 %, against about half a block, (16 − 1)/2 = 7.5 positions of 1,007, so 0.7
# %.</details>
#
# **3.** 32 requests write, each with 1,024 tokens in its cache. A prompt of 4,000 tokens arrives. How long do they wait
# for a token if it runs in one pass, and if at most 544 tokens run in a pass? When has the newcomer its first token?
#
# <details><summary>Answer</summary>Caches: 32 · 0.040 = 1.3 ms a pass. One pass: 4,032 · 15 µs = 60.5 ms, together 62 ms
# for everybody. In chunks of 544 − 32 = 512: 544 · 15 µs = 8.2 ms and 1.3 are 9.4 ms a pass; 4,000/512 makes 8
# passes, the last one shorter: 74 ms. The newcomer waits 12 ms longer; the others 9.4 ms instead of 62. (Without it they
# wait 4.48 + 1.3 = 5.8.)</details>
#
# **4.** Requests arrive at 20 a second; each stays 6 s. The server runs at most 100. What happens? You can halve the
# answers, or double the places (TPOT grows by 30 %). Which helps?
#
# <details><summary>Answer</summary>Little: 20 · 6 = 120 are inside in a steady state, 100 have places: it can finish
# 100/6 = 16.7 a second, and the queue grows by 3.3 every second. Half the answers: about 3 s, 60 places suffice. Twice
# the places: 7.8 s, 20 · 7.8 = 156 of 200: suffices too, if the memory has room for 200 caches.</details>
#
# **5.** From which batch on does a pass of the 8B model spend more time on caches than on weights, at 1,024 and at 8,192
# tokens a request?
#
# <details><summary>Answer</summary>15 GB / 0.134 GB = 112 requests, and 15/1.074 = 14. With long contexts the weights are
# shared long before the batch is large, and shrinking the cache (weeks 5 and 9) is what helps.</details>

# %% [markdown]
# ## Check yourself
#
# - Why does continuous batching beat static batching for chat, and when do both do equally well?
# - Which memory problem does paging solve, and what part of a cache is still wasted?
# - A larger batch: what happens to TPOT, to throughput, to the price? What ends its growth?
# - Why does a full block never have to be copied?
# - Why is nobody allowed to overtake in `admit`, and which request is preempted? What would happen if it were the first?
# - Why can the same request at temperature 0 get another text in a fuller batch? Does paging change the text?
# - What does a budget of tokens a pass protect, and whom does it cost?
#
# <details><summary>Short answers</summary>
# Answers differ in length and requests come at any time; with equal lengths that all arrive together there is nothing to
# refill. · The reservation for what may never be written, and the holes between reservations; the end of each last block.
# · TPOT grows, throughput grows, the price falls, all ever more slowly, until memory for caches ends. · Nobody writes
# into it again; new positions go behind it. · A long request would wait for ever; the last to come. If the first were
# preempted, it could lose its place again and again, and nothing would bound its wait. · Sums are split in another way, and
# last bits decide near ties. Paging moves numbers and changes none. · The waits of decoding requests; the newcomer with a
# long prompt. </details>

# %% [markdown]
# ## In an interview
#
# *"Our GPU is at 25 % of its arithmetic, its memory is full, and users queue at sixteen at a time. What do you do?"*
#
# A structure for three minutes:
#
# 1. **Split the wait.** TTFT is queue plus prefill plus network: here the queue. TPOT is one pass; at sixteen it is
#    mostly loading weights, so there is room for more requests in each pass (30 seconds).
# 2. **What fills the memory?** Weights, caches in use, caches *reserved*. Sixteen times the longest context is the sign
#    of reservation or of a limit set once. Compute bytes a token times p95 context: how many would really fit? (45
#    seconds)
# 3. **Continuous batching and paging**, if they are not there; raise the limit on running requests; watch preemptions. If
#    caches are really in use: shared prefixes, an 8-bit cache, a model with fewer KV heads, then more machines (45
#    seconds).
# 4. **Protect decoding requests.** A budget of tokens a pass against long prompts; p95 of the time between tokens, not the
#    mean (30 seconds).
# 5. **Numbers.** From 16 to 64 requests the bound goes from 3,126 to 9,089 tokens/s and a token from 5.1 to 7.0 ms. Load
#    test with recorded lengths, up to the rate at which waits turn upwards; keep 10 to 20 % headroom for several long
#    ones at once (30 seconds).

# %% [markdown] written="preemption is exact and ends" points=8 minutes=25 difficulty=3
# **Show that preemption by recomputation is harmless.** A preempted request loses all its blocks, keeps its tokens
# (prompt and answer so far), and later runs them again as a prompt. (a) Show that at temperature 0 its final text is the
# one it would have written undisturbed. (b) At temperature 1 each request has an rng of its own. Show the same, and say
# where the proof fails if all requests share one generator. (c) The scheduler serves in order of arrival, takes blocks
# from the last, puts the preempted request at the front of the queue, and every request alone fits into the pool. Show that
# every request finishes, if each finishes after finitely many tokens. (d) Which step of (c) breaks if the *first* is
# preempted instead of the last?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) The keys and values of position s are functions of tokens 1 … s (causal model). Recomputed from
# the same tokens, at the same positions, they are the same numbers, whether run one by one or many in a pass (up to the
# order of sums). So the logits after the last token are the ones of the undisturbed run, and so is the next token. By
# induction over the tokens still to be written the texts are equal.
#
# (b) The next token is a function of the logits and of the rng's next number. Recomputation runs known tokens and
# chooses none, so it draws nothing: the state of the rng depends only on how many tokens this request has drawn. The
# same induction, with (tokens, state of the rng) as what is preserved. With one generator for all, the state depends on
# who else has drawn in between, and a preemption changes that order.
#
# (c) Among the unfinished requests let r be the earliest to arrive. *It is never preempted once it runs:* only the
# last of the running is taken from, running requests are in order of arrival (nobody overtakes in admission, and whoever
# is preempted goes to the front), so r is taken from only if it is alone; but alone it fits into the pool. *It makes
# progress in every pass in which it runs:* it comes first in the plan, and blocks are found for it by taking from others
# until they suffice. *It does get to run:* if r waits, it is first in the queue, since nobody overtakes. Whoever ran at
# that time would have arrived before r and be unfinished, against the choice of r. So nobody runs, the whole pool is free,
# and r fits. Finitely many tokens are pending at any time, then it writes one; it needs finitely many; it finishes. Then
# the next is earliest. By induction over the requests all finish.
#
# (d) "It is never preempted once it runs." Now it is r that is preempted whenever somebody behind it needs a block, so
# later requests undo its work as often as they come, and r runs its prompt again each time. What it has written is kept,
# so no text is lost; but nothing in the proof bounds how often that happens while requests keep arriving.
#
# **Mark scheme (8).** (a) state is a function of earlier tokens, so the same numbers, 1; induction, 1. (b) recomputation
# draws nothing, 1; the shared generator, 1. (c) the earliest request singled out, 1; it is never preempted, with the reason
# (order and fits alone), 1; progress in each pass and induction over the requests, 1. (d) the step named with what takes
# its place, 1. "It just recomputes, so it is the same" without why the numbers are equal: at most 1 for (a).
# ### END SOLUTION

# %% [markdown] written="what reservation wastes" points=6 minutes=15 difficulty=2
# **How much does reserving for the longest answer waste?** A text ends up with X tokens, X between 1 and M, with mean μ.
# A request holds memory from start to end, and its text grows by one token a pass (leave the prompt out). (a) With M
# positions reserved for each request, which share of the memory is used by a request *averaged over its life*, if all
# texts have the same length x? (b) With X by chance, show that the share averaged over all requests and their lives is
# E[X(X + 1)] / (2 M E[X]). What is it for X equal to M always? Explain why not 1. (c) With blocks of g and lengths much
# longer than g, what share is wasted at the *end* of a text, and what is the smallest mean length for which it is below 2
# % with g = 16? (d) Paging admits more requests than can end up in the pool. Name the price, and two things that bound
# it.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) After pass t it holds t tokens, t = 1 … x. The mean is (x + 1)/2, so the share is (x + 1)/(2M).
#
# (b) Weigh by time: a request of length X holds M positions for X passes, in which it uses 1 + 2 + … + X = X(X + 1)/2
# position-passes. Over many requests the share is the ratio of sums, which tends to E[X(X + 1)/2] / (M E[X]). For X = M:
# (M + 1)/(2M), about one half: even a perfect guess of the length wastes half, because the place for the last token is
# held from the first pass on.
#
# (c) The last block is on average half empty, (g − 1)/2 positions if all fillings are equally likely. Of the positions
# held it is (g − 1)/2 / (μ + (g − 1)/2). For g = 16: 7.5/(μ + 7.5) < 0.02 exactly if μ > 367.5, so from 368 tokens on.
#
# (d) When texts grow together, blocks run out and some request is preempted: its tokens are run again and its text pauses. The
# last to come is preempted, which has the fewest tokens on average; they are run as a prompt, in few passes; and blocks kept
# free at admission make it rare, since sums of many lengths seldom stray far from their mean.
#
# **Mark scheme (6).** (a) 1. (b) weighting by time, 1; formula, 1; one half and why, 1. (c) 1. (d) price and two
# bounds, 1. Averaging X/M over requests without time: no point for (b)'s weighting.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can compute what a batch of unequal answers wastes, write the scheduler and the memory of a server, say how many
# requests a memory holds and why the cache is the limit, and split a user's wait into queue, prefill and passes. Run
# `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Yu et al. 2022, *Orca: a distributed serving system for transformer-based generative models*: scheduling pass by pass,
#   selective batching.
# - Kwon et al. 2023, *Efficient memory management for large language model serving with PagedAttention*: blocks, tables,
#   copy on write, preemption.
# - Agrawal et al. 2023, *Sarathi: efficient LLM inference by piggybacking decodes with chunked prefills*.
# - Pope et al. 2022, *Efficiently scaling transformer inference*: what a pass costs, and how to split a model.
