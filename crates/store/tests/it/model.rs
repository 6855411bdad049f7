//! One random history, against a store and against the model in memory.
//!
//! A store under test implements [`Subject`]; then `prop_state_machine!` runs [`Histories`] over it:
//!
//! - each answer is the model's, also for commands that are sent together;
//! - after each step, everything that can be read is what the model has, read in small pages and from old offsets;
//! - what was acknowledged as appended is there once and in order, by a count that does not know the rules of streams;
//! - a crash before the commit leaves nothing, one after it everything; then the same command is sent again.
//!
//! Ids of streams need not be the model's, only be as many and in the same order: [`Pairing`] translates.

mod harness;
mod pairing;
mod rules;
mod steps;

use std::marker::PhantomData;
use std::sync::Arc;

use holm_thread_log::{Rules, StreamStore};
use proptest::strategy::{BoxedStrategy, Just, Strategy as _};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

pub(crate) use self::harness::Harness;
use self::pairing::Pairing;
use self::rules::CountMessages;
use self::steps::Step;

/// A store that can be killed and opened again.
pub(crate) trait Subject: Sized {
    /// A new, empty one.
    fn start(rules: Arc<dyn Rules>) -> Self;

    fn store(&self) -> &dyn StreamStore;

    /// The next command that changes something ends like this.
    fn crash_next(&self, at: CrashAt);

    /// After a crash, or between two commands; with a new process, as far as the store can tell.
    fn reopen(self) -> Self;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashAt {
    BeforeCommit,
    BetweenCommitAndWake,
    BetweenWakeAndAnswer,
}

/// The steps are drawn without looking: most commands of a small world mean something.
#[derive(Debug)]
pub(crate) struct AnySteps;

impl ReferenceStateMachine for AnySteps {
    type State = ();
    type Transition = Step;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Step> {
        steps::any_step().boxed()
    }

    fn apply((): (), _step: &Step) {}
}

#[derive(Debug)]
pub(crate) struct Histories<S>(PhantomData<S>);

impl<S: Subject> StateMachineTest for Histories<S> {
    type SystemUnderTest = Harness<S>;
    type Reference = AnySteps;

    fn init_test((): &()) -> Harness<S> {
        Harness::start()
    }

    fn apply(harness: Harness<S>, (): &(), step: Step) -> Harness<S> {
        harness.step(step)
    }

    fn check_invariants(harness: &Harness<S>, (): &()) {
        harness.assert_same();
    }
}
