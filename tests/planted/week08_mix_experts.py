"""Week 8, the outputs of experts put together."""

MISTAKES = [
    {
        "name": "shares not applied",
        "week": 8,
        "file": "model/moe.py",
        "old": "index_select(0, order.argsort()).unflatten(0, (-1, k))",
        "new": "index_select(0, order.argsort()).unflatten(0, (-1, k)) / shares.unsqueeze(-1)",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "shares not applied",
    },
    {
        "name": "expert outputs left in the order of the experts",
        "week": 8,
        "file": "model/moe.py",
        "old": "    y = y.index_select(0, order.argsort())",
        "new": "    y = y",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "an expert's outputs went to the wrong rows",
    },
    {
        "name": "the sort applied a second time instead of undone",
        "week": 8,
        "file": "model/moe.py",
        "old": "order.argsort())",
        "new": "order)",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "the same sort a second time does not",
    },
    {
        "name": "a run of an expert for every position",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n"
        "    y = torch.stack([run(e, x[i // k].unsqueeze(0))[0] for i, e in "
        "enumerate(chosen.tolist())])\n    return (y.unflatten(0, (-1, k)) * "
        "shares.unsqueeze(-1)).sum(dim=1)\n",
        "test": "test_mix_experts_runs_each_chosen_expert_once_and_no_other",
        "says": "its weights are read once for all of its positions",
    },
    {
        "name": "the shares multiplied into x",
        "week": 8,
        "file": "model/moe.py",
        "old": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))  # each choice back "
        "in its place, (P, k, D)\n    return (y * shares.unsqueeze(-1)).sum(dim=1)\n\n\nclass",
        "new": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))\n    return y.sum(dim=1)\n\n\nclass",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "shares not applied",
    },
    {
        "name": "the shares multiplied into x before the expert",
        "week": 8,
        "file": "model/moe.py",
        "old": "    order = chosen.argsort(stable=True)  # the P·k choices, those of one expert together\n",
        "new": "    order = chosen.argsort(stable=True)\n"
        "    plain, weigh = run, "
        "shares.flatten()[order].split(chosen.unique(return_counts=True)[1].tolist())\n"
        "    run = lambda e, rows, left=iter(weigh): plain(e, rows * (w := next(left))[:, "
        "None]) / w[:, None]\n",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "the shares were multiplied into x before the expert",
    },
    {
        "name": "one expert of each position for all of them",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n    result = torch.zeros_like(x)\n"
        "    for expert in chosen.unique().tolist():\n"
        "        places, columns = (experts == expert).nonzero(as_tuple=True)\n"
        "        result[places] = shares[places, columns, None] * run(expert, x[places])\n"
        "    return result\n",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "only one expert of each position counts",
    },
    {
        "name": "the shares in the order of the experts",
        "week": 8,
        "file": "model/moe.py",
        "old": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))  # each choice back "
        "in its place, (P, k, D)\n    return (y * shares.unsqueeze(-1)).sum(dim=1)\n\n\nclass",
        "new": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))\n"
        "    return (y * shares.flatten()[order].view_as(shares).unsqueeze(-1)).sum(dim=1)\n\n\n"
        "class",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "the shares went to the wrong experts",
    },
    {
        "name": "rows of other positions given to an expert",
        "week": 8,
        "file": "model/moe.py",
        "old": "groups = x.index_select(0, order // k).split(counts.tolist())",
        "new": "groups = x.index_select(0, order % len(x)).split(counts.tolist())",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "an expert got the rows of other positions",
    },
    {
        "name": "a tensor for an expert's id",
        "week": 8,
        "file": "model/moe.py",
        "old": "for expert, rows in zip(ids.tolist(), groups, strict=True)",
        "new": "for expert, rows in zip(ids, groups, strict=True)",
        "test": "test_mix_experts_gives_an_expert_ids_as_plain_numbers",
        "says": "run gets an int",
    },
    {
        "name": "experts run that nobody chose",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n    result = torch.zeros_like(x)\n"
        "    for expert in range(int(experts.max()) + 1):\n"
        "        places, columns = (experts == expert).nonzero(as_tuple=True)\n"
        "        result[places] += shares[places, columns, None] * run(expert, x[places])\n"
        "    return result\n",
        "test": "test_mix_experts_runs_each_chosen_expert_once_and_no_other",
        "says": "nobody chose them",
    },
    {
        "name": "a result in float32",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n    result = torch.zeros(x.shape)\n"
        "    for expert in chosen.unique().tolist():\n"
        "        places, columns = (experts == expert).nonzero(as_tuple=True)\n"
        "        result[places] += shares[places, columns, None] * run(expert, x[places])\n"
        "    return result\n",
        "test": "test_mix_experts_of_three_positions_is_the_sum_of_share_times_output",
        "says": "the result torch.float32",
    },
    {
        "name": "every row given to each chosen expert",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n    result = torch.zeros_like(x)\n"
        "    for expert in chosen.unique().tolist():\n"
        "        result += ((experts == expert) * shares).sum(1, keepdim=True) * run(expert, x)\n"
        "    return result\n",
        "test": "test_mix_experts_runs_each_chosen_expert_once_and_no_other",
        "says": "an expert gets the rows that chose it",
    },
    {
        "name": "outputs added up position by position",
        "week": 8,
        "file": "model/moe.py",
        "old": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))  # each choice back "
        "in its place, (P, k, D)\n    return (y * shares.unsqueeze(-1)).sum(dim=1)\n\n\nclass",
        "new": "    y = y.index_select(0, order.argsort()).unflatten(0, (-1, k))\n"
        "    return torch.stack([(row * share[:, None]).sum(dim=0) for row, share in zip(y, "
        "shares, strict=True)])\n\n\nclass",
        "test": "test_mix_experts_does_nothing_position_by_position",
        "says": "something is done position by position",
    },
    {
        "name": "the outputs added to the caller's x",
        "week": 8,
        "file": "model/moe.py",
        "old": "    k, chosen = experts.shape[1], experts.flatten()\n",
        "new": "    k, chosen = experts.shape[1], experts.flatten()\n    rows = x.clone()\n    x.zero_()\n"
        "    for expert in chosen.unique().tolist():\n"
        "        places, columns = (experts == expert).nonzero(as_tuple=True)\n"
        "        x[places] += shares[places, columns, None] * run(expert, rows[places])\n"
        "    return x\n",
        "test": "test_mix_experts_gives_an_expert_ids_as_plain_numbers",
        "says": "changed its argument x",
    },
]
