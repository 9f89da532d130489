#include "tests/testkit/traces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace moesim::testkit {

std::string routing_data(const std::string& name) { return MOESIM_SOURCE_DIR "/tests/data/routing/" + name; }

std::string trace_file(const std::string& name, const std::string& bytes) {
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::string path = fmt::format("{}{}.{}-{}", testing::TempDir(), test->test_suite_name(), test->name(), name);
  if (name.ends_with(".npy") || name.ends_with(".npz")) {
    std::filesystem::remove(path.substr(0, path.size() - std::string(".npy").size()) + ".json");
  }
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string text_of(const RoutedTrace& trace) {
  std::string text;
  for (const TraceStep& step : trace.steps) {
    for (std::size_t layer = 0; layer < trace.layers.size(); ++layer) {
      text += fmt::format("{}.{}:", step.id, trace.layers[layer]);
      const RoutedBatch& batch = step.layers[layer];
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        const bool next_row = i > 0 && i % static_cast<std::size_t>(batch.topk) == 0;
        text += fmt::format("{} {}", next_row ? "," : "", batch.ids[i]);
      }
      text += "\n";
    }
  }
  return text;
}

std::string words(const std::vector<std::int64_t>& values, std::size_t word) {
  std::string bytes;
  for (const std::int64_t value : values) {
    for (std::size_t i = 0; i < word; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  return bytes;
}

std::string npy_text(const std::string& shape, const std::vector<std::int64_t>& values, std::size_t word) {
  const std::string header =
      fmt::format("{{'descr': '<i{}', 'fortran_order': False, 'shape': ({}), }}  \n", word, shape);
  return "\x93NUMPY" + words({1}, 2) + words({static_cast<std::int64_t>(header.size())}, 2) + header +
         words(values, word);
}

std::string base64(const std::string& bytes) {
  constexpr const char* kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 63U];
    }
  }
  return text;
}

}  // namespace moesim::testkit
