# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 2 · The KV cache
#
# Before every new token, a model has to take its whole text into account. Done the plain way it computes, each time,
# nearly everything that it computed the time before. This week you keep the part that is needed again and show that
# nothing changes by it. Then you pay for it: the cache takes memory, and memory decides how many people a server can
# talk to.
#
# **After this week you can**
#
# - say as a number what a cache of keys and values saves, and what it does not save;
# - write one (positions with an offset, the cache, attention over it, prefill and decode) that agrees with a full pass
#   to twelve digits;
# - recognise the mistakes that raise no error and only spoil the text;
# - predict how time grows with the text, with a cache and without, and measure it on your own machine;
# - work out on a napkin how large a cache is, how many requests fit and how long they may become.
#
# **Time:** about four hours, so perhaps two evenings: two and three quarters for the twelve exercises, twenty minutes
# for the written question, three quarters to read; and up to one more to guess, to measure and for the problems at the
# end. **Needs:** attention as any introduction to transformers tells it: queries, keys, values, softmax. No exercise of
# another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold functions or methods whose bodies are missing. Write them, run the cell, run the
# `check(...)` below it. A check runs the course's own tests on your answer alone and takes everything around it from
# the reference, so one mistake never hides another. It prints what it found; where a test failed it leaves the call of
# your answer in `failing`, and `failing.again()` makes it once more. Where a class is asked, its other methods stand
# there finished: read them, they are part of the explanation. If you prefer an editor, the same functions wait in
# `exercises/`, with the same tests.
#
# Labs, the other cells, use *your* functions and *your* cache: `needs` at the top of such a cell names the exercises by
# their numbers, puts the reference in the place of one that you have not written, and says so.
#
# Where a docstring says *Raises*, the message has to name the argument that was wrong. The helpers that are imported
# for you do that already, such as `require_count(1, n_prompt_tokens=n_prompt_tokens)` for a whole number from 1 on and
# `require_positive(kv_bits=kv_bits)` for a number above 0.
#
# Where you see a *Prediction*, write a number down before you run the next cell.

# %%
# Set-up for the labs
import time
from dataclasses import replace

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from nanolm import load
from nanolm.budget import H100, LLAMA_3_8B
from nanolm.config import ModelConfig
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import rounds_allowed, take_turns
from course.lab.verdicts import against_prediction, ratio, which_is_faster

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
target, tokenizer = load("target")
kinds = {"MHA": 32, "GQA": 8, "MQA": 1}  # key/value heads beside 32 query heads


@torch.inference_mode()
def write(model, prompt, n, cache=None):
    """Tokens of the largest logits, and the seconds of each pass; without a cache each pass runs the whole text."""
    text, seconds = list(prompt), []
    for step in range(n):
        start = time.perf_counter()
        new = text[-1:] if step and cache is not None else text
        logits = model(torch.tensor([new]), cache, last=1)
        if cache is not None:
            cache.advance(len(new))
        text.append(int(logits[0, -1].argmax()))
        seconds.append(time.perf_counter() - start)
    return text[len(prompt) :], seconds


size = sum(weight.numel() for weight in target.parameters())
print(f"target: {size:,} parameters, {target.config.n_layers} layers, ", end="")
print(f"{target.config.n_heads} query and {target.config.n_kv_heads} key/value heads of {target.config.head_dim}")

# %% [markdown]
# ## The idea in plain words
#
# Think of a careful author who, before each new word, goes back to the first line and reads the whole page again. Then
# they take up a habit: while they read a word they write two notes in the margin. One says what the word is about, the
# other what it contributes. For the next word they read only the last one they wrote, make its two notes, and look the
# margin up and down. The page need not be read again.
#
# In a decoder every layer makes three vectors for every position. The **query** asks; it is used once, by its own
# position, and is then done with. The **key** says what a position is about and the **value** what it contributes;
# every later position uses both. And since a position sees only what comes before it, nothing that comes later changes
# them. So they are worth keeping. What keeps them is the **KV cache**.
#
# The first pass runs the whole prompt and fills the cache: **prefill**. Each later pass runs one position, the token
# written last: **decode**.


# %%
def draw_passes(n_prompt, n_new):
    """Every pass is a row, every position a column: what is computed, and what is read from a cache."""
    fig, axes = figures.figure(6.4, 3.3, columns=2, sharey=True)
    colours = ("white", figures.BLUE, figures.GREY)
    for ax, cached in zip(axes, (False, True), strict=True):
        picture = np.zeros((n_new, n_prompt + n_new - 1))
        for row in range(n_new):
            picture[row, : n_prompt + row] = 1
            if cached and row:
                picture[row, : n_prompt + row - 1] = 2
        ax.pcolormesh(picture, cmap=ListedColormap(colours), vmin=0, vmax=2, edgecolor="white", linewidth=0.8)
        ax.grid(False)
        title = f"{'with' if cached else 'without'} a cache: {int((picture == 1).sum())} computed"
        ax.set(xlabel="position", title=title)
        ax.set_xticks(np.arange(n_prompt + n_new - 1) + 0.5, range(n_prompt + n_new - 1))
    axes[0].set_yticks(np.arange(n_new) + 0.5, range(1, n_new + 1))
    axes[0].set(ylabel="pass", ylim=(n_new, 0))
    handles = [Patch(facecolor=colours[1]), Patch(facecolor=colours[2])]
    fig.legend(handles, ["computed in this pass", "read from the cache"], loc="outside lower left", ncols=2, fontsize=9)
    return fig


figures.show(
    draw_passes(4, 6),
    "Six passes after a prompt of four tokens, one a row. Without a cache each pass computes all positions so far, a "
    "widening block of 39 squares. With a cache the first pass computes four, each later one a single new square at the "
    "end of its row, 9 in all; the squares to its left are read from the cache.",
)

# %% [markdown]
# ### The legend
#
# | letter | meaning | letter | meaning |
# |---|---|---|---|
# | B | sequences in the batch | L | layers |
# | T | positions run in this pass | N | query heads (`n_heads`) |
# | S | positions in the cache, past and this pass | K | key/value heads (`n_kv_heads`) |
# | D | model width (`d_model`) | H | numbers in a head (`head_dim`) |
# | V | vocabulary | R | positions of a row whose logits are asked for |
# | U | numbers in a value, here H | θ | how fast rotary angles slow down, 10,000 |
#
# GB is 10⁹ bytes, GiB is 2³⁰ bytes. Shapes stand in comments and annotations: `(B, K, S, H)` is the cache of a layer.

# %% [markdown]
# ### Prediction 1
#
# A prompt of 8 tokens, then 16 new tokens. Every pass yields one token. How many positions are computed in all, without
# a cache and with one?

# %%
my_positions_without, my_positions_with = 0, 0  # change both

# %% [markdown]
# ## By hand
#
# **Counting.** Take three new tokens after a prompt of 8. Without a cache the passes run 8, then 8 and the token just
# written, then one more: 8 + 9 + 10 = 27 positions. With a cache 8 + 1 + 1 = 10. The last token is written and never
# run: nobody asks what comes after it.
#
# In general: without a cache n tokens after a prompt of p take n·p + n(n − 1)/2 positions. That grows with the square
# of n. With one it is p + n − 1, which does not.
#
# **Attending.** One head with H = 1, so that every vector is a number. Two tokens are in the cache and a third arrives,
# with the query 1:
#
# | | cached | cached | new |
# |---|---:|---:|---:|
# | key | 0 | 0.693 | 0 |
# | value | 4 | 8 | 0 |
#
# Scores are query times key over √H (a sum of H products is about √H large; the root takes that out again), so 0, 0.693
# and 0. Their exponentials are 1, 2 and 1, the weights ¼, ½ and ¼. The output is ¼ · 4 + ½ · 8 + ¼ · 0 = **5**. The
# pass has made one query, one key and one value. The other four numbers lay in the cache as earlier passes had left
# them.
#
# Now the same with a mistake in it:
#
# - The new token's own key and value are left out: weights ⅓ and ⅔, output 6.67.
# - Only the first key is seen: output 4.
# - The cache has room for five, and its two empty places (zeros) are attended to as well: each zero key has the
#   exponential 1, so the weights are 1, 2, 1, 1 and 1 sixths, output 3.33.
#
# None of them raises an error. Each gives a number, and from it a fluent wrong text. That is why this week's tests
# compare numbers.
#
# Try the next step yourself: a fourth token with key 1.386 (which is ln 4), value 2 and query 1.
#
# <details><summary>Answer</summary>The exponentials are 1, 2, 1 and 4, together 8. The output is (1 · 4 + 2 · 8 + 1 · 0
# + 4 · 2)/8 = 3.5. One key and one value were new; three pairs came from the cache.</details>

