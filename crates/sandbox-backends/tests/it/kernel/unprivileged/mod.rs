//! What holds for root and for an ordinary user alike.

mod cache;
mod conformance;
mod criteria;
mod fallback;
mod harvest;
mod hostile;
mod kinds;
mod lifecycle;
mod pool;
mod privacy;
mod status;
mod user_repository;
