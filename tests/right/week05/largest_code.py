# %% a shift, with its own refusal
def largest_code(bits):
    if isinstance(bits, bool) or not isinstance(bits, int) or not 2 <= bits <= 8:
        raise ValueError(f"bits is {bits!r}; whole numbers from 2 to 8 are allowed")
    return (1 << (bits - 1)) - 1


# %% a table
LARGEST_CODES = {2: 1, 3: 3, 4: 7, 5: 15, 6: 31, 7: 63, 8: 127}


def largest_code(bits):
    if type(bits) is not int or bits not in LARGEST_CODES:
        raise ValueError(f"there is no code of this many bits: {bits}")
    return LARGEST_CODES[bits]


# %% recursion
def largest_code(bits):
    require_count(2, bits=bits)
    if bits > 8:
        raise ValueError("bits must not be above 8")
    return 1 if bits == 2 else 2 * largest_code(bits - 1) + 1


# %% half of all patterns, as NumPy's number
import numpy as np


def largest_code(bits):
    """Half of the patterns, but for the middle one."""
    require_count(2, bits=bits)
    if bits >= 9:
        raise ValueError("at most 8 bits")
    patterns = np.int64(2) ** np.int64(bits)
    print("patterns:", patterns)
    return (patterns - 2) // 2


# %% what torch says of numbers of a byte, shifted down
def largest_code(bits):
    require_count(2, bits=bits)
    if not bits <= 8:
        raise ValueError("bits: 8 at most")
    return torch.iinfo(torch.int8).max >> (8 - int(bits))
