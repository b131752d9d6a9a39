// What one client may have, by a clock that the test moves.
#include "server/auth/client_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"
#include "server/auth/access.h"

namespace assay::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Detail>
std::optional<Detail> DetailOf(const absl::Status& status) {
  Detail detail;
  const auto payload =
      status.GetPayload("type.googleapis.com/" + Detail::descriptor()->full_name());
  if (!payload || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

std::string LimitOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  return info && info->reason() == "LIMIT_REACHED" ? info->metadata().at("limit") : "";
}

std::int64_t SecondsOf(const absl::Status& status) {
  const auto retry = DetailOf<google::rpc::RetryInfo>(status);
  return retry ? retry->retry_delay().seconds() : -1;
}

class ClientLimitsTest : public testing::Test {
 protected:
  void Make(const ClientLimitValues& values, std::size_t most_clients = 4096) {
    limits_ = std::make_unique<ClientLimits>(
        ClientLimitOptions{.values = values,
                           .clock = [this] { return now_; },
                           .refused = [this](Limit limit) { refused_.push_back(limit); },
                           .most_clients = most_clients,
                           .socket_of = [this](int fd) { return sockets_[fd]; }});
  }

  absl::Duration now_ = absl::Hours(1);
  std::vector<Limit> refused_;
  std::map<int, std::uint64_t> sockets_;  // of each descriptor; 0: it is closed
  std::unique_ptr<ClientLimits> limits_;
};

TEST_F(ClientLimitsTest, AnErrorSaysWhichLimitWhoseItsValueAndWhenToComeAgain) {
  Make({.waiting_jobs = 1});
  const auto place = limits_->AdmitJob("uid:7", 3);
  ASSERT_TRUE(place.ok());
  const absl::Status refused = limits_->AdmitJob("uid:7", 3).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "a limit is reached: uid:7 may have 1 jobs that wait (client-max-waiting-jobs); try "
            "again in 5s");
  const auto info = DetailOf<google::rpc::ErrorInfo>(refused);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->domain(), "assay");
  EXPECT_EQ(info->reason(), "LIMIT_REACHED");
  EXPECT_EQ(info->metadata().at("limit"), "client-max-waiting-jobs");
  EXPECT_EQ(info->metadata().at("client"), "uid:7");
  EXPECT_EQ(info->metadata().at("value"), "1");
  const auto quota = DetailOf<google::rpc::QuotaFailure>(refused);
  ASSERT_TRUE(quota);
  ASSERT_EQ(quota->violations_size(), 1);
  EXPECT_EQ(quota->violations(0).subject(), "uid:7");
  EXPECT_EQ(SecondsOf(refused), 5);
  EXPECT_THAT(refused_, ElementsAre(Limit::kClientWaitingJobs));
}

TEST_F(ClientLimitsTest, EveryLimitHasASettingOfItsOwn) {
  std::map<std::string_view, int> settings;
  for (const Limit limit : Limits()) ++settings[Setting(limit)];
  for (const auto& [setting, times] : settings) EXPECT_EQ(times, 1) << setting;
}

TEST_F(ClientLimitsTest, JobsThatWaitAreCountedForEachClientUntilTheyBegin) {
  Make({.waiting_jobs = 2});
  std::vector<Place> places;
  for (int n = 0; n < 2; ++n) places.push_back(*limits_->AdmitJob("a", 1));
  EXPECT_EQ(LimitOf(limits_->AdmitJob("a", 1).status()), "client-max-waiting-jobs");
  EXPECT_TRUE(limits_->AdmitJob("b", 1).ok()) << "another client has its own";
  places.pop_back();
  EXPECT_TRUE(limits_->AdmitJob("a", 1).ok());
}

TEST_F(ClientLimitsTest, WatchersAreCountedForEachClientAndForAll) {
  Make({.watchers = 2, .all_watchers = 3});
  std::vector<Place> places;
  for (int n = 0; n < 2; ++n) places.push_back(*limits_->AdmitWatcher("a"));
  EXPECT_EQ(LimitOf(limits_->AdmitWatcher("a").status()), "client-max-watchers");
  places.push_back(*limits_->AdmitWatcher("b"));
  const absl::Status all = limits_->AdmitWatcher("b").status();
  EXPECT_EQ(LimitOf(all), "max-watchers");
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(all)->metadata().count("client"), 0u);
  places.clear();
  EXPECT_TRUE(limits_->AdmitWatcher("b").ok());
}

