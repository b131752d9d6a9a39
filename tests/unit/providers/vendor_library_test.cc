// A vendor's library that is not there, or is not what its name says, is a reason to be
// shown, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "kernels/providers/vendor/library.h"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kVariable[] = "ASSAY_NO_SUCH_VENDOR";

class VendorLibraryTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kVariable); }
};

TEST_F(VendorLibraryTest, NamesEveryFileThatItLookedFor) {
  const char* const names[] = {"libassay_none.so.2", "libassay_none.so.1"};
  const auto library = VendorLibrary::Open("Vendor's BLAS", kVariable, names);
  ASSERT_EQ(library.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("Vendor's BLAS cannot be loaded"), HasSubstr("libassay_none.so.2"),
                    HasSubstr("libassay_none.so.1"), HasSubstr("set ASSAY_NO_SUCH_VENDOR")));
}

TEST_F(VendorLibraryTest, TakesTheFileThatIsNamedAndNoOther) {
  setenv(kVariable, "/nowhere/libm.so.6", 1);
  const char* const names[] = {"libm.so.6"};
  const auto library = VendorLibrary::Open("Vendor's BLAS", kVariable, names);
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("/nowhere/libm.so.6"), HasSubstr("the only file tried")));
}

TEST_F(VendorLibraryTest, FindsFunctionsAndNamesTheOneThatIsMissing) {
  const char* const names[] = {"libassay_none.so.1", "libm.so.6"};
  auto library = VendorLibrary::Open("Vendor's BLAS", kVariable, names);
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->file(), "libm.so.6");
  double (*root)(double) = nullptr;
  library->Find("sqrt", &root);
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root(9.0), 3.0);
  EXPECT_TRUE(library->status().ok());
  void (*none)() = nullptr;
  library->Find("vendor_gemm", &none);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(library->status().message(), "Vendor's BLAS (libm.so.6) has no function vendor_gemm");
}

}  // namespace
}  // namespace assay
