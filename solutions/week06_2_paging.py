# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 6, second evening · Paging and the scheduler
#
# The [first evening](week06_1_batching.ipynb) ended with memory: the cache, not the arithmetic, ends the growth of a
# batch. This evening you store caches in small blocks, so that more of them fit, and write the scheduler that decides
# before every pass who runs, who waits and who has to give way. At the end your own scheduler serves a recorded trace,
# and you watch it do so.
#
# **After this evening you can**
#
# - compute how many requests fit in a memory, with and without paging, and what each wastes;
# - write the block allocator, the block table with copy on write, and a scheduler: whom to admit, what runs in a pass,
#   whom to preempt;
# - show that a preempted request writes the same text, and that everybody finishes;
# - read a server's waits: queue, prefill, time per token, and say which knob moves which.
#
# **Time:** two hours for the three exercises, forty minutes for the two written questions, an hour and three quarters
# of reading and measuring. **Needs:** the idea of a KV cache ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)) and
# of continuous batching (the first evening). No exercise of another notebook has to be solved.

# %% [markdown]
# ## How to work
#
# As on the first evening: run the two set-up cells, write the functions of the cells marked *Exercise*, run the
# `check(...)` below each. Where a test failed, the call of your answer stands in `failing`, and `failing.again()`
# makes it once more. Of an exercise with several methods you can test one at a time, `check("BlockTable.append")`, in
# a cell of your own. Where an answer is not written yet, the reference does its work in the labs, and the cell says
# so. Where you see a *Prediction*, write a number down before you run the next cell.
#
# Where a docstring says *Raises*, the message has to name the argument, or use the word that the docstring gives.
# `require_count(0, n=n)`, which is imported for you, refuses what is no whole number of at least 0, and words it so.

# %%
# Set-up for the labs
import copy
import random
import statistics
import time

import torch
from tqdm.auto import tqdm

from nanolm import load
from nanolm.engine import Engine
from nanolm.paging import PagedKVCache
from nanolm.sampling import SamplingParams
from nanolm.workload import EXACTLY, all_at_once, heavy_tailed_lengths, load_trace, poisson, replay_engine

from course import your_engine
from course.lab import figures
from course.lab.timing import rounds_allowed
from course.lab.verdicts import CANNOT_TELL, ratio, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
config = target.config
small = load("draft")[0]  # a smaller model, for measurements that depend on lengths and not on what is written
exact = copy.deepcopy(small).double()  # in float64 no rounding decides between two tokens
trace = load_trace()  # requests with prompts, answer lengths and arrival times, the same for everybody
token_bytes = 2 * config.n_layers * config.n_kv_heads * config.head_dim * 4  # keys and values, float32
print(f"the target keeps {token_bytes:,} bytes a token")


def new_engine(model=target, **options):
    """An engine as this evening explains it: first come, first served; no reserve, no prefix cache."""
    taught = {"n_blocks": 2048, "prefix_cache": False, "reserve": 0.0, "max_overtakes": 0}
    return Engine(model, **taught | options)


# %% [markdown]
# ## The idea in plain words
#
# **Loose sheets.** Nobody knows how long an answer will be. A clerk who gives every visitor a bound notebook of 300
# pages, because one of them might fill it, soon runs out of shelf. Give out loose sheets instead, one at a time, from
# one stack, and write on an index card which sheets belong to whom, in order. That is **paging**: the sheets are the
# cache's **blocks**, the index card is a **block table**. Two visitors whose notes begin alike can even share sheets,
# until one of them wants to write on a shared one and copies it first.

# %% [markdown]
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | B | sequences that run | `max_running` at most |
# | S | positions in the cache of a sequence | `table.length` |
# | T | positions of one sequence run in this pass: 1 when it writes, more in prefill | `n_tokens` of `Work` |
# | g | positions in a block | `block_size` |
# | p | a position of a sequence, from 0 | |
# | M, X, μ | the longest text allowed, a text's length, its mean | |
# | K, H | key/value heads, numbers in a head | |
#
# GB is 10⁹ bytes. A **pass** is one run of the model, in which everybody who runs has a part. **TTFT** is the time to
# the first token, **TPOT** the time per output token after it.

# %% [markdown]
# ## Two ways to keep a cache
#
# **Reservation.** When a request starts, nobody knows how long it gets. A tensor wants its place in one piece, so early
# servers reserved room for the longest text allowed. Three things are lost: what is reserved for tokens not *yet*
# written; what is reserved for tokens that are *never* written; and the holes *between* reservations that are too small
# for another. The first two lie inside what somebody holds and are called **internal fragmentation**, the holes between
# are **external fragmentation**.
#
# With an average of 1,000 tokens and reservations for 8,192, the share in use is at most 1,000/8,192 = 12 %.
#
# **Paging.** The memory is cut into blocks of g positions. A request gets a block when a position has to go into it.
# Blocks of one request can lie anywhere. What is left of internal fragmentation is the empty part of each request's
# last block: at most g − 1 positions, and about (g − 1)/2 on average. External fragmentation is gone, since all blocks
# are equal.
#
# $$\text{blocks}(S) = \left\lceil \frac{S}{g} \right\rceil \qquad \text{place}(p) = g \cdot \text{table}\!\left[\left\lfloor \frac{p}{g} \right\rfloor\right] + p \bmod g$$
#
# The pool's places are numbered through, block after block. (The function is called `slot_mapping`, as in vLLM.)
#
# **By hand.** Blocks of g = 4. A request holds the blocks 7, 2, 5, in this order, and has 10 positions. Where is
# position 9? 9 // 4 = 2, the third block, which is block 5; 9 mod 4 = 1, the second place in it. So place 4 · 5 + 1 =
# **21**. Position 0 is in place 28, position 5 in place 9. The table is what keeps the order; the numbers need none.

# %%
fig, ax = figures.figure(6.4, 2.6)
for block in range(8):
    mine = {7: 0, 2: 1, 5: 2}.get(block)
    for place in range(4):
        position = None if mine is None or 4 * mine + place > 9 else 4 * mine + place
        colour = figures.BLUE + "40" if position is not None else "white"
        ax.add_patch(figures.plt.Rectangle((4 * block + place, 0), 1, 1, facecolor=colour, edgecolor=figures.GREY))
        if position is not None:
            ax.text(4 * block + place + 0.5, 0.5, str(position), ha="center", va="center", fontsize=9)
    ax.plot([4 * block, 4 * block], [-0.1, 1.1], color="#333333", linewidth=1.4)
    ax.text(4 * block + 2, 1.35, f"block {block}", ha="center", fontsize=9)
    if mine is not None:
        ax.text(4 * block + 2, -1.05, f"table[{mine}]", ha="center", fontsize=9, color=figures.RED)
        ax.annotate(
            "", (4 * block + 2, -0.05), (4 * block + 2, -0.65), arrowprops={"arrowstyle": "->", "color": figures.RED}
        )
