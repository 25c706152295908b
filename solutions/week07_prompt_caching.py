# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 7 · Prompt caching
#
# Most of what a server reads, it has read before: the same instructions in front of every question, the same document
# under ten questions, the whole conversation again at every turn. This week you let it read such a beginning once. The
# answers stay the same; what changes is the wait for the first token, and the bill.
#
# **After this week you can**
#
# - say which part of a prompt can be reused and prove why it is the beginning and nothing else;
# - write the tree of blocks that finds a known beginning, keeps it while somebody reads it, and gives up the right
#   thing when memory is short;
# - let a newcomer begin with what the tree holds of its prompt, and know when that leaves no room for the rest;
# - predict hit rates and waits for system prompts, conversations, small caches and several machines, and measure them;
# - arrange a prompt so that it hits, and say from which use on a provider's cache pays.
#
# **Time:** two hours and a half for the first six exercises, half an hour for the two written questions, two hours of
# reading and measuring. The seventh exercise, in the depth part, is another hour and a half. **Needs:** the idea of a
# KV cache ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)) and of a cache in blocks
# ([week 6](../week06_batching_paging/week06_2_paging.ipynb)). No exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold functions or methods whose bodies are missing. Write them, run the cell, run the
# `check(...)` below it. A check runs the course's own tests on your answer alone and takes everything around it from
# the reference, so one mistake never hides another. Where a test failed, the call of your answer stands in `failing`,
# and `failing.again()` makes it once more. Of an exercise with several methods you can test one at a time:
# `check("RadixCache.match")`, in a cell of your own. If you prefer an editor, the same functions wait in
# `exercises/`, with the same tests.
#
# Run the two set-up cells first; after them you can begin at any cell. A cell that measures says in its first line what
# it `needs`: your answers, by the numbers of the exercises, and names that other cells make. Where an answer is not
# written yet, the reference does its work, and the cell says so. Where you see a *Prediction*, write a number down
# before you run the next cell.
#
# Where a docstring says *Raises*, the message has to name the argument. `require_count(1, granularity=granularity)`,
# which is imported for you, refuses what is no whole number of at least 1, and words it so.
# `require_not_negative(price=price)` does the same for any number of at least 0.

# %%
# Set-up for the labs
import itertools
import random
import statistics

import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from tqdm.auto import tqdm

from nanolm import load
from nanolm import paging as prefix
from nanolm.engine import Engine
from nanolm.paging import BlockAllocator, blocks_for
from nanolm.sampling import SamplingParams
from nanolm.workload import load_trace, poisson

from course import your_engine
from course.lab import figures
from course.lab.timing import rounds_allowed, take_turns
from course.lab.verdicts import against_prediction, largest, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
config = target.config
token_bytes = 2 * config.n_layers * config.n_kv_heads * config.head_dim * 4  # keys and values, float32
unending = SamplingParams(0.0, end_tokens=())  # greedy, and no text ends early: equal work for all
# Something to read: the prompts of the trace that comes with the course, one behind the other.
reading = [token for arrival in load_trace() for token in arrival.prompt]
system = reading[:1000]
conversations = [system + tokenizer.encode(f"{10 + i} + {31 + i}:") for i in range(20)]
# Three sentences to cache by hand, in blocks of two words.
words = ["the", "cat", "sat", "on", "mat", "a", "hat"]
by_hand = [line.split() for line in ("the cat sat on the mat", "the cat sat on a hat", "a cat sat on the mat")]
print(f"{len(reading):,} tokens to read; the target keeps {token_bytes:,} bytes a token")

# %% [markdown]
# ## The idea in plain words
#
# An examiner gives twenty candidates the same ten-page case and each of them a question of one line. Nobody would
# have the case read aloud twenty times. It is read once, everybody takes notes, and then the questions come.
#
# For a model the notes are the keys and values of the case, and the case may be the instructions in front of every
# conversation, the **system prompt**. What a **prefix cache** adds to the KV cache of week 2 is memory *between*
# requests: when a request ends, its blocks are not thrown away. When the next one comes, its beginning is looked up.

# %%
shared, own, n_requests = 10, 3, 6
first, later, stranger = [1] * shared + [2] * own, [0] * shared + [2] * own, [2] * (shared + own)
picture = [first, *[later] * (n_requests - 2), stranger]
fig, ax = figures.figure(height=3.0)
colours = ["#D9D9D9", figures.BLUE, figures.ORANGE]
ax.pcolormesh(picture, cmap=ListedColormap(colours), vmin=0, vmax=2, edgecolor="white", linewidth=1.2)
ax.set(xlabel="block of the prompt", ylim=(n_requests, 0))
ax.set_xticks([i + 0.5 for i in range(shared + own)], range(1, shared + own + 1))
names = [*(f"request {i}" for i in range(1, n_requests)), "another first word"]
ax.set_yticks([i + 0.5 for i in range(n_requests)], names)
ax.grid(False)
labels = ["computed, and kept for others", "computed, its own", "taken from the cache"]
handles = [Patch(facecolor=colours[i]) for i in (1, 2, 0)]
fig.legend(handles, labels, loc="outside lower left", ncols=3, fontsize=9)
figures.show(
    fig,
    "Six requests, one a row, as blocks. The first computes ten shared blocks and three of its own. The next four take the "
    "ten from the cache and compute three each. The last has another first word and computes all thirteen.",
)

# %% [markdown]
# Look at the last row. Twelve of its thirteen blocks hold the same words as the others', and none of them is of use.
# Why that is so is the first thing to understand.
#
# ### The legend
#
# The **hit rate** is the share of looked-up tokens that were found. The **granularity** is the smallest piece that is
# cached or not. The **time to live** is how long an entry stays after its last use. GB is 10⁹ bytes.
#
# | letter | meaning | in code |
# |---|---|---|
# | S | positions in the cache at the end of prefill: the tokens of the prompt | `len(prompt)` |
# | c | tokens at its beginning that are equal to something run before | |
# | g | granularity: reuse is in whole multiples of it (the block size here) | `granularity`, `block_size` |
# | L, K, H | layers, key/value heads, numbers in a head: a token's cache is 2 · L · K · H numbers | |
# | C, F | tokens of the shared part, and of a request's own fresh part | `n_shared_tokens`, `n_fresh_tokens` |
# | w, r | price of writing to a provider's cache and of reading from it, in plain input prices | `write_factor`, `read_factor` |
# | τ | time to live of an entry | `time_to_live_seconds` |
# | h | share of uses that find the entry | |
# | G | mean time between two uses | |

# %% [markdown]
# ### Prediction 1
#
# Twenty conversations start with the same system prompt of 1,000 tokens, and each goes on with a question of 7. How
# many prompt tokens does the server run without a prefix cache, and with one?

# %%
my_tokens_without, my_tokens_with = 0, 0  # change both

# %% [markdown]
# ## By hand
#
# **Matching.** Blocks of two words. Three prompts have been served:
#
# | | | | |
# |---|---|---|---|
# | 1 | the cat | sat on | the mat |
# | 2 | the cat | sat on | a hat |
# | 3 | a cat | sat on | the mat |
#
# Prompt 2 finds *the cat* and *sat on*, 4 of its 6 words. Prompt 3 finds nothing: its first word is another. Yes, *sat
# on* is there, but those keys and values were made by a model that had read *the cat*. So prompt 3 gets three blocks of
# its own: 3 + 1 + 3 = 7 blocks in all, two of which say *sat on* and hold different numbers.
#
# Now *the cat sat on the hat* comes. *The cat*, *sat on* are found. *the hat* is not: *the mat* begins alike, but
# blocks are whole. 4 words are reused, 2 are run.
#
# **The whole prompt is known.** Prompt 1 comes again, word for word. Six of six reused, nothing to run? No: what we
# want is the distribution of the seventh word, and that is computed by running the sixth. At least one position must be
# run, so 5 may be reused, and in whole blocks that is 4.
#
# Try one yourself: the prompt is *a cat sat on the*, five words. How much is reused?
#
# <details><summary>Answer</summary>Four words may be reused at most (one must be run), which is two whole blocks: <em>a
# cat</em>, <em>sat on</em>, both from prompt 3. One word is run.</details>
#
# **Counting.** Have you written down Prediction 1? The twenty conversations again. Without a prefix cache: 20 · 1,000 =
# **20,000** tokens for the instructions alone. With: **1,000**. The questions, 20 · 7 = 140 tokens, have to be run in
# both cases. For a model like Llama-3-8B (L = 32, K = 8, H = 128, 2 bytes a number) a token's keys and values are 2 ·
# 32 · 8 · 128 · 2 = 131,072 bytes:
#
# | | tokens to prefill | cache in memory |
# |---|---:|---:|
# | each conversation its own | 20 · 1,000 = 20,000 | 20,000 · 131,072 B = **2.62 GB** |
# | shared | 1,000 | 1,000 · 131,072 B = **131 MB** |
#
# A position of prefill costs that model 0.015 ms of arithmetic on an H100 (2 · 7.5·10⁹ operations at 989·10¹² a
# second), so 19,000 tokens less are 0.29 s of a GPU in which nobody else is served.

# %% [markdown]
# ## The equation
#
# In a causal model the state of position s in layer l + 1 is made from states of layer l at positions up to s, and from
# nothing else:
#
# $$x_s^{(l+1)} = f_l\big(x_1^{(l)}, \dots, x_s^{(l)}\big) \qquad k_s^{(l)}, v_s^{(l)} = g_l\big(x_s^{(l)}, s\big)$$
#
# So a position's keys and values depend on *all tokens before it* and on *no token after it*. The second half allows
# reuse; the first half limits it to a common beginning. What can be reused of a prompt of S tokens:
#
# $$n = g \left\lfloor \frac{\min(c,\; S - 1)}{g} \right\rfloor$$
#
# Do not believe it, measure it. Below, the same text is run with another ending, with another first token, and moved
# one place to the right by a token put in front. How much do the keys and values of its tokens 2 to 40 differ from the
# original's?


# %%
@torch.inference_mode()
def states(tokens):
    """Keys and values of every layer, (L, 2, K, S, H)."""
    cache = target.new_cache(1, len(tokens))
    target(torch.tensor([tokens]), cache)
    return torch.stack([torch.stack([k[0], v[0]]) for k, v in zip(cache.keys, cache.values, strict=True)])


