// SPDX-License-Identifier: MIT
#include "config/settings.hpp"

#include "config/config_file.hpp"

#include <gtest/gtest.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace klock {
namespace {

using namespace std::chrono_literals;

Setting<std::string> flag(const std::string& value, const std::string& where) {
  return {value, Origin::flag, where};
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A home directory of its own, and none of the caller's settings.
class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/klock-settings-XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    home_ = directory;
    for (const char* name :
         {"KLOCK_URL", "KLOCK_PREFIX", "KLOCK_TTL", "KLOCK_CONFIG", "KLOCK_PASSWORD_FILE", "REDISCLI_AUTH",
          "XDG_CONFIG_HOME", "KLOCK_TLS_CA", "KLOCK_TLS_CERT", "KLOCK_TLS_KEY", "KLOCK_TLS_SERVER_NAME"})
      ::unsetenv(name);
    ::setenv("HOME", directory, 1);
  }

  void TearDown() override {
    for (const std::string& path : files_) ::unlink(path.c_str());
    for (auto path = directories_.rbegin(); path != directories_.rend(); ++path) ::rmdir(path->c_str());
    ::rmdir(home_.c_str());
  }

  std::string write(const std::string& name, const std::string& text) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      directories_.push_back(home_ + "/" + name.substr(0, slash));
      ::mkdir(directories_.back().c_str(), 0700);
    }
    files_.push_back(home_ + "/" + name);
    std::FILE* const file = std::fopen(files_.back().c_str(), "w");
    EXPECT_NE(file, nullptr);
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
    return files_.back();
  }

  std::string write_user_file(const std::string& text) { return write(".config/klock/klock.toml", text); }

  Settings load(const RawValues& flags = {}) {
    auto settings = load_settings(flags);
    EXPECT_TRUE(settings.has_value()) << (settings ? "" : settings.error().what);
    return settings ? *std::move(settings) : Settings{};
  }

  Error refused(const RawValues& flags = {}) {
    const auto settings = load_settings(flags);
    EXPECT_FALSE(settings.has_value());
    return settings ? Error{ErrorKind::internal, "was accepted"} : settings.error();
  }

  // The error for a user's file with this text.
  Error refused_file(const std::string& text) {
    write_user_file(text);
    return refused();
  }

  std::string home_;
  std::vector<std::string> files_;
  std::vector<std::string> directories_;
};

TEST_F(SettingsTest, Defaults) {
  const Settings settings = load();
  EXPECT_TRUE(std::holds_alternative<LocalUrl>(settings.url));
  EXPECT_EQ(settings.url_text.value, "local:");
  EXPECT_EQ(settings.prefix.value, "klock:");
  EXPECT_EQ(settings.wait.value, std::nullopt);
  EXPECT_EQ(settings.ttl.value, 15s);
  EXPECT_EQ(settings.kill_after.value, 5s);
  EXPECT_FALSE(settings.kill_after_given);
  EXPECT_EQ(settings.store_timeout.value, 5s);
  EXPECT_EQ(settings.conflict_exit_code.value, 75);
  EXPECT_EQ(settings.signal.value, "TERM");
  EXPECT_EQ(settings.on_lost.value, OnLost::stop);
  EXPECT_EQ(settings.on_gone.value, OnGone::lost);
  EXPECT_EQ(settings.max_hold.value, 0s);
  EXPECT_EQ(settings.min_hold.value, 0s);
  EXPECT_EQ(settings.verbosity.value, 0);
  EXPECT_EQ(settings.max_waiters.value, std::nullopt);
  EXPECT_FALSE(settings.tree.value);
  EXPECT_EQ(settings.once_ttl.value, 30 * 24h);
  EXPECT_EQ(settings.skip_exit_code.value, 0);
}

