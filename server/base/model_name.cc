#include "server/base/model_name.h"

#include "kernels/text/cat.h"

namespace assay::server {

std::string ModelName(const v1::Device& device) {
  const int cores = device.backend() == "cpu" ? device.compute_units() : 0;
  if (cores <= 0) return device.model();
  return Cat(device.model(), " (", cores, cores == 1 ? " core)" : " cores)");
}

}  // namespace assay::server