text, ending, other = reading[:40], reading[200:220], reading[100]
kept = states(text + ending)[:, :, :, 1:40]
changed = {
    "another ending": states(text + reading[300:320])[:, :, :, 1:40],
    "another first token": states([other, *text[1:], *ending])[:, :, :, 1:40],
    "one token put in front": states([other, *text, *ending])[:, :, :, 2:41],
}
apart = {}  # relative difference of keys and values, layer by layer
for name, found in changed.items():
    off = (found - kept).flatten(1).norm(dim=1) / kept.flatten(1).norm(dim=1)
    apart[name] = off.tolist()
    print(f"{name:24} layer 0: {off[0]:7.1e}, layer 1: {off[1]:7.1e}, last layer: {off[-1]:7.1e}")

# %%
fig, ax = figures.figure()
for (name, off), colour in zip(apart.items(), figures.LINES, strict=False):
    ax.plot(range(config.n_layers), [max(x, 1e-8) for x in off], "o-", color=colour, label=name)
ax.set(yscale="log", xlabel="layer", ylabel="relative difference of keys and values", ylim=(5e-9, 5))
ax.legend(loc="center right")
figures.show(
    fig,
    "Relative difference of the cached keys and values of 39 tokens, layer by layer, on a logarithmic scale. "
    + " ".join(f"With {name}: {off[0]:.1g} in layer 0, {off[-1]:.1g} in the last." for name, off in apart.items()),
)

# %% [markdown]
# (No difference at all is drawn at 10⁻⁸.) Another ending changes nothing, or only the last digits, where a machine
# splits its sums differently. With another first token, layer 0 is still the same, since each token enters it alone;
# from layer 1 on, each position has looked at that first token. With a token in front, the keys of layer 0 differ as
# well: they were turned to another position.
#
# Now as code. It lives in [`nanolm/paging/radix_cache.py`](../../nanolm/paging/radix_cache.py), and most of this week
# you write that file.

# %%
from nanolm.paging import reusable_prefix_tokens  # exercise: reusable_prefix_tokens
# points: 3
# minutes: 8
# difficulty: 1
# tested: Another token in the middle and at the very front, the position that must be left to run, multiples of 2,048,
#   empty texts, 80 random pairs against a search through all lengths, and refusal of a granularity below 1.
# why: It tells how much of a request is free before you send it, and you will use it to predict every measurement
#   below.
# hint: Two things cut the count of equal tokens down, and their order matters: with 8 of 8 equal and a granularity of 4
#   the answer is 4, not 7. // Compare the two texts token by token from the left and stop at the first that differs; of
#   the prompt look at all but its last token. What you have then, rounded down to a multiple of the granularity, is the
#   answer.

# %%
for new in ("the cat sat on the hat", "the cat sat on the mat", "a cat sat on the"):
    reused = [reusable_prefix_tokens(old, new.split(), granularity=2) for old in by_hand]
    print(f"{new!r:26} reuses {max(reused)} of {len(new.split())} words; behind prompts 1, 2, 3: {reused}")

# %% [markdown]
# ## The tree
#
# To compare a prompt with everything that was ever run would take longer than running it. A **prefix tree** makes the
# search as long as the prompt, however much is cached. A node is one block of tokens *behind its parent's*; the way
# from the root to a node spells a prefix. Below are the three prompts from above. (With one block a node it is a *trie*
# whose letters are blocks. A **radix tree** is the same with runs of blocks in a node, as SGLang has it and you can
# write it in the depth part. The class is called `RadixCache` all the same, after what SGLang calls RadixAttention.)


# %%
def serve_words(cache, sentence):
    """Look a sentence up, take blocks for the rest of it, remember it, let it go; return the words found."""
    ids = [words.index(word) for word in sentence.split()]
    found = cache.match(ids, limit=len(ids) - 1)
    blocks = found + [cache.blocks.allocate() for _ in range(blocks_for(len(ids), 2) - len(found))]
    cache.insert(ids, blocks)
    for block in blocks:
        cache.blocks.free(block)
    return 2 * len(found)


example = prefix.RadixCache(BlockAllocator(20), block_size=2)
for sentence in by_hand:
    print(f"{' '.join(sentence)!r} finds {serve_words(example, ' '.join(sentence))} words")
print(f"{example.n_blocks} blocks in the tree")


# %%
def draw_tree(cache, decode, title=""):
    """A prefix cache from left to right: blue boxes are on the device, orange ones in the host store."""
    rows, boxes = itertools.count(), []

    def place(node, depth):
        children = [place(child, depth + 1) for child in node.children.values()]
        y = statistics.fmean(children) if children else next(rows)
        colour = figures.GREY if node is cache.root else figures.BLUE if node.block is not None else figures.ORANGE
        label = "root" if node is cache.root else f"{decode(node.key)}\nused at {node.last_used}"
        boxes.append((depth, y, children, label, colour))
        return y

    place(cache.root, 0)
    fig, ax = figures.figure(6.4, 0.85 * max(next(rows), 2) + 0.5)
    for depth, y, children, label, colour in boxes:
        for child in children:
            ax.plot([depth, depth + 1], [y, child], color=figures.GREY, linewidth=1, zorder=1)
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour, "linewidth": 1.6}
        ax.text(depth, y, label, ha="center", va="center", fontsize=9, bbox=box)
    depths, heights = [box[0] for box in boxes], [box[1] for box in boxes]
    ax.set(xlim=(-0.5, max(depths) + 0.6), ylim=(max(heights) + 0.6, -0.6), title=title)
    ax.set_axis_off()
    return fig


def spell(key):
    return " ".join(words[i] for i in key)


figures.show(
    draw_tree(example, spell),
    "A tree. From the root two branches: 'the cat', then 'sat on', then either 'the mat' or 'a hat'; and 'a cat', then 'sat "
    "on', then 'the mat'. Seven boxes for three prompts of three blocks each. Each box says when it was last used.",
)

# %% [markdown]
# ### What each node knows
#
# | attribute of a node | meaning |
# |---|---|
# | `key` | the tokens of its block |
# | `children` | from key to node |
# | `block` | the device block that holds its keys and values, or None |
# | `handle` | its copy in the **host store** (CPU memory, larger and cheaper than the device's), or None; never both |
# | `last_used` | when it was last found or inserted; time is a counter of calls |
#
# **Pinning.** Blocks have reference counts (week 6): how many hold them. The tree holds one reference of each of its
# blocks. A request that uses a block holds another. A block with more than one reference is **pinned**: somebody reads
# it at this moment, and nobody may take it away. `blocks.share(block)` counts one more, `blocks.free(block)` one less;
# at 0 the block is free.
#
# **Eviction.** The pool is finite. When a new request needs blocks, something cached must go: to **evict** is to free a
# block that only the cache holds. Taken is what was used longest ago (**LRU**, least recently used), in the hope that
# it is also what is needed last. But never a node with others behind it. A tree without its trunk still holds the
# branches, and no prompt can reach them. So only *leaves* go, and a trunk becomes a leaf when its last branch is gone.
# (*Preemption* is another thing: it takes blocks from a request that runs.)
#
# By hand, on the picture: *the cat sat on the hat* comes at a time after all others, so *the cat* and *sat on* were
# used last. Now three blocks are wanted. Leaves, by last use: *the mat* (prompt 1), *a hat*, *the mat* (prompt 3). They
# go in this order. Which two would go next?
#
# <details><summary>Answer</summary><em>sat on</em> and then <em>a cat</em>, the rest of prompt 3: both are leaves by
# then, and were used before the other branch. What everybody begins with is used by everybody, so it stays longest.
# Nobody had to tell the cache which part of the prompts was the system prompt.</details>
#
# These parts of the class are given. Read them; what you write calls them:
#
# | helper | what it does |
# |---|---|
# | `whole_blocks(tokens, size)` | the tokens of each full block, as tuples, in order |
# | `next(self._clock)` | a new now |
# | `_bring_back(node)` | makes sure that a node is on the device, loading it from the host store if need be; False if no block can be had |
# | `_place(node, block)` | enters a device block at a node that has none; the reference must be taken before |
# | `_device_leaves` | the leaves on the device: `pop()` takes out the one used longest ago (None: there is none), `add(node)` puts one back |
# | `_move_out(leaf)` | takes a leaf's block off the device, to the host store or to nowhere, and keeps the books |
# | `self.statistics` | `n_lookups`, `n_looked_up_tokens`, `n_hit_tokens`: three counts that `match` adds to |
#
# The class inherits from `AdmissionCalls`, which asks the tree what a scheduler wants to know before it lets anybody
# in, and changes nothing: `peek(tokens)` says how many tokens are cached, `fit(tokens, limit)` what `match` would meet.

# %%
from nanolm.paging import RadixCache  # exercise: match, insert, evict
# points: 12
# minutes: 50
# difficulty: 3
# tested: Match: whole blocks, the same block behind another prefix, one reference for each block found, the limit, last
#   use, what comes back from the host store, the statistics, and 20 conversations whose system prompt is run once.
#   Insert: one reference a block, blocks the tree has already, branching, a node whose contents were off-loaded. Evict:
#   the order, leaves before trunks, pinned blocks, the count, the host store, and no search through all blocks for each
#   one freed. All three: random requests beside a cache that searches everything it has; nothing may leak.
# why: This is the data structure behind SGLang's RadixAttention, and every server has one like it.
# hint: A popped leaf that is pinned goes back at the end of `evict`, not at once, or you would pop it for ever; a block
#   that the tree takes needs its reference before `_place`; and a limit of 0 is a limit. // match: from `self.root` on,
#   for each whole block of the tokens up to the limit, look among the node's `children`; stop where there is none or
#   `_bring_back` says no; share what you found and set its last use. insert: the same way down, and where a child is
#   missing make a Node(key, node); only a node without a device block gets the caller's. evict: pop leaves until enough
#   are freed, set pinned ones aside, `_move_out` the others. `_bring_back`, `_place`, `_move_out` and `_device_leaves`
#   do the bookkeeping.

