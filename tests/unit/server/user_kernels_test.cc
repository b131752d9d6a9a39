// The way of a user's kernel into the daemon: what a header may say, what is kept and found again.
#include "server/kernels/user_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/confine/file_rights.h"
#include "kernels/providers/user/amd_code_object.h"
#include "kernels/providers/user/device_program.h"
#include "tests/unit/user/amd_code_testing.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class UserKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "assay-user-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    options_.folder.path = (root_ / "kernels").string();
    options_.library = true;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<UserKernels> Open() {
    absl::StatusOr<std::unique_ptr<UserKernels>> kernels = UserKernels::Open(options_);
    EXPECT_TRUE(kernels.ok()) << kernels.status();
    return *std::move(kernels);
  }
  static v1::KernelHeader Header(const std::string& name, std::int64_t bytes,
                                 v1::KernelForm form = v1::KERNEL_FORM_LIBRARY) {
    v1::KernelHeader header;
    header.set_file_name(name);
    header.set_size_bytes(bytes);
    header.set_form(form);
    return header;
  }
  absl::StatusCode CodeOf(const v1::KernelHeader& header) {
    return Open()->Begin(header).status().code();
  }

  fs::path root_;
  UserKernelOptions options_;
  std::atomic<bool> cancel_{false};
};

TEST_F(UserKernelsTest, OnlyWhatTheOperatorAllowsIsTaken) {
  EXPECT_EQ(CodeOf(Header("k.so", 1)), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(Header("k.c", 1, v1::KERNEL_FORM_C)), absl::StatusCode::kFailedPrecondition);
  options_.library = false;
  const absl::Status off = Open()->Begin(Header("k.so", 1)).status();
  EXPECT_THAT(std::string(off.message()), HasSubstr("assayd --user-kernels library"));
  EXPECT_THAT(std::string(off.GetPayload("type.googleapis.com/google.rpc.ErrorInfo")->Flatten()),
              HasSubstr("USER_KERNELS_OFF"));
}