# %% [markdown]
# ## The equation
#
# $$
# o_t \;=\; \sum_{s \le t} w_{ts}\, v_s
# \qquad
# w_{ts} = \frac{e^{\,q_t \cdot k_s / \sqrt{H}}}{\sum_{r \le t} e^{\,q_t \cdot k_r / \sqrt{H}}}
# $$
#
# In the pass that runs position t, only q, k and v of t itself are new. All k and v before it come from the cache. The
# sum has s ≤ t in it, not s < t: a token sees itself.
#
# ## The code, small
#
# [`nanolm/model/tiny_decoder.py`](../../nanolm/model/tiny_decoder.py) is a decoder in NumPy alone, with one head and
# random weights. It leaves out the **feed-forward** block, the half of a layer that works on each position by itself: a
# cache changes nothing there. What it writes means nothing, but it does what every decoder does, and it counts: passes,
# positions run, vectors projected to a key or a value. `forward_full` is finished, and what you write resembles it.
#
# | helper | what it does |
# |---|---|
# | `self.embed(tokens, offset)` | the vectors of some tokens that stand at positions offset, offset + 1, …; counts a pass |
# | `self.project(layer, x)` | their queries, keys and values in a layer; counts the projections |
# | `causal_attention(q, k, v)` | the equation above, where the T queries are the last T of the S positions |
# | `self.new_cache()` | arrays `keys` and `values` of shape (L, capacity, D), all zeros, and `length` 0 |
# | `self.work` | the counts; `Work()` is all zeros |
# | `Generation(tokens, logits, passes, …)` | what `generate` returns: the new tokens alone, one row of logits for each of them, the counts |

# %%
from nanolm.model import TinyDecoder  # exercise: forward_step, generate
# points: 6
# minutes: 30
# difficulty: 2
# tested: Logits equal to a full pass computed by hand, one and two layers; what the cache holds and how long it is
#   after a step; that its empty places are not seen; the same text with and without the cache; the counts; a full cache
#   and bad requests.
# why: The whole idea of the week fits into these two methods. All that follows is the same with more heads.
# hint: The cache has more places than it holds positions, the new token sees itself, and the last token written is
#   never run. // forward_step is forward_full for one token: embed it at its position, and in each layer project it,
#   write its key and value to their place, let its query attend to all places filled so far, add the result through
#   `wo`. After the last layer the length grows by one. `embed` counts the pass and refuses a full cache, `project`
#   counts the rest. generate is one loop over the passes, from `Work()` on; only the first of them runs the prompt.

# %%
decoder = TinyDecoder(n_layers=1)
without, cached = (decoder.generate([7], 12, use_cache=use_cache) for use_cache in (False, True))
print(
    f"12 tokens after a prompt of one: {without.kv_projections} projections to keys and values without a cache, ",
    end="",
)
print(f"{cached.kv_projections} with one, {without.kv_projections / cached.kv_projections:.1f} times fewer")
print(f"the same text: {without.tokens == cached.tokens}; ", end="")
print(f"logits differ by at most {np.abs(without.logits - cached.logits).max():.0e}")

# %% [markdown]
# Two sums of the same numbers, added in another order, differ in their last digits: a float64 has sixteen of them. That
# is all the difference there is. The cache is no approximation.
#
# Counting needs no decoder at all.

# %%
from nanolm.budget import positions_run  # exercise: positions_run
# points: 2
# minutes: 6
# difficulty: 1
# tested: Prompts and answers counted by hand, and 50 pairs of lengths against counting pass by pass; no new tokens at
#   all.
# why: It turns "a cache is faster" into a number, before anything is built.
# hint: No new token means no pass, not even the prefill. // The pass that writes token number i (from 0) runs the
#   prompt and the i tokens before it; with a cache, only what no earlier pass has run. `require_count` refuses what is
#   no count.

# %%
from nanolm.budget import kv_projections  # exercise: kv_projections
# points: 1
# minutes: 2
# difficulty: 1
# tested: 156 and 24 for twelve tokens, and three layers.
# why: Positions are what one counts, projections are what the machine does.
# hint: Two kinds of vectors are counted, and every layer makes its own. // Every position that is run gets a key and a
#   value, in every layer.

# %%
print(f"you said {my_positions_without} without a cache and {my_positions_with} with one; ", end="")
print(f"it is {positions_run(8, 16, cached=False)} and {positions_run(8, 16, cached=True)}")
for n in (16, 100, 1000):
    without, cached = (positions_run(8, n, cached=cached) for cached in (False, True))
    print(f"{n:5,} new tokens: {without:8,} positions against {cached:5,}, {without / cached:6.1f} times as many")

# %% [markdown]
# For 16 new tokens: 8 + 9 + … + 23 is 16 numbers with a mean of 15.5, so 248. With a cache 8 + 15 = 23, which is 10.8
# times fewer. The more is written, the larger the factor.
#
# ## Where a token stands
#
# Attention itself does not see order: shuffle the keys and values together, and the sum is the same. So the position
# has to be put into queries and keys. Llama-style models do it by **rotation** (**RoPE**, rotary position embedding).
# Take the H numbers of a head in pairs, and see each pair as the hand of a clock. At position t the hand has turned by
# t times its own speed. Pair 0 turns fastest, one radian a position; the last one hardly moves.
#
# A score is a sum over pairs of (length · length · cosine of the angle between two hands). If query and key have turned
# by t and s times the same speed, the angle between them depends on t − s alone. So only *distances* matter, and a text
# means the same wherever it begins.
#
# $$
# (a,\, b) \;\mapsto\; (a\cos\varphi - b\sin\varphi,\;\; b\cos\varphi + a\sin\varphi)
# \qquad
# \varphi_i(t) = t \cdot \theta^{-2i/H}
# $$
#
# θ is a number of the model, 10,000 here. Number i of a head is paired with number i + H/2. (Other code pairs 2i with
# 2i + 1; a checkpoint fits one of the two.)
#
# **By hand.** H = 2, query and key both (1, 0), so one hand each. The key stands at position 3, the query at 5. The
# hands are at 3 and at 5 radians, and the score (before the root) is cos 2 = −0.42.
#
# In a decode pass the new token comes alone: T = 1. Code that counts positions within the pass takes it for position 0.
# Then its hand is at 0, and the score with the key at 3 is cos 3 = −0.99. Against this mistake there is `offset`: the
# number of tokens that came before this pass.

# %%
fig, axes = figures.figure(6.4, 3.3, columns=2)
hands = {"right: 2 radians apart": (3, 5), "offset forgotten: 3 apart": (3, 0)}
for ax, (name, places) in zip(axes, hands.items(), strict=True):
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=figures.GREY, linewidth=1)
    for word, place, colour in zip(("key at 3", f"query at {places[1]}"), places, figures.LINES, strict=False):
        x, y = np.cos(place), np.sin(place)
        ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
        ax.text(1.55 * x, 1.2 * y, word, ha="center", va="center", fontsize=9.5)
    ax.set(title=f"{name}, cos {np.cos(places[1] - places[0]):.2f}", xlim=(-2.1, 2.1), ylim=(-1.4, 1.4), aspect="equal")
    ax.title.set_fontsize(9.5)
    ax.axis("off")
figures.show(
    fig,
    "Two circles with two hands each. On the left the key's hand stands at 3 radians and the query's at 5, and the cosine of "
    "the angle between them is -0.42. On the right the query's hand stands at 0, and the cosine is -0.99.",
)

# %% [markdown]
# All layers of a pass turn by the same angles, so a model computes them once, with your function, and looks them up.
# What it hands to its layers is a **Rotation**: cos and sin, ready to use. Your function takes that, too. The engine
# calls it in every layer of every pass.
#
# | name | what it is |
# |---|---|
# | `positions_of(offset, T)` | the positions as integers: (T,) from an int; (B, T) from a tensor (B,), one offset a row; a tensor (B, T) is returned as it is |
# | `Rotation(cos, sin)` | a named tuple of two tensors (T, H/2), or (B, 1, T, H/2) where rows stand at places of their own: the 1 is for the heads |
# | `x.shape` | (B, N, T, H); in float32 or bfloat16, and the result has the same dtype. Angles are computed in float64 |

