// The rules of lint, on what LLVM's and NVIDIA's readers write of small kernels.
#include "client/lint/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/lint/amd.h"
#include "client/lint/amd_code.h"
#include "client/lint/nvidia.h"
#include "client/lint/offload_bundle.h"
#include "client/lint/report.h"

namespace assay::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// llvm-objdump 19 -D of a kernel that uses v0 to v147 and a0 to a3.
constexpr char kAttention[] = R"(
attn.hsaco:	file format elf64-amdgpu

Disassembly of section .rodata:

0000000000000440 <attn_fwd.kd>:
.amdhsa_kernel attn_fwd
	.amdhsa_group_segment_fixed_size 65536
	.amdhsa_private_segment_fixed_size 0
	.amdhsa_kernarg_size 8
	.amdhsa_accum_offset @OFFSET
	.amdhsa_next_free_vgpr @VGPRS
	.amdhsa_next_free_sgpr @SGPRS
	.amdhsa_uses_dynamic_stack 0
.end_amdhsa_kernel

Disassembly of section .text:

0000000000001500 <attn_fwd>:
	s_load_dwordx2 s[4:5], s[0:1], 0x0                         // 000000001500: C0060100 00000000
	v_mov_b32_e32 v1, 0                                        // 000000001508: 7E020280
	v_mfma_f32_32x32x8_bf16 v[132:147], v[2:3], v[4:5], v[132:147]// 000000001510: D3E00084 06120902
	v_accvgpr_write_b32 a3, v1                                 // 000000001518: D3D94003 18000101
	s_branch 65535 <attn_fwd+0x10>                             // 000000001520: BF82FFFF
	s_endpgm                                                   // 000000001528: BF810000
)";

nlohmann::json Metadata() {
  return nlohmann::json::parse(R"([{".name": "attn_fwd", ".symbol": "attn_fwd.kd",
    ".kernarg_segment_size": 8, ".group_segment_fixed_size": 65536, ".private_segment_fixed_size": 0,
    ".wavefront_size": 64, ".max_flat_workgroup_size": 256, ".args": [{".offset": 0, ".size": 8}]}])");
}

struct Grants {
  int offset = 148, vgprs = 152, sgprs = 16;
};

std::string Disassembly(const Grants& grants) {
  return absl::StrReplaceAll(kAttention, {{"@OFFSET", absl::StrCat(grants.offset)},
                                          {"@VGPRS", absl::StrCat(grants.vgprs)},
                                          {"@SGPRS", absl::StrCat(grants.sgprs)}});
}

// "ERROR vgprs" of each finding of the one kernel.
std::vector<std::string> Found(const std::vector<LintedKernel>& kernels) {
  std::vector<std::string> words;
  for (const LintedKernel& kernel : kernels) {
    for (const LintFinding& finding : kernel.findings) {
      words.push_back(absl::StrCat(std::string(Word(finding.severity)), " ", finding.rule));
    }
  }
  return words;
}

std::vector<std::string> FoundAmd(const Grants& grants, const nlohmann::json& metadata,
                                  const std::string& target = "gfx942") {
  return Found(HoldAmd(ReadAmdCode(Disassembly(grants)), metadata, target));
}

TEST(LintAmd, AKernelThatIsGrantedWhatItUsesHasNoFinding) {
  EXPECT_THAT(FoundAmd({}, Metadata()), IsEmpty());
}

TEST(LintAmd, TooFewVectorRegistersAreAnError) {
  const auto kernels = HoldAmd(ReadAmdCode(Disassembly({48, 48, 16})), Metadata(), "gfx942");
  EXPECT_THAT(Found(kernels), ElementsAre("error vgprs", "error agprs"));
  EXPECT_EQ(kernels[0].findings[0].message,
            "descriptor grants 48 VGPRs, the code uses v0 to v147 (first beyond at +0x10 "
            "v_mfma_f32_32x32x8_bf16): set .amdhsa_accum_offset, a multiple of 4, and "
            ".amdhsa_next_free_vgpr to at least 148");
  EXPECT_EQ(kernels[0].resources.at("vgprs_used"), 148);
  EXPECT_EQ(kernels[0].resources.at("vgprs_granted"), 48);
}

