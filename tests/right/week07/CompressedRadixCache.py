# %% an index along the keys
class CompressedRadixCache:
    def path(self, tokens, now):
        keys = list(whole_blocks(tokens, self.block_size))
        at, node, found = 0, self.root, []
        while at < len(keys):
            child = node.children.get(keys[at])
            if child is None:
                return found
            n = 1
            while n < len(child.keys) and at + n < len(keys) and child.keys[n] == keys[at + n]:
                n += 1
            node = child if n == len(child.keys) else self.split(child, n)
            node.last_used = now
            found.append(node)
            at += n
        return found

    def split(self, run, n):
        front = Run(keys=run.keys[:n], blocks=run.blocks[:n], parent=run.parent, last_used=run.last_used)
        front.children = {run.keys[n]: run}
        run.parent.children[run.keys[0]] = front
        del run.keys[:n]
        del run.blocks[:n]
        run.parent = front
        return front

    def insert(self, tokens, blocks):
        n_whole = len(tokens) // self.block_size
        if n_whole > len(blocks):
            raise ValueError(f"{n_whole} blocks are filled, {len(blocks)} were given")
        now = next(self._clock)
        parent, have = self.root, []
        for run in self.path(tokens, now):
            parent = run
            have.extend(run.blocks)
        if len(have) == n_whole:
            return have
        keys = list(whole_blocks(tokens, self.block_size))[len(have) :]
        fresh = [blocks[i] for i in range(len(have), n_whole)]
        for block in fresh:
            self.blocks.share(block)
        parent.children[keys[0]] = Run(keys, fresh, parent, now)
        self.leaves.add(parent.children[keys[0]])
        self.n_blocks += len(fresh)
        return have + fresh

    def evict(self, n):
        require_count(0, n=n)
        freed, aside = 0, []
        while freed < n:
            leaf = self.leaves.pop()
            if leaf is None:
                break
            if self.blocks.references(leaf.blocks[-1]) > 1:
                aside.append(leaf)
                continue
            self.blocks.free(leaf.blocks[-1])
            freed += 1
            self.n_blocks -= 1
            if len(leaf.blocks) > 1:
                del leaf.blocks[-1], leaf.keys[-1]
                self.leaves.add(leaf)
            else:
                del leaf.parent.children[leaf.keys[0]]
                self.leaves.add(leaf.parent)
        for leaf in aside:
            self.leaves.add(leaf)
        return freed


# %% recursion
class CompressedRadixCache:
    def path(self, tokens, now):
        return self._below(self.root, list(whole_blocks(tokens, self.block_size)), now)

    def _below(self, run, keys, now):
        child = run.children.get(keys[0]) if keys else None
        if child is None:
            return []
        n = n_equal(child.keys, keys)
        if n != len(child.keys):
            child = self.split(child, n)
        child.last_used = now
        return [child] + self._below(child, keys[n:], now)

    def split(self, run, n):
        above = run.parent
        front = Run([*run.keys[:n]], [*run.blocks[:n]], above, run.last_used, {run.keys[n]: run})
        above.children.update({run.keys[0]: front})
        run.keys, run.blocks = [*run.keys[n:]], [*run.blocks[n:]]
        run.parent = front
        return front

    def insert(self, tokens, blocks):
        keys = [*whole_blocks(tokens, self.block_size)]
        if len(blocks) < len(keys):
            raise ValueError("too few blocks")
        now = next(self._clock)
        runs = [self.root] + self.path(tokens, now=now)
        known = sum((run.blocks for run in runs), [])
        n = len(known)
        if n < len(keys):
            new = list(blocks)[n : len(keys)]
            list(map(self.blocks.share, new))
            last = Run(keys[n:], new, runs[-1], now)
            runs[-1].children[keys[n]] = last
            self.leaves.add(last)
            self.n_blocks += len(new)
            known += new
        return known

    def _shorten(self, leaf, n):
        """Free up to n blocks from the end of a leaf; return how many."""
        if n == 0 or not leaf.blocks or self.blocks.references(leaf.blocks[-1]) != 1:
            return 0
        self.blocks.free(leaf.blocks.pop())
        return 1 + self._shorten(leaf, n - 1)

    def evict(self, n):
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"n is {n}")
        total, kept = 0, []
        while total < n and (leaf := self.leaves.pop()):
            gone = self._shorten(leaf, n - total)
            total += gone
            if leaf.blocks:
                leaf.keys = leaf.keys[: len(leaf.blocks)]
                kept.append(leaf)
            else:
                leaf.parent.children.pop(leaf.keys[0])
                self.leaves.add(leaf.parent)
        for leaf in kept:
            self.leaves.add(leaf)
        self.n_blocks -= total
        return total


# %% a helper with the engine's name, deques
from collections import deque


def n_equal(run, keys):
    n = 0
    for mine, theirs in zip(run.keys, keys):
        if mine != theirs:
            return n
        n += 1
    return n


