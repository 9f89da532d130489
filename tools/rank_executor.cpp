// Messages: a letter and what follows.
//   to the first rank:  H REQUEST   here, with this to make        R NUMBER TEXT   made       E TEXT   failed
//                       W COUNT     so many more are welcome        B             leaving
//   to the others:      M NUMBER    make it                        D               done: leave
#include "tools/rank_executor.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "tools/interrupt.h"

namespace moesim {
namespace {

// Messages are looked for so often: waiting inside MPI would keep a core busy.
constexpr std::chrono::milliseconds kPause{1};
// Numbers that a rank holds for each of its threads: one to make, one for when that is made.
constexpr std::size_t kHeldPerThread = 2;

enum class Letter : char {
  kHere = 'H',
  kMade = 'R',
  kFailed = 'E',
  kWelcome = 'W',
  kBye = 'B',
  kMake = 'M',
  kDone = 'D'
};

std::string message(Letter letter, const std::string& text = "") { return static_cast<char>(letter) + text; }

// "12 ..." -> 12; what follows the space stays in `text`.
std::size_t take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  MOESIM_CHECK(error == std::errc());
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return number;
}

// Threads that make pieces while the one that owns them looks after messages.
class Makers {
 public:
  Makers(std::size_t threads, std::function<std::string(std::size_t)> make)
      : limit_(tbb::global_control::max_allowed_parallelism, threads + 1),
        arena_(static_cast<int>(threads), 0),
        make_(std::move(make)) {}
  Makers(const Makers&) = delete;
  Makers& operator=(const Makers&) = delete;
  // What is being made is left, by those who look at interrupt_requested().
  ~Makers() {
    if (busy() > 0) request_interrupt();
    while (busy() > 0) std::this_thread::sleep_for(kPause);
  }

  void make(std::size_t number) {
    {
      const std::lock_guard lock(mutex_);
      ++busy_;
    }
    arena_.enqueue([this, number] { run(number); });
  }

  struct Made {
    std::size_t number;
    std::variant<std::string, std::exception_ptr> result;
  };
  std::optional<Made> poll() {
    const std::lock_guard lock(mutex_);
    if (made_.empty()) return std::nullopt;
    Made made = std::move(made_.front());
    made_.pop_front();
    return made;
  }

 private:
  void run(std::size_t number) {
    Made made{number, {}};
    try {
      made.result = make_(number);
    } catch (...) {
      made.result = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    made_.push_back(std::move(made));
    --busy_;
  }

  std::size_t busy() {
    const std::lock_guard lock(mutex_);
    return busy_;
  }

  tbb::global_control limit_;
  tbb::task_arena arena_;
  std::function<std::string(std::size_t)> make_;
  std::mutex mutex_;
  std::size_t busy_ = 0;
  std::deque<Made> made_;
};

// The first rank at work.
class Lead {
 public:
  Lead(Ranks& ranks, std::size_t threads, const std::string& request, const OrderedWork& work)
      : ranks_(ranks),
        request_(request),
        work_(work),
        makers_(threads, work.make),
        next_(work.first),
        taken_(work.first) {
    welcome_.assign(static_cast<std::size_t>(ranks.size()), 0);
    welcome_[0] = kHeldPerThread * threads;
    threads_ = threads;
  }

  void run() {
    while (taken_ < work_.end) {
      check_for_interrupt();
      bool moved = false;
      while (std::optional<Makers::Made> made = makers_.poll()) {
        if (auto* error = std::get_if<std::exception_ptr>(&made->result)) std::rethrow_exception(*error);
        ready(made->number, std::move(std::get<std::string>(made->result)), 0);
        moved = true;
      }
      while (std::optional<Ranks::Message> arrived = ranks_.poll()) {
        read(*arrived);
        moved = true;
      }
      moved = hand_out() || moved;
      if (!moved) std::this_thread::sleep_for(kPause);
    }
  }

