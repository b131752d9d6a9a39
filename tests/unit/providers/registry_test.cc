#include <gtest/gtest.h>

#include <set>

#include "kernels/ops/op.h"
#include "kernels/providers/planted/planted.h"
#include "tests/unit/providers/provider_testing.h"

namespace assay::testing {
namespace {

KernelEntry Entry(std::string_view op, std::string_view provider) {
  KernelEntry e;
  e.op = op;
  e.provider = provider;
  e.backend = "cpu";
  return e;
}

TEST(Registry, FindsByOpProviderAndBackend) {
  Registry r;
  r.Add(Entry("gemm", "a"));
  r.Add(Entry("gemm", "b"));
  r.Add(Entry("conv", "a"));
  EXPECT_EQ(r.entries().size(), 3u);
  ASSERT_NE(r.Find("gemm", "b", "cpu"), nullptr);
  EXPECT_EQ(r.Find("gemm", "b", "cpu")->provider, "b");
  EXPECT_EQ(r.Find("conv", "b", "cpu"), nullptr);
  EXPECT_EQ(r.Find("gemm", "a", "cuda"), nullptr);
}

TEST(RegistryDeathTest, DuplicateAborts) {
  Registry r;
  r.Add(Entry("gemm", "a"));
  EXPECT_DEATH(r.Add(Entry("gemm", "a")), "registered twice: op gemm, provider a, backend cpu");
}

TEST(Registry, EveryEntryCanBeMadeAndNamesAKnownOp) {
  for (const KernelEntry& e : AllKernels().entries()) {
    EXPECT_NE(FindOp(e.op), nullptr) << e.op << " " << e.provider;
    EXPECT_TRUE(e.make != nullptr || !e.unavailable_reason.empty()) << e.op << " " << e.provider;
    EXPECT_FALSE(e.dtypes.empty()) << e.op << " " << e.provider;
  }
}

TEST(Registry, EveryOpHasItsProviders) {
  const std::set<std::string_view> of_onednn = {"gemm",    "conv",       "attention",
                                                "softmax", "layer_norm", "copy"};
  const std::set<std::string_view> of_openblas = {"gemm", "conv", "attention", "copy"};
  for (const Op* op : AllOps()) {
    std::set<std::string_view> providers;
    for (const KernelEntry& e : AllKernels().entries()) {
      if (e.op == op->name() && !e.provider.starts_with(kPlantedPrefix)) {
        providers.insert(e.provider);
      }
    }
    EXPECT_NE(providers.contains("builtin"), op->traits().own_reference) << op->name();
    EXPECT_EQ(providers.contains("onednn"), of_onednn.contains(op->name())) << op->name();
    EXPECT_EQ(providers.contains("openblas"), of_openblas.contains(op->name())) << op->name();
  }
}

// The table and the registry say the same.
TEST(Planted, EveryDefectIsRegisteredUnderItsPrefix) {
  std::size_t registered = 0;
  for (const KernelEntry& e : AllKernels().entries()) {
    registered += e.provider.starts_with(kPlantedPrefix) ? 1 : 0;
  }
  EXPECT_EQ(registered, PlantedDefects().size());
  for (const PlantedDefect& d : PlantedDefects()) {
    const KernelEntry* e = AllKernels().Find(d.op, PlantedProvider(d), "cpu");
    ASSERT_NE(e, nullptr) << d.op << " " << d.name;
    EXPECT_EQ(e->dtypes, d.dtypes);
    for (const DType t : d.dtypes) {
      const Case c = PlantedCase(d, t);
      EXPECT_EQ(OpName(c.problem), d.op);
      EXPECT_TRUE(Check(c).empty())
          << c.name << ": " << Check(c)[0].field << " " << Check(c)[0].message;
    }
  }
}

}  // namespace
}  // namespace assay::testing
