// Files that are no kernel's library for this machine are refused before anything of them runs, and
// each answer says what is wrong.
#include "kernels/providers/user/check_library.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

namespace assay {
namespace {

using ::testing::HasSubstr;

std::string Library(const std::string& name = "honest") {
  std::ifstream file(ADVERSARIAL_DIR "/" + name + ".so", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string Answer(const std::string& bytes) {
  return CheckLibrary(std::as_bytes(std::span(bytes))).ToString();
}

std::string With(std::string bytes, std::size_t at, const void* value, std::size_t size) {
  std::memcpy(bytes.data() + at, value, size);
  return bytes;
}

TEST(CheckLibrary, TakesAKernel) { EXPECT_EQ(Answer(Library()), "OK"); }

TEST(CheckLibrary, TellsWhatIsWrong) {
  const std::string good = Library();
  ASSERT_GT(good.size(), sizeof(Elf64_Ehdr));
  const unsigned char narrow = ELFCLASS32, other_order = ELFDATA2MSB;
  const Elf64_Half arm = EM_AARCH64, x86 = EM_386, object = ET_REL, program = ET_EXEC;
  EXPECT_THAT(Answer(""), HasSubstr("not in the format ELF"));
  EXPECT_THAT(Answer("#!/bin/sh\nexit 0\n"), HasSubstr("not in the format ELF"));
  EXPECT_THAT(Answer(With(good, EI_CLASS, &narrow, 1)), HasSubstr("32-bit"));
  EXPECT_THAT(Answer(With(good, EI_DATA, &other_order, 1)), HasSubstr("byte order"));
  const std::size_t machine = offsetof(Elf64_Ehdr, e_machine), type = offsetof(Elf64_Ehdr, e_type);
#if defined(__x86_64__)
  EXPECT_THAT(Answer(With(good, machine, &arm, sizeof arm)), HasSubstr("it is for aarch64"));
#endif
  EXPECT_THAT(Answer(With(good, machine, &x86, sizeof x86)), HasSubstr("it is for x86 (32 bit)"));
  EXPECT_THAT(Answer(With(good, type, &object, sizeof object)), HasSubstr("not linked"));
  EXPECT_THAT(Answer(With(good, type, &program, sizeof program)), HasSubstr("it is a program"));
}

TEST(CheckLibrary, FindsThatTheSymbolIsMissing) {
  std::string bytes = Library();
  const std::string name(kKernelSymbol);
  for (std::size_t at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at)) {
    bytes[at] = 'A';
  }
  EXPECT_THAT(Answer(bytes), HasSubstr("does not export assay_kernel_v1"));
}

// Whatever the length, the answer is an error, and no byte behind the end is read (the sanitizers
// would say so).
TEST(CheckLibrary, RefusesEveryBeginningOfALibrary) {
  const std::string good = Library();
  for (std::size_t n = 0; n < good.size(); n += n < 4096 ? 1 : 61) {
    const std::string cut = good.substr(0, n);
    EXPECT_FALSE(CheckLibrary(std::as_bytes(std::span(cut))).ok()) << n;
  }
  EXPECT_THAT(Answer(good.substr(0, 40)), HasSubstr("truncated"));
  EXPECT_THAT(Answer(good.substr(0, 600)), HasSubstr("truncated"));
}

TEST(CheckLibrary, SurvivesAnyByte) {
  const std::string good = Library();
  for (std::size_t at = 4; at < 1024 && at < good.size(); ++at) {
    for (const std::uint8_t value : std::array<std::uint8_t, 3>{0x00, 0x7f, 0xff}) {
      Answer(With(good, at, &value, 1));
    }
  }
}

}  // namespace
}  // namespace assay
