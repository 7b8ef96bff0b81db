// SPDX-License-Identifier: MIT
#include "support/redis_server.hpp"

#include <hiredis/hiredis.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

namespace klock::test {
namespace {

std::string text_of(const redisReply* reply) {
  switch (reply->type) {
    case REDIS_REPLY_INTEGER:
      return std::to_string(reply->integer);
    case REDIS_REPLY_NIL:
      return "(nil)";
    case REDIS_REPLY_ARRAY: {
      std::string text;
      for (std::size_t i = 0; i < reply->elements; ++i)
        text += (i > 0 ? " " : "") + text_of(reply->element[i]);
      return text;
    }
    default:
      return std::string(reply->str, static_cast<std::size_t>(reply->len));
  }
}

[[noreturn]] void exec_server(const std::vector<std::string>& words, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

std::string program() {
  const char* const other = std::getenv("KLOCK_TEST_SERVER");
  return other == nullptr ? "redis-server" : other;
}

// Somebody else may have got the port that was free a moment ago. Who wants a password tells us nothing.
bool is_process(redisContext* client, pid_t pid) {
  auto* reply = static_cast<redisReply*>(redisCommand(client, "INFO server"));
  if (reply == nullptr) return false;
  const std::string text = text_of(reply);
  const bool is_error = reply->type == REDIS_REPLY_ERROR;
  freeReplyObject(reply);
  return is_error || text.find("process_id:" + std::to_string(pid) + "\r") != std::string::npos;
}

}  // namespace

// Below those that the kernel gives to whoever connects: such a port is somebody's at any moment. Those
// between belong to the end-to-end tests (support/ports.py).
std::uint16_t free_port() {
  std::random_device seed;
  std::uniform_int_distribution<std::uint16_t> any(12'000, 21'999);
  for (int tries = 0; tries < 100; ++tries) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(any(seed));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool ok = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (ok) return ntohs(address.sin_port);
  }
  throw std::runtime_error("no free port");
}

RedisServer::RedisServer(std::vector<std::string> options) : RedisServer(std::move(options), {}) {}

std::unique_ptr<RedisServer> RedisServer::sentinel_of(const RedisServer& master) {
  const std::string config =
      "sentinel monitor mymaster 127.0.0.1 " + std::to_string(master.port()) + " 1\nbind 127.0.0.1\n";
  return std::unique_ptr<RedisServer>(new RedisServer({}, config));
}

std::unique_ptr<RedisServer> RedisServer::cluster_node() {
  const std::uint16_t bus = free_port();
  auto server = std::make_unique<RedisServer>(
      std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus)});
  server->bus_port_ = bus;
  return server;
}

void RedisServer::meet(const RedisServer& other) {
  command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(other.port_), std::to_string(other.bus_port_)});
}

RedisServer::RedisServer(std::vector<std::string> options, std::string sentinel_config)
    : options_(std::move(options)), sentinel_config_(std::move(sentinel_config)) {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/klock-redis-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  directory_ = pattern;
  for (int tries = 1;; ++tries) {
    port_ = free_port();
    try {
      start();
      return;
    } catch (const std::runtime_error&) {
      const bool may_be_the_port = pid_ == -1 && tries < 5;
      kill();
      if (!may_be_the_port) throw;
    }
  }
}

RedisServer::~RedisServer() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void RedisServer::start() {
  std::vector<std::string> words{
      program(),  "--port",       std::to_string(port_), "--bind",      "127.0.0.1", "--dir",
      directory_, "--unixsocket", socket_path(),         "--save",      "",          "--appendonly",
      "no",       "--logfile",    directory_ + "/log",   "--daemonize", "no"};
  words.insert(words.end(), options_.begin(), options_.end());
  if (!sentinel_config_.empty()) {
    const std::string path = directory_ + "/sentinel.conf";
    std::ofstream(path) << sentinel_config_ << "port " << port_ << "\ndir " << directory_ << "\nlogfile "
                        << directory_ << "/log\n";
    words = {program(), path, "--sentinel"};
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) exec_server(words, parent);
  if (pid_ < 0) throw std::runtime_error("fork failed");
  const bool answers = eventually([this] {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      throw std::runtime_error(program() + " ended at once");
    }
    redisContext* context = redisConnect("127.0.0.1", port_);
    const bool connected = context != nullptr && context->err == 0 && is_process(context, pid_);
    if (connected) {
      if (client_ != nullptr) redisFree(client_);
      client_ = context;
      return true;
    }
    if (context != nullptr) redisFree(context);
    return false;
  });
  if (!answers) throw std::runtime_error(program() + " does not answer");
}

void RedisServer::kill() {
  if (client_ != nullptr) redisFree(client_);
  client_ = nullptr;
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RedisServer::freeze() {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
}

void RedisServer::thaw() {
  ::kill(pid_, SIGCONT);
}

RedisUrl RedisServer::redis_url() const {
  RedisUrl url;
  url.host = "127.0.0.1";
  url.port = port_;
  return url;
}

std::string RedisServer::command(const std::vector<std::string>& words) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  auto* reply = static_cast<redisReply*>(
      redisCommandArgv(client_, static_cast<int>(words.size()), texts.data(), sizes.data()));
  if (reply == nullptr) throw std::runtime_error("the server hung up on the test");
  std::string text = text_of(reply);
  freeReplyObject(reply);
  return text;
}

long long RedisServer::number(const std::vector<std::string>& words) {
  return std::stoll(command(words));
}

}  // namespace klock::test
