//! What may be done twice is tried again when the way there or the server fails for a moment.
//!
//! The client does so for calls that are harmless by their method. A command is not: only whoever wrote it knows.

use std::time::Duration;

use holm_daytona_client::ClientError;
use holm_sandbox::{Result, SandboxError};

const TRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Does it up to three times.
pub(super) async fn again<T, F>(attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Err(error) if tries < TRIES_MAX && may_pass(&error) => {
                tracing::debug!(tries, %error, "trying again");
                tokio::time::sleep(PAUSE * tries).await;
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Whether the next try may succeed. What is too much at the moment, or has no connection, was tried again already.
fn may_pass(error: &SandboxError) -> bool {
    let SandboxError::Backend { source, .. } = error else {
        return false;
    };
    let Some(error) = source.downcast_ref::<ClientError>() else {
        return false;
    };
    matches!(
        error,
        ClientError::Interrupted { .. } | ClientError::Protocol { .. }
    ) || matches!(error.status(), Some(500 | 502 | 503 | 504))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::errors::remote;
    use super::*;

    fn lost() -> SandboxError {
        let action = "look".to_owned();
        let source = "reset".into();
        remote("look", ClientError::Interrupted { action, source })
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_and_what_stays_is_not() {
        let deadline = || {
            let (action, after) = ("look".to_owned(), PAUSE);
            remote("look", ClientError::Deadline { action, after })
        };
        let cases: [(fn() -> SandboxError, u32); 2] = [(lost, TRIES_MAX), (deadline, 1)];
        for (error, expected) in cases {
            let tries = AtomicU32::new(0);
            let outcome = again(|| async {
                tries.fetch_add(1, Ordering::Relaxed);
                Err::<(), _>(error())
            });
            assert!(outcome.await.is_err());
            assert_eq!(tries.load(Ordering::Relaxed), expected);
        }
    }

    #[tokio::test]
    async fn success_ends_it() {
        let tries = AtomicU32::new(0);
        let outcome = again(|| async {
            if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(lost());
            }
            Ok("done")
        });
        assert_eq!(outcome.await.unwrap(), "done");
    }
}
