#include "sim/io/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unordered_set>
#include <utility>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 64;
constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;
constexpr std::size_t kMaxQuotedBytes = 60;
constexpr double kTwoTo63 = 9223372036854775808.0;

// RFC 6901: '~' and '/' of a key are written ~0 and ~1.
std::string child_pointer(const std::string& parent, std::string_view key) {
  std::string pointer = parent + "/";
  for (const char c : key) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

std::string child_pointer(const std::string& parent, std::size_t index) { return fmt::format("{}/{}", parent, index); }

// In quotes, long text cut between two characters of UTF-8.
std::string in_quotes(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) return fmt::format("'{}'", text);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  std::size_t end = kMaxQuotedBytes;
  while (end > 0 && continues(text[end])) --end;
  return fmt::format("'{}...'", text.substr(0, end));
}

// Line and column (in bytes), both from 1, of the byte at `offset`.
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_start = line_end == std::string_view::npos ? 0 : line_end + 1;
  return fmt::format("line {}, column {}", line, before.size() - line_start + 1);
}

// Builds the tree and refuses what nlohmann's own builder lets pass: duplicate keys (it keeps the last), integers
// beyond 64 bits (it makes them doubles), any depth.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }

  bool number_float(number_float_t value, const string_t& token) override {
    if (token.find_first_of(".eE") == string_t::npos) {
      fail(child(), "integer " + in_quotes(token), "an integer of at most 64 bits");
    }
    return add(value);
  }

  bool start_object(std::size_t /*unknown*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*unknown*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key = name;
    if (!level.seen.insert(name).second) fail(child(), "key " + in_quotes(name) + " a second time", "each key once");
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;  // nlohmann's id of the one error that is not about syntax
    if (error.id == kNumberOverflow) fail(child(), "number " + in_quotes(token), "a number that a double can hold");
    fail_at(position, error.what());
  }

 private:
  struct Level {
    Json* node;
    std::string key;                       // objects: the one being read
    std::unordered_set<std::string> seen;  // objects: all so far
  };

  // Appends without the linear search of ordered_json's operator[]: key() has seen to it that the key is new.
  Json* insert(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.node->is_array()) {
      auto& elements = level.node->get_ref<Json::array_t&>();
      return &elements.emplace_back(std::move(value));
    }
    auto& members = level.node->get_ref<Json::object_t&>();
    return &members.emplace_back(level.key, std::move(value)).second;
  }

  bool add(Json value) {
    insert(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (levels_.size() == kMaxDepth) {
      fail(child(), "deeper nesting", fmt::format("at most {} levels", kMaxDepth));
    }
    levels_.push_back({insert(std::move(container)), {}, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  // Pointer of the value that comes next.
  [[nodiscard]] std::string child() const {
    std::string pointer;
    const auto step = [&pointer](const Level& level, std::size_t index) {
      pointer = level.node->is_array() ? child_pointer(pointer, index) : child_pointer(pointer, level.key);
    };
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      // A container that is open is the last element of its parent already.
      const bool innermost = i + 1 == levels_.size();
      step(levels_[i], levels_[i].node->size() - (innermost ? 0 : 1));
    }
    return pointer;
  }

  [[noreturn]] void fail(const std::string& where, const std::string& found, const std::string& expected) const {
    throw InputError({name_, where, found, expected, ""});
  }

  // nlohmann's message reads "... parsing value - unexpected X; expected Y" or "... - REASON; last read: 'TEXT'...".
  [[noreturn]] void fail_at(std::size_t position, std::string_view message) const {
    constexpr std::string_view kReason = " - ", kUnexpected = "unexpected ", kExpected = "; expected ";
    const std::size_t reason = message.find(kReason);
    std::string_view found = reason == std::string_view::npos ? message : message.substr(reason + kReason.size());
    std::string_view expected = "valid JSON";
    if (const std::size_t last_read = found.find("; last read: "); last_read != std::string_view::npos) {
      found = found.substr(0, last_read);
    } else if (const std::size_t split = found.find(kExpected); split != std::string_view::npos) {
      expected = found.substr(split + kExpected.size());
      found = found.substr(0, split);
    }
    if (found.substr(0, kUnexpected.size()) == kUnexpected) found.remove_prefix(kUnexpected.size());
    const std::size_t offset = std::min(position == 0 ? 0 : position - 1, text_.size());
    fail(line_and_column(text_, offset), std::string(found), std::string(expected));
  }

  std::string_view text_;
  const std::string& name_;
  Json root_;
  std::vector<Level> levels_;
};

// The text with null for each NaN, Infinity and -Infinity outside of strings. Padded, so that errors keep their place
// (after a NaN on the same line they are one column late).
std::string without_non_finite(std::string_view text) {
  constexpr std::array<std::string_view, 3> kNonFinite = {"-Infinity", "Infinity", "NaN"};
  constexpr std::string_view kNull = "null";
  std::string result;
  result.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto word = std::find_if(kNonFinite.begin(), kNonFinite.end(), [&](std::string_view candidate) {
      return !in_string && text.substr(i, candidate.size()) == candidate;
    });
    if (word != kNonFinite.end()) {
      result += kNull;
      result.append(std::max(word->size(), kNull.size()) - kNull.size(), ' ');
      i += word->size();
      continue;
    }
    const bool escape = in_string && text[i] == '\\' && i + 1 < text.size();
    if (text[i] == '"') in_string = !in_string;
    result += text.substr(i, escape ? 2 : 1);
    i += escape ? 2 : 1;
  }
  return result;
}

std::string integer_range(std::int64_t min, std::int64_t max) {
  const bool any_min = min == std::numeric_limits<std::int64_t>::min();
  const bool any_max = max == std::numeric_limits<std::int64_t>::max();
  if (any_min && any_max) return "an integer";
  if (any_max) return fmt::format("an integer of at least {}", min);
  if (any_min) return fmt::format("an integer of at most {}", max);
  return fmt::format("an integer from {} to {}", min, max);
}

std::string number_range(double min, double max) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (min <= -kLargest && max >= kLargest) return "a number";
  if (max >= kLargest) return fmt::format("a number of at least {}", min);
  if (min <= -kLargest) return fmt::format("a number of at most {}", max);
  return fmt::format("a number from {} to {}", min, max);
}

// The integer that `node` holds, if it is one and fits.
bool to_integer(const Json& node, std::int64_t& value) {
  if (node.is_number_unsigned()) {
    const auto unsigned_value = node.get<std::uint64_t>();
    value = static_cast<std::int64_t>(unsigned_value);
    return std::in_range<std::int64_t>(unsigned_value);
  }
  if (node.is_number_integer()) {
    value = node.get<std::int64_t>();
    return true;
  }
  if (!node.is_number_float()) return false;
  const auto real = node.get<double>();
  if (std::trunc(real) != real || real < -kTwoTo63 || real >= kTwoTo63) return false;
  value = static_cast<std::int64_t>(real);
  return true;
}

}  // namespace

const std::string& JsonView::file() const { return document_->name(); }

bool JsonView::is_object() const { return node_->is_object(); }
bool JsonView::is_array() const { return node_->is_array(); }
bool JsonView::is_string() const { return node_->is_string(); }
bool JsonView::is_number() const { return node_->is_number(); }
bool JsonView::is_bool() const { return node_->is_boolean(); }
bool JsonView::is_null() const { return node_->is_null(); }

JsonView JsonView::at(std::string_view key) const {
  if (!is_object()) fail(fmt::format("an object with key '{}'", key));
  const auto member = node_->find(key);
  if (member == node_->end()) {
    const std::string near = nearest_name(key, keys());
    const std::string found = fmt::format("no key '{}'{}", key, near.empty() ? "" : " (but " + in_quotes(near) + ")");
    throw InputError({file(), pointer_, found, fmt::format("an object with key '{}'", key), ""});
  }
  return {document_, &*member, child_pointer(pointer_, key)};
}

bool JsonView::has(std::string_view key) const {
  if (!is_object()) fail("an object");
  const auto member = node_->find(key);
  return member != node_->end() && !member->is_null();
}

std::vector<std::string> JsonView::keys() const {
  if (!is_object()) fail("an object");
  std::vector<std::string> names;
  names.reserve(node_->size());
  for (const auto& member : node_->get_ref<const Json::object_t&>()) names.push_back(member.first);
  return names;
}

void JsonView::only_keys(const std::vector<std::string>& allowed) const {
  for (const std::string& key : keys()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    const std::string expected = allowed.empty() ? "no keys" : fmt::format("one of {}", fmt::join(allowed, ", "));
    throw InputError(
        {file(), child_pointer(pointer_, key), "unknown key " + in_quotes(key), expected, nearest_name(key, allowed)});
  }
}

std::size_t JsonView::size() const {
  if (!is_array()) fail("an array");
  return node_->size();
}

JsonView JsonView::at(std::size_t index) const {
  if (index >= size()) {
    throw InputError({file(), pointer_, fmt::format("an array of {}", size()),
                      fmt::format("an array of at least {}", index + 1), ""});
  }
  return {document_, &(*node_)[index], child_pointer(pointer_, index)};
}

std::int64_t JsonView::as_int(std::int64_t min, std::int64_t max) const {
  std::int64_t value = 0;
  if (!to_integer(*node_, value) || value < min || value > max) fail(integer_range(min, max));
  return value;
}

double JsonView::as_double(double min, double max) const {
  if (!is_number()) fail(number_range(min, max));
  const auto value = node_->get<double>();
  if (!(value >= min && value <= max)) fail(number_range(min, max));
  return value;
}

bool JsonView::as_bool() const {
  if (!is_bool()) fail("true or false");
  return node_->get<bool>();
}

std::string JsonView::as_string() const {
  if (!is_string()) fail("a string");
  return node_->get<std::string>();
}

std::string JsonView::describe() const {
  if (is_object()) return "an object";
  if (is_array()) return "an array";
  if (is_string()) return "string " + in_quotes(node_->get_ref<const std::string&>());
  if (is_number()) return "number " + node_->dump();
  return node_->dump();  // true, false, null
}

void JsonView::fail(const std::string& expected, const std::string& nearest) const {
  throw InputError({file(), pointer_, describe(), expected, nearest});
}

JsonDocument JsonDocument::parse(std::string_view text, std::string name, JsonDialect dialect) {
  std::string rewritten;
  if (dialect == JsonDialect::kPython) text = rewritten = without_non_finite(text);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw InputError({std::move(name), "", "empty text", "a JSON value", ""});
  }
  // nlohmann takes a zero byte for the end of the text and would not look at what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw InputError({std::move(name), line_and_column(text, zero), "a zero byte", "valid JSON", ""});
  }
  TreeBuilder builder(text, name);
  Json::sax_parse(text.begin(), text.end(), &builder);  // each failure throws
  return {std::make_unique<Json>(builder.take()), std::move(name)};
}

JsonDocument JsonDocument::read_file(const std::string& path, JsonDialect dialect) {
  return parse(read_text_file(path, kMaxFileBytes), path, dialect);
}

JsonDocument::JsonDocument(std::unique_ptr<Json> tree, std::string name)
    : tree_(std::move(tree)), name_(std::move(name)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonView JsonDocument::root() const { return {this, tree_.get(), ""}; }

std::string read_text_file(const std::string& path, std::int64_t max_bytes) {
  const auto fail = [&path](const std::string& found, const std::string& expected) {
    throw InputError({path, "", found, expected, ""});
  };
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) fail(std::generic_category().message(errno), "a readable file");

  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (std::cmp_greater(text.size(), max_bytes)) {
      fail(fmt::format("more than {} bytes", max_bytes), fmt::format("a file of at most {} bytes", max_bytes));
    }
  }
  if (std::ferror(file.get()) != 0)
    fail(std::generic_category().message(errno), "a readable file");  // a directory, too
  return text;
}

}  // namespace moesim
