//! The gateway through which a box reaches the outside world, by policy: the decisions.

mod address;
mod host;
mod lists;
mod policy;
mod rules;

pub use host::{Host, HostError};
pub use lists::{
    DomainError, DomainPattern, ENTRIES_MAX, Ipv4Net, ListError, NetworkError, parse_domains,
    parse_networks,
};
pub use policy::{Candidate, Grant, Place, Policy, Reason, Verdict, decide, refuse_unresolved};
pub use rules::Rules;
