// Refusing a value of a config.json in the reader's own words.
#pragma once

#include <string>

#include "sim/io/strict_json.h"

namespace moesim {

[[noreturn]] inline void refuse(const JsonView& view, std::string found, std::string expected,
                                std::string nearest = "") {
  throw InputError({.file = view.file(),
                    .where = view.pointer(),
                    .found = std::move(found),
                    .expected = std::move(expected),
                    .nearest = std::move(nearest)});
}

}  // namespace moesim