ax.set(xlim=(-0.2, 32.2), ylim=(-1.3, 1.8))
ax.set_axis_off()
figures.show(
    fig,
    "A pool of eight blocks of four places. A table's first entry points to block 7, which has positions 0 to 3; the second to "
    "block 2, with 4 to 7; the third to block 5, with 8 and 9 and two places empty.",
)

# %% [markdown]
# How does attention find its way? It reads the table. A kernel follows it block by block: on a GPU
# [`nanolm/kernels/triton_paged.py`](../../nanolm/kernels/triton_paged.py), on a CPU
# [`nanolm/kernels/attention.c`](../../nanolm/kernels/attention.c). Without a C compiler, and for prompts,
# [`nanolm/paging/paged_cache.py`](../../nanolm/paging/paged_cache.py) gathers the blocks first. Masks and positions are
# as before: paging moves numbers, it changes none.
#
# The books are in [`nanolm/paging/blocks.py`](../../nanolm/paging/blocks.py), without a single tensor. First the stack
# of free sheets. A block may have several **holders** (you will soon see who), so each has a count of references. 0
# references: it is free.

# %%
from nanolm.paging import BlockAllocator  # exercise: allocate, share, free
# points: 4
# minutes: 12
# difficulty: 1
# tested: Each block is given once, one holder at first, an empty pool, the block freed last is taken first, a shared
#   block survives its first holder, a free block can be neither shared nor freed, and a refusal changes nothing.
# why: A block given to two requests mixes their texts, without any error. A block never given back is memory lost until
#   restart.
# hint: A block returns to the stack when its last holder has gone, not before; and a number outside the pool must be
#   refused, which `self._references[-1]` does not do. // `self._free` is a list used as a stack, `self._references`
#   counts the holders of each block; `self.references(block)` reads the count and refuses what is no block. Refuse
#   first, change afterwards.

# %% [markdown]
# Now the index card. `append(n)` reserves n more positions, and there is one subtlety.
#
# Sometimes a text is to be continued in several ways: four answers to one question, an attempt and its retry, or a
# *beam search*, which writes several candidates on and keeps the likeliest. To **fork** a table is to make a second one
# over the *same* blocks; each has one more holder. Nothing is copied, as long as both only read. What happens when they
# write? Take blocks of 4, and two tables of 6 positions over blocks 0 and 1:
#
# | | twin's table | original's table | references of 0, 1, 2 |
# |---|---|---|---|
# | after the fork | 0, 1 | 0, 1 | 2, 2, 0 |
# | the twin appends position 6: it falls into block 1, which others read | 0, **2** (block 1 is copied to 2) | 0, 1 | 2, 1, 1 |
# | the original appends position 6: block 1 has one holder again | 0, 2 | 0, 1 (no copy) | 2, 1, 1 |
#
# This is **copy on write**. Block 0 is full, so nobody will write into it, and it stays shared to the end. Only a
# *partly filled last* block is ever copied. `append` returns the copies to make, as pairs (from, to); whoever has the
# tensors makes them.
#
# Given: `blocks_needed(n)`, the free blocks that `append(n)` takes in all, that for a copy included; `_must_copy(n)`,
# whether the first of n new positions falls into a block that others hold too.

# %%
from nanolm.paging import BlockTable  # exercise: slot_mapping, append, fork
# points: 8
# minutes: 30
# difficulty: 3
# tested: Places of a scattered table, of blocks of one, and positions that are not reserved. Append: a block when the
#   last one is full and not before, many positions at once, copy on write and who keeps which block, no copy behind a
#   full block or for nothing, and a table unchanged when there is no room. Fork: every block shared, none copied, a
#   list of its own.
# why: This is the page table of PagedAttention. `append` runs for every request in every pass.
# hint: A table that could not be served must be as before, so ask before you take. The copy is one of the blocks that
#   are needed, and the shared block loses one holder, not all. // append: compare `blocks_needed(n)` with what is free;
#   then the copy, if `_must_copy(n)`: a block of your own in the place of the last one, whose reference you give back;
#   then as many new blocks as the new length needs. fork: `share` each block, and a list of its own. slot_mapping: the
#   formula above, position by position.

# %% [markdown]
# Two requests, a fork and a copy, in *your* tables. Below, a box is a block, a bar in it how much of it is filled.


# %%
def draw_pool(allocator, tables, block_size, title=""):
    """A pool's blocks in order, each with the names of the tables that hold it and its filled part."""
    fig, ax = figures.figure(6.4, 1.6)
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
        ax.text(block + 0.45, -0.3, str(block), ha="center", fontsize=9, color="#555555")
    ax.set(xlim=(-0.1, allocator.n_blocks), ylim=(-0.45, 1.1), title=title)
    ax.set_axis_off()
    return fig


# %%
def grown_in_turns():
    """A pool of eight blocks, two tables that have grown in turns, and a fork of the first."""
    pool = BlockAllocator(8)
    a, b = BlockTable(pool, 4), BlockTable(pool, 4)
    for n_a, n_b in ((3, 2), (3, 5), (0, 2)):  # so their blocks lie mixed
        a.append(n_a)
        b.append(n_b)
    return pool, {"a": a, "b": b, "twin": a.fork()}


before, tables = grown_in_turns()
print(f"positions 0 to 5 of a are in places {tables['a'].slot_mapping(0, 6)}")
after, written = grown_in_turns()
print(f"the twin appends one position; to copy: {written['twin'].append(1)}")
print(f"a appends one position; to copy: {written['a'].append(1)}")

# %%
figures.show(
    draw_pool(before, tables, 4, "after the fork"),
    "Eight blocks. a and twin share two blocks, orange, the second half full. b has three blocks of its own, one "
    "partly filled. The blocks of a and b lie mixed. Three are free.",
)
figures.show(
    draw_pool(after, written, 4, "after both have written"),
    "a and twin still share their first block; each now has a second block of its own, three quarters full. Two "
    "blocks are free.",
)

# %% [markdown]
# And the tensors. Below, keys and values of two sequences are written to your places in one pool and read back
# through your tables.

# %%
blocks, store = BlockAllocator(12), PagedKVCache(config, n_blocks=12, block_size=4)
first, second = BlockTable(blocks, 4), BlockTable(blocks, 4)
kept = {0: [], 1: []}
for n in (3, 5, 1, 4):
    for which, table in enumerate((first, second)):
        start = table.length
        table.append(n)
        k, v = torch.randn(2, config.n_kv_heads, n, config.head_dim)
        store.write(0, k, v, torch.tensor(table.slot_mapping(start, table.length)))
        kept[which].append(k)
rows = torch.tensor([first.blocks, second.blocks])
keys, _ = store.read(0, rows)  # (B, K, S, H)
for which, table in enumerate((first, second)):
    same = torch.equal(keys[which, :, : table.length], torch.cat(kept[which], dim=1))
    print(f"blocks {table.blocks}: {table.length} positions come back in order: {same}")

