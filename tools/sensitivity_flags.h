// What a sensitivity study is asked: flags that `sensitivity` and `report` share.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/command_line.h"
#include "workloads/studies/sensitivity.h"

namespace moesim {

struct SensitivityFlags {
  std::optional<std::string> result;
  std::vector<std::string> ranges;

  void add(FlagSet& set);
  // Throws InputError where one of them was given, though `flag`, which they belong to, was not.
  void refuse_without(const std::string& flag) const;
  // Throws InputError.
  [[nodiscard]] SensitivityRequest request(const ConcurrencyRequest& base,
                                           const std::function<void(std::size_t, std::size_t)>& progress) const;
};

}  // namespace moesim
