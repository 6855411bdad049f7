//! The server as its clients see it.

mod kernel;
mod support;
