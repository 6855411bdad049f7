//! The `holm` command: the one place that reads arguments and environment, prints, and exits.
//!
//! ```text
//! arguments ──▶ args ──▶ commands ──▶ library
//!                           │
//!          output (data to stdout, all else to stderr) ──▶ exit code
//! ```
//!
//! - `args` says what can be asked; its doc comments are the help texts and the reference page.
//! - `commands` has one file per command. A command returns its exit code or an [`error::CliError`].
//! - `error` alone decides what a failure looks like and which exit code it has.
//! - `environment` alone reads variables, `configuration` the file of settings; `signals` alone handles Ctrl-C.
//!
//! **Invariant:** nothing here starts a thread before the backend has forked its spawner.

mod args;
mod commands;
mod configuration;
mod environment;
mod error;
mod output;
mod signals;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, CommandFamily};
use commands::Context;
use environment::Environment;

/// The system's own takes a quarter of a server's time, most of it where one thread frees what another has allocated.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = Environment::read();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody reads any more: then there is nobody to tell either.
            drop(error.print());
            let family = CommandFamily::of_words(&arguments);
            return ExitCode::from(error::usage_exit_code(&error, family));
        }
    };
    let family = cli.command.family();
    let context = Context {
        environment,
        data_dir_flag: cli.data_dir,
    };
    match commands::run(&context, cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            error::print(&error, context.data_dir().ok().as_deref());
            ExitCode::from(error.exit_code(family))
        }
    }
}
