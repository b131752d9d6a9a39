#include "server/store/each_result.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/store/record.h"

namespace assay::server {
namespace {

constexpr int kResultsPerPage = 1000;  // results, if they are small; see Store::Results

}  // namespace

absl::StatusOr<bool> AnyResult(Store& store, std::string_view job,
                               const std::function<bool(const v1::CaseResult&)>& matches) {
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page =
        store.Results(job, from, kResultsPerPage);
    if (!page.ok()) return page.status();
    if (page->empty()) return false;
    if (page->back().index() < from) return Unreadable("result", job);
    if (std::any_of(page->begin(), page->end(), matches)) return true;
    from = page->back().index() + 1;
  }
}

absl::Status ForEachResult(Store& store, std::string_view job,
                           const std::function<void(const v1::CaseResult&)>& visit) {
  return AnyResult(store, job,
                   [&](const v1::CaseResult& result) {
                     visit(result);
                     return false;
                   })
      .status();
}

}  // namespace assay::server