# %% [markdown]
# The same sentences through *your* tree, and the eviction that you did by hand.

# %%
mine = RadixCache(BlockAllocator(20), block_size=2)
for sentence in [*map(" ".join, by_hand), "the cat sat on the hat"]:
    print(f"{sentence!r:26} finds {serve_words(mine, sentence)} words")
print(f"evict(4) freed {mine.evict(4)} blocks; {mine.n_blocks} are left")

# %%
figures.show(
    draw_tree(mine, spell, "after evict(4)"),
    "After four evictions: 'the cat', 'sat on', 'the hat' on one branch; of the other only 'a cat' is left. It was used "
    "before the first branch.",
)

# %% [markdown]
# (With *the hat* inserted too, the fourth to go is *sat on* behind *a cat*.)
#
# ## A newcomer
#
# `nanolm/engine/scheduler.py` asks the tree three things: what is there of a newcomer's prompt (`match`), remember what
# a pass has computed (`insert`), give me n blocks (`evict`). It never looks inside. Week 6 let a request in when there
# was room for all its tokens. Now some of them need no room, since their blocks are there. And some blocks that nobody
# uses can be had for others, by eviction. Both at once make a trap.
#
# **By hand.** Eight blocks of 4 positions. Four are held by somebody who writes, two by the tree alone (8 tokens of
# *our* prompt), two are free. A prompt of 20 tokens comes, the 8 among them. Its other 12 tokens need 3 blocks. Free
# are 2, and the tree could evict 2: is there room?
#
# <details><summary>Answer</summary>No. The two that the tree could evict are the ones that the newcomer wants to read.
# Once it has pinned them, nothing can be evicted, and 3 blocks are more than 2. The request has to wait, and while it
# waits it must hold nothing: if it kept its pins, those blocks could never be evicted for anybody.</details>
#
# | | what it is |
# |---|---|
# | `request.tokens` | prompt and answer so far |
# | `request.table` | its block table of week 6, empty now: `adopt(blocks)` begins it with full blocks that the request has pinned, `length` is its positions, `blocks_needed(n)` the free blocks that n more take, `release()` gives everything back |
# | `request.n_computed` | its leading tokens that are in the cache; `request.n_pending` are the others |
# | `request.n_remembered` | its blocks that the tree knows already |
# | `request.n_prefix_tokens` | tokens that the tree has spared it, over all its admissions |
# | `prefix.blocks.n_free` | free blocks of the pool |
# | `prefix.n_evictable` | blocks that `evict` could free now |

# %%
from nanolm.engine import begin_with_prefix  # exercise: begin_with_prefix
# points: 5
# minutes: 25
# difficulty: 3
# tested: What is found is adopted and counted, the last token is left to run, everything is given back where the rest
#   has no room, as many blocks are evicted as are missing and none in vain, room to the last block; and 300 random
#   texts on a real tree, after which nobody may hold a block who is not there.
# why: Whoever counts a block twice, as found and as room, lets a request in that cannot run; whoever forgets to give
#   back loses memory until restart.
# hint: What a request has pinned is no room any more: so look up first and count room afterwards. // `match` with a
#   limit of one token fewer than there are; adopt; set the two counts. Then how many blocks the pending tokens need
#   beyond the free ones: 0 or more. If the cache could not free so many, undo all of it and return False. Otherwise
#   evict them, add what was spared to `n_prefix_tokens`, and return True.

# %% [markdown]
# ## Your tree in the engine
#
# `your_engine` puts your answers into `nanolm` for the length of a `with`. From here on every prompt is looked up,
# remembered and let in by your functions. (`CountedRadixCache`, the engine's own, inherits `match`, `insert` and
# `evict` from your class, and counts what can be evicted as it changes.)


# %%
def serve(engine, prompts, n_new=1):
    """Give an engine all prompts at once; return answers and times, in order."""
    ids = [engine.add_request(prompt, n_new, unending) for prompt in prompts]
    answers, metrics = {i: [] for i in ids}, {}
    while engine.has_work:
        for output in engine.step():
            answers[output.id] += output.tokens
            if output.metrics is not None:
                metrics[output.id] = output.metrics
    return [answers[i] for i in ids], [metrics[i] for i in ids]


def run_tokens(prompts, metrics):
    """Prompt tokens that were really run."""
    return sum(len(prompt) - m.n_prefix_tokens for prompt, m in zip(prompts, metrics, strict=True))


# %%
few = conversations[:3]
with your_engine("7.2", "7.3") as parts:
    together, metrics = serve(Engine(target, n_blocks=2600, block_size=8), few, n_new=8)
print(", ".join(f"{part.name} was called {part.calls} times" for part in parts))
alone = [target.generate(prompt, 8, unending) for prompt in few]
print(f"run {run_tokens(few, metrics):,} of {sum(map(len, few)):,} prompt tokens")
print(f"the text that each writes alone, without any cache: {together == alone}")

# %% [markdown]
# A prefix cache is no approximation: the numbers are those that would have been computed. (In some environments two
# texts may part at a near tie, as in week 3: a pass over 7 positions adds its products up in another order than one
# over 1,007.)
#
# The tree at work, with a shorter beginning: six prompts share 64 tokens. Go through it with the arrows, and look at
# the tree and at who holds the first blocks.

# %%
from course.lab.watching import watched

with watched(Engine(target, n_blocks=64, block_size=8), tokenizer, "One beginning, six prompts") as run:
    run.engine.generate([system[:64] + tokenizer.encode(f"{i} + {i}:") for i in range(11, 17)], 16, unending)

# %% [markdown]
# ## Predict, then measure: twenty conversations
#
# All twenty arrive in the same second. We look at the **time to the first token**, TTFT, and ask for one token each, so
# that nobody's writing takes part in the passes. TTFT is the wait in the queue plus prefill. First, what does one
# prefill take here? (A few seconds.)

# %%
plain = Engine(target, n_blocks=2600, block_size=8, prefix_cache=False)
one_prompt = [serve(plain, conversations[:1])[1][0].ttft_seconds for _ in tqdm(range(rounds_allowed(7)))]
rate = len(conversations[0]) / statistics.median(one_prompt)
print(f"one prompt of {len(conversations[0]):,} tokens: {min(one_prompt):.3f} to {max(one_prompt):.3f} s", end=", ")
print(f"at the median {rate:,.0f} tokens/s")

# %% [markdown]
# ### Prediction 2
#
# Without a cache the prompts are run one behind the other, so conversation i waits for i prompts: i · 1,007 tokens at
# this rate. With the cache the first runs 1,007 tokens. What happens to the other nineteen, who came at the same
# moment? They could run the same 1,000 tokens beside it. Our scheduler lets them wait: while a running prompt computes
# what it has in common with a newcomer, the newcomer is not admitted, for once that is done nobody need do it again.
# Then each has 7 left, which fit into one pass: 133 tokens.
#
# How long does the *last* conversation wait, in each case?

# %%
my_last_wait_without, my_last_wait_with = 0.0, 0.0  # seconds; change both

# %% [markdown]
# Each way is served three times, in turns (about 20 seconds).

# %%
runs = {"no cache": [], "cache": []}
with your_engine("7.2", "7.3"):
    for _ in tqdm(range(rounds_allowed(3))):
        for name in runs:
            engine = Engine(target, n_blocks=2600, block_size=8, prefix_cache=name == "cache")
            runs[name].append(serve(engine, conversations)[1])
waits = {name: [[m.ttft_seconds for m in metrics] for metrics in rounds] for name, rounds in runs.items()}
counts = {name: run_tokens(conversations, rounds[0]) for name, rounds in runs.items()}
predicted = {
    "no cache": [i * 1007 / rate for i in range(1, 21)],
    "cache": [1007 / rate] + [(1007 + 19 * 7) / rate] * 19,
}
print(f"you said {my_tokens_without:,} tokens without a cache and {my_tokens_with:,} with one")
print(f"and {my_last_wait_without:.1f} and {my_last_wait_with:.1f} s for the last one")
last = {name: [line[-1] for line in rounds] for name, rounds in waits.items()}
for name in runs:
    print(f"{name:9} {counts[name]:6,} prompt tokens run; the last first token:", end=" ")
    print(against_prediction(last[name], predicted[name][-1], unit="s", scale=1))
print("for the last one", which_is_faster(last, "cache", "no cache"))
cached_blocks = engine.scheduler.prefix.n_blocks
print(f"the tree holds {cached_blocks} blocks of 8, {cached_blocks * 8 * token_bytes / 1e6:.1f} MB; ", end="")
print(f"twenty copies would be {20_000 * token_bytes / 1e6:.0f} MB")

# %%
fig, ax = figures.figure(height=3.8)
middle = {name: [statistics.median(values) for values in zip(*rounds, strict=True)] for name, rounds in waits.items()}
for (name, line), colour in zip(middle.items(), (figures.RED, figures.BLUE), strict=True):
    ax.plot(range(1, 21), line, "o", color=colour, markersize=4.5, label=name)
    ax.plot(range(1, 21), predicted[name], "-", color=colour, linewidth=1.2)
ax.set(xlabel="conversation", ylabel="time to the first token, s", xticks=[1, 5, 10, 15, 20], ylim=(0, None))
ax.legend()
figures.show(
    fig,
    "Time to the first token of twenty conversations. Lines are predictions, dots measurements. Without a cache the wait "
    f"rises from {middle['no cache'][0]:.2f} to {middle['no cache'][-1]:.2f} s. With the cache it is "
    f"{middle['cache'][0]:.2f} s for the first and {middle['cache'][-1]:.2f} s for the last.",
)

# %% [markdown]
# Lines are arithmetic, dots are measured. Two things to see.
#
# **20,000 against 1,000.** 1,000 + 20 · 7 = 1,140 tokens are run in place of 20,140, although all came at once, because
# a newcomer waits for the prompt that computes its beginning. Servers without that rule run such prompts side by side,
# and whoever operates them sends one request ahead, or warms the cache when they start. (A block could even be shared
# in the very pass that fills it, since in each layer all keys are written before anybody attends. Ours waits for the
# next pass, which is simpler.)
#
# **Reuse spares computing, not reading.** Each of the nineteen still attends over 1,007 keys and values, and our engine
# gathers them anew for each. The arithmetic above leaves that out, so on a quiet machine the dots of the cache lie
# above their line; what yours did, the printed comparison says. (On GPUs there are kernels that read a shared prefix
# once for the whole batch.) That reading is the same with and without a prefix cache, and so is the time per output
# token.
#
# | | TTFT | TPOT | throughput | memory | quality |
# |---|---|---|---|---|---|
# | prefix cache | falls with the hit rate | as before | rises where prefill took much of it | what is free anyway; shared parts once | unchanged |

