// The kernels in code objects of AMD's, and MessagePack, in which they are described.
#include "kernels/providers/user/amd_code_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/providers/user/message_pack.h"
#include "tests/unit/user/amd_code_testing.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Refusal(const std::string& bytes) {
  const absl::Status status = AmdCodeObjects(bytes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(AmdCodeObject, TellsItsDeviceAndItsKernelsWithTheirParameters) {
  const std::string bytes =
      AmdElf(AmdDescription("amdgcn-amd-amdhsa--gfx90a:xnack+",
                            {PackedKernel("_Z4gemmPKfPfi", {8, 8, 4}), PackedKernel("plain", {})}));
  const auto found = AmdCodeObjects(bytes);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  const AmdCodeObject& code = found->front();
  EXPECT_EQ(code.architecture, "gfx90a:xnack+");
  EXPECT_EQ(code.image, bytes);
  ASSERT_EQ(code.kernels.size(), 2u);
  EXPECT_EQ(code.kernels[0].symbol, "_Z4gemmPKfPfi");
  EXPECT_THAT(code.kernels[0].parameter_bytes, ElementsAre(8, 8, 4)) << "without the runtime's";
  EXPECT_THAT(code.kernels[1].parameter_bytes, IsEmpty());
  EXPECT_TRUE(IsFor(code.architecture, "gfx90a:sramecc+:xnack+"));
  EXPECT_FALSE(IsFor(code.architecture, "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(IsFor("gfx90a", "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(IsFor("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(IsFor("gfx90a", "gfx942:sramecc+"));
}

TEST(AmdCodeObject, ABundleHasOneForEachKindOfDevice) {
  const std::string first = AmdCode("gfx90a", "f", {8}), second = AmdCode("gfx942", "f", {8});
  const std::string bundle = AmdBundle({{"gfx90a", first}, {"gfx942", second}});
  const auto found = AmdCodeObjects(bundle);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).image, first);
  EXPECT_EQ(found->at(1).image, second);
  EXPECT_EQ(found->at(1).architecture, "gfx942");
  EXPECT_THAT(Refusal(AmdBundle({})), HasSubstr("its bundle has none"));
  EXPECT_THAT(Refusal("CCOB\x02"), HasSubstr("--no-offload-compress"));
  for (std::size_t n = 0; n < bundle.size(); ++n) Refusal(bundle.substr(0, n));
}

TEST(AmdCodeObject, WhatIsCutOffOrMalformedIsNone) {
  const std::string whole = AmdCode("gfx90a", "f", {8, 4});
  const std::size_t padding = 3;  // behind the description
  for (std::size_t n = 0; n + padding < whole.size(); ++n) Refusal(whole.substr(0, n));
  EXPECT_THAT(Refusal("hello"), HasSubstr("it is no ELF"));
  std::string other = whole;
  other[18] = 62;  // of x86-64
  EXPECT_THAT(Refusal(other), HasSubstr("another processor"));
  EXPECT_THAT(Refusal(AmdCode("gfx90a", "a\nb", {})), HasSubstr("malformed"));
  EXPECT_THAT(Refusal(AmdElf(PackMap({}))), HasSubstr("does not say for which device"));
  EXPECT_THAT(Refusal(AmdElf(PackArray({}))), HasSubstr("malformed"));
  // Twice the same, which could be without end.
  const std::string kernels = PackArray({PackedKernel("f", {8})});
  EXPECT_THAT(Refusal(AmdElf(PackMap({{"amdhsa.kernels", kernels}, {"amdhsa.kernels", kernels}}))),
              HasSubstr("malformed"));
  // More kernels than there are bytes.
  EXPECT_THAT(Refusal(AmdElf(PackMap({{"amdhsa.kernels", "\xdd\xff\xff\xff\xff"}}))),
              HasSubstr("malformed"));
}

TEST(MessagePack, GoesOverEveryKindOfValue) {
  const std::string values[] = {"\x05",
                                "\xe1",
                                "\xc3",
                                "\xa1x",
                                std::string("\xc4\x02xy", 4),
                                std::string("\xc7\x01\x05x", 4),
                                std::string("\xca\0\0\0\0", 5),
                                std::string("\xcb\0\0\0\0\0\0\0\0", 9),
                                "\xcc\xff",
                                std::string("\xd1\0\1", 3),
                                std::string("\xd3\0\0\0\0\0\0\0\1", 9),
                                "\xd4\1x",
                                std::string("\xd8\1", 2) + std::string(16, 'x'),
                                std::string("\xda\0\1x", 4),
                                PackArray({"\x01", PackMap({{"k", "\xc0"}})}),
                                std::string("\xdc\0\1\x01", 4),
                                std::string("\xde\0\1\xa1k\x01", 6)};
  for (const std::string& value : values) {
    const std::string bytes = value + "\x07";
    MessagePack in(bytes);
    EXPECT_TRUE(in.Skip());
    EXPECT_EQ(in.Number(), 7u) << testing::PrintToString(value);
    for (std::size_t n = 0; n < value.size(); ++n) {
      EXPECT_FALSE(MessagePack(std::string_view(value).substr(0, n)).Skip());
    }
  }
  EXPECT_EQ(MessagePack(std::string("\xcd\x01\x02", 3)).Number(), 258u);
  EXPECT_EQ(MessagePack("\xd9\x01z").Text(), "z");
  EXPECT_FALSE(MessagePack("\x05").Text());
  EXPECT_FALSE(MessagePack("\xc1").Skip()) << "never used";
}

TEST(MessagePack, DepthAndFalseSizesCostNothing) {
  EXPECT_TRUE(MessagePack(std::string(1 << 20, '\x91') + "\x01").Skip());
  EXPECT_FALSE(MessagePack(std::string(1 << 20, '\x91')).Skip());
  EXPECT_FALSE(MessagePack("\xdd\xff\xff\xff\xff\x01").Skip());
  std::string maps;  // whose sizes would add up beyond 64 bits
  for (int i = 0; i < 100'000; ++i) maps += "\xdf\xff\xff\xff\xff";
  EXPECT_FALSE(MessagePack(maps).Skip());
}

}  // namespace
}  // namespace assay
