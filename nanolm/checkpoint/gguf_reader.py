"""The library's reader of GGUF files, kept within the file: a length that a flipped bit has made is refused at once.

As it is, it takes what is behind the end for empty, so that an array of 2⁴⁰ bytes is read for ever into a growing list.
"""

from typing import Any

import numpy as np
from gguf import GGUFReader, GGUFValueType


class BoundedReader(GGUFReader):
    """Reads the header of a GGUF file; arrays of numbers come in one part, not in one a number.

    Raises:
        ValueError: something is longer than what is left of the file.
    """

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
        count, of = int(count), np.dtype(dtype)
        left = len(self.data) - offset
        if count * of.itemsize > left:
            raise ValueError(f"{count * of.itemsize} bytes are due at byte {offset}, and {max(0, left)} are left")
        return np.frombuffer(self.data, of.newbyteorder(override_order or self.byte_order), count, offset)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[GGUFValueType]]:
        if raw_type == GGUFValueType.ARRAY:
            kind, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
            number = self.gguf_scalar_to_np.get(GGUFValueType(int(kind[0])))
            if number is not None:
                values = self._get(orig_offs + 12, number, length[0])
                types = [GGUFValueType.ARRAY, GGUFValueType(int(kind[0]))]
                return 12 + values.nbytes, [kind, length, values], [2], types
        return super()._get_field_parts(orig_offs, raw_type)
