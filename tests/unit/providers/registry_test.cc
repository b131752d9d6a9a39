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
  for (const Op* op : AllOps()) {
    std::set<std::string_view> providers;
    for (const KernelEntry& e : AllKernels().entries()) {
      if (e.op == op->name() && !e.provider.starts_with(kPlantedPrefix)) {
        providers.insert(e.provider);
      }
    }
    EXPECT_TRUE(providers.contains("builtin")) << op->name();
    // oneDNN's softmax takes no product with scales a column.
    const bool fused = op->name() == "dequant_softmax";
    EXPECT_EQ(providers.contains("onednn"), !fused) << op->name();
    // BLAS has nothing to say about normalisations.
    const bool blas = !fused && op->name() != "softmax" && op->name() != "layer_norm";
    EXPECT_EQ(providers.contains("openblas"), blas) << op->name();
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
