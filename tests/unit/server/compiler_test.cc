// The compiler of users' kernels: what it makes, what it says, and what it cannot read.
#include "server/kernels/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "server/base/error_info.h"
#include "server/containment/file_rules.h"
#include "server/kernels/compiler_log.h"

// The system's clock is so much ahead of the real one [s].
static std::atomic<long> clock_ahead{0};

// In place of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long status = syscall(SYS_clock_gettime, clock, time);
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_ahead;
  return static_cast<int>(status);
}

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (LandlockVersion(&why) == 0) GTEST_SKIP() << why;
    if (access("/usr/bin/cc", X_OK) != 0) GTEST_SKIP() << "there is no /usr/bin/cc";
    std::string path = (fs::temp_directory_path() / "assay-compile-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }

  absl::Status Compile(const std::string& source, v1::KernelForm form = v1::KERNEL_FORM_C) {
    std::ofstream(root_ / "source") << source;
    lines_.clear();
    return CompileKernel(options_, {.source = (root_ / "source").string(),
                                    .file_name = "mine.c",
                                    .form = form,
                                    .result = (root_ / "kernel.so").string(),
                                    .log =
                                        [this](const std::string& line) {
                                          lines_.push_back(line);
                                          if (on_line_) on_line_();
                                        },
                                    .cancel = &cancel_});
  }
  static bool IsSourceError(const absl::Status& status) {
    return absl::IsInvalidArgument(status) &&
           status.GetPayload("type.googleapis.com/google.rpc.ErrorInfo")
                   ->Flatten()
                   .find("KERNEL_SOURCE") != std::string::npos;
  }

  fs::path root_;
  CompilerOptions options_;
  std::atomic<bool> cancel_{false};
  std::vector<std::string> lines_;
  std::function<void()> on_line_;
};

TEST_F(CompilerTest, SourceBecomesALibrary) {
  ASSERT_TRUE(Compile("#include <math.h>\ndouble f(double x) { return sin(x); }\n").ok());
  EXPECT_GT(fs::file_size(root_ / "kernel.so"), 1000u);
  EXPECT_TRUE(lines_.empty());
  EXPECT_TRUE(Compile("#include <vector>\nint f() { return std::vector<int>{1}[0]; }\n",
                      v1::KERNEL_FORM_CXX)
                  .ok());
}

TEST_F(CompilerTest, AMistakeIsToldWithTheAuthorsFileAndLineFirst) {
  const absl::Status status = Compile("int f(void) {\n  return x;\n}\n");
  EXPECT_TRUE(IsSourceError(status)) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith("mine.c:2:10: error: "));
  EXPECT_FALSE(lines_.empty());
}

TEST_F(CompilerTest, NoFileOutsideTheSystemsIsRead) {
  std::ofstream(root_ / "secret") << "int secret_content;\n";
  const std::string secret = (root_ / "secret").string();
  for (const std::string& text :
       {"#include \"" + secret + "\"\n", "__asm__(\".incbin \\\"" + secret + "\\\"\");\n",
        std::string("#include \"/etc/passwd\"\n"), std::string("#include \"/etc/shadow\"\n"),
        std::string("#include \"/proc/self/status\"\n"),
        // Files without an end would take all memory and time that a compile may have.
        std::string("#include \"/dev/zero\"\n"), std::string("#include \"/dev/urandom\"\n")}) {
    const absl::Status status = Compile(text);
    EXPECT_TRUE(IsSourceError(status)) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("took longer"))) << text;
    for (const std::string& line : lines_) {
      EXPECT_EQ(line.find("secret_content"), std::string::npos) << line;
      EXPECT_EQ(line.find("root:"), std::string::npos) << line;
    }
  }
}

TEST_F(CompilerTest, TimeAndCancellingEndACompile) {
  // A chain of templates that no compiler ends.
  const std::string endless =
      "template <unsigned long N> struct F { static constexpr unsigned long v = F<N - 1>::v + "
      "F<N - 2>::v % 7; };\n"
      "constexpr unsigned long spin(unsigned long n) { unsigned long s = 0; for (unsigned long i = "
      "0; i < n; ++i) for (unsigned long j = 0; j < 30000; ++j) s += i ^ j; return s; }\n"
      "static_assert(spin(30000) != 1);\n";
  options_.limit = absl::Milliseconds(300);
  const absl::Status late =
      Compile("#pragma GCC optimize(\"O3\")\n" + endless, v1::KERNEL_FORM_CXX);
  EXPECT_TRUE(IsSourceError(late)) << late;
  cancel_ = true;
  EXPECT_TRUE(absl::IsCancelled(Compile(endless, v1::KERNEL_FORM_CXX)));
}

TEST_F(CompilerTest, SettingTheSystemsClockEndsNoCompile) {
  on_line_ = [] { clock_ahead = 3600; };
  const absl::Status status = Compile("#warning while it compiles\nint f(void) { return 1; }\n");
  clock_ahead = 0;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(lines_.empty());
}

TEST_F(CompilerTest, ALibraryThatIsTooLargeIsNotMade) {
  options_.library_bytes = 1 << 20;
  EXPECT_TRUE(IsSourceError(Compile("char big[16 << 20] = {1};\n")));
}

TEST_F(CompilerTest, ACompilerThatTakesTooMuchMemoryEnds) {
  // A million elements, which take 320 MB.
  std::string large = "#define A6 ,1\n";
  for (int i = 5; i >= 0; --i) {
    large += "#define A" + std::to_string(i);
    for (int j = 0; j < 10; ++j) large += " A" + std::to_string(i + 1);
    large += "\n";
  }
  large += "int a[] = {0 A0};\n";
  EXPECT_TRUE(Compile(large).ok());
  options_.memory_bytes = 192 << 20;
  EXPECT_TRUE(Compile("int f(void) { return 1; }\n").ok());
  const absl::Status status = Compile(large);
  EXPECT_TRUE(IsSourceError(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("memory"));
}

TEST(CompilerLogTest, LinesAreCutCountedAndClean) {
  std::vector<std::string> lines;
  CompilerLog log("k.c", 60, [&](const std::string& line) { lines.push_back(line); });
  log.Take("k.c: In function 'f':\nk.c:3:1: error: \x1b[31mred\x1b[0m \xff\tend\nnext");
  log.Take(" part\n");
  log.End();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[1], "k.c:3:1: error: ?[31mred?[0m ? end");
  EXPECT_THAT(lines[2], HasSubstr("left out"));
  EXPECT_THAT(log.Summary(), StartsWith("k.c:3:1: error: "));
}

TEST(CompilerLogTest, WithoutALineOfTheAuthorsAllLinesAreTheSummary) {
  CompilerLog log("k.c", 1000, nullptr);
  log.Take("cc: fatal error: no input\ncompilation terminated.");
  log.End();
  EXPECT_EQ(log.Summary(), "cc: fatal error: no input\ncompilation terminated.");
}

}  // namespace
}  // namespace assay::server
