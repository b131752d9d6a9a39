// Words, options, sweeps, targets and error texts, without a daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "client/lib/case_options.h"
#include "client/lib/connection.h"
#include "client/lib/errors.h"
#include "client/lib/operators.h"
#include "client/lib/parse.h"
#include "client/lib/shown.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "tests/unit/api_comments.h"
#include "tests/unit/client/command.h"
#include "tests/unit/client/fake_service.h"

namespace assay::client::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Words, AreTheEnumNamesWithoutPrefix) {
  EXPECT_EQ(Word(v1::DTYPE_BF16), "bf16");
  EXPECT_EQ(Word(v1::VERDICT_PASSED), "PASSED");
  EXPECT_EQ(Word(v1::DEVICE_STATE_READY), "READY");
  EXPECT_EQ(Word(v1::JOB_STATE_RUNNING), "RUNNING");
  EXPECT_EQ(Word(v1::CRITERION_ALLCLOSE), "allclose");
  EXPECT_EQ(Word(v1::MODE_BOTH), "both");
  EXPECT_EQ(Word(v1::DTYPE_UNSPECIFIED), "");
  EXPECT_EQ(*ParseWord<v1::DType>("dtype", "E4M3FN"), v1::DTYPE_E4M3FN);
  EXPECT_FALSE(ParseWord<v1::DType>("dtype", "unspecified").ok());
}

TEST(Words, NearMeansNear) {
  const std::vector<std::string> known = {"gemm", "conv", "attention", "softmax"};
  EXPECT_EQ(NearWord("atention", known), "attention");
  EXPECT_EQ(NearWord("gem", known), "gemm");
  EXPECT_EQ(NearWord("gmem", known), "gemm") << "a swap is one edit, as for the daemon";
  EXPECT_EQ(NearWord("quux", known), "");
}

// The options are made of the descriptors, so this holds for fields yet to come.
TEST(Help, NamesEveryFieldOfEveryProblemWithItsMeaning) {
  for (const std::string& op : OperatorNames()) {
    const Output output = Assay({"run", op, "--help"});
    EXPECT_EQ(output.code, 0);
    EXPECT_THAT(output.out, HasSubstr("assay run " + op));
    const auto options = ProblemOptions(op);
    EXPECT_FALSE(options.empty());
    for (const CaseOption& option : options) {
      EXPECT_THAT(output.out, HasSubstr("--" + option.flag)) << op;
      EXPECT_FALSE(option.help.empty()) << op << "." << option.flag;
      EXPECT_THAT(output.out, HasSubstr(option.help)) << op;
    }
    EXPECT_THAT(output.out, HasSubstr("--min-efficiency"));
  }
  EXPECT_THAT(Assay({"--help"}).out, HasSubstr("Exit codes"));
  EXPECT_THAT(Assay({"--version"}).out, HasSubstr("assay "));
}

// The API's comments are held against the daemon, so this holds the help against it, too.
TEST(Help, StatesTheLimitsAndDefaultsOfTheApi) {
  const std::map<std::string, std::string> comments = ApiComments(ASSAY_API_COMMENTS);
  const auto stated = [&](const std::string& field) {
    std::vector<Statement> all;
    for (const char* message : {"CaseSpec.", "JobSpec."}) {
      const auto comment = comments.find(message + field);
      if (comment == comments.end()) continue;
      for (const Statement& s : StatementsIn(comment->second)) all.push_back(s);
    }
    return all;
  };
  std::vector<std::pair<std::string, std::string>> helps;
  for (const CaseOption& option : CommonCaseOptions()) {
    helps.emplace_back(option.field->name(), option.help);
  }
  for (const auto& [command, option, field] : {std::tuple{"run", "--priority", "priority"},
                                               {"run", "--threshold", "baseline_threshold"},
                                               {"selftest", "--trials", "trials"}}) {
    const std::string text = Assay({command, "--help"}).out;
    const std::size_t begin = text.find(option);
    ASSERT_NE(begin, std::string::npos) << option;
    helps.emplace_back(field, text.substr(begin, text.find("\n  -", begin) - begin));
  }
  int found = 0;
  for (const auto& [field, help] : helps) {
    for (const Statement& s : StatementsIn(help)) {
      ++found;
      EXPECT_THAT(stated(field), Contains(s)) << field << ": " << help;
    }
  }
  EXPECT_GE(found, 9);
}

