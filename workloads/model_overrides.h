// Values of a model that the user states: in place of what its config says, or where the config lacks them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace moesim {

class ModelOverrides {
 public:
  ModelOverrides() = default;
  // Each "NAME=VALUE", a name once. Throws InputError (flag --model-override): unknown name (with the nearest), a value
  // of the wrong kind or out of range.
  explicit ModelOverrides(const std::vector<std::string>& assignments);

  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] std::optional<std::int64_t> whole(const std::string& name) const;
  [[nodiscard]] std::optional<bool> flag(const std::string& name) const;
  [[nodiscard]] std::optional<double> number(const std::string& name) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& name) const;

  // "hidden, intermediate, ...".
  static std::string names();

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace moesim
