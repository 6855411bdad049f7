//! The server as its clients see it.

mod kernel;
mod serving;
mod support;
