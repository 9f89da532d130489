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

  // Replaces what is stated under this name, or adds it.
  static void set(std::vector<std::string>& assignments, const std::string& name, const std::string& value);

  // "hidden, intermediate, ...".
  static std::string names();
  static std::vector<std::string> fields();
  enum class FieldKind { kWhole, kNumber, kText };
  static FieldKind field_kind(const std::string& name);  // of one of fields()

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace moesim
