//! What holds for root and for an ordinary user alike.

mod conformance;
mod criteria;