// The limit itself: v147 is the last that 148 grant, a3 the last that 152 − 148 do.
TEST(LintAmd, OneRegisterTooFewIsAnError) {
  EXPECT_THAT(FoundAmd({147, 152, 16}, Metadata()), ElementsAre("error vgprs"));
  EXPECT_THAT(FoundAmd({148, 151, 16}, Metadata()), ElementsAre("error agprs"));
  EXPECT_THAT(FoundAmd({148, 152, 6}, Metadata()), IsEmpty());
  EXPECT_THAT(FoundAmd({148, 152, 5}, Metadata()), ElementsAre("error sgprs"));
}

// Before gfx90a accumulators have a file of their own; from gfx10 on a wave has all scalars.
TEST(LintAmd, TheRulesAreThoseOfTheTarget) {
  EXPECT_THAT(FoundAmd({0, 148, 16}, Metadata(), "gfx908"), IsEmpty());
  EXPECT_THAT(FoundAmd({0, 147, 16}, Metadata(), "gfx908"), ElementsAre("error vgprs"));
  EXPECT_THAT(FoundAmd({0, 148, 0}, Metadata(), "gfx1100"), IsEmpty());
}

TEST(LintAmd, DescriptorAndMetadataMustAgree) {
  const auto with = [](const char* key, int value) {
    nlohmann::json metadata = Metadata();
    metadata[0][key] = value;
    return FoundAmd({}, metadata);
  };
  EXPECT_THAT(with(".group_segment_fixed_size", 32768), ElementsAre("error lds"));
  EXPECT_THAT(with(".private_segment_fixed_size", 16), ElementsAre("error scratch"));
  EXPECT_THAT(with(".wavefront_size", 32), ElementsAre("error wave"));
  EXPECT_THAT(with(".kernarg_segment_size", 16), ElementsAre("warning arguments"));
}

TEST(LintAmd, ArgumentsThatOverlapOrEndTooLateAreErrors) {
  nlohmann::json metadata = Metadata();
  metadata[0][".args"].push_back({{".offset", 4}, {".size", 4}});
  EXPECT_THAT(FoundAmd({}, metadata), ElementsAre("error arguments"));
  metadata[0][".args"][1] = {{".offset", 8}, {".size", 4}};
  EXPECT_THAT(FoundAmd({}, metadata), ElementsAre("error arguments"));
}

// 512 registers a lane: three waves of 152 on each of four SIMDs.
TEST(LintAmd, AWorkGroupThatNeverFitsIsAWarning) {
  nlohmann::json metadata = Metadata();
  metadata[0][".max_flat_workgroup_size"] = 768;
  EXPECT_THAT(FoundAmd({}, metadata), IsEmpty());
  metadata[0][".max_flat_workgroup_size"] = 769;
  EXPECT_THAT(FoundAmd({}, metadata), ElementsAre("warning work_group"));
}

TEST(LintAmd, MoreLdsThanTheCardHasIsAnError) {
  nlohmann::json metadata = Metadata();
  metadata[0][".group_segment_fixed_size"] = 65537;
  const std::string text = absl::StrReplaceAll(Disassembly({}), {{"65536", "65537"}});
  EXPECT_THAT(Found(HoldAmd(ReadAmdCode(text), metadata, "gfx942")), ElementsAre("error lds"));
  EXPECT_THAT(Found(HoldAmd(ReadAmdCode(text), metadata, "gfx950")), IsEmpty());
}

TEST(LintAmd, ScratchThatIsNotGrantedIsAnError) {
  const std::string text = absl::StrReplaceAll(
      Disassembly({}), {{"v_mov_b32_e32 v1, 0", "scratch_store_dword off, v1, off"}});
  EXPECT_THAT(Found(HoldAmd(ReadAmdCode(text), Metadata(), "gfx942")),
              ElementsAre("error scratch"));
}

TEST(LintAmd, ADescriptorWithoutCodeOrMetadataIsAnError) {
  EXPECT_THAT(FoundAmd({}, nullptr), ElementsAre("error metadata"));
  AmdCode code = ReadAmdCode(Disassembly({}));
  code.functions.clear();
  EXPECT_THAT(Found(HoldAmd(code, Metadata(), "gfx942")), ElementsAre("error code"));
}

