# %% a slice for the limit, the happy path first
def begin_with_prefix(request, prefix):
    found = prefix.match(request.tokens[:-1])
    request.table.adopt(found)
    request.n_computed = len(found) * request.table.block_size
    request.n_remembered = len(found)
    needed = request.table.blocks_needed(request.n_pending)
    if needed <= prefix.blocks.n_free + prefix.n_evictable:
        if needed > prefix.blocks.n_free:
            prefix.evict(needed - prefix.blocks.n_free)
        request.n_prefix_tokens += request.n_computed
        return True
    request.table.release()
    request.n_computed, request.n_remembered = 0, 0
    return False


# %% nothing is touched before there is room
def begin_with_prefix(request, prefix):
    size = request.table.block_size
    blocks = prefix.match(tokens=request.tokens, limit=len(request.tokens) - 1)
    all_blocks = (len(request.tokens) + size - 1) // size
    missing = all_blocks - len(blocks) - prefix.blocks.n_free
    if missing > 0:
        if prefix.n_evictable < missing:
            for block in blocks:
                prefix.blocks.free(block)
            return False
        prefix.evict(missing)
    request.table.adopt(blocks)
    request.n_remembered = len(request.table.blocks)
    request.n_computed = size * request.n_remembered
    request.n_prefix_tokens = request.n_prefix_tokens + request.n_computed
    return True


# %% evicted one by one, a helper that gives back
def give_back(request):
    request.table.truncate(0)
    request.n_remembered = 0
    request.n_computed = 0


def begin_with_prefix(request, prefix):
    request.table.adopt(prefix.match(request.tokens, len(request.tokens) - 1))
    request.n_remembered = len(request.table.blocks)
    request.n_computed = request.table.length
    need = request.table.blocks_needed(n=request.n_pending)
    has_room = need - prefix.blocks.n_free <= prefix.n_evictable
    if not has_room:
        give_back(request)
    while has_room and prefix.blocks.n_free < need:
        prefix.evict(1)
    if has_room:
        request.n_prefix_tokens += request.table.length
    return has_room


# %% an error for the refusal, and what is left in finally
def begin_with_prefix(request, prefix):
    blocks = prefix.match(request.tokens, limit=max(0, len(request.tokens) - 1))
    request.table.adopt(blocks)
    room = False
    try:
        request.n_computed, request.n_remembered = request.table.length, len(blocks)
        free, needed = prefix.blocks.n_free, request.table.blocks_needed(request.n_pending)
        if needed - free > prefix.n_evictable:
            raise MemoryError
        if needed > free:
            print("evicting", needed - free)
            assert prefix.evict(needed - free) == needed - free
        room = True
    except MemoryError:
        request.n_computed = request.n_remembered = 0
    finally:
        if not room:
            request.table.release()
    request.n_prefix_tokens += request.n_computed
    return room
