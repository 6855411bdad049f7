//! Patches as agents write them: unified diffs, git's extended ones, and Codex's `*** Begin Patch`.
//!
//! ```text
//! text ──parse──▶ Patch ──paths_to_read──▶ the caller reads files ──apply──▶ Outcome: what each path shall hold
//! ```
//!
//! There is no I/O here: whoever has the files gives their contents and writes what comes out. A patch applies as a whole or not
//! at all, and an error says which hunk of which file does not fit, and why.
//!
//! **Invariants:** contents are bytes and need not be text; a line that a hunk keeps stays as it is in the file, byte for byte;
//! input never panics; work and memory are bounded ([`PATCH_BYTES_MAX`], [`FILES_MAX`]).

mod apply;
mod codex;
mod error;
mod lines;
mod model;
mod place;
mod unified;
mod unified_names;

pub use apply::{Contents, FileState, Outcome, apply};
pub use error::{ApplyError, ParseError};
pub use model::{Dialect, Executable, FileChange, Hunk, Line, Patch};

/// A longer patch is refused.
pub const PATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A patch of more files is refused.
pub const FILES_MAX: usize = 10_000;

/// Reads a patch; its own first lines tell which kind it is.
pub fn parse(text: &[u8]) -> Result<Patch, ParseError> {
    if text.len() > PATCH_BYTES_MAX {
        return Err(ParseError::new(
            0,
            format!("it is longer than {PATCH_BYTES_MAX} bytes"),
        ));
    }
    let lines = lines::split(text);
    let patch = if codex::begins(&lines) {
        codex::parse(&lines)?
    } else {
        unified::parse(&lines)?
    };
    if patch.changes.len() > FILES_MAX {
        return Err(ParseError::new(
            0,
            format!("it changes more than {FILES_MAX} files"),
        ));
    }
    Ok(patch)
}
