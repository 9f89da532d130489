// Views of a serving study: each writes the whole of it in one format.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "workloads/studies/serving.h"

namespace moesim {

class TrackWriter;

void write_serving_table(const ServingStudy& study, std::ostream& out);   // for people
void write_serving_json(const ServingStudy& study, std::ostream& out);    // everything but single turns
void write_serving_csv(const ServingStudy& study, std::ostream& out);     // a line per strategy and load
void write_serving_svg(const ServingStudy& study, std::ostream& out);     // a chart: misses and latency against load
void write_serving_report(const ServingStudy& study, std::ostream& out);  // a page like that of `report`
// Tracks of the shown runs, a group a strategy: steps; chunks or requests, the first 64 sessions'; counters.
void write_serving_tracks(const ServingStudy& study, TrackWriter& writer);

struct ServingView {
  const char* name;  // as --format takes it
  void (*write)(const ServingStudy& study, std::ostream& out);
};
std::span<const ServingView> serving_views();
// Throws InputError (flag --format) with the nearest right name.
const ServingView& find_serving_view(const std::string& name);

// --- words that the views share ---

const char* turn_noun(ServingKind kind);               // "chunk" or "request"
std::string load_noun(ServingKind kind);               // "sessions", "requests/s"
std::string arrivals_text(const ServingSetup& setup);  // "streams for ever, a chunk every 200 ms of 16 tokens in, …"
std::string goals_text(const ServingSetup& setup);     // "chunk done within 200 ms; at most 1 % miss"
std::string server_text(const ServingStudy& study);    // limits of the server, and memory
std::string steps_text(const ServingStudy& study);     // how steps were rounded, how many runs the engine made
std::string result_text(const ServingStudy& study, const StrategyServing& strategy);  // "auto: 14 sessions"
std::string headline(const ServingStudy& study);

}  // namespace moesim