# %% [markdown]
# ## A conversation, turn by turn
#
# A chat client sends the whole conversation at every turn. Without a cache turn t runs everything so far, and the sum
# over the turns grows with the square of their number. With one, only what is new is run: the last answer's final token
# (it was written, never run), the new message, and what a block cuts off.
#
# ### Prediction 3
#
# Messages of 30 tokens, answers of 24, six turns. What share of the prompt is found in the cache at turn 2, and at turn
# 6?

# %%
my_share_at_2, my_share_at_6 = 0.0, 0.0  # change both

# %%
engine, history, turns = Engine(target, n_blocks=200), [], []
was_run = []  # what the cache can know: all but the last token of the text so far
with your_engine("7.2", "7.3"):
    for turn in range(1, 7):
        prompt = history + reading[1500 + 30 * turn : 1530 + 30 * turn]
        expected = reusable_prefix_tokens(was_run, prompt, granularity=16)
        (answer,), (m,) = serve(engine, [prompt], n_new=24)
        turns.append((len(prompt), m.n_prefix_tokens))
        history = prompt + answer
        was_run = history[:-1]
        n, hit = turns[-1]
        print(f"turn {turn}: {n:3} tokens, predicted {expected:3} from the cache, found {hit:3}, {hit / n:.0%}")
print(f"you said {my_share_at_2:.0%} at turn 2 and {my_share_at_6:.0%} at turn 6")
print(f"run in all: {sum(n - hit for n, hit in turns)}; without a cache {sum(n for n, _ in turns)}")

# %%
fig, ax = figures.figure()
places = range(1, len(turns) + 1)
ax.bar(places, [hit for _, hit in turns], color="#D9D9D9", label="from the cache")
ax.bar(places, [n - hit for n, hit in turns], bottom=[hit for _, hit in turns], color=figures.BLUE, label="run")
for place, (n, hit) in zip(places, turns, strict=True):
    ax.text(place, n + 4, f"{hit / n:.0%}", ha="center", fontsize=9)
ax.set(xlabel="turn", ylabel="tokens of the prompt")
ax.legend(loc="upper left")
figures.show(
    fig,
    f"Bars for six turns of a chat, growing from {turns[0][0]} to {turns[-1][0]} tokens. The part run stays about the same "
    "height; the part from the cache grows, and with it the hit rate written above each bar, from 0 to "
    f"{turns[-1][1] / turns[-1][0]:.0%}.",
)

# %% [markdown]
# The blue parts stay about equal, the grey ones grow: the hit rate of a long chat approaches 1, and the work grows in a line.
#
# It takes little to lose that. The tokens must be the *same tokens*. A client that trims the spaces off an answer,
# drops the reasoning of earlier turns, re-encodes the text (a written text need not be cut into tokens as a read one),
# or shortens the history from the front makes another prefix, and everything behind the change is run anew.

# %% [markdown]
# ## When the pool is too small
#
# Cached blocks live in the memory that running requests leave over. They are no loss: a newcomer evicts them. So the
# question is not whether something is evicted, but what hit rate is left.
#
# Take 40 customers, each with a system prompt of 256 tokens, which are 16 blocks of 16: 640 blocks for all. Every
# request adds 16 tokens of its own. Two loads of 800 requests: in one some customers are much more popular than others
# (number k comes with a chance proportional to 1/k), in the other they come in rotation, 1, 2, …, 40, 1, 2, …
#
# No model is needed to count hits. Below, your tree works on real block numbers without anything in them.
#
# ### Prediction 4
#
# The pool has 340 blocks, half of what all prompts need. What is the hit rate of the popular load, and of the rotation?
# (If everything fits, 256 of 272 tokens can be hits: 94 %, less the first time each is seen.)

# %%
my_popular_rate, my_rotation_rate = 0.5, 0.5  # change both


# %%
class Shelf:
    """A host store that keeps count and nothing else."""

    def __init__(self, n_blocks):
        self.n_blocks, self.kept, self.handles = n_blocks, set(), itertools.count()

    def save(self, block):
        if len(self.kept) >= self.n_blocks:
            return None
        self.kept.add(handle := next(self.handles))
        return handle

    def load(self, handle, block):
        pass

    def drop(self, handle):
        self.kept.remove(handle)


def new_books(n_blocks, host_blocks=0, block_size=16):
    host = Shelf(host_blocks) if host_blocks else None
    return RadixCache(BlockAllocator(n_blocks), block_size, host)


def look_up_and_keep(cache, prompt):
    """What a scheduler does with one request, start to end; return the tokens found."""
    found = cache.match(prompt, limit=len(prompt) - 1)
    missing = blocks_for(len(prompt), cache.block_size) - len(found)
    cache.evict(max(0, missing - cache.blocks.n_free))
    blocks = found + [cache.blocks.allocate() for _ in range(missing)]
    cache.insert(prompt, blocks)
    for block in blocks:
        cache.blocks.free(block)
    return len(found) * cache.block_size


def customers(order, n_shared=256, n_own=16):
    """Prompts: a customer's own system prompt and something that nobody says twice."""
    return [[-customer] * n_shared + [number] * n_own for number, customer in enumerate(order)]


# %%
chance = random.Random(7)
ranks = range(1, 41)
loads = {
    "some are popular": customers(chance.choices(ranks, [1 / k for k in ranks], k=800)),
    "in rotation": customers([1 + i % 40 for i in range(800)]),
}


def hit_rate(prompts, n_blocks, host_blocks=0):
    cache = new_books(n_blocks, host_blocks)
    for prompt in prompts:
        look_up_and_keep(cache, prompt)
    return cache.statistics


sizes = [40, 80, 160, 240, 340, 440, 540, 640, 660, 700, 800]
rates, with_host = {}, {}
for name, prompts in loads.items():
    rates[name] = [hit_rate(prompts, n).hit_rate for n in tqdm(sizes, desc=name)]
    with_host[name] = [hit_rate(prompts, n, 900).hit_rate for n in sizes]
popular, rotation = (rates[name][sizes.index(340)] for name in loads)
print(f"you said {my_popular_rate:.0%} and {my_rotation_rate:.0%}; it is {popular:.0%} and {rotation:.0%}")
enough = next(n for n in range(640, 801, 4) if hit_rate(loads["in rotation"], n).hit_rate > 0.85)
print(f"in rotation nearly all is found from {enough} blocks on")

# %%
fig, ax = figures.figure(height=3.8)
for (name, line), colour in zip(rates.items(), figures.LINES, strict=False):
    ax.plot(sizes, line, "o-", color=colour, label=name)
    ax.plot(sizes, with_host[name], "--", color=colour, label=None if "pop" in name else "either, with a host store")
ax.axvline(640, color=figures.GREY, linewidth=1)
ax.text(634, 0.03, "all system prompts", ha="right", fontsize=9, color="#555555")
ax.set(xlabel="blocks in the pool", ylabel="hit rate", ylim=(-0.02, 1))
ax.legend(fontsize=9, loc="center left", bbox_to_anchor=(0.42, 0.3))
figures.show(
    fig,
    f"Hit rate against pool size. For popular customers it rises from {rates['some are popular'][0]:.0%} to "
    f"{rates['some are popular'][-1]:.0%}. In rotation it is {rotation:.0%} at 340 blocks and jumps to "
    f"{rates['in rotation'][-1]:.0%} once everything fits. Dashed, with a host store, both are above "
    f"{min(map(min, with_host.values())):.0%} at every size.",
)

# %% [markdown]
# The popular load degrades gently: whoever is asked for often is rarely the one used longest ago. The rotation is LRU's
# worst case: what was used longest ago is exactly what is needed next, and half the memory gives nothing at all. It
# even takes more than the 640 blocks of the prompts. Each request's own block lies in the tree as well and waits for
# its turn to go, so about 640 + 40 = 680 blocks are younger than the one that is asked for. Nightly jobs that go
# through all customers look like this. The remedy is not memory but order: serve those with the same prefix together.
# SGLang does that with its queue, longest match first.
#
# ### A second home
#
# The dashed lines have a **host store**: an evicted block is copied to CPU memory, which is larger and cheaper, and is
# copied back when it is asked for. It counts as a hit, but not a free one. Is copying faster than computing again? By
# arithmetic, for the 8B model: 131,072 B a token at 25 GB/s (PCIe, in practice) are 5.2 µs; prefill takes 15 µs a
# token. Three times faster. From a disk that reads 5 GB/s it would be 26 µs: slower than to compute again.
#
# Here "host" and "device" are the same memory, so copying is cheap. Measure the three cases with a document of 1,000
# tokens (a few seconds).

# %%
engine, numbers = Engine(target, n_blocks=100, host_blocks=100), itertools.count(100)


def first_token_after(prepare):
    """Put the document's blocks somewhere, then ask something new about it; return the seconds of the wait."""
    prepare(engine.scheduler.prefix)
    _, (m,) = serve(engine, [system + tokenizer.encode(f"{next(numbers)}:")])
    return m.ttft_seconds


places = {
    "on the device": lambda tree: None,
    "in the host store": lambda tree: tree.evict(tree.n_blocks),
    "nowhere": lambda tree: tree.clear(),
}
tries = {name: [] for name in places}
with your_engine("7.2", "7.3"):
    serve(engine, [system + tokenizer.encode("99:")])
    for _ in tqdm(range(rounds_allowed(7))):
        for name, prepare in places.items():
            tries[name].append(first_token_after(prepare))
for name, values in tries.items():
    print(f"{name:18} first token after {statistics.median(values) * 1e3:6.1f} ms")
print(which_is_faster(tries, "on the device", "nowhere"))
print(which_is_faster(tries, "in the host store", "nowhere"))
print(which_is_faster(tries, "on the device", "in the host store"))

