//! What the help texts say. Each is the reference of its command.

use crate::support::TestEnvironment;

#[test]
fn version() {
    insta::assert_snapshot!(TestEnvironment::new().run(["--version"]), @r#"
    exit code: 0
    ----- stdout
    holm 0.1.0
    "#);
}

#[test]
fn whole_program() {
    insta::assert_snapshot!(TestEnvironment::new().run(["--help"]), @r#"
    exit code: 0
    ----- stdout
    Gives every coding agent an island: an isolated machine, a record, a branch

    Usage: holm [OPTIONS] <COMMAND>

    Commands:
      exec          Run a command in a throwaway sandbox
      sandbox       Make, use and remove sandboxes that stay
      serve         Serve Daytona's API: its SDKs make and use sandboxes on this machine
      key           Make, show and revoke the API keys of a server
      snapshot      Make, show and remove what the sandboxes of a server start from
      thread        Make, write, read and check threads of a server
      stream-proxy  Forward requests to the streams of a server, and nothing else
      doctor        Show what this machine gives and what is missing, and prove it with a real sandbox
      completions   Print a completion script for a shell
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Examples:
      holm exec -- python3 -c 'print(6 * 7)'        run a command in an empty sandbox
      holm exec --repo . -- cargo test              run it on an isolated checkout of this repository
      holm sandbox create --repo . --name fix-1     make a sandbox that stays
      holm serve                                    serve Daytona's API to its SDKs
      holm doctor                                   see what this machine gives
    "#);
}

#[test]
fn exec_in_short() {
    insta::assert_snapshot!(TestEnvironment::new().run(["exec", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Run a command in a throwaway sandbox

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    Arguments:
      <COMMAND>...  The command and its arguments, taken as they are: use `sh -c` for pipes

    Options:
          --sandbox <KIND>      Where the sandbox is [default: `sandboxType` of the configuration file,
                                else local] [possible values: local, daytona]
          --repo <PATH>         Work on an isolated checkout of this git repository, on a branch of its
                                own; with `--sandbox daytona` a repository of GitHub, as org/repo
          --branch <NAME>       The name of the new branch [default: holm/<id>]
          --dir <PATH>          Work in this folder of the machine itself: changes are made in place
          --isolation <KIND>    How the sandbox is kept apart from the machine [default: auto] [possible
                                values: auto, namespaces, none]
          --network <POLICY>    What can be reached over the network [default: none] [possible values:
                                none, host]
          --profile <NAME>      Which system calls are allowed [default: strict] [possible values:
                                strict, nested]
          --memory <SIZE>       The most memory that may be used, such as 512m or 4g [default: no limit]
          --cpus <NUMBER>       How many processors may be used, such as 2 or 0.5 [default: no limit]
          --pids <NUMBER>       How many processes and threads may exist at once [default: 2048]
          --timeout <TIME>      End the command after this time, such as 90s, 5m or 1h30m [default:
                                never]
          --env <NAME[=VALUE]>  Set a variable, or pass on one of yours by giving its name alone
          --json                Print one JSON object at the end instead of the output, of which 1 MiB
                                per stream is kept
          --discard             Throw uncommitted changes away at the end; commits stay on the branch
          --push                Push the branch at the end and open a pull request, with the token in
                                GITHUB_TOKEN
          --intent <TEXT>       What the pull request is about [default: the command]
      -h, --help                Print help (see more with '--help')

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Without --repo and --dir the sandbox begins with an empty folder. What the command reads is what
    `holm` reads, unless that is a terminal: a terminal is not passed through yet, so the command reads
    nothing then.

    The exit code is the command's own, or 128+N when signal N ended it; 124 when the timeout did; 125
    when Holm itself failed; 126 when the command cannot be executed; 127 when it is not there. Ctrl-C
    passes the interrupt on and waits; a second one kills.

    Examples:
      holm exec -- python3 -c 'print(6 * 7)'
      holm exec --repo . --branch fix/login -- claude -p 'fix the login test'
      holm exec --repo . --memory 4g --cpus 2 --timeout 10m -- cargo test
      holm exec --env GITHUB_TOKEN --network host -- gh issue list
      holm exec --sandbox daytona --repo org/repo --push -- claude -p 'fix the login test'
    "#);
}

#[test]
fn exec_in_full() {
    insta::assert_snapshot!(TestEnvironment::new().run(["exec", "--help"]), @r#"
    exit code: 0
    ----- stdout
    Run a command in a throwaway sandbox

    Usage: holm exec [OPTIONS] [--] <COMMAND> [ARGUMENT]...

    Arguments:
      <COMMAND>...
              The command and its arguments, taken as they are: use `sh -c` for pipes

    Options:
          --sandbox <KIND>
              Where the sandbox is [default: `sandboxType` of the configuration file, else local]

              Possible values:
              - local:   On this machine
              - daytona: At a server with Daytona's API: its cloud, or `holm serve`

          --repo <PATH>
              Work on an isolated checkout of this git repository, on a branch of its own; with
              `--sandbox daytona` a repository of GitHub, as org/repo

          --branch <NAME>
              The name of the new branch [default: holm/<id>]

          --dir <PATH>
              Work in this folder of the machine itself: changes are made in place

          --isolation <KIND>
              How the sandbox is kept apart from the machine

              Possible values:
              - auto:       Namespaces where the machine allows them; otherwise none, with a warning
              - namespaces: A box of its own: files, processes, users and network apart from the
                machine's
              - none:       Nothing: the command can do everything that you can

              [default: auto]

          --network <POLICY>
              What can be reached over the network [default: none]

              Possible values:
              - none: Only the sandbox itself
              - host: All that the machine reaches, and all that listens on it

          --profile <NAME>
              Which system calls are allowed

              Possible values:
              - strict: No namespaces and no mounts inside
              - nested: As strict, but a sandbox such as bubblewrap works inside

              [default: strict]

          --memory <SIZE>
              The most memory that may be used, such as 512m or 4g [default: no limit]

          --cpus <NUMBER>
              How many processors may be used, such as 2 or 0.5 [default: no limit]

          --pids <NUMBER>
              How many processes and threads may exist at once [default: 2048]

          --timeout <TIME>
              End the command after this time, such as 90s, 5m or 1h30m [default: never]

          --env <NAME[=VALUE]>
              Set a variable, or pass on one of yours by giving its name alone

              A value of 8 bytes or more whose name holds KEY, TOKEN, SECRET, PASSWORD or CREDENTIAL is
              shown as [REDACTED:NAME] in the command's output.

          --json
              Print one JSON object at the end instead of the output, of which 1 MiB per stream is kept

          --discard
              Throw uncommitted changes away at the end; commits stay on the branch

          --push
              Push the branch at the end and open a pull request, with the token in GITHUB_TOKEN

          --intent <TEXT>
              What the pull request is about [default: the command]

      -h, --help
              Print help (see a summary with '-h')

    Global options:
          --data-dir <FOLDER>
              Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR, or see `holm
              doctor`]

    Without --repo and --dir the sandbox begins with an empty folder. What the command reads is what
    `holm` reads, unless that is a terminal: a terminal is not passed through yet, so the command reads
    nothing then.

    The exit code is the command's own, or 128+N when signal N ended it; 124 when the timeout did; 125
    when Holm itself failed; 126 when the command cannot be executed; 127 when it is not there. Ctrl-C
    passes the interrupt on and waits; a second one kills.

    Examples:
      holm exec -- python3 -c 'print(6 * 7)'
      holm exec --repo . --branch fix/login -- claude -p 'fix the login test'
      holm exec --repo . --memory 4g --cpus 2 --timeout 10m -- cargo test
      holm exec --env GITHUB_TOKEN --network host -- gh issue list
      holm exec --sandbox daytona --repo org/repo --push -- claude -p 'fix the login test'
    "#);
}

#[test]
fn doctor() {
    insta::assert_snapshot!(TestEnvironment::new().run(["doctor", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Show what this machine gives and what is missing, and prove it with a real sandbox

    Usage: holm doctor [OPTIONS]

    Options:
          --json  Print the findings as one JSON object
      -h, --help  Print help

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    The exit code is 0 when sandboxes work here, and 1 when they do not.
    "#);
}

#[test]
fn completions() {
    insta::assert_snapshot!(TestEnvironment::new().run(["completions", "-h"]), @r#"
    exit code: 0
    ----- stdout
    Print a completion script for a shell

    Usage: holm completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell to complete in [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help  Print help

    Global options:
          --data-dir <FOLDER>  Where Holm keeps sandboxes and cached checkouts [default: $HOLM_DATA_DIR,
                               or see `holm doctor`]

    Examples:
      holm completions bash > /etc/bash_completion.d/holm
      holm completions fish > ~/.config/fish/completions/holm.fish
    "#);
}

#[test]
fn every_shell_gets_a_script() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = env.run(["completions", shell]).success();
        assert!(script.contains("isolation"), "{shell}");
        assert!(!script.contains("\u{1b}["), "{shell}");
    }
}

#[test]
fn reference_pages_are_written() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.run(["__generate", "pages"]), @r#"
    exit code: 0
    ----- stdout
    pages/cli.md
    pages/exit-codes.md
    pages/environment.md
    pages/daytona-coverage.md
    pages/threads-openapi.json
    pages/seccomp.md
    "#);
    let page = |name: &str| std::fs::read_to_string(env.path("pages").join(name)).unwrap();
    assert!(page("cli.md").contains("\n## `holm sandbox create`\n"));
    assert!(!page("cli.md").contains("__generate"));
    insta::assert_snapshot!(page("exit-codes.md"), @r#"
    # Exit codes

    ## `holm exec` and `holm sandbox exec`

    | code | meaning |
    | --- | --- |
    | 0 to 255 | The command's own exit code. |
    | 124 | The timeout ended the command. What it wrote until then has been passed on. |
    | 125 | Holm itself failed, or the command line was wrong. The command may not have run. |
    | 126 | The command is there and cannot be executed. |
    | 127 | The command is not there. |
    | 128+N | Signal N ended the command: 137 is SIGKILL, which is also what a memory limit sends. |
    | 130 | Ctrl-C: it ended the command, or a second one made Holm kill it. |
    | 129, 143 | Holm was sent SIGHUP or SIGTERM and has killed the command. |
    | 141 | Whoever read the output has gone, and Holm has killed the command. |

    ## All other commands

    | code | meaning |
    | --- | --- |
    | 0 | All went well; for `holm doctor`: sandboxes work. |
    | 1 | Something failed, and standard error says what; for `holm doctor`: sandboxes do not work. |
    | 2 | The command line was wrong. |
    | 141 | Whoever read the output has gone. |
    "#);
    insta::assert_snapshot!(page("environment.md"), @r#"
    # Environment variables

    Only the command line reads the environment. Commands in a box see nothing of it but what stands here and what `--env` gives them; without isolation they see all of it.

    | variable | meaning | default |
    | --- | --- | --- |
    | `HOLM_DATA_DIR` | Where sandboxes and cached checkouts are kept; the flag `--data-dir` comes before it. | `/var/lib/holm` for root, else `$XDG_DATA_HOME/holm` |
    | `HOLM_API_KEY` | The key that `holm serve` lets clients in with, for unattended set-up: 16 characters or more, and not printed. Another value at a later start replaces it. Also the key, or the token, that `holm thread` asks a server with. | a key that is made at the first start and printed once |
    | `HOLM_POSTGRES_URL` | Where `holm serve` keeps streams and threads when several servers share them: `postgres://user:password@host:port/database`. Organisations of one name are one on all of these servers; each has API keys of its own, and they share blobs by `holm serve --blobs`. | the server's own database, below `--data` |
    | `HOLM_API_URL` | The server that `holm thread` asks. | `http://127.0.0.1:3986/api` |
    | `HOLM_LOG` | What `holm serve` and `holm stream-proxy` log, as `error`, `warn`, `info`, `debug` or `trace`, also by module (`info,holm_server=debug`). With `--sandbox daytona` it shows what is asked of the server (`debug`). | `info`; with `--sandbox daytona` nothing is logged |
    | `HOLM_CONFIG` | The configuration file, as JSON. | `$XDG_CONFIG_HOME/holm/config.json` |
    | `XDG_CONFIG_HOME` | The folder of programs' configurations. | `$HOME/.config` |
    | `DAYTONA_API_KEY` | The key with which `--sandbox daytona` asks its server. There is no flag for it, since others can read command lines. | `daytona.apiKey` of the configuration file |
    | `DAYTONA_API_URL` | Where that server is. | `daytona.apiUrl` of the configuration file, else `https://app.daytona.io/api` |
    | `DAYTONA_TARGET` | The region in which sandboxes are made there. | `daytona.target` of the configuration file, else `us` |
    | `DAYTONA_SIMPLE_EXEC` | `1` runs commands there by one request each, with their outputs merged. For debugging only. | a session for each command |
    | `GITHUB_TOKEN` | With it `--sandbox daytona` clones private repositories, and `--push` pushes and opens pull requests. There is no flag for it. | public repositories only |
    | `XDG_DATA_HOME` | The folder of programs' data, when an ordinary user sets no `HOLM_DATA_DIR`. | `$HOME/.local/share` |
    | `HOME` | The home folder, whose toolchains (cargo, rustup, nvm and the like) a box may read. | no toolchains from a home folder |
    | `TMPDIR` | Where worktrees are registered (`harness-<id>`), which is also where a box sees its files. | `/tmp` |
    | `PATH` | Those of its folders that a box can see are searched for commands inside, before the system's. | the system's folders only |
    | `TERM`, `COLORTERM`, `LANG`, `TZ` | Passed on into a box as they are. Nothing else of the environment is. | not set inside |
    | `NO_COLOR` | No colours, here and (passed on) inside a box. | colours on a terminal only |
    | `CLICOLOR_FORCE` | Colours even where the output is no terminal. | colours on a terminal only |
    | `COLUMNS` | The width that help texts are wrapped at, up to 100. | the terminal's width |

    A command in a box finds `HOLM_SANDBOX=1` in its environment, and its own `HOME`, `USER`, `SHELL` and `TMPDIR`.
    "#);
    assert!(page("daytona-coverage.md").contains("| `POST /sandbox` | createSandbox | yes |"));
    for name in [
        "cli.md",
        "exit-codes.md",
        "environment.md",
        "daytona-coverage.md",
        "seccomp.md",
    ] {
        assert!(
            page(name).lines().all(|line| line == line.trim_end()),
            "{name}"
        );
    }
}

#[test]
fn reference_does_not_depend_on_the_terminal() {
    let env = TestEnvironment::new().with("COLUMNS", "40");
    env.run(["__generate", "narrow"]).success();
    let wide = TestEnvironment::new();
    wide.run(["__generate", "wide"]).success();
    assert_eq!(
        std::fs::read(env.path("narrow/cli.md")).unwrap(),
        std::fs::read(wide.path("wide/cli.md")).unwrap()
    );
}