# %%
from nanolm.attention import apply_rope  # exercise: apply_rope
# points: 5
# minutes: 25
# difficulty: 3
# tested: Every vector against complex multiplication, at offsets from 0 to 30,000; one offset a row, every position by
#   itself, and a Rotation; theta; that lengths stay and scores depend on the distance alone; that a part rotated with
#   its offset equals the part of the whole.
# why: Without it a cached key would mean another place than the one it was made for.
# hint: Number i is paired with number i + H/2, not with its neighbour, and float32 is too coarse for the angle of a far
#   position. Where each row has positions of its own, their shape has no dimension for the heads yet. // A Rotation is
#   used as it is. Otherwise the positions, times the H/2 speeds θ^(−2i/H), give the angles; put in a dimension of size
#   1 for the heads where there is one offset a row; cos and sin in x's dtype. Cut x into its two halves with
#   `[..., : H // 2]` and `[..., H // 2 :]`, turn them by the formula, and join the results.

# %%
vector = torch.ones(1, 1, 1, 16)
places = {"right": [*range(24)], "offset forgotten": [*range(8), *[0] * 16]}
fig, axes = figures.figure(6.4, 3.4, columns=2, sharey=True)
for ax, (name, positions) in zip(axes, places.items(), strict=True):
    turned = torch.cat([apply_rope(vector, t) for t in positions], dim=2)[0, 0]  # (24, 16)
    scores = (turned @ turned.T / 4).masked_fill(torch.ones(24, 24).triu(1).bool(), torch.nan)
    shades = ax.imshow(scores, cmap="viridis", vmin=0, vmax=4)
    ax.axhline(7.5, color="black", linewidth=0.8)
    ax.grid(False)
    ax.set(title=name, xlabel="position of the key")
axes[0].set(ylabel="position of the query")
fig.colorbar(shades, ax=axes, shrink=0.7, label="score")
figures.show(
    fig,
    "Scores of a query with a key at every pair of positions, the lower triangle of a square. On the left, with right "
    "offsets, they are equal along every diagonal and highest on the main one. On the right the offset is forgotten: the "
    "first eight rows are the same; below the line, where tokens are decoded one by one, all rows are alike.",
)

# %% [markdown]
# The same vector serves as query and key at every place, so the picture shows what position alone does. On the left
# every diagonal has one colour: distance is all that counts. On the right the eight rows of the prompt are correct,
# because a prefill starts at 0 anyway. Below the line, where decoding begins, every query believes that it stands at
# position 0, and so does every new key.

# %% [markdown]
# ## The cache
#
# The cache is an object with two tensors a layer, and four things to do. It stores new keys and values (`update`),
# counts them (`advance`), says where the next tokens stand (`offset`), and lets the queries of a pass look at
# everything it holds (`attend`). A layer never sees what is stored: it hands over its queries, keys and values and gets
# back what the queries have seen. So a cache that keeps its numbers in another way can take this one's place (week 5,
# week 6, week 9), and the layer does not notice.
#
# Two decisions are behind the class below.
#
# **Memory is taken once, at full capacity.** To join old and new with `torch.cat` would copy the whole past for every
# token: work that grows with the square of the length, the very thing the cache was to end. So a pass *writes* T
# positions and returns a *slice*, which copies nothing.
#
# **Writing and counting are two methods.** Every layer of a pass writes to the same positions of its own tensors. Only
# when the last layer has written has the cache grown. In a pass over one token, with 5 in the past:
#
# | | layer 0 | layer 1 | layer 2 | `length` |
# |---|---|---|---|---:|
# | `update(0, k, v)` | writes position 5 | | | 5 |
# | `update(1, k, v)` | | writes position 5 | | 5 |
# | `update(2, k, v)` | | | writes position 5 | 5 |
# | `advance(1)` | | | | 6 |
#
# If `update` moved the length, layer 1 would write position 6 and leave 5 empty.
#
# Going back is cheap, too: `truncate` changes the length and nothing else. What lies behind it is overwritten later.
# [Week 4](../week04_speculative/week04_speculative.ipynb) needs that.

# %% [markdown]
# ## Attention with a past
#
# Which keys may a query see? Itself and all before it. Three cases look different and are one rule:
#
# | pass | T | past | who sees what | in PyTorch |
# |---|---|---|---|---|
# | prefill | > 1 | none | a triangle | `is_causal=True` |
# | decode | 1 | some | the one query sees everything | no mask |
# | a chunk after a past | > 1 | some | the whole past, then a triangle | a mask of your own |
#
# `is_causal=True` looks like the answer to all three, and is right for the first only. PyTorch puts the triangle into
# the *top left* corner of the T × S scores.
#
# ### Prediction 2
#
# Six keys, one query, `is_causal=True`. The value of every position is its number, and all keys are equal, so the
# output is the mean of the positions that the query sees. It should be the mean of 0 to 5, which is 2.5. What comes
# out?

# %%
my_mean_position = 2.5  # change it

# %%
sdpa = torch.nn.functional.scaled_dot_product_attention
keys, values = torch.ones(1, 1, 6, 4), torch.arange(6.0).view(1, 1, 6, 1)
for T in (1, 3):
    queries = torch.ones(1, 1, T, 4)
    sees = torch.ones(T, 6).tril(6 - T).bool()  # the T queries are the last T of the 6 positions
    causal, right = sdpa(queries, keys, values, is_causal=True), sdpa(queries, keys, values, attn_mask=sees)
    print(f"T = {T}: is_causal gives {causal.flatten().tolist()}, right is {right.flatten().tolist()}")
print(f"you said {my_mean_position} for T = 1")

# %% [markdown]
# <details><summary>When you have run it</summary>With T = 1 the new token saw the first key alone: of all that was
# written before it, the first token and nothing else. No error is raised.</details>
#
# ### Fewer heads to keep
#
# Queries are not cached, so only key and value heads cost memory. **Multi-head attention (MHA)** has as many of them as
# query heads, K = N. **Multi-query attention (MQA)** has a single one, which all queries read. **Grouped-query
# attention (GQA)** lies between: N/K query heads share each key/value head. The cache shrinks by N/K. The heads are
# shared in the reading, *after* the cache, and never copied into it.

# %%
fig, ax = figures.figure(6.4, 2.9)
ax.set(xlim=(-0.6, 29.6), ylim=(-0.7, 3.6))
for first, (name, K) in zip((0, 10.5, 21), {"MHA, K = 8": 8, "GQA, K = 2": 2, "MQA, K = 1": 1}.items(), strict=True):
    ax.text(first + 4, 3.2, name, ha="center", fontsize=10)
    for n in range(8):
        k = n * K // 8
        middle = first + (k + 0.5) * 8 / K
        ax.plot([first + n + 0.5, middle], [2, 1], color=figures.GREY, linewidth=1)
        ax.add_patch(Rectangle((first + n + 0.1, 2), 0.8, 0.7, color=figures.BLUE))
        ax.add_patch(Rectangle((middle - 0.4, 0.3), 0.8, 0.7, color=figures.ORANGE))
handles = [Patch(color=figures.BLUE), Patch(color=figures.ORANGE)]
fig.legend(handles, ["query heads, N = 8", "key/value heads, cached"], loc="outside lower left", ncols=2, fontsize=9.5)
ax.axis("off")
figures.show(
    fig,
    "Three groups of eight query heads above key/value heads, with lines from each query head to the one that it reads. MHA "
    "has eight key/value heads, one for each query head; GQA two, each read by four; MQA a single one, read by all eight.",
)

# %% [markdown]
# The class below is finished but for four methods. What they need:
#
# | name | what it is |
# |---|---|
# | `self.keys[layer]`, `self.values[layer]` | (B, K, capacity, H), zeros where nothing was written |
# | `self._end_of(k, v)` | checks the shapes, returns length + T, raises where that does not fit |
# | `self._need_room(end)` | raises where `end` positions do not fit |
# | `self.mask(T)` | the mask for T new positions: here None, which means causal |
# | `attend(q, keys, values, mask, scale)` | the imported function, not the method: the softmax; with None for a mask it tells the three cases of the table apart |
# | `k.detach()` | the same numbers without a gradient: a cache serves inference |

# %%
from nanolm.cache import KVCache  # exercise: update, advance, offset, attend
# points: 8
# minutes: 30
# difficulty: 3
# tested: What comes back and what is written where, at several lengths; that other layers and `length` stay as they
#   are; that no memory is taken; the last place, and one too many. `attend` against PyTorch's own attention with
#   everything spelled out, in the three cases of the table; that it stores, takes the mask and looks at what `update`
#   returns. And a whole model's logits with your cache against a full pass, to twelve digits.
# why: Here offset, cache and mask meet. Every engine has this object, and most broken engines are broken here.
# hint: `update` must not move the length, since the other layers write to the same places; and what it returns has the
#   past in it, not only what is new. // update: from `_end_of` you know the places, length … end − 1; a slice of a
#   tensor is a view, so writing to it writes to the cache, and returning one copies nothing. attend is three steps:
#   store, ask `self.mask(T)`, attend. To write the three cases with `scaled_dot_product_attention` is the better
#   exercise.

