// moesim sweep: a grid of points over models, devices, loads and strategies, on all cores or ranks, to a file that a second
// run can go on with.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/crossover_flags.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/rank_executor.h"
#include "tools/ranks.h"
#include "tools/resumable_file.h"
#include "tools/sweep_plan.h"
#include "traces/views/sweep_views.h"
#include "workloads/studies/executor.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostThreads = 1024;

struct SweepFlags {
  RequestFlags request;
  GridFlags grid;
  CrossoverFlags crossover;
  std::optional<std::string> out, format, threads;
  std::vector<std::string> given;
};

const SweepView& find_view(const SweepFlags& flags) {
  std::string name = flags.format.value_or("csv");
  if (!flags.format && flags.out && flags.out->ends_with(".jsonl")) name = "jsonl";
  std::vector<std::string> names;
  for (const SweepView& view : sweep_views()) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

std::size_t thread_count(const SweepFlags& flags, std::size_t absent) {
  if (!flags.threads) return absent;
  return static_cast<std::size_t>(parse_whole("--threads", *flags.threads, 1, kMostThreads));
}

// Ranks of one machine share its cores, unless the launcher has dealt them out.
std::size_t threads_of_rank(const SweepFlags& flags, const Ranks& ranks) {
  const auto all = static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const std::size_t share = std::max<std::size_t>(1, all / static_cast<std::size_t>(ranks.on_this_host()));
  return thread_count(flags, std::min(default_threads(), share));
}

// ---------------------------------------------------------------------------------------------------------- output

// Standard output, or a file that goes on where it ends.
class SweepOutput {
 public:
  SweepOutput(const SweepView& view, const Sweep& sweep, const std::optional<std::string>& path)
      : view_(view), sweep_(sweep), path_(path.value_or("")) {
    if (path) {
      file_.emplace(*path, "--out");
      find_end();
    }
    if (first_ == 0) write(view_.first_line(sweep_));
  }

  // The point to go on with.
  [[nodiscard]] std::size_t first() const { return first_; }
  [[nodiscard]] std::int64_t bytes() const { return file_->bytes(); }

  void write(const std::string& text) {
    if (file_) {
      file_->append(text);
      return;
    }
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
    throw InputError({"sweep", "", "a standard output that takes no more", "one that does", ""});
  }

 private:
  // Cuts off the last point, of which lines may be missing. Throws InputError where the file is of another request.
  void find_end() {
    const std::string heading = view_.first_line(sweep_);
    std::int64_t line_number = 0, point_begin = 0;
    std::optional<std::size_t> last;
    file_->read_lines([&](std::string_view line, std::int64_t begin) {
      if (++line_number == 1) {
        if (heading != std::string(line) + '\n') refuse("its first line");
        return;
      }
      const std::optional<SweepPlace> place = view_.place(line);
      if (!place || place->request != sweep_.request) refuse(fmt::format("line {}", line_number));
      const bool same = last && place->point == *last;
      const bool next = place->point == (last ? *last + 1 : 0) && place->point < sweep_.grid.points();
      if (!same && !next) refuse(fmt::format("line {}, of point {},", line_number, place->point));
      if (next) point_begin = begin;
      last = place->point;
    });
    if (line_number == 0 && !starts_like(heading)) refuse("its beginning");
    first_ = last.value_or(0);
    file_->cut(first_ == 0 ? 0 : point_begin);
  }

  // Of a file without a whole line: what is there may be ours.
  [[nodiscard]] bool starts_like(const std::string& heading) const {
    return file_->bytes() <= static_cast<std::int64_t>(heading.size()) && heading.starts_with(file_->beginning());
  }

  [[noreturn]] void refuse(const std::string& place) const {
    throw InputError({"--out", "",
                      fmt::format("'{}', {} of which is not of this sweep (request {})", path_, place, sweep_.request),
                      "the file that the same command has begun, or another name", ""});
  }

  const SweepView& view_;
  const Sweep& sweep_;
  std::string path_;
  std::optional<ResumableFile> file_;
  std::size_t first_ = 0;
};

// ------------------------------------------------------------------------------------------------------------ work

std::string lines_of(const SweepView& view, const SweepPlan& plan, std::size_t number) {
  check_for_interrupt();
  return view.lines(plan.sweep, simulate_sweep_point(plan.sweep.grid, number, plan.request_of));
}

SweepPlan plan_of(const SweepFlags& flags) {
  if (flags.request.ladder.ladder) throw InputError({"--ladder", "", "a ladder in a sweep", "moesim run --ladder", ""});
  return plan_sweep(flags.request, flags.grid, flags.given);
}

// Alone, or as the first of several ranks.
CommandResult lead(const SweepFlags& flags, const std::function<Executor(const Sweep&)>& executor_of) {
  const SweepView& view = find_view(flags);
  const SweepPlan plan = plan_of(flags);
  const Executor executor = executor_of(plan.sweep);
  const std::size_t all = plan.sweep.grid.points();
  SweepOutput output(view, plan.sweep, flags.out);
  std::size_t done = output.first();
  Progress progress(flags.out || isatty(STDOUT_FILENO) == 0);
  OrderedWork work;
  work.first = done;
  work.end = all;
  work.make = [&](std::size_t number) { return lines_of(view, plan, number); };
  work.take = [&](std::size_t number, const std::string& lines) {
    output.write(lines);
    done = number + 1;
    progress.show_left(done, work.first, all, "simulating point");
  };
  try {
    executor(work);
  } catch (const Interrupted&) {
    return {.output = "",
            .complaint = fmt::format("interrupted after {} of {} points{}", done, all,
                                     flags.out ? "; the same command goes on from there" : ""),
            .exit_code = ExitCode::kInterrupted};
  }
  if (!flags.out) return {};
  const std::string before = work.first > 0 ? fmt::format(", {} of them there before", work.first) : "";
  return {.output = fmt::format("{}: {} points{}, {} bytes\n", *flags.out, all, before, output.bytes()),
          .complaint = ""};
}

// What the first rank says is all that is said.
CommandResult follow(const SweepFlags& flags, Ranks& ranks) {
  std::optional<SweepPlan> plan;
  const auto prepare = [&] {
    const SweepView& view = find_view(flags);
    plan = plan_of(flags);
    return Service{plan->sweep.request, [&](std::size_t number) { return lines_of(view, *plan, number); }};
  };
  serve(ranks, threads_of_rank(flags, ranks), prepare);
  return {};
}

CommandResult run_on_ranks(const SweepFlags& flags, Ranks& ranks) {
  if (ranks.rank() > 0) return follow(flags, ranks);
  try {
    CommandResult result = lead(
        flags, [&](const Sweep& sweep) { return rank_executor(ranks, threads_of_rank(flags, ranks), sweep.request); });
    dismiss(ranks);
    return result;
  } catch (...) {
    dismiss(ranks);
    throw;
  }
}

CommandResult cross(const SweepFlags& flags) {
  constexpr const char* kFlag = "--crossover";
  if (flags.out)
    throw InputError({"--out", "", fmt::format("{} too", kFlag), "standard output, --html or --dispatch", ""});
  if (flags.request.ladder.ladder) throw InputError({"--ladder", "", fmt::format("{} too", kFlag), "moesim run", ""});
  RequestFlags base = flags.request;
  const AxisGrid grid = flags.grid.load(base);
  return run_crossover(flags.crossover, base, grid, flags.format.value_or("table"),
                       thread_count(flags, default_threads()));
}

CommandResult run(const SweepFlags& flags) {
  const InterruptGuard guard;
  if (!flags.crossover.crossover && flags.crossover.given() != nullptr) {
    throw InputError({flags.crossover.given(), "", "no --crossover", "--crossover AXIS", ""});
  }
  try {
    const std::optional<Launched> launched = launched_ranks();
    if (flags.crossover.crossover) {
      if (launched) throw InputError({"--crossover", "", "several ranks", "one process, with --threads", ""});
      return cross(flags);
    }
    if (launched) return run_on_ranks(flags, *join_ranks(*launched));
    return lead(flags, [&](const Sweep&) { return thread_executor(thread_count(flags, default_threads())); });
  } catch (const Interrupted& interrupted) {  // before there was anything to go on with
    return {.output = "", .complaint = interrupted.what(), .exit_code = ExitCode::kInterrupted};
  }
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<SweepFlags>();
  flags->grid.add(set);
  set.value("--out", "FILE", flags->out,
            "Rows as they come, in the grid's order; the same command goes on with a file that was not finished "
            "[default: standard output]");
  set.value("--format", "csv|jsonl", flags->format,
            "How to write [default: by the file's ending, else csv]; a crossover: table|json|csv|svg [default: table]");
  set.value("--threads", "N", flags->threads, "Same bytes for any number [default: all cores]");
  flags->crossover.add(set);
  flags->request.add(set);
  set.record(flags->given);
  return [flags] { return run(*flags); };
}

}  // namespace

constinit const Command kSweepCommand = {
    "sweep", "Simulate a grid of models, devices, loads and strategies: a row per point and strategy",
    "  moesim sweep --vary experts=256,512 --vary concurrency=1-3 --keep total --samples 1 --strategy "
    "grouped_gemm,stream_gemv\n"
    "  moesim sweep --model olmoe-1b-7b --vary hbm.bandwidth=3..8TB/s:3 --concurrency 1 --samples 1 --format jsonl\n"
    "  moesim sweep --model mixtral-8x7b --vary device=h200,tpu7x --vary routing=uniform,zipf:0.6 --concurrency 1,4 "
    "--samples 1 --out sweep.csv\n"
    "  moesim sweep --crossover concurrency=1..64 --model qwen3-30b-a3b --strategy stream_gemv,grouped_gemm --dispatch "
    "table.h\n"
    "  moesim sweep --crossover concurrency=1..16 --vary experts=128,512 --samples 1 --strategy "
    "stream_gemv,grouped_gemm "
    "--html map.html",
    define};

}  // namespace moesim