# %% [markdown]
# ## Stable parts first
#
# What ends the reuse is the first token that differs. So the order of a prompt's parts is worth money: **what never
# changes comes first, what always changes comes last.** Four ways to put together the same four parts: rules (300
# tokens), examples (300 tokens), the time, the question.
#
# ### Prediction 5
#
# The time stands in front of everything: "09:41:07". What share of the prompt is reused by the next request?

# %%
my_share_behind_a_clock = 0.0  # change it

# %%
rules, examples = reading[2000:2300], reading[2300:2600]


def clock(i):
    return tokenizer.encode(f"Now it is 09:41:{10 + 5 * i}.\n")


def minute(i):
    return tokenizer.encode("Now it is 09:41.\n")


def question(i):
    return tokenizer.encode(f"Who has more, Anna with {31 + i} pens or Ben with {54 - i}?")


orders = {
    "rules, examples,\ntime, question": lambda i: rules + examples + clock(i) + question(i),
    "rules, time,\nexamples, question": lambda i: rules + clock(i) + examples + question(i),
    "time, rules,\nexamples, question": lambda i: clock(i) + rules + examples + question(i),
    "time to the minute,\nrules, examples,\nquestion": lambda i: minute(i) + rules + examples + question(i),
}
shares, expected, first_token = {}, {}, {}
with your_engine("7.2", "7.3"):
    for name, prompt in tqdm(orders.items()):
        engine, prompts = Engine(target, n_blocks=400), [prompt(i) for i in range(8)]
        found = [serve(engine, [p])[1][0] for p in prompts]
        total = sum(map(len, prompts[1:]))
        shares[name] = sum(m.n_prefix_tokens for m in found[1:]) / total
        expected[name] = sum(reusable_prefix_tokens(a, b, 16) for a, b in itertools.pairwise(prompts)) / total
        first_token[name] = [m.ttft_seconds for m in found[1:]]
for name in orders:
    flat, ms = name.replace("\n", " "), 1e3 * statistics.median(first_token[name])
    print(f"{flat:45} predicted {expected[name]:4.0%}, measured {shares[name]:4.0%}, first token after {ms:4.0f} ms")
print(f"you said {my_share_behind_a_clock:.0%} behind a clock")
best, _, worst, _ = orders
print(
    "for the first token",
    which_is_faster({"time last": first_token[best], "time first": first_token[worst]}, "time last", "time first"),
)

# %%
fig, axes = figures.figure(6.4, 3.6, columns=2, sharey=True)
for ax, values, label in (
    (axes[0], [100 * shares[name] for name in orders], "reused, % of the prompt"),
    (axes[1], [1e3 * statistics.median(first_token[name]) for name in orders], "first token after, ms"),
):
    bars = ax.barh(range(4), values, color=[figures.BLUE, figures.ORANGE, figures.RED, figures.GREEN])
    ax.bar_label(bars, fmt="%.0f", padding=3, fontsize=9)
    ax.set(xlabel=label, yticks=range(4), ylim=(3.6, -0.6), xlim=(0, 1.2 * max(values)))
axes[0].set_yticklabels(orders, fontsize=9)
figures.show(
    fig,
    "Two rows of bars for four orders of a prompt: the share reused, and the wait for the first token. "
    + " ".join(f"{name.replace(chr(10), ' ').capitalize()}: {shares[name]:.0%} reused." for name in orders),
)

# %% [markdown]
# A clock in front costs the whole cache, for a figure that the question may not even need. Other things that differ in
# front of what is equal: a user's name in the first line, a request number, tools listed from a set (in another order
# each time), JSON with unsorted keys, the documents of a search in the order of their scores. None of them raises an
# error. You see them in one number, the hit rate, so have it on the dashboard.
#
# **A word on safety.** Who may share a prefix? A shorter wait tells that somebody has sent the same beginning before.
# Guess a secret piece by piece, and the clock says when a guess was right. So caches are shared within a customer and
# not across customers, except for what the provider itself puts in front. The answer itself reveals nothing: it is the
# same with a hit and without.

# %% [markdown]
# ## Several machines
#
# A cache lies in the memory of *one* machine. With four replicas behind a plain load balancer, a customer's second
# request lands with probability ¾ on a machine that has never seen the first. And each machine caches every customer's
# prompt, so their pools hold four copies of the same.
#
# Routing by prefix sends a request where most of its prompt is. A replica is asked for two things:
# `replica.cached_tokens(prompt)`, how many tokens of the prompt's beginning it has, and `replica.load`, a number. Left
# to itself that rule has a flaw: a prefix that everybody uses sends everybody to one machine. So it gets a guard: a
# replica with much more to do than the least busy one is passed over, whatever it has.

# %%
from nanolm.paging import route_by_prefix  # exercise: route_by_prefix
# points: 4
# minutes: 12
# difficulty: 2
# tested: Most cached tokens win, then the least load, then the first; a replica with too much extra load is left out,
#   one with exactly as much is not; seven requests of one prefix are spread; no replica and a negative guard are
#   refused.
# why: A cache that requests do not reach is memory lost. This function decides whether they do.
# hint: Who is too busy is out whatever it has cached, and "too busy" is told from the smallest load of all, that of
#   replicas with nothing cached included. `require_not_negative` refuses infinity, so spare it the infinite guard. //
#   The indices of those not too busy; one `max` over them whose `key` is a tuple: what comes first in it decides first,
#   and what should be small gets a minus.

# %% [markdown]
# A simulation: 24 customers with system prompts of 512 tokens and requests of 64 more; one customer sends four of ten
# requests, the others by the law from above. A replica does the work of 10,000 positions a second, and a request costs
# those of its prompt that are not cached, and 400 for its answer. A replica's tree has room for 8 system prompts. Its
# *load* is the work it has accepted and not done.


# %%
class Machine:
    """A replica: your tree, and a queue that is worked off at a constant speed."""

    def __init__(self, speed=10_000, n_blocks=80, block_size=64):
        self.cache, self.speed = RadixCache(BlockAllocator(n_blocks), block_size), speed
        self.now = self.free_at = 0.0

    @property
    def load(self):
        return max(0.0, self.free_at - self.now) * self.speed

    def cached_tokens(self, prompt):
        return self.cache.peek(prompt[:-1])

    def take(self, prompt):
        """Serve a request; return its time to the first token."""
        left = len(prompt) - look_up_and_keep(self.cache, prompt)
        waits = self.load / self.speed + left / self.speed
        self.free_at = max(self.now, self.free_at) + (left + 400) / self.speed
        return waits


chance = random.Random(70)
weights = [0.4] + [0.6 / k / sum(1 / j for j in range(2, 25)) for k in range(2, 25)]
order = chance.choices(range(1, 25), weights, k=2400)
requests = customers(order, n_shared=512, n_own=64)
arrivals = [arrival.seconds for arrival in poisson(60, len(requests), seed=7)]


def simulate(choose):
    """Serve all requests; return hit rate, mean wait, the wait that 5 % exceed, and the busiest machine's share."""
    machines, waits, chosen = [Machine() for _ in range(4)], [], []
    for number, (now, prompt) in enumerate(zip(arrivals, requests, strict=True)):
        for machine in machines:
            machine.now = now
        chosen.append(choose(number, prompt, machines))
        waits.append(machines[chosen[-1]].take(prompt))
    found = sum(m.cache.statistics.n_hit_tokens for m in machines) / sum(map(len, requests))
    share = max(chosen.count(i) for i in range(4)) / len(chosen)
    return found, statistics.fmean(waits), statistics.quantiles(waits, n=20)[-1], share


# %%
guards = [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, float("inf")]
ways = {
    "round robin": lambda number, prompt, machines: number % 4,
    "least load": lambda number, prompt, machines: min(range(4), key=lambda i: machines[i].load),
}
for g in guards:
    ways[f"by prefix, guard {g:g}"] = lambda number, prompt, machines, g=g: route_by_prefix(prompt, machines, g)
rows = {name: simulate(choose) for name, choose in tqdm(ways.items())}
for name, (found, mean, slow, share) in rows.items():
    print(f"{name:24} hits {found:4.0%}, mean wait {mean:7.3f} s, 5 % wait {slow:7.3f} s or more, busiest {share:.0%}")
routed = [rows[f"by prefix, guard {g:g}"] for g in guards]
lowest = min(guards, key=lambda g: rows[f"by prefix, guard {g:g}"][2])
print(f"the wait that 5 % exceed is lowest with a guard of {lowest:g} positions")

# %%
fig, axes = figures.figure(6.4, 3.7, columns=2)
at = range(len(guards))
for ax, which, label in ((axes[0], 0, "hit rate"), (axes[1], 2, "wait that 5 % exceed, s")):
    ax.plot(at, [result[which] for result in routed], "o-", color=figures.BLUE, label="by prefix")
    for name, colour in (("round robin", figures.RED), ("least load", figures.ORANGE)):
        ax.axhline(rows[name][which], color=colour, linestyle="--", label=name)
    ax.set(xlabel="guard: extra load allowed", ylabel=label)
    ax.set_xticks(at, [f"{g:,}" if g < 1e9 else "none" for g in guards], rotation=60, fontsize=9)
axes[0].set_ylim(0, 1)
axes[0].legend(fontsize=9, loc="lower right")
axes[1].set_yscale("log")
figures.show(
    fig,
    f"Left: the hit rate of routing by prefix rises with the guard from {routed[0][0]:.0%} to {routed[-1][0]:.0%}; round robin "
    f"has {rows['round robin'][0]:.0%}, least load {rows['least load'][0]:.0%}. Right, on a logarithmic scale: the wait that "
    f"one in twenty exceeds is lowest, {rows[f'by prefix, guard {lowest:g}'][2]:.2f} s, with a guard of {lowest:g} positions; "
    f"without any it is {routed[-1][2]:.0f} s, with least load {rows['least load'][2]:.2f} s.",
)

