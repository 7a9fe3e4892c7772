"""Checks of arguments at the edge: the rule, and what came in."""

from numbers import Integral, Real

import numpy as np


def check_choice(name, value, choices):
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in tuple(choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_number(name, value, low, *, inclusive=True, why=""):
    """Return `value` as a float, or raise ValueError unless it is a finite number >= (or >) `low`."""
    good = isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and np.isfinite(value)
    if not good or value < low or (value == low and not inclusive):
        raise ValueError(f"{name} must be a finite number {'>=' if inclusive else '>'} {low}, got {value!r}{why}")
    return float(value)


def check_count(name, value, low, *, why=""):
    """Return `value` as an int, or raise ValueError unless it is an integer >= `low`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer >= {low}, got {value!r}{why}")
    return int(value)


def check_pair(name, pair, *, why=""):
    """Return two numbers > 0 as a tuple of floats, or raise ValueError."""
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ValueError(f"{name} must be a pair of numbers > 0, got {pair!r}{why}")
    return tuple(check_number(name, number, 0, inclusive=False, why=why) for number in pair)


def check_probs(name, probs):
    """Return `probs` as a (K,) float64 array, or raise ValueError unless it is a distribution."""
    probs = np.asarray(probs, dtype=np.float64)
    if probs.ndim != 1 or probs.size < 2 or not (probs >= 0).all() or not abs(probs.sum() - 1) < 1e-6:
        raise ValueError(f"{name} must be a vector of K >= 2 probabilities that sum to 1, got {probs!r}")
    return probs / probs.sum()


def check_vector(name, values, shape=None):
    """Return `values` as a (K,) float64 array, or raise ValueError unless K >= 2 finite numbers (of that shape)."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size < 2 or shape not in (None, values.shape) or not np.isfinite(values).all():
        wanted = "at least 2" if shape is None else shape[0]
        raise ValueError(f"{name} must be a vector of {wanted} finite numbers, got {values!r}")
    return values


def check_shapes(**arrays):
    """Raise ValueError unless all arrays have one shape: nothing is broadcast without a word."""
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"these must have one shape: {', '.join(f'{n} {s}' for n, s in shapes.items())}")


def check_vocab(vocab):
    """Return `vocab` as a tuple, or raise ValueError unless it is at least two distinct, non-empty words."""
    words = () if isinstance(vocab, str) else tuple(vocab)
    if len(words) < 2 or len(set(words)) < len(words) or not all(isinstance(w, str) and w for w in words):
        raise ValueError(f"vocab must be a sequence of at least two distinct, non-empty words, got {vocab!r}")
    return words


def word_rewards(vocab, reward):
    """(K,) rewards of the words: the vowel rule (None), a function of the word, or K numbers."""
    if reward is None:
        return np.array([float(word[0].lower() in "aeiou") for word in vocab])
    values = [reward(word) for word in vocab] if callable(reward) else reward
    return check_vector("reward, one number per word,", values, (len(vocab),))
