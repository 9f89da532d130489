// How many tokens prompts and outputs have.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/routing/random_stream.h"

namespace moesim {

struct LengthLaw {
  enum class Kind {
    kFixed,        // 512: always `first`
    kUniform,      // uniform:128..2048, whole numbers, both ends included
    kLognormal,    // lognormal:MEDIAN,SIGMA
    kExponential,  // exponential:MEAN
  };
  Kind kind = Kind::kFixed;
  double first = 1;   // tokens; least; median; mean
  double second = 0;  // most; sigma

  bool operator==(const LengthLaw&) const = default;
};

inline constexpr std::int64_t kMostLength = 10'000'000;  // what a law with a tail gives at most

// Throws InputError of the flag. A fixed length may be `least`; the others are at least 1 token.
LengthLaw parse_length_law(const std::string& text, const std::string& flag, std::int64_t least = 1);
std::string length_law_name(const LengthLaw& law);
// Rounded to a whole number, 1 at least but of a fixed length.
std::int64_t draw_length(const LengthLaw& law, RandomStream& stream);

}  // namespace moesim
