//! The one suite over the sandbox contract. A backend is finished when it passes.
//!
//! Every case is a function over a [`Backend`]; the macros below make one test of each, so that a
//! failure has a name:
//!
//! ```ignore
//! mod conformance {
//!     holm_testkit::conformance_tests!(MyBackend::new());
//! }
//! ```
//!
//! `conformance_tests!` is for sandboxes on a repository, `directory_conformance_tests!` for those
//! without git: the same cases save those that need commits.

use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use holm_sandbox::{Exec, ExecOutcome, Sandbox, TeardownReport, UncommittedWork};

use crate::TestRepository;

pub mod branches;
pub mod commands;
pub mod confinement;
pub mod endings;
pub mod files;
pub mod life;
pub mod output;
pub mod trees;

/// Longer than anything here takes on a busy machine; nothing waits for it in full.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the suite needs of a backend.
#[async_trait]
pub trait Backend: Send + Sync {
    /// A sandbox with a worktree of `repository` on the new branch `branch`.
    async fn repository_sandbox(
        &self,
        repository: &TestRepository,
        branch: &str,
    ) -> Box<dyn Sandbox>;

    /// A sandbox of whatever kind the backend is tested with.
    async fn sandbox(&self) -> Subject {
        let repository = TestRepository::new();
        let sandbox = self.repository_sandbox(&repository, "subject").await;
        Subject {
            sandbox,
            repository: Some(repository),
        }
    }

    /// What a user does after teardown to have the kept branches in the repository; nothing where they are there.
    fn bring_home(&self, repository: &TestRepository, report: &TeardownReport) {
        let _ = (repository, report);
    }

    /// Whether a branch is in the repository from the beginning, or from the first commit on.
    fn branches_begin(&self) -> BranchesBegin {
        BranchesBegin::InTheRepository
    }

    /// How often a race is tried: as often as takes a few seconds.
    fn race_rounds(&self) -> u32 {
        400
    }

    /// Fails if something outlived the sandboxes of this backend: a mount, a process, a file.
    fn assert_nothing_is_left(&self);
}

/// Where a sandbox's branch is before it has a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchesBegin {
    InTheRepository,
    InTheSandbox,
}

/// A sandbox under test, with what it stands on.
#[derive(Debug)]
pub struct Subject {
    /// The sandbox itself.
    pub sandbox: Box<dyn Sandbox>,
    /// The repository that it was made from, if any.
    pub repository: Option<TestRepository>,
}

impl Deref for Subject {
    type Target = dyn Sandbox;

    fn deref(&self) -> &Self::Target {
        self.sandbox.as_ref()
    }
}

impl Subject {
    /// Ends the sandbox and checks that this went without a trace.
    pub async fn finish(self, backend: &dyn Backend) -> TeardownReport {
        finish(self.sandbox, backend).await
    }
}

/// Ends a sandbox, keeping its work, and checks that nothing is left of it.
pub async fn finish(sandbox: Box<dyn Sandbox>, backend: &dyn Backend) -> TeardownReport {
    let report = sandbox.teardown(UncommittedWork::Keep).await;
    assert_eq!(report.warnings, Vec::<String>::new());
    assert!(report.leftovers.is_empty(), "{:?}", report.leftovers);
    backend.assert_nothing_is_left();
    report
}

/// Runs a shell script in the sandbox; it must succeed. Returns its output without the last newline.
pub async fn sh(sandbox: &dyn Sandbox, script: &str) -> String {
    let outcome = run(sandbox, script).await;
    assert!(
        outcome.success(),
        "`{script}` failed: {outcome:?}\n{}",
        outcome.stderr_text()
    );
    let stdout = outcome.stdout_text();
    stdout.strip_suffix('\n').unwrap_or(&stdout).to_owned()
}

/// Runs a shell script in the sandbox, whatever comes of it.
pub async fn run(sandbox: &dyn Sandbox, script: &str) -> ExecOutcome {
    let exec = Exec::new(["sh", "-c", script]).timeout(PATIENCE);
    sandbox.exec(exec).await.unwrap()
}

/// A number that no other process of the machine waits for, as an argument of `sleep`.
pub fn unusual_seconds() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let number = RandomState::new().build_hasher().finish() % 1_000_000_000;
    format!("98765.{number:09}")
}

