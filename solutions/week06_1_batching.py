# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 6, first evening · Batching
#
# A pass loads all weights whether it writes one token or fifty. So a server that writes for one user at a time wastes
# almost everything it pays for. This evening you share each pass among as many requests as there are and let them come
# and go at every step; you compute what that gives, what ends it, and how long a user waits. The second evening,
# [paging and the scheduler](week06_2_paging.ipynb), is about the memory that all of this needs.
#
# **After this evening you can**
#
# - say what static, dynamic and continuous batching waste, and compute it from the lengths of the answers;
# - write simulators of both kinds, and read waits, latencies and utilisation from their timelines;
# - compute how long a pass of a batch takes, and what ends its growth;
# - predict how the wait for the first token grows with the load, and judge a server by its goodput.
#
# **Time:** three quarters of an hour for the three exercises, an hour and three quarters of reading and measuring.
# **Needs:** the idea of a KV cache ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)). No exercise of another week
# has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold functions or methods whose bodies are missing. Write them, run the cell, run the
# `check(...)` below it. A check runs the course's own tests on your answer alone and takes everything around it from
# the reference, so one mistake never hides another. Where a test failed, the call of your answer stands in `failing`,
# and `failing.again()` makes it once more. Of an exercise with several methods you can test one at a time:
# `check("ServingRun.waited")`, in a cell of your own. If you prefer an editor, the same functions wait in
# `exercises/`, with the same tests.
#
# Run the two set-up cells first; after them you can begin at any cell. A cell that measures says in its first line what
# it `needs`: your answers, by the numbers of the exercises, and names that other cells make. Where an answer is not
# written yet, the reference does its work, and the cell says so. Where you see a *Prediction*, write a number down
# before you run the next cell.
#
# Where a docstring says *Raises*, the message has to name the argument, or use the word that the docstring gives. The
# helpers below do that for you.

# %%
# Set-up for the labs
import random
import statistics

import torch
from tqdm.auto import tqdm

from nanolm import load
from nanolm.budget import Hardware, decode_step_time
from nanolm.engine import Engine
from nanolm.workload import EXACTLY, all_at_once, load_trace, nanolm_batch, poisson, replay_batches, replay_engine
from nanolm.workload import simulation as batching

from course.lab import figures
from course.lab.timing import rounds_allowed, take_turns
from course.lab.verdicts import CANNOT_TELL, against_prediction, largest, ratio, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
config = target.config
trace = load_trace()  # requests with prompts, answer lengths and arrival times, the same for everybody
n_prompt, n_output = sum(a.n_prompt_tokens for a in trace), sum(a.n_output_tokens for a in trace)
print(
    f"the trace: {len(trace)} requests in {trace[-1].seconds:.1f} s, {n_prompt:,} prompt tokens, {n_output:,} to write"
)


def decode_pass(model, n_rows, context=64):
    """A pass that adds one token to each of n_rows sequences of `context` tokens."""
    cache = model.new_cache(n_rows, context + 1)
    cache.advance(context)  # what is in the cache does not matter for the time
    new = torch.ones(n_rows, 1, dtype=torch.long)

    @torch.inference_mode()
    def run():
        model(new, cache)  # the cache is not advanced, so every run is the same one

    return run


# %% [markdown]
# ## The idea in plain words
#
# **The bus and the ski lift.** A bus waits at the stop, takes whoever is there, and lets nobody on until the last
# passenger has got off at the terminus. Most seats are empty most of the way. A ski lift never stops: a chair that
# comes down empty is taken by the next in the queue. The lift does not run faster. It just carries somebody on every
# chair.
#
# A batch of requests works like one or the other. A **slot** is a seat: one sequence in the batch. **Static batching**
# is the bus: a batch runs until its longest answer is written. **Continuous batching** is the lift: after each pass,
# whoever has finished leaves and somebody from the queue takes the slot.

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
# boxes: the weights are loaded for the pass either way. The share of slots at work, over all passes, is
# **the utilisation**.
#
# Batching went through three stages:
#
# | | who is in a pass | who waits |
# |---|---|---|
# | static | a fixed group, until its longest answer is done | everybody else, and all who are done but cannot leave |
# | dynamic | whoever has come when the server is free, or within a few milliseconds | the same: the group is formed late, but then fixed |
# | continuous ([Yu 2022](https://www.usenix.org/conference/osdi22/presentation/yu)) | decided anew before *every* pass | only those for whom there is no slot or no memory |
#
# The first two differ in how a group is formed, not in how it ends. Below, "static" forms a group of those who have
# arrived and does not wait for more.

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | B | sequences in the batch | `n_slots`, `max_running` |
# | w | bytes of the weights that a pass reads | `weight_bytes` |
# | s | bytes of one sequence's cache | `kv_bytes` |
# | n | parameters multiplied at each position | `n_params` |
# | W, P | the chip's bandwidth (bytes a second) and peak arithmetic (operations a second) | `Hardware` |
# | λ | requests that arrive a second, on average | |
# | d | seconds that one prefill takes, on average | |
# | c | how unequal prefills are: the standard deviation of their times over d | |
# | ρ | the share of the time in which prefill is busy, λ · d | |
#
# GB is 10⁹ bytes. A **step** is one pass of the model over the batch. **Prefill** is what runs the tokens of a prompt,
# many in a pass; **decode** is what writes, one token of each request a pass. **TTFT** is the time to the first token,
# **TPOT** the time per output token after it.

