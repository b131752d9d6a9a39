// Runs a case of a job again and shows elements of its tensors.
#ifndef ASSAY_CLIENT_CLI_SLICES_H_
#define ASSAY_CLIENT_CLI_SLICES_H_

#include <string>
#include <vector>

#include "client/cli/context.h"

namespace assay::client {

// How slices are shown, unless --format asks for another form.
struct SliceStyle {
  bool bits = false;  // raw bits in place of values
  // Of bytes: a table of words of these types, such as "u32", in place of a grid.
  std::vector<std::string> words;
};

// Runs the case again on its device, with its seed, as a job of its own, and prints the
// slices as grids, or as --format asks. An empty `which` is a usage error. The code says
// whether there was something to show, not what the verdict is.
ExitCode ShowSlices(const Context& context, const std::string& job, const std::string& which,
                    const std::vector<std::string>& slices, const SliceStyle& style);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_SLICES_H_
