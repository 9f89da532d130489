// Wrong input: one clear line that names the file, the place, what was found, what was expected
// and the nearest right name. Thrown at the edge, caught once in main (exit code 2).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

struct InputProblem {
  std::string file;      // file, flag or "" when neither applies
  std::string where;     // JSON pointer, line, position; "" when none
  std::string found;     // what stands there
  std::string expected;  // what should
  std::string nearest;   // nearest right name, "" when none is near
};

class InputError : public std::runtime_error {
 public:
  explicit InputError(InputProblem problem);
  [[nodiscard]] const InputProblem& problem() const { return problem_; }

 private:
  InputProblem problem_;
};

// The candidate with the smallest edit distance (insert, delete, replace, swap), at most a third of
// the longer name (at least 2); "" when none is that near. Ties go to the earlier candidate.
std::string nearest_name(std::string_view found, const std::vector<std::string>& candidates);

}  // namespace moesim
