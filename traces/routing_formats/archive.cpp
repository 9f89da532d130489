#include "traces/routing_formats/archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr zip_int64_t kMostMembers = 4096;
constexpr std::string_view kNpy = ".npy";
constexpr std::string_view kPreferred[] = {"ids", "data"};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Member = std::unique_ptr<zip_file_t, Discard>;

[[noreturn]] void fail(const std::string& path, const std::string& where, const std::string& found,
                       const std::string& expected) {
  throw InputError({path, where, found, expected, ""});
}

Archive open_archive(const std::string& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string found = zip_error_strerror(&error);
  zip_error_fini(&error);
  fail(path, "", found, "a .npz archive");
}

std::vector<std::string> array_names(zip_t* archive, const std::string& path) {
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  if (count > kMostMembers) {
    fail(path, "", fmt::format("{} members", count), fmt::format("at most {} arrays", kMostMembers));
  }
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
    if (name == nullptr) continue;
    const std::string_view view = name;
    if (view.ends_with("data.pkl")) {
      fail(path, "", "a PyTorch archive", "a .npz archive (tools/sglang_recorder_to_routing converts SGLang's)");
    }
    if (view.ends_with(kNpy)) names.emplace_back(view.substr(0, view.size() - kNpy.size()));
  }
  return names;
}

std::string chosen_array(const std::vector<std::string>& names, const std::string& path) {
  if (names.size() == 1) return names.front();
  for (const std::string_view preferred : kPreferred) {
    if (std::find(names.begin(), names.end(), preferred) != names.end()) return std::string(preferred);
  }
  fail(path, "", names.empty() ? "no array" : fmt::format("arrays {}", fmt::join(names, ", ")),
       "one array, or one called 'ids' or 'data'");
}

std::string member_bytes(zip_t* archive, const std::string& name, const std::string& path) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(archive, name.c_str(), 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    fail(path, name, zip_strerror(archive), "a readable member");
  }
  if (std::cmp_greater(stat.size, kMostNpyBytes)) {
    fail(path, name, fmt::format("{} bytes unpacked", stat.size), fmt::format("at most {}", kMostNpyBytes));
  }
  const Member member(zip_fopen(archive, name.c_str(), 0));
  if (!member) fail(path, name, zip_strerror(archive), "a readable member");
  // One byte more than there is: only at the end does the library check the CRC.
  std::string bytes(static_cast<std::size_t>(stat.size) + 1, '\0');
  std::size_t read = 0;
  while (read < bytes.size()) {
    const zip_int64_t count = zip_fread(member.get(), bytes.data() + read, bytes.size() - read);
    if (count < 0) fail(path, name, zip_file_strerror(member.get()), "a member that unpacks");
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  if (read != stat.size) {
    fail(path, name,
         fmt::format("{}{} bytes", read > stat.size ? "more than " : "", std::min<zip_uint64_t>(read, stat.size)),
         fmt::format("{}, as the archive says", stat.size));
  }
  bytes.resize(read);
  return bytes;
}

}  // namespace

IntegerArray read_npz(const std::string& path) {
  const Archive archive = open_archive(path);
  const std::string name = chosen_array(array_names(archive.get(), path), path) + std::string(kNpy);
  return parse_npy(member_bytes(archive.get(), name, path), fmt::format("{}: {}", path, name));
}

std::string npz_bytes(const std::string& name, const std::string& npy) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const target = zip_source_buffer_create(nullptr, 0, 0, &error);
  MOESIM_CHECK(target != nullptr);
  zip_source_keep(target);  // zip_close gives up the archive's hold of it
  zip_t* const archive = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  MOESIM_CHECK(archive != nullptr);
  zip_source_t* const content = zip_source_buffer(archive, npy.data(), npy.size(), 0);
  const std::string member = name + std::string(kNpy);
  const zip_int64_t index = zip_file_add(archive, member.c_str(), content, ZIP_FL_ENC_UTF_8);
  MOESIM_CHECK(index >= 0);
  constexpr zip_uint16_t kDosTime = 0, kDosDate = 0x21;  // 1980-01-01: no clock in the bytes
  MOESIM_CHECK(zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), kDosTime, kDosDate, 0) == 0);
  MOESIM_CHECK(zip_close(archive) == 0);

  MOESIM_CHECK(zip_source_open(target) == 0);
  MOESIM_CHECK(zip_source_seek(target, 0, SEEK_END) == 0);
  std::string bytes(static_cast<std::size_t>(zip_source_tell(target)), '\0');
  MOESIM_CHECK(zip_source_seek(target, 0, SEEK_SET) == 0);
  MOESIM_CHECK(std::cmp_equal(zip_source_read(target, bytes.data(), bytes.size()), bytes.size()));
  zip_source_close(target);
  zip_source_free(target);
  return bytes;
}

}  // namespace moesim
