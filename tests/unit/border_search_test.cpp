// Borders along whole numbers: known thresholds, several of them, ties, and how few places are looked at.
#include "workloads/studies/border_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::Le;

struct Found {
  std::vector<std::vector<Stretch>> lines;
  std::size_t asked = 0, waves = 0;
};

Found search(std::size_t lines, std::int64_t from, std::int64_t to,
             const std::function<int(std::size_t, std::int64_t)>& label) {
  Found found;
  std::set<AxisPlace> seen;
  const auto labels = [&](const std::vector<AxisPlace>& places) {
    ++found.waves;
    std::vector<int> result;
    for (const AxisPlace& place : places) {
      EXPECT_TRUE(seen.insert(place).second) << "asked twice for " << place.at;
      EXPECT_TRUE(place.at >= from && place.at <= to) << place.at;
      result.push_back(label(place.line, place.at));
    }
    found.asked += places.size();
    return result;
  };
  for (const KnownLabels& known : find_borders(lines, geometric_places(from, to), labels)) {
    found.lines.push_back(stretches_of(known));
  }
  return found;
}

std::vector<Stretch> stretches(std::int64_t from, std::int64_t to, const std::function<int(std::int64_t)>& label) {
  return search(1, from, to, [&](std::size_t, std::int64_t at) { return label(at); }).lines.front();
}

TEST(BorderSearch, FindsEachThresholdExactly) {
  for (std::int64_t threshold = 2; threshold <= 300; ++threshold) {
    EXPECT_THAT(stretches(1, 300, [&](std::int64_t at) { return at < threshold ? 7 : 3; }),
                ElementsAre(Stretch{1, threshold - 1, 7}, Stretch{threshold, 300, 3}));
  }
}

// Two curves a + b t that cross where both are 110.
TEST(BorderSearch, FindsWhereTwoCostsCross) {
  const auto label = [](std::int64_t at) {
    return 10 + 10 * static_cast<double>(at) <= 100 + static_cast<double>(at) ? 0 : 1;
  };
  EXPECT_THAT(stretches(1, 4096, label), ElementsAre(Stretch{1, 10, 0}, Stretch{11, 4096, 1}));
}

TEST(BorderSearch, FindsSeveralChanges) {
  const auto label = [](std::int64_t at) { return at < 5 ? 0 : at < 9 ? 1 : at < 100 ? 0 : 2; };
  EXPECT_THAT(stretches(1, 256, label),
              ElementsAre(Stretch{1, 4, 0}, Stretch{5, 8, 1}, Stretch{9, 99, 0}, Stretch{100, 256, 2}));
}

// Between coarse places a third label may stand.
TEST(BorderSearch, FindsANarrowStretchBetweenTwoOthers) {
  const auto label = [](std::int64_t at) { return at < 70 ? 0 : at < 75 ? 1 : 2; };
  EXPECT_THAT(stretches(1, 256, label), ElementsAre(Stretch{1, 69, 0}, Stretch{70, 74, 1}, Stretch{75, 256, 2}));
}

// Near a tie labels alternate: what is found is at least consistent and ends where the tie ends.
TEST(BorderSearch, EndsWhereLabelsAlternate) {
  const auto label = [](std::int64_t at) { return at < 20 ? 0 : at > 40 ? 1 : static_cast<int>(at % 2); };
  const std::vector<Stretch> found = stretches(1, 256, label);
  EXPECT_EQ(found.front().label, 0);
  EXPECT_EQ(found.back().label, 1);
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {
    EXPECT_EQ(found[i].to + 1, found[i + 1].from);
    EXPECT_NE(found[i].label, found[i + 1].label);
  }
}

TEST(BorderSearch, OfOneLabelLooksAtCoarsePlacesAlone) {
  const Found found = search(1, 1, 256, [](std::size_t, std::int64_t) { return 4; });
  EXPECT_THAT(found.lines.front(), ElementsAre(Stretch{1, 256, 4}));
  EXPECT_EQ(found.asked, geometric_places(1, 256).size());
  EXPECT_EQ(found.waves, 1);
}

TEST(BorderSearch, OfOnePlace) {
  EXPECT_THAT(stretches(3, 3, [](std::int64_t) { return 1; }), ElementsAre(Stretch{3, 3, 1}));
}

TEST(BorderSearch, LinesGoSideBySide) {
  const Found found =
      search(40, 1, 1000, [](std::size_t line, std::int64_t at) { return at > 100 + static_cast<std::int64_t>(line); });
  for (std::size_t line = 0; line < 40; ++line) {
    EXPECT_EQ(found.lines[line][0].to, 100 + static_cast<std::int64_t>(line));
  }
  EXPECT_THAT(found.waves, Le(1 + static_cast<std::size_t>(std::ceil(std::log2(1000)))));
}

TEST(GeometricPlaces, AscendByAHalfOrAThird) {
  EXPECT_THAT(geometric_places(1, 20), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 20));
  EXPECT_THAT(geometric_places(5, 16), ElementsAre(5, 6, 8, 12, 16));
  EXPECT_THAT(geometric_places(7, 7), ElementsAre(7));
  EXPECT_EQ(geometric_places(1, INT64_MAX).back(), INT64_MAX);
}

}  // namespace
}  // namespace moesim
