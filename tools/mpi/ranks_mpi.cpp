// Ranks over MPI: a library that moesim loads under mpirun.
#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which MPI has given up
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "tools/ranks.h"

namespace moesim {
namespace {

constexpr int kTag = 0;

class MpiRanks : public Ranks {
 public:
  MpiRanks() {
    int provided = 0;  // other threads compute and know nothing of MPI
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &on_host_);
    MPI_Comm_free(&host);
  }
  ~MpiRanks() override { MPI_Finalize(); }
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int on_this_host() const override { return on_host_; }

  void send(int to, const std::string& text) override {
    MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, kTag, MPI_COMM_WORLD);
  }

  std::optional<Message> poll() override {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return std::nullopt;
    int bytes = 0;
    MPI_Get_count(&status, MPI_CHAR, &bytes);
    Message message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(bytes), '\0')};
    MPI_Recv(message.text.data(), bytes, MPI_CHAR, message.from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return message;
  }

 private:
  int rank_ = 0, size_ = 1, on_host_ = 1;
};

}  // namespace
}  // namespace moesim

extern "C" __attribute__((visibility("default"))) moesim::Ranks* moesim_join_ranks() { return new moesim::MpiRanks(); }
