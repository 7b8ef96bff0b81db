// SPDX-License-Identifier: MIT
#include "util/interrupt_set.hpp"

#include <gtest/gtest.h>

#include <sys/eventfd.h>

namespace klock {
namespace {

TEST(InterruptSet, IsRaisedByAnyOfItsDescriptors) {
  const Fd first(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const Fd second(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  InterruptSet set;
  ASSERT_TRUE(set.add(first.get()));
  ASSERT_TRUE(set.add(second.get()));
  const auto look = [&] { return wait_ready(-1, 0, BootClock::now(), set.interrupt()); };
  EXPECT_EQ(look(), Ready::timeout);
  for (const Fd* fd : {&first, &second}) {
    eventfd_write(fd->get(), 1);
    EXPECT_EQ(look(), Ready::interrupted);
    eventfd_t count = 0;
    eventfd_read(fd->get(), &count);
    EXPECT_EQ(look(), Ready::timeout);
  }
}

TEST(InterruptSet, RefusesWhatIsNoDescriptor) {
  InterruptSet set;
  EXPECT_EQ(set.add(-1).error().kind, ErrorKind::system);
}

}  // namespace
}  // namespace klock