# %% [markdown]
# ## The layer
#
# A layer is short now: project, rotate, let the cache attend, project back.
#
# | name | what it is |
# |---|---|
# | `self.qkv` | one matrix for all heads of a position, in this order: N queries, K keys, K values, H numbers each |
# | `apply_rope(x, offset, self.theta)` | yours from above; queries and keys turn, values do not; `offset` is handed on as it is |
# | `cache.attend(self.layer, q, k, v)` | yours, too: stores the new keys and values, returns what the queries see |
# | `attend(q, k, v)` | the same where there is no cache: the positions of this pass see each other |
# | `self.out` | back to the width D |
#
# Keys go into the cache *after* their rotation. Their positions never change, so why turn them again in every pass? And
# one call of `apply_rope` can turn queries and keys together: they lie side by side.

# %%
from nanolm.model import Attention  # exercise: forward
# points: 5
# minutes: 15
# difficulty: 2
# tested: What the cache is handed (turned queries and keys, plain values, K heads, its own layer, once), that what it
#   returns goes through `out`, and that it is not advanced; one offset a row; a Rotation; no cache at all.
# why: It is the one forward pass of this course: the engine of week 6 serves hundreds of requests through this method.
# hint: Values are not turned, and a reshape of (B, N, T, H) without a transpose mixes heads and positions. // Work with
#   the shape (B, heads, T, H): view the projection as (B, T, N + 2K, H) and transpose. Turn the first N + K heads in
#   one call. In the end the heads go back side by side into (B, T, N·H).

# %% [markdown]
# ## Prefill, then decode
#
# Now the loop around the model. `forward` computes the logits of new positions and writes their keys and values to the
# cache; it does not advance the cache, since only the caller knows what is to count. `stream` is that caller. It yields
# each token as soon as it is there, which is what lets a chat answer appear word by word.
#
# | name | what it is |
# |---|---|
# | `check_prompts(prompts, max_new_tokens, config)` | refuses empty prompts, unknown tokens and too long a request |
# | `right_padded(prompts, device)` | prompts of unequal length as one tensor (B, T), the shorter ones filled up behind |
# | `self.new_cache(batch_size, capacity, ragged, cache_kind)` | an empty cache; `ragged=True` lets each row have a length of its own; `cache_kind` is handed on (week 5 has other kinds) |
# | `cache.advance(n)` | yours; that of a ragged cache also takes a list, one number a row |
# | `self(tokens, cache, last)` | logits (B, R, V) for tokens (B, T). `last` says of which positions: a tensor (B,) picks one a row, so R = 1; without it R = T |
# | `sample_next(logits, sampling, rng)` | one token a row, integers (B,), from logits (B, V); `.tolist()` makes Python numbers of them |
# | `SamplingParams(temperature=0.0)` | **greedy**: always the token of the largest logit; what `sampling=None` stands for. `Rng()` is what `rng=None` stands for |
# | `sampling.ends(self.config.eos_token_ids)` | the ids of the **end tokens**, those of the request or else the model's; a row is over when one of them is drawn |
#
# Logits cost D · V products a position, two thirds of a layer in the shipped model and more than two layers in an 8B.
# The prefill needs those of one position a row, and `last` says which.

# %%
from nanolm.model import NanoLM  # exercise: stream
# points: 6
# minutes: 35
# difficulty: 3
# tested: A scripted model writes down every pass: positions run, where each pass starts, each new token read once, a
#   token out before the next pass. Rows of unequal length, end tokens of the model and of the request, rows that end
#   early.
# why: This is the engine's main loop. A server does the same with rows that come and go (week 6).
# hint: In a batch of unequal prompts the last position of the tensor is padding in all rows but the longest. And the
#   token drawn last is never run: nobody asks what comes after it. // First write it for one prompt: prefill, advance
#   by its length, then a loop that draws, yields, and runs the token drawn. Then let rows differ: whose length is the
#   cache advanced by, and which position gives the logits? At last the end tokens, one flag a row; a row that is over
#   yields None. The pass for a token is run when the *next* one is asked for.

# %% [markdown]
# ## Your own engine
#
# Put together what you have: your rotation, your cache, your layer and your loop. `your_engine` puts them into `nanolm`
# itself for as long as its `with` lasts. Everything else stays, the shipped weights too. It must write what the
# reference writes, and the table says whose code ran, and how often. An error in your code comes out with a line that
# names the exercise.

# %%
from course import your_engine

starts = ("ROMEO\nBut soft, ", "12 + 31:")
expected = {start: target.generate(tokenizer.encode(start), 24) for start in starts}
with your_engine("2.4", "2.5", "2.6", "2.7") as parts:
    mine, _ = load("target")
    written = {start: mine.generate(tokenizer.encode(start), 24) for start in starts}
for start, text in written.items():
    print("it writes what the reference writes:", text == expected[start])
    print(tokenizer.decode(tokenizer.encode(start) + text) + "\n")
passes, layers = sum(map(len, written.values())), target.config.n_layers
print(f"{passes} tokens, so {passes} passes through {layers} layers: {passes * layers} times a layer was asked")
for part in parts:
    print(f"{part.name:24} {part.whose:9} ran {part.calls:5} times")

# %% [markdown]
# Every pass asks each layer once, and each layer lets the cache attend, which stores first. Whoever turns queries and
# keys in one call sees `apply_rope` as often, and once more, for the table of angles; whoever turns them apart, about
# twice as often. `offset` and `advance` are asked once a pass: all layers stand at the same place.

# %% [markdown]
# ### What a forgotten offset looks like
#
# A sum and a play, each written twice with the same weights and your cache. The second time the cache says "nothing
# came before" in every pass, so every new token is rotated as position 0.


# %%
class Forgetful(KVCache):
    """A cache like any other, but each pass takes its tokens for the first ones."""

    offset = 0


for words, n in (("12 + 31:", 24), ("HAMLET\nTo be, or not to be, ", 32)):
    opening, texts = tokenizer.encode(words), {}
    for name, kind in (("right", KVCache), ("forgetful", Forgetful)):
        texts[name], _ = write(target, opening, n, kind(target.config))
        print(f"--- {name}\n{tokenizer.decode(opening + texts[name])}\n")
    alike = [one == other for one, other in zip(texts["right"], texts["forgetful"], strict=True)]
    print(f"the two part at token {alike.index(False) + 1} of {n}\n" if False in alike else "the two are alike\n")

# %% [markdown]
# Neither complains. Each goes its own way from an early token on, and where the words still are words you have to know
# what the text should be. So every fast path in this course has a test that compares it with the slow one.

# %% [markdown]
# ## Predict, then measure: linear and quadratic
#
# Time two passes of the shipped model without a cache, over 16 positions and over 256, and one decode pass with your
# cache. From these three numbers you can predict the whole curve: a pass over n positions takes about a + b·n, and the
# text takes the sum.

# %%
play = tokenizer.encode("ROMEO\nBut soft, what light through yonder window breaks?\n" * 10)
with torch.inference_mode():
    past = KVCache(target.config, capacity=512)
    target(torch.tensor([play[:128]]), past)
    past.advance(128)
    calls = {
        "16 positions": lambda: target(torch.tensor([play[:16]]), last=1),
        "256 positions": lambda: target(torch.tensor([play[:256]]), last=1),
        "one, with a cache of 128": lambda: target(torch.tensor([play[:1]]), past),
    }
    # The fastest of 15: what else a machine does makes a run longer, never shorter.
    passes = {name: min(times) for name, times in take_turns(calls, repeats=15).items()}
for name, seconds in passes.items():
    print(f"{name}: {seconds * 1e3:.2f} ms")

# %% [markdown]
# ### Prediction 3
#
# A prompt of 16 tokens. With these times: how many seconds do 128 tokens take without a cache, and 256? By what factor
# does doubling the text lengthen it, without a cache and with one? (The next cell takes about 15 seconds.)

# %%
my_seconds_for_256, my_factor_without, my_factor_with = 0.0, 1.0, 1.0  # change them

