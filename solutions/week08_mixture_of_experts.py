# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 8 · Mixture of experts
#
# A model with 36 billion parameters, and a token multiplies 8 billion of them. It sounds like a discount, and for
# arithmetic it is one. Memory pays in full. And how many weights a step has to *read* depends on something that no
# dense model asks about: how many texts are in the batch.
#
# **After this week you can**
#
# - write the router and the layer behind it, so that each expert that is needed is read once and no other at all;
# - tell the kinds of router apart (softmax before or after the choice, sigmoid with a bias, shared experts), and say
#   which one a model has to be run with;
# - say of any mixture what it holds, what it multiplies, and what a step reads at a given batch, and predict the last
#   from one formula;
# - look into a trained router: who gets which tokens, how even the load is, and what a one-sided load does;
# - explain why a mixture needs a far larger batch than a dense model of the same arithmetic for the same cost a token;
# - compute what several GPUs send each other for a mixture, and how long they wait for the busiest one.
#
# **Time:** an hour and a quarter for the seven exercises, 35 minutes for the two written questions, an hour and a half
# of reading and measuring. **Needs:** what a decode step reads
# ([week 1](../week01_prefill_decode/week01_prefill_decode.ipynb)). No exercise of another week has to be solved.

# %% [markdown]
# ## How to work
#
# Cells marked *Exercise* hold a function or a method whose body is missing. Write it, run the cell, run the
# `check(...)` cell below it. A check runs the course's own tests on your answer alone: everything around it is the
# reference, so one mistake never hides another. Where a test failed, the call of your answer stands in `failing`, and
# `failing.again()` makes it once more. A lab cell that uses *your* functions says so at its top, with `needs` and the
# numbers of the exercises. What you have not written yet is taken from the reference, and the cell prints that it
# did. If you prefer an editor, the same functions wait in `exercises/`, with the same tests.
#
# Where a docstring says *Raises*, the message has to name the argument: `raise ValueError(f"k is {k}; …")`. These
# helpers come with the exercises and word it for you:
#
# | helper | what it refuses |
# |---|---|
# | `require_not_negative(name=value)` | a number below 0, infinite or NaN |
# | `require_count(least, name=value)` | what is no whole number, or below `least` |
# | `require_choice(n_experts, k)` | k outside 1 … E |
# | `checked_total(counts)` | counts of nothing; it returns their sum |
#
# Where you see a *Prediction*, write your answer down before you run the next cell.

# %%
# Set-up for the labs
import copy
import importlib.util
import json
from dataclasses import replace
from statistics import median
from unittest.mock import patch

import torch
import torch.nn.functional as F
from tqdm.auto import tqdm

from course.lab import figures
from course.lab.timing import take_turns
from course.lab.verdicts import against_prediction, ratio, which_is_faster
from nanolm import load
from nanolm.budget import DEEPSEEK_V3, effective_experts, gpus_needed, matmul_flops, weight_bytes
from nanolm.checkpoint import SHIPPED
from nanolm.model import NanoLM, moe, watch_routers
from nanolm.sampling import Rng, SamplingParams

# Two threads that wait for each other cost a small model more than they give it.
torch.set_num_threads(1)
model, tokenizer = load("mixture")
target, _ = load("target")
config = model.config
n_layers, n_experts, k = config.n_layers, config.n_experts, config.experts_per_token
first_layer = model.layers[0].feedforward
batches = [1, 2, 4, 8, 16, 32, 64]  # to measure at


def shown(token):
    """A token as text, with spaces and line ends to be seen."""
    return tokenizer.decode([token]).replace(" ", "·").replace("\n", "↵")


@torch.inference_mode()
def choices(texts):
    """The experts of each position of some texts (R, T), the strongest first: (L, R, T, k)."""
    with watch_routers(model) as stats:
        model(texts, last=1)
    return torch.stack([passes[0].unflatten(0, texts.shape) for passes in stats.choices])


print(f"the trained mixture: {n_layers} layers, each with {n_experts} experts, of which a token goes through {k}")

# %% [markdown]
# ## The idea in plain words
#
# A clinic has eight doctors and a receptionist. Nobody sees all eight. The receptionist looks at each patient for a
# second and sends them to two, and their advice is weighted by how sure the receptionist was. The clinic knows as much
# as eight doctors know, and a patient pays for two.
#
# It still needs eight consulting rooms. And how many of the eight can stay at home on a given day depends on how many
# patients come.
#
# In a model the doctors are **experts**: feed-forward blocks like the one a **dense** model has (one without experts),
# side by side in the same layer. The receptionist is the **router**, one small matrix that gives each expert a logit.
# Attention, norms and embedding are as always. Below, the first layer of a small trained mixture reads two texts. Each
# column is a token, and two experts light up in it.

# %%
fig, axes = figures.figure(6.4, 3.2, columns=2, sharey=True)
favourite = {}
for ax, text in zip(axes, ("ROMEO\nSoft, what light", "12 + 31: 2 + 1 = 3"), strict=True):
    tokens = tokenizer.encode(text)
    chosen = choices(torch.tensor([tokens]))[0, 0]  # (T, k)
    grid = torch.zeros(n_experts, len(tokens))
    for rank, shade in ((1, 0.4), (0, 1.0)):  # the second choice light, the first dark
        grid[chosen[:, rank], torch.arange(len(tokens))] = shade
    ax.pcolormesh(grid, cmap="Blues", vmin=0, vmax=1.15, edgecolor=figures.GREY, linewidth=0.3)
    ax.set_xticks([i + 0.5 for i in range(len(tokens))], [shown(t) for t in tokens], rotation=90, family="monospace")
    ax.set_yticks([i + 0.5 for i in range(n_experts)], range(n_experts))
    ax.grid(False)
    favourite |= {shown(token): expert for token, expert in zip(tokens, chosen[:, 0].tolist(), strict=True)}
axes[0].set(ylabel="expert", title="a line of a play")
axes[1].set(title="a worked sum")
figures.show(
    fig,
    "Two grids, tokens from left to right, eight experts from bottom to top, for the first layer. In each column one "
    "cell is dark, the expert with the larger share, and one is light. Dark in the sum: "
    + ", ".join(f"{token} expert {favourite[token]}" for token in ("·", "·+", "·=", "1", "3") if token in favourite)
    + ".",
)

# %% [markdown]
# In the sum look along the spaces, then the digits, then the signs. Nobody told the experts what to become; a router
# and its experts learned it together. We come back to that with numbers.
#
# ### The legend
#
# | letter | meaning | in code |
# |---|---|---|
# | E, k | experts in a layer, experts per token | `n_experts`, `k`, `experts_per_token` |
# | B, T | texts in the batch, positions of each in this pass (T = 1 in decode) | |
# | P | positions of the pass in all, B · T: an expert does not care whose they are | `n_positions` |
# | D, F | model width, width of one expert | `d_model`, `d_ff` |
# | z | the router's logits of a position, E of them | `logits` |
# | g | the shares of the chosen: k numbers that add up to 1 | `shares` |
# | c | chance that a position chooses a given expert; their sum is k | `chances` |
# | b | a bias on a logit's sigmoid, for choosing only | `bias` |
#
# **Active parameters** are those that one token is multiplied with; **total parameters** are all. GB is 10⁹ bytes.

# %% [markdown]
# ### Prediction 1
#
# Sixteen texts are in the batch. In a decode step each has one token, and each token goes through 2 of a layer's 8
# experts. How many of the 8 does the step have to read from memory, on average?

# %%
my_experts_read = 4.0  # change it

# %% [markdown]
# ## By hand
#
# **One token.** Four experts, k = 2, and the router says 2, 1.5, 0, −1. Experts 0 and 1 are chosen. Their shares are
# the softmax of *their two* logits:
#
# | | expert 0 | expert 1 | sum |
# |---|---:|---:|---:|
# | $e^z$ | 7.389 | 4.482 | 11.871 |
# | share | **0.62** | **0.38** | 1 |
#
# If expert 0 answers (1, 0) and expert 1 answers (0, 2), the layer gives 0.62 · (1, 0) + 0.38 · (0, 2) = (0.62, 0.76).
#
# And if the softmax is taken over all four logits, before the choice? The sum is 13.239, the two get 0.558 and 0.339,
# together 0.897. Divide the two by 0.897 and they are 0.62 and 0.38 again: choosing, then softmax, is the same as
# softmax, then choosing and *renormalising*. Both kinds of model exist:
#
# | trained with shares that | who | `norm_topk_prob` in config.json |
# |---|---|---|
# | add up to 1 | Mixtral, Qwen3's mixtures, the mixture shipped here | true, or no such switch |
# | are what the softmax over all gave them | OLMoE, Qwen1.5-MoE, Switch | false, or no such switch |
#
# (Switch chooses one expert. Renormalised its share would be 1 whatever the router says, and the router would get no
# gradient.) Neither is a mistake. The mistake is to run a model in the other way than it was trained: here a tenth of
# the layer's output would be missing, more or less of it at each token, and nothing crashes.
#
# **Several tokens.** Four positions, three experts, k = 2. Position by position it would take eight runs of an expert,
# and eight times an expert's weights would be read. So turn the list round: who has chosen expert 0?
#
# | position | 0 | 0 | 1 | 1 | 2 | 2 | 3 | 3 |
# |---|---|---|---|---|---|---|---|---|
# | **choice** number | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
# | expert | 2 | 0 | 1 | 2 | 2 | 0 | 0 | 1 |
#
# Sorted by expert, the choices are in the order **1, 5, 6 | 2, 7 | 0, 3, 4**, and choice number i belongs to position
# ⌊i/2⌋. So expert 0 gets positions 0, 2, 3 in one run, expert 1 gets 1, 3, expert 2 gets 0, 1, 2. Three runs, each
# expert read once. The eight outputs then have to go back to where they came from: the output that lies first belongs
# to choice 1, the next to choice 5.
#
# Try it yourself: which place in the sorted list does choice 0 have, and choice 7?
#
# <details><summary>Answer</summary>Choice 0 lies at place 5, choice 7 at place 4 (counted from 0). All eight in turn:
# 5, 0, 3, 6, 7, 1, 2, 4. That list is the <em>inverse</em> of the order above. One call gives it: the places that would
# sort the order.</details>

