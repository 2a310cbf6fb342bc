"""What is illegal: one specification, from which the functional model's checks, the error codes of the hardware and the
reference documentation are written, and against which the hardware is tested.

`errors` lists the codes, `language` and `expression` are what rules are made of, `moves`, `products`, `loop_ws` and
`loop_conv` hold the rules, `check` applies them, `cpp` writes them as C++.
"""
