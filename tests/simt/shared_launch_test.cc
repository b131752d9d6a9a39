// What many small cases share on a GPU, under the emulator: one launch to compare them, one
// to fill their operands, one copy for their fingerprints. The same results as by themselves,
// and launches and copies as the emulator counts them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/numerics/generate.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/simt/engine.h"
#include "simt/compare_simt.h"
#include "simt/strided.h"

namespace assay {
namespace {

class SimtSharedLaunch : public testing::TestWithParam<int> {
 protected:
  SimtSharedLaunch() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
    device_ = *GpuDevice::Make(0, ArenaOptions{.max_bytes = std::int64_t{16} << 20});
  }
  ~SimtSharedLaunch() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }

  // What has been launched, and copied off the device, since the last call.
  struct Use {
    std::int64_t launches, copies, bytes;
  };
  Use Since() {
    const Traffic traffic = device_->traffic();
    const Use now{simt::Launches(), traffic.copies_off, traffic.bytes_off};
    const Use since{now.launches - last_.launches, now.copies - last_.copies,
                    now.bytes - last_.bytes};
    last_ = now;
    return since;
  }

  std::unique_ptr<GpuDevice> device_;
  Use last_{};
};

INSTANTIATE_TEST_SUITE_P(Waves, SimtSharedLaunch, testing::Values(32, 64));

struct Requests {
  void Add(DType format, const Extents& shape, Kind kind, Gate gate) {
    auto& one = *data.emplace_back(std::make_unique<Data>(format, shape));
    Fill(kind, data.size(), &one);
    one.request.gate = gate;
    all.push_back(one.request);
  }
  std::vector<std::unique_ptr<Data>> data;
  std::vector<CompareRequest> all;
};

TEST_P(SimtSharedLaunch, ComparisonsOfAnyKindAreThoseByThemselves) {
  Requests requests;
  for (int i = 0; i < 17; ++i) {
    const Extents strided{2, 3 + i, 37, 40, 40 * (5 + i)};
    const Extents shape = i % 3 == 0 ? strided : Extents::Dense(1, i == 10 ? 0 : 7, 61 + i);
    requests.Add(kFormatsUnderTest[i % 12], shape, kKinds[i % 6], kGates[i % 5]);
    // Among the first eight, so that the launch goes on behind it.
    if (i == 4) {
      requests.Add(DType::kF16, Extents::Dense(1, 1, gpu::kSmallCompare + 1), Kind::kWrong,
                   Gate::kBound);
    }
  }
  Since();
  const auto results = device_->CompareAll(requests.all);
  ASSERT_TRUE(results.ok()) << results.status();
  const Use use = Since();
  EXPECT_EQ(use.launches, 3 + 2);
  EXPECT_GE(use.copies, 3 + 1);
  ASSERT_EQ(results->size(), requests.all.size());
  for (std::size_t i = 0; i < results->size(); ++i) {
    SCOPED_TRACE(testing::Message() << "request " << i);
    ExpectTheSame((*results)[i], ComparePlain(requests.all[i]).value());
    const auto alone = device_->Compare(requests.all[i]);
    ASSERT_TRUE(alone.ok()) << alone.status();
    ExpectTheSame((*results)[i], *alone);
  }
}

TEST_P(SimtSharedLaunch, CleanComparisonsTakeOneLaunchAndOneCopy) {
  Requests requests;
  for (int i = 0; i < gpu::kComparesOfALaunch; ++i) {
    requests.Add(i % 2 == 0 ? DType::kF16 : DType::kF32, Extents::Dense(1, 3, 100 + i),
                 Kind::kClean, Gate::kBoundProbable);
  }
  Since();
  const auto results = device_->CompareAll(requests.all);
  ASSERT_TRUE(results.ok()) << results.status();
  const Use use = Since();
  EXPECT_EQ(use.launches, 1);
  EXPECT_EQ(use.copies, 1);
  EXPECT_EQ(use.bytes, 8 * 224);
  for (const CompareResult& c : *results) EXPECT_EQ(c.mismatches, 0);
  // What has more to tell is fetched, and no other.
  requests.data[5]->Set(17, 100.0);
  EXPECT_EQ(device_->CompareAll(requests.all)->at(5).samples.at(0).index, 17);
  EXPECT_EQ(Since().copies, 2);
}

