#include "server/jobs/job_names.h"

#include <unistd.h>

#include <array>
#include <random>
#include <utility>

namespace assay::server {
namespace {

// 40 random bits in letters that are not mistaken for one another.
std::string RandomName() {
  static constexpr std::string_view kLetters = "abcdefghijkmnpqrstuvwxyz23456789";
  static_assert(kLetters.size() == 32);
  std::array<unsigned char, 8> random{};
  // std::random_device asks the processor, which takes 20 µs a number on some virtual machines.
  if (getentropy(random.data(), random.size()) != 0) {
    std::random_device other;
    for (unsigned char& byte : random) byte = static_cast<unsigned char>(other());
  }
  std::string name = "jobs/";
  for (const unsigned char byte : random) name += kLetters[byte % kLetters.size()];
  return name;
}

}  // namespace

JobNames::Name JobNames::Take() {
  {
    const std::lock_guard guard(mutex_);
    if (!next_.empty()) return {.text = std::exchange(next_, ""), .is_new = true};
  }
  return Find();
}

JobNames::Name JobNames::Find() {
  std::string name;
  do {
    name = RandomName();
    const std::lock_guard guard(mutex_);
    if (!held_.insert(name).second) name.clear();
  } while (name.empty());
  // Nobody else can store it now, so that this stays true.
  const bool is_new = absl::IsNotFound(store_.GetJob(name).status());
  return {.text = std::move(name), .is_new = is_new};
}

void JobNames::FindNext() {
  Name found = Find();
  const std::lock_guard guard(mutex_);
  if (found.is_new && next_.empty()) {
    next_ = std::move(found.text);
  } else {
    held_.erase(found.text);
  }
}

void JobNames::Hold(std::string_view name) {
  const std::lock_guard guard(mutex_);
  held_.emplace(name);
}

void JobNames::Release(std::string_view name) {
  const std::lock_guard guard(mutex_);
  const auto found = held_.find(name);
  if (found != held_.end()) held_.erase(found);
}

}  // namespace assay::server