TEST(LintAmd, ATargetThatLlvmDoesNotKnowHasNoLimitOfLds) {
  nlohmann::json metadata = Metadata();
  metadata[0][".group_segment_fixed_size"] = 1 << 20;
  const std::string text = absl::StrReplaceAll(
      Disassembly({}), {{"65536", absl::StrCat(1 << 20)}, {"accum_offset", "no_such_word"}});
  EXPECT_THAT(Found(HoldAmd(ReadAmdCode(text), metadata, "AMDGPU target 0xff")), IsEmpty());
  EXPECT_THAT(Found(HoldAmd(ReadAmdCode(text), metadata, "gfx11-generic")),
              ElementsAre("error lds"));
}

TEST(LintAmd, ADescriptorThatLlvmCannotDecodeIsTold) {
  const auto kernels =
      HoldAmd(ReadAmdCode("0000000000000800 <scale.kd>:\n"
                          "; error decoding scale.kd: kernel descriptor reserved bits are set\n"),
              nullptr, "gfx1030");
  EXPECT_THAT(Found(kernels), ElementsAre("warning descriptor"));
  EXPECT_THAT(kernels[0].findings[0].message, HasSubstr("reserved bits are set"));
}

TEST(LintAmd, HalvesLabelsAndNamesAreNoRegisters) {
  const AmdCode code = ReadAmdCode(
      "0000000000000000 <k>:\n"
      "\tv_add_f16 v1.h, v2.l, s3 // 000000000000: 00000000\n"
      "\ts_branch 3 <v200+0x10> // 000000000004: 00000000\n"
      "\tv_mov_b32 v3, v250foo // 000000000008: 00000000\n");
  const FunctionCode& k = code.functions.at("k");
  EXPECT_EQ(Highest(k.vector), 3);
  EXPECT_EQ(Highest(k.scalar), 3);
  EXPECT_EQ(Highest(k.accumulator), -1);
}

// ---- NVIDIA

