#include "server/worker/kept_ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "kernels/numerics/cat.h"

namespace assay {
namespace {

// A line of the file after the key: kind, format, value.
bool ReadLine(std::istream& in, Ceiling& ceiling) {
  int kind = 0, dtype = 0;
  double value = 0;
  if (!(in >> kind >> dtype >> value)) return false;
  const bool known = kind >= static_cast<int>(CeilingKind::kCopy) &&
                     kind <= static_cast<int>(CeilingKind::kMatrix) && dtype >= 0 &&
                     dtype < kDTypeCount;
  if (!known || !std::isfinite(value) || !(value > 0)) return false;
  ceiling = {static_cast<CeilingKind>(kind), static_cast<DType>(dtype), value};
  return true;
}

class KeptCeilings final : public Ceilings {
 public:
  KeptCeilings(std::unique_ptr<Ceilings> measured, std::string file, std::string key)
      : measured_(std::move(measured)), file_(std::move(file)), key_(std::move(key)) {
    Read();
  }

  std::optional<double> PerSecond(CeilingKind kind, DType dtype) override {
    const DType of = IsMemory(kind) ? DType::kUnspecified : dtype;
    const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Ceiling& c) {
      return c.kind == kind && c.dtype == of;
    });
    if (known != kept_.end()) return known->per_second;
    const std::optional<double> value = measured_->PerSecond(kind, of);
    if (value) {
      kept_.push_back({kind, of, *value});
      Write();
    }
    return value;
  }

  std::int64_t CacheBytes() const override { return measured_->CacheBytes(); }

 private:
  void Read() {
    std::ifstream in(file_);
    std::string key;
    if (!std::getline(in, key) || key != key_) return;
    std::vector<Ceiling> read;
    Ceiling ceiling;
    while (in >> std::ws, !in.eof()) {
      if (!ReadLine(in, ceiling)) return;  // damaged: none of it counts
      read.push_back(ceiling);
    }
    kept_ = std::move(read);
  }

  // As a whole or not at all, for a worker may be killed at any time.
  void Write() const {
    const std::string fresh = Cat(file_, ".", getpid());
    {
      std::ofstream out(fresh);
      out.precision(17);
      out << key_ << '\n';
      for (const Ceiling& c : kept_) {
        out << static_cast<int>(c.kind) << ' ' << static_cast<int>(c.dtype) << ' ' << c.per_second
            << '\n';
      }
      out.close();
      if (!out) {
        std::remove(fresh.c_str());
        return;
      }
    }
    if (std::rename(fresh.c_str(), file_.c_str()) != 0) std::remove(fresh.c_str());
  }

  const std::unique_ptr<Ceilings> measured_;
  const std::string file_;
  const std::string key_;
  std::vector<Ceiling> kept_;
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
  std::string key = Cat("ceilings 1|", boot_id, "|", version, "|", device.id, "|", device.model,
                        "|", device.compute_units, "|", property("driver"), "|", property("uuid"));
  std::replace(key.begin(), key.end(), '\n', ' ');
  return key;
}

std::unique_ptr<Ceilings> KeepCeilings(std::unique_ptr<Ceilings> measured, std::string file,
                                       std::string key) {
  if (measured == nullptr || file.empty() || key.empty()) return measured;
  return std::make_unique<KeptCeilings>(std::move(measured), std::move(file), std::move(key));
}

}  // namespace assay