# %% [markdown]
# ## The equations
#
# $$
# g = \text{softmax}\big(z_{e_1}, \dots, z_{e_k}\big) \qquad e_1, \dots, e_k: \text{ the } k \text{ largest logits of } z = W_r x
# $$
#
# $$
# y = \sum_{j=1}^{k} g_j \cdot \text{expert}_{e_j}(x)
# $$
#
# Here x is the position's vector, D numbers; $W_r$ is the router's matrix, E × D; and y is what the layer gives for it.
#
# This is the form of Mixtral, which the exercises ask for. It lives in
# [`nanolm/model/moe.py`](../../nanolm/model/moe.py), and its arithmetic in
# [`nanolm/budget/experts.py`](../../nanolm/budget/experts.py). First the router's decision.

# %%
from nanolm.model import route  # exercise: route
# points: 4
# minutes: 10
# difficulty: 1
# tested: The shares on the worked example, the order of the chosen, ties, any leading shape, k = E, 60 random batches
#   against a plain sort, and refusal of an impossible k and of logits that are NaN or infinite.
# why: It is the one decision a mixture makes, and shares of another kind than in training leave a model that runs and
#   is quietly worse.
# hint: Which tensor goes into the softmax decides whether the shares add up to 1; and `topk` promises no order of equal
#   logits. // A stable sort from the largest down gives logits and ids at once. Cut first, then softmax.

# %% [markdown]
# ### Run in the other way
#
# The shipped mixture was trained with shares that add up to 1. What would its two chosen experts get together without
# renormalising, and what does that do to the text? No exercise is needed for this cell. It reads held-out problems.

# %%
documents = json.loads((SHIPPED / "problem_documents.json").read_text(encoding="utf-8"))
some = torch.tensor([tokens[:97] for tokens in map(tokenizer.encode, documents) if len(tokens) >= 97][:32])
totals = []


def not_renormalised(logits, k):
    """Softmax over all experts, then the k largest as they are: as OLMoE, Qwen1.5-MoE and Switch are trained."""
    shares, experts = logits.softmax(dim=-1).topk(k)
    totals.append(shares.sum(-1))
    return experts, shares


@torch.inference_mode()
def bits_per_token(texts):
    """Bits that the mixture needs for a token of these texts, each text's mean."""
    logits = model(texts[:, :-1])
    nats = F.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten(), reduction="none")
    return nats.view(len(texts), -1).mean(1) / 0.6931


as_trained = bits_per_token(some)
with patch.object(moe, "route", not_renormalised):
    other_way = bits_per_token(some)
for layer, total in enumerate(totals):
    print(f"layer {layer}: the two together get {total.mean():.2f} on average, {total.min():.2f} to {total.max():.2f}")
print(f"bits a token: {as_trained.mean():.3f} as trained, {other_way.mean():.3f} without renormalising;", end=" ")
print(f"worse in {(other_way > as_trained).sum()} of {len(some)} texts")

# %% [markdown]
# A constant factor could be made up for by the next matrix. This one differs from token to token: where the router is
# unsure, the layer whispers. A model that was *trained* so has learned to live with it, and would be as wrong with
# renormalised shares.

# %% [markdown]
# ## The layer
#
# Now the eight runs that become three. `mix_experts` gets the rows of a pass, what the router chose for each, and a
# function `run(expert, rows)` that applies one expert to some rows. No Python loop over tokens: with a thousand
# positions in a prefill that would be two thousand little products instead of eight large ones.

# %%
from nanolm.model import mix_experts  # exercise: mix_experts
# points: 6
# minutes: 25
# difficulty: 3
# tested: Equality with a loop over positions and choices in many shapes, one position included; each chosen expert runs
#   once, with the rows that chose it, and no other runs; as many operations of torch at 300 positions as at 6; expert
#   ids arrive as plain numbers.
# why: An expert that runs once for all of its tokens is read once. This function is the difference between a mixture
#   that is cheap and one that is not.
# hint: The outputs come in the order of the experts, and shares belong to choices: which index brings them back, the
#   order, or its argsort? And `run` wants a plain number, not a tensor. // As in the table: flatten the choices,
#   `argsort` them (stable), and divide by k for the rows. `unique(return_counts=True)` says which experts are there and
#   how many choices each has; `split` cuts the sorted rows. After the runs, `cat`, bring every output back to its
#   choice, `unflatten` to (P, k, D), and only then weigh and sum.

# %% [markdown]
# How much does it save? Here the trained layer's experts run over 64 positions, once grouped by your function and once
# position by position.

# %%
rows = torch.randn(64, config.d_model, generator=torch.Generator().manual_seed(0))
run = first_layer.run_expert
with torch.inference_mode():
    chosen, shares = moe.route(first_layer.router(rows), k)


@torch.inference_mode()
def one_by_one():
    done = [mix_experts(rows[i : i + 1], chosen[i : i + 1], shares[i : i + 1], run) for i in range(64)]
    return torch.cat(done)


@torch.inference_mode()
def grouped():
    return mix_experts(rows, chosen, shares, run)


calls = {"position by position": one_by_one, "grouped by expert": grouped}
grouping = take_turns({name: lambda call=call: [call() for _ in range(20)] for name, call in calls.items()}, 5)
for (name, times), runs in zip(grouping.items(), (chosen.numel(), len(chosen.unique())), strict=True):
    print(f"{name}: {median(times) / 20 * 1e3:.2f} ms, {runs} runs of an expert")
print(which_is_faster(grouping, "grouped by expert", "position by position"))
print(f"largest difference: {(one_by_one() - grouped()).abs().max():.1e}")

# %% [markdown]
# (Times here are medians of several rounds in which the candidates take turns. A comparison prints its spread over the
# rounds.)
#
# Now put the two together. Of the class below, `forward` is missing. `self.router` is a linear layer that gives E
# logits. `run_expert` is one expert: a feed-forward block like any other, whose weights are looked at in a stack of E.

# %%
from nanolm.model import MoE  # exercise: forward
# points: 3
# minutes: 10
# difficulty: 2
# tested: Equality with a loop in float64 for one and several texts, prefill and decode, k from 1 to E; one expert alone
#   is a feed-forward block; each expert runs once for all texts; experts that nobody chose are not touched (their
#   weights are NaN in that test).
# why: This is the whole layer, and it goes where a dense model's feed-forward block stood. Nothing else in the model
#   changes.
# hint: Experts do not care whose text a position is from, but the result has to have the shape of x. // Three lines.
#   Make rows of x; ask the router and `route`; hand over to `mix_experts` and give the result the shape of x.

# %% [markdown]
# Does it compute what the trained model computes? Give your layer the trained weights.

# %%
mine = MoE(config).requires_grad_(False)
mine.load_state_dict(first_layer.state_dict())
x = torch.randn(2, 7, config.d_model, generator=torch.Generator().manual_seed(1))
with torch.inference_mode():
    print(f"largest difference from the shipped model's first layer: {(mine(x) - first_layer(x)).abs().max():.1e}")

# %% [markdown]
# ## What memory must hold
#
# Which experts a token will want is known when the router has spoken, in each layer anew, and by then it is too late to
# fetch them from somewhere slow. So all of them wait in memory. Say a model has 4 billion parameters that every token
# goes through, and 16 experts of 2 billion (all layers together), k = 2:
#
# | | | parameters | |
# |---|---|---:|---|
# | total | 4 + 16 · 2 | **36 billion** | **72 GB** at 2 bytes |
# | active | 4 + 2 · 2 | **8 billion** | 2 · 8·10⁹ = **1.6·10¹⁰** operations a token |
#
# Sizing it with the active parameters, 16 GB, is the classic mistake: it fits the arithmetic and not the memory.

# %%
from nanolm.budget import parameter_counts  # exercise: parameter_counts
# points: 2
# minutes: 5
# difficulty: 1
# tested: The worked example, k = E, an expert without parameters, exactness for whole numbers, and refusals.
# why: Two numbers describe a mixture, and an offer usually prints the one that flatters it.
# hint: Memory is bought for all experts, arithmetic is done with k of them. // Both sums begin with what every token
#   goes through.

# %%
blocks = [layer.feedforward for layer in model.layers]
all_experts = sum(block.gate_up.weight.numel() + block.down.weight.numel() for block in blocks)
shared = sum(weight.numel() for weight in model.parameters()) - all_experts
table = {
    "the 36-billion example": (4e9, 2e9, 16, 2),
    "Mixtral 8x7B": (1.6e9, 5.64e9, 8, 2),
    "the mixture shipped here": (shared, all_experts / n_experts, n_experts, k),
}
for name, sizes in table.items():
    counts = parameter_counts(*sizes)
    total, active = counts.total / 1e9, counts.active / 1e9
    print(f"{name:25} {total:8.4f} billion, {active:7.4f} active, factor {total / active:.1f}")
print("\na released model with 671 billion parameters, 37 of them active (the preset has", end=" ")
print(f"{DEEPSEEK_V3.n_params / 1e9:.0f} and {DEEPSEEK_V3.n_multiplied_params / 1e9:.0f}):")
print(f"{matmul_flops(37e9, 1):.1e} operations a token; at 1 byte {weight_bytes(671e9, 8) / 1e9:.0f} GB,", end=" ")
print(f"so {gpus_needed(671e9, 80e9)} GPUs of 80 GB before the first token is cached")

# %% [markdown]
# That model (DeepSeek-V3) has 256 experts in a layer and chooses 8, and beside them one **shared expert** that every
# token goes through. What all tokens need is then learned once and not in every expert. With shares for the chosen
# only,
#
# $$
# y = \text{shared}(x) + \sum_{j=1}^{k} g_j \cdot \text{expert}_{e_j}(x)
# $$
#
# For counting it belongs to what every token goes through. An expert there has three matrices of 7,168 × 2,048, 3 ·
# 7,168 · 2,048 = 44.0 million parameters, and 58 layers have experts. All of them: 58 · (256 + 1) · 44.0 million = 656
# billion of the 671. At work for a token: 58 · (8 + 1) · 44.0 million = 23.0 billion of the 37.
#
# A mixture of 117 billion parameters at 4.25 bits, on the other hand, is 62.2 GB and fits one GPU of 80 GB:
# quantization ([week 5](../week05_quantization/week05_quantization.ipynb)) cuts just what a mixture has too much of.

