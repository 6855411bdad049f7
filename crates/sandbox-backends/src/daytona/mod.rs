//! Sandboxes on another machine, through Daytona's API: its cloud, or `holm serve`.
//!
//! ```text
//! create ──▶ sandbox ──▶ exec ──▶ session ──▶ command.sh ──▶ the command
//!                 │         └─── log ◀── marks ◀───┘
//!                 └────▶ files, trees ──▶ staging folder ──▶ helper.sh ──▶ the file
//! ```
//!
//! - Nothing here needs what only one of the two servers has. Where Daytona is not what the contract needs, a few lines of
//!   shell run in the sandbox (`*.sh` beside this file); they need `sh`, `coreutils`, `grep` and `git` there, no more.
//! - Every path is confined lexically before the first call, and again inside by where entering a folder has led.
//! - A sandbox that was begun and not finished is deleted, also when whoever waited for it has gone.
//! - Neither a key nor a token is in a command, in an address or in the text of an error.

mod again;
mod branch;
mod bundle;
mod create;
mod errors;
mod exec;
mod files;
mod github;
mod input;
mod inside;
mod marks;
mod options;
mod outputs;
mod pull_request;
mod sandbox;
mod script;
mod simple_exec;
mod trees;
mod unfinished;
mod words;

pub use create::{
    Creation, attach_daytona_sandbox, create_daytona_sandbox, create_daytona_sandbox_unless,
};
pub use github::GitHub;
pub use options::{
    DEFAULT_SNAPSHOT, DEFAULT_TARGET, DaytonaOptions, ExecWay, LABEL_BRANCH, LABEL_ENVIRONMENT,
    LABEL_REPOSITORY, LABEL_RUN, LABEL_THREAD, Labels, Lifetime, MISSING_KEY, Resources,
    SandboxOptions,
};
pub use pull_request::{Opener, PullRequest, PushResult, commit_uncommitted, push_and_create_pr};
pub use sandbox::DaytonaSandbox;
