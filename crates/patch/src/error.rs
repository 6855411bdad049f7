//! Why a patch cannot be read, and why it cannot be applied.

/// A text that is no patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the patch cannot be read{}: {problem}", if *line == 0 { String::new() } else { format!(", line {line}") })]
pub struct ParseError {
    /// From 1 on; 0 if it is about the whole.
    pub line: usize,
    pub problem: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self {
            line,
            problem: problem.into(),
        }
    }
}

/// A patch that does not fit the files. Nothing of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("`{path}` does not exist, and the patch changes it")]
    Missing { path: String },
    #[error("`{path}` exists already, and the patch creates it")]
    Exists { path: String },
    #[error("the patch changes `{path}` twice; give the parts one after the other")]
    Twice { path: String },
    #[error("hunk {hunk} of {hunks} does not fit `{path}`: {problem}")]
    Hunk {
        path: String,
        /// From 1 on.
        hunk: usize,
        hunks: usize,
        problem: String,
    },
    #[error("the patch deletes `{path}`, which holds other lines than the patch says")]
    DeleteDiffers { path: String },
    /// The caller did not give what [`crate::Patch::paths_to_read`] asks for.
    #[error("nobody looked whether `{path}` is there")]
    NotGiven { path: String },
}