 private:
  void read(const Ranks::Message& arrived) {
    std::string_view text = arrived.text;
    const auto letter = static_cast<Letter>(text.front());
    text.remove_prefix(1);
    switch (letter) {
      case Letter::kHere:
        if (text == request_) return;
        fail(arrived.from, "another version of moesim, or other files under the same names", "those of the first rank");
      case Letter::kFailed:
        check_for_interrupt();
        fail(arrived.from, std::string(text), "what the first rank finds");
      case Letter::kWelcome: {
        const std::size_t count = take_number(text);
        welcome_[static_cast<std::size_t>(arrived.from)] += count;
        threads_ += count / kHeldPerThread;
        return;
      }
      case Letter::kMade: {
        const std::size_t number = take_number(text);
        ready(number, std::string(text), arrived.from);
        return;
      }
      case Letter::kBye:
      case Letter::kMake:
      case Letter::kDone:
        break;
    }
    check_failed("a message to the first rank", __FILE__, __LINE__);
  }

  [[noreturn]] static void fail(int rank, const std::string& found, const std::string& expected) {
    throw InputError({fmt::format("rank {}", rank), "", found, expected, ""});
  }

  void ready(std::size_t number, std::string text, int from) {
    ++welcome_[static_cast<std::size_t>(from)];
    ready_.emplace(number, std::move(text));
    for (auto first = ready_.begin(); first != ready_.end() && first->first == taken_; first = ready_.begin()) {
      work_.take(taken_, first->second);
      ready_.erase(first);
      ++taken_;
    }
  }

  // In turn, so that the last pieces are spread over all. Whether there was any.
  bool hand_out() {
    bool any = false;
    for (bool more = true; more;) {
      more = false;
      for (std::size_t rank = 0; rank < welcome_.size(); ++rank) {
        if (next_ >= work_.end || next_ >= taken_ + kAheadPerThread * threads_) return any;
        if (welcome_[rank] == 0) continue;
        --welcome_[rank];
        if (rank == 0) {
          makers_.make(next_);
        } else {
          ranks_.send(static_cast<int>(rank), message(Letter::kMake, fmt::format("{}", next_)));
        }
        ++next_;
        any = more = true;
      }
    }
    return any;
  }

  Ranks& ranks_;
  const std::string& request_;
  const OrderedWork& work_;
  Makers makers_;
  std::size_t next_, taken_, threads_ = 0;
  std::vector<std::size_t> welcome_;  // numbers that each rank would take
  std::map<std::size_t, std::string> ready_;
};

}  // namespace

Executor rank_executor(Ranks& ranks, std::size_t threads, std::string request) {
  return [&ranks, threads, request = std::move(request)](const OrderedWork& work) {
    Lead(ranks, threads, request, work).run();
  };
}

void dismiss(Ranks& ranks) {
  for (int rank = 1; rank < ranks.size(); ++rank) ranks.send(rank, message(Letter::kDone));
  // What they had to say before, one may still be about to send.
  for (int left = ranks.size() - 1; left > 0;) {
    const std::optional<Ranks::Message> arrived = ranks.poll();
    if (!arrived) std::this_thread::sleep_for(kPause);
    if (arrived && static_cast<Letter>(arrived->text.front()) == Letter::kBye) --left;
  }
}

void serve(Ranks& ranks, std::size_t threads, const std::function<Service()>& prepare) {
  std::optional<Makers> makers;
  const auto failed = [&](const std::exception& error) { ranks.send(0, message(Letter::kFailed, error.what())); };
  try {
    Service service = prepare();
    ranks.send(0, message(Letter::kHere, service.request));
    ranks.send(0, message(Letter::kWelcome, fmt::format("{}", kHeldPerThread * threads)));
    makers.emplace(threads, std::move(service.make));
  } catch (const std::exception& error) {
    failed(error);
  }
  for (;;) {
    bool moved = false;
    while (const std::optional<Ranks::Message> arrived = ranks.poll()) {
      if (static_cast<Letter>(arrived->text.front()) == Letter::kDone) {
        makers.reset();
        ranks.send(0, message(Letter::kBye));
        return;
      }
      std::string_view number(arrived->text);
      number.remove_prefix(1);
      makers->make(take_number(number));
      moved = true;
    }
    std::optional<Makers::Made> made = makers ? makers->poll() : std::nullopt;
    if (made) {
      moved = true;
      if (const auto* text = std::get_if<std::string>(&made->result)) {
        ranks.send(0, message(Letter::kMade, fmt::format("{} {}", made->number, *text)));
      } else {
        try {
          std::rethrow_exception(std::get<std::exception_ptr>(made->result));
        } catch (const std::exception& error) {
          failed(error);
        }
      }
    }
    if (!moved) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace moesim