# %%
n_tokens = 256
b = (passes["256 positions"] - passes["16 positions"]) / (256 - 16)
a = passes["16 positions"] - 16 * b
predicted = {
    "without a cache": [a + b * n for n in range(16, 16 + n_tokens)],
    "with a cache": [passes["one, with a cache of 128"]] * n_tokens,
}
runs = {name: [] for name in predicted}
for _ in tqdm(range(rounds_allowed(3)), desc="rounds", leave=False):
    runs["without a cache"].append(write(target, play[:16], n_tokens)[1])
    mine = KVCache(target.config, capacity=16 + n_tokens)
    runs["with a cache"].append(write(target, play[:16], n_tokens, mine)[1])
# The fastest run again, pass by pass.
measured = {name: [min(same) for same in zip(*of_name, strict=True)] for name, of_name in runs.items()}
totals = {name: np.cumsum(seconds) for name, seconds in measured.items()}
for name, total in totals.items():
    print(
        f"{name}, each pass at its fastest: 128 tokens {total[127]:.2f} s, 256 tokens {total[255]:.2f} s, ",
        end="",
    )
    factor = sum(predicted[name]) / sum(predicted[name][:128])
    print(f"factor {total[255] / total[127]:.2f} (predicted {factor:.2f})")
    print(
        f"  256 tokens, whole runs: {against_prediction([sum(run) for run in runs[name]], sum(predicted[name]), 's', 1)}"
    )
whole = {name: [sum(run) for run in of_name] for name, of_name in runs.items()}
print(f"256 tokens {which_is_faster(whole, 'with a cache', 'without a cache')}")
print(f"you said {my_seconds_for_256} s, and the factors {my_factor_without} and {my_factor_with}")

# %%
fig, axes = figures.figure(6.4, 3.6, columns=2)
for (name, seconds), colour in zip(measured.items(), (figures.RED, figures.BLUE), strict=True):
    axes[0].plot([second * 1e3 for second in seconds], color=colour, linewidth=0.9)
    axes[0].plot([second * 1e3 for second in predicted[name]], "--", color="black", linewidth=0.9)
    axes[1].plot(totals[name], color=colour, label=name)
    axes[1].plot(np.cumsum(predicted[name]), "--", color="black", linewidth=0.9)
axes[1].plot([], [], "--", color="black", linewidth=0.9, label="predicted")
axes[0].set(xlabel="tokens written", ylabel="one pass, ms", ylim=(0, None))
axes[1].set(xlabel="tokens written", ylabel="all passes so far, s")
fig.legend(loc="outside lower left", ncols=3, fontsize=9)
first, last = (
    {name: 1e3 * np.median(times[part]) for name, times in measured.items()} for part in (slice(16), slice(-16, None))
)
grows = "; ".join(f"{name} from {first[name]:.1f} to {last[name]:.1f} ms" for name in measured)
figures.show(
    fig,
    f"Time against tokens written, measured in colour, predicted dashed. Left, one pass: {grows}, medians of the first and "
    f"the last 16 passes. Right, all passes so far, each at its fastest: {totals['without a cache'][-1]:.2f} s without a cache, "
    f"{totals['with a cache'][-1]:.2f} s with one.",
)

# %% [markdown]
# Where the time of a pass without a cache is a straight line in n, its sum is a parabola; where that of a cached pass
# is constant, its sum is a straight line, and doubling the text doubles the time. By this sum, without a cache
# the factor lies between 2 and 3.6: it would be 2 if only a counted, the fixed cost of starting some hundred small
# operations, and 3.6 if only b·n did. The longer the text, the less a counts, and the nearer the factor comes to 4. (In
# very long texts attention adds to it: a pass then grows faster than a straight line.) Other work on the machine can
# push what was measured to either side.
#
# Note what the cache does *not* save. Each decode pass still reads all weights. And it reads the whole cache, which
# grows by one position a token. On this model and at this length that is little. On a large one it is not, and the rest
# of the week counts it.

# %% [markdown]
# ## What it costs: bytes
#
# Each layer keeps, for every position, a key and a value of H numbers in each of K heads:
#
# $$
# \text{bytes per token} = 2 \cdot L \cdot K \cdot H \cdot \frac{\text{bits}}{8}
# \qquad
# \text{cache} = B \cdot S \cdot \text{bytes per token}
# $$
#
# **By hand**, for a model shaped like Llama 3 8B: L = 32, K = 8, H = 128, 16 bits. 2 · 32 · 8 · 128 = 65,536 numbers,
# 131,072 bytes, 128 KiB *for a single token*. A text of 8,192 tokens: 1,073,741,824 bytes, one GiB exactly. Sixteen
# such texts: 17,179,869,184 bytes, 17.18 GB. That is more than the model itself, whose 8·10⁹ parameters take 16 GB.
# Together 33.18 GB.
#
# **Latent attention (MLA)** keeps something else: one short vector a layer, from which keys and values of all heads are
# computed when they are needed, and one key for the rotation, shared by all heads.
# [Week 9](../week09_smaller_cache/week09_smaller_cache.ipynb) builds it; here only its numbers are counted.
#
# A model to be sized is a `ModelShape`:
#
# | field | | field | |
# |---|---|---|---|
# | `n_layers` | L | `d_model` | D |
# | `n_heads`, `n_kv_heads` | N, K | `vocab_size` | V |
# | `head_dim` | H | `d_ff` | width of the feed-forward block |
# | `latent` | None; with latent attention an object with two more | `latent.kv_latent_dim`, `latent.rotary_dim` | numbers of that vector and of that key |

# %%
from nanolm.budget import kv_bytes_per_token  # exercise: kv_bytes_per_token
# points: 2
# minutes: 6
# difficulty: 1
# tested: Five models with their heads shared in different ways, 8, 4 and 3 bits, and one with latent attention.
# why: It is the number to know of a model that is to be served; all sizing starts from it.
# hint: Not all heads are cached, keys are not all that is, and bits are not bytes. // Ask whether `shape.latent` is
#   None: the numbers of a layer are those of keys and values, or else of the latent vector and the rotary key. Times
#   layers, times bits over 8; round up with math.ceil.

# %%
from nanolm.budget import kv_cache_bytes  # exercise: kv_cache_bytes
# points: 1
# minutes: 2
# difficulty: 1
# tested: Eleven caches of known models, among them 1 GiB and 16 GiB exactly; that it adds up over tokens and sequences.
# why: Whoever forgets the batch orders the wrong machine.
# hint: Nobody shares a cache. // One token's bytes, times tokens, times sequences.

# %% [markdown]
# Does the formula tell the truth about the engine? A tensor on PyTorch's `meta` device has a shape and no memory, so we
# can ask for caches that no laptop could hold.

# %%
for name, K in kinds.items():
    config = ModelConfig(128_256, d_model=4096, n_layers=32, n_heads=32, n_kv_heads=K, head_dim=128, d_ff=14_336)
    big = KVCache(config, batch_size=16, capacity=8192, dtype=torch.bfloat16, device="meta")
    big.advance(8192)
    formula = kv_cache_bytes(replace(LLAMA_3_8B, n_kv_heads=K), 8192, batch_size=16)
    print(f"{name}, {K:2} heads: your cache holds {big.nbytes:14,} bytes, the formula says {formula:14,}: ", end="")
    print("equal" if big.nbytes == formula else "not equal")

# %% [markdown]
# ## MHA, GQA and MQA side by side
#
# ### Prediction 4
#
# One layer of that size in real memory: 32 query heads of one new token look at 4,096 cached positions, in float32. GQA
# has a quarter of MHA's keys and values and MQA a thirty-second. By what factor is the attention faster?

# %%
my_gqa_factor, my_mqa_factor = 1.0, 1.0  # faster than MHA; change both

# %%
from nanolm.attention import attend

S = 4096
queries = torch.randn(1, 32, 1, 128)
stored = {name: [torch.randn(1, K, S, 128) for _ in range(2)] for name, K in kinds.items()}
real_bytes = {name: sum(heads.untyped_storage().nbytes() for heads in pair) for name, pair in stored.items()}
times = take_turns({name: lambda pair=pair: attend(queries, *pair) for name, pair in stored.items()}, repeats=15)
for name, K in kinds.items():
    formula = S * kv_bytes_per_token(replace(LLAMA_3_8B, n_layers=1, n_kv_heads=K), kv_bits=32)
    print(f"{name}: {real_bytes[name] / 1e6:6.1f} MB in memory, by the formula {formula / 1e6:6.1f} MB; ", end="")
    print(f"{np.median(times[name]) * 1e3:6.2f} ms", end="")
    print("" if name == "MHA" else f"; MHA takes {ratio(times, 'MHA', name)} as long")
