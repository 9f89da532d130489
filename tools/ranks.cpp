#include "tools/ranks.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

std::optional<int> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [rest, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || rest != view.data() + view.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Launched> launched_ranks() {
  // Open MPI's mpirun; MPICH's, Intel's and Slurm's PMI.
  constexpr const char* kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank_name, size_name] : kVariables) {
    const std::optional<int> rank = variable(rank_name), size = variable(size_name);
    if (rank && size && *size > 1 && *rank >= 0 && *rank < *size) return Launched{*rank, *size};
  }
  return std::nullopt;
}

std::unique_ptr<Ranks> join_ranks(const Launched& launched) {
  const std::string found = fmt::format("{} processes by mpirun", launched.size);
#ifdef MOESIM_MPI_LIBRARY
  std::error_code error;
  const std::filesystem::path library =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / MOESIM_MPI_LIBRARY;
  // Open MPI's own plug-ins look for its symbols among everybody's.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    throw InputError({"sweep", "", fmt::format("{}, but {}", found, dlerror()),
                      fmt::format("{} beside moesim, and the MPI that it was built with", MOESIM_MPI_LIBRARY), ""});
  }
  using Join = Ranks*();
  auto* const join = reinterpret_cast<Join*>(dlsym(handle, "moesim_join_ranks"));
  std::unique_ptr<Ranks> ranks(join == nullptr ? nullptr : join());
  if (ranks == nullptr || ranks->size() != launched.size) {
    throw InputError({"sweep", "", found, "the mpirun of the MPI that moesim was built with", ""});
  }
  return ranks;
#else
  throw InputError({"sweep", "", found,
                    "one process: this moesim was built without MPI (install one, as libopenmpi-dev, and build again)",
                    ""});
#endif
}

}  // namespace moesim