# %% [markdown]
# ### Prediction 1
#
# On your machine: how many times as long as a decode pass for one request does a pass for 16 take? And so, how many
# times as many tokens a second does it write?

# %%
my_guess_for_16 = 16.0  # times as long as a pass for one; change it

# %%
batches = [1, 2, 4, 8, 16, 32]
seconds = take_turns({n: decode_pass(target, n) for n in batches}, repeats=25)
for n in batches:
    middle = statistics.median(seconds[n])
    print(f"{n:2} requests: {middle * 1e3:6.2f} ms a pass, {n / middle:7,.0f} tokens/s")
longer = ratio(seconds, 16, 1)
print(f"16 requests take {longer} as long as one; you said {my_guess_for_16:.1f}")
several = f"{16 / longer.high:.1f} to {16 / longer.low:.1f}, by rounds"
how_sure = several if longer.n_rounds > 1 else "one round, which may be chance"
print(f"so together they get {16 / longer.middle:.1f} times the tokens a second ({how_sure})")

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2)
times = {n: statistics.median(values) for n, values in seconds.items()}
axes[0].plot(batches, [times[n] / times[1] for n in batches], "o-", color=figures.BLUE, label="measured")
axes[0].plot(batches, batches, "--", color=figures.GREY, label="a pass for each")
axes[1].plot(batches, [n / times[n] for n in batches], "o-", color=figures.BLUE)
axes[0].set(xlabel="requests in the pass, B", ylabel="time, in passes for one", ylim=(0, 16))
axes[1].set(xlabel="requests in the pass, B", ylabel="tokens a second, together", ylim=(0, None))
axes[0].legend(fontsize=9)
figures.show(
    fig,
    f"Left: the time of a pass against the requests in it: with 32 it is {times[32] / times[1]:.1f} times that of one, beside "
    f"the dashed diagonal of one pass for each. Right: tokens a second, from {1 / times[1]:,.0f} to {32 / times[32]:,.0f}.",
)

# %% [markdown]
# In a larger batch each user gets their tokens more slowly and all together get more. These two move in opposite
# directions (where a larger batch above took less time, something else ran in between): the batch is the knob between
# them. (On a CPU much of a small pass is the fixed cost of starting a few
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
# Now 64 requests at once, one of which wants **500** tokens and the others **50**. In one static batch of 64, all but
# one are done after 50 passes; the server then makes 500 − 50 = **450 passes for a single request**. Seats: 500 · 64 =
# 32,000. Taken: 500 + 63 · 50 = 3,650, which is 11.4 %.
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
# It lives in [`nanolm/workload/simulation.py`](../../nanolm/workload/simulation.py). First the record of a run: a
# *timeline* with one row a step, in each row a request number or None for each slot. `self.arrivals` has for each
# request the step of its arrival; `self._steps_at_work`, which is given, maps a request to the list of steps in which
# it ran.

# %%
from nanolm.workload import ServingRun  # exercise: utilisation, finished_at, waited, latencies
# points: 4
# minutes: 12
# difficulty: 1
# tested: Request 0 in a slot, steps in which nothing runs, a run without a step, and ends, waits and latencies of
#   requests that arrive at step 1.
# why: These four numbers are what a scheduler is judged by. Two benchmarks that count them in different ways cannot be
#   compared.
# hint: An empty slot is None; request 0 is not empty. Steps are numbered from 0, so a request whose last step is number
#   2 had ended when 3 steps had been run. // Count what is not None over all rows. For ends and waits go through the
#   arrivals in order and look each request up in `_steps_at_work`, with `get` and a default: one that never ran is not
#   in it. A latency is an end less an arrival.

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
# tested: 4, 1, 1, 1 in two slots; 64 requests with one long; a batch formed of those who have arrived, full or not;
#   order and slots; random loads against an independent count, batch by batch; no requests, requests for nothing, and
#   refusal of bad input.
# why: It is how most first attempts at a model server work, and you should know its price before you pay it.
# hint: Nobody may have arrived yet, and time has to pass all the same; and a slot stays empty until the whole batch has
#   ended, also where the batch was not full. // One loop while somebody waits, which forms a batch of those who have
#   arrived, and one inside it over the steps that this batch takes. Each step is a row of n_slots entries.

