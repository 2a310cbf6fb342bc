// A model of the original Gemmini, cycle by cycle, behind the face of an engine: results are those of the functional
// model, cycles those of the units that the other files named gemmini_* model.
#pragma once
#include <memory>

#include "engine.h"
#include "gemmini_bus.h"

namespace baco {

std::unique_ptr<Engine> make_gemmini_engine(const Config& config, Memory& memory, CommandLog& log,
                                            const GemminiBusOptions& bus);

}  // namespace baco
