#include "server/pass/idle_check.h"

#include <algorithm>
#include <iterator>

#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

constexpr std::int64_t kSizes[] = {32, 64, 96, 128, 192, 256, 512, 1024};
// Sums of 1,024 products of numbers up to 4 are whole numbers that every format's
// accumulator holds.
constexpr char kPattern[] = "integers:-2:2";
constexpr v1::DType kProbed[] = {v1::DTYPE_FP32, v1::DTYPE_FP16, v1::DTYPE_BF16, v1::DTYPE_INT8};
// A larger size, of at most eight times the work, is tried where this one took less than a
// tenth of the share.
constexpr int kRoom = 10;
constexpr int kMostStrikes = 3;
// A case that hangs is a finding like another.
constexpr absl::Duration kLimit = absl::Seconds(5);

}  // namespace

void IdleCheck::FindSubjects() {
  const std::string backend = device_.Describe().backend();
  for (const v1::Kernel& kernel : device_.Kernels()) {
    if (kernel.op() != "gemm" || kernel.backend() != backend || !kernel.available() ||
        IsPlanted(kernel.provider())) {
      continue;
    }
    for (const v1::DType dtype : kProbed) {
      if (std::find(kernel.dtypes().begin(), kernel.dtypes().end(), dtype) ==
          kernel.dtypes().end()) {
        continue;
      }
      subjects_.push_back({kernel.provider(), dtype, 0, 0, false, {}});
    }
  }
}

v1::CaseSpec IdleCheck::SpecOf(const Subject& subject) const {
  const std::int64_t n = kSizes[subject.size];
  v1::CaseSpec spec;
  spec.mutable_gemm()->set_m(n);
  spec.mutable_gemm()->set_n(n);
  spec.mutable_gemm()->set_k(n);
  spec.set_provider(subject.provider);
  spec.set_dtype(subject.dtype);
  // The sums themselves, not what is left of them after a rounding.
  spec.set_out_dtype(subject.dtype == v1::DTYPE_INT8 ? v1::DTYPE_INT32 : v1::DTYPE_FP32);
  spec.set_pattern(kPattern);
  spec.set_seed(1);
  spec.set_criterion(v1::CRITERION_BITWISE);
  spec.set_mode(v1::MODE_VALIDATE);
  spec.set_probes(false);  // it is one
  spec.set_repeats(1);
  spec.set_name(Cat("idle check ", n, "x", n, "x", n, " ", subject.provider));
  *spec.mutable_deadline() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(kLimit));
  return spec;
}

v1::CaseResult IdleCheck::Execute(const Subject& subject, const CancelToken& cancel) {
  const absl::Time start = EvenTime();
  const bool held = device_.Describe().leased_bytes() > 0;
  held_since_ = held ? std::min(held_since_, start) : absl::InfiniteFuture();
  const bool idle =
      options_.idle_release > absl::ZeroDuration() && start - held_since_ >= options_.idle_release;
  v1::CaseResult result = device_.Execute(SpecOf(subject), 0, kLimit, cancel);
  if (cancel.cancelled() && result.verdict() == v1::VERDICT_SKIPPED) return result;
  if (!held || idle) {
    (void)device_.GiveBack();  // a job that came meanwhile holds it, and may
    held_since_ = absl::InfiniteFuture();
  }
  return result;
}

void IdleCheck::Judge(Subject& subject, v1::CaseResult& result) {
  const std::string& digest = result.digests().canonical();
  const auto before = subject.digests.find(subject.size);
  if (before == subject.digests.end()) {
    // What is held against is what the reference agreed with.
    if (result.verdict() == v1::VERDICT_PASSED) subject.digests[subject.size] = digest;
  } else if (!digest.empty() && before->second != digest) {
    result.set_verdict(v1::VERDICT_FAILED);
    *result.add_findings() = MakeFinding(
        v1::REASON_DIGEST, Cat("the digest is ", digest, ", and was ", before->second, " before"));
  }
  if (result.verdict() != v1::VERDICT_PASSED) {
    Log(LogLevel::kError, "probe.failed",
        {{"device", device_.device_id()},
         {"case", result.name()},
         {"verdict", v1::Verdict_Name(result.verdict())},
         {"reason", result.findings_size() > 0 ? result.findings(0).message() : ""},
         {"repro", result.repro()}});
  }
  if (metrics_ != nullptr) metrics_->CaseFinished(result);
}

void IdleCheck::Pace(Subject& subject, const std::string& name, absl::Duration ran) const {
  if (ran <= options_.share) {
    subject.strikes = 0;
    if (kRoom * ran < options_.share && subject.size + 1 < std::size(kSizes)) ++subject.size;
    return;
  }
  if (subject.size > 0) {
    --subject.size;
    return;
  }
  // A first run, or one beside other work, takes longer than the next.
  subject.too_slow = ++subject.strikes == kMostStrikes;
  if (!subject.too_slow) return;
  Log(LogLevel::kWarn, "probe.left_out",
      {{"device", device_.device_id()},
       {"case", name},
       {"reason", Cat("it took longer than ", absl::FormatDuration(options_.share), " ",
                      kMostStrikes, " times in a row")}});
}

bool IdleCheck::Run(const CancelToken& cancel) {
  if (subjects_.empty()) FindSubjects();
  if (options_.in_use && options_.in_use(device_.device_id())) return false;
  if (device_.Describe().state() == v1::DEVICE_STATE_QUARANTINED) return false;
  for (std::size_t tried = 0; tried < subjects_.size() && !cancel.cancelled(); ++tried) {
    Subject& subject = subjects_[next_];
    next_ = (next_ + 1) % subjects_.size();
    if (subject.too_slow) continue;
    const absl::Time start = EvenTime();
    v1::CaseResult result = Execute(subject, cancel);
    const absl::Duration took = EvenTime() - start;
    if (cancel.cancelled() && result.verdict() == v1::VERDICT_SKIPPED) return false;
    if (result.verdict() == v1::VERDICT_UNSUPPORTED) {
      subject.too_slow = true;
      continue;
    }
    Judge(subject, result);
    // A worker that had to be started first took longer than its case.
    const std::int64_t own =
        google::protobuf::util::TimeUtil::DurationToNanoseconds(result.duration());
    Pace(subject, result.name(), own > 0 ? absl::Nanoseconds(own) : took);
    return true;
  }
  return false;
}

}  // namespace assay::server