TEST_P(SimtSharedLaunch, NothingAndWhatCannotBeCompared) {
  EXPECT_TRUE(device_->CompareAll({})->empty());
  Requests requests;
  requests.Add(DType::kF16, Extents::Dense(1, 1, 5), Kind::kClean, Gate::kBound);
  requests.Add(DType::kF16, Extents::Dense(1, 1, 5), Kind::kClean, Gate::kBound);
  requests.all[1].reference = nullptr;
  EXPECT_EQ(device_->CompareAll(requests.all).status().code(), absl::StatusCode::kInvalidArgument);
}

// Operands of ten small cases: three formats and three patterns each.
TEST_P(SimtSharedLaunch, FillsOfAnyKindAreThoseByThemselves) {
  const Pattern patterns[] = {{PatternKind::kNormal, 1, 0},
                              {PatternKind::kUniform, -1, 1},
                              {PatternKind::kOnes, 1, 0},
                              {PatternKind::kSparse, 0.2, 1}};
  std::vector<gpu::Strided> got, want;
  std::vector<FillSpec> specs;
  for (int i = 0; i < 30; ++i) {
    const Extents shape =
        i % 4 == 3 ? Extents{3, 2, 33, 36, 36 + 33} : Extents::Dense(1, 3 + i, 17);
    const DType format = gpu::kAllFormats[(i * 5) % 12];
    got.emplace_back(format, shape);
    want.emplace_back(format, shape);
    specs.push_back({patterns[i % 4], 7, static_cast<std::uint32_t>(i), 2});
    Generator generator(specs.back().pattern, 7, specs.back().tensor_id, 2, shape.rows, shape.cols,
                        format);
    for (std::int64_t e = 0; e < shape.count(); ++e) want.back().Store(e, generator.Bits(e));
  }
  Since();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE(device_->Fill(specs[i], got[i].view()).ok());
  }
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(Since().launches, 2);  // of 24 and of 6
  for (std::size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(got[i].bytes(), want[i].bytes()) << i;
}

TEST_P(SimtSharedLaunch, FingerprintsComeTogether) {
  std::vector<gpu::Strided> tensors;
  for (int i = 0; i < 12; ++i) {
    tensors.emplace_back(gpu::kAllFormats[i], Extents{2, i == 7 ? 0 : 3, 33, 37, 120});
    tensors.back().Scramble(static_cast<std::uint64_t>(i));
  }
  std::vector<std::vector<TensorView>> groups(9);  // the first without any
  for (std::size_t i = 0; i < 20; ++i) {
    groups[i % 8 + 1].push_back(tensors[i % tensors.size()].view());
  }
  Since();
  const auto together = device_->FingerprintsOf(groups);
  ASSERT_TRUE(together.ok()) << together.status();
  const Use use = Since();
  EXPECT_EQ(use.copies, 1);
  EXPECT_LT(use.bytes, 1024);
  ASSERT_EQ(together->size(), groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ((*together)[i], device_->FingerprintOf(groups[i]).value()) << i;
    EXPECT_EQ((*together)[i], device_->Device::FingerprintOf(groups[i]).value()) << i;
  }
  EXPECT_TRUE(device_->FingerprintsOf({})->empty());
  // More than come at once.
  groups.resize(100, {tensors[0].view()});
  const auto many = device_->FingerprintsOf(groups);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->at(1), together->at(1));
  EXPECT_EQ(many->at(99), device_->FingerprintOf(groups[99]).value());
}

