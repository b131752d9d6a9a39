// The parameters of a kernel, by the symbol that its compiler gave it.
#include "kernels/providers/user/kernel_signature.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace assay {
namespace {

using simt::Parameter;
using simt::ParameterKind;

std::vector<Parameter> Of(const std::string& symbol) {
  const auto parameters = ParametersOf(symbol);
  EXPECT_TRUE(parameters.ok() && *parameters) << symbol;
  return parameters.ok() && *parameters ? **parameters : std::vector<Parameter>();
}

TEST(KernelSignature, PointersSayTheirFormat) {
  // void f(float const*, double*, __half const*, __nv_bfloat16*, signed char*, int*, unsigned*)
  const auto found = Of("_Z1fPKfPdPK6__halfP13__nv_bfloat16PaPiPj");
  ASSERT_EQ(found.size(), 7u);
  const unsigned formats[] = {ASSAY_F32, ASSAY_F64, ASSAY_F16, ASSAY_BF16, ASSAY_I8, ASSAY_I32, 0};
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].kind, ParameterKind::kPointer) << i;
    EXPECT_EQ(found[i].dtype, formats[i]) << i;
    EXPECT_EQ(SizeOf(found[i]), sizeof(void*));
  }
  // void f(hip_bfloat16 const*, __hip_bfloat16*), of HIP's compiler
  const auto of_hip = Of("_Z1fPK12hip_bfloat16P14__hip_bfloat16");
  ASSERT_EQ(of_hip.size(), 2u);
  for (const Parameter& parameter : of_hip) EXPECT_EQ(parameter.dtype, unsigned{ASSAY_BF16});
}

TEST(KernelSignature, NumbersHaveTheirSizes) {
  // void f(bool, signed char, unsigned short, int, unsigned long, float, double, __half)
  const auto found = Of("_Z1fbatimfd6__half");
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(SizeOf(Of("_Z1f12hip_bfloat16").at(0)), 2u);
  const std::size_t sizes[] = {1, 1, 2, 4, 8, 4, 8, 2};
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(SizeOf(found[i]), sizes[i]) << i;
  EXPECT_EQ(found[3].bits, 31u);
  EXPECT_TRUE(found[3].has_sign);
  EXPECT_EQ(found[4].bits, 64u);
  EXPECT_FALSE(found[4].has_sign);
  EXPECT_EQ(found[5].kind, ParameterKind::kReal);
}

TEST(KernelSignature, NamespacesAndTemplatesAreNoParameters) {
  EXPECT_EQ(Of("_Z2tkI6__halfEvPKT_PS1_jfS0_").size(), 5u);  // tk<__half>(…)
  EXPECT_EQ(Of("_ZN3lab1fEPKfi").size(), 2u);                // lab::f(float const*, int)
  EXPECT_EQ(Of("_ZN12_GLOBAL__N_11fEi").size(), 1u);         // (anonymous namespace)::f(int)
  EXPECT_EQ(Of("_Z1fv").size(), 0u);
}

TEST(KernelSignature, ASymbolThatWasMadeForItTellsOfAKernelInC) {
  const auto found = Of("_Z15assay_signatureIPFvPKfPfxfjbEEvv");
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0].kind, ParameterKind::kPointer);
  EXPECT_EQ(SizeOf(found[2]), 8u);
  EXPECT_EQ(found[3].kind, ParameterKind::kReal);
  EXPECT_EQ(SizeOf(found[5]), 1u);
  EXPECT_TRUE(Of("_Z15assay_signatureIPFvvEEvv").empty());
}

// A short symbol whose text would fill all memory.
TEST(KernelSignature, ASymbolThatNamesItselfAgainAndAgainSaysNothing) {
  std::string symbol = "_Z1fI1AIS0_S0_E";
  for (int i = 1; i < 36; ++i)
    symbol += "1AIS" + std::to_string(i % 10) + "_S" + std::to_string(i % 10) + "_E";
  symbol += "Evv";
  const auto found = ParametersOf(symbol);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  // The same by other parts of a symbol: members, arrays, packs, lambdas, types of expressions.
  for (const char* other :
       {"_Z1fM1A1AMS0_S0_MS1_S1_", "_Z1fA3_iAst_S0_", "_Z1fIJiiii EEvDp1AIT_Dp1AIT_EE",
        "_Z1fIJiiiiEEvDpT_", "_ZZ1fvEUliE_", "_Z1fDTfp_E", "_Z1fU3fooi"}) {
    const auto none = ParametersOf(other);
    ASSERT_TRUE(none.ok()) << other;
    EXPECT_FALSE(none->has_value()) << other;
  }
  // Many pointers of one type are nothing of the kind.
  std::string many = "_Z6kernelPKf";
  for (int i = 0; i < 60; ++i) many += "S0_";
  EXPECT_EQ(Of(many).size(), 61u);
}

TEST(KernelSignature, AKernelInCSaysNothing) {
  const auto plain = ParametersOf("my_gemm");
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->has_value());
}

TEST(KernelSignature, AStructIsNamed) {
  const auto found = ParametersOf("_Z1f6Params");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(std::string(found.status().message()).find("Params"), std::string::npos);
}

}  // namespace
}  // namespace assay
