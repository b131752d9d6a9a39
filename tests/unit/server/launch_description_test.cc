// How a CUDA kernel is launched: the author's TOML, its expressions, and the names in the source.
#include "server/kernels/launch_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "kernels/simt/expression.h"
#include "server/kernels/cuda_program.h"
#include "server/kernels/cuda_source.h"

namespace assay::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

simt::Evaluated Value(std::string_view text) {
  return simt::Evaluate(text, [](std::string_view name) -> std::optional<std::int64_t> {
    if (name == "m") return 33;
    if (name == "zero") return 0;
    if (name == "least") return std::numeric_limits<std::int64_t>::min();
    return std::nullopt;
  });
}

TEST(Expression, HasValues) {
  for (const auto& [text, value] : {std::pair<const char*, std::int64_t>{"(m + 15) / 16", 3},
                                    {"ceil_div(m, 16)", 3},
                                    {"ceil_div(-m, 16)", -2},
                                    {"2 + 3 * 4 % 5", 4},
                                    {"-m / 2", -16},
                                    {"--3", 3},
                                    {"min(m, 7) * max(1, 2)", 14},
                                    {"least % (0 - 1)", 0},
                                    {" 42 ", 42}}) {
    EXPECT_EQ(Value(text).value, value) << text;
    EXPECT_THAT(Value(text).error, IsEmpty()) << text;
    EXPECT_THAT(simt::CheckExpression(text), IsEmpty()) << text;
  }
}

TEST(Expression, WhatHasNoValueSaysWhy) {
  for (const auto& [text, why] :
       {std::pair<const char*, const char*>{"m / zero", "divides by zero"},
        {"m % (zero * 4)", "divides by zero"},
        {"ceil_div(m, zero)", "divides by zero"},
        {"q + 1", "nothing is called \"q\""},
        {"least / -1", "64 bits"},
        {"-least", "64 bits"},
        {"least * 2", "64 bits"},
        {"9223372036854775808", "64 bits"}}) {
    EXPECT_THAT(Value(text).error, HasSubstr(why)) << text;
  }
  EXPECT_TRUE(Value("q").unknown_name);
  EXPECT_FALSE(Value("1/zero").unknown_name);
}

TEST(Expression, WhatIsNoneSaysWhere) {
  for (const auto& [text, why] : {std::pair<const char*, const char*>{"", "expected a number"},
                                  {"m +", "at the end"},
                                  {"(m", "\")\""},
                                  {"m n", "expected an operator at character 3"},
                                  {"3m", "expected an operator"},
                                  {"sqrt(m)", "no function \"sqrt\"; known: min, max, ceil_div"},
                                  {"min(m)", "\",\""},
                                  {"m; exit(1)", "expected an operator"},
                                  {"1.5", "expected an operator"}}) {
    EXPECT_THAT(simt::CheckExpression(text), HasSubstr(why)) << text;
  }
  EXPECT_THAT(simt::CheckExpression(std::string(200, '(')), HasSubstr("too deeply"));
  EXPECT_THAT(simt::CheckExpression(std::string(200, '-')), HasSubstr("too deeply"));
  EXPECT_THAT(simt::CheckExpression(std::string(501, '1')), HasSubstr("at most 500 bytes"));
}

constexpr char kGood[] = R"toml(
entry = "gemm"
grid = ["(n + 15) / 16", "ceil_div(m, 16)"]
block = [16, 16]
shared = "2*16*16*4"
args = ["a", "b", "d", "m", "n*2", "alpha", 3, 1e-5, "1e-3"]
)toml";

TEST(LaunchDescription, IsRead) {
  const auto launch = ParseLaunch(kGood);
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->entry, "gemm");
  EXPECT_THAT(launch->grid, ElementsAre("(n + 15) / 16", "ceil_div(m, 16)", "1"));
  EXPECT_THAT(launch->block, ElementsAre("16", "16", "1"));
  EXPECT_EQ(launch->shared, "2*16*16*4");
  EXPECT_THAT(launch->args, ElementsAre("a", "b", "d", "m", "n*2", "alpha", "3", "1e-05", "1e-3"));
  EXPECT_TRUE(ParseLaunch("grid = 'n'\nblock = 256\nargs = []").ok());
}

