# %% the ceiling of a quotient
def weight_bytes(n_params, weight_bits=16):
    if n_params <= 0:
        raise ValueError("n_params must be above 0")
    if weight_bits <= 0:
        raise ValueError("weight_bits must be above 0")
    return math.ceil(weight_bits * n_params / 8)


# %% division upside down
def weight_bytes(n_params, weight_bits=16):
    require_positive(n_params=n_params, weight_bits=weight_bits)
    return -int(-n_params * weight_bits // 8)


# %% whole bytes and a started one
def weight_bytes(n_params, weight_bits=16):
    require_positive(n_params=n_params, weight_bits=weight_bits)
    whole, rest = divmod(n_params * weight_bits, 8)
    return int(whole) + (rest > 0)


# %% numpy, and a number of numpy's
def weight_bytes(n_params, weight_bits=16):
    for name, value in dict(n_params=n_params, weight_bits=weight_bits).items():
        if value <= 0:
            raise ValueError(f"{name} is {value}")
    return np.int64(np.ceil(n_params * weight_bits / 8))


# %% exact fractions
def weight_bytes(n_params, weight_bits=16):
    from fractions import Fraction

    require_positive(n_params=n_params, weight_bits=weight_bits)
    return math.ceil(Fraction(n_params) * Fraction(weight_bits) / 8)
