// Default implementations for devices that have none of their own: they copy single elements to the
// host and judge them there.
#include "kernels/runtime/device.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/recheck_rule.h"

namespace assay::inline kernels {
namespace {

// Reads the elements at index(0), index(1), …, which are ascending. Neighbours are copied in one
// piece.
template <class Index>
absl::StatusOr<std::vector<double>> Gather(Device& device, const TensorView& view, std::size_t n,
                                           Index index) {
  std::vector<double> values(n);
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < n;) {
    std::size_t run = 1;
    while (i + run < n && index(i + run) == index(i) + static_cast<std::int64_t>(run)) ++run;
    const auto count = static_cast<std::int64_t>(run);
    bytes.resize(static_cast<std::size_t>(StorageBytes(view.dtype, count)));
    absl::Status status = device.ToHost(view, index(i), count, bytes.data());
    if (!status.ok()) return status;
    for (std::int64_t j = 0; j < count; ++j) {
      values[i + static_cast<std::size_t>(j)] = LoadDouble(view.dtype, bytes.data(), j);
    }
    i += run;
  }
  return values;
}

// The same for an array of doubles on the device. Zeros if `data` is null.
template <class Index>
absl::StatusOr<std::vector<double>> GatherDoubles(Device& device, const double* data,
                                                  std::int64_t count, std::size_t n, Index index) {
  if (data == nullptr) return std::vector<double>(n);
  const TensorView view{const_cast<double*>(data), DType::kF64, Extents::Dense(1, 1, count)};
  return Gather(device, view, n, index);
}

}  // namespace

absl::StatusOr<std::int64_t> Device::CountDamage(Poison poison, std::span<const TensorView> views) {
  absl::StatusOr<std::int64_t> bytes = CheckGuards(poison);
  for (const TensorView& view : views) {
    if (!bytes.ok()) break;
    const absl::StatusOr<std::int64_t> padding = CheckPadding(poison, view);
    if (!padding.ok()) return padding.status();
    *bytes += *padding;
  }
  return bytes;
}

absl::StatusOr<Fingerprint> Device::FingerprintOf(std::span<const TensorView> views) {
  Fingerprint fingerprint;
  std::uint64_t at = 0;
  for (const TensorView& view : views) {
    const absl::StatusOr<TensorDigest> digest = Digest(view);
    if (!digest.ok()) return digest.status();
    for (const std::uint64_t word :
         {digest->raw[0], digest->raw[1], digest->canonical[0], digest->canonical[1]}) {
      for (int k = 0; k < 2; ++k) {
        fingerprint.words[k] += DigestTerm(word, at, kDigestSeeds[k]);
      }
      ++at;
    }
  }
  return fingerprint;
}

absl::StatusOr<std::vector<Fingerprint>> Device::FingerprintsOf(
    std::span<const std::vector<TensorView>> groups) {
  std::vector<Fingerprint> fingerprints;
  for (const std::vector<TensorView>& views : groups) {
    const absl::StatusOr<Fingerprint> one = FingerprintOf(views);
    if (!one.ok()) return one.status();
    fingerprints.push_back(*one);
  }
  return fingerprints;
}

absl::StatusOr<std::vector<CompareResult>> Device::CompareAll(
    std::span<const CompareRequest> requests) {
  std::vector<CompareResult> results;
  for (const CompareRequest& request : requests) {
    absl::StatusOr<CompareResult> one = Compare(request);
    if (!one.ok()) return one.status();
    results.push_back(*std::move(one));
  }
  return results;
}

absl::StatusOr<RecheckFindings> Device::Recheck(const RecheckRequest& request) {
  const std::span<const HostElement> elements = request.elements;
  const auto index = [&](std::size_t i) { return elements[i].index; };
  const std::int64_t count = request.output.count();
  const bool has_output = request.output.data != nullptr;
  const auto references = GatherDoubles(*this, request.reference, count, elements.size(), index);
  if (!references.ok()) return references.status();
  const auto allowances = GatherDoubles(*this, request.allowance, count, elements.size(), index);
  if (!allowances.ok()) return allowances.status();
  absl::StatusOr<std::vector<double>> outputs(std::vector<double>(elements.size()));
  if (has_output) outputs = Gather(*this, request.output, elements.size(), index);
  if (!outputs.ok()) return outputs.status();
  RecheckFindings findings;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const internal::DeviceElement found = {(*references)[i], (*allowances)[i], (*outputs)[i],
                                           request.allowance != nullptr, has_output};
    const Disagreement what = internal::DisagreementOf(elements[i], found, request.exact);
    if (what == Disagreement::kNone || ++findings.disagreements > 1) continue;
    findings.first = static_cast<std::int64_t>(i);
    findings.what = what;
    findings.got = internal::GotOf(what, found);
  }
  return findings;
}

absl::StatusOr<KeptElements> Device::KeepElements(const KeepRequest& request) {
  const auto index = [&](std::size_t i) { return request.at[i]; };
  const std::size_t n = request.at.size();
  const std::int64_t count = request.output.count();
  const auto values = Gather(*this, request.output, n, index);
  if (!values.ok()) return values.status();
  const auto references = GatherDoubles(*this, request.reference, count, n, index);
  if (!references.ok()) return references.status();
  const auto allowances = GatherDoubles(*this, request.allowance, count, n, index);
  if (!allowances.ok()) return allowances.status();
  KeptElements kept{static_cast<std::int64_t>(n), {}};
  for (std::size_t i = 0; i < n; ++i) {
    kept.here.push_back(
        internal::Keep(request.rule, index(i), (*values)[i], (*references)[i], (*allowances)[i]));
  }
  return kept;
}

absl::StatusOr<HeldFindings> Device::HoldAgainst(const KeptElements& kept,
                                                 const TensorView& output) {
  const auto index = [&](std::size_t i) { return kept.here[i].index; };
  const auto actual = Gather(*this, output, kept.here.size(), index);
  if (!actual.ok()) return actual.status();
  HeldFindings findings;
  for (std::size_t i = 0; i < kept.here.size(); ++i) {
    const Held held = internal::HoldAgainst(kept.here[i], (*actual)[i]);
    findings.compared += held == Held::kLeftOut ? 0 : 1;
    if (held != Held::kOther || ++findings.mismatches > 1) continue;
    findings.first = static_cast<std::int64_t>(i);
    findings.actual = (*actual)[i];
    findings.kept = kept.here[i];
  }
  return findings;
}

}  // namespace assay::kernels
