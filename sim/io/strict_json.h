// The only JSON reader. Both modes refuse duplicate keys, wrong types, numbers out of range, truncation,
// nesting beyond 64 and files above 64 MiB. Our own files call only_keys() on every object, so that an unknown or
// misspelt key is an error; foreign files (config.json) do not, so unknown keys pass.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/input_error.h"

namespace moesim {

class JsonDocument;

// Python writes NaN, Infinity and -Infinity, which JSON does not have. Foreign files that Python wrote may hold them
// where nobody looks: kPython reads them as null, which is no number to whoever asks.
enum class JsonDialect { kStrict, kPython };

// A place in a document: knows its file and JSON pointer, so that each error names both.
// Valid while the document lives.
class JsonView {
 public:
  [[nodiscard]] const std::string& file() const;
  [[nodiscard]] const std::string& pointer() const { return pointer_; }

  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_array() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_bool() const;
  [[nodiscard]] bool is_null() const;

  // Objects. at(): missing key is an error. has(): present and not null.
  [[nodiscard]] JsonView at(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> keys() const;  // in file order
  void only_keys(const std::vector<std::string>& allowed) const;

  // Arrays.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] JsonView at(std::size_t index) const;

  // Scalars; bounds are inclusive. as_int accepts 2.0 but not 2.5, and no bool.
  [[nodiscard]] std::int64_t as_int(std::int64_t min, std::int64_t max) const;
  [[nodiscard]] double as_double(double min, double max) const;
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::string as_string() const;

  // "number 3.5", "string 'abc'", "an object": for messages.
  [[nodiscard]] std::string describe() const;
  [[noreturn]] void fail(const std::string& expected, const std::string& nearest = "") const;

 private:
  friend class JsonDocument;
  JsonView(const JsonDocument* document, const nlohmann::ordered_json* node, std::string pointer)
      : document_(document), node_(node), pointer_(std::move(pointer)) {}
  const JsonDocument* document_;
  const nlohmann::ordered_json* node_;
  std::string pointer_;
};

class JsonDocument {
 public:
  // `name` is what errors call the document. Throws InputError.
  static JsonDocument parse(std::string_view text, std::string name, JsonDialect dialect = JsonDialect::kStrict);
  static JsonDocument read_file(const std::string& path, JsonDialect dialect = JsonDialect::kStrict);
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  [[nodiscard]] JsonView root() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  JsonDocument(std::unique_ptr<nlohmann::ordered_json> tree, std::string name);
  std::unique_ptr<nlohmann::ordered_json> tree_;
  std::string name_;
};

// Whole file as bytes; InputError when it cannot be opened or read, is a directory, or exceeds `max_bytes`.
std::string read_text_file(const std::string& path, std::int64_t max_bytes);

}  // namespace moesim