std::vector<GivenOption> Given(const std::string& op,
                               const std::vector<std::pair<std::string, std::string>>& words) {
  std::vector<CaseOption> options = ProblemOptions(op);
  for (const CaseOption& common : CommonCaseOptions()) options.push_back(common);
  std::vector<GivenOption> given;
  for (const auto& [flag, text] : words) {
    for (const CaseOption& option : options) {
      if (option.flag == flag) given.emplace_back(option, text);
    }
  }
  return given;
}

TEST(Sweep, TheLastOptionVariesFastest) {
  const auto cases = *Expand("gemm", Given("gemm", {{"m", "1,2"}, {"dtype", "fp32,bf16"}}));
  ASSERT_EQ(cases.size(), 4U);
  EXPECT_EQ(cases[1].gemm().m(), 1);
  EXPECT_EQ(cases[1].dtype(), v1::DTYPE_BF16);
  EXPECT_EQ(cases[2].gemm().m(), 2);
}

TEST(Sweep, ExtentsAreOneValue) {
  const auto cases = *Expand("conv", Given("conv", {{"input", "8x9,16x16"}, {"kernel", "3x3"}}));
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_THAT(cases[0].conv().input(), ElementsAre(8, 9));
  EXPECT_FALSE(Expand("conv", Given("conv", {{"input", "8x"}})).ok());
}

TEST(Sweep, TooManyCasesAreCountedNotMade) {
  std::string hundred = "1";
  for (int i = 2; i <= 101; ++i) hundred += "," + std::to_string(i);
  const auto cases = Expand("gemm", Given("gemm", {{"m", hundred}, {"n", hundred}}));
  EXPECT_THAT(std::string(cases.status().message()),
              HasSubstr("10201 cases (--m has 101, --n has 101); at most 10000"));
}

TEST(Sweep, AZeroTheWireCannotCarryIsRefusedHere) {
  const auto refused =
      Expand("attention", Given("attention", {{"kv-heads", "0"}, {"repeat", "0"}}));
  EXPECT_EQ(std::string(refused.status().message()),
            "attention.kv_heads: must be at least 1, got 0\n"
            "repeats: must be at least 1, got 0");
  // A zero the daemon sees, or one that means something, is the daemon's matter.
  EXPECT_TRUE(Expand("gemm", Given("gemm", {{"batch", "0"}, {"lda", "0"}, {"beta", "0"}})).ok());
}

TEST(Sweep, AnExtentBelowOneIsSaidBesideWhatOnlyTheClientSees) {
  const auto refused =
      Expand("gemm", Given("gemm", {{"m", "0"}, {"n", "4,-4"}, {"lda", "0"}, {"dtype", "fp15"}}));
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::StartsWith("gemm.m: must be at least 1, got 0\n"
                                    "gemm.n: must be at least 1, got -4\n"
                                    "dtype: unknown type \"fp15\""));
  // Alone, or beside what the daemon sees, an extent is the daemon's matter.
  EXPECT_TRUE(Expand("gemm", Given("gemm", {{"m", "0"}, {"n", "-1"}, {"pattern", "nrmal"}})).ok());
  for (const auto& [op, flag] : {std::pair<std::string, std::string>{"attention", "heads"},
                                 {"attention", "dim"},
                                 {"conv", "channels"},
                                 {"softmax", "cols"},
                                 {"copy", "count"}}) {
    const auto both = Expand(op, Given(op, {{flag, "0"}, {"dtype", "fp15"}}));
    EXPECT_THAT(std::string(both.status().message()),
                ::testing::StartsWith(absl::StrCat(op, ".", flag, ": must be at least 1, got 0")));
  }
}