# %% [markdown]
# (The simulation draws nothing by chance that is not fixed, so these numbers are the same everywhere.) Round robin hits
# by luck. Without a guard, prefix routing has the worst waits: the popular customer's machine gets more work than it
# can do, and its queue grows as long as the run. A guard that is too tight throws hits away. In between lies a valley:
# when a popular prefix spills over, a second machine learns it, and from then on there are two.
#
# Routers of real servers decide by the same two numbers. A poor man's version is to send each user always to the same
# machine: it keeps conversations together, but spreads every system prompt over all machines.

# %% [markdown]
# ## What it costs
#
# Providers sell the reuse. A prompt token costs the plain price; to have a part of the prompt *written* to the cache
# costs more, w = 1.25 times, and to *read* it there much less, r = 0.1 times (0.05 with some). An entry lives τ = 5
# minutes, and each use starts the 5 minutes anew. Only whole multiples of a granularity count; the price lists differ,
# so look yours up.
#
# Start with the plain bill: input and output have prices of their own, because a written token costs a pass and a read
# one does not. At 2 and 10 dollars a million, 1,000 tokens in and 500 out: 0.002 + 0.005 = 0.007 dollars.

# %%
from nanolm.budget import request_dollars  # exercise: request_dollars
# points: 1
# minutes: 3
# difficulty: 1
# tested: Input and output at their own prices, prices per million, nothing for nothing, and refusal of negative counts
#   and prices.
# why: Every comparison below starts from this number.
# hint: Prices are per million, token counts are whole. // Two products, a sum, a division. `require_count(0,
#   name=value, …)` and `require_not_negative(name=value, …)` take the arguments by name and refuse what is not allowed.

# %% [markdown]
# **By hand.** 100 requests within a few minutes, each with the same 10,000 tokens in front and 500 of its own, at 3
# dollars a million:
#
# | | | dollars |
# |---|---|---:|
# | without | 100 · 10,500 · 3/10⁶ | **3.15** |
# | the first, writing | 10,000 · 1.25 · 3/10⁶ + 500 · 3/10⁶ = 0.0375 + 0.0015 | **0.0390** |
# | each other, reading | 10,000 · 0.1 · 3/10⁶ + 500 · 3/10⁶ = 0.0030 + 0.0015 | **0.0045** |
# | all | 0.0390 + 99 · 0.0045 | **0.4845** |
#
# 85 % saved. The 500 fresh tokens are 1/21 of the prompt and one third of what is left of the bill.
#
# With 100 fresh tokens behind 10,000 read at a tenth, a request costs as much as 1,000 + 100 = 1,100 tokens in place of
# 10,100: 9.2 times less. At a twentieth 600 tokens, 16.8 times less. And if the provider caches in multiples of 2,048:
# 10,000 = 4 · 2,048 + 1,808, so 8,192 are cached and 1,808 cost the plain price, always.
#
# As an equation, for n requests of which m find nothing and the other n − m read:
#
# $$\text{dollars} = \frac{\text{price}}{10^6}\,\Big( C\,\big(w\,m + r\,(n - m)\big) + F\,n \Big)$$
#
# Everything hangs on m, and m on how far apart the requests are.

# %%
from nanolm.budget import prompt_cache_cost  # exercise: prompt_cache_cost
# points: 4
# minutes: 15
# difficulty: 2
# tested: The bill above, reads at a tenth and a twentieth, an entry that lives on because it is used, one that comes
#   exactly at the end and one a moment later, rare use that only ever writes, multiples of 2,048, no request, factors
#   of 1, and bad input.
# why: The same discount saves 85 % of one product's bill and adds 24 % to another's. This function tells which is
#   yours.
# hint: A use renews the time to live whether it read or wrote; and the part of the shared tokens below a whole multiple
#   is never cached, so it costs the plain price, always. // Split the shared part in two; what is not cached joins the
#   fresh tokens. Then one loop over `arrivals_in_order(arrivals_seconds)`, which gives them as a list and refuses a
#   wrong order, that remembers when the entry was last used, None before the first time.

# %%
without = 100 * request_dollars(10_500, 0, input_dollars_per_million=3.0)
cached = prompt_cache_cost(range(100), 10_000, 500, 3.0)
units = prompt_cache_cost(range(100), 10_000, 500, 3.0, granularity_tokens=2048)
print(f"without {without:.2f}, with {cached:.4f} dollars, {1 - cached / without:.0%} saved; ", end="")
print(f"in multiples of 2,048: {units:.4f} dollars")

# %% [markdown]
# ### Prediction 6
#
# The same requests arrive by chance, every G minutes on average, and the entry lives 5 minutes. Up to which G does
# caching pay? Below 5 minutes, at 5, or beyond?

# %%
my_longest_mean_gap_minutes = 5.0  # change it

# %%
plain_cost = request_dollars(10_500, 0, input_dollars_per_million=3.0)
minutes = [0.5, 1, 2, 3, 4, 5, 5.5, 7, 10, 15, 20, 25, 30, 40]
n = 1500


def cost_of_one(arrivals):
    return prompt_cache_cost(arrivals, 10_000, 500, 3.0) / len(arrivals)


even = [cost_of_one([60 * gap * i for i in range(n)]) for gap in minutes]
scattered = [cost_of_one([a.seconds for a in poisson(1 / (60 * gap), n, seed=3)]) for gap in minutes]
pays = [gap for gap, x in zip(minutes, scattered, strict=True) if x <= plain_cost]
print(f"by chance it pays up to {pays[-1]} minutes of those tried; you said {my_longest_mean_gap_minutes:g}")
print(f"evenly spaced up to {[gap for gap, x in zip(minutes, even, strict=True) if x <= plain_cost][-1]} minutes")

# %%
fig, ax = figures.figure(height=3.8)
ax.plot(minutes, [100 * x for x in even], "o-", color=figures.BLUE, label="evenly spaced")
ax.plot(minutes, [100 * x for x in scattered], "s-", color=figures.ORANGE, label="by chance, this far apart on average")
ax.axhline(100 * plain_cost, color=figures.GREY, linestyle="--", label="without a cache")
ax.axvline(5, color=figures.GREY, linewidth=1)
ax.text(5.4, 0.15, "time to live", fontsize=9, color="#555555")
ax.set(xlabel="minutes between uses", ylabel="price of a request, cents", ylim=(0, 4.3))
ax.legend(fontsize=9, loc="center right", bbox_to_anchor=(1, 0.42))
figures.show(
    fig,
    f"Price of a request against the gap between uses. Evenly spaced requests cost {100 * even[0]:.2f} cents up to the time "
    f"to live of 5 minutes and {100 * even[-1]:.2f} cents beyond, more than the {100 * plain_cost:.2f} without a cache. By "
    f"chance the price rises smoothly and stays below the price without a cache up to {pays[-1]} minutes of those tried.",
)

# %% [markdown]
# Evenly spaced, it is a cliff: beyond 5 minutes every request pays for writing and none ever reads, 24 % more than
# without.
#
# By chance it is a slope. Of gaps with mean G, a share h = 1 − e^(−τ/G) is shorter than τ. Caching pays while
# w (1 − h) + r h < 1, that is
#
# $$h > \frac{w - 1}{w - r} = \frac{0.25}{1.15} = 22\,\%$$
#
# which is a mean gap of 4.1 · τ, **20 minutes**: chance brings requests in bunches. The rule to remember: with these
# prices caching pays if one request in four finds the entry; at one in five it does not quite.

# %% [markdown]
# ## Depth: runs instead of blocks
#
# A prompt of 100,000 tokens that parts from no other is 6,250 nodes in our tree, at 16 tokens a block. Nothing is
# gained by most of them: nobody has ever left the text there. SGLang's tree keeps one node for the whole *run*, and
# cuts it only where a text leaves it. The three sentences from above are then four runs instead of seven nodes:
#
# | | run | behind it |
# |---|---|---|
# | 1 | the cat · sat on | 2, 3 |
# | 2 | the mat | |
# | 3 | a hat | |
# | 4 | a cat · sat on · the mat | |
#
# **Cutting.** *the cat sat on the mat* came first, and was one run of three blocks. The second sentence leaves it after
# two. So the run is cut: the front keeps *the cat*, *sat on*; the rest, *the mat*, hangs behind it; *a hat* becomes its
# second child. Who keeps the old object, front or rest? The rest: it is the end of the run that others know, the order
# of leaves above all. Nothing is copied and nobody's count of references changes.
#
# **Use.** In a tree of blocks each node has its own last use. A run has one for all its blocks. Is that enough? Only if
# all of them were always used together. So a *look-up* that ends in the middle of a run has to cut as well: its front
# was used now and its rest was not. Do that, and both trees evict the same blocks in the same order. Forget it, and one
# question with a known beginning keeps the whole old conversation alive.
#
# **Eviction** takes a run from its end, block by block, and only as far as is asked.
#
# Given: `Run` (read its five fields), `n_equal(keys, other_keys)`, which counts the keys that two lists share at their
# beginning, `whole_blocks`, and `match`, which calls your `path`. `self.leaves` has the leaves in the order of their
# last use: `pop()`, `add(run)`.

# %%
from nanolm.paging import CompressedRadixCache  # exercise: path, split, insert, evict
# points: 12
# minutes: 90
# difficulty: 4
# tested: Split: every link of front, rest, parent and children, lists of their own, no use and no reference changed.
#   Path: whole runs, a cut where a text leaves one, last uses on both sides of the cut. Insert: one run for all that is
#   new, the tree's own blocks kept, a leaf that can be evicted. Evict: from the end, no more than asked, pinned blocks
#   in the middle, empty runs. All four: 2,000 random events beside a cache that searches everything it has.
# why: This is the radix tree of SGLang. Fewer nodes make the look-up of a long prompt cheap, and so its eviction.
# hint: The traps are links that still say what was true before a cut, and a last use given to what was not used. Draw
#   the four objects of a cut (parent, front, rest, the rest's children) and the six links between them before you
#   write. // split: the front is a new Run with the first n keys and blocks, the run's parent and last use; then the
#   parent's link, the run's own keys, blocks and parent, and the front's one child. path: from the root down, while the
#   next key is among the children; cut if `n_equal` is less than the run has; set the last use; drop the keys that are
#   found. insert: what `path` found is kept; the rest of the whole blocks is one new run, shared block by block. evict:
#   pop a leaf, take blocks off its end while they may go and more are wanted; if it is empty, out of its parent's
#   children with it, and the parent may be a leaf now; if not, set it aside.