TEST_F(ClientLimitsTest, CasesComeBackWithTime) {
  Make({.cases_per_minute = 60});
  EXPECT_TRUE(limits_->AdmitJob("a", 50).ok());
  EXPECT_TRUE(limits_->AdmitJob("a", 10).ok());
  const absl::Status refused = limits_->AdmitJob("a", 15).status();
  EXPECT_EQ(LimitOf(refused), "client-cases-per-minute");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("this job has 15 cases"));
  EXPECT_EQ(SecondsOf(refused), 15);
  now_ += absl::Seconds(14.5);
  EXPECT_EQ(SecondsOf(limits_->AdmitJob("a", 15).status()), 1);
  now_ += absl::Seconds(0.5);
  EXPECT_TRUE(limits_->AdmitJob("a", 15).ok()) << "when the error said";
  EXPECT_TRUE(limits_->AdmitJob("b", 60).ok());
}

TEST_F(ClientLimitsTest, ARefusedJobUsesNothingUp) {
  Make({.cases_per_minute = 60});
  EXPECT_TRUE(limits_->AdmitJob("a", 30).ok());
  for (int n = 0; n < 10; ++n) EXPECT_FALSE(limits_->AdmitJob("a", 40).ok());
  EXPECT_TRUE(limits_->AdmitJob("a", 30).ok());
}

TEST_F(ClientLimitsTest, CasesOfAJobThatIsNotTakenDoNotCount) {
  Make({.cases_per_minute = 10});
  ASSERT_TRUE(limits_->AdmitJob("a", 10).ok());
  EXPECT_FALSE(limits_->AdmitJob("a", 1).ok());
  limits_->GiveBackCases("a", 10);
  EXPECT_TRUE(limits_->AdmitJob("a", 10).ok());
  limits_->GiveBackCases("a", 100);
  EXPECT_TRUE(limits_->AdmitJob("a", 10).ok());
  EXPECT_FALSE(limits_->AdmitJob("a", 1).ok()) << "nobody has more than a minute's cases";
}

TEST_F(ClientLimitsTest, AJobOfMoreCasesThanAMinuteIsTakenOnceAndPaidFor) {
  Make({.cases_per_minute = 60});
  EXPECT_TRUE(limits_->AdmitJob("a", 180).ok());
  EXPECT_EQ(SecondsOf(limits_->AdmitJob("a", 1).status()), 121);
  EXPECT_EQ(SecondsOf(limits_->AdmitJob("a", 1000).status()), 180);
  now_ += absl::Seconds(180);
  EXPECT_TRUE(limits_->AdmitJob("a", 1000).ok());
}

TEST_F(ClientLimitsTest, UploadsAreCountedForEachClientUntilTheyEnd) {
  Make({.uploads = 1});
  Place place = *limits_->AdmitUpload("a");
  EXPECT_EQ(LimitOf(limits_->AdmitUpload("a").status()), "client-max-uploads");
  EXPECT_TRUE(limits_->AdmitUpload("b").ok()) << "another client has its own";
  place.reset();
  EXPECT_TRUE(limits_->AdmitUpload("a").ok());
}

TEST_F(ClientLimitsTest, ComparisonsAreCountedForEachClientUntilTheyEnd) {
  Make({.uploads = 1, .comparisons = 2});
  const Place upload = *limits_->AdmitUpload("a");
  Place first = *limits_->AdmitComparison("a");
  const Place second = *limits_->AdmitComparison("a");
  EXPECT_EQ(LimitOf(limits_->AdmitComparison("a").status()), "client-max-comparisons");
  EXPECT_THAT(refused_, ElementsAre(Limit::kClientComparisons));
  EXPECT_TRUE(limits_->AdmitComparison("b").ok()) << "another client has its own";
  first.reset();
  EXPECT_TRUE(limits_->AdmitComparison("a").ok());
}

using Connection = ClientLimits::Connection;

TEST_F(ClientLimitsTest, CallsOfAConnectionBeyondTheLimitAreRefusedUntilThereIsRoom) {
  Make({.connections = 2});
  std::uint64_t socket = 100;
  for (const int fd : {5, 6, 7}) sockets_[fd] = ++socket;
  EXPECT_EQ(limits_->TakeConnection("address a", "a:1", 5), Connection::kServe);
  EXPECT_EQ(limits_->TakeConnection("address a", "a:2", 6), Connection::kServe);
  EXPECT_EQ(limits_->TakeConnection("address a", "a:3", 7), Connection::kRefuse);
  EXPECT_TRUE(limits_->CheckConnection("a:1").ok());
  const absl::Status refused = limits_->CheckConnection("a:3");
  EXPECT_EQ(LimitOf(refused), "client-max-connections");
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(refused)->metadata().at("client"), "address a");
  EXPECT_THAT(refused_, ElementsAre(Limit::kClientConnections));
  sockets_[8] = ++socket;
  EXPECT_EQ(limits_->TakeConnection("address b", "b:1", 8), Connection::kServe);
  sockets_[5] = ++socket;  // the first was closed, and its descriptor is another connection's now
  EXPECT_TRUE(limits_->CheckConnection("a:3").ok());
  sockets_[9] = ++socket;
  EXPECT_EQ(limits_->TakeConnection("address a", "a:4", 9), Connection::kRefuse) << "full again";
}

