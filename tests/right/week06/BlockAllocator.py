# %% ask forgiveness
class BlockAllocator:
    def allocate(self):
        try:
            block = self._free.pop()
        except IndexError:
            raise OutOfBlocks("none is free") from None
        self._references[block] += 1
        return block

    def share(self, block):
        if block not in range(self.n_blocks) or block in self._free:
            raise ValueError(f"block {block} is held by nobody")
        self._references[block] += 1

    def free(self, block):
        if block not in range(self.n_blocks) or block in self._free:
            raise ValueError(f"block {block} is held by nobody")
        self._references[block] -= 1
        if self._references[block] == 0:
            self._free.append(block)


# %% new lists in place of changed ones
class BlockAllocator:
    def allocate(self):
        if self.n_used == self.n_blocks:
            raise OutOfBlocks(self.n_blocks)
        *self._free, block = self._free
        self._references = [1 if i == block else count for i, count in enumerate(self._references)]
        return block

    def share(self, block):
        self._references = self._counted(block, +1)

    def free(self, block):
        self._references = self._counted(block, -1)
        if self._references[block] == 0:
            self._free = [*self._free, block]

    def _counted(self, block, change):
        if self.references(block) == 0:
            raise ValueError("this block is free")
        return [count + change * (i == block) for i, count in enumerate(self._references)]


# %% a helper outside the class, with a name that the engine has
def blocks_for(allocator, block):
    if block < 0 or block >= len(allocator._references):
        raise ValueError(f"no block {block}")
    if not allocator._references[block]:
        raise ValueError(f"block {block} is free")
    return allocator._references


class BlockAllocator:
    def allocate(self):
        if len(self._free) > 0:
            block = self._free[-1]
            del self._free[-1]
            self._references[block] = 1
            return block
        raise OutOfBlocks("wait until somebody ends")

    def share(self, block):
        blocks_for(self, block)[block] += 1

    def free(self, block):
        counts = blocks_for(self, block)
        if counts[block] > 1:
            counts[block] -= 1
            return
        counts[block] = 0
        self._free.extend([block])


# %% share and free are one change, with a print and an assertion
class BlockAllocator:
    def allocate(self):
        print("blocks free:", self.n_free)
        if not self.n_free:
            raise OutOfBlocks
        block = self._free.pop(-1)
        assert self._references[block] == 0
        self._references[block] = 1
        return block

    def _change(self, block, n):
        holders = self.references(block=block)
        if holders:
            self._references[block] = holders + n
        else:
            raise ValueError(f"block is {block}, which is free; it must be held")
        return self._references[block]

    def share(self, block):
        self._change(block, n=1)

    def free(self, block):
        if not self._change(block, n=-1):
            self._free += [block]
