#include "server/rpc/waiting_requests.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "server/base/limit.h"

namespace assay::server {
namespace {

constexpr std::int64_t kOfAClient = 2;
constexpr std::int64_t kOfAll = 4;
constexpr absl::Duration kAgain = absl::Seconds(1);

std::string TextOf(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Valid() || !bytes.Dump(&slices).ok()) return text;
  text.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

struct WaitingRequests::Counts {
  std::mutex mutex;
  std::int64_t all = 0;                                        // mutex
  std::map<std::string, std::int64_t, std::less<>> of_client;  // mutex; none is 0

  void Give(const std::string& client, std::int64_t size) {
    const std::lock_guard lock(mutex);
    all -= size;
    const auto entry = of_client.find(client);
    if ((entry->second -= size) == 0) of_client.erase(entry);
  }
};

WaitingRequests::WaitingRequests(std::int64_t largest)
    : largest_(largest), counts_(std::make_shared<Counts>()) {}

absl::StatusOr<WaitingRequests::Request> WaitingRequests::Take(std::string_view client,
                                                               grpc::ByteBuffer& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.Valid() ? bytes.Length() : 0);
  if (size == 0) return std::make_shared<const std::string>();
  std::string who(client);
  {
    const std::lock_guard lock(counts_->mutex);
    const auto known = counts_->of_client.find(client);
    const std::int64_t had = known == counts_->of_client.end() ? 0 : known->second;
    const bool one = had + size > kOfAClient * largest_;
    if (one || counts_->all + size > kOfAll * largest_) {
      bytes.Clear();
      return LimitReached({.limit = Limit::kRequestBytes,
                           .client = one ? std::string_view(who) : std::string_view(),
                           .value = (one ? kOfAClient : kOfAll) * largest_,
                           .again = kAgain,
                           .may = "bytes in requests that wait"});
    }
    counts_->all += size;
    counts_->of_client[who] = had + size;
  }
  std::string text = TextOf(bytes);
  bytes.Clear();
  return Request(new std::string(std::move(text)),
                 [counts = counts_, who = std::move(who), size](const std::string* gone) {
                   delete gone;
                   counts->Give(who, size);
                 });
}

}  // namespace assay::server
