#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "traces/views/comparison_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

constexpr double kGiga = 1e9;

std::string micros(Duration time) { return fmt::format("{:.2f}", to_microseconds(time)); }

std::string share(Duration part, Duration whole) {
  return whole.value() > 0 ? fmt::format("{:.2f}", 100 * part.as_double() / whole.as_double()) : "-";
}

std::string error_cell(Duration simulated, Duration measured) {
  const std::optional<double> error = error_percent(simulated, measured);
  return error ? fmt::format("{:+.1f}", *error) : "-";
}

std::string spread(const MeasuredTime& time, std::int64_t layers) {
  return layers > 1 ? fmt::format("{:.2f}-{:.2f}", to_microseconds(time.least), to_microseconds(time.most)) : "-";
}

std::string plural(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void write_header(const Comparison& c, std::ostream& out) {
  out << fmt::format("moesim {}, {} beside the simulation, {}\n", c.tool_version, c.trace_file, c.calibration);
  out << fmt::format("model    {} ({}), weights {}, activations {}", c.model, c.model_file, c.weights, c.activations);
  if (c.tp > 1) out << fmt::format(", tp {}", c.tp);
  if (c.ep > 1) out << fmt::format(", ep {}", c.ep);
  for (const std::string& override_text : c.model_overrides) out << ", " << override_text;
  out << fmt::format("\ndevice   {}: {} ({}, {}), clock {:.4g} GHz", c.device, c.device_title, c.device_file,
                     c.device_hash, c.clock_hz / kGiga);
  for (const std::string& override_text : c.overrides) out << ", " << override_text;
  out << fmt::format("\nrouting  {}, {}, seed {}\n", c.routing, plural(c.samples, "sample"), c.seed);
  for (const std::string& text : c.taken) out << "taken    " << text << '\n';
}

void write_classes(const Comparison& c, std::ostream& out) {
  out << fmt::format(
      "\ndevice time, {} of {} events: {} % in a named class; {} of {} kernels of MoE layers have a stage\n",
      c.device_events, c.all_events, share(c.named_time, c.device_time), c.staged_kernels, c.moe_kernels);
  std::vector<std::pair<std::string, Duration>> classes(c.by_class.begin(), c.by_class.end());
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  TextTable table({{"class", Align::kLeft}, {"µs", Align::kRight}, {"% of time", Align::kRight}});
  for (const auto& [name, time] : classes) table.add_row({name, micros(time), share(time, c.device_time)});
  table.write(out);
}

std::string limit_cell(const SimulatedStage& stage) {
  return fmt::format("{} {:.0f} %", blame_name(stage.limited_by), 100 * stage.share);
}

// A row of totals.
void add_total(TextTable& table, const char* name, const MeasuredTime& measured, std::int64_t layers,
               std::optional<Duration> simulated, const std::string& limit = "") {
  table.add_row({name, "", micros(measured.median), spread(measured, layers), "", simulated ? micros(*simulated) : "-",
                 simulated ? error_cell(*simulated, measured.median) : "-", limit});
}

void write_stages(const SectionComparison& section, std::ostream& out) {
  TextTable table({{"stage", Align::kLeft},
                   {"kernels", Align::kRight},
                   {"measured µs", Align::kRight},
                   {"least-most", Align::kRight},
                   {"simulated kernels", Align::kRight},
                   {"simulated µs", Align::kRight},
                   {"error %", Align::kRight},
                   {"limited by", Align::kLeft}});
  for (const StageRow& row : section.stages) {
    std::vector<std::string> cells(8, "-");
    cells[0] = row.stages.name();
    if (row.measured) {
      cells[1] = fmt::format("{}", row.measured->kernels);
      cells[2] = micros(row.measured->time.median);
      cells[3] = spread(row.measured->time, section.alike);
    }
    if (row.simulated) {
      cells[4] = fmt::format("{:.4g}", row.simulated->kernels);
      cells[5] = micros(row.simulated->time);
      cells[7] = limit_cell(*row.simulated);
    }
    if (row.measured && row.simulated) cells[6] = error_cell(row.simulated->time, row.measured->time.median);
    if (!row.measured) cells[7] += ", not measured";
    if (!row.simulated) cells[7] = section.layer() == nullptr ? "" : "not simulated";
    table.add_row(std::move(cells));
  }
  table.add_gap();
  const SimulatedLayer* layer = section.layer();
  const auto simulated = [layer](Duration time) { return layer == nullptr ? std::nullopt : std::optional(time); };
  const Duration both = section.compared_measured();
  if (layer != nullptr && both.value() > 0) {
    table.add_row({"stages of both", "", micros(both), "", "", micros(section.compared_simulated()),
                   error_cell(section.compared_simulated(), both), ""});
  }
  add_total(table, "all kernels", section.busy, section.alike, simulated(layer ? layer->busy : Duration()),
            layer ? std::string(blame_name(layer->limited_by)) : "");
  add_total(table, "gaps", section.gaps, section.alike, simulated(layer ? layer->gaps() : Duration()));
  add_total(table, "layer", section.span, section.alike, simulated(layer ? layer->span : Duration()));
  table.write(out);
}

void write_section(const SectionComparison& section, std::ostream& out) {
  out << fmt::format("\n{}: {}", section.name.empty() ? "whole trace" : section.name,
                     plural(section.layers, "MoE layer"));
  if (section.repeats > 1) out << fmt::format(" in {} ranges", section.repeats);
  if (section.alike < section.layers) out << fmt::format(", {} alike (compared)", section.alike);
  if (section.period) out << fmt::format(", one every {} kernels", *section.period);
  out << fmt::format("; {}, {}, launch {}\n", plural(section.tokens, "token"), section.scope, section.launch);
  if (const SimulatedLayer* layer = section.layer()) {
    out << fmt::format("simulated: {}{}, {:.4g} distinct experts\n", layer->strategy,
                       layer->implementation.empty() ? "" : fmt::format(" as {}", layer->implementation),
                       layer->distinct_experts);
  } else {
    out << fmt::format("not simulated: {}\n", std::get<Infeasible>(section.simulated).reason);
  }
  write_stages(section, out);
  out << fmt::format("MoE layers are {} % of the {} µs in which the device ran\n",
                     share(section.moe_time, section.device_time), micros(section.device_time));
  for (const std::string& text : section.limits) out << "note: " << text << '\n';
}

}  // namespace

void write_comparison_table(const Comparison& comparison, std::ostream& out) {
  write_header(comparison, out);
  write_classes(comparison, out);
  for (const SectionComparison& section : comparison.sections) write_section(section, out);
}

}  // namespace moesim