print(f"you said {my_gqa_factor} and {my_mqa_factor}")

# %%
fig, axes = figures.figure(6.4, 3.2, columns=2)
milliseconds = {name: 1e3 * float(np.median(of)) for name, of in times.items()}
for ax, heights, label in (
    (axes[0], {name: n / 1e6 for name, n in real_bytes.items()}, "cache of one layer, MB"),
    (axes[1], milliseconds, "attention of one token, ms"),
):
    bars = ax.bar(list(heights), list(heights.values()), color=(figures.BLUE, figures.ORANGE, figures.GREEN))
    ax.bar_label(bars, fmt="%.3g", fontsize=9)
    ax.set(ylabel=label)
figures.show(
    fig,
    "Two bar charts, MHA, GQA and MQA. Left, memory of one layer's cache: "
    f"{', '.join(f'{n / 1e6:.3g}' for n in real_bytes.values())} MB. Right, the time of one "
    f"token's attention over it: {', '.join(f'{ms:.2f}' for ms in milliseconds.values())} ms.",
)

# %% [markdown]
# The bytes fall exactly as the heads do, and the lines above say what the time does. Keys and values are read once each
# and little is computed with them: attention in a decode pass is memory-bound, so time follows bytes as far as they are
# what it waits for. Where the factor falls short of the bytes, other work remains, such as the softmax of 32 heads over
# 4,096 scores, which no sharing removes. Where it goes beyond, the smaller keys and values have found room in the
# processor's own fast memories.
#
# GQA has to be trained in, and quality pays a little for it. Ainslie 2023 report groups close to MHA in quality and
# close to MQA in speed; many open models have them.

# %% [markdown]
# ## What fits
#
# Weights and caches share one memory. Weights come once, caches once a sequence. What is kept free on purpose, for all
# the rest, is the **headroom**. From here on all is division.

# %%
from nanolm.budget import weight_bytes  # exercise: weight_bytes
# points: 1
# minutes: 2
# difficulty: 1
# tested: 8, 70 and 671 billion parameters at 16, 8 and 4 bits; 4.125 bits; a started byte.
# why: The weights are what the caches have to fit beside.
# hint: A started byte is a whole one. // Bits to bytes, rounded up with math.ceil.

# %%
from nanolm.budget import max_concurrent_requests  # exercise: max_concurrent_requests
# points: 2
# minutes: 5
# difficulty: 1
# tested: 59, 15 and 476 requests on 80 GB, with int8 134; memory kept free; weights that do not fit at all.
# why: It is the batch that a machine can carry, and the batch decides what a token costs (week 10).
# hint: There may be less than nothing left, and half a request is none. // What is left after the weights and the part
#   kept free, divided by one cache, rounded down, never below 0.

# %%
from nanolm.budget import max_context  # exercise: max_context
# points: 2
# minutes: 6
# difficulty: 2
# tested: Five settings on 80 GB, and 50 random ones: what comes back fits, and one token more does not.
# why: A limit on the length is a promise to all users at once.
# hint: The headroom is a fraction of the whole memory, not of what the weights leave. // Memory less headroom less
#   weights, over what all sequences together need for one token; rounded down, never below 0.

# %%
one_text = kv_cache_bytes(LLAMA_3_8B, 8192)
print(f"texts of 8,192 tokens on 80 GB: {max_concurrent_requests(80e9, weight_bytes(8e9), one_text)}")
print(
    f"16 texts on 80 GB, a tenth kept free: {max_context(80e9, weight_bytes(8e9), kv_bytes_per_token(LLAMA_3_8B), 16):,}",
    end="",
)
print(" tokens each")
for n in (1024, 8192, 131_072):
    gqa, mha = (kv_cache_bytes(replace(LLAMA_3_8B, n_kv_heads=K), n) / 1e9 for K in (8, 32))
    print(f"{n:7,} tokens: {gqa:6.3f} GB with 8 KV heads, {mha:6.3f} GB with 32; ", end="")
    print(f"a pass reads {(15 + gqa) / 15:.2f} times the weights alone")

# %%
contexts = [2**power for power in range(8, 18)]
fig, ax = figures.figure(height=3.9)
for (name, K), colour in zip(kinds.items(), figures.LINES, strict=False):
    of_kind = replace(LLAMA_3_8B, n_kv_heads=K)
    ax.loglog(contexts, [kv_cache_bytes(of_kind, n) / 1e9 for n in contexts], color=colour, label=f"{name}, K = {K}")
ax.axhline(weight_bytes(8e9) / 1e9, color=figures.GREY, linestyle="--")
ax.text(contexts[0], 18, "the weights, 16 GB", fontsize=9.5)
ax.set(xlabel="tokens in one text", ylabel="its cache, GB")
ax.set_xticks([256, 1024, 8192, 131_072], ["256", "1,024", "8,192", "131,072"])
ax.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
ax.minorticks_off()
ax.legend()
figures.show(
    fig,
    "Cache of one text against its length, both logarithmic: three parallel straight lines, MHA four times GQA, GQA eight "
    "times MQA. GQA crosses the dashed line of the weights, 16 GB, at 122,000 tokens; MHA at 30,500.",
)

# %% [markdown]
# The last column is time. A decode pass of this model loads about 15 GB of weights (the embedding is looked up, not
# read) and the cache of the text. At 131,072 tokens that is 15 + 17.18 GB, so the pass takes 2.15 times as long as
# early in the text. A long conversation slows down while it goes on.

# %% [markdown]
# ## The capacity calculator
#
# The same functions behind lists to choose from. First four questions; answer them on paper, with the formulas above.
# `LLAMA_3_8B` has 8.03·10⁹ parameters, `LLAMA_3_70B` 70.554·10⁹ and 327,680 bytes of cache a token; an H100 has 80 GB.
#
# 1. 8B, all in 16 bits, one H100, nothing kept free. How many texts of 8,192 tokens at a time?
# 2. The same with a cache in 8 bits. Exactly twice as many?
# 3. As 1, but with MHA: 32 key/value heads. Exactly a quarter?
# 4. 70B with weights in 4 bits, the cache in 16, a batch of 8, a tenth kept free. The longest context?

# %%
my_answers = [0, 0, 0, 0]  # change them

# %%
from nanolm.budget import LLAMA_3_70B, capacity

found = [
    capacity(LLAMA_3_8B, H100, 8192, headroom=0).max_batch_size,
    capacity(LLAMA_3_8B, H100, 8192, kv_bits=8, headroom=0).max_batch_size,
    capacity(LLAMA_3_8B, H100, 8192, attention="MHA", headroom=0).max_batch_size,
    capacity(LLAMA_3_70B, H100, 8192, batch_size=8, weight_bits=4, headroom=0.1).max_context_tokens,
]
for number, (guess, answer) in enumerate(zip(my_answers, found, strict=True), start=1):
    print(f"question {number}: you said {guess:,}, it is {answer:,}")

# %% [markdown]
# <details><summary>Why these</summary>Question 1: 80 − 16.06 GB leave room for 59.5 texts, so 59. Question 2: twice
# 59.5, so 119 and not 118. Question 3: a quarter of 59.5 is 14.9, so 14 and not 15, by rounding alone. (The projections
# to keys and values grow too, and the weights with them, to 17.67 GB; that makes it 14.5, and still 14.) Question 4:
# (72 − 35.28) GB / (8 · 327,680). Rounding and such second effects are what a calculator is for; the first digit you
# should know without one.</details>
#
# Now choose and find out:
#
# - The 8B at 1,024 tokens each: from 1 sequence to 64, how much longer does a token take, and how much more do all
#   users get?
# - *small MHA* has a seventh of the 8B's parameters and as many key/value heads as query heads. What does a token of it
#   cost in cache, beside one of the 8B? At 8,192 tokens each and 64 sequences, which of its two kinds of bytes is read
#   more?
# - Up to which context does a single text of the 8B with MHA fit on the H100? For 16 users with 32,768 tokens each and
#   MHA, which single change saves most: GQA, 8-bit weights or an 8-bit cache?
# - What does "limited by" say, and can you make it say "compute"?
#
# <details><summary>What you should find</summary>
#
# - From 4.52 to 7.04 ms, 1.56 times, and from 221 to 9,085 tokens/s, 41 times.
# - 131,072 bytes, the same: 16 layers of 16 heads are as many as 32 layers of 8. 64 caches of 1.07 GB are 68.7 GB
#   beside 2.35 GB of weights, so a token takes 21 ms, nearly all of it for caches. A small model is not a cheap one to
#   serve.
# - 65,536 in the list, 103,624 in the table, where a tenth is kept free. GQA saves 206 GB of cache, an 8-bit cache 137
#   GB, 8-bit weights 9 GB.
# - Short texts and a large batch: 128 tokens each and 512 sequences.
#
# The 4 bits of the list have a scale for each 128 weights, 4.125 bits in all, so question 4 comes out as 13,588 there.
#
# </details>