# %% [markdown]
# ## What a step reads
#
# A pass reads an expert if at least one of its P positions wants it. Take a balanced router: each position chooses k
# different experts, all choices equally likely, each position on its own. One position passes a given expert by with
# probability 1 − k/E. All P pass it by with $(1 - k/E)^P$. There are E experts, so on average
#
# $$
# \text{unused} = E \left(1 - \frac{k}{E}\right)^{P}
# $$
#
# For E = 256, k = 8:
#
# | positions in the pass | unused | read | positions for each expert, on average |
# |---:|---:|---:|---:|
# | 1 | 248 | 8 | 0.03 |
# | 16 | 154 | 102 | 0.5 |
# | 64 | 33.6 | 222.4 | 2 |
# | 256 | 0.08 | 255.9 | 8 |
#
# Look at the last row. 256 positions together read practically everything, and each expert's weights are used for 8
# positions on average. A dense model would have used its weights for 256.

# %%
from nanolm.budget import expected_unused_experts  # exercise: expected_unused_experts
# points: 3
# minutes: 8
# difficulty: 2
# tested: The table above, small cases against an enumeration of all choices, no positions, k = E, and refusals.
# why: It tells what a step reads, and so what a token costs, before you rent the machine.
# hint: A position's k experts are *different*: drawing k times with repetition, (1 − 1/E) to the power of k · P, is a
#   little off. // A position misses a given expert with 1 − k/E, all P with that to the power of P, and there are E
#   experts. `math.pow` and `**` both do.

# %%
for n_positions in (1, 16, 64, 256):
    unused = expected_unused_experts(n_positions, 256, 8)
    print(f"256 experts, 8 chosen, {n_positions:3} positions: {unused:7.2f} unused")
for n_positions in (1, 2, 4, 8, 16):
    unused = expected_unused_experts(n_positions, 8, 2)
    print(f"  8 experts, 2 chosen, {n_positions:3} positions: {8 - unused:7.2f} read")
print(f"your guess for the last line was {my_experts_read}")

# %% [markdown]
# ## The trained router at work
#
# The formula assumed a balanced router and independent positions. What do real ones do? Let the model read 64 texts of
# 128 tokens: 32 that it writes itself, in the style of the plays, and 32 of worked problems. It takes about five
# seconds.

# %%
speakers = ["ROMEO", "HAMLET", "First Witch", "KING HENRY V", "JULIET", "BRUTUS", "FALSTAFF", "Messenger"]
starts = [tokenizer.encode(f"{speaker}\n") for speaker in speakers for _ in range(4)]
written = model.generate(starts, 128, SamplingParams(1.0, end_tokens=()), Rng(0))
plays = [(start + text)[:128] for start, text in zip(starts, written, strict=True)]
documents = json.loads((SHIPPED / "problem_documents.json").read_text(encoding="utf-8"))
problems = [tokens[:128] for tokens in map(tokenizer.encode, documents) if len(tokens) >= 128][:32]
texts = torch.tensor(plays + problems)
routed = choices(texts)  # (L, 64, 128, k)
is_play = torch.arange(len(texts)) < len(plays)
print(f"{texts.numel():,} tokens, {routed.numel():,} choices. One of the texts it wrote:\n")
print(tokenizer.decode(plays[0]))

# %% [markdown]
# ### Prediction 2
#
# "Experts" sounds like subjects. Before you look: will there be an expert for plays and one for sums? One for digits,
# for punctuation, for line ends? Will the first layer or the last be easier to explain? Write a sentence.

# %%
my_sentence = ""


# %%
def load_of(routed):
    """How often each layer's experts are chosen, (L, E)."""
    return torch.stack([layer.flatten().bincount(minlength=n_experts) for layer in routed])


loads = {"plays": load_of(routed[:, is_play]), "problems": load_of(routed[:, ~is_play]), "both": load_of(routed)}
percents = {name: 100 * counts / counts.sum(1, keepdim=True) for name, counts in loads.items()}
fig, axes = figures.figure(6.4, 3.6, columns=2, sharey=True)
for ax, name in zip(axes, ("plays", "problems"), strict=True):
    shading = ax.pcolormesh(percents[name], cmap="Blues", vmin=0, vmax=30, edgecolor="white")
    for i, row in enumerate(percents[name].tolist()):
        for e, share in enumerate(row):
            ink = "white" if share > 18 else "black"
            ax.text(e + 0.5, i + 0.5, f"{share:.0f}", ha="center", va="center", fontsize=9, color=ink)
    ax.set_xticks([e + 0.5 for e in range(n_experts)], range(n_experts))
    ax.set_yticks([i + 0.5 for i in range(n_layers)], range(n_layers))
    ax.set(xlabel="expert", title=name, ylim=(n_layers, 0))
    ax.grid(False)
axes[0].set_ylabel("layer")
fig.colorbar(shading, ax=axes, label="per cent of the choices")
figures.show(
    fig,
    "Two heat maps, layers from top to bottom and experts from left to right: the share of a layer's choices that each "
    f"expert gets. Balanced is {100 / n_experts} per cent. The shares run "
    + ", ".join(f"in {name} from {shares.min():.0f} to {shares.max():.0f}" for name, shares in percents.items())
    + ".",
)

# %% [markdown]
# Training saw to an even load (we come to how), but only *over the texts of the training*: roughly four fifths of those
# tokens were plays, one fifth problems. So plays alone should come out more even than problems alone. Serve nothing but
# problems, and the load is another.
#
# How uneven is uneven? A plain measure is the busiest expert's count over the mean. If every expert sits on a device of
# its own, all devices wait for the busiest, and the layer takes that many times as long as it would with an even load.

# %%
from nanolm.budget import load_imbalance  # exercise: load_imbalance
# points: 2
# minutes: 5
# difficulty: 1
# tested: Balanced, uneven and collapsed loads, experts that are never chosen, 60 random loads in other orders and
#   lengths, and refusal of counts of nothing.
# why: It is the factor by which a layer spread over devices is slower than it could be.
# hint: The mean is over all E experts, also over those that did nothing. // Largest · E / total needs no mean at all.

# %%
print("The busiest expert's load, in even shares; in brackets how many evenly busy experts would be as diverse.\n")
print("layer " + "".join(f"{name:>16}" for name in loads))
for i in range(n_layers):
    measures = [(load_imbalance(c[i].tolist()), effective_experts(c[i].tolist())) for c in loads.values()]
    print(f"{i:5} " + "".join(f"{worst:9.2f} ({even:4.2f})" for worst, even in measures))
worst = {name: [load_imbalance(row) for row in counts.tolist()] for name, counts in loads.items()}
more = sum(a > b for a, b in zip(worst["problems"], worst["plays"], strict=True))
print(f"\nproblems alone are the more uneven in {more} of {n_layers} layers:", end=" ")
print("; ".join(f"{name} {min(v):.2f} to {max(v):.2f}" for name, v in worst.items()))

# %% [markdown]
# (The number in brackets is e to the power of the entropy of the shares, −Σ s · ln s: 8 for an even load, 1 if one
# expert does everything.) On the mix of the training, four fifths plays, the busiest expert has 1.05 to 1.38 times its
# even share (the [model card](../../nanolm/shipped/README.md)). Compare the last line: a router is balanced for one
# kind of traffic. Ask which.
#
# ### Who gets which token?
#
# Sort the tokens into kinds, and ask for each kind and each expert: what part of these tokens goes through it? An
# expert that did not care would get k/E = 25 % of every kind.

# %%
KINDS = ("digit", "space", "punctuation", "line end", "CAPITALS", "starts a line", "starts a word", "inside a word")


def kind_of(token, before):
    """The kind of a token, by what it spells and whether it comes behind the end of a line."""
    text = tokenizer.decode([token])
    letters = text.strip()
    if "\n" in text:
        return "line end"
    if not letters:
        return "space"
    if letters.isdigit():
        return "digit"
    if not any(c.isalpha() for c in letters):
        return "punctuation"
    if len(letters) > 1 and letters.isupper():
        return "CAPITALS"
    if "\n" in tokenizer.decode([before]):
        return "starts a line"
    return "starts a word" if text.startswith(" ") else "inside a word"


flat = routed.flatten(1, 2)  # (L, tokens, k)
line_end = tokenizer.encode("\n")[-1]  # stands in front of a text's first token
kinds = [kind_of(*pair) for text in texts.tolist() for pair in zip(text, [line_end, *text], strict=False)]
members = torch.stack([torch.tensor([kind == one for kind in kinds]) for one in KINDS])  # (kinds, tokens)
goes_through = torch.stack([(flat == e).any(-1) for e in range(n_experts)], dim=-1).double()  # (L, tokens, E)
by_kind = torch.stack([goes_through[:, mine].mean(1) for mine in members], dim=1)  # (L, kinds, E)

print("The favourite expert of each kind, layer by layer, and how much of the kind it gets:")
most, expert = by_kind.max(dim=-1)  # (L, kinds)
for i, kind in enumerate(KINDS):
    pairs = zip(expert[:, i].tolist(), most[:, i].tolist(), strict=True)
    print(f"{kind:16}" + "".join(f"{e:4} ({share:4.0%})" for e, share in pairs))
print("\nfrom the layer where the favourite gets least to that where it gets most:")
for i, kind in enumerate(KINDS):
    spellings = len(texts.flatten()[members[i]].unique())
    print(f"{kind:16} {most[:, i].min():.0%} to {most[:, i].max():.0%}, {spellings} different tokens of this kind")

# %%
fig, axes = figures.figure(6.4, 3.6, columns=2, sharey=True)
for ax, i in zip(axes, (0, n_layers - 1), strict=True):
    shading = ax.pcolormesh(100 * by_kind[i], cmap="Blues", vmin=0, vmax=100, edgecolor="white")
    ax.set_xticks([e + 0.5 for e in range(n_experts)], range(n_experts))
    ax.set(xlabel="expert", title=f"layer {i}", ylim=(len(KINDS), 0))
    ax.grid(False)
