// Co-simulation: command streams through the RTL and the functional model, side by side in one process.
//
// The file holds many streams, each a line of settings followed by its items (stream.h):
//   stream NAME KEY=VALUE...
// with the keys (decimal numbers, all optional)
//   data       seed of the main memory's contents (fill_memory); 0 = zeros
//   latency, bandwidth, burst, reads, writes    of main memory (dram.h: latency, bytes_per_cycle, burst_bytes, depths)
//   stall      percentage of cycles in which memory keeps something waiting
//   gap        percentage of cycles in which the host offers nothing
//   seed       of stalls and gaps
//   base       first address of main memory, instead of the option's
//   power      seed of what registers and memories of the RTL hold before reset; 0 = zeros
//   setup      commands and fences at the start that write everything which could be undefined
// For a system, items behind a line `unit NUMBER` go to the accelerator with that number, from 0, side by side with those of
// the others; main memory is one. What memory holds must not depend on which of them is faster.
// Every stream starts with new devices: local memories are zero, as are all registers of the model. At its end both
// local memories are stored behind the main memory that streams use (store_local_memories), as the hardware offers no other
// way to look at them; the scratchpad and raw accumulator rows where these can be read, else scaled ones.
//
// One line a stream goes to standard output. When both sides judge it alike:
//   NAME same CYCLES COMMANDS DIGEST     legal, and so are all contents of memory; DIGEST: their CRC-32
//   NAME raced                           legal, but it races in main memory: contents are not compared
//   NAME refused CODE FUNCT RS1 RS2      illegal: the error's code and the command, hexadecimal but for the code
// and when they do not:
//   NAME verdict RTL | FUNCTIONAL        CODE FUNCT RS1 RS2, or `legal`
//   NAME stuck TEXT                      the RTL makes no progress
//   NAME fault TEXT                      the RTL uses memory that no command names and that does not exist
//   NAME handshake PORT                  a port inside the RTL took back or changed what it offered (handshakes.v)
//   NAME responses COUNT COUNT           of counter operations, RTL and functional (values depend on time)
//   NAME memory ADDRESS RTL FUNCTIONAL   the first differing byte of main memory
//   NAME local PLACE ROW COLUMN RTL FUNCTIONAL    PLACE is scratchpad, accumulator, or scaled:BITS (the scale's),
//                                                 in a system behind `unitNUMBER.`
// where RTL and FUNCTIONAL are the values as signed decimal numbers.
#pragma once
#include "options.h"

namespace baco {

// The contents of `bytes` bytes of memory for a seed, the same on every machine: byte i is the top byte of
// the splitmix64 output for state seed + i (Steele, Lea and Flood, OOPSLA 2014).
// `floats`: for elements in floating point; by the seed, some bits of each byte are then the same.
void fill_memory(uint8_t* memory, uint64_t bytes, uint64_t seed, bool floats);

// Runs all streams of options.cosim. Returns the exit code 0 whatever they show. Throws std::runtime_error for files that
// cannot be read or make no sense.
int cosimulate(const Options& options);

}  // namespace baco
