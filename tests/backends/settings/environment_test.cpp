// Each variable's values, and the line that refuses another one.
#include "nixie/backends/settings/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using testing::HasSubstr;

/// Sets a variable as long as it lives.
class Set {
 public:
  Set(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Set() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  const char* name_;
  std::string old_ = {};
  bool had_ = false;
};

TEST(Environment, FlagsAre0Or1) {
  const struct {
    const char* name;
    bool (*read)();
    bool otherwise;
  } kRows[] = {{"NIXIE_WINOGRAD", winograd_is_allowed, true},
               {"NIXIE_VALIDATE", is_validated, false},
               {"NIXIE_SYNC", waits_for_kernels, false}};
  for (const auto& [name, read, otherwise] : kRows) {
    for (const auto& [value, expected] :
         {std::pair<const char*, bool>{nullptr, otherwise}, {"", otherwise}, {"0", false}, {"1", true}}) {
      const Set set(name, value);
      EXPECT_EQ(read(), expected) << name;
    }
    const Set set(name, "off");
    EXPECT_THAT(error_of([&] { read(); }), HasSubstr(std::string(name) + " is off, expected 0 or 1"));
  }
}

TEST(Environment, TracesAreNamedWithCommas) {
  const struct {
    const char* value;
    bool families, source, time;
  } kRows[] = {{nullptr, false, false, false}, {"time", false, false, true}, {"source,families", true, true, false}};
  for (const auto& [value, families, source, time] : kRows) {
    const Set set("NIXIE_TRACE", value);
    EXPECT_EQ(is_traced(BackendTrace::families), families);
    EXPECT_EQ(is_traced(BackendTrace::source), source);
    EXPECT_EQ(is_traced(BackendTrace::time), time);
  }
  const Set set("NIXIE_TRACE", "time,famlies");
  EXPECT_THAT(error_of([] { is_traced(BackendTrace::time); }),
              HasSubstr("NIXIE_TRACE is time,famlies, expected families, source or time, or several with commas"));
}

TEST(Environment, WordsAreKnown) {
  {
    const Set set("NIXIE_TUNING", "measure");
    EXPECT_EQ(tuning_word(), "measure");
  }
  const Set set("NIXIE_TUNING", "on");
  EXPECT_THAT(error_of([] { tuning_word(); }), HasSubstr("NIXIE_TUNING is on, expected off, known, measure or again"));
}

TEST(Environment, SilenceIsASecondOrMore) {
  const Set unset("NIXIE_SILENCE", nullptr);
  EXPECT_EQ(silence_seconds(), 7);
  {
    const Set set("NIXIE_SILENCE", "3600");
    EXPECT_EQ(silence_seconds(), 3600);
  }
  for (const char* value : {"0", "-1", "soon", "7s"}) {
    const Set set("NIXIE_SILENCE", value);
    EXPECT_THAT(error_of([] { silence_seconds(); }),
                HasSubstr(std::string("NIXIE_SILENCE is ") + value + ", expected seconds from 1 to 86400"));
  }
}

TEST(Environment, TheCacheIsInTheUsersFolder) {
  const Set home("HOME", "/home/ada");
  const Set own("NIXIE_CACHE", nullptr);
  {
    const Set none("XDG_CACHE_HOME", nullptr);
    EXPECT_EQ(cache_folder(), "/home/ada/.cache/nixie");
  }
  const Set caches("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(cache_folder(), "/caches/nixie");
  const Set named("NIXIE_CACHE", "/mine");
  EXPECT_EQ(cache_folder(), "/mine");
}

}  // namespace
}  // namespace nixie