TEST_F(UserKernelsTest, NamesAndSizesOfFilesAreChecked) {
  for (const char* name :
       {"", "a/b.so", "../b.so", "-o.so", ".b.so", "@b.so", "a\nb.so", "a\x1b[0m.so"}) {
    EXPECT_EQ(CodeOf(Header(name, 1)), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(CodeOf(Header("my kernel é.so", 1)), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(Header("k.so", 0)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(Header("k.so", options_.most_bytes + 1)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(Header("k.so", 1, v1::KERNEL_FORM_UNSPECIFIED)),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(UserKernelsTest, ALaunchBelongsToCudaSource) {
  options_.source = true;
  v1::KernelHeader cuda = Header("k.cu", 1, v1::KERNEL_FORM_CUDA);
  EXPECT_THAT(std::string(Open()->Begin(cuda).status().message()), HasSubstr("header.launch"));
  cuda.set_launch("grid = 1\nblock = 1\nargs = []");
  EXPECT_EQ(CodeOf(cuda), absl::StatusCode::kOk);
  cuda.set_entry("lab::f<float>");
  EXPECT_EQ(CodeOf(cuda), absl::StatusCode::kOk);
  cuda.set_entry("f(); g");
  EXPECT_THAT(std::string(Open()->Begin(cuda).status().message()), HasSubstr("header.entry"));
  cuda.clear_entry();
  cuda.set_file_name("k\"\n.cu");
  EXPECT_EQ(CodeOf(cuda), absl::StatusCode::kInvalidArgument);
  cuda.set_file_name("k\".cu");
  EXPECT_EQ(CodeOf(cuda), absl::StatusCode::kInvalidArgument);
  v1::KernelHeader c = Header("k.c", 1, v1::KERNEL_FORM_C);
  c.set_launch("grid = 1");
  EXPECT_EQ(CodeOf(c), absl::StatusCode::kInvalidArgument);
}

TEST_F(UserKernelsTest, BytesMustBeWhatTheHeaderSays) {
  std::unique_ptr<UserKernels> kernels = Open();
  auto upload = *kernels->Begin(Header("k.so", 3));
  EXPECT_TRUE(upload->Append("abc").ok());
  EXPECT_FALSE(upload->Append("d").ok());
  auto fewer = *kernels->Begin(Header("k.so", 3));
  EXPECT_TRUE(fewer->Append("ab").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(kernels->Keep(*fewer, nullptr, cancel_).status()));
}

TEST_F(UserKernelsTest, WhatIsNoLibraryIsNotKept) {
  std::unique_ptr<UserKernels> kernels = Open();
  {
    auto upload = *kernels->Begin(Header("k.so", 3));
    ASSERT_TRUE(upload->Append("abc").ok());
    const absl::Status status = kernels->Keep(*upload, nullptr, cancel_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("k.so"));
  }
  EXPECT_TRUE(fs::is_empty(options_.folder.path)) << "what came in is gone with its upload";
}

// For a card, too, where the node has the toolkit's NVRTC.
TEST_F(UserKernelsTest, CudaSourceIsCompiledForTheNodesCards) {
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << why;
  options_.source = true;
  options_.compiler.device_compiler = DEVICE_COMPILER_PATH;
  DeviceTargets targets{.cuda = {"sm_90"}, .hip = {}, .emulator = false};
  options_.targets = [&targets] { return targets; };
  const std::unique_ptr<UserKernels> kernels = Open();
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& source) {
    v1::KernelHeader header =
        Header("k.cu", static_cast<std::int64_t>(source.size()), v1::KERNEL_FORM_CUDA);
    header.set_launch(
        "grid = \"ceil_div(count, 64)\"\nblock = 64\nargs = [\"x\", \"y\", \"count\"]");
    auto upload = *kernels->Begin(header);
    EXPECT_TRUE(upload->Append(source).ok());
    lines.clear();
    return kernels->Keep(
        *upload, [&](const std::string& line) { lines.push_back(line); }, cancel_);
  };
  const auto kept = keep(
      "#include <cstdint>\n#include <cmath>\n#include <cuda_fp16.h>\n"
      "__global__ void copy(const float* x, float* y, int32_t count) {\n"
      "  int i = blockIdx.x * 64 + threadIdx.x;\n  if (i < count) y[i] = fabsf(x[i]);\n}\n");
  if (absl::IsFailedPrecondition(kept.status())) GTEST_SKIP() << kept.status();
  ASSERT_TRUE(kept.ok()) << kept.status();
  const std::string library = kernels->LibraryOf(kept->provider());
  EXPECT_FALSE(fs::exists(library)) << "no device here emulates";
  std::ifstream file(DeviceProgramFile(library, "sm_90"), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const absl::StatusOr<DeviceProgram> program = ReadDeviceProgram(bytes.str());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name, "copy");
  EXPECT_EQ(program->symbol, "_Z4copyPKfPfi");
  EXPECT_EQ(program->signature, "_Z15assay_signatureIPFvPKfPfiEEvv");
  EXPECT_EQ(program->args.size(), 3u);
  EXPECT_EQ(program->image.substr(1, 3), "ELF");
  // It is found again, and by a daemon that begins anew.
  EXPECT_TRUE(Open()->CheckProvider(kept->provider()).ok());

  const absl::Status wrong = keep("__global__ void copy() {\n  no_such();\n}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("k.cu(2): error"));
  EXPECT_FALSE(lines.empty());
  // A kernel in C has its parameters told, too.
  const auto plain = keep(
      "#include <math.h>\nextern \"C\" __global__ void copy(const float* x, float* y, int count) {"
      "\n  y[0] = x[0] == -INFINITY ? count : 1;\n}\n");
  ASSERT_TRUE(plain.ok()) << plain.status();
  // With the emulator as well, only one of the two has to take it.
  targets.emulator = true;
  const auto both = keep("#include <mma.h>\n__global__ void copy(const float*, float*, int) {}\n");
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), HasSubstr("not for the emulator"));
  // Of a mistake in the source the author hears, whatever the node lacks.
  const absl::Status mistake = keep("__global__ void copy() {\n  no_such();\n}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(mistake)) << mistake;
  EXPECT_FALSE(fs::exists(kernels->LibraryOf(both->provider())));
  // What was kept for fewer targets is compiled again.
  const auto again = keep(
      "#include <math.h>\nextern \"C\" __global__ void copy(const float* x, float* y, int count) {"
      "\n  y[0] = x[0] == -INFINITY ? count : 1;\n}\n");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->provider(), plain->provider());
  EXPECT_TRUE(again->has_compile_time());

  const absl::Status secret =
      keep("#include \"/etc/passwd\"\n__global__ void copy() {}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(secret)) << secret;
  // It would not compile if it were read, either: the compiler must not have seen its text.
  EXPECT_THAT(std::string(secret.message()), HasSubstr("Permission denied"));
  for (const std::string& line : lines) EXPECT_EQ(line.find("root:"), line.npos) << line;
}

// For a card of AMD's, where the node has hipRTC.
TEST_F(UserKernelsTest, HipSourceIsCompiledForTheNodesCards) {
  std::string why;
  if (LandlockVersion(&why) == 0) GTEST_SKIP() << why;
  options_.source = true;
  options_.compiler.device_compiler = DEVICE_COMPILER_PATH;
  DeviceTargets targets{.cuda = {"sm_90"}, .hip = {}, .emulator = true};
  options_.targets = [&targets] { return targets; };
  const std::unique_ptr<UserKernels> kernels = Open();
  const auto keep = [&](const std::string& source, const std::string& entry = "") {
    v1::KernelHeader header =
        Header("k.hip", static_cast<std::int64_t>(source.size()), v1::KERNEL_FORM_HIP);
    header.set_launch(
        "grid = \"ceil_div(count, 64)\"\nblock = 64\nargs = [\"x\", \"y\", \"count\"]");
    header.set_entry(entry);
    auto upload = *kernels->Begin(header);
    EXPECT_TRUE(upload->Append(source).ok());
    return kernels->Keep(*upload, nullptr, cancel_);
  };
  const std::string source =
      "#include <hip/hip_runtime.h>\n#include <hip/hip_fp16.h>\n#include <cstdint>\n"
      "#include <cmath>\n#include <cfloat>\n"
      "template <class T>\n__global__ void copy(const T* x, T* y, int32_t count) {\n"
      "  __shared__ T t[64];\n  int i = blockIdx.x * 64 + threadIdx.x;\n"
      "  t[threadIdx.x] = i < count ? x[i] : T(-INFINITY);\n  __syncthreads();\n"
      "  if (i < count) y[i] = float(t[threadIdx.x]) > FLT_MAX ? T(M_PI) : t[threadIdx.x];\n}\n";
  EXPECT_THAT(std::string(keep(source).status().message()), HasSubstr("no HIP device"));
  const std::string device = "gfx90a:sramecc+:xnack-";
  targets.hip = {device};
  const auto kept = keep(source, "copy<__half>");
  if (absl::IsFailedPrecondition(kept.status())) GTEST_SKIP() << kept.status();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(kept->has_compile_time());
  const std::string library = kernels->LibraryOf(kept->provider());
  EXPECT_FALSE(fs::exists(library));
  EXPECT_FALSE(fs::exists(DeviceProgramFile(library, "sm_90")));
  std::ifstream file(DeviceProgramFile(library, device), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const absl::StatusOr<DeviceProgram> program = ReadDeviceProgram(bytes.str());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->name, "copy<__half>");
  const absl::StatusOr<std::vector<AmdCodeObject>> codes = AmdCodeObjects(program->image);
  ASSERT_TRUE(codes.ok()) << codes.status();
  ASSERT_EQ(codes->size(), 1u);
  EXPECT_TRUE(IsFor(codes->front().architecture, device)) << codes->front().architecture;
  ASSERT_EQ(codes->front().kernels.size(), 1u);
  EXPECT_EQ(codes->front().kernels.front().symbol, program->symbol);

  const absl::Status wrong = keep("__global__ void copy() {\n  no_such();\n}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("k.hip:2:3: error"));
  const absl::Status secret =
      keep("#include \"/etc/passwd\"\n__global__ void copy() {}\n").status();
  EXPECT_TRUE(absl::IsInvalidArgument(secret)) << secret;
  EXPECT_EQ(std::string(secret.message()).find("root:"), std::string::npos) << secret;
}

TEST_F(UserKernelsTest, CodeObjectsAreForTheNodesCards) {
  options_.library = false;
  options_.source = true;
  const std::string ptx =
      ".version 9.0\n.target sm_90\n.visible .entry copy()\n{ ret; }\n.entry other()\n{ ret; }\n";
  v1::KernelHeader header =
      Header("k.ptx", static_cast<std::int64_t>(ptx.size()), v1::KERNEL_FORM_PTX);
  header.set_launch("grid = 1\nblock = 64\nargs = []\nentry = \"copy\"");
  EXPECT_THAT(std::string(Open()->Begin(header).status().message()), HasSubstr("code-object"));
  options_.code_object = true;
  DeviceTargets targets{.cuda = {}, .hip = {}, .emulator = true};
  options_.targets = [&targets] { return targets; };
  const std::unique_ptr<UserKernels> kernels = Open();
  const auto keep = [&] {
    auto upload = *kernels->Begin(header);
    EXPECT_TRUE(upload->Append(ptx).ok());
    return kernels->Keep(*upload, nullptr, cancel_);
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(keep().status())) << "there is no CUDA device";
  targets.cuda = {"sm_80", "sm_90"};
  const auto kept = keep();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->has_compile_time());
  for (const std::string& architecture : targets.cuda) {
    std::ifstream file(DeviceProgramFile(kernels->LibraryOf(kept->provider()), architecture),
                       std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    const absl::StatusOr<DeviceProgram> program = ReadDeviceProgram(bytes.str());
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->symbol, "copy");
    EXPECT_EQ(program->image, ptx);
  }
  header.set_entry("nothing");
  const absl::Status unknown = keep().status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("copy, other"));
  header.set_form(v1::KERNEL_FORM_CUBIN);
  EXPECT_THAT(std::string(keep().status().message()), HasSubstr("no cubin"));
  header.clear_launch();
  EXPECT_THAT(std::string(Open()->Begin(header).status().message()), HasSubstr("header.launch"));
}

TEST_F(UserKernelsTest, OfABundleEachCardOfAmdsGetsItsOwnPart) {
  options_.code_object = true;
  DeviceTargets targets{.cuda = {"sm_90"}, .hip = {}, .emulator = true};
  options_.targets = [&targets] { return targets; };
  const std::unique_ptr<UserKernels> kernels = Open();
  const std::string part = AmdCode("gfx942", "copy", {8, 8, 4});
  const std::string bundle =
      AmdBundle({{"gfx90a", AmdCode("gfx90a", "copy", {})}, {"gfx942", part}});
  const auto keep = [&](const std::string& bytes) {
    v1::KernelHeader header =
        Header("k.hsaco", static_cast<std::int64_t>(bytes.size()), v1::KERNEL_FORM_HSACO);
    header.set_launch("grid = 1\nblock = 64\nargs = [\"x\", \"y\", \"count\"]");
    auto upload = *kernels->Begin(header);
    EXPECT_TRUE(upload->Append(bytes).ok());
    return kernels->Keep(*upload, nullptr, cancel_);
  };
  EXPECT_THAT(std::string(keep(bundle).status().message()), HasSubstr("no HIP device"));
  const std::string device = "gfx942:sramecc+:xnack-";
  targets.hip = {device, "gfx1100"};
  const auto kept = keep(bundle);
  ASSERT_TRUE(kept.ok()) << kept.status();
  const std::string library = kernels->LibraryOf(kept->provider());
  std::ifstream file(DeviceProgramFile(library, device), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const absl::StatusOr<DeviceProgram> program = ReadDeviceProgram(bytes.str());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->image, part);
  EXPECT_EQ(program->symbol, "copy");
  EXPECT_FALSE(fs::exists(DeviceProgramFile(library, "gfx1100"))) << "it has no part for it";
  EXPECT_FALSE(fs::exists(DeviceProgramFile(library, "sm_90")));
  targets.hip = {"gfx1100"};
  const absl::Status other = keep(bundle).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("k.hsaco is for gfx90a, gfx942"));
  EXPECT_THAT(std::string(keep("hello").status().message()), HasSubstr("no code object of AMD's"));
}

TEST_F(UserKernelsTest, CheatsComeFromTheInstallationWhateverIsAllowed) {
  options_.library = options_.source = false;
  options_.cheats_folder = root_ / "cheats";
  fs::create_directories(options_.cheats_folder);
  const auto kernels = Open();
  EXPECT_EQ(kernels->CheckProvider("cheat/late-write").code(),
            absl::StatusCode::kFailedPrecondition);
  std::ofstream(root_ / "cheats/late_write_twin.so") << "a library";
  EXPECT_TRUE(kernels->CheckProvider("cheat/late-write-twin").ok());
  EXPECT_EQ(kernels->LibraryOf("cheat/late-write-twin"),
            (root_ / "cheats/late_write_twin.so").string());
  for (const char* name : {"cheat/", "cheat/nonsense", "cheat/../cheats/late_write_twin"}) {
    EXPECT_EQ(kernels->CheckProvider(name).code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(kernels->LibraryOf(name), "") << name;
  }
}

TEST_F(UserKernelsTest, AnUnknownKernelIsToldApartFromAWrongName) {
  std::unique_ptr<UserKernels> kernels = Open();
  const absl::Status unknown = kernels->CheckProvider("user/0123456789ab");
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("send its file again"));
  const absl::Status wrong = kernels->CheckProvider("user/../x");
  EXPECT_TRUE(absl::IsInvalidArgument(wrong));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("12 hexadecimal digits"));
  EXPECT_EQ(kernels->LibraryOf("user/0123456789ab"), "");
  options_.library = false;
  const absl::Status off = Open()->CheckProvider("user/0123456789ab");
  EXPECT_TRUE(absl::IsFailedPrecondition(off));
  EXPECT_THAT(std::string(off.message()), HasSubstr("--user-kernels"));
}

}  // namespace
}  // namespace assay::server
