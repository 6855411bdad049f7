//! Tests that hold for root and for an ordinary user.

mod doctor;
mod endings;
mod exec;
mod pushing;
mod repository;
mod sandbox;
mod serve;
mod streams;