class CompressedRadixCache:
    def path(self, tokens, now):
        left = deque(whole_blocks(tokens, self.block_size))
        runs = [self.root]
        while left and left[0] in runs[-1].children:
            run = runs[-1].children[left[0]]
            n = n_equal(run, left)
            if n < len(run.keys):
                run = self.split(run, n)
            for _ in range(n):
                left.popleft()
            runs.append(run)
        for run in runs[1:]:
            run.last_used = now
        return runs[1:]

    def split(self, run, n):
        front = Run(parent=run.parent, last_used=run.last_used)
        front.keys, run.keys = run.keys[:n], run.keys[n:]
        front.blocks, run.blocks = run.blocks[:n], run.blocks[n:]
        run.parent.children[front.keys[0]] = front
        front.children[run.keys[0]] = run
        run.parent = front
        return front

    def insert(self, tokens, blocks):
        keys = list(whole_blocks(tokens, self.block_size))
        if len(keys) > len(blocks):
            raise ValueError(f"blocks: {len(blocks)}, wanted: {len(keys)}")
        now = next(self._clock)
        path = self.path(tokens, now)
        n = sum(len(run.keys) for run in path)
        above = ([self.root] + path)[-1]
        if n != len(keys):
            print("new:", keys[n:])
            new = Run(keys[n:], [], above, now)
            for block in blocks[n : len(keys)]:
                self.blocks.share(block)
                new.blocks.append(block)
            above.children[keys[n]] = new
            self.leaves.add(new)
            self.n_blocks += len(new.blocks)
            path = path + [new]
        return [block for run in path for block in run.blocks]

    def evict(self, n):
        require_count(0, n=n)
        left, before = [], self.n_blocks
        while before - self.n_blocks < n:
            leaf = self.leaves.pop()
            if leaf is None:
                break
            key = leaf.keys[0]
            while leaf.blocks and before - self.n_blocks < n:
                last = leaf.blocks[-1]
                if self.blocks.references(last) > 1:
                    break
                self.blocks.free(last)
                leaf.blocks.pop(), leaf.keys.pop()
                self.n_blocks -= 1
            if leaf.blocks:
                left.append(leaf)
            else:
                del leaf.parent.children[key]
                self.leaves.add(leaf.parent)
        while left:
            self.leaves.add(left.pop(0))
        return before - self.n_blocks


# %% how much of a leaf can go is counted before any goes
class CompressedRadixCache:
    def path(self, tokens, now):
        keys = list(whole_blocks(tokens, self.block_size))
        node, found, start = self.root, [], 0
        for _ in range(len(keys)):
            if start == len(keys) or keys[start] not in node.children:
                break
            node = node.children[keys[start]]
            common = n_equal(node.keys, keys[start:])
            node = self.split(node, common) if common < len(node.keys) else node
            node.last_used = now
            found += [node]
            start += common
        return found

    def split(self, run, n):
        first, last_used, parent = run.keys[0], run.last_used, run.parent
        front = Run(list(run.keys[:n]), list(run.blocks[:n]), parent, last_used)
        run.keys = run.keys[n:]
        run.blocks = run.blocks[n:]
        front.children[run.keys[0]] = run
        run.parent = front
        parent.children[first] = front
        return front

    def insert(self, tokens, blocks):
        filled = len(tokens) // self.block_size
        if len(blocks) < filled:
            raise ValueError(f"{filled - len(blocks)} blocks are missing")
        now = next(self._clock)
        found = self.path(list(tokens), now)
        known = list(itertools.chain.from_iterable(run.blocks for run in found))
        tail = list(blocks[len(known) : filled])
        if not tail:
            return known
        keys = list(whole_blocks(tokens, self.block_size))[len(known) :]
        above = found[-1] if found else self.root
        run = Run(keys, tail[:], above, now)
        above.children[keys[0]] = run
        for block in run.blocks:
            self.blocks.share(block)
        self.n_blocks = self.n_blocks + len(tail)
        self.leaves.add(run)
        return known + tail

    def evict(self, n):
        require_count(0, n=n)
        freed, back = 0, []
        leaf = self.leaves.pop() if n else None
        while leaf is not None:
            single = list(itertools.takewhile(lambda block: self.blocks.references(block) == 1, reversed(leaf.blocks)))
            going = single[: n - freed]
            for block in going:
                self.blocks.free(block)
            freed += len(going)
            stay = len(leaf.blocks) - len(going)
            if stay == 0:
                del leaf.parent.children[leaf.keys[0]]
                self.leaves.add(leaf.parent)
            else:
                leaf.keys, leaf.blocks = leaf.keys[:stay], leaf.blocks[:stay]
                back.append(leaf)
            leaf = self.leaves.pop() if freed < n else None
        for leaf in back:
            self.leaves.add(leaf)
        self.n_blocks -= freed
        return freed
