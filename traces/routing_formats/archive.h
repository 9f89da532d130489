// One array of a .npz file, which is a zip archive of .npy files.
#pragma once

#include <string>

#include "traces/npy.h"

namespace moesim {

// The only array; of several, "ids" or "data". Checks the member's size before it is unpacked and its CRC after. Throws
// InputError.
IntegerArray read_npz(const std::string& path);

// An archive with the one member `name`; the same bytes at any time.
std::string npz_bytes(const std::string& name, const std::string& npy);

}  // namespace moesim
