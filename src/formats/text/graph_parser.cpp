#include "formats/text/graph_parser.h"

#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "formats/text/literals.h"
#include "ops/table/op.h"

namespace finity::textform {

namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::string_view kValueName = "the name of a value";

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

int read_version(Lexer& in) {
  const std::size_t offset = in.peek().offset;
  const std::int64_t version = in.integer("a version", 0);
  if (version > std::numeric_limits<int>::max()) in.fail(offset, "the version is too large");
  return static_cast<int>(version);
}

}  // namespace

BodyId GraphParser::read_graph() {
  const bool named = in_.peek().kind == Token::Kind::name || in_.peek().kind == Token::Kind::string;
  const BodyId body = open_body(named ? in_.name("the name of the graph") : "");
  read_inputs();
  in_.expect("->");
  read_outputs();
  if (in_.accept_word("doc")) builder_.body(body).doc = in_.string("a string");
  if (in_.accept_word("meta")) builder_.body(body).metadata = read_properties(in_);
  in_.expect("{");
  while (!in_.at("}")) read_statement();
  in_.expect("}");
  close_body();
  return body;
}

BodyId GraphParser::open_body(std::string name) {
  if (scopes_.size() == kMaxDepth) {
    in_.fail(in_.peek().offset, "graphs are nested deeper than " + std::to_string(kMaxDepth));
  }
  const BodyId body = builder_.add_body(std::move(name));
  scopes_.push_back({.body = body});
  return body;
}

void GraphParser::close_body() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (Use& use : scope.waiting) {
    if (const auto found = scope.values.find(use.name); found != scope.values.end()) resolve(use, found->second);
    else if (scopes_.empty()) in_.fail(use.offset, "value '" + use.name + "' is not defined");
    else scopes_.back().waiting.push_back(std::move(use));
  }
}

void GraphParser::read_inputs() {
  in_.list("(", ")", [&] {
    const Token place = in_.peek();
    std::string name = in_.name("the name of an input");
    const ValueId id = define(place, std::move(name), read_declared_type());
    builder_.body(scopes_.back().body).inputs.push_back(id);
    if (in_.accept("=")) give_constant(id, read_constant(in_, builder_.value(id).type));
  });
}

void GraphParser::read_outputs() {
  const BodyId body = scopes_.back().body;
  in_.list("(", ")", [&] {
    Use use{
        .name = {}, .offset = in_.peek().offset, .node = {}, .body = body, .slot = builder_.body(body).outputs.size()};
    use.name = in_.name("the name of an output");
    if (in_.accept(":")) use.declared = std::make_shared<const Type>(read_type(in_, builder_));
    builder_.add_output(body, {});
    scopes_.back().waiting.push_back(std::move(use));
  });
}

void GraphParser::read_statement() {
  if (in_.accept_word("const")) read_constant_statement();
  else read_node();
}

void GraphParser::read_constant_statement() {
  const Token place = in_.peek();
  std::string name = in_.name(kValueName);
  const ValueId id = define(place, std::move(name), read_declared_type());
  in_.expect("=");
  give_constant(id, read_constant(in_, builder_.value(id).type));
}

void GraphParser::give_constant(ValueId id, ConstantPtr constant) {
  Value& value = builder_.value(id);
  if (value.type.kind == Type::Kind::unknown) value.type = Type::tensor_of(constant->dtype(), constant->dims());
  value.constant = std::move(constant);
  builder_.body(value.body).constants.push_back(id);
}

void GraphParser::read_node() {
  Node node;
  std::vector<Use> uses;
  node.where.offset = in_.peek().offset;
  node.body = scopes_.back().body;
  read_results(node);
  in_.expect("=");
  read_op(node);
  read_operands(node, uses);
  if (in_.at("{")) read_attrs(node);
  if (in_.accept("@")) node.name = in_.name("the name of the node");
  read_origin(node);
  const NodeId id = builder_.add_node(std::move(node));
  for (Use& use : uses) {
    use.node = id;
    scopes_.back().waiting.push_back(std::move(use));
  }
}

void GraphParser::read_results(Node& node) {
  if (in_.at("(")) {
    in_.take();
    return in_.expect(")");
  }
  do {
    const Token place = in_.peek();
    if (in_.accept_word("_")) {
      node.outputs.emplace_back();
      continue;
    }
    std::string name = in_.name(kValueName);
    node.outputs.push_back(define(place, std::move(name), read_declared_type()));
  } while (in_.accept(","));
}

