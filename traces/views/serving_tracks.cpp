// The shown run of each strategy as tracks: steps, sessions, counters.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "traces/timeline/track_writer.h"
#include "traces/views/serving_views.h"

namespace moesim {
namespace {

using Track = TrackWriter::Track;

constexpr std::size_t kMostSessions = 64;  // with a track of their own

void write_steps(const ServingStudy& study, const ServerRun& run, Track track, TrackWriter& writer) {
  for (const StepRecord& step : run.steps) {
    const std::string& strategy = study.candidates[step.strategy];
    const std::string name = fmt::format("{} decode, {} prompt{} ({} tokens)", step.decodes, step.prompts,
                                         step.prompts == 1 ? "" : "s", step.prompt_tokens);
    const Argument arguments[] = {{"strategy", strategy},
                                  {"decodes", step.decodes},
                                  {"prompts", step.prompts},
                                  {"prompt_tokens", step.prompt_tokens}};
    writer.slice(track, step.start, step.time, name, strategy, arguments);
  }
}

// A session's turns follow one another; what a turn waits before its first step lies before it.
void write_turns(const ServingStudy& study, const ServerRun& run, Track group, TrackWriter& writer) {
  std::vector<std::vector<const TurnRecord*>> sessions;
  for (const TurnRecord& turn : run.turns) {
    if (!turn.finish || turn.session >= kMostSessions) continue;
    if (turn.session >= sessions.size()) sessions.resize(turn.session + 1);
    sessions[turn.session].push_back(&turn);
  }
  const std::string noun = turn_noun(study.setup.kind);
  const ServingGoals& goals = study.setup.goals;
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    if (sessions[s].empty()) continue;
    const Track track = writer.add_track(group, fmt::format("session {}", s + 1));
    TimePoint free;  // of the track: a chunk may come before the one before is done
    for (const TurnRecord* turn : sessions[s]) {
      const TimePoint from = std::max(free, turn->arrival);
      const bool late = goals.latency && *turn->finish - turn->arrival > *goals.latency;
      const Argument arguments[] = {{"arrival_ps", turn->arrival.value()},
                                    {"latency_ps", (*turn->finish - turn->arrival).value()},
                                    {"waited_ps", (*turn->start - turn->arrival).value()},
                                    {"prompt_tokens", turn->prompt},
                                    {"output_tokens", turn->output},
                                    {"late", std::int64_t{late ? 1 : 0}}};
      writer.slice(track, from, *turn->finish - from, late ? noun + ", late" : noun, noun, arguments);
      if (*turn->start > from) writer.slice(track, from, *turn->start - from, "waits", "waits", {});
      const TimePoint prompt_done = turn->first_token.value_or(*turn->finish);
      const TimePoint begin = std::max(from, *turn->start);
      writer.slice(track, begin, prompt_done - begin, "prompt", "prompt", {});
      if (*turn->finish > prompt_done)
        writer.slice(track, prompt_done, *turn->finish - prompt_done, "answer", "answer", {});
      free = *turn->finish;
    }
  }
}

void write_counters(const ServerRun& run, Track group, TrackWriter& writer) {
  const Track sequences = writer.add_counter(group, "sequences in a step", "");
  const Track tokens = writer.add_counter(group, "tokens in a step", "");
  TimePoint end;
  for (const StepRecord& step : run.steps) {
    if (step.start > end) {  // idle
      writer.count(sequences, end, 0);
      writer.count(tokens, end, 0);
    }
    writer.count(sequences, step.start, static_cast<double>(step.sequences()));
    writer.count(tokens, step.start, static_cast<double>(step.tokens()));
    end = step.start + step.time;
  }
  writer.count(sequences, end, 0);
  writer.count(tokens, end, 0);
}

}  // namespace

void write_serving_tracks(const ServingStudy& study, TrackWriter& writer) {
  for (const StrategyServing& s : study.strategies) {
    if (!s.run) continue;
    const ServingFigures& figures = s.points[s.shown];
    const Track group =
        writer.add_group(fmt::format("{}, {:g} {}", s.strategy, figures.load, load_noun(study.setup.kind)));
    const Track steps = writer.add_track(group, "steps");
    write_steps(study, *s.run, steps, writer);
    write_turns(study, *s.run, group, writer);
    write_counters(*s.run, group, writer);
  }
}

}  // namespace moesim