// The help is where a field says what its default is: no field that says one may be
// forgotten, whoever adds it.
TEST(Sweep, EveryDefaultThatZeroWouldBecomeIsGuarded) {
  for (const std::string& op : OperatorNames()) {
    std::vector<CaseOption> options = ProblemOptions(op);
    for (const CaseOption& common : CommonCaseOptions()) options.push_back(common);
    for (const CaseOption& option : options) {
      const bool integer =
          option.field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT64 ||
          option.field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_INT32;
      if (!integer || option.field->is_repeated()) continue;
      const bool becomes_another = !option.field->has_presence() &&
                                   option.help.find("(default") != std::string::npos &&
                                   option.help.find("(default 0") == std::string::npos &&
                                   option.help.find("default: tight") == std::string::npos;
      EXPECT_EQ(Expand(op, {{option, "0"}}).ok(), !becomes_another) << option.path();
    }
  }
}

TEST(Parse, Durations) {
  EXPECT_EQ(ParseDuration("d", "1h30m")->seconds(), 5400);
  EXPECT_EQ(ParseDuration("d", "10")->seconds(), 10);
  EXPECT_EQ(ParseDuration("d", "250ms")->nanos(), 250'000'000);
  EXPECT_EQ(ParseDuration("d", "-1s")->seconds(), -1);  // the daemon says what is wrong with it
  EXPECT_FALSE(ParseDuration("d", "soon").ok());
  EXPECT_FALSE(ParseDuration("d", "inf").ok());
}

TEST(Parse, Seeds) {
  EXPECT_EQ(*ParseSeed("s", "18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*ParseSeed("s", "0xff"), 255U);
  EXPECT_FALSE(ParseSeed("s", "-1").ok());
  EXPECT_FALSE(ParseSeed("s", "0x").ok());
}

TEST(Targets, ListsPortsAndFamilies) {
  const auto addresses = [](const std::string& list) {
    std::vector<std::string> found;
    auto targets = ResolveTargets({list, "/dev/null", {}});
    if (!targets.ok()) return std::vector<std::string>{std::string(targets.status().message())};
    for (const Target& target : *targets) found.push_back(target.address);
    return found;
  };
  EXPECT_THAT(addresses("a07,b:1"), ElementsAre("a07:7575", "b:1"));
  EXPECT_THAT(addresses("[::1]:9,[::1]"), ElementsAre("[::1]:9", "[::1]:7575"));
  EXPECT_THAT(addresses("unix:/run/x"), ElementsAre("unix:/run/x"));
  EXPECT_THAT(addresses("a:99999"), ElementsAre(HasSubstr("1 to 65535")));
  EXPECT_THAT(addresses("::1"), ElementsAre(HasSubstr("[::1]:PORT")));
  EXPECT_THAT(addresses("http://a"), ElementsAre(HasSubstr("HOST:PORT")));
}

TEST(Targets, NamesComeFromTheFile) {
  const std::string path = ::testing::TempDir() + "/targets.toml";
  std::ofstream(path) << "[targets]\nnear = \"127.0.0.1:1\"\n[targets.lab]\n"
                         "address = [\"a:1\", \"b:2\"]\ntls-ca = \"ca.pem\"\n";
  const auto targets = *ResolveTargets({"lab,near", path, {}});
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[1].address, "b:2");
  EXPECT_EQ(targets[1].tls.ca, "ca.pem");
  EXPECT_FALSE(targets[2].tls.enabled());
  std::ofstream(path) << "[targets.lab]\naddres = \"a:1\"\n";
  const auto wrong = ResolveTargets({"lab", path, {}});
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("targets.toml:2:10: unknown key \"addres\"; did you mean \"address\"?"));
}

