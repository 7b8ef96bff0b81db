// SPDX-License-Identifier: MIT
#include "store/redis/reply.hpp"

#include <hiredis/read.h>

#include <charconv>
#include <new>

namespace klock::redis {
namespace {

constexpr std::size_t k_max_reply_bytes = 8u << 20;
constexpr long long k_max_elements = 1 << 20;

// Where the reader's next object goes: into its parent's slot, or a new root.
Reply* place(const redisReadTask* task) {
  if (task->parent == nullptr) return new (std::nothrow) Reply;
  auto* parent = static_cast<Reply*>(task->parent->obj);
  return &parent->items[static_cast<std::size_t>(task->idx)];
}

void* create_string(const redisReadTask* task, char* text, std::size_t size) {
  Reply* reply = place(task);
  if (reply == nullptr) return nullptr;
  reply->type = task->type == REDIS_REPLY_ERROR    ? Reply::Type::error
                : task->type == REDIS_REPLY_STATUS ? Reply::Type::status
                                                   : Reply::Type::string;
  reply->text.assign(text, size);
  return reply;
}

// A template, as the count is an int in hiredis 0.14 and a size_t since 1.0.
template <class Count>
void* create_array(const redisReadTask* task, Count count) {
  if (static_cast<long long>(count) > k_max_elements) return nullptr;
  Reply* reply = place(task);
  if (reply == nullptr) return nullptr;
  reply->type = Reply::Type::array;
  reply->items.resize(static_cast<std::size_t>(count));
  return reply;
}

void* create_integer(const redisReadTask* task, long long value) {
  Reply* reply = place(task);
  if (reply == nullptr) return nullptr;
  reply->type = Reply::Type::integer;
  reply->integer = value;
  return reply;
}

void* create_nil(const redisReadTask* task) {
  return place(task);
}

void free_object(void* root) {
  delete static_cast<Reply*>(root);
}

redisReplyObjectFunctions make_functions() {
  redisReplyObjectFunctions functions{};
  functions.createString = create_string;
  functions.createArray = create_array;
  functions.createInteger = create_integer;
  functions.createNil = create_nil;
  functions.freeObject = free_object;
  return functions;
}

redisReplyObjectFunctions* reply_functions() {
  static redisReplyObjectFunctions functions = make_functions();
  return &functions;
}

}  // namespace

const Reply& Reply::at(std::size_t index) const {
  static const Reply k_nothing;
  return index < items.size() ? items[index] : k_nothing;
}

std::string_view Reply::text_at(std::size_t index) const {
  return at(index).text;
}

std::int64_t Reply::number_at(std::size_t index) const {
  const Reply& item = at(index);
  std::int64_t value = item.integer;
  if (item.type == Type::string)
    std::from_chars(item.text.data(), item.text.data() + item.text.size(), value);
  return value;
}

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(reply_functions())) {
  if (reader_ == nullptr) throw std::bad_alloc();
}

ReplyReader::~ReplyReader() {
  redisReaderFree(reader_);
}

void ReplyReader::feed(const char* bytes, std::size_t size) {
  pending_ += size;
  redisReaderFeed(reader_, bytes, size);
}

Result<std::optional<Reply>> ReplyReader::next() {
  void* object = nullptr;
  if (redisReaderGetReply(reader_, &object) != 0)
    return failure(ErrorKind::protocol, "the server does not speak the Redis protocol",
                   "is this the right host and port, and no TLS port?");
  if (object == nullptr) {
    if (pending_ > k_max_reply_bytes) return failure(ErrorKind::protocol, "the server's answer is too large");
    return std::optional<Reply>();
  }
  const std::unique_ptr<Reply> reply(static_cast<Reply*>(object));
  pending_ = 0;
  return std::optional<Reply>(std::move(*reply));
}

}  // namespace klock::redis