std::string Words(std::initializer_list<std::uint32_t> words) {
  std::string bytes;
  for (const std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

// A cubin of sm_90 with one kernel "k" of 256 threads, as nvcc 13 writes it.
ElfView Cubin(std::uint32_t registers, std::uint32_t frame, std::int64_t shared) {
  ElfView elf;
  elf.flags = 90 << 8 | 4;
  elf.abi_version = 8;
  elf.sections = {
      {".strtab", 3, std::string("\0k\0", 3)},
      {".symtab", 48, std::string(24, '\0') + Words({1, 0, 0, 0, 0, 0})},
      {".text.k", 128, ""},
      {".nv.info", 24, Words({0x00082f04, 1, registers, 0x00081104, 1, frame})},
      {".nv.info.k", 20, Words({0x000c0504, 256, 1, 1, 0x00141903})},
      {".nv.shared.k", shared, ""},
  };
  return elf;
}

TEST(LintCubin, FiguresAreRead) {
  const auto kernels = HoldCubin(Cubin(40, 0, 5120));
  ASSERT_TRUE(kernels.ok());
  ASSERT_EQ(kernels->size(), 1U);
  const LintedKernel& k = kernels->front();
  EXPECT_EQ(k.name, "k");
  EXPECT_EQ(k.target, "sm_90");
  EXPECT_EQ(k.resources.at("registers"), 40);
  EXPECT_EQ(k.resources.at("threads"), 256);
  EXPECT_EQ(k.resources.at("shared_bytes"), 4096);
  EXPECT_EQ(k.resources.at("argument_bytes"), 20);
  EXPECT_THAT(k.findings, IsEmpty());
}

TEST(LintCubin, TheOlderFormOfTheFlagsIsReadToo) {
  ElfView elf = Cubin(40, 0, 0);
  elf.flags = 80;
  elf.abi_version = 7;
  EXPECT_EQ(HoldCubin(elf)->front().target, "sm_80");
}

// 65,536 registers for a block: 256 threads with 255 (256 are taken) fit to the last one.
TEST(LintCubin, MoreRegistersThanABlockHasAreAnError) {
  EXPECT_THAT(Found(*HoldCubin(Cubin(255, 0, 0))), IsEmpty());
  ElfView elf = Cubin(255, 0, 0);
  elf.sections[4].bytes = Words({0x000c0504, 257, 1, 1});
  EXPECT_THAT(Found(*HoldCubin(elf)), ElementsAre("error registers"));
}

TEST(LintCubin, LocalAndSharedMemoryAreTold) {
  EXPECT_THAT(Found(*HoldCubin(Cubin(40, 256, 0))), ElementsAre("warning local"));
  EXPECT_THAT(Found(*HoldCubin(Cubin(40, 0, (49 << 10)))), IsEmpty());
  EXPECT_THAT(Found(*HoldCubin(Cubin(40, 0, (49 << 10) + 1))), ElementsAre("error shared"));
}

TEST(LintCubin, AnAttributeWithoutAValueIsLeftOut) {
  ElfView elf = Cubin(40, 0, 0);
  elf.sections[4].bytes = Words({0x00001904, 0x00000504});
  ASSERT_TRUE(HoldCubin(elf).ok());
  EXPECT_FALSE(HoldCubin(elf)->front().resources.contains("argument_bytes"));
}

TEST(LintCubin, AttributesThatAreCutOffAreLeftOut) {
  ElfView elf = Cubin(40, 0, 0);
  for (ElfSection& section : elf.sections) {
    if (!section.bytes.empty()) section.bytes.resize(section.bytes.size() - 3);
  }
  EXPECT_TRUE(HoldCubin(elf).ok());
}

TEST(LintPtx, WhatPtxasSaysIsRead) {
  const auto kernels = HoldPtxas(
      "ptxas info    : Compiling entry function '_Z3twoPd' for 'sm_90'\n"
      "ptxas info    : Function properties for _Z3twoPd\n"
      "    96 bytes stack frame, 60 bytes spill stores, 64 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 96 bytes cumulative stack size, 4096 "
      "bytes smem\n",
      "sm_90");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "two(double*)");
  EXPECT_EQ(kernels[0].resources.at("registers"), 255);
  EXPECT_EQ(kernels[0].resources.at("spill_store_bytes"), 60);
  EXPECT_EQ(kernels[0].resources.at("spill_load_bytes"), 64);
  EXPECT_EQ(kernels[0].resources.at("shared_bytes"), 4096);
  EXPECT_THAT(Found(kernels), ElementsAre("warning spills"));
}

// A function that is called has properties of its own.
TEST(LintPtx, WhatIsSaidOfOtherFunctionsIsNotTheKernels) {
  const auto kernels = HoldPtxas(
      "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
      "ptxas info    : Function properties for k\n"
      "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Function properties for helper\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers\n",
      "sm_90");
  EXPECT_THAT(Found(kernels), ElementsAre("warning spills"));
}

TEST(LintPtx, TargetsRunWhereNvidiaSaysSo) {
  EXPECT_EQ(TargetOfPtx("//\n.version 9.0\n.target sm_90a, debug\n"), "sm_90a");
  EXPECT_EQ(TargetFault("sm_80", "sm_90", /*ptx=*/true), "");
  EXPECT_EQ(TargetFault("sm_80", "sm_89", /*ptx=*/false), "");
  EXPECT_THAT(TargetFault("sm_80", "sm_90", /*ptx=*/false), HasSubstr("sm_80"));
  EXPECT_THAT(TargetFault("sm_90", "sm_80", /*ptx=*/true), HasSubstr("sm_90"));
  EXPECT_THAT(TargetFault("sm_90a", "sm_100", /*ptx=*/true), HasSubstr("sm_90a"));
  EXPECT_EQ(TargetFault("sm_90a", "sm_90", /*ptx=*/false), "");
}

// ---- files

std::string Number(std::uint64_t value) {
  return Words({static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)});
}

