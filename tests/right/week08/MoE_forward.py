# %% reshaped and back, under names
class MoE(nn.Module):
    """A drop-in for FeedForward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x):
        B, T, D = x.shape
        positions = x.reshape(B * T, D)
        logits = self.router(positions)
        experts, shares = route(logits=logits, k=self.experts_per_token)
        y = mix_experts(x=positions, experts=experts, shares=shares, run=self.run_expert)
        return y.reshape(B, T, D)

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)


# %% routed in the shape of x
class MoE(nn.Module):
    """A drop-in for FeedForward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x):
        experts, shares = route(self.router(x), self.experts_per_token)
        y = mix_experts(
            x.flatten(0, 1), experts.flatten(0, 1), shares.flatten(0, 1), lambda e, rows: self.run_expert(e, rows)
        )
        return y.unflatten(0, x.shape[:2])

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)


# %% a loop over experts of its own
class MoE(nn.Module):
    """A drop-in for FeedForward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x):
        rows = x.view(-1, x.size(-1))
        experts, shares = route(self.router(rows), self.experts_per_token)
        y = torch.zeros_like(rows)
        for expert in experts.unique().tolist():
            places, columns = torch.where(experts == expert)
            y[places] += shares[places, columns, None] * self.run_expert(expert, rows[places])
        print("experts read:", len(experts.unique()))
        return y.view(x.shape)

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)


# %% the texts side by side, and everything by hand
class MoE(nn.Module):
    """A drop-in for FeedForward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x):
        rows = torch.cat(list(x))
        logits = rows @ self.router.weight.T
        best, experts = torch.sort(logits, dim=1, descending=True, stable=True)
        shares = F.softmax(best[:, : self.experts_per_token], dim=1)
        y = self._mixed(rows, experts[:, : self.experts_per_token], shares)
        return torch.stack(y.chunk(len(x)))

    def _mixed(self, rows, experts, shares):
        y = torch.zeros_like(rows)
        for e in range(self.n_experts):
            weight = ((experts == e) * shares).sum(1)
            chose = weight > 0
            if chose.any():
                y[chose] += weight[chose, None] * self.run_expert(e, rows[chose])
        return y

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)


# %% positions in the other order
class MoE(nn.Module):
    """A drop-in for FeedForward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_experts, self.experts_per_token = config.n_experts, config.experts_per_token
        self.router = nn.Linear(config.d_model, config.n_experts, bias=False)
        self.gate_up = StackedLinear(config.n_experts, config.d_model, 2 * config.d_ff)
        self.down = StackedLinear(config.n_experts, config.d_ff, config.d_model)

    def forward(self, x):
        rows = x.transpose(0, 1).flatten(0, 1)
        experts, shares = route(self.router(rows), self.experts_per_token)
        y = mix_experts(rows, experts, shares, self.run_expert)
        return y.unflatten(0, (x.shape[1], x.shape[0])).transpose(0, 1)

    def run_expert(self, expert: int, rows: Float[Tensor, "n D"]) -> Float[Tensor, "n D"]:
        """Return one expert's output for rows that chose it."""
        gate, up = self.gate_up(rows, expert).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up, expert)
