#include "server/worker/death_toll.h"

#include <algorithm>

#include "kernels/text/cat.h"

namespace assay::server {

std::string DeathToll::Add(const Death& death, absl::Time now) {
  next_start_ = now + back_off_;
  back_off_ = std::clamp(back_off_ * 2, absl::Seconds(1), limits_.longest_back_off);
  if (!death.counts) return "";
  ++in_a_row_;
  within_window_.push_back(now);
  while (within_window_.front() < now - limits_.window) within_window_.pop_front();
  if (in_a_row_ >= limits_.in_a_row) {
    return Cat(in_a_row_, " deaths of its worker in a row, the last: ", death.finding.message());
  }
  if (static_cast<int>(within_window_.size()) >= limits_.in_window) {
    return Cat(within_window_.size(), " deaths of its worker within ",
               absl::FormatDuration(limits_.window), ", the last: ", death.finding.message());
  }
  return "";
}

void DeathToll::Answered() {
  in_a_row_ = 0;
  back_off_ = absl::ZeroDuration();
}

void DeathToll::Forgive() {
  Answered();
  within_window_.clear();
  next_start_ = absl::InfinitePast();
}

}  // namespace assay::server
