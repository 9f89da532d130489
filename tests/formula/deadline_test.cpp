// A run stops where it would take longer than its deadline, and only there.
#include <gmock/gmock.h>

#include "tests/testkit/kernels.h"

namespace moesim::testkit {
namespace {

TEST(Deadline, OneLaterThanTheEndChangesNothing) {
  ItemClass item;
  item.steps = 4;
  item.read = Bytes(1 << 16);
  item.epilogue = nanoseconds(500);
  const Machine machine = memory_machine(4);
  const ExecutionPlan plan = chain_of({one_group(item, 64, 2), one_group(item, 16, 1)});
  const SimulationResult whole = simulate(plan, machine);
  SimulateOptions options;
  options.deadline = whole.total;
  const SimulationResult just = simulate(plan, machine, options);
  EXPECT_FALSE(just.stopped);
  EXPECT_EQ(just.total, whole.total);
  EXPECT_EQ(just.attribution, whole.attribution);
  options.deadline = whole.total - Duration(1);
  const SimulationResult late = simulate(plan, machine, options);
  EXPECT_TRUE(late.stopped);
  EXPECT_EQ(late.total, whole.total);  // the event that is too late is the last
  options.deadline = Duration(-1);
  EXPECT_TRUE(simulate(plan, machine, options).stopped);
}

}  // namespace
}  // namespace moesim::testkit