# %%
from nanolm.workload import simulate_continuous_batching  # exercise: simulate_continuous_batching
# points: 5
# minutes: 20
# difficulty: 2
# tested: 4, 1, 1, 1 in two slots; a long request first and last; joining while others run; the lowest free slot first;
#   random loads against an independent count, request by request; no requests, requests for nothing, and refusal of bad
#   input.
# why: It is the idea that raised the throughput of servers several times over, in fifteen lines.
# hint: What is appended to the timeline must not change later, and `needs` is the caller's. A request keeps its slot to
#   its end. // Keep two lists: who sits in each slot, and how many steps each request has left. A step has three parts:
#   fill the free slots, note the row, count down and empty the slots whose request is done.

# %% [markdown]
# The worked example and the long request, in *your* simulators.

# %%
loads = {"4, 1, 1, 1 in two slots": ([4, 1, 1, 1], 2), "one of 500 first, 63 of 50, 8 slots": ([500] + 63 * [50], 8)}
loads["63 of 50, one of 500 last, 8 slots"] = (63 * [50] + [500], 8)
loads["one of 500, 63 of 50, 64 slots"] = ([500] + 63 * [50], 64)
simulators = {"static": simulate_static_batching, "continuous": simulate_continuous_batching}
for load_name, (needs_of_all, n_slots) in loads.items():
    runs = {name: simulate(needs_of_all, n_slots) for name, simulate in simulators.items()}
    print(f"{load_name:36}", end="")
    for name, run in runs.items():
        print(f"  {name}: {run.n_steps:3} steps, {run.utilisation:6.1%}, latency {run.mean_latency:6.2f}", end="")
    print()

# %%
for name, simulate in (("static", simulate_static_batching), ("continuous", simulate_continuous_batching)):
    run = simulate([500] + 63 * [50], 8)
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
# Requests arrive by chance, and answers have lengths as in the trace: 16 to 149 tokens, 38 on average. 32 slots. The
# load rises until it is nearly all that the slots could ever do. At a load of 20 % of that, how many steps does a
# request wait for its slot on average, with static and with continuous batching?

# %%
my_static_wait, my_continuous_wait = 0.0, 0.0  # steps; change both

# %%
many = poisson(1.0, 900, seed=6, requests=list(trace))
lengths, n_slots = [a.n_output_tokens for a in many], 32
shares = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
waits = {"static": [], "continuous": []}
for share in tqdm(shares):
    # A load of 1 brings n_slots / mean need requests a step; `many` brings one a second.
    arrivals = many.steps(share * n_slots / statistics.fmean(lengths))
    for name, simulate in (("static", simulate_static_batching), ("continuous", simulate_continuous_batching)):
        waits[name].append(statistics.fmean(simulate(lengths, n_slots, arrivals).waited))
at = shares.index(0.2)
print(f"at 20 %: static {waits['static'][at]:.0f} steps, you said {my_static_wait:g};", end=" ")
print(f"continuous {waits['continuous'][at]:.1f}, you said {my_continuous_wait:g}")
chance = random.Random(6)
longest = statistics.fmean(max(chance.choices(lengths, k=n_slots)) for _ in range(2000))
print(f"the longest of {n_slots} answers has {longest:.0f} tokens on average, so a full static batch has", end=" ")
print(f"{statistics.fmean(lengths) / longest:.0%} of its slots at work")

# %%
fig, ax = figures.figure()
for (name, line), colour in zip(waits.items(), (figures.RED, figures.BLUE), strict=True):
    ax.plot(shares, line, "o-", color=colour, label=name)
ax.set(xlabel="load, as a share of what the slots can do", ylabel="mean wait for a slot, steps", ylim=(-5, 400))
ax.legend()
figures.show(
    fig,
    f"Mean wait for a slot against the load. Static batching waits {waits['static'][0]:.0f} steps at a load of 5 %, and beyond "
    f"30 % the wait leaves the picture. Continuous batching waits {waits['continuous'][6]:.1f} steps at 40 % and "
    f"{waits['continuous'][-1]:.0f} at 90 %.",
)

