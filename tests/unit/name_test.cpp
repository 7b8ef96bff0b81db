// SPDX-License-Identifier: MIT
#include "lease/name.hpp"

#include <gtest/gtest.h>

namespace klock {
namespace {

TEST(LockNames, AcceptsWhatPeopleUse) {
  for (const char* name :
       {"demo", "a/b.c:d-e_f@g+h=i", "nächtlich", "зад", "job:{db1}", "-", "..", "100%", "名"})
    EXPECT_TRUE(make_lock_name("klock:", name, {})) << name;
  EXPECT_TRUE(check_lock_name(std::string(200, 'x')));
}

TEST(LockNames, RefusesTheRestWithAReason) {
  for (const std::string& name :
       {std::string(), std::string(201, 'x'), std::string("a b"), std::string("a\tb"), std::string("a\nb"),
        std::string("a\x7f"), std::string("a\0b", 3), std::string("\xff"), std::string("\xc3"),
        std::string("\xc0\xaf"), std::string("\xed\xa0\x80"),
        std::string("a\xc2\xa0"
                    "b"),
        std::string("a\xc2\x85"), std::string("\xe2\x80\xa8"),
        std::string("a\xe2\x80\xae"
                    "b")}) {
    const auto checked = check_lock_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().kind, ErrorKind::usage);
    EXPECT_FALSE(checked.error().what.empty());
  }
}

TEST(LockNames, BracesMustFormAHashTag) {
  for (const char* name : {"a{b", "a}b", "{}", "a{}b", "}a{"})
    EXPECT_FALSE(make_lock_name("klock:", name, {})) << name;
}

TEST(LockNames, NoLockHasTheKeyOfAnothersRecords) {
  for (const char* name : {"{x}:klock:fence", "a{x}b:klock:queue", "{x}:klock:requests", "{x}:klock:once:k"})
    EXPECT_FALSE(make_lock_name("klock:", name, {})) << name;
  EXPECT_FALSE(make_lock_name("", "{klock:demo}:fence", {}));
  for (const char* name : {"{x}:queue", "{x}:klock:fences", "x:klock:fence", "{x}:a"})
    EXPECT_TRUE(make_lock_name("klock:", name, {})) << name;
}

TEST(LockNames, KeyReplacesPrefixAndName) {
  EXPECT_EQ(make_lock_name("klock:", "demo", {})->key, "klock:demo");
  EXPECT_EQ(make_lock_name("klock:", "demo", "app lock")->key, "app lock");
  EXPECT_FALSE(make_lock_name("klock:", "demo", ""));
}

TEST(LockNames, HashTagIsWhatTheClusterHashes) {
  EXPECT_EQ(hash_tag("a{b}c{d}"), "b");
  EXPECT_EQ(hash_tag("a{}c{d}"), "");
  EXPECT_EQ(hash_tag("abc"), "");
  EXPECT_EQ(hash_tag("{{x}}"), "{x");
}

}  // namespace
}  // namespace klock