axes[0].set_yticks([i + 0.5 for i in range(len(KINDS))], KINDS)
fig.colorbar(shading, ax=axes, label="per cent of the kind")
figures.show(
    fig,
    "Two heat maps, for the first and the last layer: eight kinds of token from top to bottom, eight experts from left "
    "to right, dark where most tokens of the kind go through the expert. The darkest cell of each kind, in layer 0: "
    + ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, most[0].tolist(), strict=True))
    + "; in the last: "
    + ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, most[-1].tolist(), strict=True))
    + ".",
)

# %% [markdown]
# Compare with 25 %, and with how many different tokens a kind has. A kind with few members can have one favourite;
# words, which are many, have to be shared out. (From layer to layer the numbers mean nothing: expert 3 of one layer and
# expert 3 of the next are different blocks.)
#
# So are these experts for *spelling*, rather than for subjects? Careful: digits occur almost only in problems, and
# CAPITALS only in plays. And words that start a line differ from others by their place, but by their spelling too: no
# space in front, and a capital. What counts, the token or what stands around it? Two measurements tell the two apart.
# First, guess each token's first expert from the token alone: always the one that this token goes to most often. The
# counts are made on one half of the texts and the guesses are scored on the other half; a token that the first half
# lacks gets the busiest expert. (Scored on the texts that were counted, the guess would look better than it is.)

# %%
counted = torch.arange(len(texts)) % 2 == 0  # every other text to count on, plays and problems alike
to_count, to_guess = (texts[mask].flatten() for mask in (counted, ~counted))
known, chance, too_good = [], [], []
for i in range(n_layers):
    first, answer = (routed[i, mask, :, 0].flatten() for mask in (counted, ~counted))
    seen = torch.zeros(config.vocab_size, n_experts).index_put_(
        (to_count, first), torch.ones(len(first)), accumulate=True
    )
    busiest = seen.sum(dim=0).argmax()
    best = torch.where(seen.sum(1) > 0, seen.argmax(1), busiest)
    known.append((best[to_guess] == answer).double().mean().item())
    chance.append((answer == busiest).double().mean().item())
    too_good.append((best[to_count] == first).double().mean().item())
print("layer, guessed right: from the token, without it (always the busiest); on the texts that were counted")
for i in range(n_layers):
    print(f"{i:5}  {known[i]:.0%}, {chance[i]:.0%}; {too_good[i]:.0%}")
print(f"behind layer 0, from the token: {min(known[1:]):.0%} to {max(known[1:]):.0%}")

# %%
fig, ax = figures.figure(height=3.2)
ax.plot(range(n_layers), known, "o-", color=figures.BLUE, label="guessed from the token")
ax.plot(range(n_layers), chance, "o--", color=figures.GREY, label="guessed without it: always the busiest")
ax.set(xlabel="layer", ylabel="share guessed right", ylim=(0, 1.25), yticks=(0, 0.25, 0.5, 0.75, 1))
ax.legend(loc="upper right", fontsize=9)
figures.show(
    fig,
    "Share of tokens of other texts whose first expert is guessed right from the token alone, layer by layer: "
    + ", ".join(f"{share:.0%}" for share in known)
    + "; by guessing the busiest expert: "
    + ", ".join(f"{share:.0%}" for share in chance)
    + ".",
)

# %% [markdown]
# In the first layer attention has run once, and the stream is mostly the embedding. Deeper down more of what stands
# around the token is in it. So expect the first number to be the largest. Now the second measurement: the same token in
# plays and in problems.


# %%
def favourites(token, mine):
    """For each layer the first expert that this token goes to most often in some of the texts, and how often."""
    first = routed[:, mine][:, texts[mine] == token][..., 0]  # (L, places)
    return [(layer.mode().values.item(), (layer == layer.mode().values).double().mean().item()) for layer in first]


print("the favourite first expert in each layer, and how many of these tokens have it")
for spelled in (",", ":", "\n", " the"):
    token = tokenizer.encode(spelled)[-1]
    for name, mine in (("plays", is_play), ("problems", ~is_play)):
        print(f"{shown(token):4} in {name:8}" + "".join(f"{e:4} ({s:4.0%})" for e, s in favourites(token, mine)))
in_both = [t for t in range(config.vocab_size) if all((texts[mine] == t).sum() >= 20 for mine in (is_play, ~is_play))]
same = torch.tensor(
    [[a[0] == b[0] for a, b in zip(favourites(t, is_play), favourites(t, ~is_play), strict=True)] for t in in_both]
)
print(f"\nof {len(in_both)} tokens that stand at least 20 times in either, so many have the same favourite in both:")
print(", ".join(f"layer {i}: {n}" for i, n in enumerate(same.sum(0).tolist())))

# %% [markdown]
# Where the counts of the last line are high the router goes by the token; where they fall, a comma in a problem and a
# comma in a play are handed to different experts. A model can have both: experts for spelling at the bottom, and
# further up experts for spelling *in a kind of text*. Is that what your line says?
#
# It had an easy time: two kinds of text that have little in common, and no others. Mixtral's authors looked for
# subjects in a model ten thousand times as large, with far more kinds of text. They found hardly any, only mathematics
# a little apart; what they found was spelling (Jiang 2024, section 5). Compare with your sentence.

# %% [markdown]
# ## Experts read: expected and measured
#
# Real loads are not quite even, so put the real chances in. If a position chooses expert e with chance $c_e$ (the
# chances add up to k), then
#
# $$
# \text{unused} = \sum_{e=1}^{E} (1 - c_e)^{P}
# $$

# %%
from nanolm.budget import expected_unused_given  # exercise: expected_unused_given
# points: 2
# minutes: 8
# difficulty: 2
# tested: Worked cases, an expert always and one never chosen, no positions, 60 random sets of chances against the even
#   one, and refusal of what is no chance.
# why: It separates the two reasons why fewer experts are read than the formula says: an uneven load, and positions that
#   are alike.
# hint: A position that takes one expert is less likely to take another, and yet nothing has to be corrected for that.
#   // Each expert is left alone with a probability of its own; expectations add up, whether or not experts depend on
#   each other.

# %%
shuffled = routed[:, torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))]  # plays and problems mixed


def distinct(groups):
    """Mean number of different experts in groups of choices, (…, choices)."""
    return torch.zeros(*groups.shape[:-1], n_experts).scatter_(-1, groups, 1.0).sum(-1).mean().item()


chances = [(k * c / c.sum()).clamp(max=1).tolist() for c in load_of(routed)]
read = {"balanced, independent": [n_experts - expected_unused_experts(B, n_experts, k) for B in batches]}
read["with the real shares"] = [
    n_experts - sum(expected_unused_given(layer, B) for layer in chances) / n_layers for B in batches
]
read["measured, B texts"] = [distinct(shuffled.unfold(1, B, B).transpose(-1, -2).flatten(-2)) for B in batches]
read["measured, neighbours"] = [distinct(routed.unfold(2, B, B).transpose(-1, -2).flatten(-2)) for B in batches]
print("experts read in a layer: " + "; ".join(read))
for i, B in enumerate(batches):
    print(f"{B:3} positions: " + "; ".join(f"{values[i]:.2f}" for values in read.values()))
balanced, shares_alone, one_each, neighbours = (values[batches.index(8)] for values in read.values())
print(f"at 8 positions: uneven shares save {balanced - shares_alone:.2f} experts,", end=" ")
print(
    f"texts that choose alike {shares_alone - one_each:.2f} more, neighbours in a text {one_each - neighbours:.2f} more"
)

# %%
fig, ax = figures.figure(height=3.8)
for (name, values), colour, style in zip(read.items(), figures.LINES, ("-", "--", "o", "s"), strict=False):
    ax.plot(batches, values, style, color=colour, label=name)
ax.set(xscale="log", xlabel="positions in the pass, P", ylabel="experts read in a layer", ylim=(0, n_experts + 0.4))
ax.set_xticks(batches, batches)
ax.minorticks_off()
ax.legend(loc="lower right", fontsize=9)
figures.show(
    fig,
    "Experts read in a layer against positions in the pass, from 1 to 64. At 8 positions: "
    + ", ".join(f"{name} {values[batches.index(8)]:.2f}" for name, values in read.items())
    + ".",
)

# %% [markdown]
# One token of each of B texts is what a decode step runs. Neighbours in one text are alike (in a stretch of sums there
# are digits and signs and little else), so a short prefill, or a pass that checks a few drafted tokens, reads less than
# the formula says. The last printed line puts a number on each of these reasons.
#
# And your Prediction 1? With 16 texts, nearly all experts are read. Each token has its discount, the step has none.

# %% [markdown]
# ## Bytes for each token
#
# Put the 36-billion mixture beside two dense models at 2 bytes a weight: one with as many *active* parameters (8
# billion), one with as many *in total* (36 billion). A step of B texts reads, in GB,
#
# | | B = 1 | B = 16 | B = 72 |
# |---|---:|---:|---:|
# | dense 8B | 16 | 16 | 16 |
# | mixture | 2 · (4 + 2 · 2) = 16 | 2 · (4 + 14.1 · 2) = 64.4 | 72 |
# | dense 36B | 72 | 72 | 72 |
#
# (At B = 16 the step reads 16 − 16 · (7/8)¹⁶ = 14.1 of 16 experts.) Divide by B and you have what each token costs in
# reading. The dense 8B model at B = 16 reads 1 GB a token. The mixture reads 4.0 GB, and reaches 1 GB a token at B =
# 72: **4.5 times the batch, total over active parameters, for the same reading.** For 671 over 37 billion the factor is
# 18.

# %%
sizes = (4e9, 2e9, 16, 2)
many = [2**i for i in range(12)]
counts = parameter_counts(*sizes)
step_bytes = {
    "dense, 8 billion": [2 * counts.active for B in many],
    "mixture, 36, active 8": [2 * (4e9 + (16 - expected_unused_experts(B, 16, 2)) * 2e9) for B in many],
    "dense, 36 billion": [2 * counts.total for B in many],
}
fig, axes = figures.figure(6.4, 3.7, columns=2)
for (name, values), colour, style in zip(step_bytes.items(), figures.LINES, ("--", "o-", ":"), strict=False):
    axes[0].plot(many, [value / 1e9 for value in values], style, color=colour, label=name, markersize=4)
    a_token = [value / B / 1e9 for value, B in zip(values, many, strict=True)]
    axes[1].plot(many, a_token, style, color=colour, markersize=4)