TEST(LintBundle, DeviceCodeIsUnpacked) {
  const std::string host = "host-x86_64-unknown-linux", card = "hipv4-amdgcn-amd-amdhsa--gfx90a";
  const std::uint64_t begin = 24 + 8 + 2 * 24 + host.size() + card.size();
  const std::string bundle = "__CLANG_OFFLOAD_BUNDLE__" + Number(2) + Number(begin) + Number(0) +
                             Number(host.size()) + host + Number(begin) + Number(4) +
                             Number(card.size()) + card + "code";
  ASSERT_TRUE(IsOffloadBundle(bundle));
  EXPECT_THAT(*UnpackOffloadBundle(bundle), ElementsAre("code"));
  for (std::size_t size = 24; size < bundle.size(); ++size) {
    EXPECT_EQ(UnpackOffloadBundle(bundle.substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

std::string FileWith(const std::string& name, const std::string& bytes) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(LintFile, WhatIsNoDeviceCodeIsRefusedWithTheReason) {
  const std::string elf = std::string(
                              "\x7f"
                              "ELF\2\1\1") +
                          std::string(11, '\0');
  const auto refusal = [](const std::string& path) {
    const auto report = Lint(path, "");
    EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(report.status().message());
  };
  EXPECT_THAT(refusal(testing::TempDir() + "/no-such-file"), HasSubstr("/no-such-file: No such"));
  EXPECT_THAT(refusal(testing::TempDir()), HasSubstr("it is a folder"));
  EXPECT_THAT(refusal(FileWith("empty", "")), HasSubstr("empty"));
  EXPECT_THAT(refusal(FileWith("text", "hello")), HasSubstr("neither ELF"));
  EXPECT_THAT(refusal(FileWith("cut", elf.substr(0, 10))), HasSubstr("cut off"));
  // Of a cubin whose table of sections would begin at byte 256, and has one of 64 bytes.
  std::string cubin = elf + "\xbe" + std::string(300, '\0');
  cubin[0x29] = cubin[0x3c] = 1;
  cubin[0x3a] = 64;
  EXPECT_THAT(refusal(FileWith("cut.cubin", cubin.substr(0, 319))), HasSubstr("cut off"));
  EXPECT_THAT(
      refusal(FileWith("host.so", elf + "\x3e" + std::string(1, '\0') + std::string(44, '\0'))),
      HasSubstr("code for the host"));
  EXPECT_THAT(refusal(FileWith("arm", elf + "\x28" + std::string(1, '\0') + std::string(44, '\0'))),
              HasSubstr("machine 40"));
  EXPECT_THAT(refusal(FileWith("packed", "CCOB....")), HasSubstr("--no-offload-compress"));
  EXPECT_THAT(std::string(Lint(FileWith("text", "hello"), "h100").status().message()),
              HasSubstr("\"h100\" is no card"));
}

TEST(LintReport, TextAndJsonSayTheSame) {
  LintReport report{"a\nttn.hsaco", "gfx942",
                    HoldAmd(ReadAmdCode(Disassembly({48, 152, 16})), Metadata(), "gfx942")};
  const std::string text = LintText(report);
  EXPECT_THAT(text, HasSubstr("a?ttn.hsaco: gfx942, 1 kernel\n"));
  EXPECT_THAT(text, HasSubstr("  attn_fwd: 148 VGPRs, 4 AGPRs, 6 SGPRs, 64.0 KiB LDS"));
  EXPECT_THAT(text, HasSubstr("    ERROR    descriptor grants 48 VGPRs"));
  const Json json = LintJson(report);
  EXPECT_EQ(json["schema"], "assay.lint/v1");
  EXPECT_EQ(json["kernels"][0]["name"], "attn_fwd");
  EXPECT_EQ(json["kernels"][0]["registers"]["vgprs_used"], 148);
  EXPECT_EQ(json["kernels"][0]["findings"][0]["severity"], "error");
  EXPECT_TRUE(HasError(report));
  report.kernels[0].findings.clear();
  EXPECT_FALSE(HasError(report));
}

// A device has no end, and a pipe that nobody writes has no beginning.
TEST(Lint, ReadsRegularFilesOnly) {
  const std::string pipe = ::testing::TempDir() + "/lint_test.pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), pipe}) {
    EXPECT_EQ(Lint(path, "").status().message(),
              path + ": it is a pipe or a device; must be a regular file");
  }
  unlink(pipe.c_str());
  EXPECT_EQ(Lint("/", "").status().message(), "/: it is a folder; name one file in it");
}

}  // namespace
}  // namespace assay::client
