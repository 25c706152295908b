# %% all bits of a group, divided by its weights
def bits_per_weight(bits, group_size, scale_bits=16):
    largest_code(bits)
    require_count(1, group_size=group_size)
    require_count(0, scale_bits=scale_bits)
    return (group_size * bits + scale_bits) / group_size


# %% own refusals, one after the other
def is_whole(x):
    return not isinstance(x, bool) and x == int(x)


def bits_per_weight(bits, group_size, scale_bits=16):
    if not is_whole(bits) or not 2 <= bits <= 8:
        raise ValueError("bits must be a whole number from 2 to 8")
    if not is_whole(group_size) or group_size < 1:
        raise ValueError("group_size must be 1 or more")
    if not is_whole(scale_bits) or scale_bits < 0:
        raise ValueError("scale_bits must be 0 or more")
    return bits + scale_bits / group_size


# %% an exact fraction
from fractions import Fraction


def bits_per_weight(bits, group_size, scale_bits=16):
    largest_code(bits=bits)
    require_count(1, group_size=group_size)
    require_count(0, scale_bits=scale_bits)
    return float(bits + Fraction(int(scale_bits), int(group_size)))


# %% added up weight by weight
def bits_per_weight(bits, group_size, scale_bits=16):
    q = largest_code(bits)
    require_count(1, group_size=group_size)
    require_count(0, scale_bits=scale_bits)
    total = scale_bits
    for _ in range(int(group_size)):
        total += (2 * q + 1).bit_length()
    return total / group_size
