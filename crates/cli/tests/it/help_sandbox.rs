//! What the help texts of `holm sandbox` say.

use crate::support::TestEnvironment;

#[test]
fn overview() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "--help"]), @r#"
    exit code: 0
    ----- stdout
    Make, use and remove sandboxes that stay

    Usage: holm sandbox [OPTIONS] <COMMAND>

    Commands:
      create  Make a sandbox that stays, and print its name
      list    Show the sandboxes that exist [alias: ls]
      exec    Run a command in a sandbox
      cp      Copy files or folders into a sandbox, or out of it [alias: copy]
      export  Copy a folder of a sandbox to a new folder of the machine
      rm      Remove sandboxes; work on a repository is kept on its branch [aliases: remove, delete]
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]
    "#);
}

#[test]
fn create() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "create", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Make a sandbox that stays, and print its name

    Usage: holm sandbox create [OPTIONS]

    Options:
          --sandbox <KIND>    Where the sandbox is [default: `sandboxType` of the configuration file,
                              else local] [possible values: local, daytona]
          --repo <PATH>       Work on an isolated checkout of this git repository, on a branch of its
                              own; with `--sandbox daytona` a repository of GitHub, as org/repo
          --branch <NAME>     The name of the new branch [default: holm/<id>]
          --dir <PATH>        Work in this folder of the machine itself: changes are made in place
          --isolation <KIND>  How the sandbox is kept apart from the machine [default: auto] [possible
                              values: auto, namespaces, none]
          --network <POLICY>  What can be reached over the network [default: none] [possible values:
                              none, host]
          --profile <NAME>    Which system calls are allowed [default: strict] [possible values: strict,
                              nested]
          --memory <SIZE>     The most memory that may be used, such as 512m or 4g [default: no limit]
          --cpus <NUMBER>     How many processors may be used, such as 2 or 0.5 [default: no limit]
          --pids <NUMBER>     How many processes and threads may exist at once [default: 2048]
          --name <NAME>       What to call it [default: its id]
          --json              Print one JSON object instead of the name
      -h, --help              Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Examples:
      holm sandbox create
      holm sandbox create --repo . --name fix-1 --memory 4g
      name=$(holm sandbox create --repo .) && holm sandbox exec $name -- cargo test
    "#);
}

#[test]
fn list() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "list", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Show the sandboxes that exist

    Usage: holm sandbox list [OPTIONS]

    Options:
          --sandbox <KIND>  Where the sandbox is [default: `sandboxType` of the configuration file, else
                            local] [possible values: local, daytona]
          --json            Print a JSON array
      -h, --help            Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]
    "#);
}

#[test]
fn exec() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "exec", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Run a command in a sandbox

    Usage: holm sandbox exec [OPTIONS] <NAME> [--] <COMMAND> [ARGUMENT]...

    Arguments:
      <NAME>        The sandbox's name or id
      <COMMAND>...  The command and its arguments, taken as they are: use `sh -c` for pipes

    Options:
          --timeout <TIME>      End the command after this time, such as 90s, 5m or 1h30m [default:
                                never]
          --env <NAME[=VALUE]>  Set a variable, or pass on one of yours by giving its name alone
          --json                Print one JSON object at the end instead of the output, of which 1 MiB
                                per stream is kept
          --cwd <PATH>          The folder to start in, from the sandbox's work folder on
          --sandbox <KIND>      Where the sandbox is [default: `sandboxType` of the configuration file,
                                else local] [possible values: local, daytona]
      -h, --help                Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    The box of a sandbox starts again by itself if it has ended, for example after a restart of the
    machine. Exit codes, input and Ctrl-C are as for `holm exec`.

    Examples:
      holm sandbox exec fix-1 -- cargo test
      holm sandbox exec fix-1 --cwd crates/cli --timeout 5m -- cargo build
      holm sandbox exec fix-1 -- sh -c 'git add -A && git commit -m wip'
    "#);
}

#[test]
fn copy() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "cp", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Copy files or folders into a sandbox, or out of it

    Usage: holm sandbox cp [OPTIONS] <SOURCE> <DESTINATION>

    Arguments:
      <SOURCE>       What to copy: PATH or NAME:PATH
      <DESTINATION>  Where to copy it: PATH or NAME:PATH

    Options:
          --sandbox <KIND>  Where the sandbox is [default: `sandboxType` of the configuration file, else
                            local] [possible values: local, daytona]
      -h, --help            Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    One of the two is a path in a sandbox, written NAME:PATH, where PATH is relative to the work folder.
    A folder is copied with all that is in it, into a folder of that name if the destination exists.
    Write a local path with a colon in it as ./a:b.

    Examples:
      holm sandbox cp notes.txt fix-1:docs/
      holm sandbox cp fix-1:target/report.html .
      holm sandbox cp ./fixtures fix-1:tests
    "#);
}

#[test]
fn export() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "export", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Copy a folder of a sandbox to a new folder of the machine

    Usage: holm sandbox export [OPTIONS] <NAME> [PATH] <DESTINATION>

    Arguments:
      <NAME>         The sandbox's name or id
      [PATH]         The folder in the sandbox [default: the whole work folder]
      <DESTINATION>  The folder to make; it must not exist yet, or be empty

    Options:
          --sandbox <KIND>  Where the sandbox is [default: `sandboxType` of the configuration file, else
                            local] [possible values: local, daytona]
      -h, --help            Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Examples:
      holm sandbox export fix-1 ./everything
      holm sandbox export fix-1 target/doc ./doc
    "#);
}

#[test]
fn remove() {
    insta::assert_snapshot!(TestEnvironment::new().run(["sandbox", "rm", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Remove sandboxes; work on a repository is kept on its branch

    Usage: holm sandbox rm [OPTIONS] <NAME>...

    Arguments:
      <NAME>...  The sandboxes' names or ids

    Options:
          --discard         Throw uncommitted changes away; commits stay on the branch
          --json            Print a JSON array of what was removed and kept
          --sandbox <KIND>  Where the sandbox is [default: `sandboxType` of the configuration file, else
                            local] [possible values: local, daytona]
      -h, --help            Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Examples:
      holm sandbox rm fix-1
      holm sandbox rm fix-1 fix-2 --discard
    "#);
}