# %%
from course.lab.calculator import calculator

calculator()

# %% [markdown]
# The same without a notebook: `nanolm size --preset llama-3-8b --context 8192 --batch 16`, or with `--config` and any
# model's `config.json`.
#
# Practice is harder than division in three ways. Requests differ: take the 95th percentile of their lengths, not the
# mean, and leave 10 to 20 % of the memory free for intermediate results and gaps. They grow: what fits when they begin
# may not fit when they end, so the error comes in the busy hour, when several long ones meet. And whoever reserves the
# longest possible answer for each wastes most of it; week 6 hands out the cache in small pieces instead.

# %% [markdown]
# ## What else makes it smaller
#
# | lever | what is kept | what it costs |
# |---|---|---|
# | GQA, MQA | N/K times less | has to be trained in; MQA loses some quality |
# | latent attention ([week 9](../week09_smaller_cache/week09_smaller_cache.ipynb)) | one vector of 512 and one rotary key of 64 a layer, where GQA with K = 8 and H = 128 keeps 2,048 numbers: 3.6 times less | more arithmetic, more complicated code, trained in |
# | a window (week 9) | the last few thousand positions, whatever the length | nothing further back is seen directly |
# | local and global layers (week 9) | windows in most layers, everything in a few | long recall hangs on the few |
# | 8 bits, 4 bits ([week 5](../week05_quantization/week05_quantization.ipynb)) | 2 or 4 times less | rounding: small at 8 bits; at 4 it shows in long recall and exact copying |
# | moving it to the computer's memory ([week 7](../week07_prompt_caching/week07_prompt_caching.ipynb)) | nothing on the GPU while a conversation waits | it has to come back over a bus many times slower |
# | small pieces (week 6), a common beginning kept once (week 7) | no reserve, one copy of what is common | book-keeping |

# %% [markdown]
# ## The same with the library
#
# (The cell takes about 20 seconds, most of them to import.) In transformers the cache is an object as well: you pass it
# as `cache` (`past_key_values` in older versions), and each layer calls its `update`. A `DynamicCache` grows with every
# token. The shipped checkpoint is an ordinary Llama folder, so transformers opens it.

# %%
import importlib.util

if importlib.util.find_spec("transformers"):
    import transformers
    from nanolm.checkpoint import SHIPPED

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED / "target", dtype=torch.float32)
    their_cache = transformers.DynamicCache(config=theirs.config)
    opening = tokenizer.encode("HAMLET\nTo be, or not to be, ")
    text = list(opening)
    with torch.inference_mode():
        for step in range(32):
            new = text[-1:] if step else text
            logits = theirs(torch.tensor([new]), cache=their_cache, use_cache=True).logits
            text.append(int(logits[0, -1].argmax()))
    our_cache = KVCache(target.config, capacity=len(opening) + 32)
    ours, _ = write(target, opening, 32, our_cache)
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in their_cache.layers)
    print("transformers with a DynamicCache writes our text:", text[len(opening) :] == ours)
    print(f"{their_cache.get_seq_length()} positions in {held:,} bytes there, ", end="")
    print(f"{our_cache.length} positions in {our_cache.nbytes:,} bytes in your cache")
else:
    print("transformers is not installed here; with it, this cell compares its cache with ours")

# %% [markdown]
# There `update` also counts: each layer of a `DynamicCache` has a length of its own, and joins old and new with
# `torch.cat`. A `StaticCache` takes its memory once, as ours does.
#
# vLLM does the sizing when it starts (not run here):
#
# ```
# vllm serve MODEL --max-model-len 8192 --gpu-memory-utilization 0.9
# vllm serve MODEL --max-model-len 8192 --gpu-memory-utilization 0.9 --kv-cache-dtype fp8
# ```
#
# It loads the weights, gives what is left of the 90 % to the cache, and prints how many tokens that is and how many
# requests of `--max-model-len` tokens would fit at once. That is `max_concurrent_requests`, and the second command
# should about double it.
#
# ## The same on a real model
#
# SmolLM2 has 30 layers with 3 key/value heads of 64. How many bytes does a token of its cache take in 16 bits? And how
# much longer do 12 tokens after a prompt of 32 take without a cache? (About 30 seconds; one line where it is not
# installed.)

# %%
from course.lab.real_model import real_model
from nanolm.budget import ModelShape

real = real_model()
if real:
    smol, words = real
    of, question = smol.config, words.encode("The capital of France is Paris, and that of Italy is Rome. " * 5)[:32]
    sizes = (of.n_layers, of.d_model, of.n_heads, of.n_kv_heads, of.head_dim, of.d_ff, of.vocab_size)
    smol_shape = ModelShape("SmolLM2", *sizes)
    print(f"{kv_bytes_per_token(smol_shape):,} bytes a token in 16 bits; the 8B's cache takes ", end="")
    print(f"{kv_bytes_per_token(LLAMA_3_8B) / kv_bytes_per_token(smol_shape):.1f} times as many")
    writing = {"without a cache": [], "with a cache": []}
    for _ in tqdm(range(rounds_allowed(3)), desc="rounds", leave=False):
        plain, took = write(smol, question, 12)
        writing["without a cache"].append(sum(took))
        smol_cache = KVCache(of, capacity=64)
        with_cache, took = write(smol, question, 12, smol_cache)
        writing["with a cache"].append(sum(took))
    print(f"the same text: {plain == with_cache}; {smol_cache.nbytes:,} bytes in your cache, by the formula ", end="")
    print(f"{kv_cache_bytes(smol_shape, smol_cache.length, kv_bits=32):,}")
    fewer = positions_run(32, 12, cached=False) / positions_run(32, 12, cached=True)
    print(f"{fewer:.1f} times as many positions without a cache; writing ", end="")
    print(which_is_faster(writing, "with a cache", "without a cache"))

