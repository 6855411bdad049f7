//! The server as its clients see it.

mod kernel;
mod routes;
mod serving;
mod support;
