// SPDX-License-Identifier: MIT
// CLI11, without the standard streams.
//
// It includes <iostream> for the sake of default arguments that klock never uses. That header alone makes
// every start set up eight streams and their locale, which costs more than all of klock's own work before the
// command runs. So the header's guard (libstdc++) is set beforehand, and what CLI11 names of it is declared
// here.
#pragma once

#include <istream>
#include <ostream>

#ifdef __GLIBCXX__
#define _GLIBCXX_IOSTREAM 1
namespace std {
extern istream cin;
extern ostream cout;
extern ostream cerr;
}  // namespace std
#endif

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
