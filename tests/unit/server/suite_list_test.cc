#include "server/plan/suite_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/plan/selftest.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SuiteListTest : public JobsTest {
 protected:
  SuiteListTest() {
    v1::PlantedExample& example = *cpu_->kernels[3].mutable_planted()->add_examples();
    *example.mutable_spec() = Copies(1, "planted/wrong-tile").cases().cases(0);
    example.set_check("exact");
  }
  // Its case runs once for each provider of the device, or for the one that is named.
  void Write(const std::string& name, const std::string& title, const std::string& provider = "") {
    std::ofstream(File(name)) << "name = \"" << name << "\"\ntitle = \"" << title
                              << "\"\nversion = \"1\"\n[[case]]\nop = \"copy\"\ncount = 8\n"
                              << "dtype = \"fp32\"\n"
                              << (provider.empty() ? "" : "provider = \"" + provider + "\"\n");
  }
  std::string File(const std::string& name) const {
    return options_.suites_folder + "/" + name + ".toml";
  }
  // What the list says, which must be what a list that has kept nothing says.
  std::vector<v1::Suite> Listed(bool with_text = false) {
    std::vector<v1::Suite> listed = list_.Describe(with_text);
    const std::vector<v1::Suite> anew = SuiteList(devices_, options_).Describe(with_text);
    EXPECT_EQ(listed.size(), anew.size());
    for (std::size_t n = 0; n < std::min(listed.size(), anew.size()); ++n) {
      EXPECT_EQ(listed[n].DebugString(), anew[n].DebugString());
    }
    return listed;
  }
  v1::Suite Named(const std::string& name, bool with_text = false) {
    for (const v1::Suite& suite : Listed(with_text)) {
      if (suite.name() == name) return suite;
    }
    return {};
  }
  // How often the device was asked for its kernels, which every plan does.
  int AskedToList() {
    int asked = 0;
    cpu_->on_kernels = [&asked] { ++asked; };
    list_.Describe(false);
    cpu_->on_kernels = nullptr;
    return asked;
  }

  SuiteList list_{devices_, options_};
};

TEST_F(SuiteListTest, WhatIsKnownIsNotPlannedAgain) {
  const int first = AskedToList();
  EXPECT_GT(first, 3);
  EXPECT_EQ(AskedToList(), 2) << "for their number, and for the suite of cheats";
  EXPECT_EQ(AskedToList(), 2);
  EXPECT_EQ(Named("small").text(), "");
  EXPECT_THAT(Named("small", true).text(), HasSubstr("name = \"small\"")) << "though none is kept";
  EXPECT_EQ(Named("small").text(), "");
}

TEST_F(SuiteListTest, AFileThatHasChangedIsReadAgain) {
  std::filesystem::remove(File("small"));
  Write("one", "A");
  EXPECT_EQ(Named("one").case_count(), 2) << "two providers";
  EXPECT_THAT(Named("one").coverage(), ElementsAre("copy builtin,other fp32: 2 cases"));
  Write("one", "B");  // as many bytes, and perhaps in the same tick of the clock
  EXPECT_EQ(Named("one").title(), "B");
  Write("one", "B", "other");
  EXPECT_EQ(Named("one").case_count(), 1);
  std::ofstream(File("one")) << "name = \n";
  EXPECT_THAT(Named("one").error(), HasSubstr("one.toml"));
  EXPECT_EQ(Named("one").case_count(), 0);
  Write("one", "C");
  EXPECT_EQ(Named("one").error(), "");
  std::filesystem::remove(File("one"));
  EXPECT_EQ(Named("one").name(), "");
  Write("one", "D");
  EXPECT_EQ(Named("one").title(), "D");
}

// A plan reads the file itself, which may change meanwhile and be as before at the next listing.
TEST_F(SuiteListTest, WhatWasPlannedOfAnotherTextIsNotKept) {
  std::filesystem::remove(File("small"));
  Write("one", "A");
  int asked = 0;
  cpu_->on_kernels = [&] {
    if (++asked == 2) Write("one", "A", "other");  // the first is not the plan's
  };
  const std::vector<v1::Suite> listed = list_.Describe(false);
  cpu_->on_kernels = nullptr;
  ASSERT_FALSE(listed.empty());
  ASSERT_EQ(listed[0].name(), "one");
  EXPECT_EQ(listed[0].case_count(), 1) << "the plan has read the other text";
  Write("one", "A");
  EXPECT_EQ(Named("one").case_count(), 2);
}

TEST_F(SuiteListTest, GoldenDigestsThatCannotBeReadAreFound) {
  Write("one", "A");
  EXPECT_EQ(Named("one").coverage_size(), 1);
  std::filesystem::create_directory(options_.suites_folder + "/golden");
  const std::string golden = options_.suites_folder + "/golden/one.tsv";
  std::ofstream(golden) << "no digests\n";
  EXPECT_EQ(Named("one").coverage_size(), 0) << "no job of it can be planned";
  std::filesystem::remove(golden);
  EXPECT_EQ(Named("one").coverage_size(), 1);
}

TEST_F(SuiteListTest, ADeviceThatCameIsPlannedFor) {
  Write("one", "A");
  EXPECT_EQ(Named("one").case_count(), 2);
  FakeExecutor& second = AddDevice("simt:0");
  second.AddKernel("copy", "third");
  EXPECT_EQ(Named("one").case_count(), 2) << "the first device counts";
  std::swap(devices_.executors[0], devices_.executors[1]);
  EXPECT_EQ(Named("one").case_count(), 3);
  EXPECT_GT(AskedToList(), 0);
  devices_.executors.erase(devices_.executors.begin());
  EXPECT_EQ(Named("one").case_count(), 2);
}

TEST_F(SuiteListTest, AUsersKernelComesAndGoes) {
  bool here = false;
  options_.check_kernel = [&here](std::string_view) {
    return here ? absl::OkStatus() : absl::NotFoundError("is not here");
  };
  Write("one", "A", "user/0123456789abcdef");
  for (const bool now : {false, true, true, false}) {
    here = now;
    EXPECT_EQ(Named("one").coverage_size(), now ? 1 : 0);
  }
}

// A file may have the name of a suite of the daemon's own.
TEST_F(SuiteListTest, OfTwoWithOneNameEachIsItself) {
  Write(std::string(kSelftestSuite), "A file");
  for (int time = 0; time < 3; ++time) {
    const std::vector<v1::Suite> listed = Listed();
    EXPECT_EQ(std::count_if(listed.begin(), listed.end(),
                            [](const v1::Suite& s) { return s.title() == "A file"; }),
              1);
    EXPECT_EQ(std::count_if(listed.begin(), listed.end(),
                            [](const v1::Suite& s) { return s.title() == kSelftestTitle; }),
              1);
  }
}

}  // namespace
}  // namespace assay::server