# %% [markdown]
# The twenty conversations, each with a question and an answer of 40 tokens more, in both trees: the same is found, in
# fewer nodes.

# %%
texts = [prompt + reading[2000 + 40 * i : 2040 + 40 * i] for i, prompt in enumerate(conversations)]
for name, tree in (
    ("blocks", prefix.RadixCache(BlockAllocator(600), 8)),
    ("runs", CompressedRadixCache(BlockAllocator(600), 8)),
):
    found = 0
    for text in texts:
        known = tree.match(text, limit=len(text) - 1)
        mine = known + [tree.blocks.allocate() for _ in range(blocks_for(len(text), 8) - len(known))]
        tree.insert(text, mine)
        for block in mine:
            tree.blocks.free(block)
        found += 8 * len(known)
    n_nodes = tree.n_runs if name == "runs" else tree.n_blocks
    print(f"a tree of {name:6}: {tree.n_blocks} blocks, {n_nodes} nodes, {found:,} tokens found")

# %%
as_runs = CompressedRadixCache(BlockAllocator(20), block_size=2)
for sentence in by_hand:
    serve_words(as_runs, " ".join(sentence))


def draw_runs(tree, decode):
    """A compressed tree from left to right, a box a run."""
    rows, boxes = itertools.count(), []

    def place(run, depth):
        children = [place(child, depth + 1) for child in run.children.values()]
        y = statistics.fmean(children) if children else next(rows)
        boxes.append((depth, y, children, "\n".join(decode(key) for key in run.keys) or "root"))
        return y

    place(tree.root, 0)
    fig, ax = figures.figure(6.4, 0.95 * max(next(rows), 2) + 0.5)
    for depth, y, children, label in boxes:
        for child in children:
            ax.plot([depth, depth + 1], [y, child], color=figures.GREY, linewidth=1, zorder=1)
        box = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": figures.BLUE, "linewidth": 1.6}
        ax.text(depth, y, label, ha="center", va="center", fontsize=10, bbox=box)
    depths, heights = [box[0] for box in boxes], [box[1] for box in boxes]
    ax.set(xlim=(-0.5, max(depths) + 0.6), ylim=(max(heights) + 0.7, -0.7))
    ax.set_axis_off()
    return fig


figures.show(
    draw_runs(as_runs, lambda key: " ".join(words[i] for i in key)),
    f"The tree of the three sentences with {as_runs.n_runs} runs for nodes: 'the cat, sat on' with 'the mat' and 'a hat' "
    "behind it, and 'a cat, sat on, the mat' in one box.",
)

# %% [markdown]
# ## Depth: other things than a beginning
#
# **Marked points.** Some providers look prefixes up at any multiple of their granularity, others only at points that
# the request marks. Then a mark behind the part that changes is a mark wasted: what is written ends in a timestamp, and
# no later request will read it.
#
# **Modules** (Prompt Cache, [Gim 2024](https://arxiv.org/abs/2311.04934)). Could a document be cached once and used at
# any place, behind any other? The plot of layers above says no: its states would be others. Prompt Cache does it all
# the same: each module is run alone, at positions of its own that are kept free for it, and put together with others.
# The modules do not see one another; only the question sees all. It is fast and it is *another model's* answer: close
# on many tasks, not equal. A prefix cache is exact.
#
# **Smaller states.** What is cached can be quantized ([week 5](../week05_quantization/week05_quantization.ipynb)) or
# made small by design ([week 9](../week09_smaller_cache/week09_smaller_cache.ipynb)). An 8-bit cache keeps twice as
# many prefixes as one of 16 bits. Models with a sliding window need only the window of the prefix; models with a
# recurrent state can resume only where a copy of the state was taken.
#
# **Machines of their own for prefill.** Where prompts are run on other machines than answers are written, the cache
# travels between them, and routing decides about both: the prefill goes to where the prefix is.
#
# **Preemption.** A preempted request (week 6) leaves what it had computed in the tree. When it comes back soon, it
# finds its own text. The engine does not call that a hit: it says nothing about what prompts have in common.

# %% [markdown]
# ## The same with libraries
#
# In transformers a prefix is a `DynamicCache` that you keep. `generate` writes into the cache it is given (`cache`, in
# older versions `past_key_values`), so each request gets a copy. (About ten seconds, most of them for the import.)

# %%
import copy
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)
    kept = transformers.DynamicCache(config=model.config)
    with torch.inference_mode():
        model(torch.tensor([system]), cache=kept)
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    ids = torch.tensor([conversations[0]])

    def write(past=None):
        text = model.generate(ids, attention_mask=torch.ones_like(ids), cache=copy.deepcopy(past), **options)
        return text[0, ids.shape[1] :]

    print("transformers writes the same text with the kept prefix:", write().tolist() == write(kept).tolist())
    print("and it is our engine's:", write(kept).tolist() == together[0])
    seconds = take_turns({"whole prompt": write, "kept prefix": lambda: write(kept)}, repeats=5)
    print("for 8 tokens,", which_is_faster(seconds, "kept prefix", "whole prompt"))
else:
    print("transformers is not installed here; with it, this cell writes with a kept prefix")

# %% [markdown]
# You keep the books there: which cache belongs to which beginning, and when it goes. Servers keep them for you. vLLM
# has *automatic prefix caching* (not run here):
#
# ```
# vllm serve MODEL --enable-prefix-caching --block-size 16
# ```
#
# (Recent versions have it on by default.) It has no tree. Each full block gets a **hash** of its tokens *and of the
# hash of the block before it*, and one dictionary leads from hash to block. The hash of the parent does what our tree's
# branches do: the same tokens behind another prefix are another entry. Where the first hash contains a salt, customers
# are separate. Freed blocks wait in a queue, and the one longest in it is reused first, a prefix's last block before
# its first. `/metrics` counts tokens looked up and tokens hit. SGLang has the tree of runs that you can write in the
# depth part, and its router a rule like that of `route_by_prefix`.

# %% [markdown]
# ## The same on a real model
#
# SmolLM2-135M, if it is installed here: a system prompt of a few hundred tokens in front of four questions, with your
# tree and without (about half a minute).

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, smol_tokenizer = real
    rules = "You are a helpful assistant of a library. " + " ".join(
        f"Rule {i}: answer in at most {i} sentences, and name the shelf." for i in range(1, 21)
    )
    asked = [
        smol_tokenizer.encode(f"{rules}\nQuestion: {q}\nAnswer:") for q in ("Opening hours?", "Maps?", "Cats?", "Toys?")
    ]
    firsts = {"prefix cache": [], "none": []}
    with your_engine("7.2", "7.3"):
        for name in firsts:
            books = Engine(smol, n_blocks=200, prefix_cache=name == "prefix cache")
            found = [serve(books, [ids])[1][0] for ids in tqdm(asked, desc=name)][1:]
            firsts[name] = [m.ttft_seconds for m in found]
            hits = sum(m.n_prefix_tokens for m in found) / sum(map(len, asked[1:]))
            print(f"{name}: {hits:.0%} of the tokens of questions 2 to 4 found")
    print("for the first token,", which_is_faster(firsts, "prefix cache", "none"))

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **Reuse behind the first difference.** Fluent text about another prompt.
#   `test_reusable_prefix_tokens_end_at_the_first_token_that_differs`, `test_insert_branches_where_texts_part`
# - **The whole prompt reused.** No position is left to give the next token's logits.
#   `test_reusable_prefix_tokens_leave_one_position_to_run`, `test_match_finds_no_more_tokens_than_the_limit`
# - **Granularity ignored, or rounded up.** More is counted as cached than there is.
#   `test_reusable_prefix_tokens_are_whole_multiples_of_the_granularity`
# - **Found blocks not pinned.** They are given to someone else while they are read.
#   `test_match_pins_every_block_once_for_the_caller`
# - **The tree takes no reference.** Its blocks are gone with the request that made them.
#   `test_insert_takes_one_reference_of_every_whole_block`
# - **A block that is not full kept.** Its owner goes on writing into it. The same test.
# - **The caller's duplicate kept.** One prefix, two blocks, and one of them leaks.
#   `test_insert_keeps_the_block_that_the_tree_has`
# - **Use not counted as use.** First in, first out in the name of LRU.
#   `test_match_counts_what_it_finds_as_used_now`, `test_insert_counts_the_whole_path_as_used_now`
# - **The most recent evicted.** `test_evict_frees_the_least_recently_used_first`
# - **A trunk evicted before its branches.** Memory that nobody can reach.
#   `test_evict_frees_leaves_before_what_they_stand_on`
# - **A pinned block evicted, or never evicted again.**
#   `test_evict_leaves_pinned_blocks_alone_until_they_are_released`
# - **A search through everything for each block.** `test_evict_does_not_search_all_blocks_for_each_one_it_frees`
# - **Off-loaded blocks not brought back.** `test_match_brings_back_what_was_off_loaded`
# - **Pinned blocks counted as room.** A newcomer is let in that cannot run.
#   `test_begin_with_prefix_gives_everything_back_where_the_rest_has_no_room`
# - **The pins of one that waits kept.** Blocks that can never be evicted. The same test.
# - **The cache emptied for one who does not fit even then.**
#   `test_begin_with_prefix_evicts_nothing_if_that_is_not_enough`
# - **Routing by load alone, by cache alone, or without a guard.**
#   `test_route_by_prefix_goes_where_most_of_the_prompt_is_cached`,
#   `test_route_by_prefix_takes_the_least_load_of_equals_then_the_first`,
#   `test_route_by_prefix_passes_over_a_replica_with_too_much_extra_load`
# - **The surcharge for writing forgotten; fresh tokens at the reading price.**
#   `test_prompt_cache_cost_of_100_requests_is_written_once_and_read_99_times`
# - **The time to live counted from the write.** `test_prompt_cache_cost_renews_the_time_to_live_at_each_use`
# - **A run counted as used whole where only its front was found.**
#   `test_path_counts_as_used_what_it_found_and_nothing_behind_the_cut`
# - **A link that still says what was true before a cut.** `test_split_cuts_a_run_and_hangs_the_rest_behind_the_front`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards. The model is the 8B one from above: 131,072 B and 15 µs of prefill a
# token, 4.48 ms to load the weights.
#
# **1.** A prompt of 10,500 tokens, of which 10,000 are cached. TTFT with and without the cache, in an idle server?
#
# <details><summary>Answer</summary>Without: 10,500 · 15 µs = 158 ms for the matrices. Attention adds 4 · 4,096 · 32
# operations for each pair of positions, 10,500 · 5,250 pairs: 28.9·10¹², 29 ms at 10¹⁵ a second, together 186 ms. With:
# 500 · 15 µs = 7.5 ms, above the 4.48 ms of loading; attention of 500 positions over 10,250 on average, 2.7 ms; and
# 10,000 · 131,072 B = 1.31 GB of cache to read at 3.35 TB/s, 0.4 ms. Together 10.6 ms: 18 times faster, not 21, as
# fewer tokens alone would say.</details>
#
# **2.** An agent takes 40 steps. Each adds 1,500 tokens to its context and sends all of it. Input tokens in all? What
# do they cost at 3 dollars a million, without caching and with w = 1.25, r = 0.1, a few seconds between steps?
#
# <details><summary>Answer</summary>1,500 · (1 + 2 + … + 40) = 1,500 · 820 = 1.23 million, 3.69 dollars. With caching,
# each step writes its 1,500 new tokens and reads what came before: 40 · 1,500 · 1.25 = 75,000 and 1,500 · (0 + 1 + … + 39) ·
# 0.1 = 1,500 · 780 · 0.1 = 117,000 plain tokens, together 192,000: 0.58 dollars, 6.4 times less.</details>
#
# **3.** A system prompt of 10,000 tokens is used every G minutes, exactly. Somebody proposes to keep it alive by
# reading it every 5 minutes for nothing. Up to which G is that cheaper than writing it anew each time?
#
# <details><summary>Answer</summary>A write costs 1.25, a read 0.1 of the plain price. With k extra reads a use costs
# 0.1 (k + 1), against 1.25: k up to 11. k extra reads bridge gaps of up to 5 (k + 1) minutes, so up to G = 60 minutes.
# But compared with no caching at all, which costs 1, it pays for k up to 8: 45 minutes.</details>
#
# **4.** 80 GB, 16 GB of weights, 10 % of the rest kept free. 20 customers with system prompts of 10,000 tokens each.
# How many requests of 8,192 tokens behind them can run at once, if all 20 prompts are to stay? (Each request shares its
# prompt.)
#
# <details><summary>Answer</summary>64 GB · 0.9 = 57.6 GB. The prompts: 200,000 · 131,072 B = 26.2 GB. Left are 31.4 GB;
# a request's own 8,192 tokens are 1.074 GB: 29. Without sharing a request is 18,192 tokens, 2.38 GB: 24 in all, and
# every one of them prefills 10,000 tokens more.</details>
#
# **5.** Your dashboard says 60 % of *requests* hit, and 20 % of *tokens*. What does the load look like, and what would
# you do?
#
# <details><summary>Answer</summary>Many requests share a short beginning and go on with something long of their own.
# TTFT has hardly improved: it follows tokens. Look at what comes right behind the common part: if it is a timestamp or
# a user's name in front of long common rules, move it back.</details>