axes[0].set(xscale="log", xlabel="texts in the batch, B", ylabel="GB of weights read in a step", ylim=(0, 110))
axes[1].set(xscale="log", yscale="log", xlabel="texts in the batch, B", ylabel="GB read for each token")
axes[1].axhline(1, color=figures.GREY, linewidth=0.8)
axes[1].set_yticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
for ax in axes:
    ax.set_xticks([1, 8, 64, 512], [1, 8, 64, 512])
    ax.minorticks_off()
axes[0].legend(fontsize=9, loc="upper left")
figures.show(
    fig,
    "Left: bytes of weights read in a step against the batch. The dense models are flat at 16 and 72 GB; the mixture "
    f"starts at 16 and reads {step_bytes['mixture, 36, active 8'][5] / 1e9:.1f} at a batch of 32. Right, logarithmic: "
    "bytes for each token. The mixture leaves the line of the small dense model at once and joins the large one's.",
)

# %% [markdown]
# Follow the line with dots on the right. At B = 1 it is the small model's: one user, alone with a mixture, pays for the
# active parameters. From 1 to 8 texts the dense lines fall to an eighth, this one only from 16 to 6.25 GB: new texts
# bring new experts with them. From about 32 on it is the large model's.
#
# Up to which batch is reading the limit? Reading takes bytes over bandwidth, arithmetic 2 · active · B operations over
# the peak. On an H100 (3.35 TB/s, 989·10¹² operations a second):
#
# - dense 8B: 16 GB take 4.78 ms, as long as the arithmetic of 295 texts: the critical batch;
# - the mixture: 72 GB take 21.5 ms, as long as the arithmetic of about 1,330 texts. Again 4.5 times as many.
#
# Such batches need their caches too, and the cache of a mixture is no smaller than that of a dense model of its width.
# This is why mixtures are cheap where very many people share one, spread over many GPUs, and on the desk of one person
# with much memory. In between they are not.

# %% [markdown]
# ### Prediction 3
#
# Now measure it here. Four models take turns: the mixture; a dense model of the same shape with as many active
# parameters (a feed-forward width of k · F); one with as many in total (E · F); and the target of the other weeks.
# Speed does not ask what the weights say, so the two dense ones have random weights.
#
# Going from 1 text to 8: how many times as long does a step take, for the mixture and for the dense models? (The cell
# takes about fifteen seconds.)

# %%
my_times_mixture, my_times_dense = 1.0, 1.0  # change both


# %%
def dense(width):
    """The mixture's shape with one feed-forward block of this width in each layer."""
    torch.manual_seed(0)
    shape = replace(config, n_experts=0, experts_per_token=0, d_ff=width)
    return NanoLM(shape).eval().requires_grad_(False)


models = {
    "mixture": model,
    "dense, as active": dense(k * config.d_ff),
    "dense, as total": dense(n_experts * config.d_ff),
    "target": target,
}


@torch.inference_mode()
def decode_step(model, B):
    """A call that runs one decode step of B texts with 64 tokens behind each."""
    some = texts[torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))[:B], :65]
    cache = model.new_cache(B, 80)
    model(some[:, :64], cache, last=1)
    cache.advance(64)
    return torch.inference_mode()(lambda: model(some[:, 64:], cache))


calls = {(name, B): decode_step(one, B) for name, one in models.items() for B in batches}
step_rounds = take_turns(calls, 15)
for name, one in models.items():
    n_params = sum(p.numel() for p in one.parameters())
    print(f"{name:17} {n_params / 1e6:4.1f} million, ms for B texts: ", end="")
    print(", ".join(f"{B}: {median(step_rounds[name, B]) * 1e3:.2f}" for B in batches))
print("\nfrom 1 to 8 texts a step takes so many times as long:")
for name, guess in (
    ("mixture", my_times_mixture),
    ("dense, as active", my_times_dense),
    ("dense, as total", my_times_dense),
):
    print(f"  {name} {ratio(step_rounds, (name, 8), (name, 1))}; you said {guess:.2f}")

# %% [markdown]
# And the prediction from parts. What grows with the batch in a mixture's step?
#
# - **The rest** of the layer, attention above all. Take it from the small dense model: its step less its own
#   feed-forward blocks, which would count the feed-forward arithmetic a second time.
# - **The experts**: so many are read, each runs for some rows.
# - **Bookkeeping**: sorting choices, gathering rows, putting outputs back. `mix_experts` with experts that do nothing
#   shows it. (One text alone has no rows to sort, and the function leaves that out.)
#
# Each part is timed alone, about ten seconds. Of the mixture's own measurement only its step at B = 1 goes in.

# %%
some_rows = torch.randn(64, config.d_model, generator=torch.Generator().manual_seed(0))
small = models["dense, as active"]


def rows_each(B):
    """How many experts are read, and how many positions each of them has on average."""
    n_read = n_experts - expected_unused_experts(B, n_experts, k)
    return n_read, max(1, round(B * k / n_read))


def parts(B):
    """Calls that run the parts of all layers for B texts: every expert, the sorting, the dense model's blocks."""
    few, all_rows = some_rows[: rows_each(B)[1]], some_rows[:B, None]
    experts, shares = moe.route(first_layer.router(some_rows[:B]), k)
    return {
        ("experts", B): lambda: [
            layer.feedforward.run_expert(e, few) for layer in model.layers for e in range(n_experts)
        ],
        ("bookkeeping", B): lambda: [
            mix_experts(some_rows[:B], experts, shares, lambda _, rows: rows) for _ in range(n_layers)
        ],
        ("dense blocks", B): lambda: [layer.feedforward(all_rows) for layer in small.layers],
    }


with torch.inference_mode():
    part_rounds = take_turns({name: call for B in batches for name, call in parts(B).items()}, 30)
part, step = ({name: median(times) for name, times in rounds.items()} for rounds in (part_rounds, step_rounds))
amounts = {
    B: {
        "rest": step["dense, as active", B] - part["dense blocks", B],
        "experts": part["experts", B] * rows_each(B)[0] / n_experts,  # as many as are read
        "bookkeeping": part["bookkeeping", B],
    }
    for B in batches
}
grown = {B: {name: amounts[B][name] - amounts[1][name] for name in amounts[1]} for B in batches}
predicted = {B: step["mixture", 1] + sum(grown[B].values()) for B in batches}
print("milliseconds more than at B = 1, by part")
for B in batches[1:]:
    print(f"{B:3} texts: " + ", ".join(f"{name} {1e3 * by:+.2f}" for name, by in grown[B].items()), end="; ")
    print(against_prediction(step_rounds["mixture", B], predicted[B]))
print(f"experts alone would predict {1e3 * (step['mixture', 1] + grown[8]['experts']):.2f} ms at 8 texts")

# %%
fig, axes = figures.figure(6.4, 3.9, columns=2)
for name, colour in zip(models, figures.LINES, strict=False):
    times = [step[name, B] for B in batches]
    axes[0].plot(batches, [1e3 * t for t in times], "o-", color=colour, label=name, markersize=4)
    axes[1].plot(batches, [B / t for B, t in zip(batches, times, strict=True)], "o-", color=colour, markersize=4)
axes[0].plot(batches, [1e3 * predicted[B] for B in batches], "--", color="black", label="mixture, predicted")
axes[0].set(xscale="log", xlabel="texts in the batch, B", ylabel="ms for a decode step")
axes[0].set_ylim(0, 1.6e3 * max(step[name, 64] for name in models))
axes[1].set(xscale="log", xlabel="texts in the batch, B", ylabel="tokens/s, all texts", ylim=(0, None))
for ax in axes:
    ax.set_xticks([1, 4, 16, 64], [1, 4, 16, 64])
    ax.minorticks_off()
axes[0].legend(fontsize=9, loc="upper left")
figures.show(
    fig,
    "Left: time of a decode step against the batch, the prediction for the mixture dashed. Right: tokens per second of "
    "all texts together. Milliseconds at 1, 8 and 64 texts: "
    + "; ".join(f"{name} " + ", ".join(f"{1e3 * step[name, B]:.1f}" for B in (1, 8, 64)) for name in models)
    + f"; mixture, predicted {1e3 * predicted[8]:.1f} at 8 and {1e3 * predicted[64]:.1f} at 64.",
)

# %% [markdown]
# The lines of the first cell say how much longer 8 texts take; those of the second, which part it is. The second text
# brings 1.5 more experts in each layer, and, here, the sorting that a single text does without. Where measured is more
# than predicted, the parts were too fast when they were alone: their numbers were at hand in the processor's cache. (If
# the lines are ragged, your machine was busy with other things; run the two cells again.)
#
# The shape is that of the large models, the cause is not. Here the weights fit in a processor's cache, or nearly, and
# an expert costs mostly the fixed cost of starting its few operations. On a GPU an expert costs the reading of its
# weights, and one kernel does the bookkeeping. The count of experts is the same, what each of them costs is not. With
# many texts the arithmetic takes over, and there the mixture's feed-forward part multiplies a quarter of what the large
# dense model's does: k/E = 2/8.
#
# ### On a GPU
#
# Measured on one H200 (4.8 TB/s, `benchmarks/README.md`): one product of 64 experts, from 2,048 numbers to 1,408, in 16
# bits, so 2,048 · 1,408 · 2 B = 5.8 MB an expert. Each row goes to *one* expert by chance. The formula with k = 1 says
# how many are read:
#
# | rows | experts read, expected | weights, MB | measured, µs |
# |---:|---:|---:|---:|
# | 8 | 7.6 | 44 | 28 |
# | 128 | 55.5 | 320 | 104 |
# | 4,096 | 64 | 369 | 134 |
#
# From 128 rows to 4,096 there is 32 times the arithmetic, 1.15 times the weights, and 1.3 times the time: what is read
# decides, and not the rows. From 8 rows to 128 the bytes grow 7.3 times and the time only 3.7 times: with 8 experts
# there is too little to read at once, and the chip reaches a third of its bandwidth: 44 MB in 28 µs are 1.6 TB/s.

