#include "hwmodels/hardware_model.h"

#include "sim/units/check.h"

namespace moesim {

double HardwareModel::operator[](Hw id) const {
  const std::optional<Constant>& constant = constants[static_cast<std::size_t>(id)];
  MOESIM_CHECK(constant.has_value());
  return constant->value;
}

}  // namespace moesim
