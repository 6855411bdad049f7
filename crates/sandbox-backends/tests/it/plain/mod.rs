//! Isolation `none`: seed 001 to the letter, plain worktrees and plain processes.

mod unprivileged;