// Fills that wait for company are launched before anything else that the device is asked for.
TEST_P(SimtSharedLaunch, WhatWaitsIsFilledBeforeWhateverFollows) {
  const Extents padded{2, 3, 33, 37, 120};
  const auto tensor = [&](DType t) {
    return TensorView{device_->arena().Allocate(4096, /*guarded=*/true)->data, t, padded};
  };
  const TensorView filled = tensor(DType::kF32), other = tensor(DType::kF32),
                   another = tensor(DType::kF32);
  const std::vector<double> reference(static_cast<std::size_t>(padded.count()));
  CompareRequest compare;
  compare.output = other;
  compare.reference = reference.data();
  ChecksumRequest checksum;
  checksum.matrix = other;
  checksum.squares = true;
  RecheckRequest recheck;
  recheck.output = other;
  KeepRequest keep;
  keep.output = other;
  keep.reference = reference.data();
  const std::int64_t at[] = {5};
  keep.at = at;
  float word = 0;
  const auto nothing = [] { return absl::OkStatus(); };
  const std::vector<TensorView> views = {other};
  const std::pair<const char*, std::function<absl::Status()>> uses[] = {
      {"stream", [&] { return device_->stream().status(); }},
      {"PoisonTensor", [&] { return device_->PoisonTensor(Poison::kFirst, other); }},
      {"GuardPadding", [&] { return device_->GuardPadding(Poison::kFirst, other); }},
      {"CheckPadding", [&] { return device_->CheckPadding(Poison::kFirst, other).status(); }},
      {"WriteGuards", [&] { return device_->WriteGuards(Poison::kFirst); }},
      {"CheckGuards", [&] { return device_->CheckGuards(Poison::kFirst).status(); }},
      {"CountDamage", [&] { return device_->CountDamage(Poison::kFirst, views).status(); }},
      {"Compare", [&] { return device_->Compare(compare).status(); }},
      {"CompareAll",
       [&] {
         return device_->CompareAll({&compare, 1}).status();
       }},
      {"Checksum", [&] { return device_->Checksum(checksum).status(); }},
      {"Digest", [&] { return device_->Digest(other).status(); }},
      {"FingerprintsOf",
       [&] {
         return device_->FingerprintsOf({&views, 1}).status();
       }},
      {"Recheck", [&] { return device_->Recheck(recheck).status(); }},
      {"KeepElements", [&] { return device_->KeepElements(keep).status(); }},
      {"HoldAgainst",
       [&] {
         return device_->HoldAgainst(KeptElements{1, {}}, other).status();
       }},
      {"Copy", [&] { return device_->Copy(other, another); }},
      {"ToHost", [&] { return device_->ToHost(other, 0, 1, &word); }},
      {"FromHost", [&] { return device_->FromHost(&word, sizeof word, other.data); }},
      {"EvictFromCaches", [&] { return device_->EvictFromCaches(views); }},
      {"Synchronize", [&] { return device_->Synchronize(); }},
      {"TimeLaunch", [&] { return device_->TimeLaunch(nothing).status(); }},
      {"RecordLaunch", [&] { return device_->RecordLaunch(nothing).status(); }},
  };
  float value = 1;
  for (const auto& [name, use] : uses) {
    Since();
    ASSERT_TRUE(device_->Fill({{PatternKind::kConstant, ++value, 0}, 1, 0, 0}, filled).ok());
    EXPECT_EQ(Since().launches, 0) << name;
    const absl::Status status = use();
    EXPECT_TRUE(status.ok()) << name << ": " << status;
    EXPECT_EQ(filled.as<float>()[0], value) << name;
  }
  // What is written over a tensor that waits stays.
  ASSERT_TRUE(device_->Fill({{PatternKind::kOnes, 1, 0}, 1, 0, 0}, filled).ok());
  word = -3;
  ASSERT_TRUE(device_->FromHost(&word, sizeof word, filled.data).ok());
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_EQ(filled.as<float>()[0], -3);
}

TEST_P(SimtSharedLaunch, TheDeviceSaysThatItShares) { EXPECT_TRUE(device_->shares_launches()); }

}  // namespace
}  // namespace assay