TEST_F(SettingsTest, FlagBeatsEnvironmentBeatsFile) {
  const std::string path = write_user_file("# comment\nttl = '20s'\n");
  EXPECT_EQ(load().ttl.value, 20s);
  EXPECT_EQ(load().ttl.where, path + ":2");
  EXPECT_EQ(load().ttl.origin, Origin::user_file);
  ::setenv("KLOCK_TTL", "30s", 1);
  EXPECT_EQ(load().ttl.value, 30s);
  EXPECT_EQ(load().ttl.where, "KLOCK_TTL");
  const Settings settings = load({{"ttl", flag("40s", "--ttl")}});
  EXPECT_EQ(settings.ttl.value, 40s);
  EXPECT_EQ(settings.ttl.where, "--ttl");
  ::setenv("KLOCK_TTL", "", 1);
  EXPECT_EQ(load().ttl.value, 20s) << "an empty variable is none";
}

TEST_F(SettingsTest, EveryKeyOfAFile) {
  write_user_file(
      "url = 'redis://db1/2'\nprefix = 'app:'\nwait = 90\nttl = 30.5\nkill-after = '10s'\nstore-timeout = "
      "'1s'\n"
      "conflict-exit-code = 0\nsignal = 'USR1'\non-lost = 'warn'\non-gone = 'reclaim'\nmax-hold = '1h'\n"
      "min-hold = 0.25\nmax-waiters = 0\ntree = true\nonce-ttl = '1d'\nskip-exit-code = 3\nmessage = "
      "'hi'\noutcome-file = '/tmp/x'\nverbose = "
      "true\n");
  const Settings settings = load();
  EXPECT_EQ(std::get<RedisUrl>(settings.url).database, 2);
  EXPECT_EQ(settings.prefix.value, "app:");
  EXPECT_EQ(settings.wait.value, Duration(90s));
  EXPECT_EQ(settings.ttl.value, 30'500ms);
  EXPECT_EQ(settings.kill_after.value, 10s);
  EXPECT_TRUE(settings.kill_after_given);
  EXPECT_EQ(settings.store_timeout.value, 1s);
  EXPECT_EQ(settings.conflict_exit_code.value, 0);
  EXPECT_EQ(settings.signal.value, "USR1");
  EXPECT_EQ(settings.on_lost.value, OnLost::warn);
  EXPECT_EQ(settings.on_gone.value, OnGone::reclaim);
  EXPECT_EQ(settings.max_hold.value, 1h);
  EXPECT_EQ(settings.min_hold.value, 250ms);
  EXPECT_EQ(settings.max_waiters.value, 0u);
  EXPECT_TRUE(settings.tree.value);
  EXPECT_EQ(settings.once_ttl.value, 24h);
  EXPECT_EQ(settings.skip_exit_code.value, 3);
  EXPECT_EQ(settings.message.value, "hi");
  EXPECT_EQ(settings.outcome_file.value, "/tmp/x");
  EXPECT_EQ(settings.verbosity.value, 1);
}

TEST_F(SettingsTest, Switches) {
  write_user_file("nonblock = true\nquiet = true\nverbose = false\n");
  EXPECT_EQ(load().wait.value, Duration(0s));
  EXPECT_EQ(load().verbosity.value, -1);
  EXPECT_EQ(load({{"verbose", flag("1", "-v")}}).verbosity.value, 1);
  EXPECT_EQ(load({{"wait", flag("3", "-w")}}).wait.value, Duration(3s));
  write_user_file("tree = false\n");
  EXPECT_FALSE(load().tree.value);
  EXPECT_TRUE(load({{"tree", flag("1", "--tree")}}).tree.value);
}

TEST_F(SettingsTest, MistakesInAFileAreToldWithTheirLine) {
  const Error unknown = refused_file("prefix = 'a'\n\nttll = '5s'\n");
  EXPECT_EQ(unknown.kind, ErrorKind::config);
  EXPECT_TRUE(mentions(unknown.what, "/klock.toml:3: unknown key 'ttll'")) << unknown.what;
  EXPECT_TRUE(mentions(unknown.hint, "'ttl'")) << unknown.hint;
  const Error syntax = refused_file("ttl = '5s'\n= 3\n");
  EXPECT_EQ(syntax.kind, ErrorKind::config);
  EXPECT_TRUE(mentions(syntax.what, "/klock.toml:2: not valid TOML")) << syntax.what;
  const Error value = refused_file("\nttl = '5x'\n");
  EXPECT_EQ(value.kind, ErrorKind::config);
  EXPECT_TRUE(mentions(value.what, "/klock.toml:2: ttl: '5x' is not a duration")) << value.what;
}

TEST_F(SettingsTest, NonsenseInAFile) {
  for (const char* text : {"ttl = true",
                           "ttl = []",
                           "ttl = 1979-05-27",
                           "[ttl]\nx = 1",
                           "ttl = -5",
                           "ttl = nan",
                           "ttl = inf",
                           "ttl = 1e300",
                           "message = 5",
                           "url = 5",
                           "url = ''",
                           "url = 'redis://'",
                           "quiet = 'yes'",
                           "verbose = 1",
                           "nonblock = 'true'",
                           "quiet = true\nverbose = true",
                           "nonblock = true\nwait = 5",
                           "ttl = 1\nttl = 2",
                           "conflict-exit-code = 256",
                           "conflict-exit-code = -1",
                           "conflict-exit-code = 1.5",
                           "on-lost = 'x'",
                           "on-gone = ''",
                           "signal = ''",
                           "signal = 'A B'",
                           "key = 'x'",
                           "json = true",
                           "config = 'x'",
                           "shared = true",
                           "[run]\nttl = 5",
                           "[\x03run]\nttl = 1",
                           "[^]\nttl = 1",
                           "\"\" = 1",
                           "prefix = 'a b'",
                           "prefix = \"a\\n\"",
                           "outcome-file = ''",
                           "store-timeout = 0",
                           "\xff\xfe = 1",
                           "ttl = '5s",
                           "\x01"}) {
    const Error error = refused_file(text);
    EXPECT_EQ(error.kind, ErrorKind::config) << text << ": " << error.what;
    EXPECT_TRUE(mentions(error.what, "klock.toml:")) << text << ": " << error.what;
  }
}

TEST_F(SettingsTest, BadValuesOfFlagsAreUsageErrors) {
  const RawValues wrong[] = {{{"ttl", flag("5x", "--ttl")}},
                             {{"ttl", flag("199ms", "--ttl")}},
                             {{"ttl", flag("", "--ttl")}},
                             {{"wait", flag("-1", "-w")}},
                             {{"kill-after", flag("x", "-k")}},
                             {{"max-hold", flag("366d", "--max-hold")}},
                             {{"min-hold", flag("?", "--min-hold")}},
                             {{"store-timeout", flag("0", "--store-timeout")}},
                             {{"signal", flag("-", "--signal")}},
                             {{"conflict-exit-code", flag("256", "-E")}},
                             {{"conflict-exit-code", flag("", "-E")}},
                             {{"conflict-exit-code", flag("+1", "-E")}},
                             {{"conflict-exit-code", flag("-0", "-E")}},
                             {{"conflict-exit-code", flag("1 ", "-E")}},
                             {{"once-ttl", flag("0", "--once-ttl")}},
                             {{"once-ttl", flag("soon", "--once-ttl")}},
                             {{"skip-exit-code", flag("256", "--skip-exit-code")}},
                             {{"max-waiters", flag("-1", "--max-waiters")}},
                             {{"max-waiters", flag("", "--max-waiters")}},
                             {{"max-waiters", flag("few", "--max-waiters")}},
                             {{"on-lost", flag("STOP", "--on-lost")}},
                             {{"on-gone", flag("x", "--on-gone")}},
                             {{"prefix", flag("a b", "--prefix")}},
                             {{"url", flag("nonsense", "--url")}},
                             {{"url", flag("", "--url")}},
                             {{"outcome-file", flag("", "--outcome-file")}},
                             {{"config", flag("", "--config")}}};
  for (const RawValues& flags : wrong) {
    const auto& [name, given] = *flags.begin();
    const Error error = refused(flags);
    EXPECT_EQ(error.kind, ErrorKind::usage) << name << " " << given.value;
    EXPECT_TRUE(mentions(error.what, given.where)) << error.what;
  }
}

TEST_F(SettingsTest, BadValuesOfTheEnvironmentAreConfigErrors) {
  ::setenv("KLOCK_TTL", "abc", 1);
  EXPECT_EQ(refused().kind, ErrorKind::config);
  EXPECT_TRUE(mentions(refused().what, "KLOCK_TTL: 'abc'")) << refused().what;
  EXPECT_EQ(load({{"ttl", flag("5s", "--ttl")}}).ttl.value, 5s) << "what is overridden is not looked at";
  ::unsetenv("KLOCK_TTL");
  ::setenv("KLOCK_URL", "redis//x", 1);
  EXPECT_EQ(refused().kind, ErrorKind::config);
  EXPECT_TRUE(mentions(refused().what, "KLOCK_URL: ")) << refused().what;
}

TEST_F(SettingsTest, KillAfter) {
  EXPECT_EQ(load({{"ttl", flag("3s", "--ttl")}}).kill_after.value, 1s);
  EXPECT_EQ(load({{"ttl", flag("200ms", "--ttl")}}).kill_after.value, 66ms);
  EXPECT_EQ(load({{"ttl", flag("1d", "--ttl")}}).kill_after.value, 5s);
  const Settings zero = load({{"kill-after", flag("0", "-k")}});
  EXPECT_EQ(zero.kill_after.value, 0s);
  EXPECT_TRUE(zero.kill_after_given);
  EXPECT_EQ(load({{"kill-after", flag("5s", "-k")}}).kill_after.value, 5s) << "exactly a third";
  EXPECT_TRUE(check_kill_after(load({{"kill-after", flag("5s", "-k")}})));
  const Status status = check_kill_after(load({{"kill-after", flag("5001ms", "-k")}}));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
  EXPECT_TRUE(mentions(status.error().what, "more than a third of the lease")) << status.error().what;
  write_user_file("kill-after = '6s'\n");
  EXPECT_EQ(check_kill_after(load()).error().kind, ErrorKind::config);
  EXPECT_EQ(load({{"ttl", flag("18s", "--ttl")}}).kill_after.value, 6s);
  EXPECT_EQ(check_kill_after(load({{"ttl", flag("17s", "--ttl")}})).error().kind, ErrorKind::usage)
      << "the flag made it wrong";
}

TEST_F(SettingsTest, ASwitchThatIsOffInTheUsersFile) {
  RawValues system{{"verbosity", {"-1", Origin::system_file, "/etc/x:1"}},
                   {"wait", {"0", Origin::system_file, "/etc/x:2"}}};
  ASSERT_TRUE(add_config_file("quiet = false\nnonblock = false\n", "x", Origin::user_file, system));
  EXPECT_FALSE(system.contains("verbosity"));
  EXPECT_FALSE(system.contains("wait"));
  RawValues other{{"verbosity", {"1", Origin::system_file, "/etc/x:1"}},
                  {"wait", {"5s", Origin::system_file, "/etc/x:2"}}};
  ASSERT_TRUE(add_config_file("quiet = false\nnonblock = false\n", "x", Origin::user_file, other));
  EXPECT_TRUE(other.contains("verbosity"));
  EXPECT_TRUE(other.contains("wait"));
}

TEST_F(SettingsTest, TlsOptionsWithoutTls) {
  EXPECT_EQ(refused({{"tls-ca", flag("ca.pem", "--tls-ca")}, {"url", flag("redis://h", "--url")}}).kind,
            ErrorKind::usage);
  EXPECT_EQ(load({{"tls-ca", flag("ca.pem", "--tls-ca")}}).tls_ca.where, "--tls-ca") << "nothing is sent";
}

TEST_F(SettingsTest, ConfigFileThatWasNamed) {
  write_user_file("ttl = '20s'\n");
  const std::string other = write("other.toml", "ttl = '30s'\n");
  EXPECT_EQ(load({{"config", flag(other, "--config")}}).ttl.value, 30s);
  ::setenv("KLOCK_CONFIG", other.c_str(), 1);
  EXPECT_EQ(load().ttl.value, 30s);
  ::setenv("KLOCK_CONFIG", "/dev/null", 1);
  EXPECT_EQ(load().ttl.value, 15s);
  ::setenv("KLOCK_CONFIG", (home_ + "/missing").c_str(), 1);
  EXPECT_EQ(refused().kind, ErrorKind::config);
  EXPECT_EQ(refused({{"config", flag(home_ + "/missing", "--config")}}).kind, ErrorKind::usage);
  EXPECT_EQ(refused({{"config", flag(home_, "--config")}}).kind, ErrorKind::usage) << "a directory";
}

TEST_F(SettingsTest, ReadsXdgConfigHome) {
  write("xdg/klock/klock.toml", "ttl = '20s'\n");
  ::setenv("XDG_CONFIG_HOME", (home_ + "/xdg").c_str(), 1);
  EXPECT_EQ(load().ttl.value, 20s);
  ::setenv("XDG_CONFIG_HOME", "xdg", 1);
  EXPECT_EQ(load().ttl.value, 15s) << "a relative path is ignored";
}

TEST_F(SettingsTest, AnUnusableDefaultFileIsNoMissingFile) {
  write("x", "");
  directories_.push_back(home_ + "/.config");
  directories_.push_back(home_ + "/.config/klock");
  directories_.push_back(home_ + "/.config/klock/klock.toml");
  for (const std::string& path : directories_) ::mkdir(path.c_str(), 0700);
  const Error error = refused();
  EXPECT_EQ(error.kind, ErrorKind::config);
  EXPECT_TRUE(mentions(error.what, "klock.toml: Is a directory")) << error.what;
}

TEST_F(SettingsTest, PasswordsAreNotForTheCommandLine) {
  const Error error = refused({{"url", flag("redis://u:s3cret@h", "--url")}});
  EXPECT_EQ(error.kind, ErrorKind::usage);
  EXPECT_FALSE(mentions(error.what + error.hint, "s3cret"));
  for (const char* way : {"KLOCK_URL", "klock.toml", "KLOCK_PASSWORD_FILE", "REDISCLI_AUTH"})
    EXPECT_TRUE(mentions(error.hint, way)) << way;
}

std::string password_of(const Settings& settings) {
  return std::get<RedisUrl>(settings.url).password.reveal();
}

TEST_F(SettingsTest, WherePasswordsComeFrom) {
  ::setenv("REDISCLI_AUTH", "from-auth", 1);
  const RawValues flags{{"url", flag("redis://h", "--url")}};
  EXPECT_EQ(password_of(load(flags)), "from-auth");
  ::setenv("KLOCK_PASSWORD_FILE", write("pw", "from file \r\nsecond line\n").c_str(), 1);
  EXPECT_EQ(password_of(load(flags)), "from file ");
  ::setenv("KLOCK_URL", "redis://u:from-url@h", 1);
  EXPECT_EQ(password_of(load()), "from-url");
  EXPECT_TRUE(std::holds_alternative<LocalUrl>(load({{"url", flag("local:", "--url")}}).url));
}

TEST_F(SettingsTest, APasswordOnTheCommandLineIsToldFirst) {
  for (const char* url : {"redis://a:s3cret@h", "redlock://h1,a:s3cret@h2,h3", "redlock://h1:1,a:s3cret@h2"})
    EXPECT_TRUE(mentions(refused({{"url", flag(url, "--url")}}).what, "a password on the command line"))
        << url;
}

TEST_F(SettingsTest, UnusablePasswordFiles) {
  const RawValues flags{{"url", flag("redis://h", "--url")}};
  for (const std::string& path : {home_ + "/missing", home_, write("empty", ""), write("newline", "\nx\n")}) {
    ::setenv("KLOCK_PASSWORD_FILE", path.c_str(), 1);
    const Error error = refused(flags);
    EXPECT_EQ(error.kind, ErrorKind::config) << path;
    EXPECT_TRUE(mentions(error.what, "KLOCK_PASSWORD_FILE")) << error.what;
  }
  EXPECT_TRUE(std::holds_alternative<LocalUrl>(load().url)) << "no Redis, no password file";
}

TEST_F(SettingsTest, APipeAsPasswordFileThatNobodyWritesTo) {
  const std::string path = home_ + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  files_.push_back(path);
  ::setenv("KLOCK_PASSWORD_FILE", path.c_str(), 1);
  EXPECT_EQ(refused({{"url", flag("redis://h", "--url")}}).kind, ErrorKind::config);
}

TEST_F(SettingsTest, TlsIsForEveryServerOfAUrlThatIsWithTls) {
  ::setenv("KLOCK_TLS_CA", "/srv/ca.pem", 1);
  ::setenv("KLOCK_TLS_SERVER_NAME", "db.example.com", 1);
  RawValues flags{{"url", flag("rediss-sentinel://s1,s2/m", "--url")},
                  {"tls-cert", flag("own.pem", "--tls-cert")},
                  {"tls-key", flag("/srv/own.key", "--tls-key")}};
  Settings settings = load(flags);
  const auto servers = servers_of(settings.url);
  ASSERT_EQ(servers.size(), 3u);
  for (const RedisUrl* const server : servers) {
    ASSERT_TRUE(server->tls);
    EXPECT_EQ(server->tls->ca, "/srv/ca.pem");
    EXPECT_TRUE(server->tls->certificate.starts_with("/") && server->tls->certificate.ends_with("/own.pem"))
        << "a keeper changes its directory";
    EXPECT_EQ(server->tls->key, "/srv/own.key");
    EXPECT_EQ(server->tls->server_name, "db.example.com");
  }
  flags.erase("url");
  EXPECT_TRUE(std::holds_alternative<LocalUrl>(load(flags).url)) << "they may stand there without need";
  flags = {{"url", flag("redis://h", "--url")}};
  EXPECT_FALSE(std::get<RedisUrl>(load(flags).url).tls);
}

TEST_F(SettingsTest, TlsValuesThatAreWrong) {
  const RawValues key{{"tls-key", flag("k", "--tls-key")}};
  EXPECT_EQ(refused(key).kind, ErrorKind::usage);
  EXPECT_TRUE(mentions(refused(key).what, "--tls-key: a key without its certificate"));
  for (const char* name : {"", "two words", "a/b", "*.example.com"})
    EXPECT_EQ(refused({{"tls-server-name", flag(name, "--tls-server-name")}}).kind, ErrorKind::usage) << name;
  EXPECT_EQ(refused({{"tls-ca", flag("", "--tls-ca")}}).kind, ErrorKind::usage);
  ::setenv("KLOCK_TLS_CERT", "c", 1);
  EXPECT_EQ(refused().kind, ErrorKind::config);
  EXPECT_TRUE(mentions(refused().what, "KLOCK_TLS_CERT: a certificate without its key"));
}

TEST_F(SettingsTest, DescriptionShowsOriginsAndNoSecret) {
  const std::string path = write_user_file("url = 'redis://u:s3cret@h/1'\nttl = '20s'\n");
  ::chmod(path.c_str(), 0644);
  std::string text;
  for (const std::string& line : describe_settings(load({{"wait", flag("90", "-w")}}))) text += line + "\n";
  EXPECT_TRUE(mentions(text, "url redis://u:***@h/1 (" + path + ":1)\n")) << text;
  EXPECT_TRUE(mentions(text, "ttl 20s (" + path + ":2)\n")) << text;
  EXPECT_TRUE(mentions(text, "wait 90s (-w)\n")) << text;
  EXPECT_TRUE(mentions(text, "prefix klock: (default)\n")) << text;
  EXPECT_TRUE(mentions(text, "others can read the password in " + path)) << text;
  EXPECT_FALSE(mentions(text, "s3cret")) << text;
  ::chmod(path.c_str(), 0600);
  for (const std::string& line : describe_settings(load())) EXPECT_FALSE(mentions(line, "warning")) << line;
}

}  // namespace
}  // namespace klock
