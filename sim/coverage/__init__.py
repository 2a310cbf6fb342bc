"""What of the Verilog random co-simulation reaches: lines, branches and bits, and circumstances of commands.

`points` names what can be reached, `waivers` says what cannot and why, `page` writes it down; `baco.exploration.coverage`
plays the streams.
"""
