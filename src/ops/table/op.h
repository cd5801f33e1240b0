// The op table. An op is one OpDef literal in its family's file: engines read
// the data and call the functions, and never mention an op by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/table/call.h"
#include "ops/table/grants.h"
#include "ops/table/hazard.h"
#include "ops/table/signature.h"

namespace finity {

class BuildCall;
class DrawCall;
class RangeCall;
struct Rows;
struct Length;

// What the truth of a boolean result says about the operands: how guards refine ranges.
enum class Comparison : std::uint8_t {
  none,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  logical_and,
  logical_or,
  logical_not,
  is_nan,
  is_inf
};

// How the results are ordered when the operands are. Rounding keeps the order, so what holds of these in real numbers
// holds in floats.
enum class OrderKind : std::uint8_t {
  none,
  sum,         // of two operands: rises with both
  difference,  // rises with the first, falls with the second
  product,     // rises with both, where neither is negative
  largest,     // of the operands
  smallest,    //
  floored,     // the first operand, or the second (else zero) where that is larger; perhaps limited from above
  insert_axes  // elements as they are, axes of size 1 besides
};

// Where the elements of the results come from.
enum class ElementSource : std::uint8_t {
  computed,
  moved,      // those of the first operand, somewhere else
  converted,  // those of the first operand, in another format
  bounded,    // none is larger in magnitude than all of the first operand
  joined,     // those of all operands
  chosen      // those of the operands behind the first
};

// What optimisers that merge nodes take an op for; see Way::scales_last.
enum class Merge : std::uint8_t { none, factor, divisor, movement, padding };

// What an op is called and how it is written down.
struct OpIdentity {
  std::string_view name = {};
  std::string_view domain = {};     // "" is ONNX's default domain
  int since = 1;                    // first opset that has it
  int until = 0;                    // last opset that has it; 0: still there
  std::string_view summary = {};    // one line, lower case, no full stop
  std::string_view signature = {};  // see signature.h; the union over all versions
  std::string_view attrs = {};
  std::string_view tf = {};  // TensorFlow's op of the same meaning
};

// Whether ONNX says what an op gives for operands that are not finite. Where it does, the definition is meant, in the
// arithmetic of IEEE 754 and with the limits that functions have. Where it is open, a result is NaN or what any number
// in the operand's place gives; results that do not depend on such operands stay what they are.
enum class NotFinite : std::uint8_t {
  by_kind,          // said of elementwise ops and of movement, else open
  said,             //
  nan_open,         // what comparing with NaN chooses
  infinities_open,  // what zero times an infinity is taken for
  open
};

// What it computes.
struct OpMeaning {
  void (*infer)(InferCall&) = nullptr;
  void (*eval)(EvalCall&) = nullptr;  // null: the op is typed but cannot be run
  // Its results as nodes of other ops, see composite.h. What is not given besides (eval, range, vjp) follows from it.
  std::vector<ValueId> (*body)(BuildCall&) = nullptr;
  std::string_view freedom = {};  // what eval chose where ONNX leaves it open (reduction order, ...)
  NotFinite not_finite = NotFinite::by_kind;
};

// What is known of its results, and what can go wrong in it.
struct OpAnalysis {
  void (*range)(RangeCall&) = nullptr;  // see range_call.h; null: nothing is known of its results
  // How long rows of every float result are at most, see lengths.h; null: what their elements allow.
  Length (*length)(RangeCall&, const Rows&) = nullptr;
  // Writes the nodes that compute the gradients of the operands, see build_call.h; null: not known. `flat`: none flows.
  void (*vjp)(BuildCall&) = nullptr;
  Hazards hazards = {};
  std::string_view overflow = {};  // rule when the result may be infinite and no operand is (else FN203)
  std::string_view invalid = {};   // rule when the result may be NaN and no operand is (else FN302)
  Grants grants = {};              // what libraries may compute instead
};

// What engines ask of it instead of its name.
struct OpTraits {
  bool random = false;        // not a function of its inputs: never folded
  bool exact = false;         // every library computes it to the same bits: no exp, no sum of several floats
  bool elementwise = false;   // element i of the result depends on elements i of the operands only
  bool rises = false;         // no result falls where a float operand rises: maxima, margins (as moved elements do)
  bool linear = false;        // a sum of products: linear in each float operand, with factors that are attributes
  bool cancels = false;       // subtracts numbers of its operands' size, in an order that libraries choose
  bool approximated = false;  // a function like exp, of which libraries compute as many digits as they like
  bool shape_only = false;    // looks at the shape of its operand, not at its elements
  bool branches = false;      // runs one of its bodies, once; others may run theirs any number of times
  bool light = false;         // costs little more than reading its operands, though it is not elementwise
  ElementSource elements = ElementSource::computed;
  Comparison comparison = Comparison::none;
  OrderKind order = OrderKind::none;
  Merge merge = Merge::none;
};

// What the first operand of a drawn call looks like.
enum class FirstOperand : std::uint8_t {
  any,
  image,    // batch, channels, space
  matrix,   //
  sequence  // steps, batch, features
};

// Whether integers at the ends of their type are given to an op: conversions and divisions go wrong there.
enum class Ends : std::uint8_t {
  as_traits,  // where elements are moved, or computed one by one
  given,      // though results are computed of several elements, their meaning is said there, too
  never       // what comes out is not said
};

// How calls are drawn that libraries are tested with (draw_call.h), where signature and names of attributes do not say.
struct OpDrawing {
  // Adds the operands behind the first and may change attributes; false: the operands are as the signature has them.
  bool (*operands)(DrawCall&) = nullptr;
  // Formats of the first operand in which ONNX says what the op means; null: all that the signature has.
  bool (*means)(DType, int opset) = nullptr;
  FirstOperand first = FirstOperand::any;
  Ends ends = Ends::as_traits;
  std::size_t results = 0;  // how many are asked for; 0: drawn
  int since = 0;            // first operator set in which libraries have it, where the table has it earlier
  int often = 0;            // how often chains of ops have it: most of these are made of what networks are made of
  bool settings = false;    // floats behind the first operand say how, and are not computed with
  bool never = false;       // not drawn: what it gives for odd operands is not said
};

struct OpDef {
  OpIdentity identity = {};
  OpMeaning meaning = {};
  OpAnalysis analysis = {};
  OpTraits traits = {};
  OpDrawing drawing = {};
};

// Every op, family by family, in the order of ops/table/all.cpp.
std::span<const OpDef* const> all_ops();
const OpDef* find_op(std::string_view domain, std::string_view name);
// Parsed once per op, on first use.
const Signature& signature_of(const OpDef& op);
// Never `by_kind`.
NotFinite not_finite_of(const OpDef& op);

// An op of the default ONNX domain that is deliberately not in the table, with the reason.
struct LeftOut {
  std::string_view name;
  std::string_view reason;
};
std::span<const LeftOut> left_out_ops();

}  // namespace finity
