// Our accelerator's cycles without its Verilog: the functional model says what commands do, a model of the units says when.
#pragma once
#include <memory>

#include "engine.h"

namespace baco {

// Throws std::runtime_error for an accelerator with functions of rows or a normaliser, which this model lacks.
std::unique_ptr<Engine> make_timed_engine(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options);

}  // namespace baco
