// Flags, the file, and what is said where they are wrong.
#include "server/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace assay::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ParsedArguments> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "assayd");
  return ParseArguments(static_cast<int>(arguments.size()), arguments.data(), "1.2.3");
}

std::string ParseError(std::vector<const char*> arguments) {
  const auto parsed = Parse(std::move(arguments));
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

std::string TomlError(std::string_view text) {
  Config config;
  return std::string(ReadToml(text, "a.toml", config).message());
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ConfigTest, FlagsAreRead) {
  const auto parsed =
      Parse({"--listen", "127.0.0.1:0", "--listen=unix:/tmp/a.sock,[::1]:0", "--devices",
             "cpu:0,cuda:*", "--case-deadline", "90", "--arena-bytes", "2GiB", "--insecure",
             "--metrics-listen", "off", "--state-dir", "/tmp/state", "--idle-release", "0"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Config& c = parsed->config;
  EXPECT_THAT(c.listen, ElementsAre("127.0.0.1:0", "unix:/tmp/a.sock", "[::1]:0"));
  EXPECT_THAT(c.devices, ElementsAre("cpu:0", "cuda:*"));
  EXPECT_EQ(c.case_deadline, absl::Seconds(90));
  EXPECT_EQ(c.arena_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(c.idle_release, absl::ZeroDuration());
  EXPECT_TRUE(c.insecure);
  EXPECT_EQ(c.metrics_listen, "");
  EXPECT_EQ(c.state_dir, "/tmp/state");
}

TEST(ConfigTest, ProbesTakeAShareOfAnInterval) {
  const auto parsed = Parse({"--probe", "5ms/10s"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.probe_share, absl::Milliseconds(5));
  EXPECT_EQ(parsed->config.probe_interval, absl::Seconds(10));
  EXPECT_EQ(Parse({})->config.probe_share, absl::ZeroDuration());
  EXPECT_EQ(Parse({"--probe", "off"})->config.probe_share, absl::ZeroDuration());
  for (const char* wrong : {"5ms", "10s/5ms", "0/10s", "5ms/", "/10s", "often"}) {
    EXPECT_THAT(ParseError({"--probe", wrong}), HasSubstr("such as 5ms/10s")) << wrong;
  }
}

TEST(ConfigTest, TheHealthPortIsOffUntilNamed) {
  EXPECT_EQ(Parse({})->config.health_listen, "");
  EXPECT_EQ(Parse({"--health-listen", "0.0.0.0:7577"})->config.health_listen, "0.0.0.0:7577");
  EXPECT_EQ(Parse({"--health-listen", "off"})->config.health_listen, "");
  EXPECT_THAT(ParseError({"--health-listen", "7577"}), HasSubstr("--health-listen must be"));
}

// Else a variable that a unit's author forgot would turn off the check of clients.
TEST(ConfigTest, AnEmptyTextIsNoValue) {
  for (const char* option : {"--tls-cert", "--tls-client-ca", "--roles-file", "--state-dir",
                             "--suites-dir", "--worker", "--config"}) {
    EXPECT_EQ(ParseError({option, ""}),
              std::string(option) + " must not be empty; give it a value or leave it out");
  }
  EXPECT_THAT(ParseError({"--metrics-listen", ""}), HasSubstr("must be HOST:PORT"));
  EXPECT_THAT(TomlError("roles-file = \"\""), HasSubstr("roles-file must not be empty"));
}

TEST(ConfigTest, JobsAreKeptForNinetyDaysAndTenGibibytesUnlessSaid) {
  EXPECT_EQ(Parse({})->config.store_keep, absl::Hours(2160));
  EXPECT_EQ(Parse({})->config.store_keep_bytes, std::int64_t{10} << 30);
  EXPECT_EQ(Parse({"--store-keep", "0"})->config.store_keep, absl::ZeroDuration());
  EXPECT_EQ(Parse({"--store-keep-bytes", "0"})->config.store_keep_bytes, 0);
  EXPECT_THAT(ParseError({"--store-keep", "-1h"}), HasSubstr("--store-keep must be a time"));
}

TEST(ConfigTest, LimitsOfAClientAreNumbersAndZeroMeansNone) {
  const auto parsed =
      Parse({"--client-max-waiting-jobs", "7", "--client-cases-per-minute", "0",
             "--client-max-watchers", "8", "--max-watchers", "9", "--watch-stall", "5s"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.limits.waiting_jobs, 7);
  EXPECT_EQ(parsed->config.limits.cases_per_minute, 0);
  EXPECT_EQ(parsed->config.limits.watchers, 8);
  EXPECT_EQ(parsed->config.limits.all_watchers, 9);
  EXPECT_EQ(parsed->config.watch_stall, absl::Seconds(5));
  EXPECT_THAT(ParseError({"--client-max-watchers", "-1"}),
              HasSubstr("must be a number from 0 (no limit) to 1000000000"));
}

TEST(ConfigTest, AFlagBeatsTheFileAndTheFileTheDefault) {
  const std::string path = WriteFile("flag_beats_file.toml",
                                     "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n"
                                     "case-deadline = \"5s\"\ndrain-timeout = 3\n"
                                     "insecure = true\n");
  const auto parsed = Parse({"--config", path.c_str(), "--case-deadline", "7s"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.case_deadline, absl::Seconds(7));
  EXPECT_EQ(parsed->config.drain_timeout, absl::Seconds(3));
  EXPECT_THAT(parsed->config.listen, ElementsAre("127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_TRUE(parsed->config.insecure);
  EXPECT_EQ(parsed->config.metrics_listen, "127.0.0.1:9575");
}

TEST(ConfigTest, ErrorsOfTheFileSayWhereAndWhatIsNear) {
  EXPECT_EQ(TomlError("# first\nlistne = \"127.0.0.1:1\"\n"),
            "a.toml:2:1: unknown key \"listne\"; did you mean \"listen\"?");
  EXPECT_EQ(TomlError("colour = 1\n"), "a.toml:1:1: unknown key \"colour\"");
  EXPECT_THAT(TomlError("listen = \n"), HasSubstr("a.toml:1:"));
  EXPECT_THAT(TomlError("insecure = \"yes\""),
              HasSubstr("a.toml:1:12: insecure must be true or false, got \"yes\""));
  EXPECT_THAT(TomlError("store-sync = [\"full\"]"), HasSubstr("store-sync must be one value"));
  EXPECT_THAT(TomlError("[tls]\ncert = \"a\""), HasSubstr("unknown key \"tls\""));
  EXPECT_THAT(TomlError("devices = []"), HasSubstr("must name at least one"));
}

TEST(ConfigTest, ErrorsOfFlagsNameTheFlagTheValueAndWhatIsRight) {
  EXPECT_THAT(ParseError({"--listen", "7575"}),
              HasSubstr("--listen must be HOST:PORT with a port from 0 to 65535"));
  EXPECT_THAT(ParseError({"--listen", "::1:80"}), HasSubstr("[HOST]:PORT"));
  EXPECT_THAT(ParseError({"--metrics-listen", "h:70000"}), HasSubstr("--metrics-listen must be"));
  EXPECT_THAT(ParseError({"--case-deadline", "0"}), HasSubstr("must be above 0"));
  EXPECT_THAT(ParseError({"--case-deadline", "nan"}), HasSubstr("--case-deadline must be a time"));
  EXPECT_THAT(ParseError({"--arena-bytes", "-1"}), HasSubstr("must be a size"));
  EXPECT_THAT(ParseError({"--store-sync", "fast"}), HasSubstr("one of full, normal"));
  EXPECT_THAT(ParseError({"--tls-cert", "a"}), HasSubstr("--tls-key is missing"));
  EXPECT_THAT(ParseError({"--tls-client-ca", "a"}), HasSubstr("needs --tls-cert"));
  EXPECT_THAT(ParseError({"--bogus"}), HasSubstr("--bogus"));
  EXPECT_THAT(ParseError({"--config", "/nowhere/a.toml"}), HasSubstr("/nowhere/a.toml"));
  EXPECT_THAT(ParseError({"--config", "/"}), HasSubstr("configuration file /: it is a folder"));
  EXPECT_THAT(ParseError({"stray"}), HasSubstr("stray"));
}

TEST(ConfigTest, HelpNamesEveryOptionAndItsDefault) {
  const auto parsed = Parse({"--help"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  for (const char* word : {"--listen",
                           "--metrics-listen",
                           "--health-listen",
                           "--state-dir",
                           "--config",
                           "--devices",
                           "--tls-cert",
                           "--tls-key",
                           "--tls-client-ca",
                           "--insecure",
                           "--suites-dir",
                           "--store-sync",
                           "--case-deadline",
                           "--selftest-on-start",
                           "--arena-bytes",
                           "--idle-release",
                           "--drain-timeout",
                           "--log-level",
                           "127.0.0.1:7575",
                           "127.0.0.1:9575",
                           "/etc/assay/assayd.toml"}) {
    EXPECT_THAT(parsed->print, HasSubstr(word));
  }
  EXPECT_EQ(Parse({"--version"})->print, "assayd 1.2.3\n");
}

// Setting an option to the default that its help states changes nothing.
TEST(ConfigTest, HelpStatesTheDefaultsOfTheCode) {
  const std::string help = Parse({"--help"})->print;
  const Config defaults = Parse({})->config;
  const std::regex form("--([a-z-]+) [^\n]*\\(default ([^ )]+)\\)");
  int found = 0;
  for (std::sregex_iterator it(help.begin(), help.end(), form), end; it != end; ++it, ++found) {
    const std::string option = "--" + (*it)[1].str();
    const std::string value = (*it)[2];
    const auto parsed = Parse({option.c_str(), value.c_str()});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->config, defaults) << option << " " << value;
  }
  EXPECT_EQ(found, 32) << help;
}

TEST(ConfigTest, AReloadTakesWhatCanChangeAndNamesTheRest) {
  Config now = Parse({"--drain-timeout", "5s"})->config;
  const Config read = Parse({"--client-max-watchers", "7", "--store-keep", "1h", "--log-level",
                             "debug", "--listen", "127.0.0.1:1", "--probe", "5ms/10s"})
                          ->config;
  const ConfigChanges changes = ChangesTo(read, now);
  EXPECT_THAT(changes.taken,
              ElementsAre("store-keep", "drain-timeout", "client-max-watchers", "log-level"));
  EXPECT_THAT(changes.need_restart, ElementsAre("listen", "probe"));
  EXPECT_EQ(now.limits.watchers, 7);
  EXPECT_EQ(now.store_keep, absl::Hours(1));
  EXPECT_EQ(now.drain_timeout, absl::Seconds(30)) << "back to the default";
  EXPECT_THAT(now.listen, ElementsAre("127.0.0.1:7575")) << "as the daemon serves";
  const ConfigChanges again = ChangesTo(read, now);
  EXPECT_TRUE(again.taken.empty());
  EXPECT_THAT(again.need_restart, ElementsAre("listen", "probe"));
  const std::string help = Parse({"--help"})->print;
  for (const std::string_view option : ReloadableOptions()) {
    EXPECT_THAT(help, HasSubstr("--" + std::string(option) + " "));
  }
}

TEST(ConfigTest, TimesAndSizes) {
  EXPECT_EQ(*ParseSeconds("1m30s"), absl::Seconds(90));
  EXPECT_EQ(*ParseSeconds("0.25"), absl::Milliseconds(250));
  EXPECT_FALSE(ParseSeconds("-1s").ok());
  EXPECT_FALSE(ParseSeconds("inf").ok());
  EXPECT_FALSE(ParseSeconds("").ok());
  EXPECT_EQ(*ParseBytes("3KiB"), 3072);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000);
  EXPECT_FALSE(ParseBytes("9999999999TiB").ok());
  EXPECT_FALSE(ParseBytes("GiB").ok());
}

TEST(ConfigTest, HostsAndPorts) {
  EXPECT_EQ(ParseHostPort("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHostPort(":80")->host, "");
  EXPECT_EQ(ParseHostPort("a.b:0")->port, 0);
  EXPECT_FALSE(ParseHostPort("a:").ok());
  EXPECT_FALSE(ParseHostPort("a:65536").ok());
  EXPECT_FALSE(ParseHostPort("a:+1").ok());
}

TEST(Arguments, AnOptionNobodyKnowsIsNamedWithANearOne) {
  EXPECT_EQ(ParseError({"--listn", "127.0.0.1:1"}),
            "unknown option \"--listn\"; did you mean \"listen\"?");
  EXPECT_EQ(ParseError({"--colour=1"}), "unknown option \"--colour\"; see assayd --help");
  EXPECT_EQ(ParseError({"start"}), "unknown word \"start\"; see assayd --help");
}

TEST(ConfigTest, WhatWorkersMayReadIsAbsoluteAndContainmentIsAskedForOnce) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "assayd");
    return ParseArguments(static_cast<int>(words.size()), words.data(), "1");
  };
  const auto parsed = parse({"--worker-read", "/data/a,/data/b", "--require-containment"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.worker_read, (std::vector<std::string>{"/data/a", "/data/b"}));
  EXPECT_TRUE(parsed->config.require_containment);
  for (const char* wrong : {"data", "/", "//"}) {
    EXPECT_FALSE(parse({"--worker-read", wrong}).ok()) << wrong;
  }
  EXPECT_FALSE(parse({"--require-containment", "--no-containment"}).ok());
}

TEST(ConfigTest, UsersKernelsAreNamedByTheirForm) {
  const auto parse = [](std::vector<const char*> words) {
    words.insert(words.begin(), "assayd");
    return ParseArguments(static_cast<int>(words.size()), words.data(), "1");
  };
  EXPECT_THAT(parse({})->config.user_kernels, ElementsAre("none"));
  const auto both =
      parse({"--user-kernels", "library,source", "--user-kernel-dirs", "/opt/a,/opt/b"});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->config.user_kernels, ElementsAre("library", "source"));
  EXPECT_THAT(both->config.user_kernel_dirs, ElementsAre("/opt/a", "/opt/b"));
  for (const char* wrong : {"sauce", "none,library", "code-objects", ","}) {
    EXPECT_FALSE(parse({"--user-kernels", wrong}).ok()) << wrong;
  }
  EXPECT_FALSE(parse({"--user-kernel-dirs", "/opt"}).ok()) << "no library is taken";
  EXPECT_FALSE(parse({"--user-kernels", "source", "--user-kernel-dirs", "/opt"}).ok());
  EXPECT_FALSE(parse({"--user-kernels", "library", "--user-kernel-dirs", "opt"}).ok());
}

}  // namespace
}  // namespace assay::server
