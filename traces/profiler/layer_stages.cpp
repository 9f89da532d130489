#include "traces/profiler/layer_stages.h"

#include <algorithm>
#include <optional>

namespace moesim {
namespace {

using Indices = std::vector<std::size_t>;

constexpr StageSet kProducts = StageSet(MoeStage::kGemm1) | MoeStage::kGemm2;
constexpr StageSet kEnds = StageSet(MoeStage::kGemm2) | MoeStage::kCombine | MoeStage::kCollect;
constexpr StageSet kBegins = StageSet(MoeStage::kRouter) | MoeStage::kTopk | MoeStage::kAlign | MoeStage::kDispatch |
                             MoeStage::kPermute | MoeStage::kGather1 | MoeStage::kGemm1;
constexpr StageSet kRoutes = StageSet(MoeStage::kRouter) | MoeStage::kTopk | MoeStage::kAlign;

bool surely_moe(const OrderedKernel& kernel) {
  return kernel.in_moe || kernel.kernel_class == KernelClass::kMoe || kernel.kernel_class == KernelClass::kMoeGemm ||
         kernel.kernel_class == KernelClass::kMoeSetup;
}

// Between such kernels lies what may be a layer.
bool divides(const OrderedKernel& kernel) {
  if (surely_moe(kernel)) return false;
  switch (kernel.kernel_class) {
    case KernelClass::kAttention:
    case KernelClass::kCollective:
    case KernelClass::kNorm:
    case KernelClass::kRopeCache:
    case KernelClass::kSampling:
      return true;
    case KernelClass::kMoe:
    case KernelClass::kMoeGemm:
    case KernelClass::kMoeSetup:
    case KernelClass::kGemm:
    case KernelClass::kGemmPart:
    case KernelClass::kActivation:
    case KernelClass::kSelect:
    case KernelClass::kIndexing:
    case KernelClass::kQuantise:
    case KernelClass::kReduce:
    case KernelClass::kElementwise:
    case KernelClass::kCopy:
    case KernelClass::kFill:
    case KernelClass::kUnknown:
      return false;
  }
  return false;
}

class LayerOrder {
 public:
  explicit LayerOrder(std::vector<OrderedKernel>& kernels) : kernels_(kernels) {}

  std::vector<Indices> split() {
    std::vector<Indices> layers;
    for (std::size_t begin = 0; begin < kernels_.size();) {
      std::size_t end = begin;
      while (end < kernels_.size() && !divides(kernels_[end])) ++end;
      if (end > begin) add_layers(begin, end, layers);
      begin = end + 1;
    }
    return layers;
  }

 private:
  [[nodiscard]] KernelClass class_of(std::size_t i) const { return kernels_[i].kernel_class; }
  [[nodiscard]] StageSet stages_of(std::size_t i) const { return kernels_[i].stages; }
  [[nodiscard]] bool is_product(std::size_t i) const {
    return class_of(i) == KernelClass::kMoeGemm || stages_of(i).meets(kProducts);
  }

  void add_layers(std::size_t begin, std::size_t end, std::vector<Indices>& layers) {
    const std::optional<std::pair<std::size_t, std::size_t>> window = window_of(begin, end);
    if (!window) return;
    for (Indices& layer : divide(window->first, window->second)) {
      fill_stages(layer);
      layers.push_back(std::move(layer));
    }
  }

  // From the router's product to the last kernel of the layer, both inclusive.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> window_of(std::size_t begin, std::size_t end) const {
    std::optional<std::size_t> first, last;
    for (std::size_t i = begin; i < end; ++i) {
      if (!surely_moe(kernels_[i])) continue;
      if (!first) first = i;
      last = i;
    }
    if (!first) return eager_window(begin, end);
    const std::size_t from = router_before(begin, *first, *last);
    std::size_t to = *last;
    if (stages_of(to).has(MoeStage::kGemm2) || class_of(to) == KernelClass::kMoeGemm) {
      while (to + 1 < end && class_of(to + 1) == KernelClass::kReduce) ++to;  // a sum over picks of the framework's
    }
    return std::pair(from, to);
  }