TEST(Targets, AFolderOrAnEmptyFileIsRefusedByName) {
  EXPECT_EQ(std::string(ResolveTargets({"a:1", "/", {}}).status().message()),
            "targets-file: cannot read /: Is a directory");
  EXPECT_EQ(std::string(ReadFile("/nowhere/x").status().message()),
            "cannot read /nowhere/x: No such file or directory");
  EXPECT_EQ(ReadFile("/dev/null").value(), "");
}

TEST(Targets, ACertificateNeedsItsKey) {
  TargetOptions options{"a:1", "/dev/null", {}};
  options.tls.cert = "c.pem";
  EXPECT_THAT(std::string(ResolveTargets(options).status().message()), HasSubstr("--tls-key"));
}

TEST(Errors, PathsKeepTheUsersWords) {
  EXPECT_EQ(ShortPath("spec.cases.cases[3].gemm.m"), "gemm.m");
  EXPECT_EQ(ShortPath("spec.cases[3].dtype"), "dtype");
  EXPECT_EQ(ShortPath("cases[0]"), "");
  EXPECT_EQ(ShortPath("spec.device"), "device");
  EXPECT_EQ(ShortPath("spec.suite_text"), "");
}

// The daemon's reason counts, and not how its message begins.
TEST(Errors, AReasonIsReadFromTheErrorInfo) {
  const grpc::Status gone = NotFound(v1::ERROR_REASON_JOB_NOT_FOUND, "nothing of that name");
  EXPECT_EQ(ReasonOf(gone), v1::ERROR_REASON_JOB_NOT_FOUND);
  EXPECT_THAT(Describe(gone, "a:1").lines, ElementsAre("nothing of that name (assay jobs)"));
  const grpc::Status plain(grpc::StatusCode::NOT_FOUND, "no job \"jobs/x\"");
  EXPECT_EQ(ReasonOf(plain), v1::ERROR_REASON_UNSPECIFIED);
  EXPECT_THAT(Describe(plain, "a:1").lines, ElementsAre("no job \"jobs/x\""));
  EXPECT_EQ(ErrorInfoOf(plain).domain(), "");
}

// What the daemon says in gRPC's words is no error of the connection.
TEST(Errors, AnErrorOfTheDaemonIsNoneOfTheConnection) {
  const grpc::Status transport(grpc::StatusCode::UNAVAILABLE, "No such file or directory");
  EXPECT_TRUE(NeverConnected(transport));
  const grpc::Status daemon(grpc::StatusCode::UNAVAILABLE, "No such file or directory",
                            NotFound(v1::ERROR_REASON_STOPPING, "").error_details());
  EXPECT_FALSE(NeverConnected(daemon));
  EXPECT_FALSE(
      ConnectionLost({grpc::StatusCode::UNAVAILABLE, "Socket closed", daemon.error_details()}));
  EXPECT_TRUE(IsTransient(daemon));
  // Of a daemon that answers no more.
  EXPECT_TRUE(ConnectionLost({grpc::StatusCode::UNAVAILABLE, "keepalive watchdog timeout"}));
}