TEST(LaunchDescription, AMistakeIsNamedWithItsLine) {
  for (const auto& [text, why] :
       {std::pair<const char*, const char*>{"grid = 1\nblock = 1\n", "args is missing"},
        {"grid = 1\nblok = 1\nargs = []", "2:8: unknown key \"blok\"; did you mean \"block\""},
        {"grid = ['n/']\nblock = 1\nargs = []", "grid[0] = \"n/\": expected a number"},
        {"grid = []\nblock = 1\nargs = []", "must have 1 to 3 values"},
        {"grid = [1,2,3,4]\nblock = 1\nargs = []", "got 4"},
        {"grid = 1.5\nblock = 1\nargs = []", "grid: must be a whole number"},
        {"grid = 1\nblock = true\nargs = []", "block: must be a whole number"},
        {"grid = 1\nblock = 1\nargs = 'a'", "args: must be a list"},
        {"grid = 1\nblock = 1\nargs = ['a\"']", "args[0]"},
        {"grid = 1\nblock = 1\nargs = []\nentry = 'a;b'", "entry = \"a;b\""},
        {"grid = ", "launch description:1"}}) {
    const auto launch = ParseLaunch(text);
    ASSERT_FALSE(launch.ok()) << text;
    EXPECT_THAT(std::string(launch.status().message()), HasSubstr(why)) << text;
  }
  EXPECT_FALSE(ParseLaunch(std::string(kMostLaunchBytes + 1, '#')).ok());
}

TEST(CudaSource, KernelsAreFound) {
  const CudaSource found = ScanCuda(R"cuda(
#include <cuda_runtime.h>
#define OTHER __global__ void in_a_macro(int)
// __global__ void in_a_comment(int);
/* __global__ void also(int); */
const char* text = "__global__ void in_a_text(int)";
const char* raw = R"x(__global__ void in_raw(int))x";
__global__ void declared(int);
__global__ void declared(int n) {}
extern "C" __global__ void __launch_bounds__(256, 2) bounded(float* p) {
  extern __shared__ float tile[];
  extern __align__(16) __shared__ unsigned char other[];
}
template <class T> static __global__ void typed(T* p) {}
extern int not_shared[];
)cuda");
  EXPECT_THAT(found.kernels, ElementsAre("declared", "bounded", "typed"));
  EXPECT_THAT(found.dynamic_shared, ElementsAre("tile", "other"));
  for (const char* broken : {"__global__", "__global__ void", "extern", "/*", "\"", "R\"",
                             "__global__ void f(", "__global__ __launch_bounds__(", "#\\", "'\\"}) {
    ScanCuda(broken);
  }
}

TEST(CudaProgram, NamesTheOnlyKernelOrAsks) {
  const auto launch = ParseLaunch("grid = 1\nblock = 1\nargs = ['a']");
  ASSERT_TRUE(launch.ok());
  const auto one = CudaProgram("k.cu", "__global__ void only(float* a) {}", *launch, "");
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(*one, AllOf(HasSubstr("#include \"k.cu\""), HasSubstr("&only, decltype(&only)")));
  const auto two = CudaProgram("k.cu", "__global__ void f(); __global__ void g();", *launch, "");
  EXPECT_THAT(std::string(two.status().message()),
              AllOf(HasSubstr("(f, g)"), HasSubstr("--kernel-entry")));
  EXPECT_THAT(std::string(CudaProgram("k.cu", "void f();", *launch, "").status().message()),
              HasSubstr("has no kernel"));
  EXPECT_TRUE(CudaProgram("k.cu", "__global__ void f(); __global__ void g();", *launch, "g").ok());
}

}  // namespace
}  // namespace assay::server
