"""A host store for blocks whose contents are a text. It can be told to fail, as a device without memory does."""


class Shelf:
    """Keeps the contents of a few blocks.

    Attributes:
        contents: from device block to the text that its keys and values were computed from.
        n_good: calls of save and load that go well before each fails; None: all of them.
        error: what is raised then.
    """

    def __init__(self, contents, capacity):
        self.contents, self.capacity = contents, capacity
        self.copies, self.n_saved, self.n_good, self.error = {}, 0, None, RuntimeError

    def save(self, block):
        if len(self.copies) >= self.capacity:
            return None
        self._may_fail()
        self.n_saved += 1
        self.copies[self.n_saved] = self.contents[block]
        return self.n_saved

    def load(self, handle, block):
        self.contents[block] = "half of it"
        self._may_fail()
        self.contents[block] = self.copies[handle]

    def drop(self, handle):
        del self.copies[handle]

    def _may_fail(self):
        if self.n_good is not None:
            if not self.n_good:
                raise self.error("the device is out of memory")
            self.n_good -= 1
