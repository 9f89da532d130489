// Numbers and lists as flags hold them. All throw InputError that names the flag.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moesim {

std::int64_t parse_whole(const std::string& flag, const std::string& text, std::int64_t min, std::int64_t max);
double parse_number(const std::string& flag, const std::string& text, double min, double max);
// "a,b" -> {"a", "b"}; empty pieces are errors.
std::vector<std::string> split_list(const std::string& flag, const std::string& text);

}  // namespace moesim