# %% [markdown]
# (Nothing here depends on your machine.) The blue line stays on the floor until the slots are nearly full. The red one
# starts high, because a newcomer waits for a whole batch to end even when most slots are empty. And beyond a load of
# about 30 % the bus is too slow. Of its seats it fills mean over maximum, a third at best, as printed above. The queue
# then grows for as long as requests come. (Its height there says only how long we looked.) That is why chat servers
# batch continuously: the same machine, three times the load, and no wait for strangers.

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
# The last line needs care. Up to 4.48 / 0.015 = 298 requests the arithmetic hides behind the loading of the weights,
# and reading is the whole time. With 476 the arithmetic takes 7.14 ms, and the pass 19.07 + 7.14 = **26.2 ms**, which
# is **18,160 tokens/s**. The 23.55 ms are what reading alone takes: the bound for a chip whose arithmetic is free. Real
# passes take 1.2 to 2 times as long as such bounds; ratios hold better than values.
#
# At B = 256 the pass reads 256 · 0.1342 = **34.4 GB of caches** and 15 GB of weights: 34.4 of 49.4 GB are caches. The
# throughput levels off at W/s = 25,000 tokens/s, since each token has to read its own cache, and nobody shares that.
#
# And 476 is where memory ends. It holds 16 GB of weights, for the embedding has to be there too: 80 − 16 = 64 GB are
# left, and 64·10⁹ / 134,217,728 = 476.8. **The batch is limited by the cache, not by the arithmetic.** To serve more
# requests, waste less cache.

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
fig, axes = figures.figure(6.4, 3.6, columns=2)
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
axes[1].axhline(3.35e12 / cache, color=figures.ORANGE, linewidth=1, label="ceiling W/s")
axes[0].set(xlabel="requests in the batch, B", ylabel="time of a pass, ms", xlim=(0, 476))
axes[1].set(xlabel="requests in the batch, B", ylabel="tokens a second", xlim=(0, 476), ylim=(0, 26_500))
axes[0].legend(loc="upper left", fontsize=9)
axes[1].legend(loc="lower right", fontsize=9)
figures.show(
    fig,
    "Left: the time of a pass, stacked. The weights are a constant band, the caches a wedge that outgrows it from "
    "about 110 requests on, and from 298 on a thin wedge of arithmetic is added. Right: tokens a second rise "
    "steeply at first. The dashed line of reading alone bends towards a ceiling of 25,000, the solid one is flat "
    "from 298 on, at 18,160.",
)

# %% [markdown]
# Left, the blue band is what all share, the orange wedge what nobody shares. Right, the solid line is flat from 298
# requests on. There a request more adds 0.040065 ms of reading and 0.015 ms of arithmetic to the pass, and 1 / 0.055065
# ms is 18,160 a second. How not to waste the memory that ends the batch is the second evening's subject.
#
# ## A queue in front of prefill
#
# So far nobody had to read a prompt. Prompts are run one behind the other, or share passes, which comes to the same:
# prefill is *one* server in front of which requests queue. **TTFT = queue + prefill + network** (and, for models that
# think first, their hidden reasoning). How long is the queue?
#
# Say λ requests arrive a second, independently of one another, and a prefill takes d seconds on average. Then prefill
# is busy for the share ρ = λ · d of the time, its **load**. The mean wait in the queue is known exactly (Pollaczek and
# Khinchine):
#
# $$\text{wait} = \frac{\rho}{1 - \rho} \cdot \frac{d}{2} \cdot (1 + c^2)$$
#
# Three factors. ρ/(1 − ρ) is the load's: 1 at one half, 9 at nine tenths. d/2 is what is left on average of the prefill
# that is running when you come. 1 + c² is for unequal prompts: behind a long one many wait.
#
# **By hand.** The 8B model, all prompts of 1,024 tokens: d = 1,024 · 0.015 ms = 15.4 ms, c = 0. At 30 requests a second
# ρ = 0.46, and the wait is 0.46/0.54 · 7.7 = 6.6 ms: TTFT 21.9 ms. At 60 a second ρ = 0.92, and the wait is
# 0.92/0.08 · 7.7 = 90 ms: TTFT 106 ms. **Twice the load, five times the TTFT**, on a machine that is not even full.
#
# Now half of the prompts have 128 tokens and half 1,920, the same mean. The times are 1.92 and 28.8 ms, the standard
# deviation is half of their distance, 13.4 ms, so c = 0.875 and 1 + c² = 1.77: at 60 a second the wait is 159 ms.
#
# ### Prediction 3
#
# The prompts of the trace, one behind the other. At which load is the mean wait ten times as long as a prefill?

# %%
my_load_for_ten = 0.5  # as a share of the time; change it

# %% [markdown]
# A queue of one server is four lines. Below, 20,000 prompts come by chance, all equal or as unequal as those of the
# trace.


# %%
def queue_waits(arrivals, durations):
    """How long each waits whose turn comes when all before it are done."""
    free_at, waits = 0.0, []
    for at, takes in zip(arrivals, durations, strict=True):
        waits.append(max(0.0, free_at - at))
        free_at = at + waits[-1] + takes
    return waits