TEST_F(ClientLimitsTest, AFewConnectionsBeyondTheLimitAreServedToTellWhyAndTheRestIsClosed) {
  Make({.connections = 1});
  std::map<Connection, int> taken;
  for (int fd = 0; fd < 100; ++fd) {
    sockets_[fd] = static_cast<std::uint64_t>(fd) + 1;
    ++taken[limits_->TakeConnection("address a", Cat("a:", fd), fd)];
  }
  EXPECT_EQ(taken[Connection::kServe], 1);
  EXPECT_EQ(taken[Connection::kRefuse], 16);
  EXPECT_EQ(taken[Connection::kClose], 83);
  EXPECT_EQ(refused_.size(), 83u);
}

TEST_F(ClientLimitsTest, APortThatIsUsedAgainIsAnotherConnection) {
  Make({.connections = 1});
  sockets_ = {{5, 1}, {6, 2}};
  EXPECT_EQ(limits_->TakeConnection("address a", "a:1", 5), Connection::kServe);
  EXPECT_EQ(limits_->TakeConnection("address a", "a:2", 6), Connection::kRefuse);
  sockets_ = {{5, 3}};  // both were closed
  EXPECT_EQ(limits_->TakeConnection("address a", "a:2", 5), Connection::kServe);
  EXPECT_TRUE(limits_->CheckConnection("a:2").ok());
}

TEST_F(ClientLimitsTest, AConnectionIsCutByItsPeerAndNoOther) {
  limits_ = std::make_unique<ClientLimits>();
  int one[2], other[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, one), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other), 0);
  limits_->TakeConnection("address a", "a:1", one[0]);
  limits_->TakeConnection("address a", "a:2", other[0]);
  limits_->CutConnection("a:1");
  char byte = 0;
  EXPECT_EQ(read(one[1], &byte, 1), 0) << "its end";
  EXPECT_EQ(read(other[1], &byte, 1), -1) << "nothing yet";
  // The descriptor of a connection that was closed may be another's.
  close(one[0]);
  ASSERT_EQ(dup2(other[0], one[0]), one[0]);
  limits_->CutConnection("a:1");
  EXPECT_EQ(read(other[1], &byte, 1), -1);
  for (const int fd : {one[0], one[1], other[0], other[1]}) close(fd);
}

TEST_F(ClientLimitsTest, ClosedConnectionsTakeNoMemoryAndNoPlace) {
  Make({.connections = 0}, /*most_clients=*/2);
  for (int n = 0; n < 1000; ++n) {
    sockets_[5] = static_cast<std::uint64_t>(n) + 1;
    EXPECT_EQ(limits_->TakeConnection(Cat("address ", n), Cat(n, ":1"), 5), Connection::kServe);
  }
  EXPECT_LE(limits_->clients(), 3u) << "whose connections are closed is forgotten";
}

