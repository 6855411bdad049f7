//! Tokens that open one thread for one run, and tickets that let a browser read it once.
//!
//! ```text
//!     API key ──mint──▶ token (JWT, HS256, two hours) ──renew, while the run is the current one──▶ token
//!                          └── Authorization: Bearer … ──verify──▶ Claims: organisation, thread, run, verbs, producer
//!     API key or token ──▶ ticket (random, one minute) ──?ticket=… ──▶ read once ──in each event's id──▶ next ticket …
//! ```
//!
//! - `hs256` is the only algorithm that exists here: what is signed otherwise cannot even be checked.
//! - `keyring` keeps the keys: each organisation has its own, at most two that are good, in the store of the streams, so that
//!   several servers over one store know each other's tokens.
//! - `shares` bounds what those who have them may occupy at once.
//! - `mint` makes tokens, `verify` reads them, `tickets` are used up.
//!
//! **Invariants:** no key leaves this module, not even in a debug print. A key of one organisation signs for no other. A token says which
//! run it is for; whether that run may still write is decided where entries are stored, by the thread's rules.

mod claims;
mod hs256;
mod keyring;
mod mint;
mod shares;
mod tickets;
mod verify;

pub(crate) use claims::{Claims, Operation, TTL_SECONDS_MAX};
pub(crate) use keyring::KeyRing;
pub(crate) use mint::{Grant, MintedFor, TokenError, mint_stream_write_jwt};
pub(crate) use shares::{Holder, Share, Shares, Slot, keep_place};
pub(crate) use tickets::{Taken, Ticket, Tickets};
pub(crate) use verify::{Invalid, looks_like_token, verify};

#[cfg(test)]
mod tests;
