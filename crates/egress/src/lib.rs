//! The gateway through which a box reaches the outside world, by policy.
//!
//! A box's network namespace has loopback only. A listener in it (`127.0.0.1:3128` there) is
//! accepted from outside of the box, by [`Gateway::serve`]: an HTTP proxy that decides for each
//! connection ([`decide`]), keeps what it refused, and puts secrets into requests to the hosts that
//! they are for ([`SecretRule`]). It knows neither boxes nor Daytona.
//!
//! What a sandbox sends is hostile. What is bounded is in [`Limits`]; what is never reached,
//! whatever a policy says, is in [`Rules`].

mod address;
mod answer;
mod authority;
mod connection;
mod direct;
mod forward;
mod gateway;
mod headers;
mod host;
mod limits;
mod lists;
mod opening;
mod policy;
mod record;
mod resolve;
mod rules;
mod sandbox;
mod secret;
mod substitute;
mod target;
mod tasks;
mod trust;
mod tunnel;
mod watched;

pub use authority::{AuthorityError, CertificateAuthority};
pub use direct::DirectError;
pub use gateway::{Gateway, GatewayError, Handle, Settings};
pub use holm_client_tls::Roots;
pub use host::{Host, HostError};
pub use limits::Limits;
pub use lists::{
    DomainError, DomainPattern, ENTRIES_MAX, Ipv4Net, ListError, NetworkError, parse_domains,
    parse_networks,
};
pub use policy::{Candidate, Grant, Place, Policy, Reason, Verdict, decide, refuse_unresolved};
pub use record::{Counters, Refusal};
pub use resolve::{Resolve, SystemResolver};
pub use rules::Rules;
pub use secret::{Hidden, SecretError, SecretHost, SecretRule};
pub use trust::{bundle_pem, proxy_environment, trust_environment};
