// An executor over ranks: the first one hands out numbers, takes the pieces in order and makes some itself; the others ask
// for numbers, as many as keep their threads busy, and send back what they made.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "tools/ranks.h"
#include "workloads/studies/executor.h"

namespace moesim {

// Of the first rank. The others must serve; an error on one of them is thrown here, as InputError with its rank.
// `request` names what is to be made: a rank that would make something else (other files, another version) is an error.
Executor rank_executor(Ranks& ranks, std::size_t threads, std::string request);

// Tells the others that all is done, or is to be left: to be called once, whatever happened.
void dismiss(Ranks& ranks);

// Of the other ranks: until they are dismissed. Errors of `prepare`, which says what is made and how, and of making go to
// the first rank, which is the one that speaks.
struct Service {
  std::string request;
  std::function<std::string(std::size_t)> make;
};
void serve(Ranks& ranks, std::size_t threads, const std::function<Service()>& prepare);

}  // namespace moesim