/// Waits until no process that the sandbox can see sleeps for this long.
pub async fn wait_until_gone(sandbox: &dyn Sandbox, seconds: &str) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let left = sleepers(sandbox, seconds).await;
        if left.is_empty() {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "still there: {left}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The processes that the sandbox can see and that sleep for this long.
pub async fn sleepers(sandbox: &dyn Sandbox, seconds: &str) -> String {
    // A pattern that does not match itself on grep's own command line.
    let (first, rest) = seconds.split_at(1);
    sh(
        sandbox,
        &format!("grep -l -a -e '[{first}]{rest}' /proc/[0-9]*/cmdline 2>/dev/null || true"),
    )
    .await
}

/// `path` as the contract takes it.
pub(crate) fn at(path: &str) -> &Path {
    Path::new(path)
}

/// Makes one test per case for a backend whose sandboxes have a repository.
#[macro_export]
macro_rules! conformance_tests {
    ($backend:expr) => {
        $crate::directory_conformance_tests!($backend);
        $crate::conformance_cases! { $backend;
            branches: a_snapshot_is_a_commit_with_every_change,
            branches: a_snapshot_without_changes_is_one_too,
            branches: the_default_branch_is_the_one_of_origin,
            branches: without_a_remote_the_default_branch_is_the_one_checked_out,
            branches: a_pushed_branch_is_at_origin,
            branches: pushing_brings_later_commits_too,
            branches: a_refused_push_is_an_outcome_without_the_token,
            branches: only_the_own_branch_is_pushed,
            branches: commits_are_in_the_repository_after_teardown,
            branches: uncommitted_work_is_kept_as_a_commit,
            branches: discarded_work_is_gone_and_commits_are_kept,
            branches: an_untouched_sandbox_keeps_nothing,
        }
    };
}

/// Makes one test per case for a backend whose sandboxes have no git.
#[macro_export]
macro_rules! directory_conformance_tests {
    ($backend:expr) => {
        $crate::conformance_cases! { $backend;
            commands: a_command_that_succeeds_says_so,
            commands: a_failing_command_is_an_outcome_with_its_exit_code,
            commands: variables_arrive_as_given,
            commands: an_invalid_variable_name_is_refused,
            commands: a_secret_arrives_and_is_never_shown,
            commands: input_is_at_its_end_unless_given,
            commands: input_bytes_arrive,
            commands: no_shell_reads_the_arguments,
            commands: a_command_starts_in_the_chosen_directory,
            commands: a_directory_outside_is_a_confinement_violation,
            commands: a_missing_directory_is_not_found,
            commands: a_command_that_is_not_there_is_named,
            commands: a_file_that_cannot_be_executed_is_told_from_a_missing_one,
            commands: what_cannot_run_is_refused_beforehand,
            endings: a_timeout_keeps_the_output_and_ends_the_whole_tree,
            endings: a_command_that_ignores_signals_is_killed,
            endings: a_dropped_command_is_killed,
            endings: an_interrupt_reaches_the_command,
            endings: a_kill_ends_the_command_at_once,
            endings: children_end_with_the_sandbox_at_the_latest,
            endings: a_talkative_child_does_not_hold_its_command,
            output: the_two_outputs_are_kept_apart,
            output: output_beyond_the_cap_is_cut_and_marked,
            output: endless_output_takes_no_memory,
            output: output_that_is_no_text_arrives_as_it_is,
            output: streamed_output_is_whole_and_in_order,
            output: streamed_output_comes_while_the_command_runs,
            files: what_is_written_is_read_back,
            files: parent_directories_are_made,
            files: an_upload_writes_all_or_refuses_all,
            files: new_files_are_for_others_to_read_at_most,
            files: an_overwritten_file_keeps_its_mode,
            files: a_reader_never_sees_half_a_file,
            files: what_is_no_regular_file_is_not_read,
            files: a_deleted_file_is_gone_and_only_that,
            files: a_directory_is_listed_in_the_order_of_bytes,
            files: listing_says_what_is_wrong,
            files: the_current_directory_can_be_chosen,
            trees: an_exported_directory_is_on_the_host,
            trees: an_export_does_not_follow_links_outside,
            trees: an_export_does_not_overwrite,
            trees: a_directory_of_the_host_is_copied_in,
            confinement: dot_dot_is_refused_by_every_operation,
            confinement: absolute_paths_outside_are_refused_by_every_operation,
            confinement: links_that_lead_out_are_refused_by_every_operation,
            confinement: a_link_at_the_end_is_replaced_and_not_followed,
            confinement: a_prefix_is_not_a_parent,
            confinement: a_directory_swapped_for_a_link_leads_nowhere,
            life: directories_are_where_the_contract_says,
            life: twenty_tasks_work_at_once,
            life: teardown_ends_what_still_runs,
            life: a_second_teardown_reports_nothing,
            life: after_teardown_every_operation_says_so,
            life: what_is_unsupported_is_announced,
        }
    };
}

/// Makes a test of each named case.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($backend:expr; $($module:ident: $case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let backend = $backend;
                $crate::conformance::$module::$case(&backend).await;
            }
        )*
    };
}