TEST(Errors, WhyAConnectionWasClosedDependsOnWhatTheClientShowed) {
  const auto words = [](Shown shown, const char* text) {
    grpc::Status status(grpc::StatusCode::UNAVAILABLE,
                        std::string("failed to connect to all addresses; last error: ") + text);
    NoteShown(shown, status);
    EXPECT_EQ(ShownOf(status), shown);
    EXPECT_TRUE(NeverConnected(status));
    EXPECT_FALSE(CauseOf(status).is_it_running);
    return CauseOf(status).words;
  };
  for (const char* text : {"Socket closed", "Connection reset by peer", "Broken pipe"}) {
    EXPECT_THAT(words(Shown::kPlaintext, text), HasSubstr("ask for TLS (--tls-ca)?"));
    EXPECT_THAT(words(Shown::kTls, text), HasSubstr("ask for a certificate (--tls-cert"));
    EXPECT_THAT(words(Shown::kCertificate, text), HasSubstr("expired, revoked"));
    EXPECT_THAT(words(Shown::kExpired, text), HasSubstr("certificate of --tls-cert has expired"));
    EXPECT_THAT(words(Shown::kUnknown, text), HasSubstr("for TLS, or for a certificate?"));
  }
  // What gRPC knows comes first.
  EXPECT_THAT(words(Shown::kCertificate,
                    "Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL "
                    "routines::certificate verify failed"),
              HasSubstr("its certificate is not trusted"));
  EXPECT_THAT(words(Shown::kTls,
                    "Ssl handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL "
                    "routines::wrong version number"),
              HasSubstr("does not speak TLS"));
  EXPECT_THAT(words(Shown::kPlaintext,
                    "INTERNAL: ipv4:127.0.0.1:9575: Trying to connect an http1.x server"),
              HasSubstr("the port of the metrics?"));
  EXPECT_THAT(words(Shown::kPlaintext, "UNAVAILABLE: ipv4:127.0.0.1:22: Failed parsing HTTP/2"),
              HasSubstr("the port of another program?"));
  EXPECT_THAT(CauseOf({grpc::StatusCode::UNAVAILABLE, "empty address list: "}).words,
              HasSubstr("the key is not the certificate's"));
  // The details of a daemon's error stay.
  grpc::Status of_daemon = NotFound(v1::ERROR_REASON_JOB_NOT_FOUND, "none");
  NoteShown(Shown::kTls, of_daemon);
  EXPECT_EQ(ShownOf(of_daemon), Shown::kUnknown);
  EXPECT_EQ(ReasonOf(of_daemon), v1::ERROR_REASON_JOB_NOT_FOUND);
}

// The daemon's word stands. An old one said none: then reason and phase decide.
TEST(Blame, IsTheDaemonsAndOfOldOnesGuessed) {
  const auto guessed = [](const char* reason, const char* phase, const char* device) {
    return BlameOf(v1::BLAME_UNSPECIFIED, reason, phase, device);
  };
  EXPECT_EQ(BlameOf(v1::BLAME_DEVICE, "memory", "", "cpu:0"), v1::BLAME_DEVICE);
  EXPECT_EQ(BlameOf(v1::BLAME_HOST, "crash", "kernel", "cuda:0"), v1::BLAME_HOST);
  EXPECT_EQ(guessed("memory", "kernel", "cuda:0"), v1::BLAME_HOST);
  EXPECT_EQ(guessed("timeout", "recheck", "cuda:0"), v1::BLAME_HOST);
  EXPECT_EQ(guessed("timeout", "compare", "cpu:0"), v1::BLAME_HOST);
  EXPECT_EQ(guessed("timeout", "compare", "cuda:0"), v1::BLAME_KERNEL);
  EXPECT_EQ(guessed("timeout", "", "cpu:0"), v1::BLAME_KERNEL);
  EXPECT_EQ(guessed("crash", "kernel", "cpu:0"), v1::BLAME_KERNEL);
  for (int blame = 0; blame < v1::Blame_ARRAYSIZE; ++blame) {
    EXPECT_EQ(IsNobodysFault(static_cast<v1::Blame>(blame)),
              blame == v1::BLAME_HOST || blame == v1::BLAME_CALLER || blame == v1::BLAME_NOBODY);
  }
}

TEST(Errors, ADrainingDaemonIsNotAnUnreachableOne) {
  const Failure failure =
      Describe({grpc::StatusCode::UNAVAILABLE, "draining: takes no new jobs"}, "a:1");
  EXPECT_EQ(failure.code, ExitCode::kRefused);
  EXPECT_THAT(failure.lines, ElementsAre("assayd at a:1 refused: draining: takes no new jobs"));
}

TEST(Utf8, TakesWellFormedTextOnly) {
  for (const char* good :
       {"", "gemm", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\xe9", "a\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "\x80"}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
}

TEST(Utf8, AnArgumentThatIsNoneIsAUsageError) {
  const Output output = Assay({"show", "jobs/\xe9"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("jobs/\\xe9"));
}

}  // namespace
}  // namespace assay::client::testing