# %% [markdown]
# ## Sizing: by the mean or by the tail?
#
# How many requests may run at once? Suppose the pool has room for 20,000 positions, and texts have lengths as users'
# texts do: many short ones and a few very long. If you divide by the mean length, the pool is just full *on average*.
# In every group of requests that is longer than average, it is too small.
#
# ### Prediction 1
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
print(f"sized by the mean, it is too small {share[at_mean]:.0%} of the time; you said {my_overflow_at_the_mean:.0%}")
print(f"sized by the 95 %: {share[at_p95]:.1%} of the time")

# %%
fig, ax = figures.figure()
ax.plot(counts, [100 * share[n] for n in counts], "o-", color=figures.BLUE, markersize=4)
for at, text in ((at_p95, "by the 95 %"), (at_mean, "by the mean")):
    ax.axvline(at, color=figures.GREY, linestyle="--", linewidth=1)
    ax.text(at + 0.5, 92, text, fontsize=9, color="#555555")
ax.set(xlabel="requests that run at once", ylabel="pool too small, % of the time", ylim=(-2, 100))
figures.show(
    fig,
    "How often the pool is too small against the number of requests: "
    f"{share[at_p95]:.0%} at the number computed from the 95 % length, {share[at_mean]:.0%} at that from the mean, "
    f"{share[counts[-1]]:.0%} at {counts[-1]}.",
)

# %% [markdown]
# This is the classical failure: **out of memory only when several long requests meet.** No test with typical prompts
# finds it. So size with the length that 95 % stay below (p95), the batch that you want, and 10 to 20 % headroom, and
# let the server do something sensible in the remaining cases. What is sensible? Nobody's work should be lost, and
# nobody should wait for ever. That is the scheduler's business.

# %% [markdown]
# ## The scheduler
#
# Every request is the same thing at every time: a list of tokens of which the first `n_computed` are in the cache. The
# others are *pending*. A prompt has many pending tokens, a decoding request has one. So prefill, prefill in chunks,
# decoding and "begin again after a loss" are **one rule: run pending tokens, as many as the budget of the pass
# allows.**
#
# The budget, `max_tokens_per_step`, bounds the length of a pass, since everybody in it waits for all of it. Decoding
# requests come first, with one token each. What is left goes to prompts, in pieces if need be: **chunked prefill**
# ([Agrawal 2023](https://arxiv.org/abs/2308.16369)). All tokens of a pass lie one behind the other in one row
# ([`nanolm/varlen/varlen_batch.py`](../../nanolm/varlen/varlen_batch.py): a batch of variable lengths), so a prompt's
# chunk and others' single tokens share one loading of the weights.
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
# a needed 5 + 2 = 7 positions, not 8: the last token is written and never run. TTFT of b: two passes. Had b been
# admitted only when a was done, it would have been five: three of a's, one for 8 tokens of b's prompt, one for the
# last.
#
# **Admission.** Strictly in the order of the queue. If the first in the queue does not fit, nobody behind it overtakes,
# or a long request would wait for ever on a busy server. It fits if there are blocks for *all* its pending tokens,
# although only a chunk runs in this pass: half a prompt is of no use to anybody. Nothing is held for the answer. That
# is the bet of paging: not all will be long at once.
#
# **Preemption.** Sometimes the bet is lost: a decoding request needs a block and none is free. Then the one that *came
# last* is **preempted**. Its blocks are taken, its tokens are kept, and it waits *before* everybody else. When there is
# room, it runs all its tokens again as if they were a prompt, the tokens of its own answer among them. Its text goes on
# as if nothing had happened. For a *prompt* nobody is preempted: it runs as far as there are blocks, and waits.
#
# **A pass** is planned in four steps, each with what the budget has left: who decodes; a short newcomer; prompts that
# have begun; other newcomers. The second step is for fairness: with `max_overtakes` above 0 a prompt that is shorter
# than all that run may go before them, and prompts share what they get, half for the oldest, the rest for the shortest
# first. So a question of one line does not wait for a document. With 0, as in the labs below, prompts run in order.
#
# A request's fields: `n_pending` (tokens to run, drafted ones of
# [week 4](../week04_speculative/week04_speculative.ipynb) included), `is_decoding` (only its newest token has not run),
# `table`, `n_preemptions`, and `draft`, a list of drafted tokens, empty where nothing drafts. Given, most of it
# in the class below; `can_begin`, `_forget_blocks` and `_room` are in the class that it inherits from, `Admission`, in
# [`nanolm/engine/admission.py`](../../nanolm/engine/admission.py), and so is the function `prompt_shares`:
#
# | helper | what it does |
# |---|---|
# | `self.can_begin(request, n)` | whether there is room for a waiting request's first n tokens, beside what others will need |
# | `request.table.append(n)` | reserves the positions of what runs (this week's table) |
# | `Plan()` | an empty plan of a pass; all four parts of it are lists, to be added to |
# | `Work(request, n)` | one entry of `plan.work` |
# | `plan.admitted`, `plan.preempted` | requests admitted and preempted in this pass |
# | `plan.copies` | pairs (from, to), the copies that `table.append` has returned |
# | `self._forget_blocks(request)` | gives all its blocks back and counts nothing of it as computed |
# | `self._make_room(request, n, plan)` | has blocks for n more tokens of a running request, if need be by preempting from the end of `self.running`; drops a draft first; returns how many can run, 0 if it was preempted itself |
# | `self._run(request, n, plan)` | reserves the positions, enters work and copies in the plan; returns n; with 0 it does nothing |
# | `self._admit_a_short_one(plan, budget)` | the second step; returns how many tokens it took |
# | `prompt_shares(prompts, budget, fair=…)` | which running prompts get how many tokens: a list of pairs (request, n) |
# | `self._room(request, n)` | how many of n more tokens there are blocks for, without preempting anybody |
# | `self._again(plan)` | preempts the last if nobody was preempted yet, and plans once more; returns that plan |

# %%
from nanolm.engine import Scheduler  # exercise: admit, preempt, schedule
# points: 14
# minutes: 75
# difficulty: 3
# tested: Admit: order, no overtaking, room for the whole prompt to the last block, blocks taken earlier in the same
#   pass, the budget for all newcomers together, max_running. Preempt: blocks and tokens, the place in the queue, the
#   draft, shared blocks. Schedule: who decodes comes first, drafts, the budget to the last token, chunks and shares,
#   newcomers last and never after a preemption, nobody twice, nobody with nothing, no empty pass.
# why: These three decide who waits. A mistake here is a server that hangs under load, or serves one user twice and
#   another never.
# hint: Who is preempted for another's block is gone from `self.running` while you go through it, and must not run in
#   this pass; who was admitted in this pass is in `self.running`, and must not run twice. // admit: a loop while
#   somebody waits, a place is free and budget is left; look at the first, and if it cannot begin, end; only then move
#   it, and lower the budget. preempt is five lines; `appendleft` is the important one. schedule: go through a copy of
#   those who decode, each with what `_make_room` allows of its pending tokens; then step by step as the docstring
#   numbers them; lower the budget by what `_run` returns. What is in the plan at the end decides whether you return it
#   or `_again`.

