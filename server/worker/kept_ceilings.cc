#include "server/worker/kept_ceilings.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr double kUnknownNoise = -1;

struct Kept {
  Ceiling ceiling;
  bool again = false;  // it has been measured again since it was doubted
};

// Reads a line of the file after the key: kind, format, value, noise, suspect, again.
bool ReadLine(std::istream& in, Kept& kept) {
  int kind = 0, dtype = 0, suspect = 0, again = 0;
  double value = 0, noise = 0;
  if (!(in >> kind >> dtype >> value >> noise >> suspect >> again)) return false;
  const bool known = kind >= static_cast<int>(CeilingKind::kCopy) &&
                     kind <= static_cast<int>(CeilingKind::kMatrix) && dtype >= 0 &&
                     dtype < kDTypeCount;
  if (!known || !std::isfinite(value) || !(value > 0) || !std::isfinite(noise)) return false;
  kept.ceiling = {static_cast<CeilingKind>(kind), static_cast<DType>(dtype), value, std::nullopt,
                  suspect != 0};
  if (noise >= 0) kept.ceiling.noise = noise;
  kept.again = again != 0;
  return true;
}

class KeptCeilings final : public KnownCeilings {
 public:
  KeptCeilings(std::unique_ptr<Ceilings> measured, std::string key)
      : measured_(std::move(measured)), key_(std::move(key)) {}

  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    const DType of = IsMemory(kind) ? DType::kUnspecified : dtype;
    Kept* const known = Known(kind, of);
    if (known != nullptr && known->ceiling.suspect && !known->again) {
      known->again = true;
      MeasureAgain(*known);
      changed_ = true;
    }
    if (known != nullptr) return known->ceiling;
    const std::optional<Ceiling> ceiling = measured_->Find(kind, of);
    if (ceiling) {
      kept_.push_back({*ceiling});
      changed_ = true;
    }
    return ceiling;
  }

  void Forget(CeilingKind kind, DType dtype) override {
    const DType of = IsMemory(kind) ? DType::kUnspecified : dtype;
    measured_->Forget(kind, of);
    if (const Kept* known = Known(kind, of)) kept_.erase(kept_.begin() + (known - kept_.data()));
    changed_ = true;
  }

  void Doubt(CeilingKind kind, DType dtype) override {
    Kept* const known = Known(kind, IsMemory(kind) ? DType::kUnspecified : dtype);
    if (known == nullptr || known->ceiling.suspect) return;
    known->ceiling.suspect = true;
    changed_ = true;
  }

  void MeasureDoubtful() override {
    bool any = false;
    for (Kept& kept : kept_) {
      if (!kept.ceiling.suspect && !IsNoisy(kept.ceiling)) continue;
      MeasureAgain(kept);
      any = true;
    }
    if (any) changed_ = true;
  }

  std::int64_t CacheBytes() const override { return measured_->CacheBytes(); }

  std::vector<Ceiling> Known() const override {
    std::vector<Ceiling> known;
    for (const Kept& kept : kept_) known.push_back(kept.ceiling);
    return known;
  }

  void Restore(std::string_view text) override {
    if (key_.empty()) return;
    std::istringstream in{std::string(text)};
    std::string key;
    if (!std::getline(in, key) || key != key_) return;
    std::vector<Kept> read;
    Kept kept;
    while (in >> std::ws, !in.eof()) {
      if (!ReadLine(in, kept)) return;  // the text is damaged, so none of it counts
      read.push_back(kept);
    }
    kept_ = std::move(read);
  }

  std::string TakeText() override {
    if (!std::exchange(changed_, false) || key_.empty()) return {};
    std::ostringstream out;
    out.precision(17);
    out << key_ << '\n';
    for (const auto& [c, again] : kept_) {
      out << static_cast<int>(c.kind) << ' ' << static_cast<int>(c.dtype) << ' ' << c.per_second
          << ' ' << c.noise.value_or(kUnknownNoise) << ' ' << c.suspect << ' ' << again << '\n';
    }
    return std::move(out).str();
  }

 private:
  Kept* Known(CeilingKind kind, DType dtype) {
    const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.ceiling.kind == kind && kept.ceiling.dtype == dtype;
    });
    return known == kept_.end() ? nullptr : &*known;
  }

  // If measuring fails, the old value stays.
  void MeasureAgain(Kept& kept) {
    const Ceiling before = kept.ceiling;
    measured_->Forget(before.kind, before.dtype);
    const std::optional<Ceiling> now = measured_->Find(before.kind, before.dtype);
    if (!now) return;
    if (now->per_second >= before.per_second) kept.ceiling = *now;
    kept.ceiling.suspect = false;
  }

  const std::unique_ptr<Ceilings> measured_;
  const std::string key_;
  bool changed_ = false;
  std::vector<Kept> kept_;
};

}  // namespace

std::string BootId() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

std::string CeilingsKey(const DeviceInfo& device, std::string_view version,
                        std::string_view boot_id) {
  if (boot_id.empty()) return {};
  const auto property = [&](const std::string& name) -> std::string_view {
    const auto found = device.properties.find(name);
    return found == device.properties.end() ? std::string_view() : found->second;
  };
  std::string key = Cat("ceilings 2|", boot_id, "|", version, "|", device.id, "|", device.model,
                        "|", device.compute_units, "|", property("driver"), "|", property("uuid"));
  std::replace(key.begin(), key.end(), '\n', ' ');
  return key;
}

std::unique_ptr<KnownCeilings> KeepCeilings(std::unique_ptr<Ceilings> measured, std::string key) {
  if (measured == nullptr) return nullptr;
  return std::make_unique<KeptCeilings>(std::move(measured), std::move(key));
}

}  // namespace assay::server
