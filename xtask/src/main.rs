//! The project's automation: `cargo xtask ci` is the whole of CI, and everything it does is a
//! subcommand of its own.
//!
//! Only the standard library is used, so that building this costs nothing before the first check.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers talks to them"
)]

mod bench;
mod ci;
mod dist;
mod generate;
mod ordinary_user;
mod process;
mod sdk;
mod setup;
mod tidy;
mod workspace;

use std::process::ExitCode;

use process::{Failure, Outcome};

const HELP: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  ci               All checks and tests, in the order of CI
  setup [--bench]  Install what the tests need, and with --bench what the benchmarks compare with
  sdk              Run the official Daytona SDKs against a server of ours
  conformance      Run the official conformance suite of Durable Streams over each store
  tidy             Check the rules of the house that no other tool checks
  gen [--check]    Write the generated pages of docs/reference, or only compare them
  dist             Build the program as it is shipped: one static file
  bench start      Measure how fast a box starts, beside its peers
  bench server     Measure how fast a server is, beside what it stands on
  bench threads    Measure how fast streams are, beside the disk that they are on
  bench daytona    Measure what the client of Daytona's API costs, beside the official SDKs
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words == ["ci"] {
        return ci::run_all();
    }
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    match words {
        [] | ["help" | "-h" | "--help"] => {
            print!("{HELP}");
            Ok(())
        }
        ["setup"] => setup::run(setup::Purpose::Tests),
        ["setup", "--bench"] => setup::run(setup::Purpose::Benchmarks),
        ["sdk"] => sdk::run_all(),
        // The tests of the server, of which these are part, run in CI.
        ["conformance"] => process::run(&mut process::cargo(&[
            "nextest",
            "run",
            "--package",
            "holm-server",
            "suite::",
        ])),
        ["tidy"] => tidy::run(),
        ["gen"] => generate::run(generate::Mode::Write),
        ["gen", "--check"] => generate::run(generate::Mode::Check),
        ["dist"] => {
            let program = dist::build()?;
            println!("{}", program.display());
            Ok(())
        }
        ["bench", name] => bench::measure(benchmark(name)?),
        ["bench", name, bench::IN_MOUNT_NAMESPACE] => {
            bench::measure_in_mount_namespace(benchmark(name)?)
        }
        _ => Err(Failure::new(format!(
            "unknown command `{}`\n\n{HELP}",
            words.join(" ")
        ))),
    }
}

fn benchmark(name: &str) -> Outcome<bench::Benchmark> {
    bench::Benchmark::named(name)
        .ok_or_else(|| Failure::new(format!("unknown benchmark `{name}`\n\n{HELP}")))
}