# %% [markdown]
# ## Your parts in the engine
#
# [`nanolm/engine/engine.py`](../../nanolm/engine/engine.py) is the whole server in one method: `step` schedules a pass
# (`scheduler.schedule`), lets [`model_runner.py`](../../nanolm/engine/model_runner.py) compute it, and gives every
# request its tokens. It looks into neither the scheduler nor the tables. `your_engine` puts your answers there for the
# length of a `with`: from here on every token is served by *your* `schedule`, on *your* tables, out of *your* pool.

# %%
# The schedule from above: prompts of 5 and 9 tokens, three new ones each, 8 tokens a pass.
engine = new_engine(max_tokens_per_step=8)
with your_engine("6.4", "6.5", "6.6") as parts:
    for length in (5, 9):
        engine.add_request(trace[0].prompt[:length], 3, EXACTLY)
    while engine.has_work:
        outputs = engine.step()
        record = engine.records[-1]
        told = ", ".join(
            f"{'ab'[output.id]} gets a token{' and ends' if output.finish_reason else ''}" for output in outputs
        )
        print(f"prompt tokens run: {record.n_prefill_tokens}, for decoding: {record.n_decode_tokens}; {told}")
print(", ".join(f"{part.name} ran {part.calls} times" for part in parts))

# %% [markdown]
# ### The same request alone and with others
#
# What a request gets must not depend on who else is served. To see it, make life hard: a pool of 24 blocks for ten
# requests, chunks of at most 48 tokens a pass. In float64, so that no rounding can decide between two tokens, and with
# the smaller model: the scheduler never looks at the model, and it is done sooner.

# %%
ten = trace[:10]
company = new_engine(model=exact, n_blocks=24, max_running=8, max_tokens_per_step=48)
with your_engine("6.4", "6.5", "6.6"):
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
# (0 is possible: it depends on the processor and its library.) [Week 3](../week03_sampling/week03_sampling.ipynb) shows
# what such bits do to a text at temperature 0, and what it costs to rule them out.

# %% [markdown]
# ## Reservation against paging: how many fit?
#
# A pool of 128 blocks of 16 positions, 2,048 positions. The longest prompt of the trace has 193 tokens, the longest
# answer 149. Who reserves has to be ready for both: 342 positions, 22 blocks a request, whatever it needs.
#
# ### Prediction 2
#
# All 64 requests come at once. How many run at the same time, with reservation and with paging? For paging, compute
# with the mean text at half of its answer.

# %%
my_running_reserved, my_running_paged = 0, 0  # change both

