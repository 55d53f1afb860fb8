// What a tool says about a command line that CLI11 does not accept: one line that names the word in
// question and what to do, where CLI11 would print two lines in the terms of its own grammar.
//
// Requires:  the file that includes this includes CLI11 itself, which is too heavy for a header.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
class Validator;
}  // namespace CLI

namespace tools {

// Checks for CLI11: a number from min to max.
CLI::Validator Whole(double min, double max);
CLI::Validator Real(double min, double max);
// To transform with: 10M, 1e6, 250k become digits (k, M, G: powers of ten).
CLI::Validator Count();

// The command that was given, or the program itself.
const CLI::App& CommandOf(const CLI::App& app);

// Names the first option that is not known, or the first word that has no meaning.
std::string ExtraWord(const CLI::App& app);

// Why the first word is no beginning of a call of a program with commands; empty where it is. CLI11
// would only say that a subcommand is required.
std::string FirstWordError(const CLI::App& app, int argc, char** argv);

// Prints "program: complaint; see program command --help"; returns the exit code.
int PrintWrongCall(const CLI::App& app, const std::string& complaint);

// Prints help, version or what is wrong; returns the exit code. `error` is what app.parse threw.
int ExplainCall(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tools
