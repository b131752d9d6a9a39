#include "client/cli/ceilings.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "client/lib/words.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr char kNothing[] = "–";

std::string Rate(const v1::Ceiling& ceiling, double per_second) {
  if (!ceiling.has_flops_per_second()) return RateText(per_second, "B");
  return RateText(per_second, ceiling.dtype() == v1::DTYPE_INT8 ? "OP" : "FLOP");
}

std::string Remark(const v1::Ceiling& ceiling) {
  if (!ceiling.suspect()) return ceiling.data_sheet_source();
  constexpr char kSuspect[] = "suspect: a kernel was faster; asked for again, it is measured anew";
  if (ceiling.data_sheet_source().empty()) return kSuspect;
  return absl::StrCat(ceiling.data_sheet_source(), "; ", kSuspect);
}

std::string WhyNone(const v1::Device& device) {
  for (const std::string* reason : {&device.unavailable_reason(), &device.quarantine_reason()}) {
    if (!reason->empty()) return *reason;
  }
  if (device.state() == v1::DEVICE_STATE_BUSY) return "not measured: the device is busy";
  return "could not be measured";
}

}  // namespace

std::vector<std::string> CeilingHeading() {
  return {"DEVICE", "KIND", "TYPE", "MEASURED", "NOISE", "DATA SHEET", "SHARE", ""};
}

std::vector<std::vector<std::string>> CeilingRows(const v1::Device& device) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    const double measured =
        ceiling.has_flops_per_second() ? ceiling.flops_per_second() : ceiling.bytes_per_second();
    const bool sheet = ceiling.has_data_sheet_per_second();
    const double peak = ceiling.data_sheet_per_second();
    rows.push_back({device.id(), OrDash(Word(ceiling.kind())), OrDash(Word(ceiling.dtype())),
                    Rate(ceiling, measured),
                    ceiling.has_noise() ? PercentText(ceiling.noise()) : kNothing,
                    sheet ? Rate(ceiling, peak) : kNothing,
                    sheet && peak > 0 ? PercentText(measured / peak) : kNothing, Remark(ceiling)});
  }
  if (rows.empty()) {
    rows.push_back(
        {device.id(), kNothing, kNothing, kNothing, kNothing, kNothing, kNothing, WhyNone(device)});
  }
  return rows;
}

std::vector<std::string> CeilingWords(const v1::Device& device) {
  std::vector<std::string> words;
  std::map<v1::DType, const v1::Ceiling*> best;
  for (const v1::Ceiling& ceiling : device.ceilings()) {
    if (ceiling.has_flops_per_second()) {
      const v1::Ceiling*& known = best[ceiling.dtype()];
      if (known == nullptr || ceiling.flops_per_second() > known->flops_per_second()) {
        known = &ceiling;
      }
    } else if (ceiling.kind() == v1::CEILING_KIND_COPY ||
               ceiling.kind() == v1::CEILING_KIND_UNSPECIFIED) {
      words.push_back(absl::StrCat("copy ", Rate(ceiling, ceiling.bytes_per_second())));
    }
  }
  for (const auto& [dtype, ceiling] : best) {
    words.push_back(absl::StrCat(Word(dtype), " ", Rate(*ceiling, ceiling->flops_per_second())));
  }
  return words;
}

}  // namespace assay::client