# %% [markdown]
# ## Who keeps the load even?
#
# Not the task. An expert that is chosen more often learns faster, becomes better, and is chosen more often still; the
# others starve. So training adds a second loss, small, that says: share out. Of a pass, let $f_e$ be the share of all
# choices that expert e got, and $\bar p_e$ its mean probability (softmax over all E logits). Then (Fedus 2021)
#
# $$
# \text{balance loss} = E \sum_{e=1}^{E} f_e \, \bar p_e
# $$
#
# which is 1 when all are equal and larger when the favourites are also the busy ones. $f$ is counted and has no
# gradient; the gradient goes through $\bar p$ and pushes the busy down. Below, two little layers of eight experts learn
# the same thing from the same start: points in eight clusters, each cluster with a linear map of its own. One of them
# learns with the **balance loss**, one with a bias as in DeepSeek-V3, which comes below, one with neither. No exercise
# is needed; about ten seconds.


# %%
def learn(weight=0.0, nudge=0.0, steps=300, seed=0, common=1.5):
    """Train a small mixture with a balance loss of some weight, or with sigmoid gates whose biases are nudged.

    Returns the share of each expert at each step, and the error at the end.
    """
    torch.manual_seed(seed)
    maps = torch.randn(8, 16, 16) / 4
    centres = torch.randn(8, 16) + common * torch.randn(16)  # as in a real stream, all vectors have much in common
    toy = moe.MoE(replace(config, d_model=16, d_ff=16, n_experts=8, experts_per_token=2))
    optimizer = torch.optim.Adam(toy.parameters(), lr=1e-2)
    bias, history, errors = torch.zeros(8), [], []
    for _ in range(steps):
        cluster = torch.randint(8, (256,))
        x = centres[cluster] + torch.randn(256, 16) / 2
        wanted = torch.einsum("pij,pj->pi", maps[cluster], x)
        logits = toy.router(x)
        if nudge:
            chosen = (logits.sigmoid() + bias).topk(2).indices  # the bias chooses,
            shares = logits.sigmoid().gather(1, chosen)  # and is no part of the share
            shares = shares / shares.sum(1, keepdim=True)
        else:
            chosen, shares = moe.route(logits, 2)
        f = chosen.flatten().bincount(minlength=8) / 512
        balance = 8 * (f * logits.softmax(dim=-1).mean(dim=0)).sum()
        error = (moe.mix_experts(x, chosen, shares, toy.run_expert) - wanted).square().mean()
        optimizer.zero_grad()
        (error + weight * balance).backward()
        optimizer.step()
        bias += nudge * (1 / 8 - f).sign()
        history.append(f)
        errors.append(error.item())
    return torch.stack(history), sum(errors[-20:]) / 20


ways_to_learn = {"nothing": {}, "balance loss × 0.1": {"weight": 0.1}, "bias, nudged by 0.01": {"nudge": 0.01}}
learned = {name: learn(**way) for name, way in tqdm(ways_to_learn.items(), desc="training")}
ends = {name: history[-20:].mean(0) for name, (history, _) in learned.items()}
for name, (_, error) in learned.items():
    print(f"{name}: the busiest has {8 * ends[name].max():.2f} times its even share,", end=" ")
    print(f"{int((ends[name] < 0.02).sum())} of 8 experts do next to nothing; error {error:.3f}")

# %%
fig, axes = figures.figure(6.4, 3.4, columns=2, sharey=True)
bands = [*figures.LINES, figures.GREY, figures.LINES[0]]  # eight; the first and the last are no neighbours
for ax, name in zip(axes, ("nothing", "balance loss × 0.1"), strict=True):
    history = learned[name][0]
    smooth = history.unfold(0, 10, 10).mean(-1)  # ten steps in one
    ax.stackplot(range(0, len(history), 10), *smooth.T.tolist(), colors=bands, edgecolor="white", linewidth=0.6)
    ax.set(xlabel="training step", title=name, xlim=(0, len(history) - 10), ylim=(0, 1))
    ax.grid(False)
axes[0].set_ylabel("share of the choices")
figures.show(
    fig,
    "Two stacked area plots of the eight experts' shares over the training steps. At the end the shares are "
    + "; ".join(
        f"with {name}: " + ", ".join(f"{share:.2f}" for share in ends[name].tolist()) for name in list(ends)[:2]
    )
    + ".",
)

# %% [markdown]
# An expert that starves early stays hungry, and its parameters are memory that was bought for nothing. The printed
# lines say how many do, and what it costs in error. For inference the balance loss is gone: it is no part of the model
# ([`training/balance.py`](../../training/balance.py) has the one that the shipped mixture was trained with). What stays
# is its effect, an even load *on text like the training text*. Too much of it does harm: then the router shares out
# evenly instead of sending each token where it belongs.
#
# ### Sigmoid gates with a bias
#
# DeepSeek-V3 does nearly without that loss. A logit goes through a sigmoid of its own, so an expert's score does not
# depend on the others. A **bias** b is added *for choosing only*. It is no weight that is learned: after each step it
# is nudged up where an expert had too little, and down where it had too much.
#
# $$
# e_1, \dots, e_k: \text{ the } k \text{ largest } \sigma(z_e) + b_e, \qquad
# g_j = \frac{\sigma(z_{e_j})}{\sum_{i=1}^{k} \sigma(z_{e_i})}
# $$
#
# By hand, with the logits 2, 1.5, 0, −1 of the beginning: σ gives 0.881, 0.818, 0.5, 0.269. Without biases experts 0
# and 1 are chosen, with shares 0.881/1.699 = 0.52 and 0.48. Expert 0 was too busy and has b = −0.4: 0.881 − 0.4 = 0.481
# is less than 0.5, so 1 and 2 are chosen, with shares 0.818/1.318 = 0.62 and 0.38. No share contains b. (DeepSeek-V3
# multiplies the shares by 2.5 besides.) For serving, the biases are 256 numbers a layer in the checkpoint; who leaves
# them out sends tokens elsewhere.

# %% [markdown]
# ## Several GPUs, and the busiest of them
#
# **Expert parallelism** puts whole experts on different devices. In each layer every position's vector has to travel to
# its k experts, and k answers back. All devices send to all others at once: an **all-to-all**, twice a layer. For a
# position and a layer that is at most
#
# $$
# \text{bytes} = k \cdot D \cdot (\text{bytes of a number there} + \text{bytes of a number back}).
# $$
#
# DeepSeek-V3 has D = 7,168 and k = 8, sends 8-bit floats there and 16-bit floats back: 8 · 7,168 · (1 + 2) = 172,032
# bytes, and in its 58 layers with experts 9.98 MB a token. A GPU that decodes 128 texts sends 1.28 GB in a step: 25.5
# ms through a network card of 50 GB/s, 2.8 ms through links of 450 GB/s inside a server. Reading its share of the
# experts, 8 of 256 in each layer at a byte a number, is 58 · 8 · 44.0 million = 20.4 GB and takes 6.1 ms at 3.35 TB/s.
# So the network can decide. (At most: experts of a token on the same device or server need one copy. DeepSeek-V3 lets a
# token go to 4 servers and no more.)
#
# And all wait for the busiest device. By hand: the loads of eight experts are 6, 2, 1, 3, 0, 4, 5, 3, on average 3.
# With a device each the imbalance is 6/3 = 2. On four devices with two neighbours each: 8, 4, 4, 8, and 8/6 = 1.33.
# Paired well, 6 + 0, 5 + 1, 4 + 2, 3 + 3, it is 1. Experts on the same device even each other out, and *placement* is
# free. Hot experts get copies.
#
# ### Prediction 4
#
# A router is perfectly balanced: each of 256 positions of a step chooses 8 of 256 experts by chance, 8 positions for
# each expert on average. How many times its share does the busiest expert have in one step? And the busiest of 32
# devices with 8 experts each?

# %%
my_busiest_expert, my_busiest_device = 1.0, 1.0  # change both


# %%
def imbalances(counts, n_devices):
    """Mean imbalance over experts and over devices with neighbours on them, for counts (…, E)."""
    on_device = counts.unflatten(-1, (n_devices, -1)).sum(-1)
    return [(loads.amax(-1) / loads.mean(-1)).mean().item() for loads in (counts.double(), on_device.double())]


def by_chance(n_positions, rounds=50):
    """How often each of 256 experts is chosen in a step of a balanced router, 8 a position: (rounds, 256)."""
    scores = torch.rand(rounds, n_positions, 256, generator=torch.Generator().manual_seed(0))
    chosen = scores.topk(8).indices.flatten(1)
    return torch.zeros(rounds, 256).scatter_add_(1, chosen, torch.ones(chosen.shape))


expert, device = imbalances(by_chance(256), 32)
print(f"256 positions: busiest expert {expert:.2f} times its share, you said {my_busiest_expert};", end=" ")
print(f"busiest device {device:.2f}, you said {my_busiest_device}")
expert, device = imbalances(by_chance(4096, 8), 32)
print(f"4,096 positions: {expert:.2f} and {device:.2f}")
print("\nthe trained mixture, 8 experts on 4 devices, mean over layers:")
steps = torch.zeros(n_layers, texts.shape[1], n_experts)  # each column of the 64 texts is a decode step
steps = steps.scatter_add_(2, routed.transpose(1, 2).flatten(2), torch.ones(n_layers, texts.shape[1], len(texts) * k))
for name, counts in (("over all tokens", steps.sum(1)), ("in one step of 64 texts", steps)):
    expert, device = imbalances(counts, 4)
    print(f"  {name}: busiest expert {expert:.2f}, busiest device {device:.2f}")

# %% [markdown]
# A router that is balanced over a day is not balanced in a step: with 8 choices an expert on average, chance alone
# makes one of 256 experts far busier. More positions a step and more experts a device both even that out. This is
# another reason why mixtures are served in large batches over many GPUs.