prompts = [a.n_prompt_tokens for a in trace]
kinds = {"equal": [1.0], "as in the trace": [n / statistics.fmean(prompts) for n in prompts]}  # in mean prefills
loads_tried = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9]
chance = random.Random(6)
simulated, formula = {}, {}
for kind, durations in kinds.items():
    spread = statistics.pstdev(durations)  # over a mean of 1: this is c
    takes = chance.choices(durations, k=20_000)
    gaps = [chance.expovariate(1.0) for _ in takes]
    formula[kind] = [rho / (1 - rho) / 2 * (1 + spread**2) for rho in loads_tried]
    simulated[kind] = []
    for rho in loads_tried:
        now, arrivals = 0.0, []
        for gap in gaps:
            now += gap / rho
            arrivals.append(now)
        simulated[kind].append(statistics.fmean(queue_waits(arrivals, takes)))
    print(f"{kind}: c = {spread:.2f};", end=" ")
    print(", ".join(f"ρ = {rho}: {simulated[kind][loads_tried.index(rho)]:.2f} d" for rho in (0.5, 0.8, 0.9)), end=" ")
    print("(by the formula " + ", ".join(f"{formula[kind][loads_tried.index(r)]:.2f}" for r in (0.5, 0.8, 0.9)) + ")")
ten = 20 / (20 + 1 + statistics.pstdev(kinds["as in the trace"]) ** 2)
print(f"ten prefills of wait at a load of {ten:.2f} by the formula; you said {my_load_for_ten:g}")

# %%
fig, ax = figures.figure()
for (kind, line), colour in zip(simulated.items(), (figures.BLUE, figures.RED), strict=True):
    ax.plot(loads_tried, line, "o", color=colour, label=f"{kind}, simulated")
    ax.plot(loads_tried, formula[kind], "-", color=colour, linewidth=1.2)
ax.set(xlabel="load of prefill, ρ", ylabel="mean wait, in prefills", xlim=(0, 1), ylim=(0, None))
ax.legend(fontsize=9)
figures.show(
    fig,
    "Mean wait in front of prefill against the load; dots are simulated, lines the formula. "
    + " ".join(
        f"Prompts {kind}: {line[4]:.1f} prefills at a load of one half, {line[-1]:.1f} at nine tenths."
        for kind, line in simulated.items()
    ),
)

# %% [markdown]
# The wait does not grow with the load, it explodes before the load is 1. So a server is not sized for what it can do
# but for the wait that is allowed: at most 70 or 80 % of what it could do at best. And unequal prompts cost everybody,
# which is why engines let short prompts pass long ones a little (the second evening's scheduler: a prompt that is short
# may be put before a long one, but nobody is overtaken more than a few times).
#
# **Little's law.** In a steady state, requests in the system = arrivals a second × seconds in the system. It holds for
# every server and every order. If 20 requests come a second and each stays 6 s, then 120 are inside; with 100 places
# the queue grows for ever.
#
# ## Three ways to serve one trace
#
# Now the question of the first page: an engine with continuous batching, static batches, and one request at a time, on
# the first 24 requests of the trace with their own arrival times (within 0.9 seconds), 16 slots.
#
# ### Prediction 4
#
# How many times the tokens per second of static batches will the engine reach? And in how many milliseconds does half
# of the requests get its first token, with the engine and with static batches?

# %%
my_times_the_tokens, my_ttft_engine, my_ttft_static = 1.0, 0.0, 0.0  # change all three

# %% [markdown]
# First, what the simulators say. A step takes as long as a pass for 8 (measured at the top), a slot stands for a place
# in the batch, and prefill is left out.

# %%
served = trace[:24]
guesses = {}
for name, simulate, n_slots, n in (
    ("engine", simulate_continuous_batching, 16, 8),
    ("static batches", simulate_static_batching, 16, 8),
    ("one at a time", simulate_continuous_batching, 1, 1),
):
    step_seconds = statistics.median(seconds[n])
    run = simulate([a.n_output_tokens for a in served], n_slots, served.steps(step_seconds))
    guesses[name] = statistics.median(run.latencies) * step_seconds
    print(f"{name:15} {run.n_steps:5} steps, half of the answers are whole after {guesses[name]:5.2f} s")

# %% [markdown]
# Then the measurement, three rounds in turns (about half a minute).

# %%
ways = {
    "engine": lambda requests: replay_engine("engine", Engine(target, max_running=16, prefix_cache=False), requests),
    "static batches": lambda requests: replay_batches("static batches", nanolm_batch(target), requests, 16),
    "one at a time": lambda requests: replay_batches("one at a time", nanolm_batch(target), requests, 1),
}
replays = {name: [] for name in ways}
for way in ways.values():
    way(all_at_once(trace[:2]))  # warms up and does not count
for _ in tqdm(range(rounds_allowed(3))):
    for name, way in ways.items():
        replays[name].append(way(served))
