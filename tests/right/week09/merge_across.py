# %% gathered along a tree, told back along it
def merge_across(state, peers):
    children, step = [], 1
    while peers.rank % (2 * step) == 0 and step < peers.size:
        if peers.rank + step < peers.size:
            state = merge(state, peers.receive(peers.rank + step))
            children.append(peers.rank + step)
        step *= 2
    if peers.rank:
        peers.send(state, peers.rank - step)
        state = peers.receive(peers.rank - step)
    for child in reversed(children):
        peers.send(state, child)
    return state


# %% recursion over halves
def merge_across(state, peers):
    n = 1 << (peers.size.bit_length() - 1)
    extra = peers.size - n

    def exchange(state, distance):
        if distance == n:
            return state
        partner = peers.rank ^ distance
        peers.send(state, partner)
        theirs = peers.receive(partner)
        return exchange(merge(state, theirs), 2 * distance)

    if peers.rank >= n:
        peers.send(state, peers.rank - n)
        return peers.receive(peers.rank - n)
    if peers.rank < extra:
        state = merge(state, peers.receive(peers.rank + n))
    state = exchange(state, 1)
    if peers.rank < extra:
        peers.send(state, peers.rank + n)
    return state


# %% neighbours paired first, as MPICH has it
def merge_across(state, peers):
    rank, n = peers.rank, 2 ** int(math.log2(peers.size))
    rest = peers.size - n
    if rank < 2 * rest:
        if rank % 2 == 0:
            peers.send(state, to=rank + 1)
            return peers.receive(source=rank + 1)
        state = merge(peers.receive(source=rank - 1), state)
        place = rank // 2
    else:
        place = rank - rest
    bit = 1
    while bit < n:
        other = place ^ bit
        partner = 2 * other + 1 if other < rest else other + rest
        peers.send(state, to=partner)
        state = merge(state, peers.receive(source=partner))
        bit <<= 1
    if rank < 2 * rest:
        peers.send(state, to=rank - 1)
    return state


# %% the far partners first, an early return
def merge_across(state, peers):
    if peers.size == 1:
        return state
    n = 1
    while n * 2 <= peers.size:
        n = n * 2
    speaker, guest = peers.rank % n, peers.rank + n
    if peers.rank >= n:
        peers.send(state, speaker)
        return peers.receive(speaker)
    if guest < peers.size:
        state = merge(one=state, other=peers.receive(guest))
    for distance in (n >> i for i in range(1, n.bit_length())):
        partner = peers.rank ^ distance
        peers.send(state, partner)
        received = peers.receive(partner)
        low, high = (state, received) if peers.rank < partner else (received, state)
        state = merge(low, high)
    if guest < peers.size:
        peers.send(state, guest)
    return state
