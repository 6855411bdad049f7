//! With real boxes.

mod clocks;
mod copies;
mod events;
mod execute;
mod files;
mod git;
mod images;
mod inside;
mod lifecycle;
mod network;
mod settings;
mod sizes;
mod system;
mod tenants;
mod transfers;
mod volumes;