# %% [markdown]
# Where the time falls by less than the positions do, it is for the weights: every pass reads all of them, with a cache
# or without.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **Offset forgotten.** Each new token is rotated as position 0. `test_rope_offset_matches_slicing`,
#   `test_offset_is_the_number_of_tokens_cached`,
#   `test_forward_hands_the_cache_queries_and_keys_turned_by_their_positions`
# - **`is_causal=True` at T = 1.** The new token sees the first key only. For a chunk after a past the triangle is
#   misplaced. `test_attend_equals_torch_s_attention_over_the_past_and_the_new_positions`
# - **`length` advanced inside every layer.** Layer 1 writes one position too far.
#   `test_update_leaves_the_length_to_advance`, `test_attend_leaves_the_length_to_advance`,
#   `test_forward_leaves_advancing_the_cache_to_the_caller`
# - **The current token left out.** It cannot see itself. `test_update_returns_the_past_followed_by_the_new_positions`,
#   `test_attend_equals_torch_s_attention_over_the_past_and_the_new_positions`,
#   `test_forward_step_equals_the_last_row_of_a_full_pass`
# - **Every layer writing to the last layer's cache.** `[tensor] * L` does it, and `keys[-1]`.
#   `test_update_of_one_layer_leaves_the_others_alone`
# - **N in place of K.** The cache, or its estimate, is N/K times too large. `test_a_cache_holds_k_heads_a_layer_not_n`,
#   `test_kv_bytes_per_token_of_llama3_8b_are_128_kib`
# - **The factor 2 forgotten.** Keys *and* values. `test_kv_bytes_per_token_of_llama3_8b_are_128_kib`
# - **The batch forgotten.** `test_kv_cache_bytes_multiply_tokens_and_sequences`,
#   `test_max_context_on_80_gb_with_a_tenth_kept_free`
# - **Keys cached before their rotation.** Later passes cannot know where they stood.
#   `test_forward_hands_the_cache_queries_and_keys_turned_by_their_positions`
# - **The prefill not counted, or the last token run.** `test_stream_advances_the_cache_by_what_each_pass_read`,
#   `test_stream_runs_the_prompt_once_and_then_one_position_a_pass`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** The 8B model of this lesson, 16 GB of weights, on 80 GB with nothing kept free. How many texts of 1,024, of
# 8,192 and of 32,000 tokens fit?
#
# <details><summary>Answer</summary>64 GB are left. 1,024 tokens: 134,217,728 B, 64·10⁹/134,217,728 = 476.8, so 476.
# 8,192 tokens: 59.6, so 59. 32,000 tokens: 4.19 GB, 15.3, so 15. The batch is limited by the cache long before
# arithmetic is busy.
# </details>
#
# **2.** The same model, 16 texts of 8,192 tokens. How large are the caches with 32 key/value heads, and with one?
#
# <details><summary>Answer</summary>With 32 heads 524,288 B a token, four times as much: 68.72 GB. With one 16,384 B, an
# eighth: 2.15 GB.</details>
#
# **3.** 80 layers, 64 query heads, 8 key/value heads, H = 128, 70·10⁹ parameters. Bytes a token? For 32,768 tokens? For
# four of them? How many GPUs of 80 GB with the weights in 16 bits, and in 8?
#
# <details><summary>Answer</summary>2 · 80 · 8 · 128 · 2 B = 327,680 B, 320 KiB; the 64 query heads do not matter.
# 32,768 tokens: 10.74 GB. Four: 42.95 GB. Weights in 16 bits 140 GB, together 182.95 GB, 3 GPUs. In 8 bits 70 GB,
# together 112.95 GB, 2 GPUs. At 4 bits the weights alone would be 35 GB.</details>
#
# **4.** 80 GB, a tenth kept free. The longest context for a batch of 16 on the 8B (16 GB)? With a cache in 8 bits? For
# the 70B: a batch of 4 with weights in 16 bits; a batch of 8 with weights in 4 bits (35 GB); the latter with a cache in
# 8 bits?
#
# <details><summary>Answer</summary>72 GB to share. 8B: 56·10⁹/(16 · 131,072) = 26,702 tokens, with 8 bits 53,405. 70B:
# 140 GB do not fit, 0. At 4 bits 37·10⁹/(8 · 327,680) = 14,114, with a cache in 8 bits 28,228.</details>
#
# **5.** A pass of the 8B loads 15 GB of weights. How much longer does it take at 131,072 tokens than at the start? And
# with 32 key/value heads?
#
# <details><summary>Answer</summary>17.18 GB of cache: (15 + 17.18)/15 = 2.15 times. With 32 heads 68.72 GB: 5.6
# times.</details>
#
# **6.** Someone proposes to cache the queries too, "for symmetry". What would it save, and what would it cost in the
# 8B?
#
# <details><summary>Answer</summary>Nothing: no later pass uses an old query. It would cost 32 · 32 · 128 · 2 B =
# 262,144 B a token, twice what keys and values take together.</details>

# %% [markdown]
# ## Check yourself
#
# - Which vectors of a position are used again, by whom, and why do they never change?
# - Why does a cached decode still slow down as the text grows?
# - By what factor does GQA shrink the cache? Name three other things that shrink it.
# - Why would a bidirectional model (BERT, say) not allow a cache?
# - Why is the whole prompt one pass and not one pass a token?
# - You change one word in the middle of the prompt. Which part of the cache is still right?
#
# <details><summary>Short answers</summary> Key and value, by every later position of the same layer; they depend on
# what comes before only. · It reads the whole cache in each pass, besides the weights. · N/K. MLA, a window, fewer bits
# (or windows in most layers, or moving it away). · A new token would change the vectors of all earlier ones, and so
# their keys and values. · All its tokens are known, so the weights are read once for all of them. · Everything before
# that word. At and after it, every key and value depends on it (except in the first layer, where they depend on their
# own token alone).
# </details>

# %% [markdown]
# ## In an interview
#
# *"Our 8B service on one 80 GB GPU passed every test. In the first busy hour it ran out of memory. What happened, and
# what do you change?"*
#
# A structure for three minutes:
#
# 1. **What is in memory?** Weights 16 GB, fixed. Caches: 128 KiB a token, times tokens, times users. At 8,192 tokens
#    about 1 GB each, so about 59 of them. Tests had few users or short texts (40 seconds).
# 2. **Which of the two grew?** Look at the number of running requests and at their lengths, 95th percentile, not mean.
#    It happens when several long ones meet (30 seconds).
# 3. **Stop the bleeding:** admit only what fits, with 10 to 20 % kept free; queue the rest; limit the context. A limit
#    is `max_context` for the batch you want (30 seconds).
# 4. **Fit more:** an 8-bit cache doubles it; 8-bit weights free 8 GB, which is seven more texts; handing the cache out
#    in small pieces needs no room set aside for answers that never get long; a common system prompt is kept once (45
#    seconds).
# 5. **Check:** quality after each change, on long recall and exact copying; then the load test with real lengths (35
#    seconds).

# %% [markdown] written="the cache changes nothing" points=6 minutes=20 difficulty=3
# **Prove that a cache changes nothing.** A decoder has L layers; in each, position t attends to positions 0 … t, and
# everything else (norms, feed-forward, projections) works on one position at a time. (a) Show that keys and values of
# position t, in every layer, are the same whether or not tokens follow behind it. (b) Conclude that a decode pass with
# a correct cache gives the same logits as a full pass over the whole text. (c) Name one change to the architecture that
# would break (a), and say where the proof fails. (d) Why do measured logits differ by about 10⁻¹⁵ all the same?
#
# ### BEGIN SOLUTION
# **Model answer.** Let x(l, t) be the vector of position t that enters layer l.
#
# (a) Claim: for every layer l, x(l, t) depends on tokens 0 … t only. Induction over l. For l = 0 it is the embedding of
# token t (with its position), which depends on token t. Suppose it holds for l. Queries, keys and values of layer l are
# made of one position's vector each, so those of position s depend on tokens 0 … s. Attention at t combines the query
# of t with keys and values of s ≤ t; all of them depend on tokens 0 … t. What is added afterwards works on position t
# alone. So x(l + 1, t) depends on tokens 0 … t. Keys and values of layer l at t are functions of x(l, t) and of t.
# Tokens after t do not occur in them, so they are the same without them.
#
# (b) Again by induction over the layers: the pass over the new token t has x(0, t) right. If x(l, t) is right, then so
# are q, k and v of t in layer l; the keys and values of s < t lie in the cache and are, by (a), those of a full pass.
# The sum of the same weights and values is the same, so x(l + 1, t) is right. After the last layer the logits are
# equal. (The cached ones were right when written, by the same argument for the earlier passes, the first of which, the
# prefill, is a full pass.)
#
# (c) For example attention to later positions (bidirectional), where x(1, t) depends on later tokens and the induction
# fails at its first step; or a norm over all positions, or positions counted from the end of the text.
#
# (d) Floating-point addition is not associative: a product of one row and one of many rows add their terms in different
# orders. The proof is about real numbers.
#
# **Mark scheme (6).** (a) induction over layers stated, 1; the step uses s ≤ t and "one position at a time", 1;
# conclusion for k and v, 1. (b) the cached keys are those of the full pass, and why, 1. (c) a change that does break
# it, with the place, 1. (d) order of summation, 1. "They were computed before, so they are the same" without causality:
# at most 1 of the first 4.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# An engine's core: positions, cache, attention, prefill and decode, each compared with the slow way. And the arithmetic
# that decides what fits: bytes a token, requests, context. `course status` in a terminal says what is left.
#
# ## Sources
#
# - Vaswani et al. (2017), *Attention is all you need*, [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
# - Su et al. (2021), *RoFormer*, [arXiv:2104.09864](https://arxiv.org/abs/2104.09864), section 3.2: rotary positions.
# - Shazeer (2019), *Fast transformer decoding: one write-head is all you need*,
#   [arXiv:1911.02150](https://arxiv.org/abs/1911.02150): MQA, and why decoding is memory-bound.
# - Ainslie et al. (2023), *GQA*, [arXiv:2305.13245](https://arxiv.org/abs/2305.13245): groups, and how to train them
#   from an MHA checkpoint.
# - Pope et al. (2022), *Efficiently scaling transformer inference*,
#   [arXiv:2211.05102](https://arxiv.org/abs/2211.05102): the cost model of weights and caches.
# - Kwon et al. (2023), *Efficient memory management for large language model serving with PagedAttention*,
#   [arXiv:2309.06180](https://arxiv.org/abs/2309.06180): what setting memory aside wastes.
# - DeepSeek-AI (2024), *DeepSeek-V2*, [arXiv:2405.04434](https://arxiv.org/abs/2405.04434): latent attention.
