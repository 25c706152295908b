# %% an index and slices
class RadixCache:
    def match(self, tokens, limit=None):
        if limit is None:
            limit = len(tokens)
        if limit < 0 or limit != int(limit):
            raise ValueError(f"limit is {limit}")
        now = next(self._clock)
        node, found, end = self.root, [], self.block_size
        while end <= min(limit, len(tokens)):
            child = node.children.get(tuple(tokens[end - self.block_size : end]))
            if child is None:
                break
            if child.block is None and not self._bring_back(child):
                break
            self.blocks.share(child.block)
            found.append(child.block)
            child.last_used = now
            node = child
            end += self.block_size
        self.statistics.n_lookups += 1
        self.statistics.n_looked_up_tokens += len(tokens)
        self.statistics.n_hit_tokens += end - self.block_size
        return found

    def insert(self, tokens, blocks):
        size = self.block_size
        if len(tokens) // size > len(blocks):
            raise ValueError(f"{len(blocks)} blocks are too few")
        now, node = next(self._clock), self.root
        mine = []
        for i in range(len(tokens) // size):
            key = tuple(tokens[i * size : (i + 1) * size])
            if key not in node.children:
                node.children[key] = Node(key, node)
            node = node.children[key]
            node.last_used = now
            if node.block is not None:
                mine.append(node.block)
                continue
            self.blocks.share(blocks[i])
            self._place(node, blocks[i])
            mine.append(blocks[i])
        return mine

    def evict(self, n):
        require_count(0, n=n)
        pinned, freed = [], 0
        while freed < n:
            leaf = self._device_leaves.pop()
            if leaf is None:
                break
            if self.blocks.references(leaf.block) == 1:
                self._move_out(leaf)
                freed += 1
            else:
                pinned.append(leaf)
        while pinned:
            self._device_leaves.add(pinned.pop())
        return freed


# %% recursion down the tree, a generator of evictions, local names for what is counted
class RadixCache:
    def match(self, tokens, limit=None):
        if limit is not None:
            require_count(0, limit=limit)
        keys = list(whole_blocks(tokens[:limit], self.block_size))
        found = self._down(self.root, keys, next(self._clock))
        s = self.statistics
        s.n_lookups, s.n_looked_up_tokens = s.n_lookups + 1, s.n_looked_up_tokens + len(tokens)
        s.n_hit_tokens += self.block_size * len(found)
        return found

    def _down(self, node, keys, now):
        if not keys or keys[0] not in node.children:
            return []
        child = node.children[keys[0]]
        if not self._bring_back(child):
            return []
        child.last_used = now
        self.blocks.share(child.block)
        return [child.block, *self._down(child, keys[1:], now)]

    def insert(self, tokens, blocks):
        keys = list(whole_blocks(tokens, self.block_size))
        if len(keys) > len(blocks):
            raise ValueError("blocks are too few")
        return self._put(self.root, keys, list(blocks), next(self._clock))

    def _put(self, node, keys, blocks, now):
        if not keys:
            return []
        (key, *keys), (block, *blocks) = keys, blocks
        child = node.children.get(key) or Node(key, node)
        node.children[key] = child
        child.last_used = now
        if child.block is None:
            self.blocks.share(block)
            self._place(child, block)
        return [child.block] + self._put(child, keys, blocks, now)

    def _evicted(self, pinned):
        while (leaf := self._device_leaves.pop()) is not None:
            if self.blocks.references(leaf.block) > 1:
                pinned.append(leaf)
            else:
                self._move_out(leaf)
                yield leaf

    def evict(self, n):
        require_count(0, n=n)
        pinned = []
        n_freed = sum(1 for _ in itertools.islice(self._evicted(pinned), n))
        list(map(self._device_leaves.add, pinned))
        return n_freed


# %% a helper with the engine's name that does its own
def whole_blocks(tokens, size):
    n = len(tokens) // size
    return [tuple(tokens[i * size : i * size + size]) for i in range(n)]


class RadixCache:
    def match(self, tokens, limit=None):
        limit = len(tokens) if limit is None else limit
        if not isinstance(limit, int) or limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        path = [self.root]
        now = next(self._clock)
        for key in whole_blocks(list(tokens)[:limit], self.block_size):
            node = path[-1].children.get(key)
            if node and self._bring_back(node):
                self.blocks.share(node.block)
                path.append(node)
            else:
                break
        blocks = []
        for node in path[1:]:
            node.last_used = now
            blocks.append(node.block)
        self.statistics.n_lookups += 1
        self.statistics.n_looked_up_tokens += len(tokens)
        self.statistics.n_hit_tokens += len(blocks) * self.block_size
        return blocks

    def insert(self, tokens, blocks):
        keys = whole_blocks(tokens, self.block_size)
        if len(blocks) < len(keys):
            raise ValueError(f"tokens fill {len(keys)} blocks, and there are {len(blocks)} blocks")
        now = next(self._clock)
        node = self.root
        result = []
        for i, key in enumerate(keys):
            child = node.children.get(key)
            if child is None:
                child = Node(key=key, parent=node, last_used=now)
                node.children[key] = child
            child.last_used = now
            if child.block is None:
                self._place(child, blocks[i])
                self.blocks.share(blocks[i])
            result.append(child.block)
            node = child
        return result

    def evict(self, n):
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"n must be 0 or more, not {n}")
        print("free before:", self.blocks.n_free)
        back = []
        try:
            for done in range(n):
                leaf = self._device_leaves.pop()
                while leaf is not None and self.blocks.references(leaf.block) > 1:
                    back.append(leaf)
                    leaf = self._device_leaves.pop()
                if leaf is None:
                    return done
                self._move_out(leaf)
            return n
        finally:
            for leaf in back:
                self._device_leaves.add(leaf)


# %% pinned one by one with a hand of one's own, blocks by zip
class RadixCache:
    def match(self, tokens, limit=None):
        size = self.block_size
        most = len(tokens) if limit is None else limit
        require_count(0, limit=most)
        now, at, taken = next(self._clock), self.root, ()
        for start in range(0, min(most, len(tokens)) // size * size, size):
            at = at.children.get(tuple(tokens[start : start + size]))
            if at is None or not self._bring_back(at):
                break
            at.last_used = now
            self.blocks.share(at.block)
            taken += (at.block,)
        for name, more in (("n_lookups", 1), ("n_looked_up_tokens", len(tokens)), ("n_hit_tokens", size * len(taken))):
            setattr(self.statistics, name, getattr(self.statistics, name) + more)
        return list(taken)

    def insert(self, tokens, blocks):
        now, node = next(self._clock), self.root
        whole = list(whole_blocks(tokens, self.block_size))
        if len(whole) > len(blocks):
            raise ValueError(f"len(blocks) is {len(blocks)} and should be {len(whole)}: too few blocks")
        nodes = []
        for key, block in zip(whole, blocks):
            try:
                node = node.children[key]
            except KeyError:
                node.children[key] = node = Node(key, node)
            nodes.append(node)
        for node, block in zip(nodes, blocks):
            node.last_used = now
            if node.block is None:
                self.blocks.share(block)
                self._place(node, block)
        return [node.block for node in nodes]

    def evict(self, n):
        require_count(0, n=n)
        before, pinned = self.blocks.n_free, []
        while self.blocks.n_free - before < n:
            leaf = self._device_leaves.pop()
            if not leaf:
                break
            held_by_others = self.blocks.references(leaf.block) != 1
            pinned.append(leaf) if held_by_others else self._move_out(leaf)
        for leaf in pinned[::-1]:
            self._device_leaves.add(leaf)
        return self.blocks.n_free - before
