"""The styles of the loop macros LOOP_WS and LOOP_CONV_WS, and the cycles they take."""
