// doctest's main, and the rule by which a test case skips itself: it says MESSAGE("skipped: why")
// and returns. Skipped and failed cases are listed by name after the run, for `./dev test`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

class Names final : public doctest::IReporter {
 public:
  explicit Names(const doctest::ContextOptions& /*options*/) {}

  void test_case_start(const doctest::TestCaseData& test) override { name_ = test.m_name; }

  void log_message(const doctest::MessageData& message) override {
    const std::string text = message.m_string.c_str();
    if (!text.starts_with(kPrefix)) return;
    const std::scoped_lock lock(mutex_);  // any thread of a test may log
    skips_.push_back(name_ + ": " + text.substr(kPrefix.size()));
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (!stats.testCaseSuccess) failures_.push_back(name_);
  }

  void test_run_end(const doctest::TestRunStats& /*stats*/) override {
    for (const std::string& skip : skips_) std::cout << kPrefix << skip << '\n';
    for (const std::string& name : failures_) std::cout << "failed: " << name << '\n';
  }

  void report_query(const doctest::QueryData& /*query*/) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData& /*test*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*subcase*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*assertion*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*test*/) override {}

 private:
  static constexpr std::string_view kPrefix = "skipped: ";

  std::mutex mutex_;
  std::string name_;
  std::vector<std::string> skips_;
  std::vector<std::string> failures_;
};

}  // namespace

DOCTEST_REGISTER_LISTENER("names", 1, Names);