# %% [markdown]
# ## Check yourself
#
# - Why is a common *ending* worth nothing?
# - A prompt is cached to its last token. How many positions are run, and why not none?
# - What must a request that does not fit hold while it waits?
# - What is the difference between a block's reference count and its last use? Which of them protects a running request?
# - Why may only leaves be evicted, and why does the system prompt survive without being marked?
# - What does a prefix cache do for the time per output token?
# - Four replicas, round robin, every machine with a perfect cache. What is wrong?
# - When does a provider's cache make the bill longer?
#
# <details><summary>Short answers</summary> Keys and values depend on everything before them, so an equal ending behind
# another beginning is other numbers. · One, or up to a block: the logits of the next token are made by running the last
# one. · Nothing, or what it pins could never be evicted for anybody. · The count says who uses it now, the last use how
# likely it is to be used again; the count protects. · Without its trunk a branch cannot be found; and everybody's use
# renews the trunk. · Nothing: the cache is read at every step as before. (It helps indirectly: prefills take less of
# each pass.) · Three of four times the prefix lies on another machine, and all pools hold copies of the same. · When
# fewer than 22 % of uses come within the time to live (w = 1.25, r = 0.1), or when the mark stands behind something
# that changes. </details>

# %% [markdown]
# ## In an interview
#
# *"Our assistant sends a system prompt of 10,000 tokens with every request. It is slow to start and expensive. What do
# you do?"*
#
# A structure for three minutes:
#
# 1. **Split the time.** TTFT is queue plus prefill plus network; 10,000 tokens of prefill are the suspect. The time per
#    output token is another matter, and caching does not touch it (30 seconds).
# 2. **Is the prompt cacheable?** Compare two consecutive requests token by token: where is the first difference? Stable
#    parts first; clock, names and search results last; sorted keys, one tokenizer (45 seconds).
# 3. **Does the request reach the cache?** How many replicas, how are they routed; hit rate *in tokens*, by replica.
#    Route by prefix with a guard against overload; warm up after a deployment (30 seconds).
# 4. **Does it stay there?** Pool size against the working set; eviction rate; host store if copying beats computing.
#    With a provider: gaps against the time to live (30 seconds).
# 5. **Numbers.** Prefill from 10,500 to 500 tokens; bill 3.15 to 0.48 dollars per hundred requests; break-even at 22 %
#    hits. Quality does not change; check it all the same: equal answers at temperature 0 up to near ties (45 seconds).

# %% [markdown] written="proof for prefixes" points=6 minutes=15 difficulty=3
# **Prove that a prefix can be cached.** A decoder has L layers. In each, position s attends to the positions up to s,
# and everything else works on each position alone (norms, projections, rotation by the position, feed-forward). (a)
# Show that keys and values of positions 1 … n, in every layer, depend only on tokens 1 … n. (b) Conclude that two
# prompts with the same first n tokens can share them. (c) Which step fails for a bidirectional model, and what would
# have to happen to its cache after each new token? (d) Why does (a) not allow to reuse a common part in the middle?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) Induction over the layers. *Claim:* the state x of position s entering layer l is a function of
# tokens 1 … s. *Start:* entering the first layer it is the embedding of token s. *Step:* let it be true for layer l.
# Query, key and value of position s are made from its own state and its position s. The attention output of s is a
# function of its query and of keys and values at positions t ≤ s, each of which by the claim depends on tokens 1 … t,
# hence on tokens 1 … s. What follows (residual, norm, feed-forward) works on s alone, so the state entering layer l + 1
# is a function of tokens 1 … s. So in every layer the keys and values of s ≤ n are functions of tokens 1 … s, thus of 1
# … n.
#
# (b) The functions are the same model's, and so are positions and tokens; equal arguments give equal values (up to the
# order of sums in floating point).
#
# (c) The step: s attends to positions t > s as well, so its output depends on later tokens. A new token changes the
# states of *all* positions from the second layer on, with them all keys and values, and the cache would have to be
# computed anew after each token. (Keys and values of the first layer alone would stay.)
#
# (d) (a) gives dependence on tokens 1 … s, and those in front of the middle part differ; also the position s, if the
# part has moved. Then the arguments are not equal, and nothing says that the values are.
#
# **Mark scheme (6).** Induction with a claim about states (not only about one layer), 2. Attention step uses t ≤ s, 1.
# (b) same positions and same model said, 1. (c) the step named, and all later layers recomputed, 1. (d) 1. An argument
# "because of the causal mask" without induction over layers: at most 2 for (a).
# ### END SOLUTION

# %% [markdown] written="break-even" points=6 minutes=15 difficulty=2
# **From how many uses does caching pay?** Writing costs w times the plain price, reading r times, r < 1 < w. The shared
# part has C tokens; fresh tokens cost the same either way. (a) n uses come within one another's time to live. Derive
# the smallest n for which caching is cheaper, in general and for w = 1.25, r = 0.1. (b) A longer life is offered at w =
# 2, with the same r. From which n does it pay? (c) Uses come by chance; a share h of them finds the entry. Derive the h
# above which caching pays, and its value for w = 1.25, r = 0.1. (d) Name a cost or a gain of caching that this
# calculation leaves out.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) With: C (w + r (n − 1)). Without: C n. Cheaper if w − r < n (1 − r), that is n > (w − r)/(1 −
# r). For 1.25 and 0.1: 1.15/0.9 = 1.28, so n = 2. (One use: 1.25 against 1. Two: 1.35 against 2.) (b) 1.9/0.9 = 2.11,
# so n = 3. (c) A use costs on average w (1 − h) + r h per token, against 1. Cheaper if h (w − r) > w − 1, so h > (w −
# 1)/(w − r) = 0.25/1.15 = 0.217. (d) For example: the shorter wait, which is often worth more than the price; output
# tokens, which dilute the saving in the whole bill; the part below a unit of the granularity, which is never cached; on
# one's own machines the memory that cached blocks take from the batch.
#
# **Mark scheme (6).** (a) both costs written down, 1; inequality solved, 1; n = 2, 1. (b) 1. (c) 1. (d) one that is
# real and not counted above, 1. Numbers without derivation: at most 2 in all.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can prove why a beginning can be kept and a middle cannot, write the tree that a server keeps it in, predict how
# much of a prompt is free and what the rest costs in seconds and in dollars, and find the timestamp that spoils it all.
# Run `course status` in a terminal to see what is left.
#
# ## Sources
#
# - Zheng et al. 2024, [*SGLang: Efficient execution of structured language model
#   programs*](https://arxiv.org/abs/2312.07104): the radix tree, LRU over leaves, scheduling by prefix.
# - Kwon et al. 2023, [*Efficient memory management for large language model serving with
#   PagedAttention*](https://arxiv.org/abs/2309.06180): blocks with reference counts, shared prefixes.
# - Gim et al. 2024, [*Prompt Cache: modular attention reuse for low-latency
#   inference*](https://arxiv.org/abs/2311.04934): reuse of parts that are no prefix, and what it costs in exactness.
