//! `holm __generate`: the pages of `docs/reference` that are made from the code.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::environment::VARIABLES;
use crate::error::{CliError, EXEC_EXIT_CODES, OTHER_EXIT_CODES};
use crate::output;

/// Help texts are wrapped at this width, whatever terminal this runs in.
const HELP_COLUMNS: usize = 100;

pub(crate) fn run(directory: &Path) -> Result<u8, CliError> {
    fs::create_dir_all(directory).map_err(|source| CliError::HostFile {
        doing: "make folder",
        path: directory.to_path_buf(),
        source,
    })?;
    for (name, page) in [
        ("cli.md", command_page()),
        ("exit-codes.md", exit_code_page()),
        ("environment.md", environment_page()),
        (
            "daytona-coverage.md",
            holm_daytona_wire::routes::coverage_markdown(),
        ),
        (
            "threads-openapi.json",
            holm_server::threads::openapi_document(),
        ),
        ("seccomp.md", holm_sandbox_linux::seccomp::render_markdown()),
    ] {
        let path = directory.join(name);
        fs::write(&path, page).map_err(|source| CliError::HostFile {
            doing: "write",
            path: path.clone(),
            source,
        })?;
        output::data(&path.to_string_lossy())?;
    }
    Ok(0)
}

fn command_page() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         What `--help` says, for every command. Exit codes are on [a page of their own](exit-codes.md), \
         and so are [environment variables](environment.md).\n",
    );
    let mut root = Cli::command().term_width(HELP_COLUMNS);
    root.build();
    command_section(&mut page, &mut root, "holm");
    page
}

fn command_section(page: &mut String, command: &mut clap::Command, path: &str) {
    let help = command.render_long_help().to_string();
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "\n## `{path}`\n\n```text");
    for line in help.trim_end().lines() {
        let _ = writeln!(page, "{}", line.trim_end());
    }
    let _ = writeln!(page, "```");
    for subcommand in command.get_subcommands_mut() {
        let name = subcommand.get_name().to_owned();
        if !subcommand.is_hide_set() && name != "help" {
            command_section(page, subcommand, &format!("{path} {name}"));
        }
    }
}

fn exit_code_page() -> String {
    let mut page = String::from("# Exit codes\n\n## `holm exec` and `holm sandbox exec`\n\n");
    code_table(&mut page, &EXEC_EXIT_CODES);
    page.push_str("\n## All other commands\n\n");
    code_table(&mut page, &OTHER_EXIT_CODES);
    page
}

fn code_table(page: &mut String, rows: &[(&str, &str)]) {
    page.push_str("| code | meaning |\n| --- | --- |\n");
    for (code, meaning) in rows {
        let _ = writeln!(page, "| {code} | {meaning} |");
    }
}

fn environment_page() -> String {
    let mut page = String::from(
        "# Environment variables\n\n\
         Only the command line reads the environment. Commands in a box see nothing of it but what stands here \
         and what `--env` gives them; without isolation they see all of it.\n\n\
         | variable | meaning | default |\n| --- | --- | --- |\n",
    );
    for variable in VARIABLES {
        let names: Vec<String> = variable
            .name
            .split(", ")
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            names.join(", "),
            variable.meaning,
            variable.default
        );
    }
    page.push_str(
        "\nA command in a box finds `HOLM_SANDBOX=1` in its environment, and its own `HOME`, `USER`, `SHELL` and `TMPDIR`.\n",
    );
    page
}
