// Where the nodes of a fleet come from. sinfo, scontrol and kubectl are scripts of the
// test's own, first in PATH.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "client/fleet/fan_out.h"
#include "client/fleet/targets.h"
#include "client/lib/first_call.h"
#include "client/lib/program.h"

namespace assay::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

class FleetTargetsTest : public ::testing::Test {
 protected:
  FleetTargetsTest()
      : folder_(fs::temp_directory_path() / ("assay_targets." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    old_path_ = std::getenv("PATH");
    setenv("PATH", (folder_.string() + ":" + old_path_).c_str(), 1);
    unsetenv("ASSAY_TARGET");
    unsetenv("ASSAY_TARGETS");
  }
  ~FleetTargetsTest() override {
    setenv("PATH", old_path_.c_str(), 1);
    fs::remove_all(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  // A program that keeps what it was asked, and does this.
  void Tool(const std::string& name, const std::string& script) {
    Write(name, "#!/bin/sh\necho \"$@\" >> " + (folder_ / (name + ".asked")).string() + "\n" +
                    script + "\n");
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  std::string Asked(const std::string& name) const {
    std::ifstream file(folder_ / (name + ".asked"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static std::vector<std::string> Addresses(const FleetTargets& fleet) {
    std::vector<std::string> addresses;
    for (const Target& target : fleet.targets) addresses.push_back(target.address);
    return addresses;
  }
  static std::string Refusal(const std::vector<std::string>& words, absl::StatusCode code) {
    const auto fleet = FindFleet(words, {});
    EXPECT_EQ(fleet.status().code(), code) << fleet.status();
    return std::string(fleet.status().message());
  }

  const fs::path folder_;
  std::string old_path_;
};

TEST_F(FleetTargetsTest, ListsAndFilesWithWhatIsNamedTwiceAskedOnce) {
  Write("a.txt", "# rack a\na07:7575\na08   # the new one\n\na07, a09:1\n");
  const auto fleet = FindFleet({"b1,b2:80", "@" + (folder_ / "a.txt").string(), "b1:7575"}, {});
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  EXPECT_THAT(Addresses(*fleet), ElementsAre("b1:7575", "b2:80", "a07:7575", "a08:7575", "a09:1"));
  EXPECT_THAT(fleet->duplicates, ElementsAre(HasSubstr("a07:7575"), HasSubstr("b1:7575")));
}

TEST_F(FleetTargetsTest, NamesOfTheTargetsFileStandForTheirs) {
  Write("targets.toml", "[targets.lab]\naddress = [\"a1\", \"a2\"]\n");
  TargetOptions options;
  options.file = folder_ / "targets.toml";
  EXPECT_THAT(Addresses(*FindFleet({"lab,a3"}, options)),
              ElementsAre("a1:7575", "a2:7575", "a3:7575"));
}

TEST_F(FleetTargetsTest, WithoutWordsTheEnvironmentDecides) {
  EXPECT_THAT(Addresses(*FindFleet({}, {})), ElementsAre("127.0.0.1:7575"));
  setenv("ASSAY_TARGET", "e1,e2", 1);
  EXPECT_THAT(Addresses(*FindFleet({}, {})), ElementsAre("e1:7575", "e2:7575"));
  unsetenv("ASSAY_TARGET");
}

TEST_F(FleetTargetsTest, DnsGivesEveryAddressAndANameWithoutOneIsMissing) {
  const auto fleet = FindFleet({"dns:localhost:99", "dns:no-such-host.invalid"}, {});
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  EXPECT_THAT(Addresses(*fleet), Contains("127.0.0.1:99"));
  ASSERT_THAT(fleet->missing, SizeIs(1));
  EXPECT_EQ(fleet->missing[0].target, "dns:no-such-host.invalid");
  EXPECT_THAT(fleet->missing[0].reason, HasSubstr("cannot resolve no-such-host.invalid"));
}

TEST_F(FleetTargetsTest, SlurmListsThePartitionsNodesOnce) {
  Tool("sinfo", "echo n01; echo n01; echo 'n[02-03]'");
  Tool("scontrol", "echo n02; echo n03");
  EXPECT_THAT(Addresses(*FindFleet({"slurm:batch"}, {})),
              ElementsAre("n01:7575", "n02:7575", "n03:7575"));
  EXPECT_EQ(Asked("sinfo"), "-h -N -o %N -p batch\n");
  EXPECT_EQ(Asked("scontrol"), "show hostnames n[02-03]\n");
  EXPECT_THAT(Addresses(*FindFleet({"slurm:"}, {})), SizeIs(3));
  EXPECT_THAT(Addresses(*FindFleet({"slurm:batch:7576"}, {})),
              ElementsAre("n01:7576", "n02:7576", "n03:7576"));
  EXPECT_THAT(Addresses(*FindFleet({"slurm::7576"}, {})), Contains("n03:7576"));
  EXPECT_THAT(Refusal({"slurm::0"}, absl::StatusCode::kInvalidArgument), HasSubstr("the port"));
}

TEST_F(FleetTargetsTest, KubernetesListsTheLabelsPods) {
  Tool("kubectl", R"(cat <<'END'
{"items": [
 {"metadata": {"name": "assayd-1"}, "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "grpc", "containerPort": 7000}]}]},
  "status": {"phase": "Running", "podIP": "10.0.0.1"}},
 {"metadata": {"name": "assayd-2"}, "spec": {"containers": [{}]}, "status": {"phase": "Running", "podIP": "fd00::2"}},
 {"metadata": {"name": "assayd-3"}, "spec": {"nodeName": "n3"}, "status": {"phase": "Pending"}}]}
END)");
  const auto fleet = FindFleet({"k8s:app=assayd,lab,b1:80"}, {});
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  EXPECT_EQ(Asked("kubectl"), "get pods -o json -l app=assayd -n lab\n");
  EXPECT_THAT(Addresses(*fleet), ElementsAre("10.0.0.1:7000", "[fd00::2]:7575", "b1:80"));
  ASSERT_THAT(fleet->missing, SizeIs(1));
  EXPECT_EQ(fleet->missing[0].target + " " + fleet->missing[0].reason,
            "pod assayd-3 is Pending on n3");
}

TEST_F(FleetTargetsTest, AToolThatIsMissingOrAnswersAnErrorIsARefusal) {
  Tool("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1");
  EXPECT_THAT(Refusal({"slurm:batch"}, absl::StatusCode::kUnavailable),
              AllOf(HasSubstr("`sinfo -h -N -o %N -p batch`"),
                    HasSubstr("code 1: slurm_load_partitions: Unable")));
  Tool("sinfo", "");
  EXPECT_THAT(Refusal({"slurm:batch"}, absl::StatusCode::kUnavailable),
              HasSubstr("no node of partition \"batch\""));
  Tool("kubectl", "echo nonsense");
  EXPECT_THAT(Refusal({"k8s:a=b"}, absl::StatusCode::kUnavailable), HasSubstr("no list of pods"));
  Tool("kubectl", "echo '{\"items\": []}'");
  EXPECT_THAT(Refusal({"k8s:a=b"}, absl::StatusCode::kUnavailable), HasSubstr("no pod with a=b"));
  setenv("PATH", folder_.c_str(), 1);
  fs::remove(folder_ / "kubectl");
  EXPECT_THAT(Refusal({"k8s:a=b"}, absl::StatusCode::kUnavailable),
              HasSubstr("there is no program kubectl in PATH"));
}

TEST_F(FleetTargetsTest, MistakesAreNamed) {
  const auto mistake = [](const std::string& word) {
    return Refusal({word}, absl::StatusCode::kInvalidArgument);
  };
  EXPECT_THAT(mistake("a,,b"), HasSubstr("an entry of the list is empty"));
  EXPECT_THAT(mistake("a:0"), HasSubstr("the port must be 1 to 65535"));
  EXPECT_THAT(mistake("unix:"), HasSubstr("write unix:/PATH"));
  EXPECT_THAT(mistake("@/no/such/file"), HasSubstr("cannot read /no/such/file"));
  EXPECT_THAT(mistake("@" + folder_.string()), HasSubstr("cannot read"));
  EXPECT_THAT(mistake("dns:"), HasSubstr("write dns:NAME"));
  EXPECT_THAT(mistake("k8s:"), HasSubstr("write k8s:LABEL"));
  EXPECT_THAT(mistake("slurm:a:1:2"), HasSubstr("or slurm:PARTITION:PORT"));
  Write("nested", "ok:1\n@other\n");
  EXPECT_THAT(mistake("@" + (folder_ / "nested").string()),
              AllOf(HasSubstr("nested:2"), HasSubstr("cannot name another")));
  Write("none", "# nobody\n");
  EXPECT_THAT(mistake("@" + (folder_ / "none").string()), HasSubstr("the list is empty"));
}

TEST_F(FleetTargetsTest, AToolThatHangsIsEnded) {
  Tool("hang", "echo begun; exec sleep 600");
  Tool("silent", "exec sleep 600 >&- 2>&-");  // its pipes end, and it does not
  for (const char* tool : {"hang", "silent"}) {
    const auto said = RunProgram({tool}, absl::Milliseconds(50));
    EXPECT_EQ(said.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(said.status().message()), HasSubstr("no answer within 50ms"));
  }
}

// Each waits for the last to have begun: one after the other would never end.
// What gRPC says of a TCP connection now and then, and cannot be: another try. What can be: none.
TEST(FirstCall, TriesAgainOnlyWhereTheReasonCannotBe) {
  const grpc::Status spurious(grpc::StatusCode::UNAVAILABLE,
                              "failed to connect to all addresses; last error: UNKNOWN: "
                              "ipv4:127.0.0.1:37949: No such file or directory");
  const grpc::Status refused(grpc::StatusCode::UNAVAILABLE,
                             "failed to connect to all addresses; last error: UNKNOWN: "
                             "ipv4:127.0.0.1:37949: Failed to connect to remote host: "
                             "Connection refused");
  // How many calls were made, each but the first on a channel of its own.
  const auto calls = [](const char* target, const std::vector<grpc::Status>& answers) {
    const auto connection = Connection::Open({target, {}});
    std::size_t made = 0;
    std::set<const void*> stubs;
    const grpc::Status last = FirstCall(**connection, [&] {
      stubs.insert(&(*connection)->stub());
      return answers[made++];
    });
    EXPECT_EQ(stubs.size(), made);
    EXPECT_EQ(last.error_code(), answers[made - 1].error_code());
    return made;
  };
  EXPECT_EQ(calls("127.0.0.1:1", {spurious, grpc::Status::OK}), 2u);
  EXPECT_EQ(calls("127.0.0.1:1", {spurious, refused, grpc::Status::OK}), 2u);
  EXPECT_EQ(calls("127.0.0.1:1", {refused, grpc::Status::OK}), 1u);
  EXPECT_EQ(calls("unix:/run/assay", {spurious, grpc::Status::OK}), 1u);
  EXPECT_EQ(calls("127.0.0.1:1", std::vector<grpc::Status>(20, spurious)), 4u);
}

TEST(FanOut, All256RunAtOnce) {
  std::mutex mutex;
  std::condition_variable all;
  std::size_t begun = 0;
  FanOut(256, 256, [&](std::size_t) {
    std::unique_lock lock(mutex);
    ++begun;
    all.notify_all();
    all.wait(lock, [&] { return begun == 256; });
  });
  EXPECT_EQ(begun, 256u);
}

TEST(FanOut, EachOnceAndNoMoreAtOnceThanAllowed) {
  std::vector<std::atomic<int>> times(100);
  std::atomic<int> now = 0, most = 0;
  FanOut(times.size(), 3, [&](std::size_t i) {
    const int mine = ++now;
    for (int seen = most; seen < mine && !most.compare_exchange_weak(seen, mine);) {
    }
    ++times[i];
    --now;
  });
  for (const auto& count : times) EXPECT_EQ(count, 1);
  EXPECT_LE(most, 3);
  FanOut(0, 3, [](std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace assay::client::testing
