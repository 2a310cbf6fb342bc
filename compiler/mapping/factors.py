"""Factors of whole numbers: primes and divisors."""

from __future__ import annotations

import functools

import numpy as np

from baco.common.portable import Ints


def prime_powers(number: int) -> list[tuple[int, int]]:
    """Prime factorisation as (prime, exponent), ascending; empty for 1."""
    found = []
    prime = 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    if number > 1:
        found.append((number, 1))
    return found


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> Ints:
    """All divisors, ascending."""
    products = np.ones(1, dtype=np.int64)
    for prime, exponent in prime_powers(number):
        products = np.outer(products, prime ** np.arange(exponent + 1)).ravel()
    return np.sort(products)