// Op, domain.Op, "domain"."Op"; then :version.
void GraphParser::read_op(Node& node) {
  const Token token = in_.peek();
  std::string op = in_.name("an operator");
  std::string domain;
  if (in_.accept(".")) {
    domain = std::exchange(op, in_.string("the quoted name of an operator"));
  } else if (const std::size_t dot = op.rfind('.'); token.kind == Token::Kind::name && dot != std::string::npos) {
    domain = op.substr(0, dot);
    op = op.substr(dot + 1);
  }
  if (op.empty()) in_.fail(token.offset, "the operator has no name");
  node.domain = builder_.intern(normal_domain(domain));
  node.op_type = builder_.intern(op);
  node.op = find_op(node.domain, node.op_type);
  node.version = in_.accept(":") ? read_version(in_) : version_of(node.domain, token.offset);
}

// Operator sets other than ONNX's own rarely have a second version.
int GraphParser::version_of(std::string_view domain, std::size_t offset) const {
  const auto& opsets = builder_.peek().info().opsets;
  if (const auto found = opsets.find(domain); found != opsets.end()) return found->second;
  if (domain.empty()) in_.fail(offset, "the version of the operator is unknown: add a line such as 'opset 17'");
  return 1;
}

void GraphParser::read_operands(Node& node, std::vector<Use>& uses) {
  in_.list("(", ")", [&] {
    if (in_.accept_word("_")) {
      node.inputs.emplace_back();
      return;
    }
    if (bound_ != nullptr && read_literal_operand(node)) return;
    const Token place = in_.peek();
    std::string name = in_.name(kValueName);
    node.inputs.emplace_back();
    uses.push_back({.name = std::move(name), .offset = place.offset, .node = {}, .slot = node.inputs.size() - 1});
  });
}

bool GraphParser::read_literal_operand(Node& node) {
  if (in_.accept_word("const")) {
    const BodyId body = scopes_.back().body;
    node.inputs.push_back(builder_.add_constant(body, literal_name(), make_constant(read_tensor(in_))));
    return true;
  }
  Lexer ahead = in_;
  const Token word = ahead.take();
  if (word.kind != Token::Kind::name || !dtype_from_name(word.text) || !ahead.at("[")) return false;
  Tensor tensor = read_tensor(in_);
  node.inputs.push_back(
      builder_.add_input(Graph::kMain, literal_name(), Type::tensor_of(tensor.dtype(), tensor.dims())));
  bound_->push_back(std::move(tensor));
  return true;
}

// Characters no plain name has keep these apart from the names of the text.
std::string GraphParser::literal_name() { return "#" + std::to_string(literals_++); }

void GraphParser::read_origin(Node& node) {
  Origin origin;
  if (in_.accept_word("doc")) origin.doc = in_.string("a string");
  if (in_.accept_word("meta")) origin.metadata = read_properties(in_);
  if (in_.accept_word("overload")) origin.overload = in_.string("a string");
  if (in_.accept_word("from")) in_.list("[", "]", [&] { origin.calls.push_back(in_.string("a string")); });
  const bool nothing = origin.doc.empty() && origin.metadata.empty() && origin.overload.empty() && origin.calls.empty();
  if (!nothing) node.where.origin = std::make_shared<const Origin>(std::move(origin));
}

Type GraphParser::read_declared_type() { return in_.accept(":") ? read_type(in_, builder_) : Type{}; }

ValueId GraphParser::define(const Token& place, std::string name, Type type) {
  Scope& scope = scopes_.back();
  const auto [entry, fresh] = scope.values.try_emplace(std::move(name));
  if (!fresh) in_.fail(place.offset, "value '" + entry->first + "' is defined twice");
  entry->second = builder_.add_value(scope.body, entry->first, std::move(type));
  return entry->second;
}

void GraphParser::resolve(const Use& use, ValueId id) {
  if (use.node.valid()) builder_.node(use.node).inputs[use.slot] = id;
  else builder_.body(use.body).outputs[use.slot] = id;
  if (!use.declared) return;
  Type& known = builder_.value(id).type;
  if (known.kind == Type::Kind::unknown) known = *use.declared;
  else if (known != *use.declared)
    in_.fail(use.offset, "value '" + use.name + "' is declared with two different types");
}

Properties read_properties(Lexer& in) {
  Properties properties;
  in.list("{", "}", [&] {
    std::string key = in.string("a quoted key");
    in.expect(":");
    properties.emplace_back(std::move(key), in.string("a string"));
  });
  return properties;
}

std::pair<std::string, int> read_opset(Lexer& in) {
  std::string domain;
  if (in.peek().kind != Token::Kind::integer) domain = normal_domain(in.name("an operator set and its version"));
  return {std::move(domain), read_version(in)};
}

Graph build_graph(const Lexer& in, GraphBuilder&& builder) {
  try {
    return std::move(builder).build();
  } catch (const Error& error) {
    const std::string reason = error.what();
    for (const Node& node : builder.peek().nodes()) {
      if (reason.starts_with(describe(builder.peek(), node) + ":")) in.fail(node.where.offset, reason);
    }
    in.fail(0, reason);
  }
}

}  // namespace finity::textform
