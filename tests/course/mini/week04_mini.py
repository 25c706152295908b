# %% [markdown]
# # Week 4 · A lesson for tests

# %%
import torch

# %% [markdown]
# Some prose.

# %%
from nanolm.speculative import residual_distribution  # exercise: residual_distribution
# points: 4
# minutes: 15
# difficulty: 2
# tested: the residual of several pairs of distributions,
#   and the error for p = q.
# why: it is what makes a rejected guess harmless.
# hint: max, then divide by the sum.

# %%
p = torch.tensor([0.5, 0.3, 0.2])

# %%
from nanolm.speculative import accept_or_resample  # exercise: accept_or_resample
# points: 4
# minutes: 15
# difficulty: 3
# tested: kept and resampled tokens.
# why: it is the algorithm.
# hint: one bernoulli, perhaps one categorical.

# %%
from nanolm.cache import KVCache  # exercise: update, advance
# points: 6
# minutes: 20
# difficulty: 3
# tested: lengths and contents.
# why: everything reads the cache.
# hint: slices.

# %% [markdown] written="proof" points=6 minutes=20 difficulty=3
# Show that the output is distributed as p.
#
# ### BEGIN SOLUTION
# min(p, q) + max(p - q, 0) = p.
# ### END SOLUTION
