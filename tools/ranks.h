// Processes that work together, as mpirun starts them. What MPI is stands in a library of its own (tools/mpi), which is
// loaded only where a launcher's variables say that there are several: without one nothing of MPI starts.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace moesim {

// Used by one thread.
class Ranks {
 public:
  struct Message {
    int from = 0;
    std::string text;
  };

  virtual ~Ranks() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int on_this_host() const = 0;  // ranks of them
  // Back once `text` may go.
  virtual void send(int to, const std::string& text) = 0;
  // A message that has arrived; does not wait. Those of one rank come in the order of their sending.
  virtual std::optional<Message> poll() = 0;
};

// What a launcher's variables say, without MPI. nullopt: no launcher, or one process alone.
struct Launched {
  int rank = 0, size = 0;
};
std::optional<Launched> launched_ranks();

// Throws InputError where moesim was built without MPI or the launcher is of another MPI.
std::unique_ptr<Ranks> join_ranks(const Launched& launched);

}  // namespace moesim