# %%
longest = max(a.n_prompt_tokens for a in trace) + max(a.n_output_tokens for a in trace)
fit_reserved = 128 // -(-longest // 16)
half_written = [-(-(a.n_prompt_tokens + a.n_output_tokens // 2) // 16) for a in trace]
fit_paged = 128 / statistics.fmean(half_written)


def serve_in_pool(max_running):
    """Serve the trace at once; return the replay, the engine, and (running, positions in use) while somebody waited."""
    engine, seen = new_engine(model=small, n_blocks=128, max_running=max_running), []

    def look(n_new):
        running = engine.scheduler.running
        if engine.scheduler.waiting:
            seen.append((len(running), sum(request.table.length for request in running)))

    return replay_engine("", engine, all_at_once(trace), on_token=look), engine, seen


pools = {"reserved": [], "paged": []}
with your_engine("6.4", "6.5", "6.6"):
    for _ in tqdm(range(rounds_allowed(3))):
        pools["reserved"].append(serve_in_pool(fit_reserved))
        pools["paged"].append(serve_in_pool(64))
print(f"predicted: {fit_reserved} with reservation, {fit_paged:.1f} with paging; ", end="")
print(f"you said {my_running_reserved} and {my_running_paged}")
for name, rounds in pools.items():
    _, engine, seen = rounds[0]  # who runs when does not depend on the clock
    running, used = (statistics.fmean(values) for values in zip(*seen, strict=True))
    print(f"{name:9} {running:4.1f} ran while others waited, {used / 2048:4.0%} of the positions used,", end=" ")
    print(f"{engine.metrics.n_steps} passes, {engine.metrics.n_preemptions} preemptions")
times = {name: [replay.seconds for replay, _, _ in rounds] for name, rounds in pools.items()}
print(which_is_faster(times, "paged", "reserved"))

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2, sharex=True)
for (name, rounds), colour in zip(pools.items(), (figures.RED, figures.BLUE), strict=True):
    running, used = zip(*rounds[0][2], strict=True)
    axes[0].plot(running, color=colour, label=name)
    axes[1].plot([100 * u / 2048 for u in used], color=colour)
axes[0].set(xlabel="pass", ylabel="requests that run", ylim=(0, None))
axes[1].set(xlabel="pass", ylabel="pool in use, %", ylim=(0, 100))
axes[0].legend()
figures.show(
    fig,
    "Two panels over the passes while requests wait: requests that run, and the share of the pool in use. "
    + " ".join(
        f"{name.capitalize()}: {statistics.fmean(n for n, _ in rounds[0][2]):.0f} run and "
        f"{statistics.fmean(u for _, u in rounds[0][2]) / 2048:.0%} of the pool is in use on average, for "
        f"{len(rounds[0][2])} passes."
        for name, rounds in pools.items()
    ),
)

# %% [markdown]
# The same memory, several times the requests in a pass, and so fewer passes. (How much faster that is depends on what a
# pass costs: here much of it is the engine's own work; with a larger model it is the model's.) What is left unused with
# paging are the ends of last blocks and now and then a few blocks, too few for the next in the queue. And there is a
# price in the last column: admission fills the pool with fresh, short texts, and then they all grow. So blocks run out,
# and some request is preempted.

# %% [markdown]
# ## What preemption costs
#
# A preempted request runs its tokens twice. Nothing else is lost. A request needs prompt + answer − 1 positions; what
# is run beyond that is the price. How high is it?
#
# ### Prediction 3
#
# The sixteen requests of the trace with the longest answers come at once. Complete, they need 127 blocks. With 48
# blocks, what share of the positions is run twice? And how many more passes does it take than with enough blocks?

# %%
my_share_run_twice, my_share_more_passes = 0.0, 0.0  # change both

# %% [markdown]
# Each size of the pool is served twice, without and with **a reserve of blocks** that newcomers leave free, as far as
# those who run may still need them for their answers. `Engine` keeps a quarter of the pool back unless told otherwise.
# (About half a minute.)

# %%
sixteen = all_at_once(sorted(trace, key=lambda a: -a.n_output_tokens)[:16])
all_blocks = sum(-(-(a.n_tokens - 1) // 16) for a in sixteen)  # the last token is written and never run
pool_sizes = [24, 32, 40, 48, 64, 96, all_blocks]
needed = sum(a.n_tokens - 1 for a in sixteen)
twice, n_passes, texts = {0.0: [], 0.25: []}, {0.0: [], 0.25: []}, []
with your_engine("6.4", "6.5", "6.6"):
    for n_blocks in tqdm(pool_sizes):
        for reserve in twice:
            engine = new_engine(model=exact, n_blocks=n_blocks, reserve=reserve)
            texts.append(replay_engine("", engine, sixteen).texts)
            n_run = sum(record.n_prefill_tokens + record.n_decode_tokens for record in engine.records)
            twice[reserve].append(n_run / needed - 1)
            n_passes[reserve].append(engine.metrics.n_steps)
for i, n_blocks in enumerate(pool_sizes):
    print(f"{n_blocks:3} blocks: {twice[0.0][i]:4.0%} run twice in {n_passes[0.0][i]:3} passes;", end=" ")
    print(f"with a quarter in reserve {twice[0.25][i]:4.0%} in {n_passes[0.25][i]:3}")
print(f"all {len(texts)} runs wrote the same texts: {all(t == texts[0] for t in texts)}")
at = pool_sizes.index(48)
print(f"48 blocks: {twice[0.0][at]:.0%} run twice, you said {my_share_run_twice:.0%};", end=" ")
print(f"{n_passes[0.0][at] / n_passes[0.0][-1] - 1:.0%} more passes, you said {my_share_more_passes:.0%}")

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2)
for (reserve, line), style, colour in zip(twice.items(), ("o-", "s--"), (figures.RED, figures.GREEN), strict=True):
    label = f"reserve {reserve:.0%}" if reserve else "no reserve"
    axes[0].plot(pool_sizes, [100 * share for share in line], style, color=colour, label=label)
    axes[1].plot(pool_sizes, n_passes[reserve], style, color=colour)
axes[0].set(xlabel="blocks in the pool", ylabel="positions run twice, %", ylim=(-3, None))
axes[1].set(xlabel="blocks in the pool", ylabel="passes", ylim=(0, None))
axes[0].legend(fontsize=9)
figures.show(
    fig,
    "Left, the share of positions run twice against the size of the pool, right the passes. "
    + " ".join(
        f"{'With a reserve' if reserve else 'Without a reserve'}: {max(line):.0%} at most, and {n_passes[reserve][0]} passes "
        f"with 24 blocks, {n_passes[reserve][-1]} with enough."
        for reserve, line in twice.items()
    ),
)

# %% [markdown]
# (In float64 nothing here depends on your machine.) Two things to see. Without a reserve, in every pool that is clearly
# too small, a third or more of the positions are run twice: admission fills the pool with fresh, short texts, all of
# them grow, and the last to come is preempted, often more than once. And still it takes hardly more passes down to half
# of what is needed: what has to run again runs *as a prompt*, many tokens in a pass that loads the weights anyway. Only
# below that the passes grow in number, and for another reason: fewer requests run side by side.
#
# Each preemption is a gap in somebody's text, though. A server that preempts all the time has admitted too many. The
# reserve trades: fewer gaps, and fewer requests side by side. vLLM calls its share a *watermark* and keeps one
# hundredth, SGLang estimates how long answers will get and corrects itself. Instead of computing again, a server can
# also copy the blocks to CPU memory and back (*swapping*). Which is faster is a matter of two numbers, and
# [week 7](../week07_prompt_caching/week07_prompt_caching.ipynb) measures them. There a **prefix cache** also keeps the blocks
# that somebody gave up, as long as nobody needs them, and finds equal beginnings of prompts.

# %% [markdown]
# ## Chunked prefill: who waits for a long prompt?
#
# Eight requests decode. Then a prompt of 1,000 tokens arrives. If it may run in one pass, all eight wait for that pass.
# In chunks of 64 tokens a pass (8 of which go to the decoding requests), everybody's passes are short, but the newcomer
# needs eighteen of them.
#
# ### Prediction 4
#
# By what factor is the longest wait between two tokens of the decoding requests longer with a budget of 1,024 than with
# 64?

# %%
my_factor_of_longest_wait = 1.0  # change it


# %%
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
tries = {budget: [] for budget in budgets}
with your_engine("6.4", "6.5", "6.6"):
    long_prompt_arrives(1024)  # the first run is slower and does not count
    for _ in tqdm(range(rounds_allowed(5))):
        for budget in budgets:
            tries[budget].append(long_prompt_arrives(budget))
longest_waits = {budget: [max(waits) for _, waits, _ in rounds] for budget, rounds in tries.items()}
firsts = {budget: [ttft for _, _, ttft in rounds] for budget, rounds in tries.items()}
for budget in budgets:
    print(f"{budget:4} tokens a pass: decoding requests wait at most", end=" ")
    print(f"{1e3 * statistics.median(longest_waits[budget]):5.0f} ms for a token,", end=" ")
    print(f"the newcomer {1e3 * statistics.median(firsts[budget]):4.0f} ms for its first")
print(f"with 1,024 the longest wait is {ratio(longest_waits, 1024, 64)} as long as with 64;", end=" ")
print(f"you said {my_factor_of_longest_wait:.0f}")
print(f"and the newcomer's first token takes with 64 {ratio(firsts, 64, 1024)} as long as with 1,024")
for what, found, worse, better in (("longest wait", longest_waits, 1024, 64), ("first token", firsts, 64, 1024)):
    at = {budget: statistics.median(found[budget]) for budget in budgets}
    share = f"{(at[worse] - at[256]) / (at[worse] - at[better]):.0%}"
    if not ratio(found, worse, better).is_told:
        share = CANNOT_TELL
    print(f"of what {better:,} gain over {worse:,} in the {what}, 256 gain: {share}")

# %%
fig, ax = figures.figure(height=3.8)
shown = {budget: min(rounds, key=lambda r: max(r[1])) for budget, rounds in tries.items()}  # the one less disturbed
for (budget, (at, waits, ttft)), colour in zip(shown.items(), (figures.BLUE, figures.ORANGE, figures.RED), strict=True):
    line = [1e3 * w for w in waits]
    ax.plot([1e3 * t for t in at], line, "o-", color=colour, markersize=4, label=f"{budget:,} tokens a pass")
    ax.plot(1e3 * ttft, 0, "v", color=colour, markersize=9, clip_on=False)
ax.set(xlabel="ms since the long prompt arrived", ylabel="length of the pass, ms", ylim=(0, None))
ax.legend(fontsize=9)
figures.show(
    fig,
    "Length of each pass after a long prompt has arrived, in the least disturbed of the rounds; triangles on the axis mark the newcomer's first token. "
    + " ".join(
        f"With {budget:,} tokens a pass the longest takes {1e3 * max(waits):.0f} ms and the first token comes after "
        f"{1e3 * ttft:.0f} ms."
        for budget, (_, waits, ttft) in shown.items()
    ),
)

# %% [markdown]
# A dot is a pass, and its height is the wait for a token of every decoding request. Triangles mark the newcomer's first
# token. In red a text that was flowing stops for a moment, in blue it flows on, a little slower. The price is the
# newcomer's: with small chunks each pass loads the weights (here: starts its operations) for few tokens. In between
# there are budgets that give a good part of both: the last lines say how much the middle one gives here. On a GPU the
# best lies near the ridge point of
# [week 1](../week01_prefill_decode/week01_prefill_decode.ipynb), a few hundred to a few thousand tokens, where a pass just
# begins to be bound by arithmetic.

# %% [markdown]
# ## One beginning, several endings
#
# Four continuations of one text: for a choice, a vote, or a beam. With `Engine.fork` all four stand on the same blocks.
# (They share the token written so far; what comes next each draws with an rng of its own.)
#
# **By hand.** The longest prompt of the trace has 193 tokens; each continuation has 40 new ones, of which the last is
# never run: 232 positions, 15 blocks of 16. Four separate requests: 60 blocks. Forked: the 12 full blocks of the prompt
# are shared. The 13th holds a single position when they part, so each gets its own copy to write in. At the end each
# has 15 − 12 = 3 blocks of its own: 12 + 4 · 3 = **24**.

# %%
prompt = max((a.prompt for a in trace), key=len)
drawn = SamplingParams(1.0, end_tokens=())


def run_to_end(engine, answers):
    while engine.has_work:
        for output in engine.step():
            answers.setdefault(output.id, []).extend(output.tokens)
    return [record.n_blocks_used for record in engine.records]


forked, answers = new_engine(n_blocks=100), {}
apart = new_engine(n_blocks=100, max_tokens_per_step=1024)  # room for all four prompts in the first pass
with your_engine("6.4", "6.5", "6.6"):
    original = forked.add_request(prompt, 40, drawn, seed=0)
    answers[original] = forked.step()[0].tokens
    for seed in (1, 2, 3):
        answers[forked.fork(original, seed)] = list(answers[original])
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
    "Blocks in use over the passes. "
    + " ".join(
        f"{name.capitalize()}: {line[0]} in the first pass, {max(line)} at most." for name, line in used.items()
    ),
)

# %% [markdown]
# The distance between the lines is 12 full blocks, three times over: the prompt's, which four requests on their own
# keep four times. (In the first pass it is 13: the forks part only after it.) Each step upwards is the pass in which
# all four need a new block.
#
# ## Watch it serve
#
# After each pass the engine keeps a record: how many ran and waited, how many blocks were held. Below, the requests of
# the trace arrive by chance, sixty a second, and a pool of 128 blocks serves them. The picture is redrawn while it
# happens; the engine's clock stands still meanwhile, so that drawing costs it nothing.

# %%
from IPython.display import display


class Watch:
    """Seconds that pass while the engine works and not while we draw."""

    def __init__(self):
        self.stood_still, self.drawn_at, self.handle = 0.0, time.monotonic(), None

    def __call__(self):
        return time.monotonic() - self.stood_still

    def show(self, engine, every_seconds=1.5):
        """Draw the engine's records, unless that was done a moment ago."""
        if self() - self.drawn_at < every_seconds:
            return
        began, self.drawn_at = time.monotonic(), self()
        fig, alt = draw_records(engine)
        content = {"text/html": figures.image_html(fig, alt), "text/plain": alt}
        figures.plt.close(fig)
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)
        self.stood_still += time.monotonic() - began


def draw_records(engine):
    """Running, waiting and blocks over time; the figure, and in words what it shows."""
    records, n_blocks = list(engine.records), engine.scheduler.allocator.n_blocks
    at = [r.at - records[0].at for r in records]
    fig, axes = figures.figure(6.4, 3.2, columns=2)
    axes[0].plot(at, [r.n_running for r in records], color=figures.BLUE, label="running")
    axes[0].plot(at, [r.n_waiting for r in records], color=figures.ORANGE, label="waiting")
    axes[1].fill_between(at, [r.n_blocks_used for r in records], color=figures.GREEN, alpha=0.4)
    lost = [(t, r.n_blocks_used) for t, r in zip(at, records, strict=True) if r.n_preempted]
    if lost:
        axes[1].plot(*zip(*lost, strict=True), "v", color=figures.RED, markersize=5, label="preemption")
        axes[1].legend(loc="lower center", fontsize=9)
    axes[0].set(xlabel="seconds", ylabel="requests", ylim=(0, None))
    axes[1].set(xlabel="seconds", ylabel="blocks in use", ylim=(0, 1.08 * n_blocks))
    axes[0].legend(loc="upper right", fontsize=9)
    most = max(r.n_waiting for r in records)
    alt = (
        f"After {at[-1]:.1f} seconds: {records[-1].n_running} requests run and {records[-1].n_waiting} wait, at most "
        f"{most} so far. Right, blocks in use: {max(r.n_blocks_used for r in records)} of {n_blocks} at most."
    )
    return fig, alt


clock = Watch()
engine = new_engine(n_blocks=128, clock=clock)
rush = poisson(60, len(trace), seed=1, requests=list(trace))
with your_engine("6.4", "6.5", "6.6"):
    live = replay_engine("live", engine, rush, on_token=lambda n_new: clock.show(engine))
figures.show(*draw_records(engine))
m = engine.metrics
print(
    f"{m.n_steps} passes, {m.mean_running:.1f} requests in each on average ({m.utilisation:.0%} of the places), ",
    end="",
)
print(f"{m.n_preemptions} preemptions, {m.own_share:.0%} of the time outside the model")

# %% [markdown]
# The upper pictures were drawn while the engine ran, the lowest one is the last. Where orange is above zero, requests
# wait; look whether the pool is full then (memory makes them wait), or 32 run (places do). A red mark is a preemption.
#
# The same pass by pass, in a pool so small that you can see each block: five requests in 24 blocks of 8. Press Play,
# or go on with the arrows; which requests are preempted, and when?

# %%
from course.lab.watching import watched

with watched(new_engine(small, n_blocks=24, block_size=8), tokenizer, "A pool too small") as run:
    run.engine.generate([tokenizer.encode(f"{name}\n") for name in ("ROMEO", "JULIET", "HAMLET", "IAGO", "PORTIA")], 60)

# %% [markdown]
# ## TTFT, in parts
#
# **TTFT = queue + prefill + network** (and, for models that think first, their hidden reasoning). The engine keeps the
# first two apart for each request. The waiting of *this* load, in order of arrival:

# %%
queue = [1e3 * r.queue_seconds for r in live.requests]
rest = [1e3 * (r.ttft_seconds - r.queue_seconds) for r in live.requests]
print(f"median: queue {statistics.median(queue):.0f} ms, prefill {statistics.median(rest):.0f} ms;", end=" ")
print(f"of all waiting for first tokens {sum(queue) / (sum(queue) + sum(rest)):.0%} was in the queue")

# %%
places = range(len(queue))
fig, ax = figures.figure()
ax.bar(places, queue, color=figures.ORANGE, label="queue", width=0.9)
ax.bar(places, rest, bottom=queue, color=figures.BLUE, label="prefill", width=0.9)
ax.set(xlabel="request, in order of arrival", ylabel="time to the first token, ms")
ax.legend(loc="upper left")
figures.show(
    fig,
    "Time to the first token of 64 requests as stacked bars, queue and prefill: "
    f"{sum(queue) / (sum(queue) + sum(rest)):.0%} of it is queue, the longest bar is "
    f"{max(q + p for q, p in zip(queue, rest, strict=True)):.0f} ms.",
)

# %% [markdown]
# A user who complains of a slow start may suffer from either, and the remedies have nothing in common: for the queue
# more memory, smaller caches or more machines; for prefill shorter prompts or a prefix cache (week 7).
#
# | lever | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|
# | paging instead of reservation | queue shorter | longer, as the batch grows | rises with the batch | a few per cent wasted instead of most | none |
# | chunked prefill | newcomer's longer | no long gaps | about the same | the same | last bits |
# | preemption | for the preempted: longer | a gap for the preempted | a little less | lets the pool be full | last bits |
# | a reserve | queue longer | fewer gaps | a little less | some kept free | none |

# %% [markdown]
# ## Depth: what else a scheduler may do
#
# **Order.** First come, first served is fair and blind: one short question waits for every long prompt before it.
# *Shortest first* would lower the mean wait, but long ones starve. `Engine` takes a rule between the two
# ([`nanolm/engine/admission.py`](../../nanolm/engine/admission.py)): of the tokens that prompts get in a pass, half are
# the oldest's and the rest go to the shortest first; and of those who wait, one that is short (a quarter of the first
# one's length, or less) may be put before the first, but nobody is overtaken more than four times. So the wait of
# everybody is bounded. Priorities, or a fair share for each customer, are common in practice: the queue is then sorted
# by something other than arrival, and everything else stays.
#
# **Groups by length.** Requests of about one length are attended together, since a rectangle of blocks is as wide as
# its longest row.
#
# **Machines of their own for prefill.** Instead of mixing chunks into passes, some servers run prompts on some machines
# and writing on others, and send the caches across (*disaggregation*). Then no decoding request ever waits for a
# prompt. Chunks are the remedy within one machine.
#
# **Tensor parallelism.** A model that is too large for one GPU is split across several, every matrix in parts. Of four
# GPUs each then reads a quarter of the weights *and* of the caches, so TPOT falls, and the pools add up to one. Two
# exchanges a layer are the price.
#
# **Block size.** Small blocks waste less at the end and share more finely; large ones need shorter tables and are read
# in longer stretches. 16 is a usual choice.

# %% [markdown]
# ## The same with libraries
#
# transformers' `generate` runs a static batch: a rectangle of prompts, filled up on the left, until the longest answer
# is done. Its texts against your engine's (some seconds, most of them for the import):

# %%
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
    with your_engine("6.4", "6.5", "6.6"):
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
# In another terminal, ask; `--no-buffer` shows tokens as they come:
#
# ```
# curl --no-buffer http://127.0.0.1:8000/v1/completions -d '{"model": "target", "prompt": "ROMEO\n", "max_tokens": 60, "stream": true}'
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
# ## The same on a real model
#
# SmolLM2-135M, if it is installed here. A cache of 60 MB, and eight prompts with answers of 12 tokens: how many run at
# once with reservations for 512 positions, and how many on your tables? (About half a minute.)

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, smol_tokenizer = real
    shape = smol.config
    of_a_token = 2 * shape.n_layers * shape.n_kv_heads * shape.head_dim * 4
    n_blocks = 60_000_000 // (16 * of_a_token)
    print(
        f"{of_a_token:,} bytes a token, {n_blocks} blocks of 16: {16 * n_blocks // 512} reservations of 512 positions"
    )
    books = new_engine(model=smol, n_blocks=n_blocks)
    with your_engine("6.4", "6.5", "6.6"):
        for i in range(8):
            asked = f"Write a line about the number {i}. " * (1 + i)
            books.add_request(smol_tokenizer.encode(asked), 12, EXACTLY)
        while books.has_work:
            books.step()
    most = max(record.n_running for record in books.records)
    print(f"on your tables {most} ran at once, in {max(r.n_blocks_used for r in books.records)} blocks at most")

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **A block given out twice.** Two requests write into each other's text, without any error.
#   `test_allocate_gives_every_block_once_and_then_says_that_none_is_left`, `test_free_refuses_a_block_that_is_free`
# - **Freed although others hold it.** `test_free_keeps_a_block_that_others_hold`
# - **`//` and `%` swapped, or a position taken for its place.** `test_slot_mapping_of_a_scattered_table`
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
# - **`n_computed` not reset by a preemption.** The engine believes in keys that are no longer there.
#   `test_preempt_takes_the_blocks_and_keeps_the_tokens`
# - **Preempted to the end of the queue.** Whoever had bad luck once has it again.
#   `test_preempt_puts_the_request_before_everybody_who_waits`
# - **A prompt run before those who write.** `test_schedule_leaves_prompts_what_decoding_requests_do_not_need`
# - **A request preempted in this pass and run in it.**
#   `test_schedule_preempts_the_last_where_a_decoding_request_needs_a_block`
# - **Somebody preempted for a prompt.** `test_schedule_preempts_nobody_for_a_prompt`
# - **A newcomer that gets its tokens twice.** `test_schedule_runs_a_short_newcomer_once`
# - **A pass in which nobody runs.** The server stands for ever.
#   `test_schedule_preempts_the_last_of_two_prompts_that_block_each_other`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards. The model is the 8B one of the first evening: 131,072 B a token, 4.48
# ms to load the weights, 15 µs of arithmetic a position.
#
# **1.** 80 GB, 16 GB of weights, 10 % of the rest kept free. How many requests run at once with reservations for 8,192
# tokens, and how many with paging, if texts have 1,000 tokens on average? What share of the reservations is wasted, and
# what share of the blocks of 16?
#
# <details><summary>Answer</summary>57.6 GB. Reserved: 8,192 · 131,072 B = 1.074 GB each, 53 requests. Paged: 131 MB
# each, 439 on average. Wasted: 1 − 1,000/8,192 = 88 %, against about half a block, (16 − 1)/2 = 7.5 positions of
# 1,007.5, so 0.7 %.</details>
#
# **2.** 32 requests write, each with 1,024 tokens in its cache. A prompt of 4,000 tokens arrives. How long do they wait
# for a token if it runs in one pass, and if at most 544 tokens run in a pass? When has the newcomer its first token?
#
# <details><summary>Answer</summary>Caches: 32 · 0.040 = 1.3 ms a pass. One pass: 4,032 · 15 µs = 60.5 ms, together 62
# ms for everybody. In chunks of 544 − 32 = 512: 544 · 15 µs = 8.2 ms and 1.3 are 9.4 ms a pass; 4,000/512 makes 8
# passes, the last one shorter: 74 ms. The newcomer waits 12 ms longer; the others 9.4 ms instead of 62. (Without it
# they wait 4.48 + 1.3 = 5.8.)</details>
#
# **3.** A pool of 3,600 blocks of 16. Texts have 1,000 tokens on average when they end, with a standard deviation of
# 600, and 60 requests run. How likely is it that the pool is too small, if all come near their ends together? And with
# 50? (The sum of so many lengths is nearly normal.)
#
# <details><summary>Answer</summary>Room for 57,600 tokens; the sum has mean 60,000 and standard deviation 600 · √60 =
# 4,650. The room is 0.52 standard deviations below the mean: about 70 %. With 50 requests the mean is 50,000, the
# deviation 4,240, and the room 1.8 of them above: about 4 %. That is what the reserve buys.</details>

# %% [markdown]
# ## Check yourself
#
# - Which memory problem does paging solve, and what part of a cache is still wasted? Which kind of fragmentation is
#   that?
# - Why does a full block never have to be copied?
# - Why is nobody allowed to overtake in `admit`, and which request is preempted? What would happen if it were the
#   first?
# - Why is nobody preempted for a prompt?
# - Why can the same request at temperature 0 get another text in a fuller batch? Does paging change the text?
# - What does a budget of tokens a pass protect, and whom does it cost?
#
# <details><summary>Short answers</summary> The reservation for what may never be written, and the holes between
# reservations; the end of each last block: internal. · Nobody writes into it again; new positions go behind it. · A
# long request would wait for ever; the last to come. If the first were preempted, it could lose its place again and
# again, and nothing would bound its wait. · It has written nothing that anybody waits for; those who decode have. ·
# Sums are split in another way, and last bits decide near ties. Paging moves numbers and changes none. · The waits of
# decoding requests; the newcomer with a long prompt. </details>

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
# 3. **Continuous batching and paging**, if they are not there; raise the limit on running requests; watch preemptions.
#    If caches are really in use: shared prefixes, an 8-bit cache, a model with fewer KV heads, then more machines (45
#    seconds).
# 4. **Protect decoding requests.** A budget of tokens a pass against long prompts; p95 of the time between tokens, not
#    the mean (30 seconds).
# 5. **Numbers.** From 16 to 64 requests the bound goes from 3,126 to 9,089 tokens/s and a token from 5.1 to 7.0 ms.
#    Load test with recorded lengths, up to the rate at which waits turn upwards; keep 10 to 20 % headroom for several
#    long ones at once (30 seconds).

# %% [markdown] written="preemption is exact and ends" points=8 minutes=25 difficulty=3
# **Show that preemption by recomputation is harmless.** A preempted request loses all its blocks, keeps its tokens
# (prompt and answer so far), and later runs them again as a prompt. (a) Show that at temperature 0 its final text is
# the one it would have written undisturbed. (b) At temperature 1 each request has an rng of its own. Show the same, and
# say where the proof fails if all requests share one generator. (c) The scheduler serves in order of arrival, takes
# blocks from the last, puts the preempted request at the front of the queue, and every request alone fits into the
# pool. Show that every request finishes, if each finishes after finitely many tokens. (d) Which step of (c) breaks if
# the *first* is preempted instead of the last?
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
# (c) Among the unfinished requests let r be the earliest to arrive. *It is never preempted once it runs:* only the last
# of the running is taken from, running requests are in order of arrival (nobody overtakes in admission, and whoever is
# preempted goes to the front), so r is taken from only if it is alone; but alone it fits into the pool. *It makes
# progress in every pass in which it runs:* it comes first in the plan, and blocks are found for it by taking from
# others until they suffice. *It does get to run:* if r waits, it is first in the queue, since nobody overtakes. Whoever
# ran at that time would have arrived before r and be unfinished, against the choice of r. So nobody runs, the whole
# pool is free, and r fits. Finitely many tokens are pending at any time, then it writes one; it needs finitely many; it
# finishes. Then the next is earliest. By induction over the requests all finish.
#
# (d) "It is never preempted once it runs." Now it is r that is preempted whenever somebody behind it needs a block, so
# later requests undo its work as often as they come, and r runs its prompt again each time. What it has written is
# kept, so no text is lost; but nothing in the proof bounds how often that happens while requests keep arriving.
#
# **Mark scheme (8).** (a) state is a function of earlier tokens, so the same numbers, 1; induction, 1. (b)
# recomputation draws nothing, 1; the shared generator, 1. (c) the earliest request singled out, 1; it is never
# preempted, with the reason (order and fits alone), 1; progress in each pass and induction over the requests, 1. (d)
# the step named with what takes its place, 1. "It just recomputes, so it is the same" without why the numbers are
# equal: at most 1 for (a).
# ### END SOLUTION

# %% [markdown] written="what reservation wastes" points=6 minutes=15 difficulty=2
# **How much does reserving for the longest answer waste?** A text ends up with X tokens, X between 1 and M, with mean
# μ. A request holds memory from start to end, and its text grows by one token a pass (leave the prompt out). (a) With M
# positions reserved for each request, which share of the memory is used by a request *averaged over its life*, if all
# texts have the same length x? (b) With X by chance, show that the share averaged over all requests and their lives is
# E[X(X + 1)] / (2 M E[X]). What is it for X equal to M always? Explain why not 1. (c) With blocks of g and lengths much
# longer than g, what share is wasted at the *end* of a text, and what is the smallest mean length for which it is below
# 2 % with g = 16? (d) Paging admits more requests than can end up in the pool. Name the price, and two things that
# bound it.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) After pass t it holds t tokens, t = 1 … x. The mean is (x + 1)/2, so the share is (x + 1)/(2M).
#
# (b) Weigh by time: a request of length X holds M positions for X passes, in which it uses 1 + 2 + … + X = X(X + 1)/2
# position-passes. Over many requests the share is the ratio of sums, which tends to E[X(X + 1)/2] / (M E[X]). For X =
# M: (M + 1)/(2M), about one half: even a perfect guess of the length wastes half, because the place for the last token
# is held from the first pass on.
#
# (c) The last block is on average half empty, (g − 1)/2 positions if all fillings are equally likely. Of the positions
# held it is (g − 1)/2 / (μ + (g − 1)/2). For g = 16: 7.5/(μ + 7.5) < 0.02 exactly if μ > 367.5, so from 368 tokens on.
#
# (d) When texts grow together, blocks run out and some request is preempted: its tokens are run again and its text
# pauses. The last to come is preempted, which has the fewest tokens on average; they are run as a prompt, in few
# passes; and blocks kept free at admission make it rare, since sums of many lengths seldom stray far from their mean.
#
# **Mark scheme (6).** (a) 1. (b) weighting by time, 1; formula, 1; one half and why, 1. (c) 1. (d) price and two
# bounds, 1. Averaging X/M over requests without time: no point for (b)'s weighting.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can write the memory and the scheduler of a server, say how many requests a memory holds and what is wasted of it,
# and split a user's wait into queue, prefill and passes. Run `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Kwon et al. 2023, [*Efficient memory management for large language model serving with
#   PagedAttention*](https://arxiv.org/abs/2309.06180): blocks, tables, copy on write, preemption, and fragmentation by
#   name.
# - Agrawal et al. 2023, [*Sarathi: efficient LLM inference by piggybacking decodes with chunked
#   prefills*](https://arxiv.org/abs/2308.16369).
# - Agrawal et al. 2024, [*Taming throughput-latency tradeoff in LLM inference with
#   Sarathi-Serve*](https://arxiv.org/abs/2403.02310): what long prompts do to those who write.
# - Wu et al. 2023, [*Fast distributed inference serving for large language models*](https://arxiv.org/abs/2305.05920)
#   (FastServe): short ones before long ones.
