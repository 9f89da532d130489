#include "tools/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr std::size_t kHelpColumn = 36;

std::string with_default(const std::string& help, const std::string& value) {
  return value.empty() ? help : fmt::format("{} [default: {}]", help, value);
}

// The subcommand that was named, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app : *named.front();
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : app.get_parent()->get_name() + " " + app.get_name();
}

// What errors begin with: the subcommand; main says "moesim" anyway.
std::string place(const CLI::App& app) { return app.get_parent() == nullptr ? "" : app.get_name(); }

[[noreturn]] void fail_unexpected(const CLI::App& app, const std::string& found) {
  std::vector<std::string> candidates;
  const bool is_flag = found.starts_with('-');
  if (is_flag) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : app.get_subcommands({})) candidates.push_back(sub->get_name());
  }
  const std::string name = full_name(app);
  const std::string expected = is_flag              ? fmt::format("a flag of {0} (see {0} --help)", name)
                               : candidates.empty() ? fmt::format("nothing more (see {} --help)", name)
                                                    : fmt::format("one of {}", fmt::join(candidates, ", "));
  throw InputError({place(app), "", fmt::format("'{}'", found), expected,
                    nearest_name(found.substr(0, found.find('=')), candidates)});
}

// All values at once, so that a flag given twice is our error to word.
void add_single(CLI::App& app, const std::string& flag, const std::string& placeholder,
                const std::function<void(const std::string&)>& set, const std::string& help) {
  const auto set_once = [flag, set](const std::vector<std::string>& texts) {
    if (texts.size() > 1) throw InputError({flag, "", fmt::format("{} values", texts.size()), "one", ""});
    set(texts.front());
  };
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(flag, set_once, help);
  option->option_text(placeholder)->allow_extra_args(false);
}

}  // namespace

void FlagSet::value(const std::string& flag, const std::string& placeholder, std::string& target,
                    const std::string& help) {
  const auto set = [&target](const std::string& text) { target = text; };
  add_single(app_, flag, placeholder, set, with_default(help, target));
}

void FlagSet::value(const std::string& flag, const std::string& placeholder, std::optional<std::string>& target,
                    const std::string& help) {
  add_single(
      app_, flag, placeholder, [&target](const std::string& text) { target = text; }, help);
}

void FlagSet::repeated(const std::string& flag, const std::string& placeholder, std::vector<std::string>& target,
                       const std::string& help) {
  app_.add_option(flag, target, help)->type_name(placeholder)->allow_extra_args(false);
}

void FlagSet::on(const std::string& flag, bool& target, const std::string& help) { app_.add_flag(flag, target, help); }

void FlagSet::record(std::vector<std::string>& given) {
  app_.parse_complete_callback([this_app = &app_, &given] {
    given.clear();
    for (const CLI::Option* option : this_app->get_options()) {
      for (const std::string& value : option->results()) {
        given.push_back(fmt::format("{}={}", option->get_name(), value));
      }
    }
    const auto flag = [](const std::string& text) { return text.substr(0, text.find('=')); };
    std::stable_sort(given.begin(), given.end(),
                     [&](const std::string& a, const std::string& b) { return flag(a) < flag(b); });
  });
}

void FlagSet::positional(const std::string& placeholder, std::optional<std::string>& target, const std::string& help) {
  const auto set = [&target](const std::string& text) { target = text; };
  app_.add_option_function<std::string>(placeholder, set, help)->type_name("");
}

Request parse_command_line(std::span<const Command> commands, int argc, const char* const* argv) {
  CLI::App app("Simulates Mixture-of-Experts layers on accelerators: which strategy is fastest, and why.", "moesim");
  app.get_formatter()->column_width(kHelpColumn);
  app.set_version_flag("--version", fmt::format("moesim {}", kVersion), "Print the version and exit");
  app.require_subcommand(0, 1);
  app.footer(
      "Example:\n  moesim run --model mixtral-8x7b --device h200 --concurrency 1,8,64\n"
      "Each subcommand explains itself: moesim run --help");

  std::vector<std::pair<const CLI::App*, std::function<CommandResult()>>> actions;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(fmt::format("Example:\n{}", command.examples));
    FlagSet flags(*sub);
    actions.emplace_back(sub, command.define(flags));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream out;
    app.exit(request, out, out);
    return out.str();
  } catch (const CLI::ExtrasError&) {
    fail_unexpected(chosen(app), app.remaining(true).front());
  } catch (const CLI::ArgumentMismatch& error) {  // "--model: 1 required TEXT missing"
    const std::string message = error.what();
    throw InputError({message.substr(0, message.find(':')), "", "no value",
                      fmt::format("one (see {} --help)", full_name(chosen(app))), ""});
  } catch (const CLI::ParseError& error) {
    const CLI::App& at = chosen(app);
    throw InputError(
        {place(at), "", fmt::format("'{}'", error.what()), fmt::format("flags as in {} --help", full_name(at)), ""});
  }
  for (auto& [sub, action] : actions) {
    if (sub->parsed()) return std::move(action);
  }
  return app.help();
}

}  // namespace moesim
