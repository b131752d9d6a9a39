#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/providers/provider.h"

namespace assay::inline kernels {

void Registry::Add(KernelEntry entry) {
  if (Find(entry.op, entry.provider, entry.backend) != nullptr) {
    std::fprintf(stderr, "kernel registered twice: op %.*s, provider %.*s, backend %.*s\n",
                 static_cast<int>(entry.op.size()), entry.op.data(),
                 static_cast<int>(entry.provider.size()), entry.provider.data(),
                 static_cast<int>(entry.backend.size()), entry.backend.data());
    std::abort();
  }
  entries_.push_back(std::move(entry));
}

const KernelEntry* Registry::Find(std::string_view op, std::string_view provider,
                                  std::string_view backend) const {
  for (const KernelEntry& e : entries_) {
    if (e.op == op && e.provider == provider && e.backend == backend) return &e;
  }
  for (const KernelEntry& e : by_prefix_) {
    if (provider.starts_with(e.provider) && e.backend == backend) return &e;
  }
  return nullptr;
}

}  // namespace assay::kernels
