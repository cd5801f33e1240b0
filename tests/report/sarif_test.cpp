// What SARIF 2.1.0 demands of the objects we write: required properties, closed sets of property names and
// values, indices that point to something. (The whole schema is not part of the repository.)
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/sample.h"

namespace finity {
namespace {

using Json = nlohmann::json;

struct Shape {
  std::set<std::string> required, allowed;  // allowed: besides the required ones
};

const std::map<std::string, Shape>& shapes() {
  static const std::map<std::string, Shape> kShapes = {
      {"log", {{"version", "runs"}, {"$schema"}}},
      {"run", {{"tool"}, {"invocations", "artifacts", "results"}}},
      {"tool", {{"driver"}, {}}},
      {"driver", {{"name"}, {"version", "rules"}}},
      {"rule", {{"id"}, {"name", "shortDescription", "fullDescription", "help", "defaultConfiguration"}}},
      {"invocation", {{"executionSuccessful"}, {"exitCode", "toolExecutionNotifications"}}},
      {"notification", {{"message"}, {"level"}}},
      {"artifact", {{}, {"location", "roles"}}},
      {"result",
       {{"message"},
        {"ruleId", "ruleIndex", "level", "locations", "relatedLocations", "codeFlows", "partialFingerprints",
         "suppressions", "properties"}}},
      {"location", {{}, {"id", "physicalLocation", "logicalLocations", "message"}}},
      {"physicalLocation", {{"artifactLocation"}, {"region"}}},
      {"artifactLocation", {{"uri"}, {}}},
      {"region", {{"startLine"}, {}}},
      {"logicalLocation", {{"name", "fullyQualifiedName", "kind"}, {}}},
      {"codeFlow", {{"threadFlows"}, {}}},
      {"threadFlow", {{"locations"}, {}}},
      {"threadFlowLocation", {{"location"}, {}}},
      {"suppression", {{"kind"}, {"status", "justification"}}},
      {"message", {{"text"}, {}}},
      {"help", {{"text"}, {"markdown"}}},
  };
  return kShapes;
}

void expect_shape(const Json& json, const std::string& name) {
  ASSERT_TRUE(json.is_object()) << name << " " << json;
  const Shape& shape = shapes().at(name);
  for (const std::string& key : shape.required) EXPECT_TRUE(json.contains(key)) << name << " lacks " << key;
  for (const auto& [key, value] : json.items()) {
    EXPECT_TRUE(shape.required.contains(key) || shape.allowed.contains(key)) << name << " has " << key;
  }
}

const std::set<std::string> kLevels = {"none", "note", "warning", "error"};

void expect_message(const Json& json, const std::string& shape = "message") {
  expect_shape(json, shape);
  EXPECT_FALSE(json.at("text").get<std::string>().empty());
}

void expect_location(const Json& json) {
  expect_shape(json, "location");
  const Json& physical = json.at("physicalLocation");
  expect_shape(physical, "physicalLocation");
  expect_shape(physical.at("artifactLocation"), "artifactLocation");
  EXPECT_EQ(physical.at("artifactLocation").at("uri").get<std::string>().find_first_of(" |\\\""), std::string::npos);
  expect_shape(physical.at("region"), "region");
  EXPECT_GE(physical.at("region").at("startLine").get<int>(), 1);
  if (json.contains("message")) expect_message(json.at("message"));
  for (const Json& logical : json.value("logicalLocations", Json::array())) expect_shape(logical, "logicalLocation");
}

void expect_rule(const Json& rule) {
  expect_shape(rule, "rule");
  expect_message(rule.at("shortDescription"));
  expect_message(rule.at("fullDescription"));
  expect_message(rule.at("help"), "help");
  EXPECT_TRUE(kLevels.contains(rule.at("defaultConfiguration").at("level")));
}

void expect_code_flow(const Json& flow) {
  expect_shape(flow, "codeFlow");
  for (const Json& thread : flow.at("threadFlows")) {
    expect_shape(thread, "threadFlow");
    EXPECT_FALSE(thread.at("locations").empty());
    for (const Json& step : thread.at("locations")) {
      expect_shape(step, "threadFlowLocation");
      expect_location(step.at("location"));
    }
  }
}

void expect_result(const Json& result, const Json& rules) {
  expect_shape(result, "result");
  expect_message(result.at("message"));
  EXPECT_EQ(rules.at(result.at("ruleIndex").get<std::size_t>()).at("id"), result.at("ruleId"));
  EXPECT_TRUE(kLevels.contains(result.at("level")));
  ASSERT_EQ(result.at("locations").size(), 1U);
  expect_location(result.at("locations").front());
  for (const Json& related : result.value("relatedLocations", Json::array())) expect_location(related);
  for (const Json& flow : result.at("codeFlows")) expect_code_flow(flow);
  EXPECT_EQ(result.at("partialFingerprints").at("finity/v1").get<std::string>().size(), 16U);
  for (const Json& suppression : result.value("suppressions", Json::array())) {
    expect_shape(suppression, "suppression");
    EXPECT_TRUE(suppression.at("kind") == "inSource" || suppression.at("kind") == "external");
  }
}

void expect_log(const CheckResult& result) {
  const Json log = Json::parse(sarif_report(result));
  expect_shape(log, "log");
  EXPECT_EQ(log.at("version"), "2.1.0");
  ASSERT_EQ(log.at("runs").size(), 1U);
  const Json& run = log.at("runs").front();
  expect_shape(run, "run");
  expect_shape(run.at("tool"), "tool");
  const Json& driver = run.at("tool").at("driver");
  expect_shape(driver, "driver");
  for (const Json& rule : driver.at("rules")) expect_rule(rule);
  for (const Json& invocation : run.at("invocations")) {
    expect_shape(invocation, "invocation");
    for (const Json& notification : invocation.at("toolExecutionNotifications")) {
      expect_shape(notification, "notification");
      EXPECT_TRUE(kLevels.contains(notification.at("level")));
    }
  }
  for (const Json& artifact : run.at("artifacts")) expect_shape(artifact, "artifact");
  for (const Json& one : run.at("results")) expect_result(one, driver.at("rules"));
}

TEST(Sarif, HasWhatTheSchemaDemands) {
  expect_log(sample::result());
  expect_log({.version = "0"});
}

TEST(Sarif, SuppressionsAreAtAllResultsOrAtNone) {
  CheckResult result = sample::result();
  const auto with_suppressions = [&] {
    const Json log = Json::parse(sarif_report(result));
    std::size_t count = 0;
    for (const Json& one : log.at("runs").front().at("results")) count += one.contains("suppressions") ? 1 : 0;
    return count;
  };
  EXPECT_EQ(with_suppressions(), result.reports.front().alarms.size());
  for (Alarm& alarm : result.reports.front().alarms) alarm.accepted = Acceptance::none;
  result.reports.front().counts.accepted = 0;
  EXPECT_EQ(with_suppressions(), 0U);
}

TEST(Sarif, NamesThatAreNotUtf8AndPathsAreEscaped) {
  CheckResult result = sample::result();
  result.reports.front().model = "/a b/\xff#.onnx";
  result.reports.front().alarms.front().tensor = "\xff\xfe";
  expect_log(result);
  EXPECT_NE(sarif_report(result).find("file:///a%20b/%FF%23.onnx"), std::string::npos);
}

TEST(Sarif, NoMoreResultsThanServicesTake) {
  CheckResult result = sample::result();
  std::vector<Alarm>& alarms = result.reports.front().alarms;
  Alarm plain = alarms.front();
  plain.path.clear();
  alarms.assign(25'010, plain);
  const std::string text = sarif_report(result);
  EXPECT_EQ(Json::parse(text).at("runs").front().at("results").size(), 25'000U);
  EXPECT_NE(text.find("10 more results left out"), std::string::npos);
}

}  // namespace
}  // namespace finity
