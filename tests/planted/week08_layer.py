"""Week 8, the layer of experts."""

MISTAKES = [
    {
        "name": "every expert run over everything",
        "week": 8,
        "file": "model/moe.py",
        "old": "        return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "        every = torch.stack([self.run_expert(e, rows) for e in "
        "range(self.n_experts)], dim=1)\n"
        "        weights = torch.zeros_like(every[..., 0]).scatter(1, experts, shares)\n"
        "        return (every * weights.unsqueeze(-1)).sum(dim=1).view_as(x)",
        "test": "test_moe_forward_reads_no_expert_that_nobody_chose",
        "says": "an expert that no position chose was run",
    },
    {
        "name": "positions of different texts mixed up",
        "week": 8,
        "file": "model/moe.py",
        "old": "rows = x.flatten(0, 1)",
        "new": "rows = x.transpose(0, 1).flatten(0, 1)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "the positions of different texts are mixed up",
    },
    {
        "name": "the experts run for each text",
        "week": 8,
        "file": "model/moe.py",
        "old": "        return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "        parts = zip(x, experts.split(x.shape[1]), shares.split(x.shape[1]), "
        "strict=True)\n        return torch.stack([mix_experts(*part, self.run_expert) for part "
        "in parts])",
        "test": "test_moe_forward_runs_each_chosen_expert_once_for_all_texts",
        "says": "each expert runs once, for the positions of all texts together",
    },
    {
        "name": "two experts whatever is asked",
        "week": 8,
        "file": "model/moe.py",
        "old": "experts, shares = route(self.router(rows), self.experts_per_token)",
        "new": "experts, shares = route(self.router(rows), min(2, self.n_experts))",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "two experts run, whatever experts_per_token is",
    },
    {
        "name": "one expert whatever is asked",
        "week": 8,
        "file": "model/moe.py",
        "old": "experts, shares = route(self.router(rows), self.experts_per_token)",
        "new": "experts, shares = route(self.router(rows), 1)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "only the strongest expert runs",
    },
    {
        "name": "the router's shares left out",
        "week": 8,
        "file": "model/moe.py",
        "old": "return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "return mix_experts(rows, experts, torch.ones_like(shares), self.run_expert).view_as(x)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "the shares are not applied",
    },
    {
        "name": "the mean of the chosen experts",
        "week": 8,
        "file": "model/moe.py",
        "old": "return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "return mix_experts(rows, experts, torch.full_like(shares, 1 / shares.shape[1]), "
        "self.run_expert).view_as(x)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "all chosen experts count alike",
    },
    {
        "name": "a softmax in front of the router's choice",
        "week": 8,
        "file": "model/moe.py",
        "old": "experts, shares = route(self.router(rows), self.experts_per_token)",
        "new": "experts, shares = route(self.router(rows).softmax(dim=-1), self.experts_per_token)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "a softmax before `route`",
    },
    {
        "name": "x added to the mixture",
        "week": 8,
        "file": "model/moe.py",
        "old": "return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "return x + mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "x is added to the output",
    },
    {
        "name": "the mixture left in rows",
        "week": 8,
        "file": "model/moe.py",
        "old": "return mix_experts(rows, experts, shares, self.run_expert).view_as(x)",
        "new": "return mix_experts(rows, experts, shares, self.run_expert)",
        "test": "test_moe_forward_equals_a_loop_over_positions",
        "says": "the output has the shape of x",
    },
]
