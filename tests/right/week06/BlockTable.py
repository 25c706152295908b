# %% divmod and position by position
class BlockTable:
    def slot_mapping(self, start, stop):
        if start < 0 or stop < start or stop > self.length:
            raise ValueError(f"positions {start} to {stop} are not all reserved")
        slots = []
        for position in range(start, stop):
            number, place = divmod(position, self.block_size)
            slots.append(self.blocks[number] * self.block_size + place)
        return slots

    def append(self, n):
        if n < 0:
            raise ValueError(f"n is {n}, below 0")
        if self.blocks_needed(n) > self.allocator.n_free:
            raise OutOfBlocks("not enough blocks")
        copies = []
        for i in range(n):
            if self.length % self.block_size == 0:
                self.blocks.append(self.allocator.allocate())
            elif i == 0 and self.allocator.references(self.blocks[-1]) > 1:
                old = self.blocks.pop()
                self.blocks.append(self.allocator.allocate())
                self.allocator.free(old)
                copies.append((old, self.blocks[-1]))
            self.length += 1
        return copies

    def fork(self):
        twin = BlockTable(self.allocator, self.block_size)
        for block in self.blocks:
            twin.blocks.append(block)
            self.allocator.share(block)
        twin.length = self.length
        return twin


# %% NumPy, and a copy of the object
import copy

import numpy as np


class BlockTable:
    def slot_mapping(self, start, stop):
        if not (0 <= start <= stop <= self.length):
            raise ValueError("these positions are not reserved")
        positions = np.arange(start, stop)
        table = np.array(self.blocks, dtype=int)
        return (table[positions // self.block_size] * self.block_size + positions % self.block_size).tolist()

    def append(self, n):
        require_count(0, n=n)
        copies, in_last = [], self.length % self.block_size
        copy_first = n > 0 and in_last != 0 and self.allocator.references(self.blocks[-1]) != 1
        n_blocks = int(np.ceil((self.length + n) / self.block_size))
        n_new = max(0, n_blocks - len(self.blocks))
        if n_new + int(copy_first) > self.allocator.n_free:
            raise OutOfBlocks(f"{n_new} new blocks, {self.allocator.n_free} free")
        if copy_first:
            copies = [(self.blocks[-1], self.allocator.allocate())]
            self.allocator.free(self.blocks[-1])
            self.blocks[-1] = copies[0][1]
        self.blocks.extend(self.allocator.allocate() for _ in range(n_new))
        self.length += n
        return copies

    def fork(self):
        twin = copy.copy(self)
        twin.blocks = self.blocks[:]
        for block in twin.blocks:
            twin.allocator.share(block)
        return twin


# %% take and give back
class BlockTable:
    def slot_mapping(self, start, stop):
        if stop > self.length or start > stop or start < 0:
            raise ValueError(f"positions {start} … {stop - 1}: reserved are {self.length}")
        size = self.block_size
        places = [place for block in self.blocks for place in range(block * size, (block + 1) * size)]
        return places[start:stop]

    def append(self, n):
        if n < 0:
            raise ValueError(f"n = {n}")
        taken = []
        try:
            for _ in range(self.blocks_needed(n)):
                taken.append(self.allocator.allocate())
        except OutOfBlocks:
            while taken:
                self.allocator.free(taken.pop())
            raise
        copies = []
        if self._must_copy(n):
            shared = self.blocks.pop()
            copies.append((shared, taken[0]))
            self.allocator.free(shared)
        self.blocks.extend(taken)
        self.length = self.length + n
        return copies

    def fork(self):
        twin = type(self)(self.allocator, block_size=self.block_size)
        twin.blocks = [self._shared(block) for block in self.blocks]
        twin.length = self.length
        return twin

    def _shared(self, block):
        self.allocator.share(block)
        return block


# %% whole blocks at a time, adopt, early returns, recursion
def slots(table, start, stop):
    if start == stop:
        return []
    size = table.block_size
    end = min(stop, (start // size + 1) * size)
    first = table.blocks[start // size] * size + start % size
    return list(range(first, first + end - start)) + slots(table, end, stop)


class BlockTable:
    def slot_mapping(self, start, stop):
        if any(not 0 <= position < self.length for position in range(start, stop)) or stop < start:
            raise ValueError(f"start is {start} and stop is {stop}; {self.length} are reserved")
        return slots(self, start, stop)

    def append(self, n):
        require_count(0, n=n)
        if n == 0:
            return []
        if self.allocator.n_free < self.blocks_needed(n):
            raise OutOfBlocks(self.blocks_needed(n))
        copies = self._own() if self._must_copy(n) else []
        self.length += n
        missing = blocks_for(self.length, self.block_size) - len(self.blocks)
        for _ in range(missing):
            self.blocks += [self.allocator.allocate()]
        return copies

    def _own(self):
        own, shared = self.allocator.allocate(), self.blocks[-1]
        self.allocator.free(shared)
        self.blocks[-1:] = [own]
        return [(shared, own)]

    def fork(self):
        twin = BlockTable(self.allocator, self.block_size)
        twin.adopt(self.blocks)
        twin.length = self.length
        for i in range(len(self.blocks)):
            self.allocator.share(self.blocks[i])
        return twin