middles = {name: sorted(rounds, key=lambda r: r.seconds)[len(rounds) // 2] for name, rounds in replays.items()}
print("                          first token, s     between tokens, ms   whole answer, s")
print("                tokens/s  half   95 %        half   95 %          half   95 %    simulated")
for name, r in middles.items():
    print(f"{name:15} {r.tokens_per_second:8,.0f} {r.ttft_seconds():6.2f} {r.ttft_seconds(95):6.2f}", end="")
    print(f"      {1e3 * r.inter_token_seconds():6.1f} {1e3 * r.inter_token_seconds(95):6.1f}", end="")
    print(f"        {r.end_to_end_seconds():6.2f} {r.end_to_end_seconds(95):6.2f} {guesses[name]:9.2f}")

# %%
for what, number in (
    ("tokens a second", lambda r: r.seconds),
    ("the first token, for half", lambda r: r.ttft_seconds()),
    ("the gap between tokens", lambda r: r.inter_token_seconds()),
    ("the whole answer, for half", lambda r: r.end_to_end_seconds()),
):
    found = {name: [number(r) for r in rounds] for name, rounds in replays.items()}
    print(f"{what}: {which_is_faster(found, 'engine', 'static batches')}")
    print(f"{'':{len(what)}}  {which_is_faster(found, 'engine', 'one at a time')}")
print(f"you said {my_times_the_tokens:.1f} times the tokens, and a first token after", end=" ")
print(f"{my_ttft_engine:.0f} and {my_ttft_static:.0f} ms")
same = [name for name, r in middles.items() if r.texts == middles["engine"].texts]
print(f"the same texts: {', '.join(same)}")
print("the whole answer, for half, against the simulator:")
for name, rounds in replays.items():
    print(f"  {name}: {against_prediction([r.end_to_end_seconds() for r in rounds], guesses[name], 's', 1)}")

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2)
colours = (figures.BLUE, figures.RED, figures.GREEN)
for ax, wait, label in (
    (axes[0], "ttft_seconds", "first token, s"),
    (axes[1], "end_to_end_seconds", "whole answer, s"),
):
    for place, (r, colour) in enumerate(zip(middles.values(), colours, strict=True)):
        half, most = getattr(r, wait)(50), getattr(r, wait)(95)
        ax.plot([place, place], [half, most], "-", color=colour, linewidth=3)
        ax.plot(place, half, "o", color=colour, markersize=8)
        ax.plot(place, most, "_", color=colour, markersize=14, markeredgewidth=3)
    ax.set(yscale="log", xlim=(-0.6, 2.6))
    ax.set_yticks((0.01, 0.1, 1, 10, 100), ("0.01", "0.1", "1", "10", "100"))
    ax.set_title(label, fontsize=10)
    ax.set_xticks(range(3), ["engine", "static", "alone"])
lowest, highest = min(ax.dataLim.y0 for ax in axes), max(ax.dataLim.y1 for ax in axes)
for ax in axes:
    ax.set_ylim(min(0.01, 0.8 * lowest), max(20, 1.2 * highest))
figures.show(
    fig,
    "Waits for the first token and for the whole answer, on logarithmic scales, a dot for the half and a bar for the 95 %. "
    + " ".join(
        f"{name.capitalize()}: first token {r.ttft_seconds():.2f} and {r.ttft_seconds(95):.2f} s, whole answer "
        f"{r.end_to_end_seconds():.2f} and {r.end_to_end_seconds(95):.2f} s."
        for name, r in middles.items()
    ),
)

# %% [markdown]
# The simulators leave out that prompts take time too, and that in a static batch they are padded to the longest, and so
# are the caches. How far the measured answers are from the simulated ones on your machine, and which way of serving is
# furthest off, the last lines under the table say.
#
# Look at the columns of the table one by one. **First token:** in the engine a newcomer joins the next pass. In a
# static batch it waits for the end of a batch that began before it came. **Between tokens:** one at a time nobody
# shares the pass. Whoever has just one user should not batch; and whoever quotes only this number hides the queue.
# **Whole answer:** what a user feels; it contains all. Which way was faster in which of them, the lines under the table
# say.
#
# One caution about the tokens a second. Where the engine keeps up with the trace, it ends soon after the last request
# has come, and cannot write more than was asked. If requests came faster, it would write more.
#
# ## What counts is what comes in time
#
# Tokens a second can be bought with waits: let everybody in, fill every pass, and let them wait. So servers are given
# goals, say a first token within 200 ms and a token every 30 ms for 90 % of the requests. **Goodput** is the number of
# requests a second that meet *all* goals ([Zhong 2024](https://arxiv.org/abs/2401.09670)):
#
# $$\text{goodput} = \text{requests finished a second} \cdot \text{share of them within every goal}$$
#
# **By hand.** 20 requests a second are finished. 80 % have their first token in time, 90 % their gaps, 72 % both. The
# goodput is 20 · 0.72 = 14.4 a second. (Both shares alone do not tell: at least 70 % meet both, at most 80 %.)
#
# Below, 32 requests come all at once to an engine of 8 places, which says how many a second it can serve. Then they
# come by chance, at four shares of that. The goals are set by the machine alone: four times the first token of a
# request that has the engine for itself, and three times its gap between tokens. (About half a minute.)
#
# ### Prediction 5
#
# At which load is the goodput highest: 0.4, 0.8, 1.2 or 2 times what the machine can do?

# %%
my_best_load = 0.4  # change it


# %%
def serve(requests):
    return replay_engine("engine", Engine(target, max_running=8, prefix_cache=False), requests)


alone = [serve(all_at_once([a])) for a in trace[:5]]
goal_ttft = 4 * statistics.median(r.ttft_seconds() for r in alone)
goal_tpot = 3 * statistics.median(r.inter_token_seconds() for r in alone)
at_best = 32 / serve(all_at_once(trace[:32])).seconds
print(f"goals: first token within {1e3 * goal_ttft:.0f} ms, {1e3 * goal_tpot:.1f} ms a token;", end=" ")
print(f"all at once {at_best:.1f} requests are served a second")
told = {}
for share in tqdm([0.4, 0.8, 1.2, 2.0]):
    r = serve(poisson(share * at_best, 32, seed=3, requests=list(trace)))
    first = [m.ttft_seconds <= goal_ttft for m in r.requests]
    gaps = [m.tpot_seconds <= goal_tpot for m in r.requests]
    both = statistics.fmean(a and b for a, b in zip(first, gaps, strict=True))
    finished = len(r.requests) / r.seconds
    told[share] = finished, finished * both
    print(f"load {share}: {r.tokens_per_second:6,.0f} tokens/s, {finished:4.1f} requests/s;", end=" ")
    print(
        f"first token in time {statistics.fmean(first):4.0%}, gaps {statistics.fmean(gaps):4.0%}, both {both:4.0%}:",
        end=" ",
    )
    print(f"goodput {told[share][1]:4.1f} requests/s")
most, good = ([values[i] for values in told.values()] for i in (0, 1))
top = good.index(max(good))
has_one_top = good[:top] == sorted(good[:top]) and good[top:] == sorted(good[top:], reverse=True)
if has_one_top and max(most) <= 1.1 * at_best:
    loads = {"most requests a second": most, "the highest goodput": good}
    for what, values in loads.items():
        print(f"{what} at a load of {largest(dict(zip(map(str, told), values, strict=True)))}")
else:
    print(f"the best load: {CANNOT_TELL}. Goodput falls and rises again, or more was served than all at once:")
    print("something else ran, or it is chance")
print(f"you said {my_best_load}")

# %%
fig, ax = figures.figure(height=3.2)
ax.plot(list(told), [n for n, _ in told.values()], "s--", color=figures.GREY, label="all that are finished")
ax.plot(list(told), [n for _, n in told.values()], "o-", color=figures.BLUE, label="within all goals: goodput")
ax.set(xlabel="load, as a share of what the machine can do", ylabel="requests a second", ylim=(0, None))
ax.legend(fontsize=9)
figures.show(
    fig,
    "Requests a second against the load, all that are finished and those within all goals: "
    + ", ".join(f"{n:.1f} and {good:.1f} at a load of {share}" for share, (n, good) in told.items())
    + ".",
)

# %% [markdown]
# Requests a second go on rising with the load until all slots are taken. The waits explode before that, as the formula
# of the queue says, so beyond some load more requests make fewer happy ones. There a server should turn some away, or
# somebody should buy another. (With 32 requests the top of the curve is told roughly.) Capacity is quoted in goodput:
# so many requests a second *at these goals*, never tokens a second alone.
#
# | lever | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|
# | larger batch | queue shorter | longer | rises until caches dominate | a cache each | last bits |
# | continuous instead of static | far shorter | a little longer when a newcomer's prompt joins the pass | rises, more so with unequal answers | the same | last bits |
# | less load | shorter, very much so near a load of 1 | shorter | falls | less | last bits |
#
# (*Last bits*: a larger matrix is multiplied in other pieces, so sums are added up in another order.
# [Week 3](../week03_sampling/week03_sampling.ipynb) shows what that does to a text at temperature 0.)

# %% [markdown]
# ## The same with libraries
#
# transformers' `generate` runs a static batch: a rectangle of prompts, filled up on the left, until the longest answer
# is written. vLLM, SGLang and TensorRT-LLM batch continuously, and so does `nanolm serve`. `nanolm bench` replays a
# trace in these ways side by side.
#
# ## The same on a real model
#
# SmolLM2-135M, if it is installed here: Prediction 1 once more (about half a minute).

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, smol_tokenizer = real
    found = take_turns({n: decode_pass(smol, n) for n in (1, 4, 16)}, repeats=5)
    for n, values in found.items():
        print(
            f"{n:2} requests: {1e3 * statistics.median(values):5.0f} ms a pass, {n / statistics.median(values):5.0f} tokens/s"
        )
    print(f"16 requests take {ratio(found, 16, 1)} as long as one")

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **A batch that ends with its shortest request.**
#   `test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps`
# - **"Continuous" batching that refills when all are done, or one step late.**
#   `test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps`
# - **One list for all rows of the timeline.** The past changes with the present. The same test.
# - **`needs` counted down in place.** The caller's list is empty afterwards.
#   `test_simulate_batching_leaves_its_arguments_as_they_were`
# - **Waiting for a full batch.** The last requests of the day wait for ever.
#   `test_simulate_static_batching_does_not_wait_for_a_full_batch`
# - **Request 0 taken for an empty slot.** `test_utilisation_is_slots_at_work_over_steps_times_slots`
# - **Waits counted from step 0 instead of from the arrival.** `test_waited_counts_from_a_request_s_own_arrival`
# - **Arithmetic or caches left out of a large batch's pass.** (A test of `budget`.)
#   `test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards. The model is the 8B one from above: 131,072 B a token, 4.48 ms to load
# the weights, 15 µs of arithmetic a position.
#
# **1.** Static batches of 8. Seven answers have 50 tokens, one has 400. Utilisation? How many times the throughput
# would continuous batching have if the queue never ran empty?
#
# <details><summary>Answer</summary>(7 · 50 + 400) / (8 · 400) = 750/3,200 = 23.4 %. Continuous batching keeps all slots
# at work, so 1/0.234 = 4.3 times.</details>
#
# **2.** Requests arrive at 20 a second; each stays 6 s. The server runs at most 100. What happens? You can halve the
# answers, or double the places (TPOT grows by 30 %). Which helps?
#
# <details><summary>Answer</summary>20 · 6 = 120 are inside in a steady state (Little), 100 have places: it can finish
# 100/6 = 16.7 a second, and the queue grows by 3.3 every second. Half the answers: about 3 s, 60 places suffice. Twice
# the places: 7.8 s, 20 · 7.8 = 156 of 200: suffices too, if the memory has room for 200 caches.</details>
#
# **3.** From which batch on does a pass of the 8B model spend more time on caches than on weights, at 1,024 and at
# 8,192 tokens a request?
#
# <details><summary>Answer</summary>15 GB / 0.134 GB = 112 requests, and 15/1.074 = 14. With long contexts the weights
# are shared long before the batch is large, and shrinking the cache (weeks 5 and 9) is what helps.</details>
#
# **4.** Prompts of 2,048 tokens, all equal, on the 8B model. How many a second may come so that the mean TTFT stays
# within 100 ms?
#
# <details><summary>Answer</summary>d = 2,048 · 15 µs = 30.7 ms. The wait may be 69.3 ms, 4.51 times d/2 = 15.4 ms. ρ/(1
# − ρ) = 4.51, so ρ = 0.82, and λ = 0.82/0.0307 = 26.6 a second. From 33 a second on TTFT has no bound at all.</details>

# %% [markdown]
# ## Check yourself
#
# - Why does continuous batching beat static batching for chat, and when do both do equally well?
# - A larger batch: what happens to TPOT, to throughput, to the price? What ends its growth?
# - The load of prefill goes from 0.8 to 0.9. What happens to the wait?
# - Two servers write equally many tokens a second. What would you ask before you choose?
#
# <details><summary>Short answers</summary> Answers differ in length and requests come at any time; with equal lengths
# that all arrive together there is nothing to refill. · TPOT grows, throughput grows, the price falls, all ever more
# slowly, until memory for caches ends. · ρ/(1 − ρ) goes from 4 to 9: more than twice as long. · At which goals for TTFT
# and TPOT, and which share of the requests meets both: their goodput. </details>

# %% [markdown]
# ## What you have now
#
# You can compute what a batch of unequal answers wastes, how long a pass of a batch takes and why caches end its
# growth, and how the wait for the first token grows with the load. The second evening is about memory: [blocks, tables
# and the scheduler](week06_2_paging.ipynb).
#
# ## Sources
#
# - Yu et al. 2022, [*Orca: a distributed serving system for transformer-based generative
#   models*](https://www.usenix.org/conference/osdi22/presentation/yu): scheduling pass by pass, selective batching.
# - Pope et al. 2022, [*Efficiently scaling transformer inference*](https://arxiv.org/abs/2211.05102): what a pass
#   costs, and how to split a model.
# - Zhong et al. 2024, [*DistServe: disaggregating prefill and decoding for goodput-optimized large language model
#   serving*](https://arxiv.org/abs/2401.09670): goals for TTFT and TPOT, and goodput.
# - Kleinrock 1975, *Queueing systems, volume 1*, chapter 5: the mean wait of a single server.
