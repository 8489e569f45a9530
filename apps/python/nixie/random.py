"""Random numbers that are functions of a key, a step and the element: the same on every machine and device."""

import operator

from . import _core
from ._creation import _device


class Key:
    """A stream of random numbers, by a seed and a name.

    >>> key = nixie.random.Key(7)
    >>> bool((nixie.random.uniform(key, 3) == nixie.random.uniform(key, 3)).all())
    True
    """

    def __init__(self, seed, name=""):
        if not hasattr(seed, "__index__") or not 0 <= operator.index(seed) < 2**64:
            raise ValueError(f"Key: the seed is {seed!r}, expected a whole number from 0 to 2**64 - 1")
        self.seed, self.name = operator.index(seed), name
        self.stream = _core.random_stream(self.seed, name)

    def named(self, name):
        """Another stream of the same seed.

        >>> nixie.random.Key(7).named("dropout")
        Key(7, 'dropout')
        """
        return Key(self.seed, f"{self.name}/{name}" if self.name else name)

    def __repr__(self):
        return f"Key({self.seed}, {self.name!r})"

    def __eq__(self, other):
        return isinstance(other, Key) and (self.seed, self.name) == (other.seed, other.name)

    def __hash__(self):
        return hash((self.seed, self.name))


def _drawn(op, key, shape, step, device):
    if device is None and hasattr(step, "device"):
        device = step.device
    return op(shape, (key if isinstance(key, Key) else Key(key)).stream, step, _device(device))


def uniform(key, shape=(), *, step=0, device=None):
    """Numbers in [0, 1), float32. `key` is a Key or a seed; each `step`, a number or an int32 array of no axes, gives
    others, also in a compiled function.

    >>> nixie.random.uniform(7, (2, 2)).shape
    (2, 2)
    """
    return _drawn(_core.uniform, key, shape, step, device)


def normal(key, shape=(), *, step=0, device=None):
    """Numbers of mean 0 and variance 1, float32; arguments as of `uniform`.

    >>> nixie.random.normal(7, 1000).mean().item() < 0.1
    True
    """
    return _drawn(_core.normal, key, shape, step, device)


def bernoulli(key, p=0.5, shape=(), *, step=0, device=None):
    """True with probability p; arguments as of `uniform`.

    >>> nixie.random.bernoulli(7, 1.0, 2).tolist()
    [True, True]
    """
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise ValueError(f"bernoulli: the probability is {p}, expected 0 to 1")
    return uniform(key, shape, step=step, device=device) < p


def integers(key, low, high, shape=(), *, step=0, device=None):
    """Whole numbers from low up to, not including, high, int32; arguments as of `uniform`.

    >>> nixie.random.integers(7, 5, 6, 3)
    array([5, 5, 5], dtype=int32)
    """
    if not low < high <= low + 2**24:
        raise ValueError(f"integers: from {low} to {high}, expected 1 to {2**24} numbers")
    return _core.cast(uniform(key, shape, step=step, device=device) * (high - low), _core.int32) + low