# %% [markdown]
# ## What changes for the rest of the engine
#
# | | against a dense model with as many *active* parameters | with as many *in total* |
# |---|---|---|
# | memory | all experts: total/active times as much | the same |
# | quality | better | usually somewhat below |
# | prefill, TTFT | the same arithmetic | total/active times less |
# | TPOT, one text | the same reading | total/active times less reading |
# | TPOT, large batch | up to total/active times the reading | the same reading, less arithmetic |
# | cache for a token | by layers and heads, not by experts: the same | the same |
#
# About quality be careful with our own two models. They were not trained for a race: the target is 12 layers deep, the
# mixture 8, and the mixture read a quarter more text. The mixture multiplies 1.5 million parameters a token, the target
# 2.5. From the model card, both on held-out text:
#
# | | mixture | target |
# |---|---:|---:|
# | bits for each byte of plays (fewer is better) | 1.975 | 2.010 |
# | bits for each byte of problems | 0.324 | 0.327 |
# | sums solved | 82 % | 99 % |
# | differences solved | 58 % | 96 % |
# | fares solved | 96 % | 94 % |
# | comparisons of two numbers solved | 98 % | 97 % |
#
# With less arithmetic the mixture is a little better on the average text, worse at sums, and much worse at differences.
# At fares and comparisons it is ahead by 2 and by 1 of 100 problems. The standard error of such a difference is about
# √(2 · 0.95 · 0.05/100) = 3.1 points, so these two tell nothing. An average hides tasks; test the ones that you need.
#
# - **Batching** ([week 6](../week06_batching_paging/week06_1_batching.ipynb)) matters more: only a full batch pays
#   for reading all experts.
# - **Speculation** ([week 4](../week04_speculative/week04_speculative.ipynb)) gains less at batch 1: checking γ + 1
#   positions reads more experts than writing one (problem 3 below).
# - **Quantization** ([week 5](../week05_quantization/week05_quantization.ipynb)) gains more: experts are most of the
#   bytes. A rare expert sees few calibration samples, though.
# - **Capacity.** Some systems give each expert room for a fixed number of tokens and drop the rest. Then what a text
#   becomes depends on who else is in the batch. This engine, like vLLM, drops none.
# - **Rounding.** A router is a threshold. Where two logits nearly tie, a last bit decides between two experts, and the
#   text may go on differently. So near ties matter more than in a dense model
#   ([week 3](../week03_sampling/week03_sampling.ipynb)).

# %% [markdown]
# ## The same on a real model
#
# SmolLM2 has 135 million parameters and is dense. Can one make a mixture of it by cutting? Cut each feed-forward block
# into 8 slices, as 8 experts, and let each position use only those k that have the largest hidden numbers *at this
# position*. That is more than a router gets: it looks before it chooses. With k = 8 it is the model as it was.
# Before you run the cell (under a minute): how many of the 8 does it need?

# %%
from course.lab.real_model import real_model


class Sliced(torch.nn.Module):
    """A dense feed-forward block of which each position uses the k of 8 slices with the largest hidden numbers."""

    def __init__(self, block, k):
        super().__init__()
        self.block, self.k = block, k

    def forward(self, x):
        gate, up = self.block.gate_up(x).chunk(2, dim=-1)
        slices = (F.silu(gate) * up).unflatten(-1, (8, -1))
        best = slices.norm(dim=-1).topk(self.k).indices.unsqueeze(-1)
        kept = torch.zeros_like(slices[..., :1]).scatter_(-2, best, 1.0)
        return self.block.down((slices * kept).flatten(-2))


real = real_model()
if real:
    smol, smol_tokens = real
    card = (SHIPPED / "README.md").read_text(encoding="utf-8")  # English prose
    ids = smol_tokens.encode(card[card.index("How they are measured") :])[:400]
    feedforward = sum(weight.numel() for layer in smol.layers for weight in layer.feedforward.parameters())
    print(f"feed-forward blocks: {feedforward / sum(p.numel() for p in smol.parameters()):.0%} of its parameters")
    for kept in tqdm((8, 7, 6, 4, 2), desc="slices"):
        cut = copy.copy(smol)  # the weights are shared
        cut._modules = dict(smol._modules)
        cut.layers = torch.nn.ModuleList([copy.copy(layer) for layer in smol.layers])
        for layer in cut.layers:
            layer._modules = dict(layer._modules) | {"feedforward": Sliced(layer.feedforward, kept)}
        with torch.inference_mode():
            nats = F.cross_entropy(cut(torch.tensor([ids[:-1]]))[0], torch.tensor(ids[1:]))
        print(f"{kept} of 8 slices: {nats.item() / 0.6931:.2f} bits a token")

# %% [markdown]
# Every slice that is left out costs, though it was the weakest of its position. Slices of a dense model were trained to
# work together. A mixture's experts were trained to do with k of them, and so was everything around them: sparsity is
# bought in training.

# %% [markdown]
# ## The same with libraries
#
# The shipped mixture is an ordinary Mixtral folder, so transformers opens it.

# %%
if importlib.util.find_spec("transformers"):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.MixtralForCausalLM.from_pretrained(SHIPPED / "mixture", dtype=torch.float32)
    start = tokenizer.encode("BRUTUS\n")
    options = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    start_ids = torch.tensor([start])
    their_text = theirs.generate(start_ids, attention_mask=torch.ones_like(start_ids), **options)
    their_text = their_text[0, len(start) :].tolist()
    our_text = model.generate(start, 40, SamplingParams(0.0, end_tokens=()))
    print("transformers writes our greedy text:", their_text == our_text)
    with torch.inference_mode():
        their_logits = theirs(torch.tensor([start + our_text]), output_router_logits=True).router_logits
    their_choice = torch.stack([logits.topk(k).indices for logits in their_logits])
    ours = choices(torch.tensor([start + our_text]))[:, 0]
    print(f"and its routers choose our experts at {(their_choice == ours).all(-1).double().mean():.1%} of all places")
    configs = {"OLMoE": transformers.OlmoeConfig(), "Qwen1.5-MoE": transformers.Qwen2MoeConfig()}
    print("norm_topk_prob by default:", {name: found.norm_topk_prob for name, found in configs.items()})
else:
    print("transformers is not installed here; with it, this cell compares its text and its routers with ours")

# %% [markdown]
# On GPU servers, vLLM (not run here):
#
# ```
# vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1 --tensor-parallel-size 2
# vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8 --enable-expert-parallel
# ```
#
# The first splits every expert over two GPUs: 46.7 billion parameters are 93 GB at 2 bytes. The second splits attention
# eight ways and gives each GPU whole experts, and wants eight GPUs with more than 80 GB each. Both sort tokens by
# expert as your `mix_experts` does; one kernel then runs all experts in one launch instead of one after the other. This
# package has such a kernel too, [`triton_grouped.py`](../../nanolm/kernels/triton_grouped.py), behind `grouped_matmul`:
# the one that was measured above.

# %% [markdown]
# ## Common mistakes, and the test that names each
#
# - **Softmax before top-k without renormalising, in a model that was trained with it.** Shares that do not add up to 1.
#   `test_route_of_the_worked_example_shares_62_to_38`
# - **The weakest experts chosen.** `test_route_of_the_worked_example_shares_62_to_38`
# - **Shares in another order than ids.** `test_route_puts_the_strongest_expert_first`
# - **The softmax over positions.** `test_route_takes_logits_of_any_leading_shape`
# - **A sort that is not stable.** Equal logits choose different experts here and there.
#   `test_route_takes_the_lower_id_of_equal_logits`
# - **NaN taken for a logit.** It sorts to the front and spoils the text from there on.
#   `test_route_refuses_logits_that_are_no_numbers`
# - **Shares not applied, or multiplied into x before the expert; `=` for `+=`; outputs in the order of the experts; the
#   sort applied twice instead of undone.** `test_mix_experts_of_three_positions_is_the_sum_of_share_times_output`
# - **An expert run for every token.** Right, and its weights are read again and again.
#   `test_mix_experts_runs_each_chosen_expert_once_and_no_other`,
#   `test_moe_forward_runs_each_chosen_expert_once_for_all_texts`
# - **Every expert run, and the rest weighted with 0.** Right, and a dense model's price.
#   `test_moe_forward_reads_no_expert_that_nobody_chose`
# - **Positions of different texts mixed up.** `test_moe_forward_equals_a_loop_over_positions`
# - **Only active parameters counted as memory; shared ones forgotten.**
#   `test_parameter_counts_of_16_experts_of_which_a_token_uses_2`
# - **Used experts returned for unused.** `test_expected_unused_experts_of_256_when_each_position_takes_8`
# - **A position's experts drawn with repetition.** `test_expected_unused_experts_of_256_when_each_position_takes_8`
# - **Chances averaged before they are raised to a power.**
#   `test_expected_unused_given_adds_each_expert_s_chance_to_be_left_alone`
# - **Idle experts left out of the mean.** A collapsed router looks balanced.
#   `test_load_imbalance_is_the_busiest_over_the_mean`

