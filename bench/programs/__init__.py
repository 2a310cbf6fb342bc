"""Programs found by search: against the compiler and default tilings, and how a learned cost orders them."""