  // A framework's eager layer has no kernel of a name of its own: a selection, then products of expert after expert.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> eager_window(std::size_t begin,
                                                                                std::size_t end) const {
    std::optional<std::size_t> select;
    std::size_t products = 0, activations = 0, last = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!select && class_of(i) == KernelClass::kSelect) select = i;
      if (!select) continue;
      if (class_of(i) == KernelClass::kGemm) {
        ++products;
        last = i;
      }
      if (class_of(i) == KernelClass::kActivation) ++activations;
    }
    if (!select || products < 2 || activations == 0) return std::nullopt;
    while (last + 1 < end &&
           (class_of(last + 1) == KernelClass::kIndexing || class_of(last + 1) == KernelClass::kReduce ||
            class_of(last + 1) == KernelClass::kElementwise)) {
      ++last;
    }
    return std::pair(router_before(begin, *select, last), last);
  }

  // The dense product just before the first kernel of a layer that chooses its experts itself.
  [[nodiscard]] std::size_t router_before(std::size_t begin, std::size_t first, std::size_t last) const {
    if (kernels_[first].given) return first;
    bool chooses = false;
    for (std::size_t i = first; i <= last && !chooses; ++i) {
      if (stages_of(i).has(MoeStage::kRouter) || class_of(i) == KernelClass::kGemm) return first;
      chooses = stages_of(i).meets(kRoutes) || class_of(i) == KernelClass::kSelect;
    }
    if (!chooses) return first;
    for (std::size_t i = first; i > begin;) {
      --i;
      switch (class_of(i)) {
        case KernelClass::kGemm:
          return i;
        case KernelClass::kGemmPart:
        case KernelClass::kElementwise:
        case KernelClass::kCopy:
        case KernelClass::kFill:
        case KernelClass::kQuantise:
        case KernelClass::kSelect:
        case KernelClass::kReduce:
        case KernelClass::kIndexing:
          continue;
        case KernelClass::kMoe:
        case KernelClass::kMoeGemm:
        case KernelClass::kMoeSetup:
        case KernelClass::kActivation:
        case KernelClass::kAttention:
        case KernelClass::kCollective:
        case KernelClass::kNorm:
        case KernelClass::kRopeCache:
        case KernelClass::kSampling:
        case KernelClass::kUnknown:
          return first;
      }
    }
    return first;
  }

  // A window's layers: a new one where a layer's begin follows a layer's end. Grouped products become gemm1 and gemm2 here.
  std::vector<Indices> divide(std::size_t from, std::size_t to) {
    std::vector<Indices> layers(1);
    bool first_done = false, activated = false, ended = false;
    const auto begin_layer = [&] {
      layers.emplace_back();
      first_done = activated = ended = false;
    };
    for (std::size_t i = from; i <= to; ++i) {
      OrderedKernel& kernel = kernels_[i];
      if (kernel.kernel_class == KernelClass::kMoeGemm && kernel.stages.empty()) {
        if (ended) begin_layer();
        kernel.stages = first_done || activated ? MoeStage::kGemm2 : MoeStage::kGemm1;
      } else if (ended && kernel.stages.meets(kBegins) && !kernel.stages.meets(kEnds)) {
        begin_layer();
      }
      first_done = first_done || kernel.stages.has(MoeStage::kGemm1);
      activated = activated || (first_done && (kernel.stages.has(MoeStage::kAct)));
      ended = ended || kernel.stages.meets(kEnds);
      layers.back().push_back(i);
    }
    return layers;
  }

  // What the products of a layer without grouped ones are.
  void assign_dense_products(const Indices& layer) {
    Indices products, activations;
    for (const std::size_t i : layer) {
      if (class_of(i) == KernelClass::kGemm && stages_of(i).empty()) products.push_back(i);
      if (class_of(i) == KernelClass::kActivation || stages_of(i).has(MoeStage::kAct)) activations.push_back(i);
    }
    // Of expert after expert: gate and up apart, or as one.
    for (const std::size_t each : {std::size_t{3}, std::size_t{2}}) {
      if (activations.size() < 2 || products.size() != each * activations.size()) continue;
      for (std::size_t p = 0; p < products.size(); ++p) {
        kernels_[products[p]].stages = p % each == each - 1 ? MoeStage::kGemm2 : MoeStage::kGemm1;
      }
      return;
    }
    for (std::size_t p = 0; p < products.size(); ++p) {
      const bool second = activations.empty() ? 2 * p >= products.size() : products[p] > activations.front();
      kernels_[products[p]].stages = second ? MoeStage::kGemm2 : MoeStage::kGemm1;
    }
  }

  void fill_stages(const Indices& layer) {
    const bool grouped = std::any_of(layer.begin(), layer.end(), [&](std::size_t i) { return is_product(i); });
    assign_router(layer);
    if (grouped) {
      for (const std::size_t i : layer) {
        if (class_of(i) == KernelClass::kGemm && stages_of(i).empty()) kernels_[i].stages = MoeStage::kShared;
      }
    } else {
      assign_dense_products(layer);
    }
    const Moment moment = moments_of(layer);
    for (std::size_t at = 0; at < layer.size(); ++at) {
      OrderedKernel& kernel = kernels_[layer[at]];
      if (kernel.stages.empty()) kernel.stages = stage_at(layer, at, moment);
    }
  }

  // The product before the selection, where the selection is the layer's own.
  void assign_router(const Indices& layer) {
    std::optional<std::size_t> product;
    for (const std::size_t i : layer) {
      if (stages_of(i).meets(kProducts) || stages_of(i).has(MoeStage::kRouter)) return;
      if (class_of(i) == KernelClass::kGemm && stages_of(i).empty()) product = i;
      const bool selects = class_of(i) == KernelClass::kSelect || stages_of(i).meets(kRoutes);
      if (!selects) continue;
      if (product) kernels_[*product].stages = MoeStage::kRouter;
      return;
    }
  }

  // Places in a layer: of its first and last products, and what it has.
  struct Moment {
    std::optional<std::size_t> first, second, last;  // of gemm1, of gemm2, of the last gemm2
    bool has_act = false, has_combine = false, copies_weights = false;
  };

  [[nodiscard]] Moment moments_of(const Indices& layer) const {
    Moment moment;
    std::size_t copies = 0, dense = 0;
    for (std::size_t at = 0; at < layer.size(); ++at) {
      const std::size_t i = layer[at];
      if (stages_of(i).has(MoeStage::kGemm1) && !moment.first) moment.first = at;
      if (stages_of(i).has(MoeStage::kGemm2)) {
        if (!moment.second) moment.second = at;
        moment.last = at;
      }
      moment.has_act = moment.has_act || stages_of(i).has(MoeStage::kAct) || class_of(i) == KernelClass::kActivation;
      moment.has_combine = moment.has_combine || stages_of(i).has(MoeStage::kCombine);
      copies += class_of(i) == KernelClass::kIndexing ? 1 : 0;
      dense += class_of(i) == KernelClass::kGemm && stages_of(i).meets(kProducts) ? 1 : 0;
    }
    moment.copies_weights = copies >= 2 && dense == 2;  // a copy of weights before each batched product
    return moment;
  }

  // Of a kernel whose stage only its place tells; empty where it does not.
  [[nodiscard]] StageSet stage_at(const Indices& layer, std::size_t at, const Moment& moment) const {
    const bool before = !moment.first || at < *moment.first;
    const bool after = moment.last && at > *moment.last;
    switch (class_of(layer[at])) {
      case KernelClass::kGemmPart:
        return at == 0 ? StageSet() : stages_of(layer[at - 1]);
      case KernelClass::kMoeSetup:
        for (std::size_t next = at + 1; next < layer.size(); ++next) {
          if (is_product(layer[next])) return stages_of(layer[next]);
        }
        return MoeStage::kPrepare;
      case KernelClass::kActivation:
        if (at > 0 && stages_of(layer[at - 1]).has(MoeStage::kShared)) return MoeStage::kShared;
        return MoeStage::kAct;
      case KernelClass::kSelect:
        return before ? MoeStage::kTopk : MoeStage::kPrepare;
      case KernelClass::kIndexing:
        if (after) return MoeStage::kCombine;
        if (moment.copies_weights) return before ? MoeStage::kGather1 : MoeStage::kGather2;
        return before ? MoeStage::kPermute : MoeStage::kPrepare;
      case KernelClass::kQuantise:
        return MoeStage::kQuantise;
      case KernelClass::kCollective:
        return after ? MoeStage::kCollect : MoeStage::kDispatch;
      case KernelClass::kReduce:
      case KernelClass::kElementwise:
        if (after) return moment.has_combine ? MoeStage::kPrepare : MoeStage::kCombine;
        if (!before && !moment.has_act && moment.second && at < *moment.second) return MoeStage::kAct;
        return MoeStage::kPrepare;
      case KernelClass::kCopy:
      case KernelClass::kFill:
      case KernelClass::kNorm:
      case KernelClass::kRopeCache:
        return MoeStage::kPrepare;
      case KernelClass::kMoe:
      case KernelClass::kMoeGemm:
      case KernelClass::kGemm:
      case KernelClass::kAttention:
      case KernelClass::kSampling:
      case KernelClass::kUnknown:
        return {};
    }
    return {};
  }

  std::vector<OrderedKernel>& kernels_;
};

}  // namespace

std::vector<std::vector<std::size_t>> split_layers(std::vector<OrderedKernel>& kernels) {
  return LayerOrder(kernels).split();
}

}  // namespace moesim
