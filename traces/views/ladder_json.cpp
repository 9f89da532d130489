#include <nlohmann/json.hpp>

#include "traces/views/ladder_views.h"
#include "traces/views/numbers.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

// A rung of the ladder and, at its upper end, the runs that it is the difference of.
Json rungs_json(const Ladder& ladder, const std::vector<LadderRung>& rungs) {
  Json list = Json::array();
  const double all = ladder.gain().as_double();
  for (const LadderRung& rung : rungs) {
    list.push_back({{"effect", rung.effect.empty() ? Json(nullptr) : Json(rung.effect)},
                    {"slower_ps", rung.slower.value()},
                    {"faster_ps", rung.faster.value()},
                    {"gain_ps", rung.gain().value()},
                    {"gain_share", all == 0 ? Json(nullptr) : Json(six_digits(rung.gain().as_double() / all))}});
  }
  return list;
}

// Of consecutive runs, with what each leaves out.
Json runs_json(const std::vector<LadderRung>& rungs, const std::vector<LadderRun>& slower,
               const std::vector<LadderRun>& faster) {
  Json list = Json::array(), without = Json::array();
  for (std::size_t i = 0; i < slower.size(); ++i) {
    list.push_back(
        {{"without", without}, {"slower_ps", slower[i].time.value()}, {"faster_ps", faster[i].time.value()}});
    without.push_back(rungs[i].effect);
  }
  return list;
}

}  // namespace

Json ladder_json(const LadderOrInfeasible& result) {
  if (const auto* infeasible = std::get_if<Infeasible>(&result)) return {{"reason", infeasible->reason}};
  const auto& ladder = std::get<Ladder>(result);
  return {{"concurrency", ladder.concurrency},
          {"slower", ladder.slower},
          {"faster", ladder.faster},
          {"slower_ps", ladder.slower_time.value()},
          {"faster_ps", ladder.faster_time.value()},
          {"gain_ps", ladder.gain().value()},
          {"rungs", rungs_json(ladder, ladder.rungs)},
          {"reverse_rungs", rungs_json(ladder, ladder.reverse_rungs)},
          {"runs", runs_json(ladder.rungs, ladder.slower_runs, ladder.faster_runs)},
          {"reverse_runs", runs_json(ladder.reverse_rungs, ladder.slower_reverse_runs, ladder.faster_reverse_runs)}};
}

}  // namespace moesim
