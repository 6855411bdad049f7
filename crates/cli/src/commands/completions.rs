//! `holm completions`: a script that teaches a shell the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::output;

pub(crate) fn run(shell: Shell) -> Result<u8, CliError> {
    // Through memory, because the generator panics when its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holm", &mut script);
    output::raw(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