# %% [markdown]
# ## Back of the envelope
#
# Do these on paper. Open the answers afterwards.
#
# **1.** 8 experts, 2 chosen, 4 texts. How many experts does a decode step read, and how many times the expert bytes of
# one text?
#
# <details><summary>Answer</summary>Unused: 8 · 0.75⁴ = 8 · 0.316 = 2.53. Read: 5.47, against 2: 2.7 times the bytes for
# 4 times the tokens. A dense model would read the same once.</details>
#
# **2.** A mixture has 1.6 billion shared parameters and 8 experts of 5.64 billion, k = 2. Memory at 2 bytes, GPUs of 80
# GB, and the time of a step at batch 1 with 3.35 TB/s? And at 4.5 bits?
#
# <details><summary>Answer</summary>Total 1.6 + 45.1 = 46.7 billion, 93.4 GB, so 2 GPUs. Active 1.6 + 11.3 = 12.9
# billion, 25.8 GB to read: 7.7 ms on the bandwidth of one GPU. At 4.5 bits: 26.3 GB, one GPU, 7.2 GB to read, 2.2
# ms.</details>
#
# **3.** The same mixture, one text, speculation with γ = 4, α = 0.8, a draft that costs 0.05 of a pass. A dense model
# gains 2.80 times (week 4). The mixture?
#
# <details><summary>Answer</summary>Five positions read 8 − 8 · 0.75⁵ = 6.1 experts instead of 2: 1.6 + 6.1 · 5.64 =
# 36.0 billion parameters instead of 12.9, so a checking pass takes v = 2.8 single ones. 3.3616/(2.8 + 4 · 0.05) = 1.12
# times. Neighbours choose alike, so in practice it is somewhat more. With a batch that reads all experts anyway, v is
# near 1 again.</details>
#
# **4.** 256 experts, 8 chosen. From how many positions on is less than one expert unused on average? How many positions
# does a step need so that each expert gets 295, the critical batch of an H100?
#
# <details><summary>Answer</summary>256 · (31/32)ᴾ = 1 at P = ln 256 / −ln(31/32) = 5.545/0.03175 = 174.7: from 175 on.
# 295 · 256/8 = 9,440 positions: no single machine has the caches for that, so such models are served by many GPUs
# together.</details>
#
# **5.** "Our 671-billion model has only 37 billion active parameters, so at 8 bits it needs one 80 GB GPU." What do you
# answer? What if the rest is kept in the computer's own memory, behind a bus of 64 GB/s?
#
# <details><summary>Answer</summary>Any token may choose any expert, so 671 GB must be at hand: 9 such GPUs, before any
# cache. From behind the bus, up to 37 GB have to be fetched for each token: 0.58 s, less what happens to be on the GPU
# already. A batch of a few texts does not help, since other tokens want other experts.</details>
#
# **6.** A mixture with D = 4,096, k = 2, 32 layers, all of them with experts, 16-bit numbers both ways. How many bytes
# does expert parallelism send for a token, at most? For a step of 256 texts on one device, at 50 GB/s?
#
# <details><summary>Answer</summary>2 · 4,096 · (2 + 2) · 32 = 1.05 MB. 256 of them are 268 MB: 5.4 ms.</details>
#
# **7.** Dense 8B with B = 16 against the 36-billion mixture with B = 72, both reading 1 GB a token. Caches of 1.074 GB
# a text. Memory in all?
#
# <details><summary>Answer</summary>16 + 17.2 = 33 GB, one GPU of 80 GB. 72 + 77.3 = 149 GB, two, nearly full. The same
# bytes for each token, 4.5 times the memory.</details>

# %% [markdown]
# ## Check yourself
#
# - Why must experts that are not chosen be in memory all the same?
# - At batch 1 a mixture reads like a small model, at batch 64 like a large one. Why?
# - 256 positions, 256 experts, 8 chosen: all are read. What is still bad about it?
# - A checkpoint says `norm_topk_prob: false`. What happens if you renormalise all the same?
# - A router is perfectly balanced over a day. Can one hour still be slow? Can one step?
# - What does a mixture do to the KV cache?
# - What is the balance loss for, and why is it not in the model that you serve?
#
# <details><summary>Short answers</summary> The router decides in each layer, too late to fetch anything from afar. ·
# One token wants k experts; many tokens want different ones, and together all. · Each expert works for 8 positions
# only: its weights are read for little arithmetic, far below the critical batch. · The layer's output gets too large,
# by a different factor at each token. · Yes: that hour's texts may all want the same experts; and in a step chance
# alone makes some expert busy. · Nothing. · It stops favourites from starving the others during training; it changes
# weights, and they are trained. </details>

# %% [markdown]
# ## In an interview
#
# *"We can serve a dense 8B model or a mixture with 36 billion parameters and 8 active. The arithmetic is the same. Is
# the price?"*
#
# A structure for three minutes:
#
# 1. **Memory first.** 16 GB against 72 GB at 2 bytes: how many GPUs, and what is left for caches, at p95 context with
#    10 to 20 % kept free (30 seconds).
# 2. **Reading by batch.** E (1 − k/E)^B experts stay unread: alone 16 GB either way; at 16 texts 64 against 16. The
#    same bytes a token need 4.5 times the batch, and the caches for it (45 seconds).
# 3. **Which load do we have?** Prefill-heavy: arithmetic counts, the mixture is as cheap as 8B. Decode with a few dozen
#    users on one machine: expensive. Decode with very many: cheap again (30 seconds).
# 4. **What do we get for it?** Quality nearer to the large model. The fair rival may be a dense model of the same
#    *quality*, say 15 to 20B, not of the same arithmetic (30 seconds).
# 5. **Measure before deciding:** tokens/s at our batch, side by side; the load of the experts on *our* traffic; 4-bit
#    experts and our own evaluations (45 seconds).

# %% [markdown] written="experts unused" points=8 minutes=20 difficulty=3
# **Derive the expected number of unused experts, and what follows for the batch.** A layer has E experts; each of B
# positions chooses k different ones. (a) All sets of k are equally likely, and positions choose independently. Derive
# the expected number of experts that nobody chooses. Say where you use independence of the positions, and why you need
# none between experts. (b) Now expert e is chosen with chance $c_e$, with sum k. Show that the balanced router leaves
# the fewest unused. (c) A model has S shared parameters and E experts of X each. Give the parameters read for each
# token at batch B, and their ratio to those of a dense model with as many active parameters, for B = 1 and for large B.
# (d) By what factor must the batch be larger for the same reading a token, if both batches are large? Evaluate for S =
# 4, X = 2 billion, E = 16, k = 2. (e) Name a reason why a real step reads fewer experts than (a) says.
#
# ### BEGIN SOLUTION
# **Model answer.** (a) A given expert is in a random set of k of E with probability k/E, so one position misses it with
# 1 − k/E. Positions are independent, so all B miss it with (1 − k/E)^B: here independence of positions is used. The
# number of unused experts is a sum of E indicators, and the mean of a sum is the sum of the means, dependent or not
# (they are dependent: a position that takes one expert is less likely to take another). So the mean is E (1 − k/E)^B.
#
# (b) The same argument gives Σ (1 − c_e)^B. The function h(c) = (1 − c)^B is convex on [0, 1] for B ≥ 1, so by Jensen
# (1/E) Σ h(c_e) ≥ h((1/E) Σ c_e) = h(k/E). Multiplied by E: Σ (1 − c_e)^B ≥ E (1 − k/E)^B, with equality for c_e = k/E.
# (For B = 1 it is equal always: k experts are used whoever they are.)
#
# (c) Read in a step: S + (E − E (1 − k/E)^B) X; for each token that over B. The dense model reads (S + k X)/B. Ratio: 1
# at B = 1, since then E − E (1 − k/E) = k. For large B the bracket tends to E, and the ratio to (S + E X)/(S + k X),
# total over active.
#
# (d) (S + E X)/B' = (S + k X)/B gives B'/B = total/active = 36/8 = 4.5.
#
# (e) Positions that are alike (neighbours in one text, requests of one kind) choose alike; or the load is uneven, as in
# (b).
#
# **Mark scheme (8).** (a) miss probability with a reason, 1; independence of positions named where it is used, 1;
# linearity named, 1. (b) convexity or an equivalent argument, 1; concluded correctly, 1. (c) both limits, 1. (d) factor
# and value, 1. (e) 1. A formula without derivation in (a): at most 1 of its 3.
# ### END SOLUTION

# %% [markdown] written="balance loss" points=5 minutes=15 difficulty=3
# **What the balance loss does.** $\mathcal{L} = E \sum_e f_e \bar p_e$, with f the shares of the choices (counted, no
# gradient) and $\bar p$ the mean router probabilities; both add up to 1. (a) Suppose $f = \bar p$. Show that the loss
# is at least 1, and say when it is 1. (b) One position has the probabilities $p_1, \dots, p_E$ = softmax(z). Derive the
# derivative of $\sum_e f_e p_e$ by $z_i$, with f held fixed. Which logits does a step of gradient descent lower? (c)
# Why is f in the formula, and not $\sum_e \bar p_e^2$ alone? (d) What goes wrong when its weight is too large?
#
# ### BEGIN SOLUTION
# **Model answer.** (a) By Cauchy–Schwarz 1 = (Σ p̄_e · 1)² ≤ E Σ p̄_e², so the loss is at least 1, with equality
# exactly if all p̄_e are 1/E.
#
# (b) ∂p_e/∂z_i = p_e (δ_ei − p_i), so the derivative is p_i f_i − p_i Σ_e f_e p_e = p_i (f_i − m) with m = Σ f_e p_e,
# the mean load as this position sees it. It is positive where f_i > m: descent lowers the logits of the experts that
# are busier than this mean and raises those of the others, each in proportion to its probability.
#
# (c) What must be even is the real load, and that is f: probabilities can be even on average while the top k choices
# fall on the same experts every time (0.26, 0.25, 0.25, 0.24 at every position). f alone, though, is a count and has no
# gradient; p̄ lends it one.
#
# (d) Tokens are sent where there is room and not where they are handled well: experts become alike, and the task's loss
# rises.
#
# **Mark scheme (5).** (a) inequality with a reason, 1. (b) derivative, 1; direction read from it, 1. (c) load against
# probability, 1. (d) 1.
# ### END SOLUTION

# %% [markdown]
# ## What you have now
#
# You can write a mixture's layer so that a step reads what it must and no more, size one with two numbers instead of
# one, say what a batch does to its price, and look into a router. Run `course status` in a terminal to see what is
# left.
#
# ## Sources
#
# - Shazeer et al. 2017, *Outrageously large neural networks: the sparsely-gated mixture-of-experts layer*,
#   [arXiv:1701.06538](https://arxiv.org/abs/1701.06538): the router, top-k, the need for balance.
# - Fedus, Zoph, Shazeer 2021, *Switch transformers*, [arXiv:2101.03961](https://arxiv.org/abs/2101.03961): one expert a
#   token, the balance loss of this notebook (section 2.2), capacity.
# - Jiang et al. 2024, *Mixtral of experts*, [arXiv:2401.04088](https://arxiv.org/abs/2401.04088): the form used here
#   (section 2.1), what routers choose (section 5).
# - Muennighoff et al. 2024, *OLMoE*, [arXiv:2409.02060](https://arxiv.org/abs/2409.02060): shares as the softmax over
#   all experts gave them.
# - DeepSeek-AI 2024, *DeepSeek-V3 technical report*, [arXiv:2412.19437](https://arxiv.org/abs/2412.19437): shared
#   experts, sigmoid gates, balance by a bias instead of a loss, what goes through the network.
# - Lepikhin et al. 2020, *GShard*, [arXiv:2006.16668](https://arxiv.org/abs/2006.16668): experts on different devices,
#   and the all-to-all between them.