TEST_F(ClientLimitsTest, ZeroMeansNoLimit) {
  Make({.waiting_jobs = 0, .cases_per_minute = 0, .watchers = 0, .all_watchers = 0});
  std::vector<Place> places;
  for (int n = 0; n < 5000; ++n) {
    places.push_back(*limits_->AdmitJob("a", 10'000));
    places.push_back(*limits_->AdmitWatcher("a"));
  }
  EXPECT_TRUE(refused_.empty());
}

TEST_F(ClientLimitsTest, NewValuesCountFromThenOn) {
  Make({.cases_per_minute = 60, .watchers = 1});
  const Place held = *limits_->AdmitWatcher("a");
  EXPECT_TRUE(limits_->AdmitJob("a", 60).ok());
  limits_->Set({.cases_per_minute = 120, .watchers = 2});
  EXPECT_TRUE(limits_->AdmitWatcher("a").ok());
  EXPECT_EQ(SecondsOf(limits_->AdmitJob("a", 120).status()), 30);
  limits_->Set({.cases_per_minute = 120, .watchers = 1});
  EXPECT_EQ(LimitOf(limits_->AdmitWatcher("a").status()), "client-max-watchers");
}

TEST_F(ClientLimitsTest, WhoHasNothingIsForgottenWhenThereIsNoRoom) {
  Make({.cases_per_minute = 60}, /*most_clients=*/3);
  const Place watcher = *limits_->AdmitWatcher("watches");
  ASSERT_TRUE(limits_->AdmitJob("used a minute", 60).ok());
  ASSERT_TRUE(limits_->AdmitWatcher("came and went").ok());
  EXPECT_EQ(limits_->clients(), 3u);
  EXPECT_TRUE(limits_->AdmitJob("new", 60).ok());
  EXPECT_EQ(limits_->clients(), 3u);
  EXPECT_FALSE(limits_->AdmitJob("used a minute", 1).ok()) << "it was not forgotten";
  now_ += absl::Minutes(2);
  EXPECT_TRUE(limits_->AdmitWatcher("one").ok());
  EXPECT_TRUE(limits_->AdmitWatcher("two").ok());
  EXPECT_LE(limits_->clients(), 3u);
}

TEST_F(ClientLimitsTest, WithoutRoomNewClientsShareOneEntry) {
  Make({.waiting_jobs = 2}, /*most_clients=*/2);
  std::vector<Place> places;
  for (const char* name : {"a", "b", "c", "d"}) places.push_back(*limits_->AdmitJob(name, 1));
  const absl::Status refused = limits_->AdmitJob("e", 1).status();
  EXPECT_EQ(LimitOf(refused), "client-max-waiting-jobs");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("clients without an entry of their own"));
  EXPECT_TRUE(limits_->AdmitJob("a", 1).ok()) << "who is known keeps its own";
  for (int n = 0; n < 1000; ++n) limits_->AdmitWatcher(Cat("client ", n)).IgnoreError();
  EXPECT_EQ(limits_->clients(), 3u) << "the table does not grow";
}

TEST_F(ClientLimitsTest, ANameOfAnyBytesIsShownPlainAndShort) {
  Make({.watchers = 1});
  const std::string name = "certificate \x1b[2J\xff" + std::string(5000, 'x');
  const Place held = *limits_->AdmitWatcher(name);
  const absl::Status refused = limits_->AdmitWatcher(name).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("certificate ?[2J?xxx"));
  EXPECT_LT(refused.message().size(), 300u);
}

TEST_F(ClientLimitsTest, APlaceMayOutliveTheLimits) {
  Make({});
  const Place held = *limits_->AdmitWatcher("a");
  limits_.reset();
}

TEST(ClientNames, TheAddressesOfOneMachineAreOneClient) {
  for (const char* peer :
       {"ipv4:127.0.0.1:1", "ipv4:127.9.8.7:2", "ipv6:%5B::ffff:127.0.0.3%5D:4"}) {
    EXPECT_EQ(ClientAt(peer), "address ipv4:127.0.0.0/8") << peer;
  }
  for (const char* peer :
       {"ipv6:%5B2001:db8:1:2::1%5D:1", "ipv6:[2001:db8:1:2:aaaa:bbbb:cccc:dddd]:65535",
        "ipv6:%5B2001:DB8:1:2::9%25eth0%5D:3"}) {
    EXPECT_EQ(ClientAt(peer), "address ipv6:2001:db8:1:2::/64") << peer;
  }
  EXPECT_EQ(ClientAt("ipv6:%5B2001:db8:1:3::1%5D:1"), "address ipv6:2001:db8:1:3::/64");
  EXPECT_EQ(ClientAt("ipv6:%5B::ffff:10.0.0.1%5D:4433"), ClientAt("ipv4:10.0.0.1:4"));
  EXPECT_EQ(ClientAt("ipv4:128.0.0.1:4"), "address ipv4:128.0.0.1");
  EXPECT_EQ(ClientAt("ipv6:%5Bno address%5D:4"), "address ipv6:%5Bno address%5D");
}

TEST(ClientNames, AnAddressHasNoPort) {
  EXPECT_EQ(ClientAt("ipv4:10.0.0.1:4433"), "address ipv4:10.0.0.1");
  EXPECT_EQ(ClientAt("ipv6:%5B::1%5D:4433"), "address ipv6:::1");
  EXPECT_EQ(ClientAt("unix:"), "address unix:");
  EXPECT_EQ(ClientAt("inproc"), "address inproc");
  EXPECT_EQ(ClientOf({"address ipv4:10.0.0.1:4433", Role::kAdmin, "ipv4:10.0.0.1:4433"}),
            "address ipv4:10.0.0.1");
  EXPECT_EQ(ClientOf({"certificate a:1", Role::kAdmin, "ipv4:10.0.0.1:4433"}), "certificate a:1");
}

}  // namespace
}  // namespace assay::server
